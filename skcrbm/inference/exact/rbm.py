"""Exact inference on RBMs: enumerate one layer, usually the smaller, and sum out the other."""

from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from skcrbm.inference.base import empty_result, sum_statistics, with_folded_evidence
from skcrbm.inference.exact.independent import k_best_joint
from skcrbm.inference.exact.parts import answer_in_parts, check_time
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels.rbm_exact import (
    BLOCK,
    GROUP,
    MAX_FIELD,
    MAX_LOW_UNITS,
    MAX_NORM,
    ROW,
    STRIDE,
    ExactAnswers,
    OddsTables,
    Work,
    enumerate_rows,
)
from skcrbm.kernels.scalar import MAX, MIXED, SUM
from skcrbm.utils.limits import BLOCK_ENTRIES, CACHED_ENTRIES, ONE_MODEL_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Outputs of kernels that are not needed.
_NO_STATES, _NO_PAIRS = np.empty((0, 0), np.int8), np.empty((0, 0))
# Largest size of a block of states whose scores are computed together when samples are drawn: the
# number of states times the number of units.
_BLOCK_UNITS = 2**20
# Target size of a chunk of rows. The size is the number of rows, times the number of enumerated
# states, times the number of units that are summed out. A chunk of this size takes a few
# milliseconds, so that the overhead of a call does not matter.
_CHUNK_WORK = 2**23
# Estimated number of temporary values for each variable of each row. Rows are cut into blocks that
# have at most `BLOCK_ENTRIES` temporary values.
_NUMBERS = 8
# Smallest number of rows in a block. Smaller blocks would be slow, because the tables of the
# couplings are computed again for each block.
_LEAST_ROWS = 64


def solve(method, energy, query):
    """Answer a query of any kind by enumerating the states of a layer."""
    return answer_in_parts(method, energy, query, sums=_sums, best=_best_states, draw=_draw)


@with_folded_evidence
def k_best(method, energy, query):
    """Return the k best states of each model, and their scores, as two lists.

    The states of the smaller layer are enumerated. Given such a state, the units of the other layer
    are independent.
    """
    check_time(energy, query)
    layers = _Layers(energy, energy.n_visible < energy.n_hidden)
    k, m = layers.coupling.shape
    _check_size(method, "smaller", k, "'max_product' or 'icm'")

    def run(rows):
        row = rows.start
        off = np.zeros(m)

        def scores_of(number):
            inputs = layers.other[row] + _bits(np.array([number]), k)[0] @ layers.coupling
            return np.stack([off, np.where(layers.free[row, k:], inputs, -np.inf)], axis=1)

        top = _all_log_weights(layers, row, _gain_of_best)
        number, states, scores = k_best_joint(top, scores_of, query.n_best)
        return layers.in_order(np.hstack([_bits(number, k), states])), scores

    with one_blas_thread():
        found = list(ordered_map(run, row_chunks(energy.n_models, 1), query.n_jobs))
    return [states for states, _ in found], [scores for _, scores in found]


def _check_size(method, layer, n_units, advice):
    if n_units > method.max_units:
        raise ValueError(
            f"'exact' enumerates the {layer} layer, which has {n_units} units; the limit is "
            f"max_units={method.max_units}. Use {advice}, or Exact(max_units=...) up to 30"
        )


