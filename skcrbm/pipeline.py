"""A pipeline with all prediction methods of its last step, and a transformer of sequences."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn import pipeline
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skcrbm.targets.names import RANK, ranked_index
from skcrbm.targets.sequences import list_of, positions
from skcrbm.targets.wrapped import call_given, final_model, inner_method
from skcrbm.utils.sklearn_private import check_feature_names
from skcrbm.utils.validation import check_order, note_features, take_rows

__all__ = ["Pipeline", "SequenceTransformer", "make_pipeline"]


def _final_has(name):
    """Return a function that tells whether the final model of a pipeline has the method `name`."""
    return lambda self: bool(hasattr(final_model(self)[0], name))


def _answer(self, method, X, *args, **options):
    return _with_rows_of(X, inner_method(self, method)(X, *args, **options))


class Pipeline(pipeline.Pipeline):
    """scikit-learn's `Pipeline` with the additional prediction methods of this package.

    `sample`, `predict_topk`, `predict_pairwise_proba`, `score_label_sets`, `predict_with_gap` and
    ``score_samples(X, y)`` transform X by the first steps and call the method of the same name of
    the last step (or of its best model, if the last step is a search). The pipeline has one of
    these methods only if the last step has it. `predict`, `predict_proba`, `predict_log_proba`,
    `decision_function` and `score` have an additional argument `y_known`, whether metadata routing
    is on or off. Everything else is as in scikit-learn.

    Parameters
    ----------
    steps : list of (str, estimator)
        Names and estimators of the steps, in order.
    transform_input, memory, verbose
        Parameters of :class:`sklearn.pipeline.Pipeline`.

    Attributes
    ----------
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels, if y in `fit` had names.

    See Also
    --------
    make_pipeline : Make a pipeline with automatic names for the steps.
    skcrbm.ensemble.make_stacked : Make a pipeline of stacked classifiers.

    Notes
    -----
    The displays of `skcrbm.inspection`, `DecodedClassifier` and `masked_scorer` also work with
    scikit-learn's `Pipeline`, and use the model in its last step.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.pipeline import Pipeline
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = CRBMClassifier(alpha=0.1, random_state=0)
    >>> model = Pipeline([("scale", StandardScaler()), ("crbm", model)]).fit(X, Y)
    >>> model.predict_topk(X[:2], k=3).labels.shape, model.score_samples(X, Y).shape
    ((2, 3, 5), (150,))
    """

    def fit(self, X, y=None, **params):
        """Fit the steps one after the other.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        y : array-like, default=None
            Labels.
        **params : dict
            Parameters of the steps, as in scikit-learn.

        Returns
        -------
        self : object
            This object.
        """
        check_order(X=X, y=y, **params)  # the steps may return arrays without an index
        return super().fit(X, y, **params)

    @property
    def label_names_(self):
        """Names of the labels, from the last step."""
        return final_model(self)[0].label_names_

    @available_if(_final_has("set_label_output"))
    def set_label_output(self, container=None):
        """Set the container of predictions by calling `set_label_output` of the last step.

        Parameters
        ----------
        container : {"default", "pandas", "polars"}, default=None
            Container of the predictions, as in :meth:`skcrbm.CRBMClassifier.set_label_output`. Data
            frames of pandas get the index of the pipeline's input X.

        Returns
        -------
        self : object
            This object.
        """
        final_model(self)[0].set_label_output(container)
        return self

    @available_if(_final_has("predict"))
    def predict(self, X, y_known=None, **params):
        """Predict labels.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels. The last step must
            support known labels.
        **params : dict
            Further parameters, as in scikit-learn.

        Returns
        -------
        labels : ndarray, data frame or series
            Predicted labels.
        """
        return self._given("predict", X, y_known, params)

    @available_if(_final_has("predict_proba"))
    def predict_proba(self, X, y_known=None, **params):
        """Predict probabilities of labels.

        Parameters
        ----------
        X, y_known, **params
            The parameters of `predict`.

        Returns
        -------
        proba : ndarray or data frame
            Probabilities of labels.
        """
        return self._given("predict_proba", X, y_known, params)

    @available_if(_final_has("predict_log_proba"))
    def predict_log_proba(self, X, y_known=None, **params):
        """Predict logarithms of the probabilities of labels.

        Parameters
        ----------
        X, y_known, **params
            The parameters of `predict`.

        Returns
        -------
        log_proba : ndarray or data frame
            Logarithms of the probabilities.
        """
        return self._given("predict_log_proba", X, y_known, params)

    @available_if(_final_has("decision_function"))
    def decision_function(self, X, y_known=None, **params):
        """Return decision scores of labels or classes.

        Parameters
        ----------
        X, y_known, **params
            The parameters of `predict`.

        Returns
        -------
        scores : ndarray or data frame
            Decision scores.
        """
        return self._given("decision_function", X, y_known, params)

    @available_if(_final_has("score"))
    def score(self, X, y=None, sample_weight=None, y_known=None, **params):
        """Return the score of the last step.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        y : array-like, default=None
            True labels.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of single labels if the last step supports them.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, as in `predict`; they do not count in the score.
        **params : dict
            Further parameters, as in scikit-learn.

        Returns
        -------
        score : float
            Score of the last step.
        """
        check_order(X=X, y=y, sample_weight=sample_weight)
        if y_known is None:
            return super().score(X, y, sample_weight, **params)
        return call_given(self, "score", X, y_known, y=y, sample_weight=sample_weight, **params)

    def _given(self, method, X, y_known, params):
        if y_known is None:
            return _with_rows_of(X, getattr(super(), method)(X, **params))
        return _with_rows_of(X, call_given(self, method, X, y_known, **params))

    @available_if(_final_has("score_samples"))
    def score_samples(self, X, *args, **options):
        """Return the log-likelihoods that ``score_samples(X, y)`` of the last step computes.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        *args, **options
            Arguments of the method, see :meth:`skcrbm.CRBMClassifier.score_samples`.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)
            Log-likelihood of the labels of each row.
        """
        return _answer(self, "score_samples", X, *args, **options)

    @available_if(_final_has("sample"))
    def sample(self, X, *args, **options):
        """Draw labels from the predicted distribution of each row.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        *args, **options
            Arguments of the method, see :meth:`skcrbm.CRBMClassifier.sample`.

        Returns
        -------
        labels : ndarray
            Drawn labels.
        """
        return _answer(self, "sample", X, *args, **options)

    @available_if(_final_has("score_label_sets"))
    def score_label_sets(self, X, *args, **options):
        """Return the log-probabilities of given label vectors under the last step.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs of the first step.
        *args, **options
            Arguments of the method, see :meth:`skcrbm.CRBMClassifier.score_label_sets`.

        Returns
        -------
        ndarray of shape (n_samples, n_sets)
            Values of log p(y | x).
        """
        return _answer(self, "score_label_sets", X, *args, **options)

    @available_if(_final_has("predict_topk"))
    def predict_topk(self, X, *args, **options):
        """Return the most probable label vectors of each row, with their probabilities.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        *args, **options
            Arguments of the method, see :meth:`skcrbm.CRBMClassifier.predict_topk`.

        Returns
        -------
        labels, proba : ndarray or data frame
            Label vectors and their probabilities.
        """
        return _answer(self, "predict_topk", X, *args, **options)

    @available_if(_final_has("predict_pairwise_proba"))
    def predict_pairwise_proba(self, X, *args, **options):
        """Return, for each pair of labels, the probability that both labels are positive.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        *args, **options
            Arguments of the method, see :meth:`skcrbm.CRBMClassifier.predict_pairwise_proba`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_outputs, n_outputs)
            Probability of each pair of labels.
        """
        return _answer(self, "predict_pairwise_proba", X, *args, **options)

    @available_if(_final_has("predict_with_gap"))
    def predict_with_gap(self, X, *args, **options):
        """Predict labels, and return a bound on the distance of their objective from the optimum.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        *args, **options
            Arguments of the method, see :meth:`skcrbm.LMBMClassifier.predict_with_gap`.

        Returns
        -------
        labels, objective, gap : ndarray
            Labels, their objective, and the largest possible improvement of the objective.
        """
        return _answer(self, "predict_with_gap", X, *args, **options)


def make_pipeline(*steps, **options):
    """Make a `Pipeline` whose steps are named after their classes, in lower case.

    Parameters
    ----------
    *steps : estimators
        Steps of the pipeline.
    **options : dict
        `memory`, `transform_input` and `verbose` of :func:`sklearn.pipeline.make_pipeline`.

    Returns
    -------
    pipeline : Pipeline
        The pipeline.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.pipeline import make_pipeline
    >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
    >>> model = make_pipeline(StandardScaler(), CRBMClassifier(alpha=0.1, random_state=0))
    >>> model.fit(X, Y).sample(X[:2], n_samples=4, random_state=0).shape
    (2, 4, 5)
    """
    return Pipeline(pipeline.make_pipeline(*steps).steps, **options)


def _with_rows_of(X, answer):
    """Return the output of the last step, with the index of X if both are pandas objects."""
    if not hasattr(X, "iloc"):
        return answer
    if isinstance(answer, tuple):
        parts = [_with_rows_of(X, part) for part in answer]
        return answer._make(parts) if hasattr(answer, "_make") else tuple(parts)
    if not hasattr(answer, "iloc"):
        return answer
    return answer.set_axis(_rows(X.index, answer.index))


def _rows(index, numbered):
    """Return the index of an output, given the `index` of X and the index `numbered` of the output.

    The output of `predict_topk` has k rows for each row of X. Its index repeats each entry of
    `index` k times, with the ranks of the k label vectors.
    """
    if numbered.names[-1] != RANK:
        return index
    return ranked_index(index, len(numbered) // max(len(index), 1))


def _names_features(self):
    """Return True if the transformer of a `SequenceTransformer` has names for its features."""
    return hasattr(getattr(self, "transformer_", self.transformer), "get_feature_names_out")


# A list of tables is not a container that `set_output` knows; the transformer inside may have its
# own setting.
class SequenceTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Apply a transformer of rows to all positions of a list of sequences.

    `ChainCRF` takes lists of sequences, but scikit-learn's transformers take tables. This class
    puts the positions of all sequences into a single table (or a single list, if positions are
    dicts or strings), transforms it, and splits the result into the sequences.

    Parameters
    ----------
    transformer : transformer
        Transformer of the positions, for example ``StandardScaler()`` for arrays,
        ``FeatureHasher()`` for dicts, or a pipeline of transformers. A clone of it is fitted.

    Attributes
    ----------
    transformer_ : transformer
        Fitted transformer.
    n_features_in_ : int
        Number of columns, if the sequences are arrays, sparse matrices or data frames.
    feature_names_in_ : ndarray of str
        Names of the columns, if the sequences are data frames with strings as column names.

    Notes
    -----
    Data frames become a single data frame, so that a `ColumnTransformer` can choose columns by
    name. All data frames need the same columns in the same order, as in the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skcrbm import ChainCRF
    >>> from skcrbm.pipeline import SequenceTransformer, make_pipeline
    >>> X = [np.array([[100.0], [300.0]]), np.array([[310.0], [90.0], [120.0]])]
    >>> y = [["low", "high"], ["high", "low", "low"]]
    >>> model = make_pipeline(SequenceTransformer(StandardScaler()), ChainCRF(alpha=0.1))
    >>> model.fit(X, y).predict(X)[1].tolist()
    ['high', 'low', 'low']
    """

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def fit(self, X: Iterable, y: Any = None):
        """Fit the transformer on the positions of all sequences.

        Parameters
        ----------
        X : list of sequences
            Arrays or sparse matrices (n_positions, n_features), or lists of dicts or strings.
        y : None
            Ignored.
        """
        rows, start = positions(X)
        if start[-1] == 0:
            raise ValueError("all sequences of X are empty, so there is nothing to fit")
        self.transformer_ = clone(self.transformer).fit(rows)
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)  # an earlier fit may have set this attribute
        if hasattr(rows, "shape"):
            note_features(self, rows)
        return self

    def transform(self, X: Iterable) -> list:
        """Transform the positions of the sequences.

        Parameters
        ----------
        X : list of sequences

        Returns
        -------
        list of arrays or sparse matrices (n_positions, n_new_features)
        """
        check_is_fitted(self, "transformer_")
        X = list_of(X, "X", "sequences")
        rows, start = positions(X)
        if start[-1] == 0:  # transformers need at least one row
            return [np.empty((0, 0)) for _ in pairwise(start)]
        if hasattr(self, "feature_names_in_"):
            check_feature_names(self, rows, reset=False)
        rows = self.transformer_.transform(rows)
        parts = [take_rows(rows, slice(a, b)) for a, b in pairwise(start.tolist())]
        return [_with_rows_of(table, part) for table, part in zip(X, parts)]

    @available_if(_names_features)
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the new features, from the fitted transformer.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns, as in the transformer.

        Returns
        -------
        ndarray of str
        """
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        return tags
