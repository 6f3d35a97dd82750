"""Scoring arrays over the observed entries only."""

from difflib import get_close_matches

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from skcrbm.metrics._scores import SCORES
from skcrbm.utils.label_names import in_order_of
from skcrbm.utils.outputs import is_list_of_outputs, positive_columns


def check_name(name):
    """Raise a ValueError that helps unless `name` is the name of a score."""
    if isinstance(name, str) and name in SCORES:
        return
    close = get_close_matches(str(name), SCORES, n=3)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise ValueError(f"name should be one of {', '.join(SCORES)}; got {name!r}.{meant}")


def _dense_2d(values, name):
    array = check_array(
        values,
        accept_sparse=True,
        dtype=(np.float64, np.float32),
        ensure_2d=False,
        allow_nd=True,
        ensure_all_finite=False,
        input_name=name,
    )
    if array.ndim != 2:
        raise ValueError(f"{name} should have the shape (n_samples, n_labels), got {array.shape}")
    return array.toarray() if sp.issparse(array) else array


def _check_predictions(values, name, kind, observed):
    """Return the predictions as an array that is valid wherever `observed` is True."""
    if kind != "labels" and is_list_of_outputs(values):
        values = positive_columns(values, name=name)
    array = _dense_2d(values, name)
    if array.shape != observed.shape:
        raise ValueError(
            f"{name} should have the shape of y_true, {observed.shape}, got {array.shape}"
        )
    seen = array[observed]
    if kind == "labels":
        valid, wanted = np.isin(seen, (0, 1)).all(), "0 or 1"
    elif kind == "probabilities":
        valid, wanted = ((seen >= 0) & (seen <= 1)).all(), "in [0, 1]"
    else:
        valid, wanted = np.isfinite(seen).all(), "finite"
    if not valid:
        raise ValueError(f"{name} should be {wanted} wherever y_true is observed")
    return np.where(observed, array, array.dtype.type(0))


def _check_weight(sample_weight, n_samples):
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            f"sample_weight should hold {n_samples} finite numbers that are not negative, one for "
            "each row of y_true"
        )
    return weight


def check_scored(kind, y_true, values, argument, sample_weight):
    """Validate targets, what is to be scored, and weights.

    Parameters
    ----------
    kind : {"labels", "probabilities", "ranking"}
    y_true, values, sample_weight : as users pass them
    argument : str
        Name of `values` in error messages.

    Returns
    -------
    y, p : ndarray (n, L), 0 where not observed
    observed : ndarray (n, L) of bool; nothing in rows of weight 0
    weight : ndarray (n,)
    """
    values = in_order_of(values, y_true, argument)
    y = _dense_2d(y_true, "y_true")
    observed = ~np.isnan(y)
    if not np.isin(y[observed], (0, 1)).all():
        raise ValueError("y_true should hold 0, 1, or NaN for an entry that is not observed")
    p = _check_predictions(values, argument, kind, observed)
    weight = _check_weight(sample_weight, len(y))
    observed &= (weight > 0)[:, None]
    if not observed.any():
        raise ValueError("y_true should have at least one observed entry in a row of weight > 0")
    return np.where(observed, y, 0.0), p, observed, weight


def masked_score(name, y_true, *, y_pred=None, y_score=None, sample_weight=None):
    """Score predictions over the observed entries of a multi-label target.

    On a target without NaN, every score is that of scikit-learn's function of this name, but
    that labels of one class only are left out of the means "roc_auc" and "average_precision".
    Otherwise an entry that is NaN in `y_true` counts nowhere, whatever is predicted there:

    - ``accuracy`` (a row is right if all its observed entries are), the ``samples`` averages
      and the rankings of the labels of a row are over the rows with at least one observed
      entry;
    - the ``macro`` and ``weighted`` averages are over the labels with at least one observed
      entry, each scored on the rows in which it is observed;
    - the other scores are over the observed entries.

    Parameters
    ----------
    name : str
        One of "accuracy", "neg_hamming_loss"; "f1", "jaccard", "precision" or "recall" with
        "_samples", "_micro", "_macro" or "_weighted" (all from `y_pred`; a ratio 0 / 0 is
        0); "neg_log_loss", "neg_brier_score", "neg_calibration_error" (over all entries, from
        probabilities in `y_score`; the last of :func:`expected_calibration_error`);
        "roc_auc", "roc_auc_micro", "average_precision", "average_precision_micro",
        "label_ranking_average_precision", "neg_label_ranking_loss", "neg_coverage_error"
        (from any `y_score` that ranks). "roc_auc" and "average_precision" are means over
        the labels that have both classes among their observed entries.
    y_true : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Targets 0 or 1, NaN where not observed. The zeros of a sparse matrix are observed.
        Where this and the predictions are data frames, columns are matched by name.
    y_pred : {array-like, sparse matrix} of shape (n_samples, n_labels), default=None
        Predicted labels, 0 or 1. Ignored by the scores that need `y_score`.
    y_score : array-like of shape (n_samples, n_labels) or list of arrays, default=None
        Predicted P(y = 1), or for a ranking score any finite score; or a list of
        n_labels arrays of shape (n_samples, 2) as from scikit-learn's multi-output
        estimators. Ignored by the scores that need `y_pred`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows. A row of weight 0 counts nowhere.

    Returns
    -------
    score : float
        Higher is better.

    Raises
    ------
    ValueError
        If `name` is unknown, the array it needs is missing, an array has a wrong shape or
        a wrong value at an observed entry, nothing is observed, or a ranking score finds no
        label with both classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.metrics import masked_score
    >>> y_true = np.array([[1, 0, np.nan], [0, np.nan, 1]])
    >>> y_pred = np.array([[1, 1, 1], [0, 1, 1]])
    >>> masked_score("accuracy", y_true, y_pred=y_pred)
    0.5
    >>> masked_score("neg_hamming_loss", y_true, y_pred=y_pred)
    -0.25
    """
    check_name(name)
    kind, function = SCORES[name]
    argument, values = ("y_pred", y_pred) if kind == "labels" else ("y_score", y_score)
    if values is None:
        raise ValueError(f"{argument} should be given: {name!r} is computed from it")
    y, p, observed, weight = check_scored(kind, y_true, values, argument, sample_weight)
    rows, labels = observed.any(axis=1), observed.any(axis=0)
    kept = np.ix_(rows, labels)
    return float(function(y[kept], p[kept], observed[kept], weight[rows]))
