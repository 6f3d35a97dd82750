"""Choose the labels to ask for next, by mutual information, entropy or expected F1."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding import decode_label_sets
from skcrbm.targets.distribution import LabelDistribution, is_joint
from skcrbm.targets.kinds import MultilabelTargets
from skcrbm.targets.label_sets import all_label_vectors
from skcrbm.targets.names import entries_in_order_of, in_order_of, is_frame
from skcrbm.targets.wrapped import final_model, marginals_of, takes_known
from skcrbm.utils.advice import supporting
from skcrbm.utils.limits import AUTO_ALL_LABEL_SETS, MAX_ALL_LABEL_SETS
from skcrbm.utils.options import Integer
from skcrbm.utils.sklearn_private import HasMethods, Interval, StrOptions, validate_params
from skcrbm.utils.validation import check_order, count_rows


class LabelSuggestions(NamedTuple):
    """Result of `suggest_labels`: pairs of a row and a label, the best pair first.

    Attributes
    ----------
    rows, labels : ndarray of int (n_suggestions,)
        Row and label of each suggestion. With ``scope="row"`` the suggestions are ordered by rows,
        and within a row by decreasing gain.
    gains : ndarray (n_suggestions,)
        Gain of each suggestion, divided by the cost: nats, or F1 for ``strategy="expected_f1"``.
    all_gains : ndarray (n_samples, n_outputs)
        Gains of all labels divided by their costs; NaN for known labels.
    names : ndarray (n_outputs,)
        Names of the labels, or their indices.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.annotation import suggest_labels
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(200, n_labels=4, random_state=0)
    >>> model = CRBMClassifier(alpha=0.1, random_state=0).fit(X, Y)
    >>> found = suggest_labels(model, X[:2])
    >>> found.rows, found.all_gains.shape
    (array([0, 1]), (2, 4))
    """

    rows: np.ndarray
    labels: np.ndarray
    gains: np.ndarray
    all_gains: np.ndarray
    names: np.ndarray


@validate_params(
    {
        "estimator": [HasMethods(["predict_proba"])],
        "n": [Integer(1)],
        "strategy": [StrOptions({"mutual_information", "entropy", "expected_f1"})],
        "scope": [StrOptions({"row", "corpus"})],
        "max_per_row": [Integer(1), None],
        "min_gain": [Interval(Real, 0, None, closed="left")],
        "cost": ["array-like", None],
    },
    prefer_skip_nested_validation=False,
)
def suggest_labels(
    estimator: Any,
    X: Any,
    y_known: Any = None,
    *,
    n: int = 1,
    cost: Any = None,
    strategy: str = "mutual_information",
    scope: str = "row",
    max_per_row: int | None = None,
    min_gain: float = 0.0,
) -> LabelSuggestions:
    """Suggest the labels that a person should be asked for next.

    If labels depend on each other, a person need not be asked for all of them, because the answer
    to a good question tells much about the other labels, too. The gain of a question is the mutual
    information of the label and all other unknown labels of the row, given x and the known labels.
    The gain is exact, because all label vectors are enumerated.

    Parameters
    ----------
    estimator : classifier
        Fitted multi-label classifier, or a pipeline that ends with it. All strategies but "entropy"
        need a joint model with the method `score_label_sets`, such as `CRBMClassifier`,
        `LMBMClassifier` or, for rules between labels, `skcrbm.constraints.Constrained`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Inputs of the rows.
    y_known : array-like of shape (n_samples, n_outputs), default=None
        Known labels, and NaN for the other labels, from which the suggestions are chosen. The
        columns of a data frame are matched by name. None means that no label is known.
    n : int, default=1
        Number of suggestions for each row, or with ``scope="corpus"`` for all rows together.
    cost : array-like of shape (n_outputs,) or (n_samples, n_outputs), default=None
        Positive cost of asking for each label; gains are divided by it. A Series or a dict is read
        by the names of the labels. None stands for equal costs.
    strategy : {"mutual_information", "entropy", "expected_f1"}, default="mutual_information"
        Gain of a question. "mutual_information": the mutual information of the label and the other
        labels of the row. "entropy": the entropy of the label itself, which can be computed for any
        classifier. "expected_f1": the increase of the expected F1 score of the row by the answer,
        if the labels with the largest expected F1 are predicted before and after it.
    scope : {"row", "corpus"}, default="row"
        "row" suggests the best labels of each row, "corpus" the best pairs of a row and a label
        among all rows.
    max_per_row : int, default=None
        Largest number of suggestions for a row with ``scope="corpus"``. If it is 1, no two
        questions of a batch concern the same row, because the answer to the first question could
        make the second superfluous.
    min_gain : float, default=0.0
        Labels are suggested only if their gain, divided by the cost, is at least this number. If no
        suggestion is left, you can stop: the other labels are not worth their cost.

    Returns
    -------
    suggestions : LabelSuggestions
        Rows, labels and gains. Rows without unknown labels have no suggestion.

    Raises
    ------
    ValueError
        If an argument is invalid, the classifier has no joint distribution, or there are more
        labels than can be enumerated: 20, or 14 for "expected_f1".

    See Also
    --------
    find_label_issues : Find labels that are probably wrong.

    Notes
    -----
    Each gain is for a single question. To ask several questions about a row in turn, call the
    function again with each answer in `y_known`.

    The information of a label y_i about the others is ``H(y_i) + H(others) - H(all)`` with the
    entropies H of p(y | x, known). If only one label of a row is unknown, its information about
    other labels is 0, so use ``strategy="entropy"`` for such rows.

    Each answer lowers the entropy of the whole label vector by the entropy of the label that was
    asked for. So choose "entropy" if you want to know all labels of a row, and "mutual_information"
    if you will predict the other labels and want an answer to tell much about them. A joint model
    updates both gains with every known label. For other classifiers, whose `predict_proba` does not
    take `y_known`, the entropies do not depend on the known labels.

    "expected_f1" looks a single question ahead, as the other strategies do. Its gain is never
    negative, and 0 if no answer would change the predicted labels. It takes some 10 ms for each row
    with 14 labels; the other strategies take about 1 ms.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.annotation import suggest_labels
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(300, n_labels=5, random_state=0)
    >>> model = CRBMClassifier(alpha=0.1, random_state=0).fit(X[:200], Y[:200])
    >>> known = np.full((100, 5), np.nan)
    >>> for _ in range(2):
    ...     asked = suggest_labels(model, X[200:], known)
    ...     known[asked.rows, asked.labels] = Y[200:][asked.rows, asked.labels]
    >>> int((~np.isnan(known)).sum())
    200
    """
    check_is_fitted(estimator)
    targets = MultilabelTargets(*_labels_of(estimator, X))
    n_labels, names = targets.n_visible, targets.names
    if y_known is None:
        known = np.full((count_rows(X), n_labels), np.nan)
    else:
        known = targets.check_known(y_known, X)
    if is_frame(cost):
        check_order(X=X, cost=cost)
    cost = entries_in_order_of(in_order_of(cost, names, "cost"), names, n_labels, "cost")
    cost = _checked_cost(cost, known.shape)
    if strategy == "entropy":
        gains = _entropies(_marginals(estimator, X, known, targets))
    else:
        _require_tables(estimator, n_labels, strategy)
        gains = (_information if strategy == "mutual_information" else _f1_gains)(
            estimator, X, known, targets
        )
    gains = np.where(np.isnan(known), np.maximum(gains, 0.0) / cost, np.nan)
    rows, labels = _chosen(gains, n, scope, max_per_row, min_gain)
    shown = np.arange(n_labels) if names is None else names
    return LabelSuggestions(rows, labels, gains[rows, labels], gains, shown)


def _labels_of(estimator, X):
    """Return the number of labels of a fitted classifier, and their names (L,) or None."""
    model = final_model(estimator)[0]
    targets = getattr(model, "_targets", None)
    if targets is not None:
        targets.require_multilabel("suggest_labels")
        return targets.n_visible, targets.names
    return marginals_of(estimator, X).shape[1], None


def _checked_cost(cost, shape):
    """Check the costs, and return them as an array of the given `shape` (n rows, L labels)."""
    if cost is None:
        return np.ones(shape)
    wanted = f"cost must have shape ({shape[1]},) or {shape}"
    try:
        cost = np.asarray(cost, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted} and hold numbers: {error}") from error
    if cost.shape not in (shape, shape[1:]):
        raise ValueError(f"{wanted}, got {cost.shape}")
    if not (np.isfinite(cost) & (cost > 0)).all():
        raise ValueError("cost must hold positive, finite numbers")
    return np.broadcast_to(cost, shape)


def _marginals(estimator, X, known, targets):
    """Return the probability (n, L) that each of L labels is 1 in each of n rows.

    If the estimator takes `y_known`, the probabilities are P(y_i = 1 | x, known labels), else P(y_i
    = 1 | x).
    """
    given = known if takes_known(estimator) and not np.isnan(known).all() else None
    return marginals_of(estimator, X, given, targets)


def _entropies(proba):
    return -xlogy(proba, proba) - xlogy(1 - proba, 1 - proba)


def _require_tables(estimator, n_labels, strategy):
    """Raise a ValueError if the estimator has no joint distribution, or too many labels."""
    most = AUTO_ALL_LABEL_SETS if strategy == "expected_f1" else MAX_ALL_LABEL_SETS
    if n_labels > most:
        raise ValueError(
            f'strategy="{strategy}" enumerates all vectors of up to {most} labels, got {n_labels}; '
            'use strategy="entropy"'
        )
    if not is_joint(estimator):
        raise ValueError(
            f'strategy="{strategy}" needs a joint model with score_label_sets, such as '
            f"{supporting('known labels')}; {type(final_model(estimator)[0]).__name__} has no "
            'joint distribution. Use strategy="entropy"'
        )


def _f1_gains(estimator, X, known, targets):
    """Return the increase (n, L) of the largest expected F1 of a row by the answer to a question.

    Known labels get the gain 0.
    """
    n_labels = known.shape[1]
    vectors = all_label_vectors(n_labels).astype(float)
    gains = np.zeros(known.shape)
    given = None if np.isnan(known).all() else known
    for rows, log_p in LabelDistribution(estimator, targets).tables(X, given):
        for row, table in zip(range(rows.start, rows.stop), np.exp(log_p)):
            asked = np.flatnonzero(np.isnan(known[row]))
            on = vectors[:, asked].T
            parts = np.concatenate([table[None], on * table, (1 - on) * table])
            value = np.zeros(len(parts))
            possible = parts.any(axis=1)
            value[possible] = _largest_f1(vectors, parts[possible])
            before, after = value[0], value[1:].reshape(2, -1).sum(axis=0)
            gains[row, asked] = after - before
    return gains


def _largest_f1(vectors, weight):
    """Return the largest expected F1 (m,) of m distributions over label vectors (K, L).

    The rows of `weight` (m, K) are probabilities that add up to at most 1, which scale the result.
    """
    labels = decode_label_sets(vectors, weight, "f1_samples", zero_division=0).astype(float)
    size = labels.sum(axis=1)[:, None] + vectors.sum(axis=1)
    f1 = 2 * (labels @ vectors.T) / np.maximum(size, 1)
    return (weight * f1).sum(axis=1)


def _information(estimator, X, known, targets):
    """Return the mutual information (n, L) of each label and all other labels, in nats."""
    n_labels = known.shape[1]
    gains = np.empty(known.shape)
    given = None if np.isnan(known).all() else known
    for rows, log_p in LabelDistribution(estimator, targets).tables(X, given):
        table = np.exp(log_p)
        whole = -xlogy(table, table).sum(axis=1)
        for i in range(n_labels):
            split = table.reshape(len(table), 2**i, 2, -1)
            others = split.sum(axis=2)
            own = split.sum(axis=(1, 3))
            gains[rows, i] = -xlogy(own, own).sum(axis=1) - whole
            gains[rows, i] -= xlogy(others, others).sum(axis=(1, 2))
    return gains


def _chosen(gains, n, scope, max_per_row, min_gain):
    """Return the rows and the labels of the suggestions, given the gains (n rows, L labels).

    Labels with the gain NaN are known and not suggested.
    """
    value = np.where(gains >= min_gain, gains, -np.inf)
    order = np.argsort(-value, axis=1, kind="stable")
    if scope == "corpus":
        most = gains.shape[1] if max_per_row is None else max_per_row
    else:
        most = n
    order = order[:, :most]
    rows = np.repeat(np.arange(len(gains)), order.shape[1])
    labels = order.ravel()
    possible = value[rows, labels] > -np.inf
    rows, labels = rows[possible], labels[possible]
    if scope == "corpus":
        best = np.argsort(-value[rows, labels], kind="stable")[:n]
        rows, labels = rows[best], labels[best]
    return rows, labels
