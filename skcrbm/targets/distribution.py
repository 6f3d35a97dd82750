"""The distribution p(y | x) over all label vectors under a fitted classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from skcrbm.targets.kinds import Targets
from skcrbm.targets.label_sets import all_label_vectors
from skcrbm.targets.wrapped import call_given, final_model, inner_method, marginals_of
from skcrbm.utils.limits import BLOCK_ENTRIES, MAX_ALL_LABEL_SETS
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import count_rows, take_rows


class TopLabelSets(NamedTuple):
    """Result of `predict_topk`.

    Attributes
    ----------
    labels : ndarray (n_samples, k, n_outputs) or (n_samples, k)
        Label vectors, or classes if y was 1-D, in decreasing order of probability.
    proba : ndarray (n_samples, k)
        Probabilities p(y | x) of `labels`.

    After a call of `set_label_output`, `labels` is a data frame of shape
    (n_samples * k, n_outputs) or a series of classes, and `proba` is a series of length
    n_samples * k. Both have k rows, with ranks 0 to k - 1, for each row of X.
    """

    labels: Any
    proba: Any


class LabelDistribution:
    """Distribution p(y | x) of the L labels of a 2-D y under a fitted classifier.

    If the classifier (or the final model of a pipeline) has the method ``score_label_sets(X,
    label_sets)``, it is a joint model and gives the distribution itself. A `Constrained` classifier
    gives the distribution for any number of labels. For any other classifier the labels are assumed
    to be independent given x, with the probabilities of its `predict_proba`.
    """

    def __init__(self, model: Any, targets: Targets):
        self.model = model
        self.targets = targets  # of a 2-D y
        self.n_labels = len(targets.classes)
        # Only `Constrained` has the attribute `is_exact_`. The method `sample` of `Constrained` can
        # also return log-probabilities. If `is_exact_` is True, the method `predict_topk` finds the
        # most probable label vectors in a short time.
        is_exact = getattr(final_model(model)[0], "is_exact_", None)
        self.has_rules, self.can_rank = is_exact is not None, bool(is_exact)
        self.is_joint = is_joint(model) or self.has_rules

    @property
    def can_enumerate(self) -> bool:
        """True if there are few enough labels to enumerate all label vectors."""
        return self.n_labels <= MAX_ALL_LABEL_SETS

    def marginals(self, X: Any, known: np.ndarray | None = None) -> np.ndarray:
        """Return the probabilities P(y_i = 1 | x) (N, L), given known labels if there are any."""
        return marginals_of(self.model, X, known, self.targets)

    def log_proba(self, X: Any, labels: np.ndarray) -> np.ndarray:
        """Return the log-probability (N,) of the label vector of each row; `labels` is (N, L)."""
        if self.is_joint:
            # `score_samples` of a pipeline or a search of scikit-learn does not take y, so call the
            # method of the final model.
            found = inner_method(self.model, "score_samples")
            function = self.model.score_samples if found is None else found
            return np.asarray(function(X, y=labels))
        return _independent(self.marginals(X), labels)

    def tables(self, X: Any, known: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of rows, each with the log-probabilities (n, 2^L) of all label vectors.

        The columns have the order of `all_label_vectors`. `known` (N, L) holds known labels, and
        NaN for the other labels. A joint model conditions its probabilities on the known labels.
        """
        vectors = all_label_vectors(self.n_labels)
        proba = None if self.is_joint else self.marginals(X)
        for rows in row_chunks(count_rows(X), max(1, BLOCK_ENTRIES // len(vectors))):
            if proba is None:
                part = take_rows(X, np.arange(rows.start, rows.stop))
                given = {"label_sets": vectors}
                held = None if known is None else known[rows]
                log_p = np.asarray(call_given(self.model, "score_label_sets", part, held, **given))
                wanted = rows.stop - rows.start, len(vectors)
                if log_p.shape != wanted or np.isnan(log_p).any():
                    raise ValueError(
                        "score_label_sets(X, label_sets) of the estimator should return "
                        f"log-probabilities of the shape {wanted}, got the shape {log_p.shape}"
                        f"{' with NaN' if log_p.shape == wanted else ''}"
                    )
                yield rows, log_p - logsumexp(log_p, axis=1, keepdims=True)
            else:
                yield rows, _independent(proba[rows, None], vectors[None])

    def draw_from_tables(
        self, X: Any, n_draws: int, seed: int, known: np.ndarray | None = None
    ) -> np.ndarray:
        """Return draws (N, n_draws, L) of the label vectors in `tables`.

        Rows are drawn in blocks, and each row has the same random numbers, so that its draws do not
        depend on the other rows of X. `known` is as in `tables`.
        """
        vectors = all_label_vectors(self.n_labels)
        level = check_random_state(seed).random_sample(n_draws)
        draws = np.empty((count_rows(X), n_draws, self.n_labels), np.int8)
        for rows, log_p in self.tables(X, known):
            for row, mass in zip(range(rows.start, rows.stop), np.exp(log_p).cumsum(axis=1)):
                place = np.searchsorted(mass[:-1], level * mass[-1], side="right")
                draws[row] = vectors[place]
        return draws

    def most_probable(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k most probable of all label vectors (N, k, L), and their log-probabilities.

        If fewer vectors are possible, the last log-probabilities are -inf. `can_rank` must be True.
        """
        labels, proba = call_given(self.model, "predict_topk", X, None, k=k)
        possible, least = labels[:, :, 0] >= 0, np.finfo(np.float64).tiny
        log_p = np.where(possible, np.log(np.maximum(proba, least)), -np.inf)
        underflow = possible & (proba < least)  # float64 cannot hold these probabilities
        for j in np.flatnonzero(underflow.any(axis=0)):
            rows = np.flatnonzero(underflow[:, j])
            log_p[rows, j] = self.log_proba(take_rows(X, rows), labels[rows, j])
        return labels, log_p

    def draw(self, X: Any, n_draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return draws (N, n_draws, L) from p(y | x), and their log-probabilities (N, n_draws).

        The draws of a row do not depend on the other rows of X.
        """
        if self.has_rules:
            return inner_method(self.model, "_draws_and_log_proba")(X, n_draws, seed)
        if self.is_joint:
            n_rows = count_rows(X)
            draws = np.empty((n_rows, n_draws, self.n_labels), np.int8)
            log_p = np.empty((n_rows, n_draws))
            for row, found in enumerate(self._draw_by_row(X, n_draws, seed)):
                draws[row], log_p[row] = found
            return draws, log_p
        proba = self.marginals(X)
        uniform = check_random_state(seed).random_sample((n_draws, self.n_labels))
        draws = (uniform < proba[:, None]).astype(np.int8)
        return draws, _independent(proba[:, None], draws)

    def drawn_log_proba(
        self, X: Any, n_draws: int, seed: int, labels: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log-probabilities (N, n_draws) of draws from p(y | x), without the draws.

        The second result is None, or the log-probabilities (N,) of the given `labels` (N, L). If
        the labels are independent, or the model is a conditional RBM with few hidden units, this
        method is faster than `draw`. The draws of a row do not depend on the other rows of X.
        """
        if not self.is_joint:
            return _independent_draws(self.marginals(X), n_draws, seed, labels)
        if self.has_rules:
            drawn = self.draw(X, n_draws, seed)[1]
            return drawn, None if labels is None else self.log_proba(X, labels)
        n_rows = count_rows(X)
        drawn, own = np.empty((n_rows, n_draws)), np.empty(n_rows)
        left = np.ones(n_rows, bool)  # rows that `_drawn_log_proba` did not take
        function = inner_method(self.model, "_drawn_log_proba")
        found = None if function is None else function(X, n_draws, seed, labels)
        if found is not None:
            left = ~found[2]
            drawn[~left] = found[0]
            if labels is not None:
                own[~left] = found[1]
        rows = np.flatnonzero(left)
        if len(rows):
            given = None if labels is None else labels[rows]
            parts = self._draw_by_row(take_rows(X, rows), n_draws, seed, given)
            for row, (_, log_p) in zip(rows, parts):
                drawn[row] = log_p[:n_draws]
                own[row] = log_p[-1]
        return drawn, None if labels is None else own

    def _draw_by_row(self, X, n_draws, seed, labels=None):
        """Yield draws (n_draws, L) of each row of X, and the log-probabilities of these draws.

        If `labels` (N, L) is given, the log-probabilities have another entry at the end: the
        log-probability of the label vector of the row. The model must have a joint distribution.

        The random numbers of the method `sample` depend on the position of a row in X. So each row
        is drawn alone, with the same seed, and gets the same draws in every X. Equal vectors of a
        row are scored once, because rounding could make their log-probabilities different.
        """
        model, inputs = final_model(self.model, X)  # transform all rows at once, in a pipeline
        if not (hasattr(model, "sample") and hasattr(model, "score_label_sets")):
            model, inputs = self.model, X
        inputs = inputs.tocsr() if issparse(inputs) else inputs  # once for all rows
        for row in range(count_rows(X)):
            x = take_rows(inputs, [row])
            draws = np.asarray(model.sample(x, n_samples=n_draws, random_state=seed))[0]
            draws = draws.astype(np.int8)
            vectors = draws if labels is None else np.vstack([draws, labels[row].astype(np.int8)])
            packed = np.packbits(vectors, axis=1)
            _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
            log_p = np.asarray(model.score_label_sets(x, label_sets=vectors[first]))[0]
            yield draws, log_p[place.ravel()]


def is_joint(model: Any) -> bool:
    """Return True if a classifier has a joint distribution (the method `score_label_sets`)."""
    return inner_method(model, "score_label_sets") is not None or hasattr(model, "score_label_sets")


def _independent(proba, labels):
    """Return the log-probabilities of label vectors (..., L) if the labels are independent."""
    if proba.ndim == 3 and proba.shape[1] == 1 and len(labels) == 1:  # use matrix products
        proba, labels = proba[:, 0], labels[0].astype(float)
        impossible = (proba == 0) @ labels.T + (proba == 1) @ (1 - labels).T > 0
        on, off = (np.log(np.where(p > 0, p, 1)) for p in (proba, 1 - proba))
        return np.where(impossible, -np.inf, on @ labels.T + off @ (1 - labels).T)
    with np.errstate(divide="ignore"):
        return np.log(np.where(labels == 1, proba, 1 - proba)).sum(axis=-1)


def _independent_draws(proba, n_draws, seed, labels):
    """Return log-probabilities of draws, and of `labels` if given, for independent labels.

    All rows use the same random numbers. `proba` (N, L) are the probabilities of the labels.
    """
    uniform = check_random_state(seed).random_sample((n_draws, proba.shape[1]))
    # A label of probability 0 or 1 has the same value in all draws, so it adds 0 to the logarithm.
    on, off = (np.log(np.where(p > 0, p, 1)) for p in (proba, 1 - proba))
    drawn = np.empty((len(proba), n_draws))
    for row, p in enumerate(proba):
        drawn[row] = (uniform < p) @ (on[row] - off[row]) + off[row].sum()
    return drawn, None if labels is None else _independent(proba, labels)
