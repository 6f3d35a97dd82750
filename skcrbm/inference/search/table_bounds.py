"""Bound the best score of factor graphs with any tables: "mplp" and "linear_program".

A model is first reduced (`TableModel`): impossible states are removed, and variables are eliminated
if this makes no larger table. Then a bound is computed for each connected component separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.any_energy.ascent import ascend_from
from skcrbm.inference.base import Query, empty_result
from skcrbm.inference.search.table_model import (
    Component,
    ImpossibleModelError,
    TableModel,
    tables_of,
)
from skcrbm.kernels.map_search import shift_tables
from skcrbm.kernels.search_tables import state_score
from skcrbm.utils.parallel import ordered_map, row_chunks

# Rounding error of a single float64 operation.
_ROUNDING = np.finfo(np.float64).eps


class _Part(NamedTuple):
    """State and bound of a connected component of a model."""

    state: np.ndarray  # (n,) best state found
    bound: float  # upper bound of the score
    n_iter: int
    converged: bool


def solve_mplp(method, energy, query):
    """Compute "map" and "map_bound" by max-product linear programming; see `MPLP`."""
    return _solve(energy, query, lambda part: _mplp(part, method.max_iter, float(method.tol)))


def solve_linear_program(method, energy, query):
    """Compute "map" and "map_bound" by linear programs; see `LinearProgram`."""
    return _solve(energy, query, _linear_program)


def _solve(
    energy: FactorGraphEnergy, query: Query, solve: Callable[[Component], _Part]
) -> dict[str, Any]:
    """Bound all models. The function `solve` bounds one connected component of a model."""
    fields = empty_result(energy, query)
    tables, scopes, n_all = tables_of(energy)
    unary, counts = energy.log_fields(), energy.state_counts
    bound = energy.offset.copy()
    state = np.zeros((energy.n_models, energy.n_variables), energy.state_dtype)

    def run(rows):
        n = rows.start
        own = [unary[n, v, :k] for v, k in enumerate(counts)]
        own += [np.zeros(2)] * (n_all - len(own))
        try:
            model = TableModel(own, scopes, tables)
            components = model.reduce()
        except ImpossibleModelError:
            bound[n] = -np.inf
            return
        parts = [
            solve(part)
            if part.scopes
            else _Part(np.array([row.argmax() for row in part.unary]), _top(part), 0, True)
            for part in components
        ]
        bound[n] += model.constant + sum(part.bound for part in parts)
        state[n] = model.complete(components, [part.state for part in parts])[: state.shape[1]]
        fields["n_iter"][n] = max((part.n_iter for part in parts), default=0)
        fields["converged"][n] = all(part.converged for part in parts)

    for _ in ordered_map(run, row_chunks(energy.n_models, 1), query.n_jobs):
        pass
    if energy.evidence is not None:
        state = np.where(energy.free, state, np.nan_to_num(energy.evidence)).astype(state.dtype)
    state, _ = ascend_from(energy, query, state)
    score = energy.score(state)
    fields["assignment"] = state
    fields["converged"] &= score > -np.inf  # False if the state is impossible
    if "map_bound" in query.returns:
        size = sum(float(_largest(table).sum()) for table in tables)
        size += (
            np.where(np.isfinite(unary), np.abs(unary), 0.0).max(axis=2, initial=0.0).sum(axis=1)
        )
        fields["map_bound"] = np.maximum(bound + 16 * _ROUNDING * size, score)
        possible = fields["map_bound"] > -np.inf
        gap = np.zeros(energy.n_models)
        np.subtract(fields["map_bound"], score, out=gap, where=possible)
        fields["gap"] = gap
    return fields


def _largest(table):
    """Return the largest finite |log-weight| of a table, or 0."""
    return np.abs(np.where(np.isfinite(table), table, 0.0)).max(initial=0.0)


def _top(part):
    return float(sum(row.max() for row in part.unary))


def _mplp(part: Component, max_iter: int, tol: float) -> _Part:
    """Compute the bound of a component by MPLP, and a state by rounding the beliefs."""
    graph = part.graph()
    belief = graph.unary.copy()
    shifted = graph._replace(entries=graph.entries.copy())
    absent = np.arange(belief.shape[1]) >= graph.n_states[:, None]
    size = sum(float(_largest(table)) for table in [*part.tables, *part.unary])
    n_edges = int(np.diff(graph.variable_start).max()) + int(np.diff(graph.scope_start).max())
    bound, best, state = np.inf, (-np.inf, 0), np.zeros(len(part.variables), np.int64)
    n_iter, converged = max_iter, False
    for sweep in range(max_iter + 1):
        now = shift_tables(shifted, belief, min(sweep, 1))
        here = np.where(absent, -np.inf, belief).argmax(axis=1)
        score, n_bad = state_score(graph, here)
        if (-n_bad, score) > best or sweep == 0:
            best, state = (-n_bad, score), here
        if sweep and bound - now <= tol:
            n_iter, converged = sweep, True
            bound = min(bound, now)
            break
        bound = min(bound, now)
    # Add an upper bound of the rounding errors. It assumes a few operations on each number per
    # sweep.
    return _Part(state, bound + 4 * (n_iter + 2) * n_edges * _ROUNDING * size, n_iter, converged)


def _linear_program(part: Component) -> _Part:
    """Solve the linear program over the local polytope of a component.

    The unknowns of the program are pseudo-marginals in [0, 1]: for each state of each variable,
    then for each possible entry of each table. For each state of each variable of a table, there is
    a constraint that the pseudo-marginals of the entries with this state add up to the
    pseudo-marginal of the state. The bound is computed from the multipliers of these constraints,
    so it is valid even if the solution of HiGHS is not exact.
    """
    n_states = np.array(part.n_states)
    first = np.cumsum(n_states) - n_states
    gains, values, rows, columns = [np.concatenate(part.unary)], [], [], []
    blocks = np.repeat(np.arange(len(n_states)), n_states)
    all_blocks, n_columns, n_rows = [blocks], len(blocks), 0
    for f, (scope, table) in enumerate(zip(part.scopes, part.tables, strict=True)):
        place = np.flatnonzero(table.ravel() > -np.inf)
        own = n_columns + np.arange(len(place))
        for v, digit in zip(scope, np.unravel_index(place, table.shape), strict=True):
            k = part.n_states[v]
            rows += [n_rows + digit, n_rows + np.arange(k)]
            columns += [own, first[v] + np.arange(k)]
            values += [np.ones(len(place)), -np.ones(k)]
            n_rows += k
        gains.append(table.ravel()[place])
        all_blocks.append(np.full(len(place), len(n_states) + f))
        n_columns += len(place)
    gain, block = np.concatenate(gains), np.concatenate(all_blocks)
    normal = len(blocks)
    matrix = csr_array(
        (
            np.concatenate([*values, np.ones(normal)]),
            (
                np.concatenate([*rows, n_rows + blocks]),
                np.concatenate([*columns, np.arange(normal)]),
            ),
        ),
        shape=(n_rows + len(n_states), n_columns),
    )
    limit = np.concatenate([np.zeros(n_rows), np.ones(len(n_states))])
    # Scale the objective, because the tolerances of HiGHS are absolute.
    unit = max(float(np.abs(gain).max()), np.finfo(float).tiny)
    found = linprog(-gain / unit, A_eq=matrix, b_eq=limit, bounds=(0.0, None), method="highs")
    converged = found.status == 0
    price = np.zeros(len(limit))
    value, n_iter = gain, 0
    if converged:
        price[:n_rows] = -unit * found.eqlin.marginals[:n_rows]
        value, n_iter = found.x, found.nit
    left = gain - matrix.T @ price
    tops = np.full(block[-1] + 1, -np.inf)
    np.maximum.at(tops, block, left)
    size = np.abs(left).sum() + 4 * np.abs(price).sum() + np.abs(gain).sum()
    parts = np.split(value[:normal], first[1:])
    state = np.array([values.argmax() for values in parts])
    return _Part(state, float(tops.sum()) + 16 * _ROUNDING * size, n_iter, converged)
