"""Find the best labels of Ising models: a mixed integer program (HiGHS) for each row."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from skcrbm.inference.search.found import hinge_losses_and_scores
from skcrbm.utils.limits import MAX_TIE_LABELS

# The coefficients of a program are divided by the largest margin that is possible. The objective is
# then multiplied by this factor, so that it is large compared with the absolute gap at which HiGHS
# stops.
_OBJECTIVE_SCALE = 1e3
# Absolute gap of the objective at which HiGHS stops.
_ABSOLUTE_GAP = 1e-6
# Tolerance of HiGHS for reduced costs. A variable has a range of at most 2, so it may make the
# bound wrong by up to twice this tolerance.
_DUAL_TOLERANCE = 1e-7
# Two values of the scaled objective count as equal if they differ by at most this number.
_PROGRAM_TIE = 1e-9


def solve_rows(problem, found):
    """Solve the rows of a problem, and write the results to the `FoundLabels` `found`.

    The lower bound is the bound of HiGHS minus the tolerances of HiGHS. The gap is therefore
    exactly 0 only if the hinge loss of the labels is 0.
    """
    known = np.where(problem.held == 0, np.nan, problem.held > 0)
    margin = problem.margin
    for row, field in enumerate(problem.fields):
        program = _Program(field, problem.coupling, margin, known[row])
        found.labels[row], found.lower[row], found.n_iter[row] = program.best()
    signs = 2.0 * found.labels - 1.0
    loss, score = hinge_losses_and_scores(signs, problem.fields, problem.coupling, margin or 0.0)
    found.value[...] = -score if margin is None else loss
    if margin is not None:
        np.maximum(found.lower, 0.0, out=found.lower)
    np.minimum(found.lower, found.value, out=found.lower)
    found.converged[...] = True
    return found


class _Program:
    """The mixed integer program of one row.

    The variables are the labels u (L,) in {0, 1}, with y = 2u - 1; the products w_ik = u_i u_k of
    coupled pairs i < k; and, if there is a margin, the hinge losses xi (L,). The program is linear,
    because y_i y_k = 4 w_ik - 2 u_i - 2 u_k + 1. If there is no margin, the objective is the score.
    `known` (L,) has 0 and 1 for clamped labels, NaN for free labels.
    """

    def __init__(self, field, coupling, margin, known):
        n_labels = len(field)
        unit = np.abs(field).max(initial=0) + np.abs(coupling).sum(axis=1).max(initial=0)
        self.unit = max(unit + (margin or 0.0), 1e-300)
        field, coupling = field / self.unit, coupling / self.unit
        first, second = np.nonzero(np.triu(coupling, 1))
        n_pairs = len(first)
        self.n_labels, self.first, self.second = n_labels, first, second
        self.size = n_labels + n_pairs + (0 if margin is None else n_labels)
        strength = coupling[first, second]
        # Row p of `products` times the vector of the variables, plus 1, is y_i y_k for pair p = (i,
        # k).
        products = np.zeros((n_pairs, self.size))
        pair = np.arange(n_pairs)
        products[pair, first] = products[pair, second] = -2.0
        products[pair, n_labels + pair] = 4.0
        self.constraints = self._constrain_products(pair)
        score = strength @ products
        score[:n_labels] += 2.0 * field
        # List of objectives. The first objective has priority over the second objective, and lacks
        # the constant term `constant`.
        self.objectives = [-score]
        self.constant = field.sum() - strength.sum()
        self.margins = None
        if margin is not None:
            self._add_losses(field, strength, products, margin / self.unit)
        if n_labels <= MAX_TIE_LABELS:
            order = np.zeros(self.size)
            order[:n_labels] = 0.5 ** np.arange(1, n_labels + 1)
            self.objectives.append(order)
        self.integrality = np.zeros(self.size)
        self.integrality[:n_labels] = 1
        lower, upper = np.zeros(self.size), np.full(self.size, np.inf)
        upper[: n_labels + n_pairs] = 1.0
        lower[:n_labels] = np.where(known == 1, 1.0, 0.0)
        upper[:n_labels] = np.where(known == 0, 0.0, 1.0)
        # The type stubs of SciPy do not accept arrays as bounds.
        self.bounds = Bounds(lower, upper)  # pyright: ignore[reportArgumentType]

    def _constrain_products(self, pair):
        """Return the constraints w <= u_i, w <= u_k, w >= u_i + u_k - 1."""
        if not len(pair):
            return []
        product = np.zeros((len(pair), self.size))
        product[pair, self.n_labels + pair] = 1.0
        one, other, union = product.copy(), product.copy(), product.copy()
        one[pair, self.first] = other[pair, self.second] = -1.0
        union[pair, self.first] = union[pair, self.second] = -1.0
        return [
            LinearConstraint(one, ub=0.0),
            LinearConstraint(other, ub=0.0),
            LinearConstraint(union, lb=-1.0),
        ]

    def _add_losses(self, field, strength, products, margin):
        """Make the sum of losses xi the first objective, and constrain xi + margins >= margin."""
        label, pair = np.arange(self.n_labels), np.arange(len(strength))
        incidence = np.zeros((self.n_labels, len(strength)))
        incidence[self.first, pair] = incidence[self.second, pair] = strength
        self.margins = incidence @ products
        self.margins[label, label] += 2.0 * field
        self.needed = margin - incidence.sum(axis=1) + field
        slack = self.margins.copy()
        slack[label, self.size - self.n_labels + label] = 1.0
        self.constraints.append(LinearConstraint(slack, lb=self.needed))
        loss = np.zeros(self.size)
        loss[self.size - self.n_labels :] = 1.0
        self.objectives.insert(0, loss)
        self.constant = 0.0

    def best(self):
        """Return the best labels (L,) as 0 and 1, a lower bound of the value, and the node count.

        The objectives are minimised one after the other. Each objective is minimised among the
        solutions that are optimal for all previous objectives.
        """
        x, lower, n_nodes = self._solve(self.objectives[0], self.constraints)
        if x is None:
            raise RuntimeError("HiGHS found no solution of the mixed integer program")
        constraints = self.constraints
        for done, objective in zip(self.objectives, self.objectives[1:]):
            constraints = [*constraints, LinearConstraint(done[None], ub=done @ x + _PROGRAM_TIE)]
            tied, _, more = self._solve(objective, constraints)
            n_nodes += more
            # HiGHS satisfies constraints only up to a tolerance, so these labels may be worse.
            if tied is not None and all(
                o @ tied <= o @ x + 2 * _PROGRAM_TIE for o in (self.objectives[0], done)
            ):
                x = tied
        return x[: self.n_labels], self.unit * (lower + self.constant), n_nodes

    def _solve(self, objective, constraints):
        """Return the variables at the minimum, a lower bound of the minimum and the node count.

        The products and losses are computed again from the labels, because HiGHS returns them only
        approximately. The variables are None if HiGHS fails.
        """
        result = milp(
            _OBJECTIVE_SCALE * objective,
            integrality=self.integrality,
            bounds=self.bounds,
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        if result.x is None:
            return None, -np.inf, 0
        x = np.zeros(self.size)
        on = result.x[: self.n_labels] > 0.5
        pairs = slice(self.n_labels, self.n_labels + len(self.first))
        x[: self.n_labels] = on
        x[pairs] = on[self.first] & on[self.second]
        if self.margins is not None:
            x[pairs.stop :] = np.maximum(self.needed - self.margins @ x, 0.0)
        tolerance = _ABSOLUTE_GAP + 2 * _DUAL_TOLERANCE * self.size
        lower = (result.mip_dual_bound - tolerance) / _OBJECTIVE_SCALE
        return x, lower, result.mip_node_count
