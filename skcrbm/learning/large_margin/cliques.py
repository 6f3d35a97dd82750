"""Dual coordinate descent for a large margin Markov network.

The module `dual_coordinate` solves the problem for pairs of labels. In both modules, each step
changes the dual variable of one row and one output. In this module cliques may have any size,
several cliques may share a weight, and training may also end when the duality gap is small.

Each weight is a sum over dual variables. With an L1 penalty, each weight is the sum after
soft-thresholding. If a step changes the sum, soft-thresholding can only make this change smaller.
Therefore a step that is optimal without the L1 penalty does not overshoot with the penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from skcrbm.inference.random_numbers import random_key
from skcrbm.learning.large_margin._newton import maximise_in_box
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.validation import kernel_array

# To save time, most passes visit only the active variables, which are not likely to stay at a
# bound. Between two passes over all variables there are at most _LOOK passes over the active
# variables. These passes end early if the violation falls to _STAGE times its value in the last
# pass over all variables. The duality gap is computed before each pass over all variables.
_LOOK, _STAGE = 20, 0.1
# Newton steps are made only while at most _FEW_FREE dual variables are strictly between their
# bounds, because only then are the steps cheap. The first Newton step comes after at least
# _FIRST_NEWTON passes, and each further step after _NEWTON_GROWTH times as many passes: 40, 60, 90,
# ...
_FEW_FREE, _FIRST_NEWTON, _NEWTON_GROWTH = 600, 40, 1.5
# Newton steps are skipped if the rows of the free dual variables have more clique features than
# this number (160 MB).
_MAX_FEATURES = 20_000_000
# Default tolerance of the violation (range of the projected gradients, divided by the margin).
# Smaller violations come from rounding.
_ROUNDING = 1e-12


@dataclass
class CliqueFeatures:
    """Features of J cliques, and the T weights that the cliques share.

    The feature of a clique is the product of its variables, which are -1 or +1.
    """

    # The variables of clique j are ``members[start[j]:start[j + 1]]``.
    start: np.ndarray
    members: np.ndarray
    # CSR matrix (J, T) that maps the T learned weights to the J cliques: clique j has the weight
    # ``(mixing @ weight)[j]``.
    mixing: Any
    is_output: np.ndarray  # (V,) of bool: True for an output, which has a margin
    # `kernels/clique_dual.py` describes the other fields.
    place: np.ndarray
    clique: np.ndarray
    group: np.ndarray
    coef: np.ndarray

    @classmethod
    def of(cls, cliques, mixing, is_output):
        """Build the features of J cliques, given as tuples of variables; `mixing` may be dense."""
        sizes = np.array([len(c) for c in cliques], np.int64)
        members = np.array([i for c in cliques for i in c], np.int64)
        mixing = sparse.csr_matrix(mixing, dtype=np.float64, copy=True)
        mixing.eliminate_zeros()
        # Make one entry for each combination of a clique, an output in the clique, and a learned
        # weight of the clique.
        owner = np.repeat(np.arange(len(sizes)), sizes)
        keep = is_output[members]
        owner, variable = owner[keep], members[keep]
        counts = np.diff(mixing.indptr)[owner]
        entry = np.repeat(mixing.indptr[owner] - np.cumsum(counts) + counts, counts)
        entry = entry + np.arange(counts.sum())
        clique, variable = np.repeat(owner, counts), np.repeat(variable, counts)
        group = mixing.indices[entry]
        order = np.lexsort((clique, group, variable))
        count = np.bincount(variable, minlength=len(is_output))
        return cls(
            start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            members=members,
            mixing=mixing,
            is_output=is_output,
            place=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
            clique=clique[order].astype(np.int64),
            group=group[order].astype(np.int64),
            coef=mixing.data[entry][order],
        )

    @property
    def arrays(self):
        """Return the features in the form that the kernels take, as a named tuple of arrays."""
        from skcrbm.kernels.clique_dual import CliqueFeatures

        return CliqueFeatures(
            self.start, self.members, self.place, self.clique, self.group, self.coef
        )

    def n_pairs(self):
        """Return the number (T,) of pairs of outputs in the cliques of each weight.

        Clique j counts ``abs(mixing[j, t])`` times for weight t.
        """
        owner = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        n = np.bincount(owner, self.is_output[self.members], minlength=len(self.start) - 1)
        return abs(self.mixing).T @ (n * (n - 1) / 2)


@dataclass
class CliqueProblem:
    """The training problem of a large margin Markov network.

    Minimise ``1/2 (|w|^2 + |A|^2) + sum_t penalty_t |w_t| + sum_ni limit_ni [margin - m_ni]_+``
    with the margins
    ``m_ni = v_ni a_i . x_n + sum_{j: i in C_j} (mixing w)_j prod_{k in C_j} v_nk``.
    Here x_n and v_n are the inputs and the variables of row n, w are the T weights, the input
    weights a_i are the rows of A, and C_j is the set of variables of clique j.
    """

    features: CliqueFeatures
    # Values (N, V) in {-1, +1}. A missing value is 0, which makes the product of each clique that
    # contains it 0.
    signs: np.ndarray
    limit: np.ndarray  # (N, V); set to 0 for missing values and for variables without a margin
    margin: float
    penalty: np.ndarray  # (T,) factor of the L1 penalty of each weight
    inputs: Any = None  # x as a CSR matrix (N, D); None if the margins have no linear part
    # Names of the parameters that may cause an overflow, for the error message.
    large: str = "C, margin or alpha_l1"

    def __post_init__(self):
        if self.inputs is None:
            self.inputs = sparse.csr_matrix((len(self.signs), 0))
        self.signs = kernel_array(self.signs, np.float64)
        there = (self.signs != 0) & self.features.is_output
        self.limit = kernel_array(np.where(there, self.limit, 0.0), np.float64)

    def weights(self, dual):
        """Return sums (T,), weights (T,) and input weights (V, D) for dual variables (N, V).

        Each sum adds up the dual variables times the gradients of their margins. Soft-thresholding
        the sums by the L1 penalty gives the weights.
        """
        from skcrbm.kernels.clique_dual import clique_sums

        total, weight = np.zeros_like(self.penalty), np.zeros_like(self.penalty)
        clique_sums(self.signs, self.features.arrays, dual, self.penalty, total, weight)
        return total, weight, (self.inputs.T @ (dual * self.signs)).T.copy()

    def margins(self, weight, input_weight):
        """Return the margins (N, V) of all rows and variables for the given weights."""
        from skcrbm.kernels.clique_dual import clique_margins

        margins = np.empty_like(self.signs)
        clique_margins(self.signs, self.features.arrays, weight, margins)
        return margins + self.signs * (self.inputs @ input_weight.T)

    def objectives(self, dual, weight, input_weight):
        """Return the primal objective and the dual objective, which is at most the primal."""
        norm = 0.5 * ((weight**2).sum() + (input_weight**2).sum())
        margins = self.margins(weight, input_weight)
        loss = (self.limit * np.maximum(self.margin - margins, 0.0)).sum()
        primal = norm + (self.penalty * np.abs(weight)).sum() + loss
        return primal, self.margin * dual.sum() - norm

    def gap(self, dual, weight, input_weight):
        """Return the relative duality gap, ``(primal - dual) / primal``.

        Raises a ValueError if an objective is not finite.
        """
        primal, value = self.objectives(dual, weight, input_weight)
        if not np.isfinite([primal, value]).all():
            raise ValueError(f"training overflowed: {self.large} is too large")
        # Clip a negative gap to 0, because it comes from rounding. Both objectives are 0 if all
        # limits are 0, so avoid a division by 0.
        return max(float((primal - value) / primal), 0.0) if primal > 0 else 0.0


@dataclass
class CliqueFit:
    """The result of `fit_cliques`."""

    weight: np.ndarray  # (T,) learned weights
    input_weight: np.ndarray  # (V, D) weights of the inputs x
    dual: np.ndarray  # (N, V) dual variables
    gap: float  # (primal - dual) / primal objective
    n_iter: int  # number of passes over the rows
    reason: str  # why training ended: "tol", "max_iter", "callback" or "interrupted"


def fit_cliques(
    problem: CliqueProblem,
    *,
    tol: float = 0.0,
    violation_tol: float = _ROUNDING,
    max_iter: int,
    rng: np.random.RandomState,
    dual: np.ndarray | None = None,
    on_pass_begin: Callable | None = None,
    on_pass_end: Callable | None = None,
) -> CliqueFit:
    """Solve a `CliqueProblem` by dual coordinate descent with shrinking.

    The training ends when the relative duality gap is at most `tol` (if `tol` is not 0), when the
    projected gradients of all dual variables differ by at most ``violation_tol * margin``, or after
    `max_iter` passes. `rng` determines the order of the rows. Training starts at `dual` (N, V), by
    default 0. `fit_large_margin` describes `on_pass_begin` and `on_pass_end`; here the current fit
    is a `CliqueFit`.

    A ValueError is raised if the numbers overflow.
    """
    alpha = np.zeros_like(problem.limit) if dual is None else np.clip(dual, 0, problem.limit)
    with np.errstate(over="ignore", invalid="ignore"):
        tols = tol, violation_tol * problem.margin
        n_iter, reason = _descend(problem, alpha, tols, max_iter, rng, on_pass_begin, on_pass_end)
        return _fit_of(problem, alpha, n_iter, reason)


def _fit_of(problem, alpha, n_iter, reason):
    """Return the `CliqueFit` for dual variables.

    The weights are computed from scratch, to remove the rounding errors of the updates.
    """
    _, weight, input_weight = problem.weights(alpha)
    gap = problem.gap(alpha, weight, input_weight)
    return CliqueFit(weight, input_weight, alpha, gap, n_iter, reason)


def _descend(problem, alpha, tols, max_iter, rng, on_pass_begin, on_pass_end):
    """Optimise `alpha` in place; return the number of passes and the reason why training ended."""
    from skcrbm.kernels.clique_dual import CliqueDual, CliqueRows, clique_passes

    tol, least_violation = tols
    total, weight, input_weight = problem.weights(alpha)
    possible = problem.limit > 0
    if not possible.any():
        return 0, "tol"
    n_possible = possible.sum(axis=1)
    # Row n of `active` lists all variables of row n; the first ``n_active[n]`` variables of the
    # list are active.
    active = np.argsort(~possible, axis=1, kind="stable").astype(np.int32)
    n_active = n_possible.copy()
    order = np.flatnonzero(n_possible)
    count, since, n_iter = len(order), 0, 0
    bounds = np.empty(2)
    state = np.array([random_key(rng) | np.uint64(1)])
    X = problem.inputs
    norm = row_norms(X, squared=True)
    rows = CliqueRows(
        problem.signs, X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64), norm,
        float(problem.margin), problem.limit, problem.penalty,
    )  # fmt: skip
    features = problem.features.arrays
    changed = CliqueDual(alpha, active, n_active, total, weight, input_weight, bounds)
    stage, fresh = np.inf, True  # the next pass visits all variables
    newton_at = _FIRST_NEWTON
    try:
        while n_iter < max_iter:
            if fresh:
                if tol > 0 and problem.gap(alpha, weight, input_weight) <= tol:
                    return n_iter, "tol"
                if n_iter >= newton_at:
                    _newton_step(problem, alpha, total, weight, input_weight)
                    newton_at = int(_NEWTON_GROWTH * newton_at)
                n_active[:] = n_possible
                order, since = np.flatnonzero(n_possible), 0
                count = len(order)
                bounds[:] = np.inf, -np.inf
            wanted = 1 if fresh or on_pass_end else min(_LOOK - since, max_iter - n_iter)
            if on_pass_begin is not None:
                on_pass_begin(n_iter)
            least = -1.0 if fresh else stage
            done, count, violation = clique_passes(
                wanted, least, state, order, count, features, rows, changed
            )
            n_iter, since = n_iter + done, since + done
            if on_pass_end is not None:
                share = n_active.sum() / n_possible.sum()
                current_fit = partial(_fit_of, problem, alpha.copy(), n_iter, "callback")
                if on_pass_end(n_iter - 1, violation / problem.margin, share, current_fit):
                    return n_iter, "callback"
            if fresh:
                if violation <= least_violation:
                    return n_iter, "tol"
                stage = max(_STAGE * violation, least_violation)
            fresh = violation <= stage or count == 0 or since >= _LOOK
    except KeyboardInterrupt:
        if n_iter == 0:
            raise
        return n_iter, "interrupted"
    return n_iter, "tol" if tol > 0 and problem.gap(
        alpha, weight, input_weight
    ) <= tol else "max_iter"


def _newton_step(problem, alpha, total, weight, input_weight):
    """Move the free dual variables to their optimum in place, assuming that zero weights stay zero.

    A dual variable is free if it is strictly between its bounds. If the assumption is wrong, the
    step may fail to raise the dual objective; the variables then keep their values. They also keep
    their values if too many variables are free (see `_FEW_FREE` and `_MAX_FEATURES`).
    """
    rows, variables = np.nonzero((alpha > 0) & (alpha < problem.limit))
    n_cliques = len(problem.features.start) - 1
    if not 0 < len(rows) <= min(_FEW_FREE, _MAX_FEATURES // max(n_cliques, 1)):
        return
    gradients = _gradients(problem, rows, variables)
    moving = gradients[:, (weight != 0) | (problem.penalty == 0)]
    X, own = problem.inputs[rows], problem.signs[rows, variables]
    same = variables[:, None] == variables
    with one_blas_thread():
        hessian = moving @ moving.T + np.where(same, own[:, None] * own * (X @ X.T).toarray(), 0.0)
        if not np.isfinite(hessian).all():
            return
        start = alpha[rows, variables]
        linear = np.asarray(X.multiply(input_weight[variables]).sum(axis=1)).ravel()
        slope = problem.margin - gradients @ weight - own * linear
        end = maximise_in_box(hessian, slope, start, problem.limit[rows, variables])
        sums = total + gradients.T @ (end - start)
    found = np.sign(sums) * np.maximum(np.abs(sums) - problem.penalty, 0.0)
    gain = problem.margin * (end - start).sum() - 0.5 * (found @ found - weight @ weight)
    steps = ((end - start) * own, (variables, np.arange(len(rows))))
    moved = (sparse.csr_matrix(steps, shape=(len(input_weight), len(rows))) @ X).toarray()
    gain -= ((input_weight + 0.5 * moved) * moved).sum()
    if gain > 0:
        alpha[rows, variables], total[:], weight[:] = end, sums, found
        input_weight += moved


def _gradients(problem, rows, variables):
    """Return the gradients (m, T) of m margins with respect to the T weights.

    Margin k is the margin of the output ``variables[k]`` in the row ``rows[k]``.
    """
    features = problem.features
    signs = problem.signs[rows]
    products = np.multiply.reduceat(signs[:, features.members], features.start[:-1], axis=1)
    gradients = np.zeros((len(rows), len(problem.penalty)))
    for i in np.unique(variables):
        here, entries = np.flatnonzero(variables == i), slice(*features.place[i : i + 2])
        terms = products[np.ix_(here, features.clique[entries])] * features.coef[entries]
        np.add.at(gradients, (here[:, None], features.group[entries]), terms)
    return gradients


# ----------------------------- large margin Boltzmann machines with cliques of labels


def clique_problem(problem):
    """Convert a `LargeMarginProblem` with larger cliques to a `CliqueProblem`."""
    n_rows, n_labels = problem.signs.shape
    cliques = [*combinations(range(n_labels), 2), *problem.cliques]
    mixing = np.sqrt(problem.spread) * sparse.identity(len(cliques), format="csr")
    return CliqueProblem(
        CliqueFeatures.of(cliques, mixing, np.ones(n_labels, bool)),
        problem.signs,
        problem.limit,
        problem.margin,
        np.zeros(len(cliques)),
        sparse.hstack([sparse.csr_matrix(problem.X), np.ones((n_rows, 1))], "csr", np.float64),
        "X, C or 1 / pairwise_penalty",
    )


def label_weights(problem, fitted):
    """Convert a `CliqueFit` to A (L, D), b (L,), S (L, L) and weights (J,) of larger cliques."""
    n_labels = problem.signs.shape[1]
    weights = np.sqrt(problem.spread) * fitted.weight
    pairwise = np.zeros((n_labels, n_labels))
    first, second = np.triu_indices(n_labels, 1)
    pairwise[first, second] = pairwise[second, first] = weights[: len(first)]
    coef = np.ascontiguousarray(fitted.input_weight[:, :-1])
    return coef, fitted.input_weight[:, -1].copy(), pairwise, weights[len(first) :]
