"""Base of all classifiers over `Targets`: pickles, names of labels, accuracy."""

from __future__ import annotations

import functools
from typing import ClassVar

from sklearn.base import ClassifierMixin
from sklearn.utils._optional_dependencies import check_pandas_support
from sklearn.utils.validation import check_is_fitted

from skcrbm.utils.features import check_same_length
from skcrbm.utils.label_names import all_strings
from skcrbm.utils.pickling import checked_state, state_with_version

_CONTAINERS = ("default", "pandas")
# Of 1-D y scikit-learn takes these by position, as arrays.
_SCORES = ("predict_proba", "decision_function")


class TargetsMixin(ClassifierMixin):
    """Mixin of classifiers whose `_targets` describe y; pickles say which version wrote them.

    It stands before `BaseEstimator` in the bases of a class.
    """

    #: Attributes that every fitted object has. A pickle without them is refused.
    _saved: ClassVar[tuple] = ()

    def __getstate__(self):
        return state_with_version(super().__getstate__())

    def __setstate__(self, state):
        super().__setstate__(checked_state(type(self), state))

    @property
    def label_names_(self):
        """Names (n_outputs,) of the labels, where y came with column names that are strings."""
        names = self._targets.names if "_targets" in vars(self) else None
        if not all_strings(names):
            raise AttributeError(
                f"this {type(self).__name__} has no label_names_: it has them after a fit on a y "
                "that is a data frame with strings as column names, or a series with a name"
            )
        return names

    def set_label_output(self, container=None):
        """Set in which container labels and their scores are predicted.

        For the labels what `set_output` is for the features of transformers.

        Parameters
        ----------
        container : {"default", "pandas"}, default=None
            "default": NumPy arrays. "pandas": data frames with a column for each label, under the
            names that y had in `fit`; of 1-D y `predict` is a series. Rows have the index of X, if
            X is a data frame. What has a matrix for each row (`sample`,
            `predict_pairwise_proba`) stays an array, and so do scores and probabilities of 1-D y,
            which scikit-learn's scorers and meta-estimators index as arrays. None: as it was.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On another container.
        ImportError
            If pandas is not installed.

        Notes
        -----
        `clone` and pickles keep it.
        """
        if container is None:
            return self
        if container not in _CONTAINERS:
            raise ValueError(f"container must be 'default' or 'pandas', got {container!r}")
        if container == "pandas":
            check_pandas_support("set_label_output('pandas')")
        # scikit-learn's `clone` copies this attribute of `set_output`.
        config = getattr(self, "_sklearn_output_config", {})
        self._sklearn_output_config = {**config, "labels": container}
        return self

    @property
    def _names_labels(self):
        """Whether predictions are to be pandas containers."""
        return getattr(self, "_sklearn_output_config", {}).get("labels") == "pandas"

    def score(self, X, y, sample_weight=None):
        """Accuracy; for 2-D y subset accuracy over the observed entries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            NaN in 2-D y = not observed; rows without an observed entry are left out. The columns
            of a data frame are matched by name.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        check_same_length(X, y, sample_weight)
        return self._targets.accuracy(y, self.predict(X), sample_weight)


def label_output(method):
    """Decorate a method of X that predicts: its answer is in the container of `set_label_output`.

    The answer is an array with a row for each of X, or a tuple that begins with one.
    """

    @functools.wraps(method)
    def named(self, X, *args, **kwargs):
        answer = method(self, X, *args, **kwargs)
        if not self._names_labels or (method.__name__ in _SCORES and not self._targets.multilabel):
            return answer
        index = X.index if hasattr(X, "iloc") else None
        if isinstance(answer, tuple):
            return (self._targets.framed(answer[0], index), *answer[1:])
        return self._targets.framed(answer, index)

    return named
