"""Every score of a multi-label prediction in one table."""

import numpy as np

from skcrbm.metrics._masked import check_scored, masked_score
from skcrbm.utils.pickling import Versioned

_RATIOS = ("precision", "recall", "f1", "jaccard")
_AVERAGES = ("samples", "micro", "macro", "weighted")
# Name in the report -> name of the score, which is minus it for losses; and what it needs.
_SINGLE = {
    "accuracy": ("accuracy", "labels"),
    "hamming_loss": ("neg_hamming_loss", "labels"),
    "log_loss": ("neg_log_loss", "probabilities"),
    "brier_score": ("neg_brier_score", "probabilities"),
    "calibration_error": ("neg_calibration_error", "probabilities"),
    "roc_auc": ("roc_auc", "classes"),
    "roc_auc_micro": ("roc_auc_micro", "classes"),
    "average_precision": ("average_precision", "classes"),
    "average_precision_micro": ("average_precision_micro", "classes"),
    "label_ranking_average_precision": ("label_ranking_average_precision", "ranking"),
    "label_ranking_loss": ("neg_label_ranking_loss", "ranking"),
    "coverage_error": ("neg_coverage_error", "ranking"),
}
_TITLES = {
    "accuracy": "subset accuracy",
    "hamming_loss": "Hamming loss",
    "log_loss": "log loss of the marginals",
    "brier_score": "Brier score of the marginals",
    "calibration_error": "expected calibration error",
    "roc_auc": "ROC AUC, macro",
    "roc_auc_micro": "ROC AUC, micro",
    "average_precision": "average precision, macro",
    "average_precision_micro": "average precision, micro",
    "label_ranking_average_precision": "label ranking average precision",
    "label_ranking_loss": "label ranking loss",
    "coverage_error": "coverage error",
}


class MultilabelReport(Versioned, dict):
    """Scores by name; ``str`` makes a table of them.

    The names are those of :func:`masked_score`, without the ``neg_`` of losses, which are as
    they are here: lower is better.

    Attributes
    ----------
    n_samples, n_labels, n_observed : int
        Rows and labels with an observed entry, and the number of these entries.
    """

    _saved = ("n_samples", "n_labels", "n_observed")

    def __init__(self, scores, n_samples, n_labels, n_observed):
        super().__init__(scores)
        self.n_samples = n_samples
        self.n_labels = n_labels
        self.n_observed = n_observed

    def __str__(self):
        lines = [" " * 10 + "".join(f"{ratio:>11}" for ratio in _RATIOS)]
        for average in _AVERAGES:
            cells = (f"{self[f'{ratio}_{average}']:11.4f}" for ratio in _RATIOS)
            lines.append(f"{average:<10}" + "".join(cells))
        lines.append("")
        lines += [f"{_TITLES[n]:<45}{self[n]:9.4f}" for n in _SINGLE if n in self]
        share = self.n_observed / (self.n_samples * self.n_labels)
        lines += ["", f"{self.n_samples} rows, {self.n_labels} labels, {share:.1%} observed"]
        return "\n".join(lines)


def multilabel_report(y_true, y_pred, y_score=None, *, sample_weight=None):
    """Score multi-label predictions in every usual way, over the observed entries.

    Parameters
    ----------
    y_true : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Targets 0 or 1, NaN where not observed: these entries count nowhere.
    y_pred : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Predicted labels, 0 or 1.
    y_score : array-like of shape (n_samples, n_labels) or list of arrays, default=None
        Predicted P(y = 1), or any finite score, for which the scores of probabilities are
        left out; or a list of arrays (n_samples, 2) as from scikit-learn's multi-output
        estimators.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    report : MultilabelReport
        A dict: precision, recall, f1 and jaccard with "_samples" (means over rows),
        "_micro", "_macro" and "_weighted"; "accuracy" (whole rows right), "hamming_loss";
        with probabilities "log_loss", "brier_score", "calibration_error"; with any
        `y_score` "roc_auc", "average_precision", both also with "_micro", and NaN where no
        label has both classes; "label_ranking_average_precision", "label_ranking_loss"
        and "coverage_error". ``print(report)`` shows a table;
        ``pandas.Series(report)`` is a column of a data frame.

    Raises
    ------
    ValueError
        As :func:`masked_score`, of which these are the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.metrics import multilabel_report
    >>> y_true = np.array([[1, 0, 1], [0, np.nan, 1], [1, 1, 0], [0, 0, 1]])
    >>> y_prob = np.array([[0.9, 0.2, 0.6], [0.4, 0.5, 0.8], [0.7, 0.4, 0.1], [0.1, 0.1, 0.9]])
    >>> print(multilabel_report(y_true, y_prob >= 0.5, y_prob))
                precision     recall         f1    jaccard
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
    _, _, observed, _ = check_scored("labels", y_true, y_pred, "y_pred", sample_weight)

    def score(name):
        return masked_score(
            name, y_true, y_pred=y_pred, y_score=y_score, sample_weight=sample_weight
        )

    names = {f"{r}_{a}": f"{r}_{a}" for a in _AVERAGES for r in _RATIOS}
    scores = {title: score(name) for title, name in names.items()}
    kinds = {"labels"}
    if y_score is not None:
        y, p, seen, _ = check_scored("ranking", y_true, y_score, "y_score", sample_weight)
        kinds |= {"classes", "ranking"}
        if ((p >= 0) & (p <= 1)).all():
            kinds.add("probabilities")
        shares = [y[rows, j].mean() for j, rows in enumerate(seen.T) if rows.any()]
        if not any(0 < share < 1 for share in shares):
            kinds.remove("classes")
    for title, (name, kind) in _SINGLE.items():
        if kind in kinds:
            scores[title] = score(name) if name == title else -score(name)
        elif kind == "classes" and y_score is not None:
            mixed = name.endswith("micro") and 0 < y[seen].mean() < 1
            scores[title] = score(name) if mixed else np.nan
    rows, labels = observed.any(axis=1), observed.any(axis=0)
    return MultilabelReport(scores, int(rows.sum()), int(labels.sum()), int(observed.sum()))
