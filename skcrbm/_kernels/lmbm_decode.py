"""Best labels of pairwise machines by branch and bound, a row at a time.

Labels y in {-1, +1}, fields f (L,), couplings S (L, L). With the labels of a row put in
the order in which they are decided, a node of the search tree is a prefix of labels. Its
fields g contain the decided labels, and r_i = sum of |s_ik| over the undecided k bounds
what the others can still add to field i. What is minimised:

* HINGE: the loss sum_i h(y_i (f_i + sum_k s_ik y_k)), h(m) = max(gamma - m, 0);
* TIE: minus the score f.y + 1/2 y'Sy, among the labels with a loss up to a ceiling;
* MAP: minus the score.
"""

import numpy as np

from skcrbm._kernels._jit import jit

HINGE, TIE, MAP = 0, 1, 2

# In units of the largest field: bounds closer than that cannot be told apart by rounding;
# values closer than that are a tie.
_ROUNDING = 1e-12
_TIE = 1e-11


@jit(fastmath={"contract", "reassoc"})
def _hinge_bound(d, y, v, g, s, r, gamma):
    """Smallest loss below the child y_d = v of a node of depth d.

    y (L,), of which the first d count; g (L,) fields of the node; s (L,) couplings of
    label d; r (L,) reach of the labels after d.
    """
    total = max(gamma - v * g[d] - r[d], 0.0)
    for i in range(np.uintp(d)):
        total += max(gamma - y[i] * (g[i] + v * s[i]) - r[i], 0.0)
    for i in range(np.uintp(d + 1), np.uintp(g.shape[0])):
        total += max(gamma - abs(g[i] + v * s[i]) - r[i], 0.0)
    return total


@jit(fastmath={"contract", "reassoc"})
def _score_bound(d, score, v, g, s, r):
    """Largest score below the child y_d = v of a node of depth d and that score."""
    total = score + v * g[d]
    for i in range(np.uintp(d + 1), np.uintp(g.shape[0])):
        total += abs(g[i] + v * s[i]) + 0.5 * r[i]
    return total


@jit(fastmath={"contract", "reassoc"})
def _hinge_loss_of_flip(d, y, v, g, s, r, gamma):
    """Largest value of loss(y_d = v) - loss(y_d = -v) over the undecided labels.

    Below 0, y_d = v is better whatever the others are.
    """
    own = v * g[d]
    total = max(gamma - own + r[d], 0.0) - max(gamma + own - r[d], 0.0)
    for i in range(np.uintp(d)):
        shift = v * y[i] * s[i]
        # A margin that v makes smaller loses most where it is small already, one that v
        # makes larger wins least where it is large.
        m = y[i] * g[i] + (r[i] if shift > 0 else -r[i])
        total += max(gamma - m - shift, 0.0) - max(gamma - m + shift, 0.0)
    for i in range(np.uintp(d + 1), np.uintp(g.shape[0])):
        shift = abs(s[i])
        m = (g[i] if v * s[i] < 0 else -g[i]) - r[i]
        total += max(gamma - m + shift, 0.0) - max(gamma - m - shift, 0.0)
    return total


@jit
def _child_bound(kind, d, y, v, g, s, r, gamma, score, ceiling):
    """Smallest value below a child; infinite where it is above the ceiling."""
    if kind == HINGE:
        return _hinge_bound(d, y, v, g, s, r, gamma)
    if kind == TIE and _hinge_bound(d, y, v, g, s, r, gamma) > ceiling:
        return np.inf
    return -_score_bound(d, score, v, g, s, r)


@jit
def _comes_first(y, best, order):
    """Whether y precedes `best` as label vectors; both in the order of the search."""
    # The position that decides is the one with the smallest original index.
    first = y.shape[0]
    answer = False
    for j in range(y.shape[0]):
        if y[j] != best[j] and order[j] < first:
            first = order[j]
            answer = y[j] < best[j]
    return answer


