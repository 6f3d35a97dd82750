"""The local polytope's linear program, one a model, solved by HiGHS."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from skcrbm.inference.factor_graph._pairs import bounded_answer, pair_model


def solve(method, energy, query):
    """Answer "map" and "map_bound" by linear programs; see `LinearProgram`."""
    model = pair_model(energy)
    n, width = model.field.shape
    state = np.zeros((n, width), np.int8)
    dual = np.zeros(n)
    n_iter, converged = np.zeros(n, np.int64), np.zeros(n, bool)
    for row in range(n):
        program = _Program(model, row)
        found = program.solve()
        state[row, program.variables] = found.state
        dual[row], n_iter[row], converged[row] = found.bound, found.n_iter, found.converged
        model.magnitude[row] += found.magnitude
    return bounded_answer(energy, model, state, dual, query, n_iter, converged)


class _Found:
    """What came of a program: state (n,), bound, magnitude, n_iter, converged."""

    def __init__(self, state, bound, magnitude, n_iter, converged):
        self.state, self.bound, self.magnitude = state, bound, magnitude
        self.n_iter, self.converged = n_iter, converged


class _Program:
    """Maximise ``c'z`` over z in [0, 1] with ``A z <= b``; z are free variables, then edges.

    Of an edge that is positive only ``z_e <= x_i, x_k`` can bind, of one that is negative
    only ``z_e >= x_i + x_k - 1``.
    """

    def __init__(self, model, row):
        free = model.free[row]
        self.variables = np.flatnonzero(free)
        number = np.cumsum(free) - 1
        there = free[model.edges].all(axis=1) & (model.coupling != 0)
        ends, coupling = number[model.edges[there]], model.coupling[there]
        n, n_edges = len(self.variables), len(coupling)
        self.gain = np.concatenate([model.field[row, self.variables], coupling])
        edge = n + np.arange(n_edges)
        up, down = coupling > 0, coupling < 0
        n_up, n_down = up.sum(), down.sum()
        first, second = np.arange(n_up), n_up + np.arange(n_up)
        third = 2 * n_up + np.arange(n_down)
        entries = [  # (value, row, column)
            (1.0, first, edge[up]), (-1.0, first, ends[up, 0]),
            (1.0, second, edge[up]), (-1.0, second, ends[up, 1]),
            (-1.0, third, edge[down]), (1.0, third, ends[down, 0]), (1.0, third, ends[down, 1]),
        ]  # fmt: skip
        values, rows, columns = (
            np.concatenate([np.broadcast_to(part[j], part[1].shape) for part in entries])
            for j in range(3)
        )
        shape = 2 * n_up + n_down, n + n_edges
        self.matrix = csr_array((values, (rows, columns)), shape=shape)
        self.limit = np.concatenate([np.zeros(2 * n_up), np.ones(n_down)])

    def solve(self):
        """Solve the program; its bound is that of the multipliers that HiGHS found.

        Any that are not negative give one, whatever the tolerances of HiGHS: what is left of c
        takes the better end of [0, 1].
        """
        unit = np.abs(self.gain).max(initial=0)  # tolerances of HiGHS are absolute
        price, n_iter, converged = np.zeros(len(self.limit)), 0, True
        n = len(self.variables)
        state = (self.gain[:n] > 0).astype(np.int8)
        if len(self.limit):
            found = linprog(
                -self.gain / unit, self.matrix, self.limit, bounds=(0.0, 1.0), method="highs"
            )
            converged = found.status == 0
            if converged:
                price = unit * np.maximum(-found.ineqlin.marginals, 0.0)
                state, n_iter = (found.x[:n] > 0.5).astype(np.int8), found.nit
        left = self.gain - self.matrix.T @ price
        bound = self.limit @ price + np.maximum(left, 0.0).sum()
        return _Found(state, bound, np.abs(left).sum() + 4 * price.sum(), n_iter, converged)
