"""Train chains: batches of sequences, two objectives, and the choice of the penalty.

A row of training data is a whole sequence. The objectives are the likelihood and the
pseudo-likelihood. `fit` (`learning/fit.py`) uses them like all other objectives: L-BFGS takes all
sequences at once, and stochastic solvers take mini-batches of sequences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from skcrbm.inference.chains import ImpossiblePathError, chain_marginals, path_log_weights
from skcrbm.kernels.chains import pseudo_likelihood
from skcrbm.learning.chain_model import ChainModel, ChainParams
from skcrbm.learning.data import Source
from skcrbm.learning.lbfgs import descend
from skcrbm.learning.objectives import Objective, Step
from skcrbm.learning.penalties import L2, ElasticNet
from skcrbm.utils.limits import CHAIN_ENTRIES
from skcrbm.utils.parallel import ordered_map

MISSING = -1  # class of a position whose label is not observed
# alpha="auto" tries penalties in this order, the strongest first. The numbers are factors of the
# penalty if the losses of all sequences are added up; alpha is the factor divided by the total
# weight of the sequences. The search stops after _PATIENCE penalties in a row that are no better
# than the best so far.
_TOTALS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
_PATIENCE = 2
# A fit for one of the penalties in _TOTALS stops when ten iterations lower the objective by no more
# than _PATH_SHARE times its value, or after _PATH_ITERATIONS iterations.
_PATH_SHARE = 1e-4
_PATH_ITERATIONS = 100
#: A final fit stops when ten iterations lower the objective by no more than this share.
SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Batch of n sequences, whose T positions are stored one after the other."""

    X: Any  # ndarray or CSR matrix (T, D), features of all positions
    start: np.ndarray  # (n + 1,): sequence c has the positions start[c] to start[c + 1] - 1
    path: np.ndarray  # (T,) class of each position, 0 to K - 1, or `MISSING` if not observed
    weight: np.ndarray  # (n,) weights of the sequences
    _pieces: dict = field(default_factory=dict, repr=False)  # cache of `pieces`

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.weight)

    def part(self, first: int, stop: int) -> SequenceBatch:
        """Return the sequences `first` to ``stop - 1``, without a copy of a dense X."""
        rows = slice(self.start[first], self.start[stop])
        start = self.start[first : stop + 1] - self.start[first]
        return SequenceBatch(self.X[rows], start, self.path[rows], self.weight[first:stop])

    def blocks(self) -> list[SequenceBatch]:
        """Return the whole batch, because objectives of chains split a batch themselves."""
        return [self]

    def computed(self) -> SequenceBatch:
        """Return the batch unchanged, because its X is always stored."""
        return self

    def take(self, numbers: np.ndarray) -> SequenceBatch:
        """Return the sequences with the indices `numbers`, in the order of `numbers`."""
        lengths = np.diff(self.start)[numbers]
        start = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(start[-1]) + np.repeat(self.start[numbers] - start[:-1], lengths)
        return SequenceBatch(self.X[rows], start, self.path[rows], self.weight[numbers])

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


class SequenceSource(Source):
    """Sequences that are visited in random order; a batch of all sequences keeps their order."""

    def __init__(self, sequences: SequenceBatch):
        self.all = sequences
        self.n_rows = len(sequences)
        self.total_weight = float(sequences.weight.sum())

    def batches(self, rng: np.random.RandomState, size: int) -> Iterator[SequenceBatch]:
        """Yield the batches of one pass; see `Source`."""
        if size >= self.n_rows:
            yield self.all
            return
        order = rng.permutation(self.n_rows)
        for start in range(0, self.n_rows, size):
            yield self.all.take(order[start : start + size])

    def split(self, fraction: float, rng, stratify: bool = False) -> Any:
        """Hold out a fraction of the sequences for validation; see `Source`."""
        n_held = int(np.ceil(fraction * self.n_rows))
        if n_held >= self.n_rows:
            return super().split(fraction, rng, stratify)
        order = rng.permutation(self.n_rows)
        held, rest = np.sort(order[:n_held]), np.sort(order[n_held:])
        return SequenceSource(self.all.take(rest)), self.all.take(held)


class ChainCoordinates:
    """Converts the trained parameters of a chain to one vector for L-BFGS, and back.

    `trained` has one entry per array of `ChainParams`: False keeps the array at its first value.
    """

    def __init__(self, model: ChainModel, trained: tuple[bool, ...]):
        self.start = model.params
        self.trained = trained

    def vector(self, params: ChainParams) -> np.ndarray:
        """Convert parameters to a vector of the trained parameters."""
        return np.concatenate([p.ravel() for p, used in zip(params, self.trained) if used])

    gradient = vector

    def params(self, vector: np.ndarray) -> ChainParams:
        """Convert a vector to parameters; arrays that are not trained keep their values."""
        params, first = [], 0
        for p, used in zip(self.start, self.trained):
            if used:
                params.append(vector[first : first + p.size].reshape(p.shape))
                first += p.size
            else:
                params.append(p)
        return ChainParams(*params)

    def lengths(self, penalty: ElasticNet) -> np.ndarray:
        """Return the L1 factor of each entry of the vector."""
        factors = [
            np.full(p.size, float(factor))
            for p, used, factor in zip(self.start, self.trained, penalty.l1_factors)
            if used
        ]
        return np.concatenate(factors)