@jit
def _search(kind, order, S, reach, gamma, ceiling, scale, ties, node_limit, g, best, value):
    """Depth-first branch and bound of one row.

    Parameters
    ----------
    order : (L,) original index of each label
    S : (L, L) couplings in the order of the search
    reach : (L + 1, L), r at each depth
    ceiling : of the loss, for TIE
    scale : size of the fields
    ties : whether equals are told apart by the order of label vectors
    node_limit : nodes to expand at most
    g : (L + 1, L) work space, fields of each depth; the first row is given
    best : (L,) start, and output
    value : of the start

    Returns
    -------
    value of the best labels, lower bound on all values, number of expanded nodes
    """
    n_labels = S.shape[0]
    y = np.empty(n_labels)
    score = np.zeros(n_labels + 1)
    first = np.empty(n_labels)  # the child to visit first
    bounds = np.empty((n_labels, 2))  # of the first and of the second child
    visited = np.zeros(n_labels, np.int8)
    tie = _TIE * scale
    slack = tie if ties else -_ROUNDING * scale
    n_nodes = 0
    d = 0
    expand = True
    while d >= 0:
        if expand:
            if n_nodes >= node_limit:
                break
            n_nodes += 1
            field, s, r = g[d], S[d], reach[d + 1]
            up = _child_bound(kind, d, y, 1.0, field, s, r, gamma, score[d], ceiling)
            down = _child_bound(kind, d, y, -1.0, field, s, r, gamma, score[d], ceiling)
            v = 1.0 if up < down or (up == down and field[d] > 0) else -1.0
            first[d] = v
            bounds[d, 0] = min(up, down)
            bounds[d, 1] = max(up, down)
            if bounds[d, 1] <= value + slack:
                # Nothing is lost without the second child if the first is always better.
                if kind == MAP:
                    excess = 2.0 * (r[d] - v * field[d])
                else:
                    excess = _hinge_loss_of_flip(d, y, v, field, s, r, gamma)
                if excess < -2.0 * tie:
                    bounds[d, 1] = np.inf
            visited[d] = 0
        c = visited[d]
        if c == 2 or bounds[d, c] > value + slack or bounds[d, c] == np.inf:
            d -= 1  # the second child's bound is not below the first one's
            expand = False
            continue
        visited[d] = c + 1
        v = first[d] if c == 0 else -first[d]
        y[d] = v
        if d < n_labels - 1:
            for i in range(np.uintp(n_labels)):
                g[d + 1, i] = g[d, i] + v * S[d, i]
            score[d + 1] = score[d] + v * g[d, d]
            d += 1
            expand = True
            continue
        expand = False
        new = bounds[d, c]  # with all decided the bound is the value
        better = new < value - (tie if ties else 0.0)
        if not better and ties and new <= value + tie:
            better = _comes_first(y, best, order)
        if better:
            for i in range(n_labels):
                best[i] = y[i]
        value = min(value, new)
    lower = value
    if d == 0:  # not a single node
        lower = -np.inf
    for j in range(d):  # the limit was hit: the child in work and those still open
        lower = min(lower, bounds[j, visited[j] - 1])
    return value, lower, n_nodes


@jit
def _loss_and_score(y, f, S, gamma):
    """Loss and score of labels y (L,)."""
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
def _climb(kind, f, S, gamma, scale, y, field):
    """Flip labels y (L,) one at a time while that lowers the value, from the fields' signs.

    With HINGE, a flip that leaves the loss is made if it raises the score. `field` (L,) is
    work space.
    """
    n_labels = y.shape[0]
    tie = _TIE * scale
    for i in range(n_labels):
        y[i] = 1.0 if f[i] > 0 else -1.0
    for i in range(n_labels):
        field[i] = f[i]
        for k in range(n_labels):
            field[i] += S[i, k] * y[k]
    changed = True
    sweep = 0
    while changed and sweep < 100:
        changed = False
        sweep += 1
        for i in range(n_labels):
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


