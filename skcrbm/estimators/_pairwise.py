"""Predictions of models with pairwise label weights: LMBMClassifier and SSVMClassifier."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.rules import resolve_decoder
from skcrbm.energies import IsingEnergy
from skcrbm.estimators._base import JointClassifier, linear_coef, linear_intercept
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import first_that_answers
from skcrbm.targets.classifier import label_output
from skcrbm.utils.fitting import CallbackSupportMixin
from skcrbm.utils.limits import AUTO_EXACT_LABELS, ESTIMATOR_TOL, MAX_MAGNITUDE
from skcrbm.utils.parallel import linear_fields, one_blas_thread
from skcrbm.utils.warnings import warn_user

# Type of the parameter `inference`: a method (its name or a configured object), or a list of
# methods. Each query, such as the best labels or the marginals, goes to the first method in the
# list that can answer the query.
InferenceOption: TypeAlias = "str | InferenceMethod | list[str | InferenceMethod]"
# Names of the methods that can compute marginals of labels.
MARGINAL_METHODS = ("exact", "mean_field", "sum_product", "tree_reweighted")


class PairwiseClassifier(CallbackSupportMixin, JointClassifier):
    """Base class of models with the score ``sum_i y_i (a_i . x + b_i) + sum_{i<k} s_ik y_i y_k``.

    A subclass learns a (`visible_coef_`), b (`visible_intercept_`) and s (`pairwise_coef_`). It has
    the hyperparameters `inference`, `decode` and `n_jobs`.
    """

    inference: InferenceOption
    decode: Any
    n_jobs: int | None
    label_sets_: Any
    visible_coef_: np.ndarray
    visible_intercept_: np.ndarray
    pairwise_coef_: np.ndarray

    _saved = (
        *("n_features_in_", "classes_", "_targets", "n_iter_", "dual_gap_"),
        *("visible_coef_", "visible_intercept_", "pairwise_coef_"),
    )
    #: Names of the inference methods that can find the best labels.
    _searches: tuple = ()
    #: Log-odds of a label divided by its field ``a_i . x + b_i``: 2, because labels are -1 and +1.
    _log_odds_scale = 2.0

    def __sklearn_is_fitted__(self):
        # `classes_` is not used here, because it exists even if the first fit failed.
        return hasattr(self, "visible_coef_")

    coef_ = linear_coef
    intercept_ = linear_intercept

    @property
    def _why_not_linear(self):
        if not (np.any(self.pairwise_coef_) or np.any(getattr(self, "clique_coef_", 0))):
            return None
        parts = "for the linear part and pairwise_coef_ for the weights of the pairs"
        return "weights of pairs of labels", parts

    def _posterior_of(self, X, known):
        """Return the `Posterior` of the rows of X, each of which defines a Boltzmann machine."""
        method = first_that_answers(self.inference, {"marginals"})
        if method is None:
            few = len(self.visible_coef_) <= AUTO_EXACT_LABELS
            # Without weights of pairs or cliques, mean field is exact, and the fastest method.
            joined = self.pairwise_coef_.any() or np.any(getattr(self, "clique_coef_", 0))
            method = "exact" if few else "tree_reweighted" if joined else "mean_field"
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            fields = linear_fields(X, self.visible_coef_, self.visible_intercept_)
        if not np.abs(fields).max(initial=0) <= MAX_MAGNITUDE:  # also raises if it is NaN
            raise ValueError("X times visible_coef_ is too large; scale the columns of X")
        method = resolve_method(method, valid_names=lambda: [*MARGINAL_METHODS])
        return self._posterior_with(
            self._energy_of(fields),
            method.with_defaults(tol=ESTIMATOR_TOL),
            known,
            state_methods={"map": self._search_method()},
            **self._posterior_options(),
        )

    def _energy_of(self, fields):
        """Return an energy with a model of the L labels for each of N rows, given `fields` (N, L).

        The field of a label is ``a_i . x + b_i``.
        """
        return IsingEnergy(self.pairwise_coef_, fields)

    def _posterior_options(self):
        """Return further arguments of the `Posterior`; subclasses override this."""
        return {}

    def _search_method(self) -> InferenceMethod:
        """Return the first method in `inference` that can find the best labels.

        If the list `inference` contains only methods for marginals, the result is branch and bound.
        A ValueError is raised if the list contains a method that can find neither labels nor
        marginals.
        """
        given = self.inference if isinstance(self.inference, list) else [self.inference]
        methods = [resolve_method(m, valid_names=lambda: [*self._searches]) for m in given]
        for method in methods:
            also_marginals = MARGINAL_METHODS if isinstance(self.inference, list) else ()
            if method.name not in (*self._searches, *also_marginals):
                raise ValueError(
                    f"inference must be one of {', '.join(map(repr, self._searches))}, a "
                    "configured object such as ICM(n_restarts=10), or a list of such a method and "
                    f"one of {', '.join(map(repr, MARGINAL_METHODS))}; got {method!r}"
                )
        searches = [method for method in methods if method.name in self._searches]
        return searches[0] if searches else resolve_method("branch_and_bound")

    def _label_scores(self, posterior):
        """Return the scores (N, L): half the log-odds of each label given the other labels.

        The other labels have their predicted values.
        """
        return 0.5 * posterior.energy.visible_log_odds(self._labels(posterior))

    def _binary_scores(self, posterior):
        return posterior.energy.fields[0]

    def _class_scores(self, posterior):
        """Return the score (N, K) of each class, up to a constant per row.

        The score of a class is the score of the label vector in which only the label of this class
        is 1.
        """
        return 2.0 * (posterior.energy.fields[0] - self.pairwise_coef_.sum(axis=1))

    def _labels(self, posterior):
        """Predict 0/1 labels (N, L) for a 2-D y; warn if the search reached its limit on a row."""
        rule = resolve_decoder(self.decode)
        if not rule.certified:
            return rule.decode(posterior)
        labels, _, gap = rule.decode_with_gap(posterior)
        method, n_open = posterior.state_methods["map"], np.count_nonzero(gap)
        if n_open and method.name == "branch_and_bound":
            warn_user(
                f"Branch and bound reached node_limit={method.node_limit} on {n_open} of "
                f"{len(gap)} rows. These rows get the best labels found so far; the objective of "
                f"the optimal labels may be better by up to {gap.max():.3g}. A larger "
                "pairwise_penalty makes the search shorter.",
                ConvergenceWarning,
            )
        return labels

    @label_output
    def predict_with_gap(self, X: ArrayLike, y_known: ArrayLike | None = None):
        """Predict labels, and bound the difference between their objective and the optimum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels. With
            ``decode="hinge"``, `objective` includes the hinge losses of the known labels.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_outputs)
            Predicted labels.
        objective : ndarray of shape (n_samples,)
            Negative score of the labels or, with ``decode="hinge"``, their hinge loss.
        gap : ndarray of shape (n_samples,)
            Upper bound on the difference between `objective` and the smallest objective of any
            labels; 0 if the labels are proven to be optimal. With ``inference="milp"`` the bound
            includes the tolerances of HiGHS, with "icm" it is infinite.

        Raises
        ------
        ValueError
            If y was 1-D in `fit`, or `decode` is neither "map" nor "hinge".
        """
        check_is_fitted(self)
        self._targets.require_multilabel("predict_with_gap")
        rule = resolve_decoder(self.decode)
        if not rule.certified:
            raise ValueError(
                f"predict_with_gap needs decode='hinge' or 'map'; decode={self.decode!r} does "
                "not search for the labels with the best objective, so there is no gap"
            )
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            labels, objective, gap = rule.decode_with_gap(posterior)
        return self._targets.decode(labels), objective, gap
