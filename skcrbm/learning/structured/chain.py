"""Define batches of sequences, and the likelihood and pseudo-likelihood that train chains."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from skcrbm.energies.chain import SecondOrderEnergies, state_path
from skcrbm.inference.chains import ImpossiblePathError, chain_marginals, path_log_weights
from skcrbm.kernels.chains import pseudo_likelihood
from skcrbm.learning.structured.chain_model import ChainModel
from skcrbm.learning.structured.objective import LogWeightObjective, Residuals
from skcrbm.learning.structured.rows import RaggedBatch, no_labels
from skcrbm.targets.codes import MISSING
from skcrbm.utils.limits import CHAIN_ENTRIES
from skcrbm.utils.parallel import ordered_map
from skcrbm.utils.ragged import SequenceArrays


class SequenceBatch(RaggedBatch):
    """Batch of n sequences; its arrays are `SequenceArrays`, and its items are positions."""

    word: ClassVar[str] = "sequence"

    @classmethod
    def of(cls, arrays: SequenceArrays, path: np.ndarray, weight: np.ndarray) -> SequenceBatch:
        """Return the batch of all sequences of a list."""
        return cls(arrays, path, weight, np.arange(len(weight)))

    def _groups(self, n_entries):
        part = self.start[:-1] // max(1, CHAIN_ENTRIES // n_entries)
        return np.split(np.arange(len(self)), np.flatnonzero(np.diff(part)) + 1)


class ChainLikelihood(LogWeightObjective):
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


class ChainPseudoLikelihood(LogWeightObjective):
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
    """Return the log-likelihood (n,) of the observed labels of each sequence.

    It is -inf if constraints exclude the labels. A NoLabelsError is raised if they exclude all
    labels of a sequence.
    """

    def part(piece):
        energies = model.energies(piece.X, piece.start)
        ones = np.ones(len(piece))
        try:
            log_z = chain_marginals(energies, ones).log_z
        except ImpossiblePathError as error:
            raise no_labels(piece.take(np.array([error.chain])).free(), "y") from None
        if (piece.path == MISSING).any():
            try:
                return chain_marginals(clamped(energies, piece.path), ones).log_z - log_z
            except ImpossiblePathError:
                parts = zip(piece.single(), log_z)
                return np.concatenate([_one(model, one, z) for one, z in parts])
        return path_log_weights(energies, piece.path) - log_z

    return np.concatenate(list(ordered_map(part, batch.pieces(model.n_entries), n_jobs)))


def _one(model, piece, log_z):
    energies = clamped(model.energies(piece.X, piece.start), piece.path)
    try:
        return chain_marginals(energies, np.ones(1)).log_z - log_z
    except ImpossiblePathError:
        return np.array([-np.inf])