@jit
def _order_labels(f, S, order, field, reach, done):
    """Fill order (L,) with the labels, each time the one that the rest can least turn.

    field, reach, done : (L,) work space
    """
    n_labels = f.shape[0]
    for i in range(n_labels):
        done[i] = False
        field[i] = f[i]
        reach[i] = 0.0
        for k in range(n_labels):
            reach[i] += abs(S[i, k])
    for j in range(n_labels):
        chosen = -1
        surest = -np.inf
        for i in range(n_labels):
            if not done[i] and abs(field[i]) - reach[i] > surest:
                surest = abs(field[i]) - reach[i]
                chosen = i
        order[j] = chosen
        done[chosen] = True
        v = 1.0 if field[chosen] > 0 else -1.0
        for i in range(n_labels):
            field[i] += v * S[chosen, i]
            reach[i] -= abs(S[chosen, i])


@jit
def best_labels(kind, search, fields, S, gamma, ties, node_limit, labels, value, lower):
    """Labels of the smallest value for a chunk of N rows.

    Parameters
    ----------
    kind : HINGE or MAP
    search : bool, whether to go on from the local optimum to the global one
    fields : (N, L) float64
    S : (L, L) float64, symmetric with zero diagonal
    gamma : margin
    ties : bool; equals are told apart by their score and then their order, or by the order
        of the search
    node_limit : int, nodes of a search
    labels : (N, L) int8 output, 0/1
    value, lower : (N,) output, loss or minus score of the labels and a lower bound on it
    """
    n_rows, n_labels = fields.shape
    y = np.empty(n_labels)
    best = np.empty(n_labels)
    order = np.empty(n_labels, np.intp)
    done = np.empty(n_labels, np.bool_)
    work = np.empty((2, n_labels))
    g = np.empty((n_labels + 1, n_labels))
    coupling = np.empty((n_labels, n_labels))
    reach = np.empty((n_labels + 1, n_labels))
    strongest = 0.0
    for i in range(n_labels):
        total = 0.0
        for k in range(n_labels):
            total += abs(S[i, k])
        strongest = max(strongest, total)
    for n in range(n_rows):
        f = fields[n]
        scale = gamma + strongest
        for i in range(n_labels):
            scale = max(scale, gamma + strongest + abs(f[i]))
        _climb(kind, f, S, gamma, scale, y, work[0])
        loss, score = _loss_and_score(y, f, S, gamma)
        value[n] = loss if kind == HINGE else -score
        lower[n] = -np.inf
        if search:
            _order_labels(f, S, order, work[0], work[1], done)
            for j in range(n_labels):
                best[j] = y[order[j]]
                g[0, j] = f[order[j]]
                reach[n_labels, j] = 0.0
                for k in range(n_labels):
                    coupling[j, k] = S[order[j], order[k]]
            for d in range(n_labels - 1, -1, -1):
                for j in range(n_labels):
                    reach[d, j] = reach[d + 1, j] + abs(coupling[d, j])
            value[n], lower[n], n_nodes = _search(
                kind, order, coupling, reach, gamma, np.inf, scale, ties and kind == MAP,
                node_limit, g, best, value[n],
            )  # fmt: skip
            if kind == HINGE and ties and lower[n] > value[n] - _TIE * scale:
                ceiling = value[n] + _TIE * scale
                for j in range(n_labels):
                    y[order[j]] = best[j]
                loss, score = _loss_and_score(y, f, S, gamma)
                _search(
                    TIE, order, coupling, reach, gamma, ceiling, scale, True,
                    node_limit - n_nodes, g, best, -score,
                )  # fmt: skip
            for j in range(n_labels):
                y[order[j]] = best[j]
            loss, score = _loss_and_score(y, f, S, gamma)
            value[n] = loss if kind == HINGE else -score
            if lower[n] > value[n] - _TIE * scale:
                lower[n] = value[n]  # the difference is rounding
        for i in range(n_labels):
            labels[n, i] = 1 if y[i] > 0 else 0
