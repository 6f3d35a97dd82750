"""Base class of the models with an energy: predictions and questions about p(y | x)."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.best_states import weighted_label_sets
from skcrbm.decoding.posterior import Posterior
from skcrbm.estimators._base import StructuredClassifier
from skcrbm.inference import available_methods, sample
from skcrbm.inference.base import resolve_method
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.targets.kinds import Targets, named_series
from skcrbm.targets.mixin import label_output
from skcrbm.utils.labels import (
    distinct_rows,
    in_rows_of,
    indicator_by_name,
    is_frame,
    ranked_index,
)
from skcrbm.utils.limits import AUTO_ALL_LABEL_SETS, MAX_ALL_LABEL_SETS
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.validation import as_float_array


class TopLabelSets(NamedTuple):
    """Answer of `predict_topk`.

    Attributes
    ----------
    labels : ndarray (n_samples, k, n_outputs) or (n_samples, k)
        Label vectors, or classes of 1-D y, by falling probability.
    proba : ndarray (n_samples, k)
        Their probabilities p(y | x).

    With `set_label_output`, `labels` is a data frame (n_samples k, n_outputs) or a series of
    classes, and `proba` a series (n_samples k,): the rows are the rows of X, each with the ranks
    0, ..., k - 1.
    """

    labels: Any
    proba: Any


class JointClassifier(StructuredClassifier):
    """Base class of the models with an energy of the outputs given x, which define p(y | x).

    A subclass has ``_posterior_of(X, known)``, the `Posterior` of validated rows and known labels;
    all predictions are computed from it.
    """

    @abstractmethod
    def _posterior_of(self, X, known) -> Posterior:
        """Return the `Posterior` of validated rows and known labels."""

    def _posterior(self, X, y_known=None) -> Posterior:
        """Return the `Posterior` of the rows of X given the known labels."""
        check_is_fitted(self)
        rows = self._check_predict_data(X)
        if y_known is not None:
            y_known = in_rows_of(y_known, X)
        return self._posterior_of(rows, self._targets.check_known(y_known, rows.shape[0]))

    def _label_log_odds(self, posterior):
        return posterior.log_odds()

    def _joint(self, X, y_known) -> Any:
        """Return p(y | x) of the rows, over label vectors or over classes."""
        posterior = self._posterior(X, y_known)
        if self._targets.multilabel:
            return _LabelVectors(self._targets, posterior)
        log_odds = self._targets.log_odds(self, posterior).astype(posterior.energy.dtype)
        return _Classes(self._targets, self._targets.class_log_proba(log_odds.astype(np.float64)))

    # -------------------------------------------------------------------- predictions

    @label_output
    def predict(self, X, y_known=None):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the other labels are predicted given them. The
            columns of a data frame are matched by name; labels without a column are not known.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
            Predicted labels or classes; see `set_label_output` for data frames.
        """
        with one_blas_thread():
            return self._predict(self._posterior(X, y_known))

    @label_output
    def decision_function(self, X, y_known=None):
        """Return the score of each output, positive if it is on, or of each class.

        The documentation of the class describes the scores.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs), (n_samples,) or (n_samples, n_classes)
        """
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            return self._decision(posterior).astype(posterior.energy.dtype, copy=False)

    @label_output
    def predict_proba(self, X, y_known=None):
        """Return P(y_i = 1 | x) of each output, or the probability of each class.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes)
        """
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            log_odds = self._targets.log_odds(self, posterior)
        return self._targets.proba(log_odds.astype(posterior.energy.dtype, copy=False))

    # ------------------------------------------- questions about the joint distribution

    def sample(
        self, X, n_samples=1, y_known=None, *, method="exact", burn_in=None, random_state=None
    ):
        """Draw labels from p(y | x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        n_samples : int, default=1
            Number of draws from each row.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the other labels are drawn given them.
        method : {"exact", "gibbs"}, default="exact"
            Independent draws by enumeration, with up to 20 hidden units or outputs; or up to
            100 Gibbs chains per row, see `skcrbm.inference.sample`. 1-D y is always exact.
        burn_in : int or None, default=None
            Sweeps of the Gibbs chains before the first draw; None: 100.
        random_state : int, RandomState or None, default=None
            Seed of the draws, which do not depend on `n_jobs`.

        Returns
        -------
        ndarray of shape (n_rows, n_samples, n_outputs) or (n_rows, n_samples)
            0/1 labels, or classes of 1-D y.

        Raises
        ------
        ValueError
            If an argument is invalid, or the model is too large for `method`.
        """
        with one_blas_thread():
            joint = self._joint(X, y_known)
        return joint.sample(n_samples, method, burn_in, random_state)

    def score_samples(self, X, y=None, y_known=None, *, method="exact", random_state=None):
        """Return the log-likelihood of labels, log p(y | x), of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            Labels. NaN in 2-D y (not observed) is summed out, so that the result is the marginal
            log-likelihood of the observed labels, and 0 if no label of the row is observed. None,
            which scikit-learn's checks pass, stands for labels that are not observed.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the result is log p(y | x, y_known), and -inf if
            y contradicts them.
        method : str or object, default="exact"
            Method that computes log Z: "exact", with up to 20 hidden units or outputs; or, for an
            approximation, another method of `skcrbm.inference.infer`, by name or as an object:
            "sum_product" (the Bethe approximation), "tree_reweighted" (an upper bound of log Z) or
            "ais" (annealed importance sampling). 1-D y is always exact.
        random_state : int, RandomState or None, default=None
            Seed of "ais".

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-likelihood of each row.

        Raises
        ------
        ValueError
            If an argument is invalid, or the model is too large for `method`.
        """
        with one_blas_thread():
            joint = self._joint(X, y_known)
            if y is None:
                return np.zeros(joint.n_rows)
            visible = self._targets.encode(y)
            if len(visible) != joint.n_rows:
                raise ValueError(
                    f"X and y must have as many rows, got {joint.n_rows} and {len(visible)}"
                )
            return joint.log_proba_of(visible, method, random_state)

    def predict_topk(
        self, X, k=1, y_known=None, *, candidates="auto", method="exact", random_state=None
    ):
        """Return the k most probable label vectors of each row, with their probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int, default=1
            Number of label vectors per row.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the vectors agree with them, and their
            probabilities are p(y | x, y_known).
        candidates : {"auto", "all", "label_sets"} or array-like of shape (n_sets, n_outputs)
            Label vectors that compete: all possible vectors (exact, up to 20 outputs),
            `label_sets_`, or the rows of the array. "auto" is "all" up to 14 outputs, else
            "label_sets". The candidates that agree with the known labels compete; if no candidate
            agrees, all of them compete with the known labels written over them.
        method : str or object, default="exact"
            Method that computes log Z, as in `score_samples`; it affects the probabilities only.
        random_state : int, RandomState or None, default=None
            Seed of "ais".

        Returns
        -------
        labels : ndarray of shape (n_samples, k, n_outputs) or (n_samples, k)
            0/1 labels, or classes of 1-D y, by falling probability; -1 if the known labels leave
            fewer than k candidates.
        proba : ndarray of shape (n_samples, k)
            p(y | x), not relative to the candidates; 0 for a missing candidate.

            After ``set_label_output("pandas")`` both are pandas containers with a row for each row
            of X and each rank 0 to k - 1, so that ``labels.assign(proba=proba)`` is a table; with
            "polars" it is ``labels.with_columns(proba)``, with k rows for each row of X.

        Raises
        ------
        ValueError
            If an argument is invalid, k is larger than the number of candidates, or the model is
            too large for `method`.
        """
        _check_count("k", k)
        with one_blas_thread():
            top = self._joint(X, y_known).top(k, candidates, method, random_state)
        return top if self._label_container == "default" else self._framed_top(top, X)

    def _framed_top(self, top, X):
        """Return `TopLabelSets` of data frames or series, with a row for each row of X and rank."""
        n_rows, k = top.proba.shape
        container, index = self._label_container, None
        if container == "pandas":
            index = ranked_index(X.index if hasattr(X, "iloc") else range(n_rows), k)
        labels = top.labels.reshape(n_rows * k, *top.labels.shape[2:])
        proba = named_series(top.proba.ravel(), index, "proba", container)
        return TopLabelSets(self._targets.framed(labels, index, container), proba)

    def predict_pairwise_proba(self, X, y_known=None):
        """Return P(y_i = 1, y_k = 1 | x) of all pairs of labels.

        The inference method is the method of `predict_proba`, whose marginals stand on the
        diagonal. For conditional RBMs a pair is ``P(y_k = 1) P(y_i = 1 | y_k = 1)``, with a run of
        inference per label; if inference is approximate, the mean over both orders is taken.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_outputs)
            Probabilities of the pairs.

        Raises
        ------
        ValueError
            After a fit on 1-D y.
        """
        check_is_fitted(self)
        self._targets.require_multilabel("predict_pairwise_proba")
        with one_blas_thread():
            return self._joint(X, y_known).pairs()


