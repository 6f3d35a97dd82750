"""Define batches of sequences, and the likelihood and pseudo-likelihood that train chains."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from skcrbm.energies.chain import SecondOrderEnergies, state_path
from skcrbm.inference.chains import ImpossiblePathError, chain_marginals, path_log_weights
from skcrbm.kernels.chains import pseudo_likelihood
from skcrbm.learning.chain_model import ChainModel
from skcrbm.learning.structured import Residuals, StructuredObjective
from skcrbm.utils.limits import CHAIN_ENTRIES
from skcrbm.utils.parallel import ordered_map

MISSING = -1  # class of a position whose label is not observed


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Batch of n sequences, whose T positions are stored one after the other."""

    X: Any  # ndarray or CSR matrix (T, D), features of all positions
    start: np.ndarray  # (n + 1,): sequence c has the positions start[c] to start[c + 1] - 1
    path: np.ndarray  # (T,) class of each position, 0 to K - 1, or `MISSING` if not observed
    weight: np.ndarray  # (n,) weights of the sequences
    index: np.ndarray  # (n,) position of each sequence in the training data
    _pieces: dict = field(default_factory=dict, repr=False)  # cache of the results of `pieces`

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.weight)

    def part(self, first: int, stop: int) -> SequenceBatch:
        """Return the sequences `first` to ``stop - 1`` as a batch, which shares the memory of X."""
        a, b = self.start[first], self.start[stop]
        start, part = self.start[first : stop + 1] - a, slice(first, stop)
        X, path = rows_without_copy(self.X, a, b), self.path[a:b]
        return SequenceBatch(X, start, path, self.weight[part], self.index[part])

    def blocks(self) -> list[SequenceBatch]:
        """Return a list of the whole batch, because the objectives split a batch themselves."""
        return [self]

    def computed(self) -> SequenceBatch:
        """Return the batch unchanged, because its X is stored and needs no computation."""
        return self

    def take(self, numbers: np.ndarray) -> SequenceBatch:
        """Return the sequences with the indices `numbers`, in the order of `numbers`."""
        lengths = np.diff(self.start)[numbers]
        start = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(start[-1]) + np.repeat(self.start[numbers] - start[:-1], lengths)
        X, path = self.X[rows], self.path[rows]
        return SequenceBatch(X, start, path, self.weight[numbers], self.index[numbers])

    def pieces(self, n_entries: int) -> list[SequenceBatch]:
        """Split the batch into parts of a few sequences, to bound the memory.

        `n_entries` is the number of entries that the largest array has per position. The parts do
        not depend on the number of threads.
        """
        if n_entries not in self._pieces:
            part_of = self.start[:-1] // max(1, CHAIN_ENTRIES // n_entries)
            cuts = [0, *(np.flatnonzero(np.diff(part_of)) + 1).tolist(), len(self)]
            self._pieces[n_entries] = [self.part(a, b) for a, b in pairwise(cuts)]
        return self._pieces[n_entries]


def rows_without_copy(X: Any, first: int, stop: int) -> Any:
    """Return the rows `first` to ``stop - 1`` of an array or CSR matrix without a copy of the data.

    Slices of a CSR matrix would copy the data, and the parts of a batch would double its memory.
    """
    if not issparse(X):
        return X[first:stop]
    a, b = X.indptr[first], X.indptr[stop]
    part = csr_matrix((stop - first, X.shape[1]), dtype=X.dtype)
    # The constructor of `csr_matrix` would copy an array that is a view of a much larger array.
    part.data, part.indices = X.data[a:b], X.indices[a:b]
    part.indptr = X.indptr[first : stop + 1] - a
    return part


