"""Messages on graphs whose variables have any number of states, for many models at once.

The models of a block have the same factors and lie side by side, as SIMD lanes. Sum-product and
tree-reweighted messages are weights, max-product messages are logarithms (`categorical_receive`);
this text speaks of weights. A sweep visits all variables. A visited variable receives new messages
from all its factors, and sends to each factor the product of its own weights and the messages from
all other factors. The product is computed as the product over the factors before this factor, times
the product over the factors after it. There is no division, so that weights may be 0.

In tree-reweighted messages, factor a has the appearance probability rho_a. Its table is raised to
the power 1 / rho_a, its message counts with the power rho_a in beliefs, and a variable sends its
belief divided by the message that it has received. If all factors of a variable have the same rho,
the power of the product of all messages is computed once. The product consists of several parts
only if its weights would differ too much; see `TreePowers`.

Each message is scaled so that its largest weight is 1. If all weights of a product fall below
`SMALLEST`, important weights may have underflowed. The kernel then stops the work on this model,
and the caller computes the messages of the model as logarithms (`categorical_logs`). The kernel
also stops if all weights of a product are 0, which means that the factors of the model contradict
each other. Max-product needs neither, because its messages are logarithms.

The kernel is compiled for a single lane, which needs no loops over lanes, or for any number of
lanes. Parts for tree-reweighted messages are compiled only if they are used. Parts for damping are
left out only where this makes messages without damping faster, because each combination of parts
takes seconds to compile.
"""

import math
from typing import NamedTuple

import numpy as np

from skcrbm.kernels.arguments import ONE, PAIR, POTTS, ZERO
from skcrbm.kernels.categorical_receive import (
    TWO,
    damp,
    distance,
    inverse,
    plus,
    receive,
    receive_directly,
    scale_message,
    scaled,
    times,
)
from skcrbm.kernels.categorical_states import climb, compare_states, look_for_states
from skcrbm.kernels.exponentials import exp_in_place, log_in_place
from skcrbm.kernels.jit import jit

# A message to a factor is scaled up if all its weights are below this number.
SMALL = 1e-10
# If the largest weight of a product is below this number, important weights may have underflowed.
SMALLEST = 1e-150
# Max-product looks for states after each of the first iterations, later after every fifth one, and
# at the end.
_FIRST_LOOKS, _LOOKS_EVERY = 3, 5
# A state agrees with messages if its values are smaller than the largest values by at most this
# number times the largest change of a message at convergence.
_MARGIN = 4.0


class TreePowers(NamedTuple):
    """Powers of products of tree-reweighted messages.

    After `piece` messages a product is scaled such that its largest weight is 1. If a smaller
    weight, except 0, is below `floor`, the power of the product is taken, and a new product begins.
    `floor` is so large that `piece` more messages cannot cause an underflow.
    """

    rho: np.ndarray  # (n,) weight of the factors of each variable, 1 if they differ
    piece: np.uintp  # number of messages after which a product is scaled
    floor: float


class LaneRows(NamedTuple):
    """A block of models with the same factors, one per lane.

    There are n variables with S states in total, and M entries of messages in each direction.
    Kernels move models that are done to the last lanes.
    """

    own: np.ndarray  # (S, lanes) weights that the fields give to the states
    held: np.ndarray  # (n, lanes) bool, True for clamped variables
    message: np.ndarray  # (M, lanes) messages from factors to variables, in and out
    sent: np.ndarray  # (M, lanes) output, messages from variables to factors
    belief: np.ndarray  # (S, lanes) output, probabilities
    order: np.ndarray  # (lanes,) int64 output, index of the model in each lane at the end


class LaneAnswers(NamedTuple):
    """Arrays with a row for each model of a block, which `pass_lanes` fills in."""

    n_iter: np.ndarray  # (lanes,) number of iterations
    converged: np.ndarray  # (lanes,) bool, True for models that have converged
    good: np.ndarray  # (lanes,) bool, False if weights underflowed
    trace: np.ndarray  # (lanes, max_iter or 0) largest change of a probability in each iteration


