"""Scorers for model selection."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from skcrbm.metrics._masked import check_name, masked_score
from skcrbm.metrics._scores import SCORES
from skcrbm.utils.known_labels import final_model
from skcrbm.utils.label_names import indicator_by_name, is_frame
from skcrbm.utils.outputs import is_list_of_outputs, positive_columns


@dataclass(frozen=True, repr=False)
class _MaskedScorer:
    """Callable ``scorer(estimator, X, y)`` of one masked score."""

    name: str
    weight_request: bool | str | None = None

    def __repr__(self):
        return f"masked_scorer({self.name!r})"

    def set_score_request(self, *, sample_weight):
        """Return this scorer with a routing request for `sample_weight`: True, False or an alias.

        For scikit-learn's metadata routing, as with its own scorers.
        """
        return replace(self, weight_request=sample_weight)

    def get_metadata_routing(self):
        """Return the routing requests of this scorer."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self.weight_request)
        return request

    def __call__(self, estimator, X, y, *, sample_weight=None):
        kind = SCORES[self.name][0]
        # Of our own models; `label_names_` has those names alone that are strings.
        names = getattr(getattr(final_model(estimator)[0], "_targets", None), "names", None)
        if names is not None and is_frame(y):
            y = indicator_by_name(y, names, len(names))
        y = _rows_of(y)
        if kind == "labels":
            y_pred = _rows_of(estimator.predict(X))
            return masked_score(self.name, y, y_pred=y_pred, sample_weight=sample_weight)
        if kind == "ranking" and hasattr(estimator, "decision_function"):
            y_score = estimator.decision_function(X)
        elif hasattr(estimator, "predict_proba"):
            y_score = estimator.predict_proba(X)
            if is_list_of_outputs(y_score):
                classes = getattr(estimator, "classes_", None)
                y_score = positive_columns(y_score, classes, "predict_proba(X)")
        else:
            raise AttributeError(
                f"estimator should have predict_proba for {self.name!r}; "
                f"{type(estimator).__name__} has not"
            )
        y_score = _rows_of(y_score)
        return masked_score(self.name, y, y_score=y_score, sample_weight=sample_weight)


def _rows_of(values):
    """Return images (N, height, width) as rows of pixels, anything else as it is."""
    images = isinstance(values, np.ndarray) and values.ndim == 3
    return values.reshape(len(values), -1) if images else values


def masked_scorer(name):
    """Return a scorer that scores the observed entries of a multi-label target.

    scikit-learn's own scorers refuse a target with NaN. This one takes NaN for "not
    observed" and can be the `scoring` of :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.model_selection.cross_val_score` and the like. Give these a `cv` that
    takes NaN, such as ``KFold(5)`` or
    :class:`~skcrbm.model_selection.MultilabelStratifiedKFold`; an integer does not. For
    predictions out of fold there is :func:`skcrbm.model_selection.cross_val_predict`.

    Parameters
    ----------
    name : str
        Name of the score; :func:`masked_score` lists them.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, *, sample_weight=None)`` returns a float, higher is
        better. It calls `predict`, or `predict_proba` for the scores of probabilities, or
        `decision_function`, if there is one, else `predict_proba` for the ranking scores.
        With metadata routing, ``set_score_request(sample_weight=True)`` gives it weights.

    Raises
    ------
    ValueError
        If `name` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skcrbm.metrics import masked_scorer
    >>> X, y = np.zeros((3, 1)), np.array([[1, 0], [1, 0], [1, 1]])
    >>> dummy = DummyClassifier(strategy="most_frequent").fit(X, y)
    >>> scorer = masked_scorer("neg_hamming_loss")
    >>> scorer
    masked_scorer('neg_hamming_loss')
    >>> scorer(dummy, X, np.array([[1, 0], [np.nan, 0], [0, np.nan]]))
    -0.25
    """
    check_name(name)
    return _MaskedScorer(name)
