"""Answer questions about p(x), such as `score_samples`, and validate X."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from skcrbm.energies.states import unchecked
from skcrbm.inference import (
    AnnealedImportanceSampling,
    Gibbs,
    InferenceMethod,
    available_methods,
)
from skcrbm.inference.base import resolve_method
from skcrbm.inference.running import run_inference
from skcrbm.utils.options import check_parameters, is_auto
from skcrbm.utils.pickling import SavedModel
from skcrbm.utils.validation import check_count, check_order, checked_features, weighted_rows
from skcrbm.utils.warnings import warn_user

# Result that inference must return for a method of a density. Methods of densities that are not
# listed need "marginals".
_ANSWERS = {"score_samples": "log_partition", "impute": "map"}


class DensityQuestions(DensityMixin, SavedModel, BaseEstimator, metaclass=ABCMeta):
    """Base class of all densities, whose methods compute results of the fitted model `energy_`.

    Examples of results are log-probabilities of rows, marginals and samples. A subclass trains the
    model, and has the hyperparameters `inference`, `binarize` and `n_jobs`.
    """

    inference: str | InferenceMethod
    binarize: float | None
    n_jobs: int | None

    energy_: Any
    n_features_in_: int

    # True if `score_samples` with inference="auto" estimates log Z of models that are too large for
    # exact inference.
    _estimates_log_z = True

    # Hyperparameters that every method of a fitted model validates first.
    _query_parameters = ("inference", "binarize", "n_jobs")

    # ---------------------------------------------------------------- the data

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _visible(self, X, reset):
        """Validate X, and return a float array (N, n_features) of 0, 1 and NaN."""
        X = checked_features(self, X, allow_nan=True, reset=reset)
        X = X.toarray() if sparse.issparse(X) else X
        missing = np.isnan(X)
        if self.binarize is None:
            if not (missing | (X == 0) | (X == 1)).all():
                raise ValueError(
                    "X must hold only 0, 1 and NaN if binarize=None; set binarize to a number, "
                    "above which values count as 1"
                )
            return X
        outside = np.nanmin(X, initial=0) < 0 or np.nanmax(X, initial=1) > 1
        if outside and 0 < self.binarize < 1:
            warn_user(
                f"X has values outside of [0, 1]; values above binarize={self.binarize} count as "
                "1, all others as 0. Set binarize to the threshold of the columns, and write NaN "
                "for values that are not known"
            )
        visible = np.greater(X, self.binarize).astype(X.dtype)
        visible[missing] = np.nan
        return visible

    def _check_training_data(self, X, y, sample_weight, *, reset):
        check_order(X=X, sample_weight=sample_weight)
        visible = self._visible(X, reset)
        (visible,), weight = weighted_rows((visible,), sample_weight)
        return np.empty((len(visible), 0), visible.dtype), visible, weight

    # --------------------------------------------------------------- questions

    def _given_method(self):
        """Return the method that the user chose by `inference`."""
        return resolve_method(self.inference)

    def _query_method(self, energy, wanted):
        """Return the inference method for `wanted`, the name of a method such as "score_samples".

        ``inference="auto"`` stands for exact inference. If the model is too large for exact
        inference, "score_samples" uses annealed importance sampling, and a ValueError is raised in
        all other cases.
        """
        if not is_auto(self.inference):
            return self._method_answering(energy, {_ANSWERS.get(wanted, "marginals")})
        if is_small(energy):
            return resolve_method("exact")
        # Fix the seed, so that a row has the same score in each call, and different models are
        # compared by the same random numbers.
        estimate = AnnealedImportanceSampling(random_state=0)
        if wanted == "score_samples" and self._estimates_log_z and estimate.supports(energy):
            return estimate
        raise ValueError(too_large(energy, wanted))

    def _method_answering(self, energy, answers):
        """Return the user's inference method; raise an error if it cannot compute `answers`."""
        method = self._given_method()
        lacking = answers - method.supports(energy)
        if lacking:
            raise ValueError(
                f"inference={self.inference!r} cannot compute {', '.join(sorted(lacking))} of "
                f"{type(energy).__name__}, which is needed here; these methods can: "
                f"{', '.join(map(repr, available_methods(energy, answers)))}"
            )
        return method

    def _check_rows(self, X):
        """Return X (N, n_features) as 0, 1 and NaN, after validation."""
        check_is_fitted(self)
        check_parameters(self, self._query_parameters)
        return self._visible(X, False)

    def _clamp(self, visible):
        """Return the observed entries (N, n_variables), with NaN for all other variables."""
        n_hidden = self.energy_.n_hidden
        return np.hstack([visible, np.full((len(visible), n_hidden), np.nan)])

    def score_samples(self, X):
        """Return the log-probability of the observed entries of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`; entries that are NaN are summed out.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-probabilities in nats; approximations if `inference` is approximate or the model is
            large.

        Raises
        ------
        ValueError
            With ``inference="auto"``, if the model is too large for exact inference and its
            log-partition cannot be estimated.
        """
        visible = self._check_rows(X)
        energy = self.energy_
        method = self._query_method(energy, "score_samples")
        log_z = self._log_z(visible, method)
        rows = energy.rows(np.zeros(len(visible), int))
        log_weight = unchecked(rows.log_weight)(np.nan_to_num(visible))
        partly = np.flatnonzero(np.isnan(visible).any(axis=1))
        if len(partly):
            if is_auto(self.inference) and isinstance(method, AnnealedImportanceSampling):
                method = resolve_method(
                    "sum_product"
                )  # annealing chains for each row would take too long
            log_weight[partly] = run_inference(
                energy.rows(np.zeros(len(partly), int)),
                method,
                clamp=self._clamp(visible[partly]),
                returns="log_partition",
                n_jobs=self.n_jobs,
            ).log_partition
        return log_weight - log_z

    def score(self, X, y=None):
        """Return the mean of `score_samples`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X)))

    def marginals(self, X):
        """Return P(x_i = 1) of each entry given the observed entries of its row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`; observed entries keep their values.

        Returns
        -------
        ndarray of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            With ``inference="auto"``, if the model is too large for exact inference.
        """
        visible = self._check_rows(X)
        return self._beliefs(visible, "marginals")[:, : visible.shape[1]]

    def _log_z(self, visible, method):
        """Return log Z of the model: a number, or an array (N,) if log Z depends on the row."""
        return run_inference(self.energy_, method, returns="log_partition").log_partition[0]

    def _beliefs(self, visible, wanted):
        """Return marginals (N, n_variables) given the observed entries."""
        energy = self.energy_.rows(np.zeros(len(visible), int))
        method = self._query_method(self.energy_, wanted)
        clamp = self._clamp(visible)
        return run_inference(
            energy, method, clamp=clamp, returns="marginals", n_jobs=self.n_jobs
        ).marginals

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw rows from the model.

        Draws are exact if the model is small enough for "exact", else they come from Gibbs chains.

        Parameters
        ----------
        n_samples : int, default=1
        given : array-like of shape (n_features,), default=None
            Value 0 or 1 of each column whose value is given, and NaN for the columns to draw.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of int of shape (n_samples, n_features)
        """
        clamp = self._check_given(n_samples, given)
        return self._draw(self._sampling_method(n_samples), n_samples, clamp, random_state)

    def _sampling_method(self, n_samples):
        if is_small(self.energy_):
            return resolve_method("exact")
        return Gibbs(n_chains=n_samples)

    def _check_given(self, n_samples, given):
        """Validate the arguments of `sample`; return the given values (1, n_variables), or None."""
        check_is_fitted(self)
        check_parameters(self, self._query_parameters)
        check_count("n_samples", n_samples)
        if given is None:
            return None
        return self._clamp(self._given_values(given)[None])

    def _given_values(self, given):
        """Validate `given`, and return the state of each column; NaN for a value to draw."""
        n_features = self.n_features_in_
        try:
            given = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"given must hold 0, 1 or NaN: {error}") from error
        if given.shape != (n_features,):
            raise ValueError(
                f"given must have shape ({n_features},), with NaN for values to draw; got "
                f"{given.shape}"
            )
        if not (np.isnan(given) | (given == 0) | (given == 1)).all():
            raise ValueError("given must hold 0 or 1, or NaN for a value to draw")
        return given

    def _draw(self, method, n_samples, clamp, random_state):
        """Draw 0/1 rows (n_samples, n_features) by `method`, which has an option `random_state`."""
        found = run_inference(
            self.energy_,
            method.with_options(random_state=random_state),
            clamp=clamp,
            returns="samples",
            n_samples=n_samples,
            n_jobs=self.n_jobs,
        )
        return self._rows_of_states(found.samples[0, :, : self.n_features_in_].astype(np.int64))

    def _rows_of_states(self, states):
        """Convert states of the visible variables to rows of X, (N, n_features)."""
        return states


def is_small(energy):
    """Return True if the model is small enough for exact inference."""
    return energy.n_enumerated() <= energy.max_enumerated


def too_large(energy, wanted):
    """Return the error message for a large model if `wanted` needs exact inference."""
    others = "inference='sum_product', 'tree_reweighted' or 'mean_field', or for log-probabilities "
    others += "'ais' if it serves the model"
    if wanted == "impute":
        others = "inference='max_product' or 'icm'"
    return (
        f"{wanted} with inference='auto' needs exact inference, which would take 2^"
        f"{energy.n_enumerated()} states (limit 2^{energy.max_enumerated}) for this model; name "
        f"an approximate method: {others}"
    )
