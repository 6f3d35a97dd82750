"""scikit-learn's pipeline with all that its last step answers."""

from sklearn import pipeline
from sklearn.utils.metaestimators import available_if

from skcrbm.utils.classifiers import call_given, final_model, inner_method
from skcrbm.utils.labels import RANK, ranked_index

__all__ = ["Pipeline", "make_pipeline"]


def _final_has(name):
    """Return whether the model at the end has a method, as a function of the pipeline."""
    return lambda self: bool(hasattr(final_model(self)[0], name))


def _answer(self, method, X, *args, **options):
    return _with_rows_of(X, inner_method(self, method)(X, *args, **options))


class Pipeline(pipeline.Pipeline):
    """scikit-learn's `Pipeline` that passes on the questions about labels, too.

    `sample`, `predict_topk`, `predict_pairwise_proba`, `predict_with_gap` and
    ``score_samples(X, y)`` are those of the last step (of the best model, if it is a search), on X
    as the steps before transform it; a method that it lacks is lacking here. `predict`,
    `predict_proba` and `decision_function` take `y_known`, with metadata routing or without.
    Everything else is scikit-learn's.

    Parameters
    ----------
    steps : list of (str, estimator)
    transform_input, memory, verbose
        As in :class:`sklearn.pipeline.Pipeline`.

    Attributes
    ----------
    label_names_ : ndarray of str (n_outputs,)
        Of the last step, where y has names.

    See Also
    --------
    make_pipeline : The same without names for the steps.
    skcrbm.ensemble.make_stacked : Makes such a pipeline.

    Notes
    -----
    The displays of `skcrbm.inspection`, `DecodedClassifier` and `masked_scorer` look for the model
    at the end of any pipeline, scikit-learn's too.

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

    @property
    def label_names_(self):
        """Names of the labels, of the last step."""
        return final_model(self)[0].label_names_

    @available_if(_final_has("set_label_output"))
    def set_label_output(self, container=None):
        """Set the container of predictions, as the last step's method does.

        Parameters
        ----------
        container : {"default", "pandas"}, default=None
            Rows of data frames have the index of X, also where the steps before make arrays of it.

        Returns
        -------
        self
        """
        final_model(self)[0].set_label_output(container)
        return self

    @available_if(_final_has("predict"))
    def predict(self, X, y_known=None, **params):
        """Predict labels.

        Parameters
        ----------
        X : array-like
            What the first step takes.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, for a last step that takes them.
        **params : dict
            As scikit-learn's, without `y_known`.

        Returns
        -------
        ndarray, data frame or series
        """
        return self._given("predict", X, y_known, params)

    @available_if(_final_has("predict_proba"))
    def predict_proba(self, X, y_known=None, **params):
        """Probabilities of labels.

        Parameters
        ----------
        X, y_known, **params
            As in `predict`.

        Returns
        -------
        ndarray or data frame
        """
        return self._given("predict_proba", X, y_known, params)

    @available_if(_final_has("decision_function"))
    def decision_function(self, X, y_known=None, **params):
        """Scores of labels.

        Parameters
        ----------
        X, y_known, **params
            As in `predict`.

        Returns
        -------
        ndarray, data frame or series
        """
        return self._given("decision_function", X, y_known, params)

    def _given(self, method, X, y_known, params):
        if y_known is None:
            return _with_rows_of(X, getattr(super(), method)(X, **params))
        return _with_rows_of(X, call_given(self, method, X, y_known, **params))

    @available_if(_final_has("score_samples"))
    def score_samples(self, X, *args, **options):
        """Log-likelihoods, as the last step's method: ``score_samples(X, y)`` of a joint model.

        Parameters
        ----------
        X : array-like
            What the first step takes.
        *args, **options
            For the method, see :meth:`skcrbm.CRBMClassifier.score_samples`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return _answer(self, "score_samples", X, *args, **options)

    @available_if(_final_has("sample"))
    def sample(self, X, *args, **options):
        """Draw labels.

        Parameters
        ----------
        X : array-like
            What the first step takes.
        *args, **options
            For the method, see :meth:`skcrbm.CRBMClassifier.sample`.

        Returns
        -------
        ndarray
        """
        return _answer(self, "sample", X, *args, **options)

    @available_if(_final_has("predict_topk"))
    def predict_topk(self, X, *args, **options):
        """Return the most probable label vectors, with their probabilities.

        Parameters
        ----------
        X : array-like
            What the first step takes.
        *args, **options
            For the method, see :meth:`skcrbm.CRBMClassifier.predict_topk`.

        Returns
        -------
        labels, proba
        """
        return _answer(self, "predict_topk", X, *args, **options)

    @available_if(_final_has("predict_pairwise_proba"))
    def predict_pairwise_proba(self, X, *args, **options):
        """Probabilities that two labels are on together.

        Parameters
        ----------
        X : array-like
            What the first step takes.
        *args, **options
            For the method, see :meth:`skcrbm.CRBMClassifier.predict_pairwise_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_outputs)
        """
        return _answer(self, "predict_pairwise_proba", X, *args, **options)

    @available_if(_final_has("predict_with_gap"))
    def predict_with_gap(self, X, *args, **options):
        """Predict labels with a certificate.

        Parameters
        ----------
        X : array-like
            What the first step takes.
        *args, **options
            For the method, see :meth:`skcrbm.LMBMClassifier.predict_with_gap`.

        Returns
        -------
        labels, objective, gap
        """
        return _answer(self, "predict_with_gap", X, *args, **options)


def make_pipeline(*steps, **options):
    """Make a `Pipeline` of steps that get their names from their classes.

    Parameters
    ----------
    *steps : estimators
    **options : dict
        `memory`, `transform_input`, `verbose`, as of :func:`sklearn.pipeline.make_pipeline`.

    Returns
    -------
    Pipeline

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
    """Return an answer with the index of X, where both are pandas containers."""
    if not hasattr(X, "iloc"):
        return answer
    if isinstance(answer, tuple):
        parts = [_with_rows_of(X, part) for part in answer]
        return answer._make(parts) if hasattr(answer, "_make") else tuple(parts)
    if not hasattr(answer, "iloc"):
        return answer
    return answer.set_axis(_rows(X.index, answer.index))


def _rows(index, numbered):
    """Return the index of rows, or of rows and ranks as `numbered` has them."""
    if numbered.names[-1] != RANK:
        return index
    return ranked_index(index, len(numbered) // max(len(index), 1))