def _in_blocks(solve):
    """Decorate a solver, so that it is called for one block of rows of a query at a time.

    The blocks limit the memory of solvers that need much memory for each row. The answers for the
    blocks are joined, and statistics that are summed over rows are added up.
    """

    @wraps(solve)
    def solve_blocks(method, energy, query):
        n = energy.n_models
        size = BLOCK_ENTRIES // max(1, _NUMBERS * energy.n_variables)
        blocks = row_chunks(n, max(_LEAST_ROWS, size // BLOCK * BLOCK))
        if len(blocks) <= 1:
            return solve(method, energy, query)
        answer, total = {}, None
        for rows in blocks:
            weight = query.sample_weight[rows]
            part = solve(method, energy.rows(rows), replace(query, sample_weight=weight))
            if "statistics" in part:
                (values,) = part.pop("statistics")  # the statistics of an RBM are a single array
                if total is None:
                    shape = (n, *values.shape[1:]) if query.per_example else values.shape
                    total = np.zeros(shape, energy.dtype if query.per_example else np.float64)
                total[rows if query.per_example else ...] += values
            for name, values in part.items():
                if name not in answer:
                    answer[name] = np.empty((n, *values.shape[1:]), values.dtype)
                answer[name][rows] = values
        if total is not None:
            answer["statistics"] = (total.astype(energy.dtype, copy=False),)
        return answer

    return solve_blocks


class _Layers:
    """N RBMs in float64, with their layers in the order (enumerated layer, other layer).

    The enumerated layer has k units and the other layer m units. `enumerated` (N, k) and `other`
    (N, m) are the fields of the two layers. `coupling` has the shape (k, m). `free` (N, k + m) is
    True for units that are not clamped.
    """

    def __init__(self, energy, visible_first):
        self.visible_first = visible_first
        n_visible = energy.n_visible
        enumerated, other = energy.fields if visible_first else energy.fields[::-1]
        coupling = energy.weights if visible_first else energy.weights.T
        self.enumerated, self.other, self.coupling = (
            kernel_array(a, np.float64) for a in (enumerated, other, coupling)
        )
        free = energy.free
        self.free = kernel_array(self.joined(free[:, :n_visible], free[:, n_visible:]))

    def joined(self, visible, hidden):
        """Join a visible and a hidden array (N, ...) in the order (enumerated, other)."""
        return np.hstack([visible, hidden] if self.visible_first else [hidden, visible])

    def in_order(self, values):
        """Convert values (..., k + m) from the order (enumerated, other) to (visible, hidden)."""
        if self.visible_first:
            return values
        k = len(self.coupling)
        return np.concatenate([values[..., k:], values[..., :k]], axis=-1)


@_in_blocks
@with_folded_evidence
def _best_states(method, energy, query):
    """Compute "map" or "marginal_map", and max-marginals."""
    fields = empty_result(energy, query)
    marginal = "marginal_map" in query.returns
    if marginal:
        _check_size(method, "visible", energy.n_visible, "'mixed_product'")
    else:
        smaller = min(energy.n_visible, energy.n_hidden)
        _check_size(method, "smaller", smaller, "'max_product' or 'icm'")
    layers = _Layers(energy, marginal or energy.n_visible < energy.n_hidden)
    n, k = energy.n_models, len(layers.coupling)
    state, log_odds = np.zeros((n, k), np.int8), np.where(layers.free, np.nan, 0.0)
    if marginal:
        log_odds[:, k:] = 0.0
    enumerate_in_logs = _log_enumeration(layers, MIXED if marginal else MAX, MAX)

    def solve(rows):
        enumerate_in_logs(rows, np.ones(n), False, state, np.empty(n), log_odds, _NO_PAIRS)

    for _ in ordered_map(solve, row_chunks(n, 1 if k > 8 else ROWS_PER_CHUNK), query.n_jobs):
        pass
    with one_blas_thread():
        inputs = layers.other + state @ layers.coupling
    if marginal:
        log_odds[:, k:] = inputs
    fields["assignment"][:] = layers.in_order(np.hstack([state, inputs > 0]))
    fields["log_odds"] = layers.in_order(log_odds).astype(energy.dtype, copy=False)
    return fields


@_in_blocks
@with_folded_evidence
def _sums(method, energy, query):
    """Compute marginals, statistics and log Z."""
    layers = _Layers(energy, energy.n_hidden > energy.n_visible)
    coupling = layers.coupling
    k, m = coupling.shape
    _check_size(method, "smaller", k, "'sum_product' or 'mean_field'")
    n = energy.n_models
    fields = empty_result(energy, query)
    log_partition = fields.get("log_partition", np.zeros(n))
    log_odds = np.zeros((n, k + m))
    pairs = None
    if "statistics" in query.returns:
        pairs = (np.zeros((n, m, k) if query.per_example else (m, k)),)
    weight = np.ones(n) if query.per_example else query.sample_weight
    # Statistics need marginals, too, to compute the statistics of clamped units.
    want_marginals = bool(query.returns & {"marginals", "statistics"})
    rows_of = layers.enumerated, layers.other, layers.free
    chunks = row_chunks(n, max(4, min(256, _CHUNK_WORK // max(1, m << k))))

    tables: Any

    def in_odds(rows, statistics):
        enumerated, summed, free = (part[rows] for part in rows_of)
        z = np.exp(-np.abs(summed))
        found = log_odds[rows]
        answers = ExactAnswers(log_partition[rows], found, *statistics)
        enumerate_rows(
            enumerated, summed, z, free, coupling, tables, weight[rows], want_marginals,
            pairs is not None, answers, _work_space(k, m, GROUP * len(tables.norm)),
        )  # fmt: skip
        if want_marginals:
            np.log(found, out=found)
            np.add(found[:, k:], summed, out=found[:, k:], where=free[:, k:])

    def in_logs(rows, statistics):
        enumerate_in_logs(rows, weight, pairs is not None, _NO_STATES, log_partition, log_odds,
                          *statistics)  # fmt: skip

    if k == 0:
        summed = np.where(layers.free, layers.other, -np.inf)
        log_partition[:] = np.logaddexp(0, summed).sum(1)
        log_odds = np.where(layers.free, layers.other, 0)
    elif n == 1 and m << k <= ONE_MODEL_ENTRIES and (pairs is None or query.per_example):
        with one_blas_thread():
            log_partition[0], log_odds[0], found = _sums_of_one(layers)
        if pairs is not None:
            pairs[0][0] = found
    elif (tables := _odds_tables(layers)) is None:
        log_odds[layers.free & want_marginals] = np.nan
        enumerate_in_logs = _log_enumeration(layers, SUM, SUM)
        sum_statistics(in_logs, chunks, query, pairs)
    else:
        sum_statistics(in_odds, chunks, query, pairs)
        rows = np.flatnonzero(np.isnan(log_odds).any(1))
        if len(rows):
            missing = log_odds.copy()
            _log_enumeration(layers, SUM, SUM)(
                rows, weight, False, _NO_STATES, np.empty(n), missing, _NO_PAIRS
            )
            log_odds[rows] = missing[rows]
    if want_marginals:
        fields["log_odds"] = layers.in_order(log_odds).astype(energy.dtype, copy=False)
    if pairs is not None:
        pairs = np.swapaxes(pairs[0], -1, -2) if layers.visible_first else pairs[0]
        fields["statistics"][0][...] = pairs
    return fields


def _sums_of_one(layers):
    """Compute the sums of a single model in NumPy, to save the compile time of the kernels.

    Return log Z, the log-odds (k + m,) with 0 for clamped units, and the probabilities (m, k) that
    a summed unit and an enumerated unit are both on. Training steps on a single row use kernels
    instead, because a kernel is faster if it is called many times.
    """
    k, m = layers.coupling.shape
    free, free_other = layers.free[0, :k], layers.free[0, k:]
    states = _bits(np.arange(2**k), k)
    log_weight, inputs = _log_weights(layers, 0, states)
    log_partition = _log_sum(log_weight)
    log_odds = np.zeros(k + m)
    own, table = states[:, free] == 1, log_weight[:, None]
    on, off = (_log_sum(np.where(which, table, -np.inf)) for which in (own, ~own))
    log_odds[:k][free] = on - off
    given = inputs[:, free_other]
    log_odds[k:][free_other] = _log_sum(table + log_expit(given)) - _log_sum(
        table + log_expit(-given)
    )
    probability = np.exp(log_weight - log_partition)
    pairwise = (np.where(free_other, expit(inputs), 0) * probability[:, None]).T @ states
    return log_partition, log_odds, pairwise


def _gain_of_sum(inputs):
    """Return the log-weights of units with these inputs if both states are summed."""
    return np.logaddexp(0, inputs)


def _gain_of_best(inputs):
    """Return the log-weights of units with these inputs if they take their best states."""
    return np.maximum(inputs, 0)


def _all_log_weights(layers, row, gain):
    """Return the log-weights (2^k,) of all states of the enumerated layer; see `_log_weights`."""
    k, m = layers.coupling.shape
    log_weight = np.empty(2**k)
    for block in row_chunks(2**k, max(1, _BLOCK_UNITS // max(1, k + m))):
        states = _bits(np.arange(block.start, block.stop), k)
        log_weight[block], _ = _log_weights(layers, row, states, gain)
    return log_weight


def _log_weights(layers, row, states, gain=_gain_of_sum):
    """Return log-weights (K,) of K states (K, k), and the inputs (K, m) to the other layer.

    `row` is the index of the model. The fields of free units already include the effect of the
    clamped units. So a clamped unit must count as off: states in which it is on get the log-weight
    -inf.
    """
    k = states.shape[1]
    free, free_other = layers.free[row, :k], layers.free[row, k:]
    inputs = layers.other[row] + states @ layers.coupling
    log_weight = states @ layers.enumerated[row]
    log_weight += gain(inputs) @ free_other
    log_weight[states[:, ~free].any(1)] = -np.inf
    return log_weight, inputs


def _log_sum(log_weight):
    """Return the logarithm of the sum of weights along the first axis."""
    high = log_weight.max(axis=0)
    return high + np.log(np.exp(log_weight - high).sum(axis=0))


@with_folded_evidence
def _draw(method, energy, query):
    """Draw samples of the enumerated layer, then samples of the other layer given these samples."""
    n, n_samples = energy.n_models, query.n_samples
    layers = _Layers(energy, energy.n_visible < energy.n_hidden)
    coupling = layers.coupling
    k, m = coupling.shape
    _check_size(method, "smaller", k, "'gibbs'")
    key = random_key(method.random_state)
    fields = empty_result(energy, query)
    fields["samples"] = np.zeros((n, n_samples, k + m), np.int8)
    if "sample_log_prob" in query.returns:
        fields["sample_log_prob"] = np.zeros((n, n_samples))

    def run(rows):
        row = rows.start
        log_weight = _all_log_weights(layers, row, _gain_of_sum)
        highest = log_weight.max()
        mass = np.cumsum(np.exp(log_weight - highest))
        u = uniforms(key, [row], 0, n_samples)[0]
        number = np.searchsorted(mass, u * mass[-1]).clip(0, 2**k - 1)
        states = _bits(number, k)
        u = uniforms(key, [row], 1, n_samples * m).reshape(n_samples, m)
        inputs = layers.other[row] + states @ coupling
        on = u < expit(inputs)
        fields["samples"][row] = layers.in_order(np.concatenate([states, on], axis=1))
        if "sample_log_prob" in query.returns:
            log_prob = log_expit(np.where(on, inputs, -inputs))[:, layers.free[row, k:]].sum(1)
            log_prob += log_weight[number] - (highest + np.log(mass[-1]))
            fields["sample_log_prob"][row] = log_prob

    with one_blas_thread():
        for _ in ordered_map(run, row_chunks(n, 1), query.n_jobs):
            pass
    return fields


def _bits(numbers, k):
    """Convert integers (K,) to 0/1 states (K, k). Column j is bit j, and bit 0 is the lowest."""
    return ((numbers[:, None] >> np.arange(k)) & 1).astype(np.float64)


def _n_low(k, m):
    """Return the number of low units, such that the tables of their states fit the cache.

    The low units are the first of the `k` enumerated units. The other layer has `m` units.
    """
    return min(k, max(3, min(10, int(np.log2(CACHED_ENTRIES / max(m, 1))))))


def _log_enumeration(layers, inner, outer):
    """Return a function that answers queries about some rows by `enumerate_states`, in logarithms.

    Its arguments are the rows, and those arguments of the kernel that depend on the query, for all
    rows of the models.
    """
    from skcrbm.kernels.arguments import enumeration_work
    from skcrbm.kernels.enumeration import enumerate_states  # imported on first use

    coupling, enumerated, free = layers.coupling, layers.enumerated, layers.free
    k, log_gain = len(coupling), _low_log_gain(coupling)
    n_low = log_gain.shape[1].bit_length() - 1
    low = np.where(free[:, :n_low], enumerated[:, :n_low], -np.inf)
    shifted = np.hstack([low, layers.other])
    # The low units have no couplings to high units.
    all_couplings = np.hstack([np.zeros((k, n_low)), coupling])
    scores = np.zeros(1 << n_low), np.zeros(1 << (k - n_low))

    def solve(rows, weight, want_statistics, state, log_partition, log_odds, pairwise):
        # Rows are a slice, whose parts of the outputs are views, or indices.
        outputs = [part[rows] if len(part) else part for part in (state, log_partition, log_odds)]
        enumerate_states(
            inner, outer, enumerated[rows], shifted[rows], free[rows], all_couplings, log_gain,
            *scores, weight[rows], enumeration_work(k, len(log_gain), 1 << n_low), *outputs,
            pairwise if want_statistics else None,
        )  # fmt: skip
        if not isinstance(rows, slice):
            log_odds[rows] = outputs[2]

    return solve


def _low_log_gain(coupling):
    """Return the inputs (m, 2^n_low) to m summed units from all states of low units (`_n_low`)."""
    n_low = _n_low(*coupling.shape)
    states = (np.arange(2**n_low)[:, None] >> np.arange(n_low)) & 1
    return np.ascontiguousarray((states @ coupling[:n_low]).T)


def _odds_tables(layers):
    """Return the tables that `enumerate_rows` needs, or None if odds would overflow.

    Odds would overflow if couplings or fields are large. The units of the other layer are stored in
    groups. If the couplings are strong, the groups are smaller, so that products over a group stay
    in the range of floats.
    """
    k, m = layers.coupling.shape
    if np.abs(layers.enumerated).max(initial=0.0) > MAX_FIELD:
        return None
    norms = np.abs(layers.coupling).sum(0)
    for size in (GROUP, GROUP // 2, 1):
        place = np.arange(m) // size * GROUP + np.arange(m) % size
        norm = np.bincount(place // GROUP, norms)
        if norm.max(initial=0.0) <= MAX_NORM:
            break
    else:
        return None
    odds = np.ones((k, GROUP * len(norm)))
    odds[:, place] = np.exp(layers.coupling)
    n_low = min(_n_low(k, m), MAX_LOW_UNITS)
    gain = np.empty((odds.shape[1], 2**n_low))
    gain[:, 0] = 1
    for j in range(n_low):
        gain[:, 2**j : 2 ** (j + 1)] = gain[:, : 2**j] * odds[j][:, None]
    return OddsTables(place, gain.reshape(-1), norm)


def _work_space(k, m, n_places):
    """Allocate the work arrays of `enumerate_rows`.

    The arrays are not allocated in the kernel, because the kernel would then compile slowly. The
    rows of a block are stored one after the other. A group has a fixed number of places; places
    without a unit count as units that are off.
    """
    units = np.ones((5, BLOCK * n_places))
    units[0] = 0.0
    product = np.empty(BLOCK * ROW)
    exponent = np.empty(BLOCK * ROW, np.int64)
    return Work(
        units,
        np.ones((2, n_places)),
        np.empty((6, BLOCK)),
        np.empty(BLOCK, bool),
        np.empty((2, BLOCK, k + m)),
        product,
        product.view(np.int64),
        exponent,
        exponent.view(np.float64),
        np.empty(n_places * STRIDE),
    )
