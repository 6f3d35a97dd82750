"""What the models share that give each row an energy: predictions from its posterior."""

from sklearn.utils.validation import check_is_fitted

from skcrbm.estimators._base import BaseStructuredClassifier
from skcrbm.estimators._joint import JointQueriesMixin
from skcrbm.targets import label_output
from skcrbm.utils.parallel import one_blas_thread


class BaseEnergyClassifier(JointQueriesMixin, BaseStructuredClassifier):
    """Base of the models with an energy of the outputs given x, which define p(y | x).

    A subclass has ``_posterior_of(X, known)``; what its scores are made of is a `Posterior`.
    """

    def _posterior(self, X, y_known=None):
        check_is_fitted(self)
        X = self._check_predict_data(X)
        return self._posterior_of(X, self._targets.check_known(y_known, X.shape[0]))

    def _label_log_odds(self, posterior):
        return posterior.log_odds()

    @label_output
    def predict(self, X, y_known=None):
        """Predict labels by the rule `decode`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the others are predicted given them. The
            columns of a data frame are matched by name, labels without one are not known.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs) or (n_samples,)
            See `set_label_output` for data frames.
        """
        with one_blas_thread():
            return self._predict(self._posterior(X, y_known))

    @label_output
    def decision_function(self, X, y_known=None):
        """Score of each output, or of each class; positive where a binary output is on.

        See the class for what the scores are.

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
        """P(y_i = 1 | x) of each output, or the probability of each class.

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
