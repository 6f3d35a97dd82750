"""The parts of an exact answer: sums over all states, the best state, samples."""

from dataclasses import replace

import numpy as np

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


def _score(energy, query, states):
    """Score of states: joint of "map", hidden variables summed out of "marginal_map"."""
    if energy.evidence is not None:
        states = np.where(energy.free, states, energy.evidence).astype(np.int8)
    if "map" in query.returns:
        return energy.score(states)
    return energy.log_weight(states[:, : energy.n_visible])
