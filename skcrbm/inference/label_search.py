"""Search for the labels with the highest score or the lowest hinge loss, and compute a bound.

Functions import the kernels that they call, so that importing this module does not load Numba.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies import BaseEnergy, IsingEnergy
from skcrbm.energies.states import signs_of
from skcrbm.inference.base import InferenceMethod
from skcrbm.utils.limits import MAX_TIE_LABELS, TIE
from skcrbm.utils.parallel import ordered_map, row_chunks

# Number of rows for which a single call of the kernel searches the labels.
_ROWS = 16


class FoundLabels(NamedTuple):
    """Labels found for N rows, their values, and lower bounds of the best possible values.

    The value is the hinge loss or the negated score of labels, so lower values are better.
    """

    # int8 (N, L): labels as 0 and 1.
    labels: np.ndarray
    # Value (N,) of the labels.
    value: np.ndarray
    # Lower bound (N,) of the value of any labels of the row. It equals `value` if the labels are
    # proven to be optimal, and is -inf if no bound is known.
    lower: np.ndarray
    # Number (N,) of visited nodes of a search tree, or of sweeps over the labels.
    n_iter: np.ndarray
    # True (N,) if the search was completed.
    converged: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Upper bound (N,) of the difference between `value` and the best possible value.

        It is inf if `lower` is -inf.
        """
        return np.maximum(self.value - self.lower, 0.0)

    def fields(self, returns: Iterable[str]) -> dict[str, Any]:
        """Return the found labels as fields of an `InferenceResult`.

        `value` must be the negated score.
        """
        fields = {
            "assignment": self.labels,
            "n_iter": self.n_iter,
            "converged": self.converged,
        }
        if "map_bound" in returns:
            fields["map_bound"], fields["gap"] = 0.0 - self.lower, self.gap
        return fields


def find_clique_states(
    visible: np.ndarray,
    cliques: Sequence[tuple[int, ...]],
    weights: np.ndarray,
    field: np.ndarray | float = 0.0,
    *,
    margin: float | None = None,
    is_output: np.ndarray | None = None,
    node_limit: int,
    n_jobs: int | None = None,
) -> FoundLabels:
    """Fill in the missing entries of rows, for the highest score or the lowest hinge loss.

    The score of v in {-1, +1}^V is ``sum_i f_i v_i + sum_j w_j prod_{i in C_j} v_i``. If states
    have the same loss, the state with the higher score is chosen, then the first in lexicographic
    order. If there are more than 20 missing entries, the search returns the first state with this
    loss and score that it visits, in a deterministic order.

    `visible` (N, V) holds 0, 1 and NaN for missing entries. Clique C_j has the columns `cliques[j]`
    and the weight `weights[j]`, and `field` holds the fields f_i (N, V). If `margin` is None, the
    score is maximised, else the hinge loss with this margin is minimised. Only columns with True in
    `is_output` (V,) have margins; None stands for all columns. `node_limit` is the largest number
    of search nodes for a row after a first state is found.
    """
    from skcrbm.kernels.clique_search import HINGE, MAP, Cliques, FoundStates, search_cliques

    n_rows, n_variables = visible.shape
    sizes = np.array([len(c) for c in cliques], np.int64)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    members = np.array([i for c in cliques for i in c], np.int64)
    weights = np.ascontiguousarray(weights, np.float64)
    signs = signs_of(visible).astype(np.float64)
    field = np.ascontiguousarray(np.broadcast_to(field, visible.shape), np.float64)
    if is_output is None:
        is_output = np.ones(n_variables, bool)
    kind, target = (MAP, 0.0) if margin is None else (HINGE, float(margin))
    slack = TIE * (target * n_variables + np.abs(weights).sum() + np.abs(field).sum(axis=1))
    value, lower = np.empty(n_rows), np.empty(n_rows)
    n_nodes = np.empty(n_rows, np.int64)
    most = int((signs == 0).sum(axis=1).max(initial=0))

    def search(rows):
        found = FoundStates(value[rows], lower[rows], n_nodes[rows])
        search_cliques(
            kind, signs[rows], field[rows], is_output, Cliques(start, members, weights), target,
            slack[rows], MAX_TIE_LABELS, node_limit, most, found,
        )  # fmt: skip

    for _ in ordered_map(search, row_chunks(n_rows, _ROWS), n_jobs):
        pass
    return FoundLabels((signs > 0).astype(np.int8), value, lower, n_nodes, value <= lower)


def find_labels(
    energy: BaseEnergy,
    method: InferenceMethod,
    margin: float | None = None,
    *,
    n_jobs: int | None = None,
) -> FoundLabels:
    """Find the labels with the highest score or, if a margin is given, with the lowest hinge loss.

    The energy is an `IsingEnergy` or `FactorGraphEnergy`. Clamped labels keep their values, and the
    loss includes their margins. The method is BranchAndBound or, for an `IsingEnergy`, also
    MixedIntegerProgram or ICM. A ValueError is raised for other methods on a `FactorGraphEnergy`.
    """
    if isinstance(energy, IsingEnergy):
        from skcrbm.inference.ising._search import find_labels as search
    else:
        from skcrbm.inference.factor_graph.search import find_labels as search
    return search(energy, method, margin, n_jobs=n_jobs)


def hinge_losses_and_scores(
    signs: np.ndarray, fields: np.ndarray, coupling: np.ndarray, margin: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the hinge losses (N,) and the scores (N,) of labels (N, L) in {-1, +1}."""
    pull = signs @ coupling
    loss = np.maximum(margin - signs * (fields + pull), 0.0).sum(axis=1)
    return loss, (signs * (fields + 0.5 * pull)).sum(axis=1)
