"""Exact inference, by enumeration, on RBMs whose outputs have classes.

A vector of classes has a class for each output. If there are fewer vectors of classes than states
of the hidden units, the vectors are enumerated. Otherwise the hidden states are enumerated.

Given the hidden units the outputs are independent, so a hidden state h has the weight
``exp(c' h) prod_outputs sum_classes exp(b_k + W_k h)``. Here c are the biases of the hidden units,
b_k is the bias of class k, and W_k are its weights. With moderate weights kernels compute these
sums from exp(b) and exp(W h). If the weights are large, or if a probability of a row underflows,
the sums are computed from logarithms.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.special import expit, log_expit

from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.energies.states import binary_states, unchecked
from skcrbm.inference.base import empty_result
from skcrbm.inference.exact.independent import k_best_joint
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.kernels import rbm_groups as kernels
from skcrbm.utils.categorical import one_against_rest
from skcrbm.utils.limits import BLOCK_ENTRIES, CACHED_ENTRIES
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks

# The hidden units add inputs to the classes of an output. If the inputs of two classes differ by at
# most this number, the sums over classes are computed from weights, which then stay in the range of
# floats.
_MAX_RANGE = 300.0
# Indices are drawn from at most this number of weights without a search.
_FEW = 32
# Probabilities below this number are computed from logarithms, because floats near 1e-308 lose
# digits.
_TINY = 1e-290


def solve(method, energy, query):
    """Answer any query about a `GroupedRBMEnergy`."""
    fields = empty_result(energy, query)
    by_sums = "marginal_map" in query.returns
    search = query.returns & {"map", "marginal_map"}
    with one_blas_thread():
        model = _model_for(method, energy, vectors=False)
        if search:
            best = _model_for(method, energy, vectors=True) if by_sums else model
            _fill_best(best, query, "marginal" if by_sums else "max", fields)
        if query.returns & {"marginals", "statistics", "log_partition"}:
            _fill_sums(model, query, fields)
        if "samples" in query.returns:
            _draw(model, query, random_key(method.random_state), fields)
    if "map_bound" in query.returns:
        fields["gap"] = np.zeros(energy.n_models)
    if "log_odds" in fields:
        fields["log_odds"] = fields["log_odds"].astype(energy.dtype, copy=False)
    return fields


def k_best(method, energy, query):
    """Return the k best states of each model, and their scores, as two lists."""
    model = _model_for(method, energy, vectors=False)

    def run(rows):
        log_weight, scores_of = model.choices(rows)
        found = []
        for r, top in enumerate(log_weight):
            number, states, scores = k_best_joint(top, partial(scores_of, r), query.n_best)
            codes, hidden = model.joined(number, states)
            found.append((np.hstack([energy.units.units_of(codes), hidden]), scores))
        return found

    with one_blas_thread():
        parts = list(ordered_map(run, model.chunks(model.n_columns), query.n_jobs))
    found = [pair for part in parts for pair in part]
    return [states for states, _ in found], [scores for _, scores in found]


def _model_for(method, energy, vectors):
    """Return a `_HiddenStates` or a `_Vectors` model, whichever enumerates fewer states.

    If `vectors` is True, always return a `_Vectors` model.
    """
    n_bits = energy.units.log2_vectors
    vectors = vectors or n_bits < energy.n_hidden
    n_units, what = (n_bits, "vectors of classes") if vectors else (energy.n_hidden, "states")
    if n_units > method.max_units:
        raise ValueError(
            f"'exact' would enumerate 2^{math.ceil(n_units)} {what} of the "
            f"{'outputs' if vectors else 'hidden units'}; the limit is "
            f"max_units={method.max_units}. Use 'sum_product', or 'max_product' for 'map'"
        )
    return (_Vectors if vectors else _HiddenStates)(energy)


class _Model:
    """A model in float64, with the classes of all outputs side by side (S classes in total)."""

    def __init__(self, energy: GroupedRBMEnergy):
        self.energy, self.units = energy, energy.units
        units, n_hidden = energy.units, energy.n_hidden
        self.weights = np.zeros((units.n_states, n_hidden))
        self.weights[units.place] = energy.weights
        fields = energy.state_fields()
        # Subtract the largest log-weight of each output. If all classes share a large number, small
        # differences between classes would be lost by rounding.
        self.offset = np.zeros(energy.n_models)
        for own in self.own:
            top = fields[:, own].max(axis=1)
            fields[:, own] -= top[:, None]
            self.offset += top
        self.fields = fields
        hidden_bias = energy.hidden_bias.astype(np.float64)
        self.held = np.full(hidden_bias.shape, np.nan)
        if energy.evidence is not None:
            self.held = energy.evidence[:, energy.n_visible :]
            self.offset += (np.nan_to_num(self.held) * hidden_bias).sum(axis=1)
            hidden_bias = np.where(np.isnan(self.held), hidden_bias, 0.0)
        self.hidden_bias = hidden_bias

    @property
    def own(self):
        """List of slices: the classes of each output in the axis of all S classes."""
        return [slice(i, j) for i, j in pairwise(self.units.first.tolist())]

    def log_odds(self, chances, on, off):
        """Return log-odds (n, S + H), given the probabilities of S classes and H hidden units."""
        with np.errstate(divide="ignore"):
            return self.log_odds_of(np.log(chances), np.log(on), np.log(off))

    def log_odds_of(self, log_chance, on, off):
        """Return log-odds (n, S + H), given the logarithms of probabilities."""
        with np.errstate(invalid="ignore"):
            parts = [one_against_rest(log_chance[:, own]) for own in self.own]
            return np.hstack([np.empty((len(on), 0)), *parts, on - off])

    def lost(self, rows, chances, on, off):
        """Return the indices of the rows in which a probability is too small for a float."""
        some = ((chances < _TINY) & np.isfinite(self.fields[rows])).any(axis=1)
        some |= (((on < _TINY) | (off < _TINY)) & np.isnan(self.held[rows])).any(axis=1)
        return np.arange(rows.start, rows.stop)[some]

    def chunks(self, n_columns):
        """Split the rows into blocks of moderate memory, given `n_columns` numbers per row."""
        return row_chunks(self.energy.n_models, max(1, BLOCK_ENTRIES // max(1, n_columns)))


class _HiddenStates(_Model):
    """Enumerate the M hidden states, and sum over the classes of each output."""

    def __init__(self, energy):
        super().__init__(energy)
        self.states = binary_states(energy.n_hidden).astype(np.float64)  # (M, H)
        self.inputs = self.weights @ self.states.T  # (S, M)
        parts = [self.inputs[own] for own in self.own]
        tops = [part.max(axis=0) for part in parts]
        self.top = np.sum(tops, axis=0) if tops else np.zeros(len(self.states))
        self.odds = np.vstack([np.empty((0, len(self.states)))] + [
            np.exp(part - top) for part, top in zip(parts, tops)
        ])  # fmt: skip
        reach = [float((top - part).max()) for part, top in zip(parts, tops)]
        self.moderate = max(reach, default=0.0) <= _MAX_RANGE
        self.groups = _groups_of_outputs(reach, self.units.n_classes)

    @property
    def n_columns(self):
        """Number of temporary entries per row."""
        return len(self.states) * max(1, self.units.n_states)

    def prior(self, rows):
        """Return the log-weights (n, M) that the hidden biases alone give to the hidden states."""
        log_weight = self.hidden_bias[rows] @ self.states.T
        held = self.held[rows]
        if not np.isnan(held).all():
            wrong = (held == 1) @ (1 - self.states.T) + (held == 0) @ self.states.T > 0
            log_weight[wrong] = -np.inf
        return log_weight

    def log_partition(self, rows):
        """Return log Z (n,) of some rows."""
        return _log_sum(self._log_weights(rows)[0], 1)

    def _log_weights(self, rows):
        """Return the log-weights (n, M) of the hidden states, and exp(fields), with odds or logs.

        The second result is None if the log-weights were computed from logarithms.
        """
        if not self.moderate:
            return self._joint(rows, _log_sum)[0], None
        fields, n_states = np.exp(self.fields[rows]), len(self.states)
        total, products = (
            np.empty(n_states),
            np.empty((len(self.groups) - 1, len(fields), n_states)),
        )
        kernels.multiply_outputs(fields, self.odds, self.units.first, self.groups, total, products)
        log_weight = self.prior(rows) + self.top
        for product in products:
            log_weight += np.log(product)
        return log_weight, fields

    def sums(self, rows, weight):
        """Return log Z (n,), log-odds (n, S + H) and weighted statistics (S, H) of some rows.

        `weight` (n,) holds weights of the rows; None gives the statistics (n, S, H) of each row.
        """
        if not self.moderate or weight is None:
            return self.sums_of_logs(rows, weight)
        log_weight, fields = self._log_weights(rows)
        assert fields is not None  # the model is moderate
        given, total = (fields, self.odds, self.units.first), np.empty(len(self.states))
        log_z = _log_sum(log_weight, 1)
        p = np.exp(log_weight - log_z[:, None])
        chances, joint = np.empty(fields.shape), np.zeros(self.odds.shape)
        kernels.add_classes(*given, p, weight, total, chances, joint)
        statistics = (joint * self.odds) @ self.states
        on, off = p @ self.states, p @ (1 - self.states)
        log_odds = self.log_odds(chances, on, off)
        lost = self.lost(rows, chances, on, off)
        if len(lost):
            log_odds[lost - rows.start] = self.sums_of_logs(lost, np.zeros(len(lost)))[1]
        return log_z, log_odds, statistics

    def sums_of_logs(self, rows, weight):
        """Return the answers of `sums`, computed from logarithms."""
        log_weight, terms = self._joint(rows, _log_sum)
        log_z = _log_sum(log_weight, 1)
        log_p = log_weight - log_z[:, None]
        statistics = np.zeros((*(() if weight is not None else (len(log_p),)), *self.weights.shape))
        log_chance = np.empty((len(log_p), len(self.weights)))
        for own, term in zip(self.own, terms):
            joint = log_p[:, None, :] + term  # (n, K, M)
            log_chance[:, own] = _log_sum(joint, 2)
            joint = np.exp(joint) @ self.states
            statistics[..., own, :] = joint if weight is None else np.tensordot(weight, joint, 1)
        on, off = self._hidden(log_p, _log_sum)
        return log_z, self.log_odds_of(log_chance, on, off), statistics

    def _joint(self, rows, reduce):
        """Return the log-weights (n, M) of the hidden states, and log p(class | h) of each output.

        `reduce` sums or maximises over the classes.
        """
        log_weight, terms = self.prior(rows), []
        for own in self.own:
            term = self.fields[rows, own][:, :, None] + self.inputs[own]
            total = reduce(term, 1)
            log_weight += total
            terms.append(term - total[:, None, :])
        return log_weight, terms

    def _hidden(self, log_p, reduce):
        """Return two arrays (n, H): log-weights if a hidden unit is on, and if it is off.

        `reduce` sums or maximises over all hidden states in which the unit is on (or off).
        """
        on = [reduce(log_p[:, state == 1], 1) for state in self.states.T]
        off = [reduce(log_p[:, state == 0], 1) for state in self.states.T]
        return _columns(on, len(log_p)), _columns(off, len(log_p))

    def best(self, rows, hidden):
        """Return the best states of n rows: codes (n, L), hidden states (n, H) and scores (n,).

        A code is the index of the class of an output. The last item of the result is the log-odds
        of the max-marginals.
        """
        log_weight, terms = self._joint(rows, np.max)
        index = log_weight.argmax(axis=1)
        each = np.arange(len(index))
        codes = [term[each, :, index].argmax(axis=1) for term in terms]
        log_max = [(log_weight[:, None] + term).max(axis=2) for term in terms]
        log_odds = [_best_against_rest(part) for part in log_max]
        on, off = self._hidden(log_weight, np.max)
        with np.errstate(invalid="ignore"):
            log_odds = np.hstack([np.empty((len(each), 0)), *log_odds, on - off])
        return _columns(codes, len(each)), self.states[index], log_weight[each, index], log_odds

    def choices(self, rows):
        """Return the log-weights (n, M) of the hidden states with the best classes of the outputs.

        The second result is a function that returns the log-weights (L, K) of the classes, given
        the number of a row and of a hidden state.
        """
        log_weight, terms = self._joint(rows, np.max)
        n_classes = int(self.units.n_classes.max(initial=1))

        def scores_of(r, number):
            scores = np.full((len(terms), n_classes), -np.inf)
            for own, term in zip(scores, terms):
                own[: term.shape[1]] = term[r, :, number]
            return scores

        return log_weight, scores_of

    def joined(self, number, states):
        """Return codes and hidden states, given numbers of hidden states and the codes."""
        return states, self.states[number]

    def draw(self, rows, n_samples, key):
        """Draw codes (n, n_samples, L) and hidden states (n, n_samples, H)."""
        index = np.arange(rows.start, rows.stop)
        log_weight, _ = self._joint(rows, _log_sum)
        number = _drawn(log_weight, uniforms(key, index, 0, n_samples))
        n_outputs = len(self.own)
        u = uniforms(key, index, 1, n_samples * n_outputs).reshape(-1, n_samples, n_outputs)
        codes = []
        for i, own in enumerate(self.own):
            logs = self.fields[rows, own][:, None, :] + self.inputs[own].T[number]
            codes.append(_drawn(logs, u[..., i, None])[..., 0])
        return _columns(codes, *number.shape), self.states[number]


class _Vectors(_Model):
    """Enumerate the M vectors of classes, and sum over each hidden unit."""

    def __init__(self, energy):
        super().__init__(energy)
        counts = self.units.n_classes.tolist()
        codes = np.indices(counts).reshape(len(counts), -1).T if counts else np.empty((1, 0), int)
        self.codes = codes  # (M, L)
        self.member = np.zeros((len(codes), self.units.n_states))
        np.put_along_axis(self.member, codes + self.units.first[:-1], 1.0, axis=1)
        self.inputs = self.member @ self.weights  # (M, H)

    @property
    def n_columns(self):
        """Number of temporary entries per row."""
        return len(self.codes) * max(1, self.energy.n_hidden, len(self.own))

    def _joint(self, rows, hidden):
        """Return the log-weights (n, M) of the vectors and the inputs (n, M, H) of hidden units."""
        inputs = self.hidden_bias[rows][:, None] + self.inputs
        gain = np.maximum(inputs, 0)
        if hidden == "marginal":
            gain += np.log1p(np.exp(-np.abs(inputs)))
        log_weight = self._gain_of_held(rows, inputs, gain).sum(axis=2)
        log_weight += self._own_weights(rows)
        return log_weight, inputs

    def _gain_of_held(self, rows, inputs, gain):
        """Replace the gain of clamped hidden units by their inputs, or by 0 if they are off."""
        held = self.held[rows][:, None]
        if np.isnan(held).all():
            return gain
        return np.where(np.isnan(held), gain, np.nan_to_num(held) * inputs)

    def _own_weights(self, rows):
        """Return the log-weights (n, M) that the visible biases alone give to the vectors."""
        fields = self.fields[rows]
        total = np.zeros((len(fields), 1))
        for own in self.own:  # the class of the last output changes fastest
            total = (total[:, :, None] + fields[:, None, own]).reshape(len(fields), -1)
        return total

    def log_partition(self, rows):
        """Return log Z (n,) of some rows."""
        return _log_sum(self._joint(rows, "marginal")[0], 1)

    def sums(self, rows, weight):
        """Return log Z, log-odds and statistics of some rows; see `_HiddenStates.sums`."""
        log_weight, inputs = self._joint(rows, "marginal")
        held = self.held[rows]
        log_z = _log_sum(log_weight, 1)
        p = np.exp(log_weight - log_z[:, None])
        small = np.exp(-np.abs(inputs))
        part = p[:, :, None] / (1 + small)
        on, off = np.where(inputs > 0, 1.0, small), np.where(inputs > 0, small, 1.0)
        fixed = held[:, None]
        on = np.where(np.isnan(fixed), on * part, (fixed == 1) * p[:, :, None])  # (n, M, H)
        off = np.where(np.isnan(fixed), off * part, (fixed == 0) * p[:, :, None])
        if weight is None:
            statistics = np.matmul(self.member.T, on)
        else:
            statistics = self.member.T @ np.tensordot(weight, on, 1)
        chances, on, off = p @ self.member, on.sum(axis=1), off.sum(axis=1)
        log_odds = self.log_odds(chances, on, off)
        lost = self.lost(rows, chances, on, off)
        if len(lost):
            log_odds[lost - rows.start] = self._log_odds_of_logs(lost)
        return log_z, log_odds, statistics

    def _log_odds_of_logs(self, rows):
        """Return the log-odds (n, S + H) of some rows, computed from logarithms."""
        log_weight, inputs = self._joint(rows, "marginal")
        log_p = log_weight - _log_sum(log_weight, 1)[:, None]
        held = self.held[rows][:, None]
        with np.errstate(divide="ignore"):
            on = np.where(np.isnan(held), log_expit(inputs), np.log(held == 1))
            off = np.where(np.isnan(held), log_expit(-inputs), np.log(held == 0))
        log_chance = self._reduced(log_p, _log_sum)
        on, off = (_log_sum(log_p[:, :, None] + part, 1) for part in (on, off))
        return self.log_odds_of(log_chance, on, off)

    def _reduced(self, log_weight, reduce):
        """Return the log-weight of each class: the sum or maximum over vectors with this class."""
        parts, before = [np.empty((len(log_weight), 0))], 1
        for k in self.units.n_classes.tolist():
            # axes: model, classes of the outputs before, class of the output, and of those after
            table = log_weight.reshape(len(log_weight), before, k, -1).swapaxes(1, 2)
            parts.append(reduce(table.reshape(len(log_weight), k, -1), 2))
            before *= k
        return np.hstack(parts)

    def best(self, rows, hidden):
        """Return the best codes, hidden states, scores and log-odds of max-marginals."""
        log_weight, inputs = self._joint(rows, hidden)
        index = log_weight.argmax(axis=1)
        each = np.arange(len(index))
        log_max = self._reduced(log_weight, np.max)
        parts = [_best_against_rest(log_max[:, own]) for own in self.own]
        at = inputs[each, index]
        if hidden == "max":
            gain = self._gain_of_held(rows, inputs, np.maximum(inputs, 0))
            rest = log_weight[:, :, None] - gain
            odds = (rest + inputs).max(axis=1) - rest.max(axis=1)
        else:
            odds = at
        log_odds = np.hstack([np.empty((len(each), 0)), *parts, odds])
        return self.codes[index], at > 0, log_weight[each, index], log_odds

    def choices(self, rows):
        """Return the log-weights (n, M) of the vectors with the best states of the hidden units.

        The second result is a function that returns the log-weights (H, 2) of the states of the
        hidden units, given the number of a row and of a vector.
        """
        log_weight, inputs = self._joint(rows, "max")
        off = np.where(self.held[rows] == 1, -np.inf, 0.0)
        can_be_on = self.held[rows] != 0

        def scores_of(r, number):
            on = np.where(can_be_on[r], inputs[r, number], -np.inf)
            return np.stack([off[r], on], axis=1)

        return log_weight, scores_of

    def joined(self, number, states):
        """Return codes and hidden states, given numbers of vectors and the hidden states."""
        return self.codes[number], states

    def draw(self, rows, n_samples, key):
        """Draw codes (n, n_samples, L) and hidden states (n, n_samples, H)."""
        index = np.arange(rows.start, rows.stop)
        log_weight, inputs = self._joint(rows, "marginal")
        number = _drawn(log_weight, uniforms(key, index, 0, n_samples))
        n_hidden = inputs.shape[2]
        u = uniforms(key, index, 1, n_samples * n_hidden).reshape(-1, n_samples, n_hidden)
        given = np.take_along_axis(inputs, number[:, :, None], 1)
        return self.codes[number], u < expit(given)


def _groups_of_outputs(reach, n_classes):
    """Divide the outputs into G groups; return the first output of each group as an array (G + 1,).

    The last entry is the number of outputs. The weight of output i given the hidden units lies
    between ``exp(-reach[i])`` and its number of classes. A group is a range of outputs whose
    product of weights stays in the range of floats. The logarithm of the product takes less time
    than the logarithms of the weights.
    """
    first, low, high = [], 0.0, 0.0
    for i, (loss, count) in enumerate(zip(reach, np.log(n_classes).tolist())):
        low, high = low + loss, high + count
        if not first or max(low, high) > 2 * _MAX_RANGE:
            first.append(i)
            low, high = loss, count
    return np.array([*first, len(reach)], np.int64)


def _log_sum(values, axis):
    """Return the logarithm of the sum of exp(values) along an axis; the sum may be 0."""
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis)


def _best_against_rest(values):
    """Subtract from each entry of `values` (n, K) the largest other entry of the same row."""
    padded = np.pad(values, ((0, 0), (1, 0)), constant_values=-np.inf)
    two = np.partition(padded, -2, axis=1)
    best = np.arange(values.shape[1]) == values.argmax(axis=1)[:, None]
    others = np.where(best, two[:, -2:-1], two[:, -1:])
    possible = values > -np.inf
    return np.subtract(values, others, out=np.full(values.shape, -np.inf), where=possible)


def _columns(parts, *shape):
    """Stack arrays of the same shape along a new last axis. The list may be empty."""
    return np.stack(parts, axis=-1) if parts else np.empty((*shape, 0), np.int64)


def _drawn(log_weight, u):
    """Draw indices from weights (..., K) by uniform numbers u (..., n_draws)."""
    mass = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    if log_weight.ndim == 2 and mass.shape[1] > _FEW:
        rows = [np.searchsorted(m, v * m[-1], side="right") for m, v in zip(mass, u)]
        found = np.stack(rows) if rows else np.empty(u.shape, int)
    else:
        found = (u[..., None] * mass[..., None, -1:] >= mass[..., None, :]).sum(axis=-1)
    last = mass.shape[-1] - 1 - (log_weight[..., ::-1] > -np.inf).argmax(axis=-1)
    return np.minimum(found, last[..., None])


def _fill_sums(model, query, fields):
    """Write log-odds, statistics and log Z to `fields`."""
    energy, place = model.energy, model.units.place
    n_states = model.units.n_states
    columns = np.concatenate([place, n_states + np.arange(energy.n_hidden)])
    log_odds = np.empty((energy.n_models, energy.n_variables))
    total = np.zeros((len(place), energy.n_hidden))
    log_z = np.empty(energy.n_models)
    chunks = model.chunks(model.n_columns)

    if query.returns == {"log_partition"}:
        parts = ordered_map(model.log_partition, chunks, query.n_jobs)
        for rows, partition in zip(chunks, parts):
            fields["log_partition"][rows] = partition + model.offset[rows]
        return

    def run(rows):
        weight = None if query.per_example else query.sample_weight[rows]
        return model.sums(rows, weight)

    answers = ordered_map(run, chunks, query.n_jobs)
    for rows, (partition, ratio, statistics) in zip(chunks, answers):
        log_z[rows] = partition + model.offset[rows]
        log_odds[rows] = ratio[:, columns]
        if "statistics" not in query.returns:
            continue
        if query.per_example:
            fields["statistics"][0][rows] = statistics[:, place]
        else:
            total += statistics[place]
    if "log_partition" in query.returns:
        fields["log_partition"][:] = log_z
    if "statistics" in query.returns and not query.per_example:
        fields["statistics"][0][:] = total
    if "marginals" in query.returns:
        fields["log_odds"] = log_odds


def _fill_best(model, query, hidden, fields):
    """Write the best states, their scores as bounds, and max-marginals to `fields`."""
    energy, units = model.energy, model.units
    columns = np.concatenate([units.place, units.n_states + np.arange(energy.n_hidden)])
    fields["log_odds"] = np.empty((energy.n_models, energy.n_variables))
    bound = np.empty(energy.n_models)
    chunks = model.chunks(model.n_columns)
    answers = ordered_map(lambda rows: model.best(rows, hidden), chunks, query.n_jobs)
    for rows, (codes, states, score, log_odds) in zip(chunks, answers):
        fields["assignment"][rows] = np.hstack([units.units_of(codes), states])
        fields["log_odds"][rows] = log_odds[:, columns]
        bound[rows] = score + model.offset[rows]
    if "map_bound" in query.returns:
        fields["map_bound"] = bound


def _draw(model, query, key, fields):
    """Write independent samples and their log-probabilities to `fields`."""
    energy, units, n_samples = model.energy, model.units, query.n_samples
    samples = np.empty((energy.n_models, n_samples, energy.n_variables), np.int8)
    width = max(model.n_columns, n_samples * max(1, units.n_states))
    for rows in model.chunks(width):
        codes, hidden = model.draw(rows, n_samples, key)
        held = model.held[rows][:, None]
        hidden = np.where(np.isnan(held), hidden, held)
        samples[rows] = np.concatenate([units.units_of(codes.astype(int)), hidden], axis=2)
    fields["samples"] = samples
    if "sample_log_prob" not in query.returns:
        return
    scores = np.empty((energy.n_models, n_samples))
    for rows in row_chunks(energy.n_models, max(1, CACHED_ENTRIES // n_samples)):
        index = np.repeat(np.arange(rows.start, rows.stop), n_samples)
        part = samples[rows].reshape(len(index), -1)
        scores[rows] = unchecked(energy.rows(index).score)(part).reshape(-1, n_samples)
    for rows in model.chunks(model.n_columns):
        log_z = model.sums(rows, np.zeros(rows.stop - rows.start))[0] + model.offset[rows]
        scores[rows] -= log_z[:, None]
    fields["sample_log_prob"] = scores
