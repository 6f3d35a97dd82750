"""Conditional distributions of single variables of a factor graph, given all other variables.

The argument `energy` of the functions is a `FactorGraphEnergy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies._factor_graph_structure import BlockEdges, LogicGroup, codes_of
from skcrbm.energies.base import Block
from skcrbm.utils.limits import FORBIDDEN_LOG_ODDS


def state_log_weights(energy: Any, states: np.ndarray, block: Block) -> np.ndarray:
    """Return the log-weight of each state of a block's variables, given all other variables.

    `states` (N, C, n) holds C states of each model, and `block` is one of `sampling_blocks`.
    The result (N, C, size of the block, K) is float64. Entries are -inf for states that
    contradict the evidence.
    """
    n, n_chains, width = states.shape
    flat = np.asarray(states).reshape(n * n_chains, width).astype(np.int64)
    variables = np.arange(width)[block]
    fields = energy.log_fields()
    levels = np.arange(fields.shape[2])
    total = np.repeat(fields[:, variables], n_chains, axis=0)
    edges = energy.graph.edges_of(variables)
    for group, part in zip(energy.tables, edges, strict=False):
        if not len(part.edge):
            continue
        place = np.repeat(part.where, np.diff(np.append(part.first, len(part.edge))))
        own = variables[place]
        code = codes_of(flat, part.scopes, group.shape) - flat[:, own] * part.bit
        inside = levels < energy.n_states[own][:, None]
        entry = np.where(inside, part.bit[:, None] * levels, 0)
        logs = group.log_potentials[part.factor[:, None], code[..., None] + entry]
        logs = np.where(inside, logs, 0).astype(np.float64)
        total[:, part.where] += np.add.reduceat(logs, part.first, axis=1)
    if len(energy.ors.outputs) + len(energy.ands.outputs):
        position = {int(v): j for j, v in enumerate(variables)}
        for scope, table in energy.logic_tables():
            for axis, v in enumerate(scope.tolist()):
                if v in position:
                    index: list[Any] = list(flat[:, scope].T)
                    for value in (0, 1):
                        index[axis] = np.full(len(flat), value)
                        total[:, position[v], value] += table[tuple(index)]
    return total.reshape(n, n_chains, len(variables), len(levels))


def binary_log_odds(
    energy: Any, all_finite: list[bool], states: np.ndarray, block: Block
) -> np.ndarray:
    """Return the log-odds (N, C, size of the block) of a block of 0/1 variables.

    `all_finite` tells for each group of `energy.tables` whether all entries are finite. The
    evidence is ignored. If both values have weight 0, the value that fewer factors forbid gets more
    probability. An OR or AND factor may have any number of inputs.
    """
    n, n_chains, width = states.shape
    bits = np.asarray(states).reshape(n * n_chains, width).astype(bool)
    variables = np.arange(width)[block]
    edges = energy.graph.edges_of(variables)
    # total[0] and total[1] are the sums of the finite log-potentials if a variable is off, and
    # if it is on. total[2] and total[3] count the factors of weight 0 in these two cases.
    total = np.zeros((4, len(bits), len(variables)))
    for group, finite, part in zip(energy.tables, all_finite, edges, strict=False):
        code = codes_of(bits, part.scopes, group.shape) & ~part.bit
        if finite:
            score = group.log_potentials[part.factor, code | part.bit]
            score = score - group.log_potentials[part.factor, code]
            _add_edges(total[1], score, part)
            continue
        for value in (0, 1):
            score = group.log_potentials[part.factor, code | part.bit * value]
            score = score.astype(np.float64)
            zero = score == -np.inf
            if zero.any():
                score[zero] = 0
                _add_edges(total[2 + value], zero, part)
            _add_edges(total[value], score, part)
    for group, negated, part in (
        (energy.ors, False, edges[-2]),
        (energy.ands, True, edges[-1]),
    ):
        if len(part.edge):
            # An AND is an OR after negating all variables.
            zeros = _or_zeros(group, bits != negated, part.edge)
            for value in (0, 1):
                _add_edges(total[2 + value], zeros[value != negated], part)
    off, on, zeros_off, zeros_on = total
    log_odds = np.repeat(energy.field[:, variables].astype(np.float64), n_chains, axis=0)
    log_odds += on - off
    if all(all_finite) and not len(edges[-2].edge) and not len(edges[-1].edge):
        return log_odds.reshape(n, n_chains, len(variables))
    neither = (zeros_off > 0) & (zeros_on > 0)
    log_odds += np.where(neither, FORBIDDEN_LOG_ODDS * (zeros_off - zeros_on), 0.0)
    log_odds[(zeros_on > 0) & ~neither] = -np.inf
    log_odds[(zeros_off > 0) & ~neither] = np.inf
    return log_odds.reshape(n, n_chains, len(variables))


def _add_edges(total: np.ndarray, values: np.ndarray, block: BlockEdges) -> None:
    """Add the value of each edge to the total of its variable, in place.

    `values` (K, M) holds a value for each of M edges of `block` in each of K states, and `total`
    (K, B) a number for each of B variables of the block.
    """
    if len(block.first):
        total[:, block.where] += np.add.reduceat(values.astype(np.float64), block.first, axis=1)


def _or_zeros(
    group: LogicGroup, bits: np.ndarray, edge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return masks (K, M) of the edges whose OR factor has weight 0.

    `edge` (M,) holds indices of edges as in `BlockEdges`, each between a variable and a factor. The
    first mask assumes that the variable of the edge is off, and the second mask that it is on. The
    other variables have the states `bits` (K, n).
    """
    is_input = edge < len(group.inputs)
    n_inputs = len(group.inputs)
    of_input = np.repeat(np.arange(len(group.outputs)), np.diff(group.start))
    factor = np.where(is_input, np.append(of_input, 0)[np.minimum(edge, n_inputs)], edge - n_inputs)
    count = np.add.reduceat(bits[:, group.inputs].astype(np.int64), group.start[:-1], axis=1)
    count = count[:, factor]
    own = bits[:, group.inputs[np.minimum(edge, n_inputs - 1)]]
    others = (count - (own & is_input)) > 0  # some other input is on
    output = bits[:, group.outputs[factor]]
    return (
        np.where(is_input, output != others, others),
        np.where(is_input, ~output, ~others),
    )
