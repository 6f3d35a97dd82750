"""Hidden units as features of another model."""

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from skcrbm.estimators._joint import JointClassifier
from skcrbm.utils.parallel import one_blas_thread


class HiddenUnitsClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, JointClassifier):
    """Base of the models with hidden units, of which `weights_` has a column each."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.weights_.shape[1]

    def transform(self, X, y_known=None):
        """P(h_j = 1 | x) of the hidden units, by the inference method of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: P(h_j = 1 | x, y_known).

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
        """
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            return posterior.infer().marginals[:, posterior.energy.n_visible :]
