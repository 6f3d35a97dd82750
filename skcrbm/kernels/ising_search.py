"""Search for the labels of Ising models with the least hinge loss or the highest score.

A row has L labels y in {-1, +1}, fields f (L,) and couplings S (L, L). The value to minimise is

* HINGE: the loss sum_i h(y_i (f_i + sum_k s_ik y_k)), h(m) = max(gamma - m, 0);
* TIE: minus the score f.y + 1/2 y'Sy, among the label vectors whose loss is at most a ceiling;
* MAP: minus the score.

`icm` flips single labels until it reaches a local optimum. `branch_and_bound` continues from there
to the global optimum. It decides the labels of a row in a fixed order. At a node of depth d, the
first d labels are decided. The field g_i of the node is f_i plus the sum of s_ik y_k over decided
labels k. Undecided labels k change g_i by at most the row norm r_i, the sum of their |s_ik|.

The search decides clamped labels first, at their known values. It cannot remove clamped labels by
adding their couplings to the fields, because the hinge loss also counts their margins.
"""

from typing import NamedTuple

import numpy as np

from skcrbm.kernels.jit import jit

HINGE, TIE, MAP = 0, 1, 2

# Two bounds of hinge losses count as equal if they differ by less than ROUNDING times the largest
# possible margin (see `_field_scale`), and two losses if they differ by less than TIE_SHARE times
# this margin. Scores and their bounds are compared with `_tie_share`.
ROUNDING, TIE_SHARE = 1e-12, 1e-11
# Rounding error of a score of L labels, divided by L^2 and by the largest possible margin.
SCORE_ROUNDING = 4 * 2.0**-52
# Largest number of sweeps of `_reparametrise` (over pairs), and of `_ascend` (over labels).
_SWEEPS, _MAX_SWEEPS = 50, 100
# Smallest scale of a model; tolerances are multiples of the scale, and must not be 0.
_SMALLEST = 1e-280
# The first, short search may visit this many nodes per label. Then the second search starts.
PLAIN_NODES = 20


class SearchLimits(NamedTuple):
    """How `branch_and_bound` breaks ties and when it stops."""

    ties: bool  # True: break ties by score, then by label order; False: keep the first state found
    plain: int  # largest number of nodes of the first, short search
    node_limit: int  # largest number of nodes of all searches


class SearchAnswers(NamedTuple):
    """Arrays that receive the results of `branch_and_bound`."""

    labels: np.ndarray  # (N, L) int8, labels found, as 0 and 1
    value: np.ndarray  # (N,) loss or minus score of the labels
    lower: np.ndarray  # (N,) lower bound on the value
    n_nodes: np.ndarray  # (N,) int64, number of nodes
    left: np.ndarray  # (N,) bool, True for rows that need the second search


class SearchWork(NamedTuple):
    """Scratch space of `branch_and_bound`."""

    vectors: np.ndarray  # (10, L) float64, scratch vectors
    numbers: np.ndarray  # (3, L) intp, scratch indices
    matrices: np.ndarray  # (3, L + 1, L) float64, scratch matrices


class _Row(NamedTuple):
    """The model of a row, with its labels in the order of the search."""

    order: np.ndarray  # (L,) original index of each label
    held: np.ndarray  # (L,) in the original order: -1 or +1 if a label is clamped, else 0
    coupling: np.ndarray  # (L, L) couplings
    row_norm: np.ndarray  # (L + 1, L), row norms r at each depth
    gamma: float
    ceiling: float  # largest allowed loss if the search is of kind TIE
    scale: float  # see `_field_scale`


@jit
def _tie_share(kind, n_labels):
    """Return the difference up to which two values count as equal, as a share of the scale."""
    if kind == MAP:
        return min(ROUNDING, SCORE_ROUNDING * n_labels * n_labels)
    return TIE_SHARE


@jit(fastmath={"contract", "reassoc"})
def _hinge_bound(d, y, v, g, s, r, gamma):
    """Return a lower bound of the hinge loss of states with y_d = v below a node of depth d.

    `y` (L,) are the labels, of which the first d are decided. `g` (L,) are the fields of the node,
    `s` (L,) the couplings of label d, and `r` (L,) the row norms over the labels after d.
    """
    total = max(gamma - v * g[d] - r[d], 0.0)
    for i in range(np.uintp(d)):
        total += max(gamma - y[i] * (g[i] + v * s[i]) - r[i], 0.0)
    for i in range(np.uintp(d + 1), np.uintp(g.shape[0])):
        total += max(gamma - abs(g[i] + v * s[i]) - r[i], 0.0)
    return total


