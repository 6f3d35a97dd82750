"""Compute upper bounds of the scores of pairwise models: solvers of "mplp" and "linear_program".

For pairs of 0/1 variables, MPLP is 7 times and the linear program 3.5 times faster than for
general tables, see `table_bounds.py` (`examples/speed/benchmark_special_kernels.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from skcrbm.energies import BaseEnergy, FactorGraphEnergy
from skcrbm.inference.any_energy.ascent import ascend_from, only_map
from skcrbm.inference.base import Query
from skcrbm.inference.factor_graph._state_graph import StateGraph
from skcrbm.inference.methods._messages import MaxProduct
from skcrbm.inference.registry import solver_for
from skcrbm.inference.search import table_bounds
from skcrbm.kernels.pair_dual import pair_dual
from skcrbm.utils.limits import CACHED_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Rounding error of a single float64 operation. `PairModel.rounding` is a multiple of this number.
_ROUNDING = np.finfo(np.float64).eps


class PairModel(NamedTuple):
    """A batch of N models with scores ``offset_n + f_n' x + sum_e w_e x_i x_k``, in float64.

    The n variables x are 0 or 1, and each of the E edges e joins two variables i and k. Fields and
    offsets include the effect of the evidence. Solvers skip an edge if one of its variables is
    clamped.
    """

    edges: np.ndarray  # int64 (E, 2): variables i and k
    coupling: np.ndarray  # (E,): w
    field: np.ndarray  # (N, n): f, which is 0 for clamped variables
    offset: np.ndarray  # (N,): offsets
    free: np.ndarray  # bool (N, n): False for clamped variables
    rounding: float  # the rounding error of a bound is less than `rounding` times `magnitude`
    # (N,): sum of the absolute values of the terms of a bound, or a larger number
    magnitude: np.ndarray


def pair_model(energy: BaseEnergy) -> PairModel:
    """Return the `PairModel` of a pairwise energy, given its evidence.

    A state of weight 0 gets a finite score that is lower than the score of every possible state, so
    that upper bounds remain valid. The caller checks by `energy.score` whether a state is
    impossible.
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
    # The scores of possible states are between -reach and reach. A log-weight of -inf is replaced
    # by -4 reach - 1, so that every impossible state has a lower score than all possible states.
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
    """Add the effect of the clamped variables to the offsets and to the fields of free variables.

    `values` (N, n) are the clamped values, and 0 for free variables.
    """
    folded, total = field.copy(), offset + (field * values).sum(axis=1)
    # a model at a time, to save memory, because arrays have the length E
    for n in range(len(field)):
        left, right = values[n, edges[:, 0]], values[n, edges[:, 1]]  # 0 for free variables
        np.add.at(folded[n], edges[:, 0], coupling * right)
        np.add.at(folded[n], edges[:, 1], coupling * left)
        total[n] += (coupling * left * right).sum()
    return np.where(free, folded, 0.0), total


def bounded_answer(
    energy: BaseEnergy,
    model: PairModel,
    state: np.ndarray,
    dual: np.ndarray,
    query: Query,
    n_iter: np.ndarray,
    converged: np.ndarray,
) -> dict[str, Any]:
    """Return the fields of an `InferenceResult` with states (N, n) and upper bounds of the score.

    `dual` (N,) is an upper bound of the terms of the score that depend on free variables. This
    function adds the offset and the largest rounding error. It also writes the values of clamped
    variables to `state`, and improves the states, see `improved_states`.
    """
    if energy.evidence is not None:
        state[...] = np.where(model.free, state, energy.evidence == 1)
    state = improved_states(energy, query, state)
    score = energy.score(state)
    fields = {
        "assignment": state,
        "n_iter": n_iter,
        "converged": converged & (score > -np.inf),  # False if the state is impossible
    }
    if "map_bound" in query.returns:
        bound = np.maximum(model.offset + dual + model.rounding * model.magnitude, score)
        fields["map_bound"], fields["gap"] = bound, bound - score
    return fields


def improved_states(energy: BaseEnergy, query: Query, state: np.ndarray) -> np.ndarray:
    """Improve states (N, n) by coordinate ascent and, on forests, by max-product.

    A state that takes the best value of each variable by itself may mix several best states. On a
    forest, where the bound can be reached, max-product finds a best state in two sweeps.
    """
    state, _ = ascend_from(energy, query, state)
    graph = energy
    if not isinstance(graph, FactorGraphEnergy):
        graph = FactorGraphEnergy.from_energy(graph)
    if not StateGraph(graph, logic="keep").is_forest:
        return state
    solve = solver_for(MaxProduct.name, type(graph))
    found = solve(MaxProduct(), graph, only_map(query))["assignment"]
    if energy.evidence is not None:
        found = np.where(energy.free, found, np.nan_to_num(energy.evidence)).astype(state.dtype)
    better = energy.score(found) > energy.score(state)
    return np.where(better[:, None], found, state)


def solve_mplp(method, energy, query):
    """Compute "map" and "map_bound" by max-product linear programming; see `MPLP`."""
    if not energy.is_pairwise:
        return table_bounds.solve_mplp(method, energy, query)
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
    """Compute "map" and "map_bound" by linear programs; see `LinearProgram`."""
    if not energy.is_pairwise:
        return table_bounds.solve_linear_program(method, energy, query)
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


class _Solution(NamedTuple):
    """Solution of a linear program."""

    state: np.ndarray  # int8 (n,)
    bound: float
    magnitude: float  # sum of the absolute values of the terms of the bound
    n_iter: int
    converged: bool


class _Program:
    """Linear program of a model: maximise ``c'z`` over z in [0, 1] with ``A z <= b``.

    z has an entry x_i for each free variable i, then an entry z_e for each edge e = (i, k), which
    stands for the product x_i x_k. The program has only the constraints that can be active: ``z_e
    <= x_i`` and ``z_e <= x_k`` for an edge with positive coupling, and ``z_e >= x_i + x_k - 1`` for
    an edge with negative coupling.
    """

    def __init__(self, model, row):
        free = model.free[row]
        self.variables = np.flatnonzero(free)
        number = np.cumsum(free) - 1
        active = free[model.edges].all(axis=1) & (model.coupling != 0)
        ends, coupling = number[model.edges[active]], model.coupling[active]
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
        """Solve the program by HiGHS; compute the bound from the multipliers of the constraints.

        For any multipliers m >= 0, ``b'm`` plus the maximum of ``(c - A'm)'z`` over z in [0, 1] is
        a valid bound. So the bound is valid even if the solution of HiGHS is not exact.
        """
        # Scale the objective, because the tolerances of HiGHS are absolute.
        unit = np.abs(self.gain).max(initial=0)
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
        return _Solution(state, bound, np.abs(left).sum() + 4 * price.sum(), n_iter, converged)
