"""Helpers that several multi-label comparisons share, and that scikit-learn lacks."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone


class LabelPowerset(ClassifierMixin, BaseEstimator):
    """A multi-class classifier over the distinct label sets.

    Parameters
    ----------
    classifier : estimator
    """

    def __init__(self, classifier):
        self.classifier = classifier

    def fit(self, X, Y):
        """Fit the classifier on the index of each row's label set."""
        self.classes_ = np.tile([0, 1], (Y.shape[1], 1))
        self.sets_, index = np.unique(Y, axis=0, return_inverse=True)
        self.classifier_ = clone(self.classifier).fit(X, index.ravel())
        return self

    def predict(self, X):
        """Return the most probable label set."""
        return self.sets_[self.classifier_.predict(X)]

    def predict_proba(self, X):
        """Return the marginals of the distribution over label sets."""
        return self.classifier_.predict_proba(X) @ self.sets_


def marginals(model, X):
    """Return P(y_i = 1 | x) of shape (n, L), whatever form the model returns."""
    proba = model.predict_proba(X)
    return np.column_stack([p[:, 1] for p in proba]) if isinstance(proba, list) else proba