@jit(fastmath={"contract", "reassoc"})
def _score_bound(d, score, v, g, s, r):
    """Return an upper bound of the score of all states with y_d = v below a node of depth d."""
    total = score + v * g[d]
    for i in range(np.uintp(d + 1), np.uintp(g.shape[0])):
        total += abs(g[i] + v * s[i]) + 0.5 * r[i]
    return total


@jit(fastmath={"contract", "reassoc"})
def _hinge_loss_of_flip(d, y, v, g, s, r, gamma):
    """Return the maximum of loss(y_d = v) - loss(y_d = -v) over all values of undecided labels."""
    own = v * g[d]
    total = max(gamma - own + r[d], 0.0) - max(gamma + own - r[d], 0.0)
    for i in range(np.uintp(d)):
        shift = v * y[i] * s[i]
        # The difference of losses is monotonic in the margin m, so its maximum is at a bound of m.
        m = y[i] * g[i] + (r[i] if shift > 0 else -r[i])
        total += max(gamma - m - shift, 0.0) - max(gamma - m + shift, 0.0)
    for i in range(np.uintp(d + 1), np.uintp(g.shape[0])):
        shift = abs(s[i])
        m = (g[i] if v * s[i] < 0 else -g[i]) - r[i]
        total += max(gamma - m + shift, 0.0) - max(gamma - m - shift, 0.0)
    return total


@jit
def _fill_costs(kind, f, S, gamma, y, unary, pair):
    """Write costs to `unary` (L, 2) and `pair` (L, L, 2, 2); their sum bounds the value from below.

    The states of a label are -1 and +1; pairs have i < k. For MAP the sum equals the value. For
    HINGE each loss is replaced by a linear lower bound, ``max(z, 0) >= beta z``. For the state that
    a label has in the best known y (L,), beta is the slope of the loss at y, else beta is 1.
    """
    n_labels = f.shape[0]
    slope = np.ones((n_labels, 2))
    if kind != MAP:
        for i in range(n_labels):
            field = f[i]
            for k in range(n_labels):
                field += S[i, k] * y[k]
            if y[i] * field >= gamma:
                slope[i, 1 if y[i] > 0 else 0] = 0.0
    for i in range(n_labels):
        for a in range(2):
            v = 2.0 * a - 1.0
            unary[i, a] = -v * f[i] if kind == MAP else slope[i, a] * (gamma - v * f[i])
        for k in range(i + 1, n_labels):
            for a in range(2):
                for b in range(2):
                    weight = 1.0 if kind == MAP else slope[i, a] + slope[k, b]
                    cost = weight * S[i, k]
                    pair[i, k, a, b] = -cost if a == b else cost


@jit
def _handshake(unary, pair, i, k):
    """Move as much of the pair cost of labels i and k as possible to the costs of the two labels.

    Afterwards each row and column of the pair's costs has an entry of at most 0 (the handshake of
    MPLP++: Tourani, Shekhovtsov, Rother and Savchynskyy 2018).
    """
    t00 = pair[i, k, 0, 0] + unary[i, 0] + unary[k, 0]
    t01 = pair[i, k, 0, 1] + unary[i, 0] + unary[k, 1]
    t10 = pair[i, k, 1, 0] + unary[i, 1] + unary[k, 0]
    t11 = pair[i, k, 1, 1] + unary[i, 1] + unary[k, 1]
    first0 = 0.5 * min(t00, t01)
    first1 = 0.5 * min(t10, t11)
    second0 = min(t00 - first0, t10 - first1)
    second1 = min(t01 - first0, t11 - first1)
    first0 += min(t00 - first0 - second0, t01 - first0 - second1)
    first1 += min(t10 - first1 - second0, t11 - first1 - second1)
    unary[i, 0], unary[i, 1] = first0, first1
    unary[k, 0], unary[k, 1] = second0, second1
    pair[i, k, 0, 0] = t00 - first0 - second0
    pair[i, k, 0, 1] = t01 - first0 - second1
    pair[i, k, 1, 0] = t10 - first1 - second0
    pair[i, k, 1, 1] = t11 - first1 - second1


