"""Train the structural support vector machine with label pairs, by block-coordinate Frank-Wolfe.

The solver is `fit_frank_wolfe`. Its passes over the rows find labels by flips of single labels,
which take microseconds per row. Only the checks of the duality gap search by the problem's own
method, such as branch and bound. The labels that a check has found are the first that the next pass
visits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skcrbm.energies import IsingEnergy
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import MagnitudeError
from skcrbm.inference.running import run_inference
from skcrbm.kernels.label_margins import (
    FLIPS,
    GIVEN,
    ONE_HOT,
    SIGNS,
    Atoms,
    Pairs,
    Rows,
    Weights,
    Work,
    visit_labels,
)
from skcrbm.learning.large_margin.frank_wolfe import DualBlocks, Visited, fit_frank_wolfe
from skcrbm.learning.structured.chain_model import csr_arrays
from skcrbm.utils.parallel import linear_fields

# Number of steps in a visit of a row. Several steps pay off, because the first step has to compute
# the scores of all atoms.
_STEPS = 3
# There are arrays for _ATOMS label vectors for each row. If the arrays are full for some row, their
# size is doubled, until there is room for _MOST_ATOMS.
_ATOMS, _MOST_ATOMS = 8, 256
# The gap is checked by the problem's own method when the passes, which find fewer violations,
# estimate it at this share of the gap of the last check.
_CHECK_SHARE = 0.3
# Seed of the order of the rows, so that a fit is always the same.
_SEED = 0
_OVERFLOW = (
    "training overflowed: X, C, sample_weight or 1 / pairwise_penalty is too large; scale the "
    "columns of X, or divide the weights by their mean"
)


class StructuralMarginProblem(NamedTuple):
    """The training problem of the structural support vector machine with label pairs.

    Minimise ``1/2 (|A|^2 + |b|^2) + eta/2 sum_{i<k} s_ik^2 + sum_n C_n max_y [D(y, y_n) +
    F_n(y) - F_n(y_n)]`` with ``F_n(y) = sum_i y_i (a_i . x_n + b_i) + sum_{i<k} s_ik y_i y_k``
    where D is the number of labels that differ, and y_n holds the observed labels of row n.
    """

    X: Any  # array or CSR matrix (N, D)
    signs: np.ndarray  # (N, L): labels y_n in {-1, +1}
    limit: np.ndarray  # (N,) factors C_n of the losses of the rows
    penalty: float  # eta; infinite without pair weights
    one_hot: bool  # True if the maximum is over label vectors y with exactly one label on
    # Method that finds the maximum if not `one_hot`: "branch_and_bound", "icm" or "linear_program",
    # which maximises over the local polytope.
    method: InferenceMethod
    n_jobs: int | None = None

    @property
    def has_pairs(self) -> bool:
        """True if pairs of labels have weights."""
        return bool(np.isfinite(self.penalty))


class StructuralMarginFit(NamedTuple):
    """The result of `fit_structural_margin`."""

    coef: np.ndarray  # (L, D) coefficients A of the columns of X
    intercept: np.ndarray  # (L,) intercepts b
    pairwise: np.ndarray  # (L, L) pair weights S
    objective: float  # objective of the weights, computed from the labels that the searches found
    gap: float  # (objective - lower bound) / objective
    n_iter: int  # number of passes over the rows
    # Number of rows for which branch and bound has not proved the maximum in the search that gave
    # `objective`.
    n_open: int
    # Why training ended: "tol", "max_iter", "callback", "interrupted" or "rounding". "rounding"
    # means that the gap is above `tol`, but all violations are as small as rounding errors.
    reason: str


def fit_structural_margin(
    problem: StructuralMarginProblem,
    *,
    tol: float,
    max_iter: int,
    on_pass_begin: Callable | None = None,
    on_pass_end: Callable | None = None,
) -> StructuralMarginFit:
    """Solve a `StructuralMarginProblem`; see `fit_frank_wolfe` for the arguments.

    A ValueError is raised if the numbers overflow.
    """
    blocks = LabelBlocks(problem)

    def result(fitted):
        coef, pairs = fitted.params
        gap = fitted.gap / fitted.objective if fitted.objective > 0 else 0.0
        n_open = round((1 - fitted.proven) * len(problem.signs))
        objective = float(fitted.objective * blocks.weight)
        coef = coef.T
        return StructuralMarginFit(
            coef[:, :-1].copy(), coef[:, -1].copy(), pairs, objective, float(gap), fitted.n_iter,
            n_open, fitted.reason,
        )  # fmt: skip

    def end(number, loss, gap, now):
        share = gap / loss if loss > 0 else 0.0
        return on_pass_end is not None and on_pass_end(
            number, share, blocks.n_atoms, lambda: result(now())
        )

    found = fit_frank_wolfe(
        blocks,
        tol=tol,
        max_iter=max_iter,
        rng=np.random.RandomState(_SEED),
        on_pass_begin=on_pass_begin,
        on_pass_end=end,
    )
    return result(found)


class LabelBlocks(DualBlocks):
    """Dual variables of the rows of a `StructuralMarginProblem`, and parameters that follow."""

    check_every = None
    check_share = _CHECK_SHARE
    averages = False

    def __init__(self, problem: StructuralMarginProblem):
        self.problem = problem
        self.weight = float(problem.limit.sum())
        arrays = csr_arrays(problem.X)
        (n, n_labels), n_columns = problem.signs.shape, problem.X.shape[1]
        # A CSR matrix also for dense rows, so that rounding is the same for dense and sparse rows.
        self.X = sparse.csr_matrix(arrays, (n, n_columns))
        row = np.repeat(np.arange(n), np.diff(arrays[2]))
        with np.errstate(over="ignore"):
            square = 1.0 + np.bincount(row, np.square(arrays[0]), n)
        if not np.isfinite(square).all():
            raise ValueError(_OVERFLOW)
        self.rows = Rows(*arrays, square, problem.signs, problem.limit)
        self.params = Weights(np.zeros((n_columns + 1, n_labels)), np.zeros((n_labels, n_labels)))
        relaxed = problem.method.name == "linear_program" and problem.has_pairs
        self.atoms = Atoms(np.zeros((n, _ATOMS, n_labels), np.int8), np.zeros((n, _ATOMS)))
        self.atoms.labels[:, 0] = problem.signs
        self.atoms.value[:, 0] = 1.0
        self.found = self.atoms.labels[:, 0].copy()
        self.pairs = None  # None if all atoms are label vectors
        if relaxed:
            products, new = _products(self.found), np.zeros((n_labels, n_labels), np.int8)
            of_atoms = np.zeros((n, _ATOMS, n_labels, n_labels), np.int8)
            of_atoms[:, 0] = products
            self.pairs = Pairs(of_atoms, products, new)
        self.fresh = False  # True if `found` has the labels that a check found at `params`
        self.inverse = 1.0 / problem.penalty if problem.has_pairs else 0.0
        self.rule = ONE_HOT if problem.one_hot else FLIPS if problem.has_pairs else SIGNS

    @property
    def n_atoms(self) -> int:
        """Number of label vectors with a positive dual variable."""
        return int(np.count_nonzero(self.atoms.value))

    def visit(self, rng):
        """Visit the rows in random order; see `DualBlocks`."""
        rule, self.fresh = GIVEN if self.fresh else self.rule, False
        found = self._visit(rng.permutation(len(self.rows.signs)), rule, _STEPS, self.params)
        losses, gaps, n_full, n_steps = found
        if n_full and self.atoms.value.shape[1] < _MOST_ATOMS:
            self.atoms = Atoms(*map(_doubled, self.atoms))
            if self.pairs is not None:
                self.pairs = self.pairs._replace(atoms=_doubled(self.pairs.atoms))
        limit = self.problem.limit / self.weight
        loss = float(losses @ limit)
        if not np.isfinite(loss + self.penalty(self.params)):
            raise ValueError(_OVERFLOW)
        return Visited(loss, float(gaps @ limit), n_steps > 0)

    def _visit(self, order, rule, n_steps, params):
        losses, gaps = np.zeros((2, len(self.rows.signs)))
        n_labels = self.rows.signs.shape[1]
        work = Work(
            np.empty(n_labels),
            np.empty((3, n_labels)),
            np.zeros((2, self.atoms.value.shape[1])),
            np.empty(n_labels, np.int8),
        )
        n_full, n_made = visit_labels(
            order, rule, n_steps, self.inverse, self.rows, params, self.found, self.atoms,
            self.pairs, work, losses, gaps,
        )  # fmt: skip
        return losses, gaps, n_full, n_made

    def penalty(self, params):
        """Return the penalty of the parameters, divided by the sum of all C_n."""
        pairs = np.square(params.pairs).sum() / (4 * self.inverse) if self.inverse else 0.0
        return (0.5 * np.square(params.coef).sum() + pairs) / self.weight

    def rebuild(self):
        """Compute the parameters from the dual variables, which removes rounding errors."""
        # Only label vectors that differ from the observed labels have a share in the parameters.
        # The sums run over the differences, because the dual variables of these vectors may be
        # much smaller than the rounding error of the dual variable of the observed labels.
        limit, signs = self.problem.limit, self.problem.signs
        row, atom = np.nonzero(self.atoms.value)
        weight = self.atoms.value[row, atom] * limit[row]
        labels, observed = self.atoms.labels[row, atom].astype(np.float64), signs[row]
        owner = sparse.csr_matrix((weight, (row, np.arange(len(row)))), (len(signs), len(row)))
        missed = owner @ (observed - labels)
        self.params.coef[:-1] = np.asarray(self.X.T @ missed)
        self.params.coef[-1] = missed.sum(axis=0)
        if self.inverse:
            differs = (observed != labels).any(axis=1)
            row, atom, weight = row[differs], atom[differs], weight[differs]
            labels, observed = labels[differs], observed[differs]
            pairs = observed.T @ (weight[:, None] * observed)
            if self.pairs is not None:
                pairs -= np.tensordot(weight, self.pairs.atoms[row, atom], 1)
            else:
                pairs -= labels.T @ (weight[:, None] * labels)
            pairs = self.inverse * np.tril(pairs, -1)
            self.params.pairs[...] = pairs + pairs.T

    def dual(self):
        """Return the dual objective, divided by the sum of all C_n."""
        signs, (labels, value) = self.problem.signs, self.atoms
        agreed = np.einsum("nal,nl->na", labels, signs)
        wrong = (value * 0.5 * (signs.shape[1] - agreed)).sum(axis=1)
        return float(wrong @ self.problem.limit) / self.weight - self.penalty(self.params)

    def primal(self, params):
        """Search by the problem's own method; return the objective, and the share of proofs."""
        self.found, proven = self._search(params)
        self.fresh = True
        losses, *_ = self._visit(np.arange(len(proven)), GIVEN, 0, params)
        loss = float(losses @ self.problem.limit) / self.weight
        return loss + self.penalty(params), float(proven.mean())

    def _search(self, params):
        """Return the labels that violate the margin most, and an array (N,) of proofs.

        The expected products of the labels are stored in `pairs`. The array is False for rows in
        which branch and bound has not proved that no labels violate the margin more.
        """
        signs, method, n_jobs = self.problem.signs, self.problem.method, self.problem.n_jobs
        proven = np.ones(len(signs), bool)
        fields = linear_fields(self.X, params.coef[:-1].T.copy(), params.coef[-1]) - 0.5 * signs
        if self.problem.one_hot:
            found = 2 * np.eye(fields.shape[1], dtype=np.int8)[fields.argmax(axis=1)] - 1
            return found, proven
        energy = IsingEnergy(params.pairs, fields)
        if self.pairs is not None:
            from skcrbm.inference.search.roof_dual import relaxed_labels  # loads kernels

            found, _, _ = relaxed_labels(energy, n_jobs)
            halves = (found == 0).astype(np.int8)
            undecided = np.sign(params.pairs).astype(np.int8) * _products(halves)
            self.pairs = self.pairs._replace(found=_products(found) + undecided)
            return found, proven
        try:
            best = run_inference(energy, method, returns="map", n_jobs=n_jobs)
        except MagnitudeError as error:
            raise ValueError(
                "X times coef_ is too large for inference; scale the columns of X or lower C"
            ) from error
        if method.name == "branch_and_bound":
            proven = best.converged
        return 2 * best.assignment.astype(np.int8) - 1, proven


def _doubled(array):
    """Return the array (N, M, ...) with as many new columns of zeros, (N, 2M, ...)."""
    return np.concatenate([array, np.zeros_like(array)], axis=1)


def _products(labels):
    """Return the products (N, L, L) of all pairs of labels (N, L), below the diagonal."""
    return np.tril(labels[:, :, None] * labels[:, None, :], -1)