@jit(allocates=False)
def _scale_rows(start, k, rows, high, n_lanes):
    """Divide the rows `start` to ``start + k - 1`` by their largest entry in each lane."""
    for l in range(n_lanes):
        high[l] = 0.0
    for a in range(k):
        for l in range(n_lanes):
            high[l] = max(high[l], rows[start + a, l])
    for l in range(n_lanes):
        high[l] = 1.0 / high[l] if high[l] > 0.0 else 1.0
    for a in range(k):
        for l in range(n_lanes):
            rows[start + a, l] *= high[l]


@jit(allocates=False)
def _end_product(power, k, product, start, floor, out, ended, part, n_lanes):
    """Multiply `out` (k, lanes) by a power of a product whose weights differ too much.

    The rows of the product begin at `start`. The product becomes 1 in each lane in which one of its
    positive weights is below `floor`; other lanes do not change. `ended` (lanes,) is scratch space.
    """
    some = False
    for l in range(n_lanes):
        ended[l] = 0.0
    for a in range(k):
        for l in range(n_lanes):
            x = product[start + a, l]
            ended[l] = 1.0 if 0.0 < x < floor else ended[l]
            some |= 0.0 < x < floor
    if not some:
        return
    for a in range(k):
        _raise(power, start + a, product, part, n_lanes)
        for l in range(n_lanes):
            if ended[l] > 0.0:
                out[a, l] *= part[l]
                product[start + a, l] = 1.0


@jit(allocates=False)
def _raise(power, row, source, out, n_lanes):
    """Write ``source[row]`` to the power `power` to `out` (lanes,); 0 stays 0."""
    for l in range(n_lanes):
        out[l] = source[row, l]
    log_in_place(out, n_lanes)
    for l in range(n_lanes):
        out[l] *= power
    exp_in_place(out, n_lanes)
    for l in range(n_lanes):
        out[l] = out[l] if source[row, l] > 0.0 else 0.0


@jit(allocates=False)
def _multiply_powers(power, k, base, at, first, begin, out, start, part, n_lanes):
    """Set k rows of `out` from `start` to the rows of `first` times powers of the rows of `base`.

    The rows of `base` begin at `at`, the rows of `first` at `begin`. If the power is 1, nothing is
    done.
    """
    if power == 1.0:
        return
    for a in range(k):
        _raise(power, at + a, base, part, n_lanes)
        for l in range(n_lanes):
            out[start + a, l] = first[begin + a, l] * part[l]


@jit(allocates=False, inline=True)
def _send_behind(maxima, graph, v, k, message, sent, behind, high, n_lanes):
    """Multiply the weights that a variable sends to an edge by the messages of all edges after it.

    If all weights that are sent to an edge are below `SMALL`, they are scaled up. Logarithms are
    added, and changed to 0 if all are -inf.
    """
    first, last = graph.edge_start[v], graph.edge_start[v + ONE]
    for a in range(k):
        for l in range(n_lanes):
            behind[a, l] = 1.0 if maxima is None else 0.0
    for i in range(last - first):
        at = graph.message_start[last - ONE - i]
        for l in range(n_lanes):
            high[l] = 0.0 if maxima is None else -math.inf
        for a in range(k):
            for l in range(n_lanes):
                x = times(maxima, sent[at + a, l], behind[a, l])
                behind[a, l] = times(maxima, behind[a, l], message[at + a, l])
                sent[at + a, l] = x
                high[l] = max(high[l], x)
        small = False
        for l in range(n_lanes):
            small |= high[l] < SMALL if maxima is None else high[l] == -math.inf
        if not small:
            continue
        if maxima is None:
            for l in range(n_lanes):
                high[l] = 1.0 / high[l] if 0.0 < high[l] < SMALL else 1.0
            for a in range(k):
                for l in range(n_lanes):
                    sent[at + a, l] *= high[l]
        else:
            for a in range(k):
                for l in range(n_lanes):
                    sent[at + a, l] = sent[at + a, l] if high[l] > -math.inf else 0.0


