"""Mean field on factor graphs whose variables may have any number of states."""

import math

import numpy as np

from skcrbm.kernels.arguments import ONE, POTTS, ZERO
from skcrbm.kernels.jit import jit


@jit(allocates=False)
def add_expected(graph, e, cost, variables, belief, out, work):
    """For each of k states of a variable, add the expected log-weight of a factor to `out`.

    Edge `e` joins the factor and the variable. An entry of weight 0 (log-weight -inf) counts as
    ``-cost``. Return the total probability of the entries of weight 0.
    """
    message_start, scopes, digits = graph.message_start, graph.scopes, work.digits
    scope, m, slot = graph.scope[e], graph.arity[e], graph.slot[e]
    size, impossible = ONE, 0.0
    for j in range(m):
        size *= message_start[scopes[scope + j] + ONE] - message_start[scopes[scope + j]]
        digits[j] = ZERO
    own = graph.state_start[variables[e]]
    for s in range(size):
        code = s
        if graph.kind[e] == POTTS:
            code = ONE if digits[0] == digits[1] else ZERO
        x, p = graph.tables[graph.table[e] + code], 1.0
        for j in range(m):
            if j != slot:
                p *= belief[graph.state_start[variables[scopes[scope + j]]] + digits[j]]
        if x == -math.inf:
            out[digits[slot]] -= p * cost
            impossible += p * belief[own + digits[slot]]
        else:
            out[digits[slot]] += p * x
        for i in range(m):
            j = m - ONE - i
            other = scopes[scope + j]
            digits[j] += ONE
            if digits[j] < message_start[other + ONE] - message_start[other]:
                break
            digits[j] = ZERO
    return impossible


@jit
def mean_field_of_states(graph, variables, held, own, cost, belief, options, answers, work):
    """Run mean field on N models by coordinate ascent, one variable after the other.

    Parameters
    ----------
    graph : CategoricalGraph
        Tables are logarithms.
    variables : (E,) uintp variable of each edge
    held : (N, n) bool, True for clamped variables
    own : (N, S) log-weight that the fields alone give to each state
    cost : (N,) penalty for an entry of weight 0: its log-weight -inf counts as ``-cost``
    belief : (N, S) probabilities, in and out; clamped variables keep their probabilities
    options : (max_iter, tol)
    answers : (n_iter, converged, log_partition, trace), arrays with a row for each model
        A model has not converged if the entries of weight 0 of some table have a probability of
        0.001 or more.
    work : CategoricalWork
    """
    max_iter, tol = options
    n_iter, converged, log_partition, trace = answers
    state_start, total = graph.state_start, work.new
    n = np.uintp(held.shape[1])
    for m in range(own.shape[0]):
        n_iter[m] = max_iter
        for iteration in range(max_iter):
            change = 0.0
            for i in range(n):
                v = graph.order[i]
                if held[m, v]:
                    continue
                start = state_start[v]
                k = state_start[v + ONE] - start
                high = -math.inf
                for a in range(k):
                    total[a] = own[m, start + a]
                for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
                    add_expected(graph, e, cost[m], variables, belief[m], total, work)
                for a in range(k):
                    high = max(high, total[a])
                scale = 0.0
                for a in range(k):
                    total[a] = math.exp(total[a] - high) if high > -math.inf else 1.0
                    scale += total[a]
                for a in range(k):
                    new = total[a] / scale
                    change = max(change, abs(new - belief[m, start + a]))
                    belief[m, start + a] = new
            if trace.shape[1]:
                trace[m, iteration] = change
            if change < tol:
                n_iter[m] = iteration + 1
                converged[m] = True
                break
        bound, worst = 0.0, 0.0
        for v in range(n):
            start = state_start[v]
            for s in range(start, state_start[v + ONE]):
                p = belief[m, s]
                if p > 0.0:
                    bound += p * (own[m, s] - math.log(p))
            for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
                if graph.slot[e] == ZERO:
                    for a in range(state_start[v + ONE] - start):
                        total[a] = 0.0
                    worst = max(
                        worst, add_expected(graph, e, cost[m], variables, belief[m], total, work)
                    )
                    for a in range(state_start[v + ONE] - start):
                        bound += belief[m, start + a] * total[a]
        log_partition[m] = bound
        converged[m] &= worst < 1e-3
