"""The local polytope's linear program of Ising models, by maximum flows.

The program of a model of pairs has solutions of 0, 1/2 and 1 alone, which a minimum cut finds.
Each label y_i in {-1, +1} is doubled, u_i = y_i and v_i = -y_i, so that all couplings become
attractive, and the two copies may disagree. The nodes of a graph are u, then v: a field pulls u_i
to the source and v_i to the sink or the other way round; a coupling joins equal copies if it is
positive, else different copies. The cut is subtracted from the sum of all magnitudes, which no
score exceeds.
"""

import numpy as np

from skcrbm.kernels.jit import jit

# Share of the largest capacity below which the rest of a capacity is a rounding error.
_ROUNDING = 1e-13


@jit
def _fill_graph(f, S, free, pull, room):
    """Set the capacities of a model; return the largest.

    f (L,), S (L, L), free (L,) of bool; pull (2 L,) to the source, to the sink where negative;
    room (2 L, 2 L) of the edges.
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
    """Breadth-first from the source; return the first node met that the sink pulls, or -1.

    parent (2 L,): the node before each, itself next to the source, -1 if not reached.
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
    """Maxima of the programs of some models.

    fields : (N, L), 0 where held
    S : (L, L)
    free : (N, L) of bool; couplings of held labels do not count
    means : (N, L) int8, output
        Expected labels at the solution, -1, 0 or +1; 0 stands for one half. The solution with the
        most halves is taken if there are several.
    bound : (N,) output, no scores of free labels are higher, rounding aside
    n_iter : (N,) of int, output, paths through the graph
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