@jit(allocates=False, inline=True)
def _send_quotients(maxima, graph, v, k, message, sent, belief, start, n_lanes):
    """Send to each factor the belief of a variable divided by the positive message from the factor.

    For sums, the variable has two states, and the quotients are multiplied by both messages, which
    needs no division.
    """
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        at = graph.message_start[e]
        if maxima is None:
            row, next_row = start + ONE, at + ONE
            for l in range(n_lanes):
                x, y = message[at, l], message[next_row, l]
                sent[at, l] = belief[start, l] * y
                sent[next_row, l] = belief[row, l] * x
        else:
            for a in range(k):
                for l in range(n_lanes):
                    sent[at + a, l] = belief[start + a, l] - message[at + a, l]


@jit(allocates=False)
def _send_divided(graph, v, k, message, sent, belief, start, high, n_lanes):
    """Send to each factor the belief of a variable divided by the message from the factor."""
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        at = graph.message_start[e]
        if k == TWO:
            for l in range(n_lanes):
                # the quotients, multiplied by both messages
                x = belief[start, l] * message[at + ONE, l]
                y = belief[start + ONE, l] * message[at, l]
                top = max(x, y)
                scale = 1.0 / top if top > 0.0 else 0.0
                sent[at, l] = x * scale
                sent[at + ONE, l] = y * scale
            continue
        for l in range(n_lanes):
            high[l] = 0.0
        for a in range(k):
            for l in range(n_lanes):
                y = message[at + a, l]
                x = belief[start + a, l] / y if y > 0.0 else 0.0
                sent[at + a, l] = x
                high[l] = max(high[l], x)
        for l in range(n_lanes):
            high[l] = 1.0 / high[l] if high[l] > 0.0 else 0.0
        for a in range(k):
            for l in range(n_lanes):
                sent[at + a, l] *= high[l]


@jit(allocates=False, inline=True)
def sweep(
    maxima, graph, edge_rho, powers, products, forward, passing, damping, single, generic,
    general, factor, rows, belief, work, n_lanes,
):  # fmt: skip
    """Visit all variables once.

    If `passing` is True, free variables first receive new messages; otherwise they use the old
    messages. Each variable then sends messages to its factors. `belief` (S, lanes) gets the new
    beliefs. For the other parameters see `pass_lanes` and `_damp`.
    """
    own, held, message, sent, _, _ = rows
    new, high, low, ended = work.new, work.high, work.low, work.behind
    n = np.uintp(graph.order.shape[0])
    for i in range(n):
        v = graph.order[i] if forward else graph.order[n - ONE - i]
        start = graph.state_start[v]
        k = graph.state_start[v + ONE] - start
        power, plain = 1.0, True
        if powers is not None:
            # The power of a product can be taken once if all factors have the same weight.
            power = powers.rho[v]
            plain = power < 1.0
        n_held = np.uintp(work.n_held[v])
        receives = passing and n_held < n_lanes
        for a in range(k):
            for l in range(n_lanes):
                belief[start + a, l] = 1.0 if power < 1.0 else own[start + a, l]
                if powers is not None:
                    ended[a, l] = own[start + a, l]
        for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
            at = graph.message_start[e]
            if powers is not None:
                number = (e - graph.edge_start[v] + ONE) % powers.piece
                if power < 1.0 and number == ZERO:
                    _scale_rows(start, k, belief, high, n_lanes)
                    _end_product(
                        power, k, belief, start, powers.floor, ended, high, work.part, n_lanes
                    )  # fmt: skip
            if receives:
                if generic is None:
                    receive_directly(
                        maxima, products, graph, e, k, at, message, sent, belief, start, damping,
                        factor, single, work, n_lanes,
                    )  # fmt: skip
                    continue
                if graph.kind[e] == PAIR and n_held == ZERO and plain:
                    done = receive_directly(
                        maxima, products, graph, e, k, at, message, sent, belief, start, damping,
                        factor, single, work, n_lanes,
                    )  # fmt: skip
                    if done:
                        continue
                receive(maxima, graph, e, k, sent, work, general, n_lanes)
                scale_message(maxima, k, new, high, low, n_lanes)
                if damping is not None and damping > 0.0:
                    damp(
                        maxima, damping, factor, k, message, at, new, held, v, work.apart, n_lanes
                    )  # fmt: skip
                    scale_message(maxima, k, new, high, low, n_lanes)
                for a in range(k):
                    if n_held == ZERO:
                        for l in range(n_lanes):
                            message[at + a, l] = new[a, l]
                    else:
                        for l in range(n_lanes):
                            if not held[v, l]:
                                message[at + a, l] = new[a, l]
            rho = 1.0
            if edge_rho is not None:
                rho = 1.0 if plain else edge_rho[e]
                _multiply_powers(
                    rho, k, message, at, belief, start, belief, start, work.part, n_lanes
                )  # fmt: skip
            for a in range(k):
                for l in range(n_lanes):
                    x = belief[start + a, l]
                    if products is not None:
                        sent[at + a, l] = x
                    y = times(maxima, x, message[at + a, l])
                    belief[start + a, l] = y if rho == 1.0 else x
        if powers is not None and power < 1.0:
            _multiply_powers(
                power, k, belief, start, ended, ZERO, belief, start, work.part, n_lanes
            )
        for l in range(n_lanes):
            high[l] = work.part[l] = belief[start, l]
        for a in range(ONE, k):
            for l in range(n_lanes):
                high[l] = max(high[l], belief[start + a, l])
                work.part[l] = plus(maxima, work.part[l], belief[start + a, l])
        for l in range(n_lanes):
            low[l] = min(low[l], high[l])
        if maxima is None:
            for l in range(n_lanes):
                work.part[l] = 1.0 / work.part[l] if work.part[l] > 0.0 else 0.0
            for a in range(k):
                for l in range(n_lanes):
                    belief[start + a, l] *= work.part[l]
        else:
            for a in range(k):
                for l in range(n_lanes):
                    top = high[l]
                    x = scaled(maxima, belief[start + a, l], top, inverse(maxima, top))
                    belief[start + a, l] = x
        if products is not None:
            _send_behind(maxima, graph, v, k, message, sent, work.behind, high, n_lanes)
        elif powers is None:
            _send_quotients(maxima, graph, v, k, message, sent, belief, start, n_lanes)
        if powers is not None:
            _send_divided(graph, v, k, message, sent, belief, start, high, n_lanes)