class ChainObjective(Objective):
    """Base class of the objectives of chains.

    A subclass computes the loss and its gradient with respect to the log-weights.

    Parameters
    ----------
    trained : tuple of bool
        Entry for each array of `ChainParams`: True if the array is trained.
    n_jobs : int or None
        Number of threads; the result does not depend on this number.
    """

    share = SHARE

    def __init__(self, trained: tuple[bool, ...], n_jobs: int | None = None):
        self.trained = trained
        self.n_jobs = n_jobs
        self.state_key = type(self).__name__, trained

    def coordinates(self, model, batch, penalty):
        """Return the conversion between parameters and the vector of L-BFGS."""
        return ChainCoordinates(model, self.trained)

    def step(self, model, batch: Any, clock, state):
        """Return the `Step` of a batch; see `Objective`."""
        gradient, loss = ChainParams(*map(np.zeros_like, model.params)), 0.0
        pieces = batch.pieces(_entries(model))
        residuals = ordered_map(partial(self._residuals, model), pieces, self.n_jobs)
        for piece, (losses, states, pairs) in zip(pieces, residuals):
            model.add_gradient(piece.X, piece.start, states, pairs, gradient)
            loss += losses
        for part, used in zip(gradient, self.trained):
            part[...] *= used
        return Step(gradient, loss, len(batch)), state

    @abstractmethod
    def _residuals(self, model, piece) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the loss, and its gradients with respect to the scores (T, K) and the pairs."""


def _entries(model):
    return model.n_states if model.pair_columns is None else model.n_states**2


class ChainLikelihood(ChainObjective):
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
            subtract_path(piece, states, pairs)
        return float(losses @ piece.weight), states, pairs

    def score(self, model, batch: Any, epoch):
        """Return the mean log-likelihood of held-out sequences."""
        return log_likelihoods(model, batch, self.n_jobs) @ batch.weight / batch.weight.sum()


class ChainPseudoLikelihood(ChainObjective):
    """Negative sum of the log-probabilities of each label given both neighbours."""

    needs_complete = True

    def _residuals(self, model, piece):
        energies = model.energies(piece.X, piece.start)
        states = np.empty(energies.scores.shape)
        pairs = np.zeros(energies.pairs.shape)
        losses = np.empty(len(piece))
        pseudo_likelihood(*energies, piece.path, piece.weight, states, pairs, losses)
        return float(losses @ piece.weight), states, pairs

    def score(self, model, batch: Any, epoch):
        """Return minus the mean loss of held-out sequences."""
        pieces = batch.pieces(_entries(model))
        total = sum(loss for loss, _, _ in map(partial(self._residuals, model), pieces))
        return -total / batch.weight.sum()


def clamped(energies, path):
    """Clamp the states of chains to `path` (T,), except where `path` is `MISSING`."""
    scores = energies.scores.copy()
    held = np.flatnonzero(path != MISSING)
    values = scores[held, path[held]]
    scores[held] = -np.inf
    scores[held, path[held]] = values
    return energies._replace(scores=scores)


def subtract_path(piece: SequenceBatch, states: np.ndarray, pairs: np.ndarray) -> None:
    """Subtract the observed states and pairs of a path from `states` and `pairs`, in place.

    Each state and each pair counts with the weight of its sequence.
    """
    weight = np.repeat(piece.weight, np.diff(piece.start))
    states[np.arange(len(piece.path)), piece.path] -= weight
    inner = np.ones(len(piece.path), bool)
    inner[piece.start[:-1]] = False
    later = np.flatnonzero(inner)
    table = np.zeros(len(later), int) if len(pairs) == 1 else later
    np.subtract.at(pairs, (table, piece.path[later - 1], piece.path[later]), weight[later])


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

    return np.concatenate(list(ordered_map(part, batch.pieces(_entries(model)), n_jobs)))


def _one(model, piece, log_z):
    energies = clamped(model.energies(piece.X, piece.start), piece.path)
    try:
        return chain_marginals(energies, np.ones(1)).log_z - log_z
    except ImpossiblePathError:
        return np.array([-np.inf])


# -------------------------------------------------------------------------------- the penalty


def chain_penalty(alpha: float, l1_ratio: float) -> L2:
    """Return the penalty of all parameters other than the intercepts."""
    factors = ChainParams(*([alpha * (1 - l1_ratio)] * 6))._replace(intercept=0.0)
    if l1_ratio == 0:
        return L2(factors)
    return ElasticNet(factors, ChainParams(*([alpha * l1_ratio] * 6))._replace(intercept=0.0))


def choose_alpha(
    model: ChainModel,
    rest: SequenceBatch,
    held_out: SequenceBatch,
    objective: Objective,
    l1_ratio: float,
) -> float:
    """Return the penalty factor (for summed losses) with the best score on held-out sequences.

    The strongest penalty is tried first. Each fit starts from the parameters of the previous fit.
    The search ends when weaker penalties are no better (see `_PATIENCE`).
    """
    weight = float(rest.weight.sum())
    best, best_score, worse = _TOTALS[0], -np.inf, 0
    for total in _TOTALS:
        penalty = chain_penalty(total / weight, l1_ratio)
        steps = descend(model, rest, objective, penalty, _PATH_ITERATIONS, _PATH_SHARE)
        for function, minimizer, _ in steps:
            reached = function, minimizer
        function, minimizer = reached
        model = model._replace(params=function.coordinates.params(minimizer.x))
        score = objective.score(model, held_out, 0)  # pyright: ignore[reportArgumentType]
        if score > best_score:
            best, best_score, worse = total, score, 0
        else:
            worse += 1
            if worse == _PATIENCE:
                break
    return best
