"""Compute all scores of a multi-label prediction, and show them as a table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.metrics._masked import masked_score
from skcrbm.metrics.scores import AVERAGES, RATIOS, SCORES, scores_by_label
from skcrbm.targets.names import label_names_of
from skcrbm.targets.scored import check_scored
from skcrbm.targets.weights import checked_label_weight, is_per_label
from skcrbm.utils.pickling import Versioned

_TABLE = "<td style='text-align: right'>{}</td>"


class MultilabelReport(Versioned, dict):
    """Dict of scores by name, shown as a table by ``print`` and in notebooks.

    Names and values are the same as in :func:`masked_score`: higher is better, and losses are
    negative, such as "neg_hamming_loss". The table shows losses as positive numbers.

    Attributes
    ----------
    by_label : dict of ndarray (n_labels,)
        "precision", "recall", "f1", "jaccard" and "support" (total weight of the observed
        positives) of each label; NaN for labels without an observed entry.
    target_names : list of str
        Names of the labels.
    n_samples, n_labels : int
        Number of rows and of labels that have at least one observed entry.
    n_observed : int
        Number of observed entries.
    """

    _saved = ("by_label", "target_names", "n_samples", "n_labels", "n_observed")

    def __init__(self, scores, by_label, target_names, n_samples, n_labels, n_observed):
        super().__init__(scores)
        self.by_label, self.target_names = by_label, target_names
        self.n_samples = n_samples
        self.n_labels = n_labels
        self.n_observed = n_observed

    def _rows(self):
        """Yield the rows of the upper table as pairs of a name and a list of texts."""
        for j, name in enumerate(self.target_names):
            support = self.by_label["support"][j]
            cells = [f"{self.by_label[ratio][j]:.4f}" for ratio in RATIOS]
            yield name, [*cells, f"{support:.6g}"]
        for average in AVERAGES:
            yield average, [*(f"{self[f'{ratio}_{average}']:.4f}" for ratio in RATIOS), ""]

    def _single(self):
        """Yield the titles and values of the lower table, with losses as positive numbers."""
        for name, score in SCORES.items():
            if score.title and name in self:
                yield score.title, f"{-self[name] if name.startswith('neg_') else self[name]:.4f}"

    def _summary(self):
        share = self.n_observed / (self.n_samples * self.n_labels)
        return f"{self.n_samples} rows, {self.n_labels} labels, {share:.1%} observed"

    def __str__(self):
        width = max(10, *(len(name) + 1 for name in self.target_names))
        lines = [" " * width + "".join(f"{title:>11}" for title in (*RATIOS, "support"))]
        for number, (name, cells) in enumerate(self._rows()):
            if number == len(self.target_names):
                lines.append("")
            lines.append((f"{name:<{width}}" + "".join(f"{c:>11}" for c in cells)).rstrip())
        lines.append("")
        lines += [f"{title:<45}{value:>9}" for title, value in self._single()]
        return "\n".join([*lines, "", self._summary()])

    def _repr_html_(self):
        head = "".join(f"<th>{title}</th>" for title in ("", *RATIOS, "support"))
        body = "".join(
            f"<tr><th>{escape(name)}</th>{''.join(_TABLE.format(c) for c in cells)}</tr>"
            for name, cells in self._rows()
        )
        single = "".join(
            f"<tr><th>{title}</th>{_TABLE.format(value)}</tr>" for title, value in self._single()
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<table><tbody>{single}</tbody></table><p>{self._summary()}</p>"
        )


def multilabel_report(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    y_score: ArrayLike | list | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    target_names: Sequence[str] | None = None,
) -> MultilabelReport:
    """Compute all usual scores of multi-label predictions over the observed entries.

    Parameters
    ----------
    y_true : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Targets of 0 and 1. Entries that are NaN (not observed) are ignored.
    y_pred : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Predicted labels, 0 or 1.
    y_score : array-like of shape (n_samples, n_labels) or list of arrays, default=None
        Predicted P(y = 1), or other finite numbers that rank the labels. If a number is outside
        [0, 1], the report has no metric of probabilities, such as the log loss. A list of arrays
        (n_samples, 2), as returned by scikit-learn's multi-output estimators, is accepted, too.
    sample_weight : array-like (n_samples,) or (n_samples, n_labels), default=None
        Weights of the rows, or of single labels, see :func:`masked_score`.
    target_names : sequence of str of shape (n_labels,), default=None
        Names of the labels. If None, they are the column names of `y_true` if it is a data frame,
        otherwise numbers.

    Returns
    -------
    report : MultilabelReport
        Dict of scores with the names of :func:`masked_score`:

        - always: "precision", "recall", "f1" and "jaccard" followed by "_samples" (means over
          rows), "_micro", "_macro" and "_weighted"; "accuracy" (share of rows that are completely
          correct); "neg_hamming_loss";
        - if `y_score` holds probabilities: "neg_log_loss", "neg_brier_score",
          "neg_calibration_error";
        - if `y_score` is given: "roc_auc" and "average_precision" (NaN if no label has both
          classes), "roc_auc_micro" (NaN if all entries are equal), "average_precision_micro",
          "label_ranking_average_precision", "neg_label_ranking_loss", "neg_coverage_error".

        The scores of each label are in ``report.by_label``. ``print(report)`` shows a table with
        losses as positive numbers. For pandas, use ``pandas.Series(report)``, or
        ``pandas.DataFrame(report.by_label, report.target_names)`` for a row per label.

    Raises
    ------
    ValueError
        If :func:`masked_score` raises an error for these arguments, or if the number of
        `target_names` differs from the number of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.metrics import multilabel_report
    >>> y_true = np.array([[1, 0, 1], [0, np.nan, 1], [1, 1, 0], [0, 0, 1]])
    >>> y_prob = np.array([[0.9, 0.2, 0.6], [0.4, 0.5, 0.8], [0.7, 0.4, 0.1], [0.1, 0.1, 0.9]])
    >>> names = ["beach", "sunset", "urban"]
    >>> print(multilabel_report(y_true, y_prob >= 0.5, y_prob, target_names=names))
                precision     recall         f1    jaccard    support
    beach          1.0000     1.0000     1.0000     1.0000          2
    sunset         0.0000     0.0000     0.0000     0.0000          1
    urban          1.0000     1.0000     1.0000     1.0000          3
    <BLANKLINE>
    samples        1.0000     0.8750     0.9167     0.8750
    micro          1.0000     0.8333     0.9091     0.8333
    macro          0.6667     0.6667     0.6667     0.6667
    weighted       0.8333     0.8333     0.8333     0.8333
    <BLANKLINE>
    subset accuracy                                 0.7500
    Hamming loss                                    0.0909
    log loss of the marginals                       0.2971
    Brier score of the marginals                    0.0818
    expected calibration error                      0.1636
    ROC AUC, macro                                  1.0000
    ROC AUC, micro                                  0.9833
    average precision, macro                        1.0000
    average precision, micro                        0.9762
    label ranking average precision                 1.0000
    label ranking loss                              0.0000
    coverage error                                  1.5000
    <BLANKLINE>
    4 rows, 3 labels, 91.7% observed
    """
    y, p, observed, weight = check_scored("labels", y_true, y_pred, "y_pred", sample_weight)

    def score(name):
        return masked_score(
            name, y_true, y_pred=y_pred, y_score=y_score, sample_weight=sample_weight
        )

    scores = {name: score(name) for name in (f"{r}_{a}" for a in AVERAGES for r in RATIOS)}
    kinds, mixed = {"labels"}, False
    if y_score is not None:
        known, s, seen, _ = check_scored("ranking", y_true, y_score, "y_score", sample_weight)
        kinds |= {"classes", "ranking"}
        if ((s >= 0) & (s <= 1)).all():
            kinds.add("probabilities")
        shares = [known[rows, j].mean() for j, rows in enumerate(seen.T) if rows.any()]
        if not any(0 < share < 1 for share in shares):
            kinds.remove("classes")
        mixed = 0 < known[seen].mean() < 1
    for name, listed in SCORES.items():
        if not listed.title:
            continue
        if listed.needs in kinds:
            scores[name] = score(name)
        elif listed.needs == "classes" and y_score is not None:
            scores[name] = score(name) if mixed and name.endswith("micro") else np.nan
    labels = observed.any(axis=0)
    if is_per_label(sample_weight):  # count each row once
        names = label_names_of(y_true)
        positive = checked_label_weight(sample_weight, np.shape(y_true), names) > 0
        observed = check_scored("labels", y_true, y_pred, "y_pred", positive)[2]
    rows = observed.any(axis=1)
    return MultilabelReport(
        scores,
        scores_by_label(y, p, labels, weight),
        _checked_names(target_names, y_true, y.shape[1]),
        int(rows.sum()),
        int(labels.sum()),
        int(observed.sum()),
    )


def _checked_names(names, y_true, n_labels):
    if names is None:
        names = getattr(y_true, "columns", range(n_labels))
    if isinstance(names, str) or len(names := list(names)) != n_labels:
        raise ValueError(f"target_names must hold {n_labels} names, got {names!r}")
    return [str(name) for name in names]