@jit(allocates=False)
def _changes(maxima, after, before, factor, change, apart, n_lanes):
    """Compute the largest change of a belief in each lane.

    A change of logarithms counts as 1 if it is larger than 1. `apart` becomes positive if two
    successive beliefs differ too much, see `distance`.
    """
    for l in range(n_lanes):
        change[l] = 0.0
    for s in range(np.uintp(after.shape[0])):
        for l in range(n_lanes):
            x, y = after[s, l], before[s, l]
            if maxima is not None:
                # Equal beliefs may be -inf, whose difference is NaN.
                change[l] = max(change[l], min(abs(x - y), 1.0) if x != y else 0.0)
            else:
                change[l] = max(change[l], abs(x - y))
            apart[l] = max(apart[l], distance(maxima, factor, x, y))


@jit(allocates=False)
def _count_held(held, n_held, n_lanes):
    """Count the lanes in which each variable is clamped."""
    for v in range(np.uintp(held.shape[0])):
        n_held[v] = 0
        for l in range(n_lanes):
            n_held[v] += 1 if held[v, l] else 0


@jit(allocates=False)
def _drop_done(maxima, iteration, tol, two_sweeps, rows, before, after, answers, work, n_lanes):
    """Move models that are done to the last lanes; return the number of lanes that continue.

    A model is done if it has converged, or if its weights have underflowed. If `two_sweeps` is
    True, two iterations are enough.
    """
    order, n_left = rows.order, n_lanes
    for i in range(n_lanes):
        l = n_lanes - ONE - i
        m = order[l]
        if answers.trace.shape[1]:
            answers.trace[m, iteration] = work.change[l]
        last = work.still[m]
        work.still[m] = work.change[l] < tol and work.apart[l] <= 0.0
        good = work.low[l] > SMALLEST if maxima is None else work.low[l] > -math.inf
        converged = iteration > 0 and (two_sweeps or (last and work.still[m]))
        underflowed = maxima is None and not good
        if not (converged or underflowed):
            continue
        answers.good[m] = good
        if converged and not underflowed:
            answers.n_iter[m] = iteration + 1
            answers.converged[m] = good
        n_left -= ONE
        order[l], order[n_left] = order[n_left], order[l]
        work.low[l], work.low[n_left] = work.low[n_left], work.low[l]
        for array in (rows.own, rows.message, rows.sent, before, after):
            for s in range(np.uintp(array.shape[0])):
                array[s, l], array[s, n_left] = array[s, n_left], array[s, l]
        for v in range(np.uintp(rows.held.shape[0])):
            rows.held[v, l], rows.held[v, n_left] = rows.held[v, n_left], rows.held[v, l]
    return n_left


