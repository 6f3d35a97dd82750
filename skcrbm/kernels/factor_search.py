"""Choose acyclic sets of factors for tree-reweighting, and run mean field on factor graphs."""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import binary_entropy, root_of, sigmoid_pair


class VariableEdges(NamedTuple):
    """The edges of a factor graph, sorted by variable.

    There are n variables and E edges. The edges of variable v are
    variable_edges[variable_start[v]:variable_start[v + 1]].
    """

    edge_factor: np.ndarray  # (E,) int64, factor of each edge
    variable_start: np.ndarray  # (n + 1,) first entry of each variable in `variable_edges`
    variable_edges: np.ndarray  # (E,) int64, edges sorted by variable


class MeanFieldAnswers(NamedTuple):
    """Arrays that `graph_mean_field` fills in."""

    log_odds: np.ndarray  # (N, n) float64 log-odds of the beliefs, in and out
    n_iter: np.ndarray  # (N,) number of iterations
    # (N,) True if converged; False if impossible states have a probability above 0.001
    converged: np.ndarray
    log_partition: np.ndarray  # (N,) lower bound of log Z
    trace: np.ndarray  # (N, max_iter or 0) residual of each iteration


@jit
def count_forest(variables, edge_start, order, n_variables, count):
    """Choose an acyclic set of factors greedily, and add 1 to `count` (F,) for each chosen factor.

    Factors are tried in `order` (F,). A factor is chosen if all its variables lie in different
    connected components of the factors chosen before, so that it closes no cycle. The factor then
    joins these components.
    """
    parent = np.arange(n_variables)
    seen = np.full(n_variables, -1)
    for f in order:
        apart = True
        for e in range(edge_start[f], edge_start[f + 1]):
            root = root_of(parent, variables[e])
            if seen[root] == f:
                apart = False
                break
            seen[root] = f
        if apart:
            count[f] += 1
            first = root_of(parent, variables[edge_start[f]])
            for e in range(edge_start[f], edge_start[f + 1]):
                parent[root_of(parent, variables[e])] = first


@jit
def _lift(graph, f, slot, limit, on, off, log_off):
    """Return how much the expected score of factor f grows if a variable changes from 0 to 1.

    The variable has the position `slot` among the variables of the factor. `on` and `off` (n,) are
    the probabilities of the values 1 and 0 of all variables. An impossible state has the score
    ``-limit``. `log_off` (F,) holds the results of `_all_off`.
    """
    variables, edge_start, _, logs, table_start, n_tables, negated, _ = graph
    start = edge_start[f]
    k = edge_start[f + 1] - start
    if f < n_tables:
        total, bit = 0.0, k - 1 - slot
        for code in range(1 << k):
            if (code >> bit) & 1:
                continue
            p = 1.0
            for j in range(k):
                if j != slot:
                    v = variables[start + j]
                    p *= on[v] if (code >> (k - 1 - j)) & 1 else off[v]
            if p > 0.0:
                first = table_start[f] + code
                total += p * (max(logs[first + (1 << bit)], -limit) - max(logs[first], -limit))
        return total
    sign = -1.0 if negated[f] else 1.0
    if slot == k - 1:
        return sign * limit * (1.0 - 2.0 * math.exp(min(log_off[f], 0.0)))
    v, output = variables[start + slot], variables[start + k - 1]
    own = on[v] if negated[f] else off[v]
    others = math.exp(min(log_off[f] - math.log(max(own, 1e-300)), 0.0))
    return sign * limit * others * (sign * (on[output] - off[output]))


@jit
def _factor_score(graph, f, limit, on, off, log_off):
    """Return the expected score of a factor, and the probability of impossible states.

    An impossible state has the score ``-limit``. `log_off` (F,) holds the results of `_all_off`.
    """
    variables, edge_start, _, logs, table_start, n_tables, negated, _ = graph
    start = edge_start[f]
    k = edge_start[f + 1] - start
    total, impossible = 0.0, 0.0
    if f < n_tables:
        for code in range(1 << k):
            p = 1.0
            for j in range(k):
                v = variables[start + j]
                p *= on[v] if (code >> (k - 1 - j)) & 1 else off[v]
            x = logs[table_start[f] + code]
            if x == -math.inf:
                impossible += p
            elif p > 0.0:
                total += p * x
    else:
        output = variables[start + k - 1]
        all_off = math.exp(min(log_off[f], 0.0))
        yes, no = on[output], off[output]
        if negated[f]:
            yes, no = no, yes
        impossible = yes * all_off + no * (1.0 - all_off)
    return total - limit * impossible, impossible


