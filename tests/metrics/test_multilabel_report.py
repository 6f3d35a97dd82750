"""Reports, log loss and calibration error of multi-label predictions."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import metrics as skm
from sklearn.calibration import calibration_curve

from skcrbm.metrics import (
    expected_calibration_error,
    marginal_log_loss,
    masked_score,
    multilabel_report,
)

NAN = float("nan")


def problem(seed, missing=0.0, n=60, n_labels=5):
    rng = np.random.RandomState(seed)
    y = (rng.random_sample((n, n_labels)) < np.linspace(0.1, 0.7, n_labels)).astype(float)
    proba = np.clip(0.5 * y + 0.6 * rng.random_sample(y.shape) - 0.05, 0, 1)
    y[rng.random_sample(y.shape) < missing] = NAN
    return y, proba, rng.choice([0.0, 1.0, 2.5], size=n)


def mean_over_labels(function, y, proba, options):
    return np.mean([function(t, p, **options) for t, p in zip(y.T, proba.T, strict=True)])


@pytest.mark.parametrize("weighted", [False, True])
def test_report_agrees_with_scikit_learn(weighted):
    y, proba, weight = problem(0)
    pred = (proba >= 0.5).astype(int)
    options = {"sample_weight": weight if weighted else None}
    report = multilabel_report(y, pred, proba, **options)
    expected = {
        "accuracy": skm.accuracy_score(y, pred, **options),
        "neg_hamming_loss": -skm.hamming_loss(y, pred, **options),
        "neg_log_loss": -mean_over_labels(skm.log_loss, y, proba, options),
        "neg_brier_score": -mean_over_labels(skm.brier_score_loss, y, proba, options),
        "roc_auc": skm.roc_auc_score(y, proba, **options),
        "roc_auc_micro": skm.roc_auc_score(y, proba, average="micro", **options),
        "average_precision": skm.average_precision_score(y, proba, **options),
        "average_precision_micro": skm.average_precision_score(
            y, proba, average="micro", **options
        ),
        "label_ranking_average_precision": skm.label_ranking_average_precision_score(
            y, proba, **options
        ),
        "neg_label_ranking_loss": -skm.label_ranking_loss(y, proba, **options),
        "neg_coverage_error": -skm.coverage_error(y, proba, **options),
    }
    for average in ("samples", "micro", "macro", "weighted"):
        for name in ("precision", "recall", "f1", "jaccard"):
            function = getattr(skm, f"{name}_score")
            expected[f"{name}_{average}"] = function(
                y, pred, average=average, zero_division=0, **options
            )
    expected["neg_calibration_error"] = -expected_calibration_error(y, proba, **options)
    assert set(report) == set(expected)
    for name, value in expected.items():
        assert report[name] == pytest.approx(value, rel=1e-9), name
    rows = 60 if not weighted else int((weight > 0).sum())
    assert (report.n_samples, report.n_labels, report.n_observed) == (rows, 5, 5 * rows)


def test_report_leaves_out_what_is_not_observed():
    y, proba, weight = problem(1, missing=0.3)
    y[3] = NAN
    y[:, 2] = NAN
    pred = (proba >= 0.5).astype(int)
    report = multilabel_report(y, pred, proba, sample_weight=weight)
    other = np.where(np.isnan(y), 1 - proba, proba)
    same = multilabel_report(y, (other >= 0.5).astype(int), other, sample_weight=weight)
    assert same == report
    for name in ("f1_samples", "jaccard_macro", "accuracy", "roc_auc"):
        expected = masked_score(name, y, y_pred=pred, y_score=proba, sample_weight=weight)
        assert report[name] == expected
    assert report.n_labels == 4
    assert report.n_observed == (~np.isnan(y[weight > 0])).sum()


def test_report_without_scores_or_probabilities():
    y, proba, _ = problem(2)
    pred = (proba >= 0.5).astype(int)
    plain = multilabel_report(y, pred)
    assert "neg_log_loss" not in plain
    assert "roc_auc" not in plain
    ranking = multilabel_report(y, pred, 10 * proba - 5)
    assert "neg_log_loss" not in ranking
    full = multilabel_report(y, pred, proba)
    for name in (
        "roc_auc",
        "average_precision_micro",
        "neg_label_ranking_loss",
        "neg_coverage_error",
    ):
        assert ranking[name] == full[name]
    outputs = [np.column_stack([1 - p, p]) for p in proba.T]
    assert multilabel_report(sp.csr_array(y), pd.DataFrame(pred), outputs) == full
    assert plain.items() <= full.items()


def test_report_where_rankings_are_not_defined():
    y = np.array([[1.0, 0.0], [1.0, 0.0]])
    report = multilabel_report(y, y, [[0.9, 0.2], [0.8, 0.1]])
    assert np.isnan(report["roc_auc"])
    assert np.isnan(report["average_precision"])
    assert report["roc_auc_micro"] == 1
    ones = multilabel_report(y[:, :1], y[:, :1], [[0.9], [0.8]])
    assert np.isnan(ones["roc_auc_micro"])
    assert ones["accuracy"] == 1


def test_report_as_table_and_object():
    y, proba, _ = problem(3, missing=0.2)
    report = multilabel_report(y, proba >= 0.5, proba)
    text = str(report)
    assert f"{report['f1_macro']:.4f}" in text
    assert f" {-report['neg_calibration_error']:.4f}" in text
    assert f"{(~np.isnan(y)).mean():.1%} observed" in text
    assert max(map(len, text.splitlines())) <= 80
    column = pd.Series(report)
    assert column["neg_hamming_loss"] == report["neg_hamming_loss"]
    copy = pickle.loads(pickle.dumps(report))
    assert copy == report
    assert str(copy) == text


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_marginal_log_loss(missing):
    y, proba, weight = problem(4, missing)
    by_label = marginal_log_loss(y, proba, average=None, sample_weight=weight)
    for j in range(5):
        seen = ~np.isnan(y[:, j])
        expected = skm.log_loss(
            y[seen, j], proba[seen, j], sample_weight=weight[seen], labels=[0, 1]
        )
        assert by_label[j] == pytest.approx(expected)
    assert marginal_log_loss(y, proba, average="macro", sample_weight=weight) == pytest.approx(
        by_label.mean()
    )
    assert marginal_log_loss(y, proba, sample_weight=weight) == -masked_score(
        "neg_log_loss", y, y_score=proba, sample_weight=weight
    )
    y[:, 1] = NAN
    assert np.isnan(marginal_log_loss(y, proba, average=None)[1])
    assert np.isfinite(marginal_log_loss(y, proba, average="macro"))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 5, 10])
def test_expected_calibration_error(strategy, n_bins):
    y, proba, _ = problem(5, n=200)
    proba[:20] = np.round(proba[:20], 1)  # values on the edges

    def by_curve(t, p):
        share, mean = calibration_curve(t, p, n_bins=n_bins, strategy=strategy)
        if strategy == "uniform":
            edges = np.linspace(0, 1, n_bins + 1)
        else:
            edges = np.percentile(p, np.linspace(0, 1, n_bins + 1) * 100)
        counts = np.bincount(np.searchsorted(edges[1:-1], p))
        return np.average(np.abs(share - mean), weights=counts[counts > 0])

    options = {"n_bins": n_bins, "strategy": strategy}
    expected = by_curve(y.ravel(), proba.ravel())
    assert expected_calibration_error(y, proba, **options) == pytest.approx(expected)
    labels = [by_curve(t, p) for t, p in zip(y.T, proba.T, strict=True)]
    found = expected_calibration_error(y, proba, average=None, **options)
    np.testing.assert_allclose(found, labels)
    found = expected_calibration_error(y, proba, average="macro", **options)
    assert found == pytest.approx(np.mean(labels))


def test_calibration_error_is_small_for_true_probabilities_and_weights_are_copies():
    rng = np.random.RandomState(0)
    proba = rng.random_sample((4000, 5))
    y = (rng.random_sample(proba.shape) < proba).astype(int)
    assert expected_calibration_error(y, proba) < 0.02
    assert expected_calibration_error(y, np.sqrt(proba)) > 0.1
    y, proba, weight = problem(6)
    weight = np.round(weight)
    found = expected_calibration_error(y, proba, sample_weight=weight)
    times = weight.astype(int)
    copies = expected_calibration_error(
        np.repeat(y, times, axis=0), np.repeat(proba, times, axis=0)
    )
    assert found == pytest.approx(copies)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (marginal_log_loss, {"average": "samples"}, "average should be 'micro', 'macro' or None"),
        (expected_calibration_error, {"average": "none"}, "average should be"),
        (expected_calibration_error, {"strategy": "x"}, "strategy should be"),
        (expected_calibration_error, {"n_bins": 0}, "n_bins should be a positive integer"),
        (expected_calibration_error, {"n_bins": 2.0}, "n_bins should be a positive integer"),
    ],
)
def test_wrong_arguments(function, options, message):
    with pytest.raises(ValueError, match=message):
        function([[0, 1]], [[0.1, 0.9]], **options)
    with pytest.raises(ValueError, match=r"y_prob should be in \[0, 1\]"):
        function([[0, 1]], [[0.1, 1.9]])
    with pytest.raises(ValueError, match="y_pred should have the shape of y_true"):
        multilabel_report([[0, 1]], [[0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_loss_of_certain_and_wrong_probabilities_is_scikit_learns(dtype):
    y, proba = np.array([[0, 1], [1, 0]]), np.array([[1.0, 0.3], [0.9, 0.2]], dtype)
    expected = [skm.log_loss(t, p, labels=[0, 1]) for t, p in zip(y.T, proba.T, strict=True)]
    np.testing.assert_allclose(marginal_log_loss(y, proba, average=None), expected, rtol=1e-6)
    assert marginal_log_loss(y, proba) == -masked_score("neg_log_loss", y, y_score=proba)


@pytest.mark.parametrize("scale", [1.0, 1e9, 1e30])
def test_ranking_scores_of_large_numbers(scale):
    y, proba, _ = problem(7)
    score = (scale * (2 * proba - 1)).astype(np.float32)
    report = multilabel_report(y, proba >= 0.5, score)
    for name in ("label_ranking_loss", "coverage_error"):
        expected = getattr(skm, name)(y, score)
        assert report[f"neg_{name}"] == pytest.approx(-expected, rel=1e-9)
    # In float64, because scikit-learn computes this score in the precision of its input.
    expected = skm.label_ranking_average_precision_score(y, score.astype(np.float64))
    assert report["label_ranking_average_precision"] == pytest.approx(expected, rel=1e-9)
    # Entries that are not observed come below the lowest score.
    missing = masked_score("neg_label_ranking_loss", [[1, NAN, 0, 0]], y_score=score[:1, :4] * 0)
    lowest = np.array([[score.min(), 0, 0, 0]], np.float32)
    assert missing == -1
    assert masked_score("neg_label_ranking_loss", [[1, NAN, 0, 0]], y_score=lowest) == -1
    assert masked_score("neg_coverage_error", [[1, NAN, 0, 0]], y_score=lowest) == -3


def test_rows_of_the_labels():
    rng = np.random.RandomState(0)
    y = rng.randint(0, 2, (30, 3))
    pred = rng.randint(0, 2, (30, 3))
    weight = rng.uniform(0.5, 2.0, 30)
    report = multilabel_report(y, pred, sample_weight=weight)
    p, r, f, support = skm.precision_recall_fscore_support(y, pred, sample_weight=weight)
    for name, expected in (("precision", p), ("recall", r), ("f1", f), ("support", support)):
        np.testing.assert_allclose(report.by_label[name], expected)
    jaccard = skm.jaccard_score(y, pred, average=None, sample_weight=weight)
    np.testing.assert_allclose(report.by_label["jaccard"], jaccard)
    assert report.target_names == ["0", "1", "2"]
    # Observed entries only; NaN if a label has no observed entry.
    missing = y.astype(float)
    missing[:10, 0] = np.nan
    missing[:, 2] = np.nan
    report = multilabel_report(missing, pred)
    assert report.by_label["f1"][0] == pytest.approx(skm.f1_score(y[10:, 0], pred[10:, 0]))
    assert np.isnan(report.by_label["f1"][2])


def test_names_of_the_labels():
    y = np.array([[1, 0], [0, 1], [1, 1]])
    frame = pd.DataFrame(y, columns=["beach", "a <b> & more"])
    report = multilabel_report(frame, y)
    assert report.target_names == ["beach", "a <b> & more"]
    assert re.search(r"^beach +1\.0000 .* 2$", str(report), re.MULTILINE)
    html = report._repr_html_()
    assert "<th>a &lt;b&gt; &amp; more</th>" in html
    assert "<th>Hamming loss</th>" in html
    assert html.count("<table>") == html.count("</table>") == 2
    named = multilabel_report(y, y, target_names=np.array(["x", "y"]))
    assert named.target_names == ["x", "y"]
    assert pickle.loads(pickle.dumps(named)).by_label.keys() == named.by_label.keys()
    for wrong in (["x"], "xy", ["x", "y", "z"]):
        with pytest.raises(ValueError, match="target_names must hold 2 names, got"):
            multilabel_report(y, y, target_names=wrong)


@pytest.mark.parametrize("dtype", [object, str])
def test_columns_of_classes_are_refused(dtype):
    y = np.array([["yes", "a"], ["no", "b"]], dtype)
    numbers = np.eye(2, dtype=int)
    for arguments, name in (((y, y), "y_true"), ((numbers, y), "y_pred")):
        with pytest.raises(ValueError, match=f"{name} should hold numbers.*holds strings"):
            multilabel_report(*arguments)


def test_lists_of_different_lengths_are_refused():
    y, ragged = [[0, 1], [1, 0]], [[0], [1, 0]]
    for arguments, name in (((ragged, y), "y_true"), ((y, ragged), "y_pred")):
        with pytest.raises(ValueError, match=f"^{name} holds sets, or lists of different lengths"):
            multilabel_report(*arguments)