@jit(allocates=False)
def pass_lanes(
    maxima, graph, edge_rho, powers, products, variables, rows, start, options, damping,
    single, several, generic, general, alternates, answers, states, work,
):  # fmt: skip
    """Pass messages for a block of models until each model is done.

    Parameters
    ----------
    maxima : None for sums, True for max-product; see `categorical_receive`
    graph : CategoricalGraph
        Tables are weights, raised to the power 1 / rho; or logarithms for max-product.
    edge_rho : (E,) weight of each edge's factor, or None if it is in `powers`
        A kernel that gets None is compiled without the parts for the missing argument.
    powers : TreePowers, or None for sum-product and max-product messages
    products : True if a variable multiplies the messages of all other factors, as it must if
        weights are 0. If it is None, it divides its belief by the message from a factor: in
        tree-reweighted messages, if all variables have two states, and in max-product
    variables : (E,) uintp variable of each edge
    rows : LaneRows
    start : (S, lanes or 0) beliefs that free variables send before the first sweep; if `start` is
        empty, they send the products of their weights and messages
    options : CategoricalOptions
    damping : share of the old log-messages that is kept, or None if the parts for damping need not
        be compiled
    single : True if the block has a single model, which needs no loops over lanes; otherwise None
    several : None if the block has a single model, otherwise True
    generic : True, or None if `receive_directly` can receive all messages: the factors are tables
        of two variables with one weight per variable, and there is a single model, or the variables
        have two states and messages are not damped. Messages to clamped variables then change,
        too; max-product needs free variables.
    general : True, or None if all factors are tables of two variables, but not Potts tables
    alternates : bool, True if every second sweep goes backward
    answers : LaneAnswers
    states : FoundStates for max-product, None for sums
    work : LaneWork
    """
    max_iter, tol, slack, _, _, two_sweeps = options
    factor = math.exp(slack) if maxima is None else slack
    n_models = np.uintp(rows.own.shape[1])
    n_lanes, before, after = n_models, rows.belief, work.after
    for l in range(n_models):
        rows.order[l] = l
        answers.n_iter[l] = max_iter
        answers.good[l] = work.still[l] = True
        work.low[l] = 1.0
    _count_held(rows.held, work.n_held, n_lanes)
    if maxima is not None and not (two_sweeps and max_iter > 1):
        climb(maxima, graph, general, variables, rows, states, work, n_lanes)
    for iteration in range(-1, max_iter):
        forward = not alternates or iteration % 2 == 0 or iteration < 0
        passing, n_swept = iteration >= 0, n_lanes
        for l in range(n_lanes):
            work.apart[l] = 0.0
        if single is not None:
            sweep(
                maxima, graph, edge_rho, powers, products, forward, passing, damping, single,
                generic, general, factor, rows, after, work, ONE,
            )  # fmt: skip
        if several is not None:
            sweep(
                maxima, graph, edge_rho, powers, products, forward, passing, damping, single,
                generic, general, factor, rows, after, work, n_lanes,
            )  # fmt: skip
        if passing:
            _changes(maxima, after, before, factor, work.change, work.apart, n_lanes)
            n_left = _drop_done(
                maxima, iteration, tol, two_sweeps, rows, before, after, answers, work, n_lanes
            )
            if n_left < n_lanes:
                _count_held(rows.held, work.n_held, n_left)
            n_lanes = n_left
            look = iteration < _FIRST_LOOKS or iteration % _LOOKS_EVERY == _LOOKS_EVERY - 1
            last_one = iteration + 1 == max_iter
            if maxima is not None and (last_one or (look and not two_sweeps)):
                look_for_states(
                    maxima, graph, not forward, general, passing, variables, rows, states, ZERO,
                    work, n_lanes,
                )  # fmt: skip
        elif start.shape[1]:
            for e in range(np.uintp(variables.shape[0])):
                v, at = variables[e], graph.message_start[e]
                for a in range(graph.message_start[e + ONE] - at):
                    for l in range(n_lanes):
                        if not rows.held[v, l]:
                            rows.sent[at + a, l] = start[graph.state_start[v] + a, l]
        for s in range(np.uintp(before.shape[0])):
            for l in range(n_swept):
                before[s, l] = after[s, l]
        if n_lanes == ZERO:
            break
    for l in range(n_lanes):
        good = work.low[l] > SMALLEST if maxima is None else work.low[l] > -math.inf
        answers.good[rows.order[l]] = good
    if maxima is not None:
        _count_held(rows.held, work.n_held, n_models)
        if n_lanes < n_models:
            look_for_states(
                maxima, graph, not two_sweeps, general, not two_sweeps, variables, rows, states,
                n_lanes, work, n_models,
            )  # fmt: skip
        compare_states(
            maxima, graph, general, variables, rows, states, _MARGIN * slack, answers.converged,
            work, n_models,
        )  # fmt: skip