class _LabelVectors(NamedTuple):
    """p(y | x) over the label vectors of a 2-D y."""

    targets: Targets  # of a 2-D y
    posterior: Posterior

    @property
    def n_rows(self):
        """Number of rows."""
        return self.posterior.energy.n_models

    def sample(self, n_samples, method, burn_in, random_state):
        """Draw label vectors (N, n_samples, L)."""
        states = sample(
            self.posterior.energy,
            method,
            n_samples=n_samples,
            burn_in=burn_in,
            clamp=self.posterior.evidence(),
            n_jobs=self.posterior.n_jobs,
            random_state=random_state,
        )
        return self.targets.decode(states[:, :, : self.posterior.energy.n_visible])

    def log_proba_of(self, visible, method, random_state):
        """Return the log-probability (N,) of visible units (N, L), with NaN summed out."""
        energy, known = self.posterior.energy, self.posterior.known
        seed = check_random_state(random_state).randint(2**31 - 1)
        known = np.full(visible.shape, np.nan) if known is None else known
        state = np.where(np.isnan(known), visible, known)
        partly = np.isnan(state).any(axis=1)
        log_p = np.empty(len(state))
        log_p[~partly] = energy.rows(~partly).log_weight(state[~partly])
        if partly.any():
            part = self.posterior._replace(energy=energy.rows(partly), known=state[partly])
            log_p[partly] = _log_partition(part, method, seed)
        log_p -= _log_partition(self.posterior, method, seed)
        log_p[(visible + known == 1).any(axis=1)] = -np.inf  # y contradicts a known label
        return log_p

    def top(self, k, candidates, method, random_state):
        """Return the `TopLabelSets` among the candidates."""
        posterior = self.posterior._replace(label_sets=self._candidates(candidates))
        _check_enough(k, len(posterior.label_sets), "candidates")
        labels = np.full((self.n_rows, k, posterior.energy.n_visible), -1)
        log_p = np.full((self.n_rows, k), -np.inf)
        for rows, sets, log_weight in weighted_label_sets(posterior, "marginal"):
            top = min(k, len(sets))
            best = np.argpartition(-log_weight, top - 1, axis=1)[:, :top]
            best.sort(axis=1)  # ties are in the order of the candidates
            value = np.take_along_axis(log_weight, best, axis=1)
            order = np.argsort(-value, axis=1, kind="stable")
            value = np.take_along_axis(value, order, axis=1)
            found = sets[np.take_along_axis(best, order, axis=1)]
            log_p[rows, :top] = value
            labels[rows, :top] = np.where(np.isneginf(value)[:, :, None], -1, found)
        seed = check_random_state(random_state).randint(2**31 - 1)
        log_p -= _log_partition(posterior, method, seed)[:, None]
        return TopLabelSets(self.targets.decode(labels), np.exp(log_p))

    def pairs(self):
        """Return P(y_i = 1, y_k = 1), (N, L, L)."""
        posterior = self.posterior
        n_labels = posterior.energy.n_visible
        # An energy over pairs of labels has them as its statistics.
        if posterior.energy.statistic_shapes == ((n_labels, n_labels),):
            return posterior.infer(returns="pairwise", pairwise="per_example").pairwise
        marginals = expit(posterior.log_odds())
        pairs = np.empty((*marginals.shape, n_labels), marginals.dtype)
        unknown = np.full(marginals.shape, np.nan)
        known = unknown if posterior.known is None else posterior.known
        for i in range(n_labels):
            given = known.copy()
            given[:, i] = 1
            conditional = posterior._replace(known=given).log_odds()
            pairs[:, i] = marginals[:, [i]] * expit(conditional)
        pairs += np.swapaxes(pairs, 1, 2).copy()
        return pairs / 2

    def _candidates(self, candidates):
        """Return the candidates (K, L) of `predict_topk`."""
        n_labels = self.posterior.energy.n_visible
        if isinstance(candidates, str) and candidates == "auto":
            candidates = "all" if n_labels <= AUTO_ALL_LABEL_SETS else "label_sets"
        if is_frame(candidates):
            candidates = indicator_by_name(candidates, self.targets.names, n_labels, "candidates")
        if not isinstance(candidates, str):
            sets = as_float_array(candidates, "candidates", f"(n_sets, {n_labels})")
            if sets.shape[1] != n_labels or not np.isin(sets, (0, 1)).all():
                raise ValueError(
                    f"candidates must be 0/1 vectors of shape (n_sets, {n_labels}), got shape "
                    f"{sets.shape}"
                )
            return distinct_rows(sets)
        if candidates == "label_sets":
            return self.posterior.label_sets
        if candidates != "all":
            raise ValueError(
                "candidates must be 'auto', 'all', 'label_sets' or an array of label vectors, "
                f"got {candidates!r}"
            )
        if n_labels > MAX_ALL_LABEL_SETS:
            raise ValueError(
                f"candidates='all' goes through 2^{n_labels} label vectors; the limit is "
                f"{MAX_ALL_LABEL_SETS} outputs. Use 'label_sets' or an array"
            )
        numbers = np.arange(2**n_labels)[:, None]
        return ((numbers >> np.arange(n_labels)[::-1]) & 1).astype(np.int8)