@jit
def _reparametrise(unary, pair, value):
    """Reparametrise the costs pair by pair until the lower bound stops rising; return the bound."""
    n_labels = unary.shape[0]
    bound = -np.inf
    for sweep in range(_SWEEPS):
        for i in range(n_labels):
            j = i if sweep % 2 == 0 else n_labels - 1 - i
            for k in range(j + 1, n_labels):
                _handshake(unary, pair, j, k)
        new = 0.0
        for i in range(n_labels):
            new += min(unary[i, 0], unary[i, 1])
        if new >= value or new - bound < 0.01 * (value - new):
            return max(new, bound)
        bound = new
    return bound


@jit(fastmath={"contract", "reassoc"})
def _cost_bound(d, cost, c, costs, pairs):
    """Return a lower bound of the cost if label d has state c. `pairs` are costs of pairs."""
    total = cost + costs[c, d]
    for i in range(np.uintp(d + 1), np.uintp(costs.shape[1])):
        total += min(costs[0, i] + pairs[0, i], costs[1, i] + pairs[1, i])
    return total


@jit
def _child_bound(kind, d, y, v, g, s, r, gamma, score, ceiling):
    """Return a lower bound of the value if y_d = v; inf if the loss must exceed `ceiling`."""
    if kind == HINGE:
        return _hinge_bound(d, y, v, g, s, r, gamma)
    if kind == TIE and _hinge_bound(d, y, v, g, s, r, gamma) > ceiling:
        return np.inf
    return -_score_bound(d, score, v, g, s, r)


@jit
def _precedes(y, best, order):
    """Return True if y precedes `best`. order[j] is the original index of the label in y[j]."""
    # The labels are compared at the smallest original index at which they differ.
    first = y.shape[0]
    answer = False
    for j in range(y.shape[0]):
        if y[j] != best[j] and order[j] < first:
            first = order[j]
            answer = y[j] < best[j]
    return answer