class ChainLikelihood(StructuredObjective):
    """Negative log-likelihood of the observed labels; missing labels are summed out."""

    def _residuals(self, model, piece):
        energies = model.energies(piece.X, piece.start)
        found = chain_marginals(energies, piece.weight)
        states, pairs = found.states, found.pairs
        if (piece.path == MISSING).any():
            observed = chain_marginals(clamped(energies, piece.path), piece.weight)
            states -= observed.states
            pairs -= observed.pairs
            losses = found.log_z - observed.log_z
        else:
            losses = found.log_z - path_log_weights(energies, piece.path)
            add_path(piece.start, piece.path, -piece.weight, states, pairs)
        return Residuals(float(losses @ piece.weight), states, pairs)

    def score(self, model, batch: Any, epoch):
        """Return the mean log-likelihood of held-out sequences."""
        return log_likelihoods(model, batch, self.n_jobs) @ batch.weight / batch.weight.sum()


class ChainPseudoLikelihood(StructuredObjective):
    """Negative sum over positions of log p(label | x, labels of the neighbouring positions)."""

    needs_complete = True

    def _residuals(self, model, piece):
        energies = model.energies(piece.X, piece.start)
        states = np.empty(energies.scores.shape)
        pairs = np.zeros(energies.pairs.shape)
        losses = np.empty(len(piece))
        pseudo_likelihood(*energies, piece.path, piece.weight, states, pairs, losses)
        return Residuals(float(losses @ piece.weight), states, pairs)


def clamped(energies, path):
    """Clamp the classes of chains to `path` (T,); positions with `MISSING` stay free."""
    if isinstance(energies, SecondOrderEnergies):
        k = len(energies.triples)
        free = (path[:, None] == MISSING) | (path[:, None] == np.arange(k))  # (T, K)
        before = np.roll(free, 1, axis=0)
        before[energies.start[:-1]] = True
        possible = before[:, :, None] & free[:, None, :]
        return energies._replace(
            scores=np.where(possible.reshape(energies.scores.shape), energies.scores, -np.inf)
        )
    scores = energies.scores.copy()
    held = np.flatnonzero(path != MISSING)
    values = scores[held, path[held]]
    scores[held] = -np.inf
    scores[held, path[held]] = values
    return energies._replace(scores=scores)


def add_path(
    start: np.ndarray, path: np.ndarray, factor: np.ndarray, states: np.ndarray, pairs: np.ndarray
) -> None:
    """Count the states and pairs in the paths of chains; add the counts to `states` and `pairs`.

    `path` (T,) contains the classes of all chains. The counts of each chain are multiplied by its
    entry of `factor` (n,). In second-order chains, `states` is (T, K * K), and `pairs` (K, K, K)
    gets the counts of three neighbouring classes.
    """
    weight = np.repeat(factor, np.diff(start))
    k = pairs.shape[1]
    if states.shape[1] != k:
        path = state_path(start, path, k)
    states[np.arange(len(path)), path] += weight
    inner = np.ones(len(path), bool)
    inner[start[:-1]] = False
    later = np.flatnonzero(inner)
    if states.shape[1] != k:
        before = path[later - 1]
        np.add.at(pairs, (before // k, before % k, path[later] % k), weight[later])
        return
    table = np.zeros(len(later), int) if len(pairs) == 1 else later
    np.add.at(pairs, (table, path[later - 1], path[later]), weight[later])


def log_likelihoods(model: ChainModel, batch: SequenceBatch, n_jobs: int | None) -> np.ndarray:
    """Return the log-likelihood (n,) of the observed labels of each sequence."""

    def part(piece):
        energies = model.energies(piece.X, piece.start)
        ones = np.ones(len(piece))
        log_z = chain_marginals(energies, ones).log_z
        if (piece.path == MISSING).any():
            try:
                return chain_marginals(clamped(energies, piece.path), ones).log_z - log_z
            except ImpossiblePathError:
                single = [piece.part(c, c + 1) for c in range(len(piece))]
                return np.concatenate([_one(model, p, z) for p, z in zip(single, log_z)])
        return path_log_weights(energies, piece.path) - log_z

    return np.concatenate(list(ordered_map(part, batch.pieces(model.n_entries), n_jobs)))


def _one(model, piece, log_z):
    energies = clamped(model.energies(piece.X, piece.start), piece.path)
    try:
        return chain_marginals(energies, np.ones(1)).log_z - log_z
    except ImpossiblePathError:
        return np.array([-np.inf])
