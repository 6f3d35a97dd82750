"""Exact inference on RBMs whose visible layer is one categorical variable: enumerate classes."""

import numpy as np
from scipy.special import log_expit

from skcrbm.energies import OneHotRBMEnergy
from skcrbm.energies.states import unchecked
from skcrbm.inference.base import empty_result
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.utils.limits import LARGE_FIELD
from skcrbm.utils.parallel import one_blas_thread


def solve(method, energy, query):
    """Answer any query from the log-weights of the classes, with the hidden units summed out."""
    energy, offset = _without_common_scores(energy)
    fields = empty_result(energy, query)
    n = energy.n_models
    hidden = "max" if "map" in query.returns else "marginal"
    with one_blas_thread():
        if query.returns & {"map", "marginal_map"}:
            fields["log_odds"] = np.empty((n, energy.n_variables), energy.dtype)
            _fill_best(energy, hidden, fields)
            if "map_bound" in query.returns:
                fields["map_bound"] = energy.class_log_weights(hidden).max(axis=1)
                fields["gap"] = np.zeros(n)
        if query.returns & {"marginals", "statistics", "log_partition"}:
            _fill_sums(energy, query, fields)
        if "samples" in query.returns:
            log_weight = energy.class_log_weights()
            fields["samples"] = _draw(energy, log_weight, query, random_key(method.random_state))
        if "sample_log_prob" in query.returns:
            fields["sample_log_prob"] = _log_probability(energy, fields["samples"])
    for name in {"log_partition", "map_bound"} & set(fields):
        fields[name] += offset
    if "log_odds" in fields:
        fields["log_odds"] = fields["log_odds"].astype(energy.dtype, copy=False)
    return fields


def _without_common_scores(energy):
    """Subtract from the scores the terms that all states share.

    These terms are the biases of clamped hidden units, and the largest bias of the classes if it is
    large, because rounding in sums with large terms would hide the differences between classes.
    Return the new energy and the sum (N,) of the terms, in float64.
    """
    visible_bias, hidden_bias = energy.fields
    offset = np.zeros(energy.n_models)
    possible = np.ones(visible_bias.shape, bool)
    if energy.evidence is not None:
        held = energy.evidence[:, energy.n_visible :]
        classes = energy.evidence[:, : energy.n_visible]
        possible = np.where((classes == 1).any(axis=1, keepdims=True), classes == 1, classes != 0)
        offset += (np.nan_to_num(held) * hidden_bias).sum(axis=1)
        hidden_bias = np.where(np.isnan(held), hidden_bias, 0)
    top = visible_bias.max(axis=1, where=possible, initial=-np.inf)
    top = np.where(np.abs(top) >= LARGE_FIELD, top, 0)
    if energy.evidence is None and not top.any():
        return energy, offset
    return energy.with_fields(visible_bias - top[:, None], hidden_bias), offset + top


def _log_probability(energy, samples):
    """Return the log-probabilities (N, n_samples) of states in float64."""
    n, n_samples, width = samples.shape
    wide = OneHotRBMEnergy(*(a.astype(np.float64) for a in (energy.weights, *energy.fields)))
    if energy.evidence is not None:
        wide = wide.condition(energy.evidence)
    log_z = np.logaddexp.reduce(wide.class_log_weights(), axis=1)
    score = wide.rows(np.repeat(np.arange(n), n_samples)).score(samples.reshape(-1, width))
    return score.reshape(n, n_samples) - log_z[:, None]


def _inputs(energy, rows):
    """Return the inputs (n, K, H) to H hidden units given each of K classes, and the evidence.

    There are n rows. The evidence (n, 1, H) is NaN for free hidden units.
    """
    inputs = energy.weights.astype(np.float64) + energy.hidden_bias[rows, None, :]
    if energy.evidence is None:
        return inputs, np.full((len(inputs), 1, energy.n_hidden), np.nan)
    return inputs, energy.evidence[rows, None, energy.n_visible :]