@jit
def _two_sum(a, b):
    """Return the rounded sum of two numbers, and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@jit
def _gain(y, best, f, S):
    """Return the score of y minus the score of `best`, to twice the precision of a float."""
    total = error = 0.0
    for i in range(y.shape[0]):
        if y[i] == best[i]:
            continue
        total, lost = _two_sum(total, y[i] * f[i])
        error += lost
        for k in range(y.shape[0]):
            if y[k] == best[k]:
                total, lost = _two_sum(total, y[i] * y[k] * S[i, k])
                error += lost
    return 2.0 * (total + error)


@jit
def _search(kind, row, ties, node_limit, g, vectors, visited, costs, pairs, best, value):
    """Search the labels of one row by depth-first branch and bound.

    Parameters
    ----------
    row : _Row
    ties : bool, True to break ties by the order of label vectors
    node_limit : int, largest number of nodes to expand
    g : (L + 1, L) scratch space, fields at each depth; g[0] is input
    vectors, visited : (6 or more, L) and (L,) scratch space
    costs : (L + 1, 2, L) scratch space, costs of the states at each depth; costs[0] is input.
        None for bounds without costs of pairs
    pairs : (L, 2, 2, L) costs of the states of a label with states of labels after it, or None
    best : (L,) in: labels to start from; out: best labels found
    value : float, value of the labels to start from

    Returns
    -------
    value of the best labels, lower bound on all values, number of expanded nodes
    """
    order, held, S, row_norm, gamma, ceiling, scale = row
    n_labels = S.shape[0]
    y, score, cost = vectors[0], vectors[1], vectors[2]
    first = vectors[3]  # the child to visit first
    bounds = vectors[4:]  # bounds of the first and second child at each depth
    score[0] = 0.0
    cost[0] = 0.0
    tie = _tie_share(kind, n_labels) * scale
    slack = tie if ties else -(tie if kind == MAP else ROUNDING * scale)
    n_nodes = 0
    d = 0
    expand = True
    while d >= 0:
        if expand:
            if n_nodes >= node_limit:
                break
            n_nodes += 1
            field, s, r = g[d], S[d], row_norm[d + 1]
            down = up = 0.0
            for b in range(2):  # a loop: two calls would double the size of the code
                v = 2.0 * b - 1.0
                bound = _child_bound(kind, d, y, v, field, s, r, gamma, score[d], ceiling)
                if costs is not None:
                    bound = max(bound, _cost_bound(d, cost[d], b, costs[d], pairs[d, b]))
                if b == 0:
                    down = bound
                else:
                    up = bound
            fixed = held[order[d]]
            if fixed > 0:
                down = np.inf
            elif fixed < 0:
                up = np.inf
            v = 1.0 if up < down or (up == down and field[d] > 0) else -1.0
            if fixed != 0:
                v = float(fixed)  # the comparison above is wrong if both bounds are infinite
            first[d] = v
            bounds[0, d] = min(up, down)
            bounds[1, d] = max(up, down)
            if bounds[1, d] <= value + slack:
                # Drop the second child if the first child is certainly better.
                if kind == MAP:
                    excess = 2.0 * (r[d] - v * field[d])
                else:
                    excess = _hinge_loss_of_flip(d, y, v, field, s, r, gamma)
                if excess < -2.0 * tie:
                    bounds[1, d] = np.inf
            visited[d] = 0
        c = visited[d]
        if c == 2 or bounds[c, d] > value + slack or bounds[c, d] == np.inf:
            d -= 1  # the bound of the second child is not lower, so it is pruned, too
            expand = False
            continue
        visited[d] = c + 1
        v = first[d] if c == 0 else -first[d]
        y[d] = v
        if d < n_labels - 1:
            for i in range(np.uintp(n_labels)):
                g[d + 1, i] = g[d, i] + v * S[d, i]
            score[d + 1] = score[d] + v * g[d, d]
            if costs is not None:
                b = 1 if v > 0 else 0
                cost[d + 1] = cost[d] + costs[d, b, d]
                for a in range(2):
                    for i in range(np.uintp(n_labels)):
                        costs[d + 1, a, i] = costs[d, a, i] + pairs[d, b, a, i]
            d += 1
            expand = True
            continue
        expand = False
        new = bounds[c, d]  # all labels are decided, so the bound is the value
        better = new < value - (tie if ties else 0.0)
        if not better and ties and new <= value + tie:
            gain = _gain(y, best, g[0], S) if kind == MAP else 0.0
            better = gain > 0.0 or (gain == 0.0 and _precedes(y, best, order))
        if better:
            for i in range(n_labels):
                best[i] = y[i]
        value = min(value, new)
    lower = value
    if d == 0:  # no node was expanded
        lower = -np.inf
    for j in range(d):  # the node limit was reached: bound the children that were not finished
        lower = min(lower, bounds[visited[j] - 1, j])
    return value, lower, n_nodes


@jit
def _loss_and_score(y, f, S, gamma):
    """Return the loss and score of labels y (L,)."""
    loss = 0.0
    score = 0.0
    for i in range(y.shape[0]):
        pull = 0.0
        for k in range(y.shape[0]):
            pull += S[i, k] * y[k]
        loss += max(gamma - y[i] * (f[i] + pull), 0.0)
        score += y[i] * (f[i] + 0.5 * pull)
    return loss, score


@jit
def _strongest(S):
    """Return the largest row norm of the couplings."""
    strongest = 0.0
    for i in range(S.shape[0]):
        total = 0.0
        for k in range(S.shape[0]):
            total += abs(S[i, k])
        strongest = max(strongest, total)
    return strongest


@jit
def _field_scale(f, rest):
    """Return the largest possible margin; `rest` is the largest row norm of the couplings."""
    scale = max(rest, _SMALLEST)
    for i in range(f.shape[0]):
        scale = max(scale, rest + abs(f[i]))
    return scale


@jit
def _start(f, held, y):
    """Set clamped labels of `y` (L,) to their values, free labels to the signs of the fields."""
    for i in range(f.shape[0]):
        y[i] = held[i] if held[i] != 0 else (1.0 if f[i] > 0 else -1.0)


@jit
def _ascend(kind, f, S, gamma, scale, held, max_sweeps, y, field):
    """Flip free labels of `y` (L,) until no flip improves y, or for `max_sweeps` sweeps.

    With MAP a flip must raise the score. With HINGE it must lower the loss, or keep the loss and
    raise the score. `field` (L,) is scratch space. Return the number of sweeps, and True if the
    last sweep flipped a label.
    """
    n_labels = y.shape[0]
    tie = _tie_share(kind, n_labels) * scale
    for i in range(n_labels):
        field[i] = f[i]
        for k in range(n_labels):
            field[i] += S[i, k] * y[k]
    changed = True
    sweep = 0
    while changed and sweep < max_sweeps:
        changed = False
        sweep += 1
        for i in range(n_labels):
            if held[i] != 0:
                continue
            gain = -2.0 * y[i] * field[i]
            flip = gain > tie
            if kind == HINGE:
                loss = max(gamma + y[i] * field[i], 0.0) - max(gamma - y[i] * field[i], 0.0)
                for k in range(n_labels):
                    if k != i:
                        m = y[k] * field[k]
                        new = m - 2.0 * y[k] * S[k, i] * y[i]
                        loss += max(gamma - new, 0.0) - max(gamma - m, 0.0)
                flip = loss < -tie or (loss <= tie and flip)
            if flip:
                for k in range(n_labels):
                    field[k] -= 2.0 * S[k, i] * y[i]
                y[i] = -y[i]
                changed = True
    return sweep, changed


@jit
def _order_labels(f, S, held, order, field, row_norm, done):
    """Write clamped labels to `order` (L,), then free labels, beginning with the surest signs.

    field, row_norm, done : (L,) scratch space
    """
    n_labels = f.shape[0]
    for i in range(n_labels):
        done[i] = False
        field[i] = f[i]
        row_norm[i] = 0.0
        for k in range(n_labels):
            row_norm[i] += abs(S[i, k])
    for j in range(n_labels):
        chosen = -1
        surest = -np.inf
        for i in range(n_labels):
            sure = abs(field[i]) - row_norm[i] if held[i] == 0 else np.inf
            if not done[i] and sure > surest:
                surest = sure
                chosen = i
        order[j] = chosen
        done[chosen] = True
        v = 1.0 if field[chosen] > 0 else -1.0
        if held[chosen] != 0:
            v = float(held[chosen])
        for i in range(n_labels):
            field[i] += v * S[chosen, i]
            row_norm[i] -= abs(S[chosen, i])


@jit
def _order_by_costs(unary, held, order, done):
    """Write clamped labels to `order` (L,), then free labels, large cost differences first."""
    n_labels = unary.shape[0]
    for i in range(n_labels):
        done[i] = False
    for j in range(n_labels):
        chosen = -1
        widest = -1.0
        for i in range(n_labels):
            width = abs(unary[i, 1] - unary[i, 0]) if held[i] == 0 else np.inf
            if not done[i] and width > widest:
                widest = width
                chosen = i
        order[j] = chosen
        done[chosen] = True


@jit
def _arrange(order, f, S, y, g, coupling, row_norm, best):
    """Sort fields, couplings and labels by the order of the search; see `_search`."""
    n_labels = f.shape[0]
    for j in range(n_labels):
        best[j] = y[order[j]]
        g[0, j] = f[order[j]]
        row_norm[n_labels, j] = 0.0
        for k in range(n_labels):
            coupling[j, k] = S[order[j], order[k]]
    for d in range(n_labels - 1, -1, -1):
        for j in range(n_labels):
            row_norm[d, j] = row_norm[d + 1, j] + abs(coupling[d, j])


@jit
def _arrange_costs(order, unary, pair, costs, pairs):
    """Sort the costs of `_fill_costs` by the order of the search; see `_search`."""
    n_labels = unary.shape[0]
    for j in range(n_labels):
        i = order[j]
        for a in range(2):
            costs[0, a, j] = unary[i, a]
        for m in range(j + 1, n_labels):
            k = order[m]
            for a in range(2):
                for b in range(2):
                    pairs[j, a, b, m] = pair[i, k, a, b] if i < k else pair[k, i, b, a]


@jit
def icm(kind, fields, S, gamma, held, max_sweeps, labels, value, n_sweeps, converged):
    """Find local optima of N rows: labels such that no flip of one label lowers the value.

    labels : (N, L) int8 of 0/1, in: labels to start from; out: labels found
    value, n_sweeps, converged : (N,) output; see `branch_and_bound` for the other arguments
    """
    n_rows, n_labels = fields.shape
    y = np.empty(n_labels)
    field = np.empty(n_labels)
    rest = gamma + _strongest(S)
    for n in range(n_rows):
        f = fields[n]
        for i in range(n_labels):
            y[i] = held[n, i] if held[n, i] != 0 else 2.0 * labels[n, i] - 1.0
        scale = _field_scale(f, rest)
        n_sweeps[n], changed = _ascend(kind, f, S, gamma, scale, held[n], max_sweeps, y, field)
        converged[n] = not changed
        loss, score = _loss_and_score(y, f, S, gamma)
        value[n] = loss if kind == HINGE else -score
        for i in range(n_labels):
            labels[n, i] = 1 if y[i] > 0 else 0


@jit
def branch_and_bound(kind, fields, S, gamma, held, limits, found, work, tables):
    """Find the labels of the least value for each of N rows.

    A call without `tables` makes a short search. A call with `tables` searches the rows that the
    short search did not finish, with additional bounds from the costs of pairs. The two calls are
    compiled separately, because few rows need the second search. When the least loss is found, the
    search goes on for the best score among the labels with this loss.

    Parameters
    ----------
    kind : HINGE or MAP
    fields : (N, L) float64, fields of L labels in each row
    S : (L, L) float64, symmetric with zero diagonal
    gamma : float, margin; 0 for MAP
    held : (N, L) int8, -1 or +1 if a label is clamped, else 0
    limits, found, work : SearchLimits, SearchAnswers, SearchWork
    tables : (L, 2), (L, L, 2, 2), (L + 1, 2, L) and (L, 2, 2, L) float64 scratch space of the
        second search, which starts from the answers of the short search; the last array holds
        zeros. None for the short search
    """
    ties, plain, node_limit = limits
    labels, value, lower, n_nodes, left = found
    vectors, numbers, matrices = work
    n_rows, n_labels = fields.shape
    y, best, field, norm = vectors[6], vectors[7], vectors[8], vectors[9]
    order, done, visited = numbers[0], numbers[1], numbers[2]
    g, coupling, row_norm = matrices[0], matrices[1, :n_labels], matrices[2]
    rest = gamma + _strongest(S)
    for n in range(n_rows):
        f = fields[n]
        scale = _field_scale(f, rest)
        if tables is None:
            _start(f, held[n], y)
            _ascend(kind, f, S, gamma, scale, held[n], _MAX_SWEEPS, y, field)
            loss, score = _loss_and_score(y, f, S, gamma)
            value[n] = loss if kind == HINGE else -score
            _order_labels(f, S, held[n], order, field, norm, done)
            _arrange(order, f, S, y, g, coupling, row_norm, best)
            row = _Row(order, held[n], coupling, row_norm, gamma, np.inf, scale)
            value[n], lower[n], n_nodes[n] = _search(
                kind, row, ties and kind != HINGE, plain, g, vectors, visited, None, None, best,
                value[n],
            )  # fmt: skip
            left[n] = n_nodes[n] >= plain
        else:
            if not left[n]:
                continue
            unary, pair, costs, pairs = tables
            for i in range(n_labels):
                y[i] = 2.0 * labels[n, i] - 1.0
            _fill_costs(kind, f, S, gamma, y, unary, pair)
            bound = _reparametrise(unary, pair, value[n])
            if kind == MAP:
                _order_by_costs(unary, held[n], order, done)
            else:
                _order_labels(f, S, held[n], order, field, norm, done)
            _arrange_costs(order, unary, pair, costs, pairs)
            _arrange(order, f, S, y, g, coupling, row_norm, best)
            row = _Row(order, held[n], coupling, row_norm, gamma, np.inf, scale)
            value[n], proven, more = _search(
                kind, row, ties and kind != HINGE, node_limit - n_nodes[n], g, vectors, visited,
                costs, pairs, best, value[n],
            )  # fmt: skip
            lower[n] = max(lower[n], max(proven, min(bound, value[n])))
            n_nodes[n] += more
        for j in range(n_labels):
            y[order[j]] = best[j]
        ended = tables is not None or not left[n]
        if ended and kind == HINGE and ties and lower[n] >= value[n] - TIE_SHARE * scale:
            loss, score = _loss_and_score(y, f, S, gamma)
            ceiling = value[n] + TIE_SHARE * scale
            _arrange(order, f, S, y, g, coupling, row_norm, best)
            row = _Row(order, held[n], coupling, row_norm, gamma, ceiling, scale)
            _, _, more = _search(
                TIE, row, ties, node_limit - n_nodes[n], g, vectors, visited, None, None,
                best, -score,
            )  # fmt: skip
            n_nodes[n] += more
            for j in range(n_labels):
                y[order[j]] = best[j]
        for i in range(n_labels):
            labels[n, i] = 1 if y[i] > 0 else 0
        if ended:
            loss, score = _loss_and_score(y, f, S, gamma)
            value[n] = loss if kind == HINGE else -score
            if lower[n] > value[n] - _tie_share(kind, n_labels) * scale:
                lower[n] = value[n]  # the difference is a rounding error