@jit(allocates=False)
def _log_sums(first, second, at, start, k, out, n_lanes):
    """Set `out` to the logarithm of ``sum_a first[at + a] * second[start + a]``."""
    for l in range(n_lanes):
        out[l] = 0.0
    for a in range(k):
        for l in range(n_lanes):
            out[l] += first[at + a, l] * second[start + a, l]
    log_in_place(out, n_lanes)


@jit(allocates=False)
def _joint(graph, e, sent, work, total, n_lanes):
    """Multiply the entries of a table by the messages to it; return the number of entries.

    The products are written to `work.table`, and their sum to `total` (lanes,).
    """
    message_start, scopes, digits, out = graph.message_start, graph.scopes, work.digits, work.table
    scope, m = graph.scope[e], graph.arity[e]
    size = ONE
    for j in range(m):
        size *= message_start[scopes[scope + j] + ONE] - message_start[scopes[scope + j]]
        digits[j] = ZERO
    for l in range(n_lanes):
        total[l] = 0.0
    for s in range(size):
        code = s
        if graph.kind[e] == POTTS:
            code = ONE if digits[0] == digits[1] else ZERO
        x, row = graph.tables[graph.table[e] + code], message_start[scopes[scope]] + digits[0]
        for l in range(n_lanes):
            out[s, l] = x * sent[row, l]
        for j in range(ONE, m):
            row = message_start[scopes[scope + j]] + digits[j]
            for l in range(n_lanes):
                out[s, l] *= sent[row, l]
        for l in range(n_lanes):
            total[l] += out[s, l]
        for i in range(m):
            j = m - ONE - i
            other = scopes[scope + j]
            digits[j] += ONE
            if digits[j] < message_start[other + ONE] - message_start[other]:
                break
            digits[j] = ZERO
    return size


@jit(allocates=False)
def _excesses(graph, v, k, general, message, sent, excess, work, n_lanes):
    """Compute g, see `categorical_logs`, of all edges of variable v, with k states.

    The weights of the states, in proportion to the belief of v, are in `work.new`.
    """
    belief, new, high, mean, total = work.behind, work.new, work.high, work.part, work.change
    for l in range(n_lanes):
        total[l] = 0.0
    for a in range(k):
        for l in range(n_lanes):
            belief[a, l] = new[a, l]
            total[l] += new[a, l]
    for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
        receive(None, graph, e, k, sent, work, general, n_lanes)
        for l in range(n_lanes):
            high[l] = mean[l] = 0.0
        for a in range(k):
            row = graph.message_start[e] + a
            for l in range(n_lanes):
                x = new[a, l] / message[row, l] if belief[a, l] > 0.0 else 0.0
                high[l] = max(high[l], x)
                mean[l] += belief[a, l] * x
        for l in range(n_lanes):
            x = high[l] * total[l]
            excess[e, l] = x / mean[l] if x > mean[l] > 0.0 else 1.0


