"""Best states of small RBMs: one side is enumerated, the other side maximised or summed out.

The enumerated side has k units, and the other side m units. The first l enumerated units are called
low units, and all other enumerated units high units. A tile holds the S = 2^l states of the low
units for one state of the high units, which only shifts the fields of the other side. All rows
share the array ``log_gain[i, s]``, the sum of the couplings of unit i to the low units that are on
in state s.

Scores are logs. If a clamped unit of the enumerated side is on in a state, the score of the state
is -inf. Clamped units of the other side are skipped.
"""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import (
    MAX,
    fill,
    low_fields,
    n_low_units,
    possible_fields,
    shifted_fields,
    softplus,
)


@jit
def _tile_scores(kind, offset, enumerated, field, free, log_gain, score):
    """Write the scores of the states of one tile to `score` (S,)."""
    low_fields(offset, enumerated, score)
    for i in range(field.shape[0]):
        if not free[i]:
            continue
        if kind == MAX:
            for s in range(score.shape[0]):
                score[s] += max(field[i] + log_gain[i, s], 0.0)
        else:
            for s in range(score.shape[0]):
                score[s] += softplus(field[i] + log_gain[i, s])


@jit
def best_states(
    kind, enumerated, other, free, coupling, log_gain,
    state, log_odds,
):  # fmt: skip
    """Find the best state of each of N rows. Among ties, take the first in binary order.

    Parameters
    ----------
    kind : MAX to maximise over the other side, MIXED to sum it out
    enumerated, other : (N, k) and (N, m) float64 fields
    free : (N, k + m) bool, enumerated units first; False for clamped units, which are left out
    coupling : (k, m) float64, couplings of k enumerated and m other units
    log_gain : (m, S) float64, see the module docstring
    state : (N, k) int8 output
    log_odds : (N, k + m) output, enumerated units first
        Best score with the unit on minus best score with the unit off, 0 if clamped. With MIXED,
        only the first k columns are set.
    """
    n_rows, k = enumerated.shape
    m = other.shape[1]
    n_states = log_gain.shape[1]
    n_low = n_low_units(n_states)
    possible = np.empty(k)
    field = np.empty(m)
    score = np.empty(n_states)
    on = np.empty(k + m)
    off = np.empty(k + m)
    for n in range(n_rows):
        best = -np.inf
        best_state = 0
        fill(on, -np.inf)
        fill(off, -np.inf)
        held_high = possible_fields(enumerated[n], free[n], n_low, possible)
        for tile in range(1 << (k - n_low)):
            if tile & held_high:
                continue
            offset = shifted_fields(tile, n_low, coupling, possible, other[n], field)
            _tile_scores(kind, offset, possible, field, free[n, k:], log_gain, score)
            for s in range(n_states):
                if score[s] > best:
                    best = score[s]
                    best_state = (tile << n_low) + s
            for s in range(n_states):
                for h in range(k):
                    if (((tile << n_low) + s) >> h) & 1:
                        on[h] = max(on[h], score[s])
                    else:
                        off[h] = max(off[h], score[s])
            if kind == MAX:
                for i in range(m):
                    if not free[n, k + i]:
                        continue
                    for s in range(n_states):
                        x = field[i] + log_gain[i, s]
                        rest = score[s] - max(x, 0.0)
                        on[k + i] = max(on[k + i], rest + x)
                        off[k + i] = max(off[k + i], rest)
        for h in range(k):
            state[n, h] = (best_state >> h) & 1
        for r in range(k + m if kind == MAX else k):
            log_odds[n, r] = on[r] - off[r] if free[n, r] else 0.0
