"""What all classifiers over `Targets` share."""

from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skcrbm.utils.features import check_same_length


class TargetsMixin(ClassifierMixin):
    """Mixin of classifiers that keep what y is as `_targets`."""

    def score(self, X, y, sample_weight=None):
        """Accuracy; for 2-D y subset accuracy over the observed entries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            NaN in 2-D y = not observed; rows without an observed entry are left out.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        check_same_length(X, y, sample_weight)
        return self._targets.accuracy(y, self.predict(X), sample_weight)