@jit(allocates=False)
def _add_excesses(graph, edge_rho, excess, order, log_partition, part, n_lanes):
    """Add ``rho_a max g`` of all factors to log Z; `excess` (E, lanes) holds the exp(g)."""
    for e in range(np.uintp(excess.shape[0])):
        if graph.slot[e] != ZERO:
            continue
        for l in range(n_lanes):
            part[l] = 1.0
        for j in range(graph.arity[e]):
            other = graph.scopes[graph.scope[e] + j]
            for l in range(n_lanes):
                part[l] = max(part[l], excess[other, l])
        log_in_place(part, n_lanes)
        r = 1.0
        if edge_rho is not None:
            r = edge_rho[e]
        for l in range(n_lanes):
            log_partition[order[l]] += r * part[l]


@jit(allocates=False)
def sum_weights(
    graph, edge_rho, rows, good, weight, want_log_z, want_statistics, each, general, excess,
    log_partition, statistics, work,
):  # fmt: skip
    """Compute log Z and the probabilities of all table entries, from the final messages.

    Parameters
    ----------
    graph, edge_rho, rows, general, work : see `pass_lanes`
    good : (lanes,) bool, False for models that are left out of the statistics
    weight : (lanes,) weight of each model in the sum of the statistics
    want_log_z, want_statistics : bool
    each : bool, True for the statistics of each model, False for their sum
    excess : (E, lanes) scratch space to make log Z an upper bound, for tree-reweighted messages;
        None for sum-product messages
    log_partition : (lanes,) output, log Z
    statistics : (1 or lanes, n_entries); the probabilities are added to it
    """
    own, _, message, sent, _, order = rows
    total, part = work.high, work.part
    n_lanes, new = np.uintp(own.shape[1]), work.new
    for v in range(np.uintp(graph.order.shape[0])):
        start = graph.state_start[v]
        k = graph.state_start[v + ONE] - start
        if want_log_z:
            for a in range(k):
                for l in range(n_lanes):
                    new[a, l] = 1.0
            for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
                at, r = graph.message_start[e], 1.0
                if edge_rho is not None:
                    r = edge_rho[e]
                    for a in range(k):
                        _raise(r, at + a, message, part, n_lanes)
                        for l in range(n_lanes):
                            new[a, l] *= part[l]
                else:
                    for a in range(k):
                        for l in range(n_lanes):
                            new[a, l] *= message[at + a, l]
                _log_sums(message, sent, at, at, k, part, n_lanes)
                for l in range(n_lanes):
                    log_partition[order[l]] -= r * part[l]
            _log_sums(new, own, ZERO, start, k, part, n_lanes)
            for l in range(n_lanes):
                log_partition[order[l]] += part[l]
            if excess is not None:
                for a in range(k):
                    for l in range(n_lanes):
                        new[a, l] *= own[start + a, l]
                _excesses(graph, v, k, general, message, sent, excess, work, n_lanes)
        for e in range(graph.edge_start[v], graph.edge_start[v + ONE]):
            if graph.slot[e] != ZERO:
                continue
            size = _joint(graph, e, sent, work, total, n_lanes)
            if want_statistics and graph.place[e] >= 0:
                for l in range(n_lanes):
                    x = 1.0 if each else weight[order[l]]
                    part[l] = x / total[l] if good[order[l]] else 0.0
                for s in range(size):
                    here = 0.0
                    for l in range(n_lanes):
                        x = work.table[s, l] * part[l]
                        here += x
                        if each:
                            statistics[order[l], graph.place[e] + s] += x
                    if not each:
                        statistics[0, graph.place[e] + s] += here
            if want_log_z:
                r = 1.0
                if edge_rho is not None:
                    r = edge_rho[e]
                log_in_place(total, n_lanes)
                for l in range(n_lanes):
                    log_partition[order[l]] += r * total[l]
    if want_log_z and excess is not None:
        _add_excesses(graph, edge_rho, excess, order, log_partition, part, n_lanes)