class _Classes(NamedTuple):
    """p(y | x) over the classes of a 1-D y."""

    targets: Targets  # of a 1-D y
    log_proba: np.ndarray  # (N, K), float64

    @property
    def n_rows(self):
        """Number of rows."""
        return len(self.log_proba)

    def sample(self, n_samples, method, burn_in, random_state):
        """Draw classes (N, n_samples), exactly."""
        _check_count("n_samples", n_samples)
        mass = np.exp(self.log_proba).cumsum(axis=1)
        u = uniforms(random_key(random_state), np.arange(len(mass)), 0, n_samples)
        index = (u[:, :, None] * mass[:, None, -1:] > mass[:, None, :-1]).sum(axis=2)
        return self.targets.classes[index]

    def log_proba_of(self, visible, method, random_state):
        """Return the log-probability (N,) of the classes of visible units (N, V)."""
        index = np.searchsorted(self.targets.classes, self.targets.decode(visible))
        return self.log_proba[np.arange(len(index)), index]

    def top(self, k, candidates, method, random_state):
        """Return the `TopLabelSets` among all classes."""
        _check_enough(k, self.log_proba.shape[1], "classes")
        best = np.argsort(-self.log_proba, axis=1, kind="stable")[:, :k]
        proba = np.exp(np.take_along_axis(self.log_proba, best, axis=1))
        return TopLabelSets(self.targets.classes[best], proba)


def _log_partition(posterior, method, seed):
    """Return log Z (N,) of each row's model given the known labels."""
    method = resolve_method(
        method, "method", lambda: available_methods(posterior.energy, "log_partition")
    )
    if method.is_random and getattr(method, "random_state", None) is None:
        method = method.with_options(random_state=seed)
    return posterior.infer(method, returns="log_partition").log_partition


def _check_count(name, value):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an int of at least 1, got {value!r}")


def _check_enough(k, n, candidates):
    if k > n:
        raise ValueError(f"k={k} is larger than the number of {candidates}, {n}")
