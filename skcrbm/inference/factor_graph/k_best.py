"""Find the k best states of a factor graph by elimination of variables."""

from __future__ import annotations

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.factor_graph._exact import Model, chunks_of
from skcrbm.utils.limits import MAX_ELIMINATED_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map


def k_best_states(
    energy: FactorGraphEnergy, k: int, max_entries: int = MAX_ELIMINATED_ENTRIES
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best states (m, n) of one model with n variables, and their scores (m,).

    The states are in descending order of the scores. The number m is k, or the number of states of
    positive weight if the model has fewer than k such states. A ValueError is raised if a table
    would have more than `max_entries` entries.
    """
    states, scores = k_best_of_models(energy, k, max_entries)
    n_found = int(np.count_nonzero(scores[0] > -np.inf))
    return states[0, :n_found], scores[0, :n_found]


def k_best_of_models(
    energy: FactorGraphEnergy,
    k: int,
    max_entries: int = MAX_ELIMINATED_ENTRIES,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best states (N, m, n) of each of N models, and their scores (N, m).

    The states are in descending order of the scores. The number m is k, or less if no model has k
    states of positive weight. If a model has fewer than m such states, its last scores are -inf,
    and its last states are copies of its best state. See `k_best_states` for errors.
    """
    states = np.zeros((energy.n_models, k, energy.n_variables), np.int64)
    scores = np.full((energy.n_models, k), -np.inf)

    def run(chunk):
        model = Model(energy, chunk)
        top, conditional, _ = model.eliminate(True)
        found, losses = model.k_best(conditional, k)
        states[chunk.rows] = found[..., : energy.n_variables]
        scores[chunk.rows] = top[:, None] + losses

    with one_blas_thread():
        for _ in ordered_map(run, chunks_of(energy, max_entries), n_jobs):
            pass
    most = int((scores > -np.inf).sum(axis=1).max(initial=0))
    return states[:, :most], scores[:, :most]
