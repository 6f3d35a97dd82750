"""Base class of all classifiers: names and containers of labels, `score`, and the saved state."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skcrbm.targets.frames import check_container, sparse_labels
from skcrbm.targets.names import all_strings
from skcrbm.utils.parameters import KnownParameters
from skcrbm.utils.pickling import built, checked_state, plain, shallow_copy, state_with_version
from skcrbm.utils.validation import check_same_rows

# Methods that return arrays for a 1-D y, because scikit-learn indexes their results by position.
_SCORES = ("predict_proba", "predict_log_proba", "decision_function")


class TargetsMixin(KnownParameters, ClassifierMixin):
    """Mixin of all classifiers: label names, label containers, `score` and the saved state.

    A classifier must list this base class before `BaseEstimator`, and set the attribute `_targets`.
    """

    _saved: ClassVar[tuple] = ()  # attributes of every fitted object; see `Versioned`
    __copy__ = shallow_copy

    def __getstate__(self):
        return plain(state_with_version(super().__getstate__()))

    def __setstate__(self, state):
        super().__setstate__(checked_state(type(self), built(state)))

    @property
    def label_names_(self) -> np.ndarray:
        """Names (n_outputs,) of the labels; exists if y in `fit` had strings as column names.

        Column names of other types, such as integers or the tuples of a MultiIndex, are not stored
        here, as in scikit-learn's `feature_names_in_`. But they are used to match the columns of
        data frames, and as column names of predictions.
        """
        names = self._targets.names if "_targets" in vars(self) else None
        if all_strings(names):
            return names
        reason = "it was not fitted on a y that is a data frame with strings as column names, or a "
        reason += "series with a name"
        if names is not None:
            reason = "the column names of y in fit were not all strings; data frames of "
            reason += "predictions still have these names"
        raise AttributeError(f"this {type(self).__name__} has no label_names_, because {reason}")

    def set_label_output(self, container: str | None = None):
        """Set the container of predicted labels, scores and probabilities.

        This is the counterpart of `set_output`, which sets the container of transformed features.

        Parameters
        ----------
        container : {"default", "pandas", "polars", "sparse"}, default=None
            "default" returns NumPy arrays. "sparse" returns the labels that `predict` gives for a
            2-D y as a CSR matrix, which saves memory if there are many labels; scores and
            probabilities stay arrays. "pandas" and "polars" return data frames with a column
            for each label, named as in the y of `fit`; for a 1-D y `predict` returns a series. In
            pandas, predictions have the index of X if X is a data frame; in polars, column names
            are strings. Results with a matrix per row (`sample`, `predict_pairwise_proba`) stay
            arrays. Scores and probabilities of a 1-D y stay arrays as well, because scikit-learn's
            scorers index them as arrays. None keeps the current container. Clones and pickles
            keep the setting.

        Returns
        -------
        self : object
            This estimator.

        Raises
        ------
        ValueError
            If the container is unknown.
        ImportError
            If the library of the container is not installed.
        """
        if container is None:
            return self
        check_container(container)
        # Store the setting beside the setting of `set_output`, because `clone` copies both.
        config = getattr(self, "_sklearn_output_config", {})
        self._sklearn_output_config = {**config, "labels": container}
        return self

    @property
    def _label_container(self):
        """Container of predictions: "default", "pandas", "polars" or "sparse"."""
        return getattr(self, "_sklearn_output_config", {}).get("labels", "default")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy or, for a 2-D y, the subset accuracy over the observed labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            True labels. Missing labels (NaN in a 2-D y) do not count, and rows without observed
            labels are left out. Data frames are matched to the labels by column name.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of single labels, see `skcrbm.metrics.masked_score`.

        Returns
        -------
        float
        """
        check_outer_fitted(self)
        check_same_rows(X, y, sample_weight)
        return self._targets.accuracy(y, self.predict(X), sample_weight)


def label_output(method: Callable) -> Callable:
    """Decorate a prediction method, so that it returns the container set by `set_label_output`.

    The method returns an array (N, ...), or a tuple whose first item is such an array.
    """

    @functools.wraps(method)
    def named(self, X, *args, **kwargs):
        answer = method(self, X, *args, **kwargs)
        container, multilabel = self._label_container, self._targets.multilabel
        is_score = method.__name__ in _SCORES
        if container == "default" or (is_score and not multilabel):
            return answer
        if container == "sparse":
            return sparse_labels(answer) if multilabel and not is_score else answer
        first, *rest = answer if isinstance(answer, tuple) else (answer,)
        framed = self._targets.framed(first, X.index if hasattr(X, "iloc") else None, container)
        return (framed, *rest) if isinstance(answer, tuple) else framed

    return named


def score_with_known(
    self: Any, X: Any, y: Any, sample_weight: Any = None, y_known: Any = None
) -> float:
    """Return the accuracy or, for a 2-D y, the subset accuracy.

    The subset accuracy is the share of rows in which all observed labels are predicted
    correctly.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        True labels. Missing labels (NaN in a 2-D y) do not count, and rows without observed
        labels are left out. Data frames are matched to the labels by column name.
    sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
        Weights of the rows, or of single labels, see `skcrbm.metrics.masked_score`.
    y_known : array-like of shape (n_samples, n_outputs), default=None
        Labels that are known beforehand, and NaN for the other labels, as in `predict`. Known
        labels do not count in the score.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is invalid, or all observed labels are known.
    """
    if y_known is None:
        return TargetsMixin.score(self, X, y, sample_weight)
    check_outer_fitted(self)
    check_same_rows(X, y, sample_weight, y_known)
    known = self._targets.check_known(y_known, X)
    y_pred = self.predict(X, y_known=y_known)
    return self._targets.accuracy(y, y_pred, sample_weight, known)


def check_outer_fitted(model: Any, attributes: Any = None) -> None:
    """Raise a NotFittedError if a meta-estimator is not fitted.

    If the inner estimator is fitted already, the message recommends `FrozenEstimator`, because
    `fit` of the meta-estimator would otherwise fit a clone of the inner estimator.
    """
    try:
        check_is_fitted(model, attributes)
    except NotFittedError as error:
        inner = getattr(model, "estimator", None)
        try:
            check_is_fitted(inner)
        except (AttributeError, NotFittedError, TypeError):
            raise error from None
        outer, name = type(model).__name__, type(inner).__name__
        if isinstance(inner, FrozenEstimator):
            raise NotFittedError(
                f"This {outer} is not fitted yet. Call fit(X, y) with labelled rows that its "
                "estimator was not fitted on; the frozen estimator is kept as it is"
            ) from None
        raise NotFittedError(
            f"This {outer} is not fitted yet. Its {name} is fitted, but fit of {outer} would fit a "
            f"clone of it. To keep the fitted {name}, use sklearn.frozen: "
            f"{outer}(FrozenEstimator(model)).fit(X, y)"
        ) from None
