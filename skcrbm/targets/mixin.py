"""Base of all classifiers: pickles with a version, names of labels, accuracy."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import ClassifierMixin
from sklearn.utils._optional_dependencies import check_pandas_support

from skcrbm.utils.classifiers import check_outer_fitted
from skcrbm.utils.labels import all_strings
from skcrbm.utils.pickling import checked_state, state_with_version
from skcrbm.utils.validation import check_same_length

if TYPE_CHECKING:
    import numpy as np

_CONTAINERS = ("default", "pandas", "polars")
# scikit-learn indexes these scores of 1-D y by position, as arrays.
_SCORES = ("predict_proba", "decision_function")


class TargetsMixin(ClassifierMixin):
    """Mixin of classifiers whose `_targets` describe y; pickles name the version that wrote them.

    It must come before `BaseEstimator` in the bases of a class.
    """

    #: Attributes of every fitted object. A pickle that lacks them is refused.
    _saved: ClassVar[tuple] = ()

    def __getstate__(self):
        return state_with_version(super().__getstate__())

    def __setstate__(self, state):
        super().__setstate__(checked_state(type(self), state))

    @property
    def label_names_(self) -> np.ndarray:
        """Names (n_outputs,) of the labels, if y had strings as column names in `fit`.

        Other names, such as integers or the tuples of a MultiIndex, only match the columns of
        data frames and name the columns of predictions, as with scikit-learn's
        `feature_names_in_`.
        """
        names = self._targets.names if "_targets" in vars(self) else None
        if names is not None and not all_strings(names):
            raise AttributeError(
                f"this {type(self).__name__} has no label_names_, because the column names of y in "
                "fit were not all strings; data frames of set_label_output have these names"
            )
        if names is None:
            raise AttributeError(
                f"this {type(self).__name__} has no label_names_: it gets them from a fit on a y "
                "that is a data frame with strings as column names, or a series with a name"
            )
        return names

    def set_label_output(self, container: str | None = None):
        """Set the container of predicted labels and their scores.

        It is the counterpart of `set_output`, which concerns the features of transformers.

        Parameters
        ----------
        container : {"default", "pandas", "polars"}, default=None
            "default": NumPy arrays. "pandas", "polars": data frames with a column for each label,
            under the names that y had in `fit`; for 1-D y `predict` returns a series. In pandas
            rows have the index of X, if X is a data frame; in polars names are strings. Answers
            with a matrix per row (`sample`, `predict_pairwise_proba`) stay arrays, and so do scores
            and probabilities of 1-D y, because scikit-learn's scorers and meta-estimators index
            them as arrays. None: the container does not change.

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

        Notes
        -----
        `clone` and pickles keep the setting.
        """
        if container is None:
            return self
        if container not in _CONTAINERS:
            raise ValueError(
                f"container must be 'default', 'pandas' or 'polars', got {container!r}"
            )
        if container == "pandas":
            check_pandas_support("set_label_output('pandas')")
        elif container == "polars" and importlib.util.find_spec("polars") is None:
            raise ImportError("set_label_output('polars') requires polars")
        # scikit-learn's `clone` copies this attribute of `set_output`.
        config = getattr(self, "_sklearn_output_config", {})
        self._sklearn_output_config = {**config, "labels": container}
        return self

    @property
    def _label_container(self):
        """The container of predictions: "default", "pandas" or "polars"."""
        return getattr(self, "_sklearn_output_config", {}).get("labels", "default")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; for 2-D y the subset accuracy over the observed entries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            True labels. NaN in 2-D y means not observed; rows without an observed entry are left
            out. The columns of a data frame are matched by name.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        check_outer_fitted(self)
        check_same_length(X, y, sample_weight)
        return self._targets.accuracy(y, self.predict(X), sample_weight)


def label_output(method: Callable) -> Callable:
    """Decorate a predicting method, so that it answers in the container of `set_label_output`.

    The answer is an array with a row for each row of X, or a tuple that begins with such an array.
    """

    @functools.wraps(method)
    def named(self, X, *args, **kwargs):
        answer = method(self, X, *args, **kwargs)
        container = self._label_container
        if container == "default" or (method.__name__ in _SCORES and not self._targets.multilabel):
            return answer
        index = X.index if hasattr(X, "iloc") else None
        if isinstance(answer, tuple):
            return (self._targets.framed(answer[0], index, container), *answer[1:])
        return self._targets.framed(answer, index, container)

    return named
