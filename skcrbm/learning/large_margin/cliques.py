"""Dual coordinate descent for a large margin Markov network.

As `_dual_coordinate` for pairs of labels: what moves is a dual variable for each row and output,
what ends it is the duality gap. Weights are sums over cliques here, and may have an L1 penalty:
then they are shrunk sums, which move by no more than the sums do, so that the step that would be
the optimum without the penalty is one that cannot overshoot with it.
"""

from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from skcrbm.inference.random_numbers import random_key
from skcrbm.learning.large_margin._newton import maximise_in_box
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.validation import kernel_array

# Passes over what is active, at most, between two looks at everything, at which the duality gap
# is computed; on the way the goal is this share of the violation at the last look.
_LOOK, _STAGE = 20, 0.1
# With at most so many dual variables between their bounds, a Newton step on them is cheap: at the
# first look after 40 passes, 60, 90 and so on.
_FEW_FREE, _FIRST_NEWTON, _NEWTON_GROWTH = 600, 40, 1.5
# Their features of cliques, at most: 160 MB.
_MOST_FEATURES = 20_000_000
# Ranges of projected gradients, in margins, that are rounding.
_ROUNDING = 1e-12


@dataclass
class CliqueFeatures:
    """Products of -1/+1 variables over cliques, and the weights that they share.

    Attributes
    ----------
    start, members : ndarray (J + 1,), (M,)
        The variables of clique j are ``members[start[j]:start[j + 1]]``.
    mixing : CSR matrix (J, T)
        Weights of cliques are ``mixing @ weight`` with the weights that are learned.
    is_output : ndarray (V,) of bool
        Which variables have margins.
    place, clique, group, coef : ndarray
        As in `kernels/clique_dual.py`.
    """

    start: np.ndarray
    members: np.ndarray
    mixing: object
    is_output: np.ndarray
    place: np.ndarray
    clique: np.ndarray
    group: np.ndarray
    coef: np.ndarray

    @classmethod
    def of(cls, cliques, mixing, is_output):
        """Make it of a sequence of J tuples of variables, a matrix (J, T) and a mask (V,)."""
        sizes = np.array([len(c) for c in cliques], np.int64)
        members = np.array([i for c in cliques for i in c], np.int64)
        mixing = sparse.csr_matrix(mixing, dtype=np.float64, copy=True)
        mixing.eliminate_zeros()
        # A line for each variable of each clique, with a one where it is an output.
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
        """Return the cliques as the kernels take them."""
        from skcrbm.kernels.clique_dual import CliqueFeatures

        return CliqueFeatures(
            self.start, self.members, self.place, self.clique, self.group, self.coef
        )

    def n_pairs(self):
        """Pairs of outputs (T,) in the cliques of each learned weight, times their factors."""
        owner = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        n = np.bincount(owner, self.is_output[self.members], minlength=len(self.start) - 1)
        return abs(self.mixing).T @ (n * (n - 1) / 2)


@dataclass
class CliqueProblem:
    """A large margin Markov network to be learned.

    Minimise ``1/2 (|w|^2 + |A|^2) + sum_t penalty_t |w_t| + sum_ni limit_ni [margin - m_ni]_+``
    with the margins
    ``m_ni = v_ni a_i . x_n + sum_{j: i in C_j} (mixing w)_j prod_{k in C_j} v_nk``.

    Attributes
    ----------
    features : CliqueFeatures
    signs : ndarray (N, V)
        In {-1, 0, +1}; 0 where not observed, which takes out the cliques of the variable.
    limit : ndarray (N, V)
        It is taken for 0 where a variable is not observed or no output.
    margin : float
    penalty : ndarray (T,)
    inputs : CSR matrix (N, D) or None
        x; None: no linear part.
    large : str
        What may be too large if the numbers overflow.
    """

    features: CliqueFeatures
    signs: np.ndarray
    limit: np.ndarray
    margin: float
    penalty: np.ndarray
    inputs: object = None
    large: str = "C, margin or alpha_l1"

    def __post_init__(self):
        if self.inputs is None:
            self.inputs = sparse.csr_matrix((len(self.signs), 0))
        self.signs = kernel_array(self.signs, np.float64)
        there = (self.signs != 0) & self.features.is_output
        self.limit = kernel_array(np.where(there, self.limit, 0.0), np.float64)

    def weights(self, dual):
        """Return sums (T,) of dual variables times gradients, weights (T,), those of inputs (V, D).

        Weights (T,) are the sums shrunk by the penalty.
        """
        from skcrbm.kernels.clique_dual import clique_sums

        total, weight = np.zeros_like(self.penalty), np.zeros_like(self.penalty)
        clique_sums(self.signs, self.features.arrays, dual, self.penalty, total, weight)
        return total, weight, (self.inputs.T @ (dual * self.signs)).T.copy()

    def margins(self, weight, input_weight):
        """Margins (N, V)."""
        from skcrbm.kernels.clique_dual import clique_margins

        margins = np.empty_like(self.signs)
        clique_margins(self.signs, self.features.arrays, weight, margins)
        return margins + self.signs * (self.inputs @ input_weight.T)

    def objectives(self, dual, weight, input_weight):
        """Value of the primal and of the dual; the second is never the larger one."""
        norm = 0.5 * ((weight**2).sum() + (input_weight**2).sum())
        margins = self.margins(weight, input_weight)
        loss = (self.limit * np.maximum(self.margin - margins, 0.0)).sum()
        primal = norm + (self.penalty * np.abs(weight)).sum() + loss
        return primal, self.margin * dual.sum() - norm

    def gap(self, dual, weight, input_weight):
        """(primal - dual) / primal."""
        primal, value = self.objectives(dual, weight, input_weight)
        if not np.isfinite([primal, value]).all():
            raise ValueError(f"training overflowed: {self.large} is too large")
        # Below 0 it is rounding; without any weight on the losses both are 0.
        return max(float((primal - value) / primal), 0.0) if primal > 0 else 0.0


