"""The parts of an exact answer: sums over all states, the best state, samples."""

from dataclasses import replace

import numpy as np

from skcrbm.utils.limits import EXACT_NANOSECONDS, MAX_EXACT_SECONDS, MAX_UNITS

_SUMS = frozenset({"marginals", "statistics", "log_partition"})
_STATES = frozenset({"map", "marginal_map"})
_SAMPLES = frozenset({"samples", "sample_log_prob"})


def answer_in_parts(method, energy, query, *, sums, best, draw):
    """Answer a query part by part.

    Parameters
    ----------
    method : Exact
    energy : BaseEnergy
    query : Query
    sums, best, draw : callable
        Solvers: of marginals, statistics and log Z; of "map" and "marginal_map", with
        max-marginals; of samples. Each is asked for its part alone.

    Returns
    -------
    dict
        Of `InferenceResult` fields. The log-odds are those of the marginals if these are asked
        for, else max-marginals of the state.
    """
    _check_time(energy, query)
    fields = {}
    parts = [(best, _STATES), (sums, _SUMS), (draw, _SAMPLES)]
    if "marginals" not in query.returns:  # the last log-odds stay
        parts.reverse()
    for solve, part in parts:
        asked = query.returns & part
        if asked:
            fields |= solve(method, energy, replace(query, returns=asked))
    if "map_bound" in query.returns:
        fields["map_bound"] = _score(energy, query, fields["assignment"])
        fields["gap"] = np.zeros(energy.n_models)
    return fields


def exact_seconds(energy, returns):
    """Estimate what "exact" takes by enumeration, in seconds on one core.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy
    returns : iterable of str

    Returns
    -------
    float
    """
    total = 0.0
    for part, nanoseconds in zip((_SUMS, _STATES, _SAMPLES), EXACT_NANOSECONDS):
        for query in part & set(returns):
            n_visited, n_others = _sizes(energy, query)
            total = max(total, nanoseconds * 1e-9 * float((2.0**n_visited * n_others).sum()))
    return total


def _sizes(energy, query):
    """Variables (N,) that are visited in all states, and how many others each state takes."""
    free, k = energy.free, energy.n_enumerated(query)
    n_free = free.sum(axis=1)
    if energy.n_hidden == 0:
        n_visited = np.minimum(k, n_free)
        return n_visited, np.maximum(1, n_free - n_visited)
    # States of a layer: the held units of the other cost what free ones do, and held ones of its
    # own are left out of the search for the best state alone.
    n_visited = np.full(len(free), k)
    if query in _STATES:
        visible_first = query == "marginal_map" or energy.n_visible < energy.n_hidden
        layer = slice(energy.n_visible) if visible_first else slice(energy.n_visible, None)
        n_visited = free[:, layer].sum(axis=1)
    return n_visited, max(1, energy.n_variables - k)


def _check_time(energy, query):
    seconds = exact_seconds(energy, query.returns)
    if seconds <= MAX_EXACT_SECONDS:
        return
    n_units = max(_sizes(energy, part)[0].max() for part in query.returns)
    if n_units <= MAX_UNITS:  # others are refused by their size
        raise ValueError(
            f"'exact' would enumerate 2^{n_units} states of each of {energy.n_models} models, "
            f"about {seconds / 3600:.0f} hours on one core. Use 'sum_product' or another "
            "approximate method, or fewer models at a time"
        )


def _score(energy, query, states):
    """Score of states: joint of "map", hidden variables summed out of "marginal_map"."""
    if energy.evidence is not None:
        states = np.where(energy.free, states, energy.evidence).astype(np.int8)
    if "map" in query.returns:
        return energy.score(states)
    return energy.log_weight(states[:, : energy.n_visible])
