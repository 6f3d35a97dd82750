"""Base class of `ChainCRF`, with the methods that use a fitted model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.estimators._structured import (
    decodes_marginals,
    has_probabilities,
    share_of_right_labels,
)
from skcrbm.inference.chains import (
    ImpossiblePathError,
    best_paths,
    chain_marginals,
    class_marginals,
    k_best_paths,
    sample_paths,
)
from skcrbm.learning.structured.chain import SequenceBatch, clamped, log_likelihoods
from skcrbm.learning.structured.chain_model import ChainModel
from skcrbm.targets.codes import MISSING
from skcrbm.targets.sequences import (
    SequenceRows,
    codes_of,
    flat_labels,
    flatten,
    split_rows,
)
from skcrbm.utils.options import check_parameters
from skcrbm.utils.parallel import one_blas_thread, ordered_map
from skcrbm.utils.pickling import SavedModel
from skcrbm.utils.ragged import SequenceArrays
from skcrbm.utils.validation import check_count


class TopPaths(NamedTuple):
    """The k most probable label sequences of a sequence, or label vectors of a graph.

    The label sequences (or vectors) are in decreasing order of probability.
    """

    labels: np.ndarray  # (k, n): classes of the n positions or nodes
    log_proba: np.ndarray  # (k,): log-probabilities of the rows of `labels`


class ChainAnswers(SavedModel, BaseEstimator):
    """Base class of `ChainCRF` with all methods of a fitted model.

    A subclass has the parameters `decode` and `n_jobs`. Its method `fit` sets `classes_`, `_model`
    and `_rows`.
    """

    classes_: np.ndarray
    decode: str
    n_jobs: int | None
    _hinge: bool
    _model: ChainModel
    _rows: SequenceRows
    _prediction_parameters = ("decode", "n_jobs")

    def predict(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Predict the labels of sequences.

        Parameters
        ----------
        X : list of sequences
            Sequences, in the same form as in `fit`.
        y_known : list of sequences of labels, default=None
            Labels that are known beforehand, and None or NaN for the other labels, which are
            predicted given the known labels.

        Returns
        -------
        ndarray of object (n_sequences,)
            Array of labels (n_positions,) for each sequence.
        """
        batch = self._given(X, y_known)
        if decodes_marginals(self):
            path = np.concatenate(self._answers(batch, class_marginals)).argmax(1)
        else:
            path = np.concatenate(self._answers(batch, lambda energies: best_paths(energies)[0]))
        return split_rows(self.classes_[path], batch.start)

    @available_if(has_probabilities)
    def predict_proba(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Return the probability of each class at each position.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of object (n_sequences,)
            Array (n_positions, n_classes) for each sequence, with columns in the order of
            `classes_`.
        """
        batch = self._given(X, y_known)
        return split_rows(np.concatenate(self._answers(batch, class_marginals)), batch.start)

    def predict_topk(self, X: Iterable, k: int, y_known: Iterable | None = None) -> list[TopPaths]:
        """Return the k most probable label sequences of each sequence.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        k : int
            Number of label sequences. If a short sequence has fewer possible label sequences, all
            of them are returned.

        Returns
        -------
        list of TopPaths
            Named tuples with `labels` (k, n_positions) and `log_proba` (k,), in decreasing order of
            probability. `log_proba` is NaN after ``learning="max_margin"``.
        """
        k = check_count("k", k)
        batch = self._given(X, y_known)

        def answer(energies):
            log_z = np.full(energies.n_chains, np.nan)
            if not self._hinge:
                log_z = chain_marginals(energies, np.ones(energies.n_chains)).log_z
            return [(p, v - z) for (p, v), z in zip(k_best_paths(energies, k), log_z)]

        return [TopPaths(self.classes_[p], v) for p, v in flatten(self._answers(batch, answer))]

    @available_if(has_probabilities)
    def sample(
        self,
        X: Iterable,
        n_samples: int = 1,
        y_known: Iterable | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Draw independent label sequences from p(y | x) of each sequence.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        n_samples : int, default=1
            Number of label sequences to draw for each sequence.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of object (n_sequences,)
            Array of labels (n_samples, n_positions) for each sequence.
        """
        n_samples = check_count("n_samples", n_samples)
        rng = check_random_state(random_state)
        batch = self._given(X, y_known)
        # Draw the random numbers for one sequence after the other, so that the result for a
        # sequence does not depend on later sequences.
        uniform = np.concatenate(
            [rng.random_sample((n, n_samples)) for n in np.diff(batch.start)]
        ).T.copy()
        pieces = self._pieces(batch)
        first = np.cumsum([0] + [piece.start[-1] for piece in pieces])
        drawn = [
            sample_paths(self._energies(piece), uniform[:, a:b])
            for piece, a, b in zip(pieces, first, first[1:])
        ]
        paths = np.concatenate(drawn, axis=1)
        parts = split_rows(self.classes_[paths.T], batch.start)
        for c in range(len(parts)):
            parts[c] = parts[c].T
        return parts

    @available_if(has_probabilities)
    def score_samples(self, X: Iterable, y: Iterable) -> np.ndarray:
        """Return the log-likelihood (n_sequences,) of label sequences.

        Parameters
        ----------
        X : list of sequences
        y : list of sequences of labels
            Label sequences; missing labels (None or NaN) are summed out.
        """
        batch = self._given(X, y, "y")
        with one_blas_thread():
            return log_likelihoods(self._model, batch, self.n_jobs)

    def score(self, X: Iterable, y: Iterable, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of correctly predicted labels, over all positions with observed labels.

        Labels that did not occur in training count as wrong.

        Parameters
        ----------
        X : list of sequences
        y : list of sequences of labels
        sample_weight : array-like of shape (n_sequences,), default=None
            Weights of the sequences.
        """
        return share_of_right_labels(self, X, y, sample_weight)

    def factor_graph(self, sequence: Any) -> FactorGraphEnergy:
        """Return p(y | x) of a single sequence as a factor graph.

        All queries of `skcrbm.inference.infer` work on this graph, for example the marginals of
        pairs of positions.

        Parameters
        ----------
        sequence : array, sparse matrix or list of dicts
            A single sequence, in the same form as in `fit`.

        Returns
        -------
        FactorGraphEnergy
            Factor graph whose variable t is the class at position t, as an index of `classes_`.
        """
        batch, model = self._given([sequence], None), self._model
        energies = model.first_order(batch.X, batch.start)
        length, n_states = energies.scores.shape
        unary = energies.scores.copy()
        unary[0] += energies.first
        unary[-1] += energies.last
        factors = [TableFactors(np.arange(length)[:, None], unary)]
        if length > 1:
            pairs = np.broadcast_to(energies.pairs, (length, n_states, n_states))[1:]
            scopes = np.stack([np.arange(length - 1), np.arange(1, length)], axis=1)
            factors.append(TableFactors(scopes, pairs.copy()))
        if length > 2 and model.order == 2:
            scopes = np.arange(length - 2)[:, None] + np.arange(3)
            triple = np.broadcast_to(model.params.triple, (length - 2, *(n_states,) * 3))
            factors.append(TableFactors(scopes, triple.copy()))
        return FactorGraphEnergy(factors, n_variables=length, n_states=n_states)

    def _given(self, X, y_known, name="y_known") -> SequenceBatch:
        """Validate X and `y_known`, and return the sequences and known labels as a batch.

        Labels that are not known get the code `MISSING`. `name` is the name that error messages use
        for `y_known`.
        """
        check_is_fitted(self, "classes_")
        check_parameters(self, self._prediction_parameters)
        rows, start = self._rows.transform(X)
        path = np.full(start[-1], MISSING)
        if y_known is not None:
            path = codes_of(flat_labels(y_known, start, name), self.classes_, name)
        return SequenceBatch.of(SequenceArrays(rows, start), path, np.ones(len(start) - 1))

    def _pieces(self, batch):
        return batch.pieces(self._model.n_entries)

    def _energies(self, piece):
        energies = self._model.energies(piece.X, piece.start)
        return clamped(energies, piece.path) if (piece.path != MISSING).any() else energies

    def _answers(self, batch, answer):
        """Split the batch into parts, and return the list of ``answer(energies)`` of all parts.

        `energies` are the models of the sequences in a part. Threads compute the parts in parallel.
        """

        def answer_of(piece):
            try:
                return answer(self._energies(piece))
            except ImpossiblePathError as error:
                raise ValueError(
                    f"the labels of sequence {piece.index[error.chain]} in y_known contradict the "
                    "transitions in `forbidden`"
                ) from None

        with one_blas_thread():
            return list(ordered_map(answer_of, self._pieces(batch), self.n_jobs))
