"""Find labels that are probably wrong, by models that were not fitted on them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.groups import check_groups
from skcrbm.targets.wrapped import (
    final_model,
    marginals_of,
    rule_check,
    takes_known,
    wrapped_rows,
)
from skcrbm.utils.advice import supporting
from skcrbm.utils.options import Integer, ProbabilisticClassifier
from skcrbm.utils.sklearn_private import StrOptions, validate_params
from skcrbm.utils.validation import check_count

# Number of entries of the ranking that `str` shows.
_SHOWN = 10


class LabelIssues(NamedTuple):
    """Result of `find_label_issues`; ``print(issues)`` shows the first entries of the ranking.

    Attributes
    ----------
    entry_scores : ndarray (n_samples, n_outputs)
        Probability that the entry of y is wrong; NaN for entries that are not observed.
    row_scores : ndarray (n_samples,)
        Largest score of the entries of each row; NaN for a row without observed entries.
    rows, labels : ndarray of int (n_observed,)
        Row and label of all observed entries, ordered by decreasing score.
    given : ndarray of int (n_observed,)
        Value in y of each entry that `rows` and `labels` list, in the order of these arrays.
    names : ndarray (n_outputs,)
        Names of the labels, or their indices.
    index : ndarray (n_samples,)
        Names of the rows, if X or y is a pandas data frame, else row numbers.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.annotation import find_label_issues
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(200, n_labels=4, random_state=0)
    >>> issues = find_label_issues(CRBMClassifier(alpha=0.1, random_state=0), X, Y)
    >>> issues.entry_scores.shape, issues.table(3)[0].keys()
    ((200, 4), dict_keys(['row', 'label', 'given', 'score']))
    """

    entry_scores: np.ndarray
    row_scores: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    given: np.ndarray
    names: np.ndarray
    index: np.ndarray

    def table(self, n: int | None = None) -> list[dict]:
        """Return the ranking as a list of dicts, from which data frames are made.

        Parameters
        ----------
        n : int, default=None
            Number of entries; None stands for all observed entries.

        Returns
        -------
        records : list of dict
            Row, label, entry of y, and score of each entry, the highest score first.
        """
        chosen = slice(None if n is None else check_count("n", n))
        rows, labels, given = self.rows[chosen], self.labels[chosen], self.given[chosen]
        return [
            {
                "row": self.index[i],
                "label": self.names[k],
                "given": int(y),
                "score": float(self.entry_scores[i, k]),
            }
            for i, k, y in zip(rows, labels, given, strict=True)
        ]

    def __str__(self):
        lines = ["row         label                given  score"]
        lines += [
            f"{r['row']!s:<11} {r['label']!s:<20} {r['given']:>5}  {r['score']:.3f}"
            for r in self.table(_SHOWN)
        ]
        left = len(self.rows) - _SHOWN
        return "\n".join(lines + [f"and {left} more entries"] * (left > 0))


@validate_params(
    {
        "estimator": [ProbabilisticClassifier()],
        "given": [StrOptions({"auto", "other_labels", "x"})],
        "cv": ["cv_object"],
        "groups": ["array-like", None],
        "n_jobs": [Integer(), None],
    },
    prefer_skip_nested_validation=False,
)
def find_label_issues(
    estimator, X, y, *, given="auto", cv=None, groups=None, sample_weight=None, n_jobs=None
) -> LabelIssues:
    """Rank the entries of y by the probability that they are wrong.

    Each entry is judged by a model that was not fitted on its row. A joint model also uses the
    other labels of the row: for example, "beach" without "sand" is suspicious even if the picture
    itself leaves both open. The score of an entry is 1 - p(entry | x, other labels of the row).

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Multi-label classifier, which is cloned for each fold. A fitted classifier inside
        ``sklearn.frozen.FrozenEstimator`` is not fitted again; it must not have seen the rows.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Inputs.
    y : array-like of shape (n_samples, n_outputs)
        0/1 labels. NaN marks entries that are not observed, if the classifier accepts NaN. These
        entries are not judged, and have no effect on the scores of other entries.
    given : {"auto", "other_labels", "x"}, default="auto"
        Information by which an entry is judged. "other_labels" means x and the other labels of the
        row. It needs a classifier whose `predict_proba` takes `y_known`, such as `CRBMClassifier`
        or `LMBMClassifier`. "x" means x alone. "auto" is "other_labels" if the classifier supports
        it, else "x".
    cv : int, splitter or iterable, default=None
        Folds of the rows. An int stands for this number of stratified folds, and None for 5 folds.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, such as the patient. If `cv` is None, an int or a splitter of groups,
        a row is judged by a model that was not fitted on any row of its group, which may have the
        same wrong labels.
    sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
        Weights of the rows, or of single labels if the classifier supports them, in the fits.
    n_jobs : int, default=None
        Number of folds fitted at the same time.

    Returns
    -------
    issues : LabelIssues
        Scores of entries and rows, and the ranking of all observed entries. Its method `table`
        returns the ranking with names.

    Raises
    ------
    ValueError
        If y is not a 2-D indicator matrix, or `given` is "other_labels" and the classifier does
        not take `y_known`.

    See Also
    --------
    suggest_labels : Choose the labels to ask for next.

    Notes
    -----
    The other labels of a row may be wrong, too. With few wrong labels this costs little: the joint
    model compares the whole row with x.

    If the estimator is `Constrained` and a row of y violates its rules, the wrong entry is probably
    one of the entries whose change repairs the row. Each of these entries gets a score above 1/2:
    the mean of 1 and s. Here s is the odds, given x, that the entry is wrong, divided by the sum of
    these odds over all of these entries. The other entries of the row are judged by x alone.
    Missing entries may hide the violation of a rule.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import roc_auc_score
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.annotation import find_label_issues
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(400, structure="groups", random_state=0)
    >>> wrong = np.random.RandomState(0).random_sample(Y.shape) < 0.05
    >>> model = CRBMClassifier(alpha=0.1, random_state=0)
    >>> issues = find_label_issues(model, X, np.where(wrong, 1 - Y, Y))
    >>> bool(roc_auc_score(wrong.ravel(), issues.entry_scores.ravel()) > 0.8)
    True
    """
    index = _row_names(X, y)
    labelled = wrapped_rows(X, y, sample_weight, "find_label_issues", several=True)
    visible = labelled.visible
    groups = None if groups is None else check_groups(groups, X)
    conditional = takes_known(estimator)
    if given == "other_labels" and not conditional:
        raise ValueError(
            'given="other_labels" needs an estimator whose predict_proba takes y_known, such as '
            f"{supporting('known labels')}; {type(final_model(estimator)[0]).__name__} does not. "
            'Use given="x"'
        )
    respond = _conditionals if conditional and given != "x" else _marginals
    proba = out_of_fold(
        estimator,
        X,
        labelled.y,
        cv=cv,
        respond=partial(respond, targets=labelled.targets),
        groups=groups,
        n_jobs=n_jobs,
        fit_params=labelled.params,
        beside=(visible,),
    )
    scores = np.where(visible == 1, 1 - proba, proba)
    scores[np.isnan(visible)] = np.nan
    rows, labels = np.nonzero(~np.isnan(visible))
    order = np.argsort(-scores[rows, labels], kind="stable")
    rows, labels = rows[order], labels[order]
    return LabelIssues(
        scores,
        np.fmax.reduce(scores, axis=1),
        rows,
        labels,
        visible[rows, labels].astype(np.int64),
        labelled.targets.visible_names(),
        index,
    )


def _marginals(model, X, visible, targets):
    """Return P(y_i = 1 | x) as an array (n, L), for n rows and L labels."""
    return marginals_of(model, X, None, targets)


def _conditionals(model, X, visible, targets):
    """Return P(y_i = 1 | x, other labels of the row) as an array (n, L) for n rows and L labels.

    If the other labels contradict the rules of `Constrained`, the result is P(y_i = 1 | x).
    """
    satisfies = rule_check(model)
    proba, repairs = np.empty(visible.shape), np.zeros(visible.shape, bool)
    for i in range(visible.shape[1]):
        known = visible.copy()
        known[:, i] = np.nan
        if satisfies is not None:
            repairs[:, i] = satisfies(known) & ~np.isnan(visible[:, i])
            known[~repairs[:, i]] = np.nan
        proba[:, i] = marginals_of(model, X, known, targets)[:, i]
    if satisfies is None:
        return proba
    repairs[satisfies(visible)] = False
    return np.where(
        repairs, _by_repairs(_marginals(model, X, visible, targets), visible, repairs), proba
    )


def _by_repairs(proba, visible, repairs):
    """Return P(y_i = 1) (n rows, L labels) for rows that satisfy the rules after a single change.

    `repairs` (n, L) is True for each entry whose change makes its row satisfy the rules, so one of
    these entries is probably wrong. The probability that such an entry is wrong is set to the mean
    of 1 and s, where s is the odds that the entry is wrong given x, divided by the sum of these
    odds over all entries of the row whose change repairs the row. `proba` (n, L) holds P(y_i = 1 |
    x).
    """
    proba = np.clip(proba, 1e-9, 1 - 1e-9)
    odds = np.where(visible == 1, 1 - proba, proba) / np.where(visible == 1, proba, 1 - proba)
    odds = np.where(repairs, odds, 0)
    total = odds.sum(axis=1, keepdims=True)
    scores = 0.5 + 0.5 * np.divide(odds, total, out=np.zeros_like(odds), where=total > 0)
    return np.where(visible == 1, 1 - scores, scores)


def _row_names(X, y):
    """Return the index (n,) of a pandas X or y, or row numbers."""
    for frame in (X, y):
        if hasattr(frame, "iloc"):
            return np.asarray(frame.index)
    return np.arange(len(y) if hasattr(y, "__len__") else y.shape[0])