@dataclass
class CliqueFit:
    """What `fit_cliques` found.

    Attributes
    ----------
    weight : ndarray (T,)
    input_weight : ndarray (V, D)
    dual : ndarray (N, V)
    gap : float
        (primal - dual objective) / primal.
    n_iter : int
        Passes over the rows.
    reason : {"tol", "max_iter", "callback", "interrupted"}
    """

    weight: np.ndarray
    input_weight: np.ndarray
    dual: np.ndarray
    gap: float
    n_iter: int
    reason: str


def fit_cliques(
    problem,
    *,
    tol=0.0,
    violation_tol=_ROUNDING,
    max_iter,
    rng,
    dual=None,
    on_pass_begin=None,
    on_pass_end=None,
):
    """Solve a `CliqueProblem` by dual coordinate descent with shrinking.

    Parameters
    ----------
    problem : CliqueProblem
    tol : float
        For the relative duality gap; 0: it is not looked at.
    violation_tol : float
        For the range of the projected gradients of all dual variables, in margins.
    max_iter : int
        Passes over the rows at most.
    rng : RandomState
        For the order of the rows.
    dual : ndarray (N, V), default=None
        Where to start; 0 by default.
    on_pass_begin, on_pass_end : callable, default=None
        As in `fit_large_margin`, with a `CliqueFit`.

    Returns
    -------
    CliqueFit

    Raises
    ------
    ValueError
        If the numbers overflow.
    """
    alpha = np.zeros_like(problem.limit) if dual is None else np.clip(dual, 0, problem.limit)
    with np.errstate(over="ignore", invalid="ignore"):
        tols = tol, violation_tol * problem.margin
        n_iter, reason = _descend(problem, alpha, tols, max_iter, rng, on_pass_begin, on_pass_end)
        return _fit_of(problem, alpha, n_iter, reason)


def _fit_of(problem, alpha, n_iter, reason):
    """Return the `CliqueFit` of dual variables, free of what rounding has added up."""
    _, *weights = problem.weights(alpha)
    return CliqueFit(*weights, alpha, problem.gap(alpha, *weights), n_iter, reason)


def _descend(problem, alpha, tols, max_iter, rng, on_pass_begin, on_pass_end):
    """Change alpha in place; number of passes and why they ended."""
    from skcrbm.kernels.clique_dual import CliqueDual, CliqueRows, clique_passes

    tol, least_violation = tols
    total, *weights = problem.weights(alpha)
    possible = problem.limit > 0
    if not possible.any():
        return 0, "tol"
    n_possible = possible.sum(axis=1)
    # Of each row, the variables active first.
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
    changed = CliqueDual(alpha, active, n_active, total, *weights, bounds)
    stage, fresh = np.inf, True  # everything is active in the next pass
    newton_at = _FIRST_NEWTON
    try:
        while n_iter < max_iter:
            if fresh:
                if tol > 0 and problem.gap(alpha, *weights) <= tol:
                    return n_iter, "tol"
                if n_iter >= newton_at:
                    _newton_step(problem, alpha, total, *weights)
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
                now = partial(_fit_of, problem, alpha.copy(), n_iter, "callback")
                if on_pass_end(n_iter - 1, violation / problem.margin, share, now):
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
    return n_iter, "tol" if tol > 0 and problem.gap(alpha, *weights) <= tol else "max_iter"


def _newton_step(problem, alpha, total, weight, input_weight):
    """Move the free dual variables to their optimum given which weights are not 0; in place.

    Undone where the dual objective would fall, as weights that the L1 penalty holds at 0 may move.
    """
    rows, variables = np.nonzero((alpha > 0) & (alpha < problem.limit))
    n_cliques = len(problem.features.start) - 1
    if not 0 < len(rows) <= min(_FEW_FREE, _MOST_FEATURES // max(n_cliques, 1)):
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
    """Gradients (m, T) of the margins of some variables of some rows in the weights."""
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
    """Return a `LargeMarginProblem` with cliques as a `CliqueProblem`."""
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
    """Return A (L, D), b (L,), S (L, L) and the weights (J,) of larger cliques of a `CliqueFit`."""
    n_labels = problem.signs.shape[1]
    weights = np.sqrt(problem.spread) * fitted.weight
    pairwise = np.zeros((n_labels, n_labels))
    first, second = np.triu_indices(n_labels, 1)
    pairwise[first, second] = pairwise[second, first] = weights[: len(first)]
    coef = np.ascontiguousarray(fitted.input_weight[:, :-1])
    return coef, fitted.input_weight[:, -1].copy(), pairwise, weights[len(first) :]
