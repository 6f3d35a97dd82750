"""Solve the linear program over the local polytope of Ising models by maximum flows.

For pairwise models the program has a solution with the values 0, 1/2 and 1 only. A minimum cut of
a graph gives this solution. Each label y_i in {-1, +1} gets two copies, u_i for y_i and v_i for
-y_i, so that all couplings become attractive. If the cut gives u_i and v_i the same value, the
value of the label is 1/2. The nodes of the graph are all u, then all v. A positive field joins u_i
to the source and v_i to the sink; a negative field joins u_i to the sink and v_i to the source. A
positive coupling of i and k joins u_i to u_k and v_i to v_k; a negative coupling joins u_i to v_k
and v_i to u_k. The upper bound of the score is the sum of all |fields| and |couplings|, minus the
value of the cut.
"""

import numpy as np

from skcrbm.kernels.jit import jit

# A remaining capacity below this number times the largest capacity counts as 0, because it may be a
# rounding error.
_ROUNDING = 1e-13


@jit
def _fill_graph(f, S, free, pull, room):
    """Set the capacities of the graph of a model with L labels; return the largest capacity.

    `f` (L,) and `S` (L, L) are the fields and couplings, and `free` (L,) is False for clamped
    labels. The function fills two arrays. `pull` (2 L,) has an entry for each node: a positive
    number is the capacity of the edge to the source, and a negative number is minus the capacity of
    the edge to the sink. `room` (2 L, 2 L) has the capacities of the edges between nodes.
    """
    n = f.shape[0]
    largest = 0.0
    room[:] = 0.0
    for i in range(n):
        pull[i] = f[i] if free[i] else 0.0
        pull[n + i] = -pull[i]
        largest = max(largest, abs(pull[i]))
        for k in range(n):
            if i == k or not (free[i] and free[k]):
                continue
            size = abs(S[i, k])
            largest = max(largest, size)
            if S[i, k] > 0:
                room[i, k] = size
                room[n + i, n + k] = size
            else:
                room[i, n + k] = size
                room[n + i, k] = size
    return largest


@jit
def _search(pull, room, least, parent, queue):
    """Search breadth-first from the source; return the first node joined to the sink, or -1.

    `parent` (2 L,) is output: the previous node on the path to each node, the node itself if it is
    joined to the source, or -1 if the search has not reached the node.
    """
    n_nodes = pull.shape[0]
    head, tail = np.int64(0), np.int64(0)
    for i in range(n_nodes):
        parent[i] = -1
        if pull[i] > least:
            parent[i] = i
            queue[tail] = i
            tail += 1
    while head < tail:
        i = queue[head]
        head += 1
        for k in range(n_nodes):
            if parent[k] < 0 and room[i, k] > least:
                parent[k] = i
                if pull[k] < -least:
                    return k
                queue[tail] = k
                tail += 1
    return np.int64(-1)


@jit
def _push(pull, room, parent, last):
    """Push as much flow as fits through the path that ends at a node; return the amount."""
    amount = -pull[last]
    node = last
    while parent[node] != node:
        amount = min(amount, room[parent[node], node])
        node = parent[node]
    amount = min(amount, pull[node])
    pull[node] -= amount
    pull[last] += amount
    node = last
    while parent[node] != node:
        room[parent[node], node] -= amount
        room[node, parent[node]] += amount
        node = parent[node]
    return amount


@jit
def roof_duals(fields, S, free, means, bound, n_iter):
    """Solve the linear program over the local polytope for N models with L labels each.

    fields : (N, L), 0 for clamped labels
    S : (L, L), couplings, which all models share
    free : (N, L) of bool; False for clamped labels, whose couplings are ignored
    means : (N, L) int8, output
        Expected labels of the solution, -1, 0 or +1. A label with the mean 0 is +1 with
        probability 1/2. Among several solutions, the solution with the most zeros is taken.
    bound : (N,) output, upper bound of the score of free labels, up to rounding
    n_iter : (N,) of int, output, number of paths along which flow was pushed
    """
    n = fields.shape[1]
    pull, room = np.empty(2 * n), np.empty((2 * n, 2 * n))
    parent, queue = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    for row in range(fields.shape[0]):
        largest = _fill_graph(fields[row], S, free[row], pull, room)
        total = 0.0
        for i in range(n):
            total += abs(pull[i])
            for k in range(i):
                total += room[i, k] + room[i, n + k]
        least = _ROUNDING * largest
        flow, count = 0.0, np.int64(0)
        last = _search(pull, room, least, parent, queue)
        while last >= 0:
            flow += _push(pull, room, parent, last)
            count += 1
            last = _search(pull, room, least, parent, queue)
        for i in range(n):
            one, other = parent[i] >= 0, parent[n + i] >= 0
            means[row, i] = np.int8(1) if one else (np.int8(-1) if other else np.int8(0))
        bound[row] = total - flow
        n_iter[row] = count
