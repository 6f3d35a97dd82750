"""Find the k best states of energies, by elimination of variables or by enumeration.

Energies of pairs and RBMs are converted to factor graphs, whose variables are eliminated. If an
energy is not a product of tables, all its states are enumerated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy, FactorGraphEnergy
from skcrbm.inference.exact.all_states import Enumerated, check_size
from skcrbm.inference.exact.elimination import Model, chunks_of
from skcrbm.inference.rbm._group_messages import as_factor_graph
from skcrbm.inference.registry import classes_of_the_model
from skcrbm.utils.limits import MAX_ELIMINATED_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks


def best_states(method: Any, energy: BaseEnergy, query: Any) -> dict[str, np.ndarray]:
    """Return the fields `best_states` and `best_scores` of an `InferenceResult`."""
    k, kinds = query.n_best, classes_of_the_model(type(energy))
    if "FactorGraphEnergy" in kinds:
        found = k_best_of_models(energy, k, method.max_entries, query.n_jobs)
    elif {"RBMEnergy", "IsingEnergy"} & set(kinds):
        graph = FactorGraphEnergy.from_energy(energy)
        found = k_best_of_models(graph, k, method.max_entries, query.n_jobs)
    elif {"GroupedRBMEnergy", "OneHotRBMEnergy"} & set(kinds):
        found = _of_classes(energy, k, method.max_entries, query.n_jobs)
    else:
        check_size(method, energy)
        found = _of_all_states(energy, k, query.n_jobs)
    states = np.full((energy.n_models, k, energy.n_variables), -1, energy.state_dtype)
    scores = np.full((energy.n_models, k), -np.inf)
    for row, (own, own_scores) in enumerate(zip(*found)):
        own = own[own_scores > -np.inf].astype(energy.state_dtype)
        values = energy.rows(np.full(len(own), row)).score(own)
        order = np.argsort(-values, kind="stable")
        states[row, : len(own)], scores[row, : len(own)] = own[order], values[order]
    return {"best_states": states, "best_scores": scores}


def k_best_of_models(
    energy: Any, k: int, max_entries: int = MAX_ELIMINATED_ENTRIES, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best states (N, m, n) of each model of a factor graph, and their scores (N, m).

    The states are in descending order of the scores. The number m is k, or less if no model has k
    states of positive weight. If a model has fewer than m such states, its last scores are -inf,
    and its last states are copies of its best state. A ValueError is raised if a table, or the list
    of the states of a model, would have more than `max_entries` entries.
    """
    if k * energy.n_variables > max_entries:
        raise ValueError(
            f"{k} best states of {energy.n_variables} variables are more than {max_entries} "
            "entries; lower the number of states (n_best of infer, k of predict_topk)"
        )
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


def _of_classes(energy, k, max_entries, n_jobs):
    """Return the k best states of RBMs over outputs with classes, and their scores.

    A class that the evidence excludes has a very low log-weight in the factor graph, so its states
    come last; their scores are set to -inf.
    """
    codes, scores = k_best_of_models(as_factor_graph(energy), k, max_entries, n_jobs)
    n_outputs = codes.shape[2] - energy.n_hidden
    units = energy.units.units_of(codes[..., :n_outputs])
    states = np.concatenate([units, codes[..., n_outputs:]], axis=2)
    if energy.evidence is not None:
        held = energy.evidence[:, None]
        excluded = (~np.isnan(held) & (states != held)).any(axis=2)
        scores = np.where(excluded, -np.inf, scores)
    return states, scores


def _of_all_states(energy, k, n_jobs):
    """Return the k best states of any energy, and their scores; all states are enumerated."""

    def run(rows):
        model = Enumerated(energy, rows.start)
        best = np.argsort(-model.score, kind="stable")[:k]
        return model.states[best], model.score[best]

    with one_blas_thread():
        found = list(ordered_map(run, row_chunks(energy.n_models, 1), n_jobs))
    return [states for states, _ in found], [scores for _, scores in found]
