"""Methods that bound the maximum of pairwise models: MPLP and the local polytope's program."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from skcrbm.energies import FactorGraphEnergy
from skcrbm.kernels.pair_dual import pair_dual
from skcrbm.utils.limits import CACHED_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# A unit roundoff; `PairModel.slack` counts in it.
_ROUNDING = np.finfo(np.float64).eps


class PairModel(NamedTuple):
    """A batch of models ``offset_n + f_n' x + sum_e w_e x_i x_k`` over 0/1 variables, float64.

    Evidence is folded into fields and offsets: an edge with a held variable is to be left out,
    by `free`.

    Attributes
    ----------
    edges : ndarray of int64 (E, 2)
    coupling : ndarray (E,)
        w.
    field : ndarray (N, n)
        f, 0 where held.
    offset : ndarray (N,)
    free : ndarray of bool (N, n)
    rounding : ndarray (N,)
        Times the sum of the magnitudes of all that a bound is summed from: more than
        rounding can have taken from it.
    magnitude : ndarray (N,)
        That sum, of the numbers of the model.
    """

    edges: np.ndarray
    coupling: np.ndarray
    field: np.ndarray
    offset: np.ndarray
    free: np.ndarray
    rounding: float
    magnitude: np.ndarray


def pair_model(energy):
    """Return the `PairModel` of an energy of pairs, evidence included.

    A state of weight 0 counts as one that is worse than every possible one: no bound is too low
    by that, and a state that is found shows by its score what it is.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy, SparseIsingEnergy or FactorGraphEnergy
        With tables of one or two variables.
    """
    graph = energy
    if not isinstance(graph, FactorGraphEnergy):
        graph = FactorGraphEnergy.from_energy(graph)
    field = graph.field.astype(np.float64)
    offset = graph.offset.astype(np.float64)
    tables = {
        group.variables.shape[1]: (group.variables, group.log_potentials.astype(np.float64))
        for group in graph.tables
    }
    single, of_single = tables.get(1, (np.empty((0, 1), np.int64), np.empty((0, 2))))
    edges, of_pair = tables.get(2, (np.empty((0, 2), np.int64), np.empty((0, 4))))
    reach = np.abs(field).sum(axis=1).max(initial=0) + sum(
        np.where(np.isfinite(part), np.abs(part), 0).max(axis=1).sum()
        for part in (of_single, of_pair)
        if len(part)
    )
    # A state that is possible is above -2 * reach, one that is not below by as much again.
    of_single, of_pair = (
        np.where(np.isfinite(part), part, -4 * reach - 1) for part in (of_single, of_pair)
    )
    shift = np.zeros(field.shape[1])
    np.add.at(shift, single[:, 0], of_single[:, 1] - of_single[:, 0])
    np.add.at(shift, edges[:, 0], of_pair[:, 2] - of_pair[:, 0])
    np.add.at(shift, edges[:, 1], of_pair[:, 1] - of_pair[:, 0])
    coupling = of_pair[:, 3] - of_pair[:, 2] - of_pair[:, 1] + of_pair[:, 0]
    degree = np.bincount(edges.reshape(-1), minlength=field.shape[1])
    given = np.abs(of_single).sum() + np.abs(of_pair).sum()
    magnitude = 4 * given + 2 * np.abs(field).sum(axis=1)
    field += shift
    offset += of_single[:, 0].sum() + of_pair[:, 0].sum()
    free = graph.free
    if graph.evidence is not None:
        field, offset = _fold(edges, coupling, field, offset, np.nan_to_num(graph.evidence), free)
    return PairModel(
        kernel_array(edges), kernel_array(coupling), kernel_array(field), offset,
        kernel_array(free), _ROUNDING * (degree.max(initial=0) + 8), magnitude,
    )  # fmt: skip


def _fold(edges, coupling, field, offset, values, free):
    """Fields of the free variables given the held ones, at `values` (N, n), and offsets."""
    folded, total = field.copy(), offset + (field * values).sum(axis=1)
    for n in range(len(field)):  # one by one: E numbers a row
        one, other = values[n, edges[:, 0]], values[n, edges[:, 1]]  # 0 where free
        np.add.at(folded[n], edges[:, 0], coupling * other)
        np.add.at(folded[n], edges[:, 1], coupling * one)
        total[n] += (coupling * one * other).sum()
    return np.where(free, folded, 0.0), total


def bounded_answer(energy, model, state, dual, query, n_iter, converged):
    """Make `InferenceResult` fields of states and of bounds that rounding may have lowered.

    Parameters
    ----------
    energy : BaseEnergy
    model : PairModel
    state : ndarray of int8 (N, n)
        Held variables at any value.
    dual : ndarray (N,)
        Bounds of the free variables' part, the sum of their magnitudes in ``model.magnitude``.
    query : Query
    n_iter : ndarray of int (N,)
    converged : ndarray of bool (N,)
    """
    if energy.evidence is not None:
        state[...] = np.where(model.free, state, energy.evidence == 1)
    score = energy.score(state)
    fields = {
        "assignment": state,
        "n_iter": n_iter,
        "converged": converged & (score > -np.inf),  # else the state cannot be
    }
    if "map_bound" in query.returns:
        bound = np.maximum(model.offset + dual + model.rounding * model.magnitude, score)
        fields["map_bound"], fields["gap"] = bound, bound - score
    return fields


def solve_mplp(method, energy, query):
    """Answer "map" and "map_bound" by MPLP; see `MPLP`."""
    model = pair_model(energy)
    n, width = model.field.shape
    state = np.zeros((n, width), np.int8)
    dual = np.zeros(n)
    n_iter, converged = np.zeros(n, np.int64), np.zeros(n, bool)

    def run(rows):
        pair_dual(
            model.edges, model.coupling, model.field[rows], model.free[rows], method.max_iter,
            float(method.tol), state[rows], dual[rows], model.magnitude[rows], n_iter[rows],
            converged[rows],
        )  # fmt: skip

    size = min(ROWS_PER_CHUNK, max(1, CACHED_ENTRIES // max(1, len(model.edges))))
    for _ in ordered_map(run, row_chunks(n, size), query.n_jobs):
        pass
    return bounded_answer(energy, model, state, dual, query, n_iter, converged)


def solve_linear_program(method, energy, query):
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
