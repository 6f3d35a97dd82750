"""Detect models in which all states have weight 0, and values that log Z cannot have."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks


def contradicted_models(energy: Any) -> np.ndarray:
    """Return a mask (N,): True for models whose evidence contradicts the factors.

    `energy` is a factor graph with N models. A model is called impossible if its evidence
    contradicts the factors, so that all states have weight 0.

    The factors are visited repeatedly, until no more states are excluded. A factor excludes a state
    of a variable if the factor has weight 0 for this state and all remaining states of the other
    variables. The mask is True for models in which all states of some variable are excluded. On
    graphs without loops, the mask shows all impossible models. On graphs with loops, it may miss
    some impossible models.
    """
    found = np.zeros(energy.n_models, bool)
    size = max(1, energy.n_entries + len(energy.ors.inputs) + len(energy.ands.inputs))
    for rows in row_chunks(energy.n_models, max(1, BLOCK_ENTRIES // size)):
        part = energy.rows(rows)
        possible = _possible_at_first(part)
        n_left = -1
        while n_left != (n_left := int(possible.sum())):
            for group in part.tables:
                _propagate_tables(group, possible)
            _propagate_ors(part.ors, possible[..., :2])
            _propagate_ors(part.ands, possible[..., 1::-1])
        found[rows] = np.logical_not(possible.any(axis=2)).any(axis=1)
    return found


def log_partition_range(energy: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a lower and an upper bound of log Z for each model of a factor graph.

    The upper bound replaces each factor by its largest log-weight. The lower bound is the sum of
    the smallest finite log-weights, because at least one state has a positive weight.
    Both bounds hold whatever the evidence is. For example, a single 0/1 variable without a field,
    and a table with the log-weights [-inf, 2], have the range (2, 2 + log 2).

    Returns
    -------
    low, high : ndarray (N,) float64
        The bounds mean nothing for models in which all states have weight 0.
    """
    here = np.arange(max(2, energy.state_counts.max(initial=2))) < energy.state_counts[:, None]
    fields = np.where(here, energy.log_fields().astype(np.float64), -np.inf)
    low, high = energy.offset.astype(np.float64), energy.offset.astype(np.float64)
    low = low + _least(fields).sum(axis=1)
    high = high + np.logaddexp.reduce(fields, axis=2).sum(axis=1)
    for group in energy.tables:
        logs = group.log_potentials.astype(np.float64)
        low, high = low + _least(logs).sum(), high + logs.max(axis=1).sum()
    return low, high


def _least(logs):
    """Return the smallest finite number on the last axis, or 0 if there is no finite number."""
    least = logs.min(axis=-1, where=logs > -np.inf, initial=np.inf)
    return np.where(least == np.inf, 0.0, least)


def _possible_at_first(energy):
    """Return a mask (N, n, K) of the states that exist and agree with the evidence."""
    counts = energy.state_counts
    levels = np.arange(max(2, counts.max(initial=2)))
    possible = np.broadcast_to(
        levels < counts[:, None], (energy.n_models, energy.n_variables, len(levels))
    )
    held = energy.evidence
    if held is None:
        return possible.copy()
    # Free variables are NaN. A comparison with NaN is False, so all their states remain possible.
    return possible & ~(np.abs(held[..., None] - levels) > 0)


def _propagate_tables(group, possible):
    """Exclude the states that tables forbid, by changing the mask `possible` in place."""
    positive = group.log_potentials > -np.inf
    hard = np.flatnonzero(~positive.all(axis=1))
    if not len(hard):
        return
    scopes, m = group.variables[hard], len(group.shape)
    allowed = positive[hard].reshape(len(hard), *group.shape)[None]
    for j, k in enumerate(group.shape):
        here = possible[:, scopes[:, j], :k]
        allowed = allowed & here.reshape(*here.shape[:2], *(1,) * j, k, *(1,) * (m - 1 - j))
    by_variable = possible.swapaxes(0, 1)
    for j, k in enumerate(group.shape):
        others = tuple(2 + i for i in range(m) if i != j)
        left = np.ones((len(hard), len(possible), possible.shape[2]), bool)
        left[..., :k] = allowed.any(axis=others).swapaxes(0, 1)
        np.logical_and.at(by_variable, scopes[:, j], left)


def _propagate_ors(group, possible):
    """Exclude the states that OR factors forbid; the mask `possible` is changed in place.

    `possible` (N, n, 2) has an entry for each state of n variables in N models. For AND factors,
    pass `possible` with both states swapped, because an AND is an OR of negated variables.
    """
    if not len(group.outputs):
        return
    factor = np.repeat(np.arange(len(group.outputs)), np.diff(group.start))
    off, on = possible[..., 0].T, possible[..., 1].T  # views (n, N)
    n_on = np.add.reduceat(on[group.inputs].astype(np.int64), group.start[:-1], axis=0)
    all_off = np.logical_and.reduceat(off[group.inputs], group.start[:-1], axis=0)
    output_off, output_on = off[group.outputs], on[group.outputs]
    others_on = n_on[factor] > on[group.inputs]
    stays_off = (output_off & all_off)[factor] | (output_on[factor] & others_on)
    np.logical_and.at(off, group.inputs, stays_off)
    np.logical_and.at(on, group.inputs, output_on[factor])
    np.logical_and.at(on, group.outputs, n_on > 0)
    np.logical_and.at(off, group.outputs, all_off)
