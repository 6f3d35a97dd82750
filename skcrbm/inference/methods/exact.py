"""Exact inference by enumeration."""

from dataclasses import replace
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skcrbm.energies.base import QUERIES
from skcrbm.inference.base import InferenceMethod
from skcrbm.utils.limits import (
    EXACT_NANOSECONDS,
    MAX_ELIMINATED_ENTRIES,
    MAX_ENUMERATED,
    MAX_EXACT_SECONDS,
    MAX_UNITS,
)


class Exact(InferenceMethod):
    """Enumerate the states of the smaller layer; the other one sums out analytically.

    Of a `FactorGraphEnergy` or `SparseIsingEnergy`, variables are eliminated one by one, next the
    one that joins the fewest of its neighbours; held ones are left out first. The cost is that of
    a table of as many variables as the largest set of neighbours (the width) and one more.

    Of an `IsingEnergy`, all states of its free labels are enumerated; of an energy without a
    solver of its own, all states of its free variables.

    Log Z is exact, "map" the best joint state, found in the same way, and "marginal_map"
    the visible state with the largest sum over hidden states, for which the visible layer
    is enumerated; of equal states it is the first one in binary order. "samples" are
    independent. Computed in float64 whatever the dtype of the energy; the cost is
    2^min(V, H) max(V, H) per model, and 2^V H for "marginal_map"; 2^L per Ising model with L
    free labels.

    Parameters
    ----------
    max_units : int, default=20
        Refuse models whose smaller layer has more units, or with more free labels.
    max_entries : int, default=2**24
        Refuse an elimination with a larger table than this, 8 bytes an entry, or with tables of
        16 times as many entries in all. What it takes is known before any is made.
    random_state : int, RandomState or None, default=None
        For "samples", which are independent.

    Raises
    ------
    ValueError
        By `infer`, if the layer to be enumerated is larger than `max_units`, or the tables of an
        elimination larger than `max_entries`, with the width; if enumeration would take more than
        a day on one core; if no state has a positive weight.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> energy = RBMEnergy([[0.0, 0.0]], [0.0], [0.0, 0.0])
    >>> infer(energy, "exact", returns=("log_partition",)).log_partition.round(4)
    array([2.0794])
    """

    name: ClassVar = "exact"
    answers: ClassVar = QUERIES
    _parameter_constraints: ClassVar = {
        "max_units": [Interval(Integral, 0, MAX_UNITS, closed="both")],
        "max_entries": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, max_units=MAX_ENUMERATED, random_state=None, max_entries=MAX_ELIMINATED_ENTRIES
    ):
        self.max_units = max_units
        self.max_entries = max_entries
        self.random_state = random_state


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
