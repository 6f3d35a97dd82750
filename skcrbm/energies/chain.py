"""Log-weights of the label sequences of linear chains.

A chain has a class at each position. The log-weight of a label sequence y_1, ..., y_n is a sum of a
score for each position and class, a weight for each pair of neighbouring classes, and weights of
the first and the last class. Chains of different lengths are stored one after the other, without
padding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ChainEnergies(NamedTuple):
    """Log-weights of the paths of several chains, as the kernels take them; -inf forbids."""

    start: np.ndarray  # (n + 1,) int64: chain c has the positions start[c] to start[c + 1] - 1
    scores: np.ndarray  # (T, K) for each state of each position
    pairs: np.ndarray  # (1, K, K) for all neighbours, or (T, K, K) for the positions t - 1 and t
    first: np.ndarray  # (K,) for states of first positions
    last: np.ndarray  # (K,) for states of last positions

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.start) - 1

    def chain(self, c: int) -> ChainEnergies:
        """Return chain number c alone."""
        part = slice(self.start[c], self.start[c + 1])
        pairs = self.pairs[part] if len(self.pairs) > 1 else self.pairs
        start = np.array([0, part.stop - part.start])
        return ChainEnergies(start, self.scores[part], pairs, self.first, self.last)