def _log(condition):
    """Return 0 where `condition` is True, and -inf where it is False."""
    return np.where(condition, 0.0, -np.inf)


def _fill_best(energy, hidden, fields):
    """Write the best states and the max-marginals to `fields`.

    The hidden units are maximised if `hidden` is "max", and summed out if it is "marginal".
    """
    n_classes = energy.n_visible
    scores = energy.class_log_weights(hidden)
    best = scores.argmax(axis=1)
    fields["assignment"][:, :n_classes] = np.eye(n_classes)[best]
    two = np.partition(np.pad(scores, ((0, 0), (1, 0)), constant_values=-np.inf), -2, axis=1)
    others = np.where(np.arange(n_classes) == best[:, None], two[:, -2:-1], two[:, -1:])
    possible = scores > -np.inf
    fields["log_odds"][:, :n_classes] = np.subtract(
        scores, others, out=np.full(scores.shape, -np.inf), where=possible
    )
    for rows in energy.row_blocks(energy.weights.size):
        inputs, held = _inputs(energy, rows)
        mode = np.take_along_axis(inputs, best[rows, None, None], 1)[:, 0]
        fields["assignment"][rows, n_classes:] = mode > 0
        if hidden == "max":
            gain = np.where(np.isnan(held), np.maximum(0, inputs), np.nan_to_num(held) * inputs)
            off = scores[rows, :, None] - gain
            mode = (off + inputs).max(1) - off.max(1)
        fields["log_odds"][rows, n_classes:] = mode


def _fill_sums(energy, query, fields):
    """Write log-odds, statistics and log Z to `fields`, as far as the query requests them."""
    log_weight = energy.class_log_weights()
    n_classes = energy.n_visible
    log_partition = np.logaddexp.reduce(log_weight, axis=1)
    if "log_partition" in query.returns:
        fields["log_partition"][:] = log_partition
    if not query.returns & {"marginals", "statistics"}:
        return
    log_odds = np.empty((energy.n_models, energy.n_variables))
    log_odds[:, :n_classes] = energy.class_log_odds(log_weight)
    log_prob = (log_weight - log_partition[:, None])[:, :, None]
    total = np.zeros(energy.weights.shape)
    for rows in energy.row_blocks(energy.weights.size):
        inputs, held = _inputs(energy, rows)
        on = log_prob[rows] + np.where(np.isnan(held), log_expit(inputs), _log(held == 1))
        off = log_prob[rows] + np.where(np.isnan(held), log_expit(-inputs), _log(held == 0))
        off = np.logaddexp.reduce(off, axis=1)
        log_odds[rows, n_classes:] = np.logaddexp.reduce(on, axis=1) - off
        if "statistics" in query.returns and query.per_example:
            fields["statistics"][0][rows] = np.exp(on)
        elif "statistics" in query.returns:
            total += np.tensordot(query.sample_weight[rows], np.exp(on), axes=1)
    if "statistics" in query.returns and not query.per_example:
        fields["statistics"][0][:] = total
    if "marginals" in query.returns:
        fields["log_odds"] = log_odds


def _draw(energy, log_weight, query, key):
    """Draw independent samples (N, n_samples, K + H)."""
    n, n_samples = energy.n_models, query.n_samples
    samples = np.empty((n, n_samples, energy.n_variables), np.int8)
    mass = np.exp(log_weight - log_weight.max(axis=1, keepdims=True)).cumsum(axis=1)
    u = uniforms(key, np.arange(n), 0, n_samples)
    index = (u[:, :, None] * mass[:, None, -1:] > mass[:, None, :-1]).sum(axis=2)
    samples[:, :, : energy.n_visible] = np.eye(energy.n_visible, dtype=np.int8)[index]
    block = energy.sampling_blocks[1]
    log_odds = unchecked(energy.conditional_log_odds)(samples, block)
    u = uniforms(key, np.arange(n), 1, n_samples * energy.n_hidden)
    samples[:, :, block] = energy.draw(log_odds, u.reshape(log_odds.shape), block)
    return samples
