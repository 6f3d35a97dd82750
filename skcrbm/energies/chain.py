"""Log-weights of the label sequences of linear chains.

A label sequence y_1, ..., y_n has a class at each position. Its log-weight is a sum of three kinds
of terms: a score for the class at each position, a weight for each pair of neighbouring classes,
and weights for the first and the last class. Chains of different lengths are concatenated, without
padding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ChainEnergies(NamedTuple):
    """Parameters of several chains, as the kernels need them.

    The chains have T positions in total and K states. A value of -inf forbids a state or a pair of
    states.
    """

    start: np.ndarray  # (n + 1,) int64: chain c has the positions start[c] to start[c + 1] - 1
    scores: np.ndarray  # (T, K): score of each state at each position
    # Weights of pairs of states. A single matrix (1, K, K) belongs to all pairs of neighbouring
    # positions. With the shape (T, K, K), entry t belongs to the positions t - 1 and t.
    pairs: np.ndarray
    first: np.ndarray  # (K,): weights of states at the first position
    last: np.ndarray  # (K,): weights of states at the last position

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.start) - 1

    def chain(self, c: int) -> ChainEnergies:
        """Return the parameters of chain c only."""
        part = slice(self.start[c], self.start[c + 1])
        pairs = self.pairs[part] if len(self.pairs) > 1 else self.pairs
        start = np.array([0, part.stop - part.start])
        return ChainEnergies(start, self.scores[part], pairs, self.first, self.last)


class SecondOrderEnergies(NamedTuple):
    """Parameters of several chains in which three neighbouring classes have a weight.

    A state is a pair (a, b), coded as ``a * K + b``: the class a of the previous position, and the
    class b of the position itself. The first position of a chain has no previous class, so its a is
    0.
    """

    start: np.ndarray  # (n + 1,) int64, as in `ChainEnergies`
    scores: np.ndarray  # (T, K * K): score of each state at each position
    triples: np.ndarray  # (K, K, K): weights of three neighbouring classes
    first: np.ndarray  # (K * K,): weights of states at the first position
    last: np.ndarray  # (K * K,): weights of states at the last position

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.start) - 1

    def chain(self, c: int) -> SecondOrderEnergies:
        """Return the parameters of chain c only."""
        part = slice(self.start[c], self.start[c + 1])
        start = np.array([0, part.stop - part.start])
        return self._replace(start=start, scores=self.scores[part])

    def as_pairs(self) -> ChainEnergies:
        """Convert the chains to first-order chains with K * K states and K^4 weights of pairs."""
        k = len(self.triples)
        pairs = np.full((k, k, k, k), -np.inf)
        every = np.arange(k)
        pairs[:, every, every] = self.triples  # (a, b) is followed by (b, c)
        return ChainEnergies(
            self.start, self.scores, pairs.reshape(1, k * k, k * k), self.first, self.last
        )


def state_path(start: np.ndarray, path: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the state (pair of classes) at each position of second-order chains, (T,).

    `path` (T,) holds the class at each position of all chains, and `start` the beginnings of the
    chains.
    """
    before = np.concatenate([[0], path[:-1]])
    before[start[:-1]] = 0
    return before * n_classes + path