@jit
def _all_off(graph, f, on, off):
    """Return the log-probability that all inputs of an OR are 0, or all inputs of an AND are 1.

    The factor f is an AND if ``graph.negated[f]``, otherwise an OR.
    """
    variables, edge_start, negated = graph.variables, graph.edge_start, graph.negated
    total = 0.0
    for e in range(edge_start[f], edge_start[f + 1] - 1):
        own = on[variables[e]] if negated[f] else off[variables[e]]
        total += math.log(max(own, 1e-300))
    return total


@jit
def graph_mean_field(graph, edges, shift, models, max_iter, tol, answers):
    """Run mean field on N models by coordinate ascent, one variable after the other.

    Parameters
    ----------
    graph : FactorGraph
    edges : VariableEdges
    shift : (F,) float64, logarithm of the number that the weights of each table were divided by
    models : tuple of arrays
        The penalty (N,) for an impossible state, the fields (N, n), and the values (N, n) of
        clamped variables, int8, -1 if free.
    max_iter : int, largest number of iterations
    tol : float, largest change of a probability that counts as no change
    answers : MeanFieldAnswers
    """
    edge_factor, variable_start, variable_edges = edges
    limit, field, held = models
    theta, n_iter, converged, log_partition, trace = answers
    edge_start, n_tables = graph.edge_start, graph.n_tables
    n_factors, n = edge_start.shape[0] - 1, field.shape[1]
    on, off, log_off = np.empty(n), np.empty(n), np.zeros(n_factors)
    for m in range(field.shape[0]):
        for v in range(n):
            on[v], off[v] = sigmoid_pair(theta[m, v], 1.0)
            if held[m, v] >= 0:
                on[v], off[v] = float(held[m, v]), 1.0 - held[m, v]
        n_iter[m] = max_iter
        for iteration in range(max_iter):
            for f in range(n_tables, n_factors):
                log_off[f] = _all_off(graph, f, on, off)
            change = 0.0
            for v in range(n):
                if held[m, v] >= 0:
                    continue
                x = field[m, v]
                for at in range(variable_start[v], variable_start[v + 1]):
                    f = edge_factor[variable_edges[at]]
                    slot = variable_edges[at] - edge_start[f]
                    x += _lift(graph, f, slot, limit[m], on, off, log_off)
                old_on, old_off = on[v], off[v]
                theta[m, v] = x
                on[v], off[v] = sigmoid_pair(x, 1.0)
                change = max(change, abs(on[v] - old_on))
                for at in range(variable_start[v], variable_start[v + 1]):
                    f = edge_factor[variable_edges[at]]
                    if f >= n_tables and variable_edges[at] < edge_start[f + 1] - 1:
                        old, new = (old_on, on[v]) if graph.negated[f] else (old_off, off[v])
                        log_off[f] += math.log(max(new, 1e-300)) - math.log(max(old, 1e-300))
            if trace.shape[1]:
                trace[m, iteration] = change
            if change < tol:
                n_iter[m] = iteration + 1
                converged[m] = True
                break
        total, worst = 0.0, 0.0
        for v in range(n):
            if on[v] > 0.0:
                total += field[m, v] * on[v]
            if held[m, v] < 0:
                total += binary_entropy(theta[m, v])
        for f in range(n_factors):
            if f >= n_tables:
                log_off[f] = _all_off(graph, f, on, off)
            score, impossible = _factor_score(graph, f, limit[m], on, off, log_off)
            total += score + shift[f]
            worst = max(worst, impossible)
        log_partition[m] = total
        converged[m] &= worst < 1e-3
