import pickle
import warnings
from math import log

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as skm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier

from skcrbm.metrics import masked_score, masked_scorer, multilabel_report

NAN = float("nan")
RATIOS = ["f1", "jaccard", "precision", "recall"]
AVERAGES = ["samples", "micro", "macro", "weighted"]
LABEL_SCORES = ["accuracy", "neg_hamming_loss"] + [f"{r}_{a}" for r in RATIOS for a in AVERAGES]
PROBABILITY_SCORES = ["neg_log_loss", "neg_brier_score", "neg_calibration_error"]
RANKING_SCORES = ["roc_auc", "roc_auc_micro", "average_precision", "average_precision_micro"]
ROW_RANKING_SCORES = [
    "label_ranking_average_precision",
    "neg_label_ranking_loss",
    "neg_coverage_error",
]
ALL = LABEL_SCORES + PROBABILITY_SCORES + RANKING_SCORES + ROW_RANKING_SCORES


# --- naive references: lists of (row, label, truth, prediction, weight) of observed entries ---


def ratio(name, entries):
    tp = sum(w for _, _, t, p, w in entries if t == 1 and p == 1)
    fp = sum(w for _, _, t, p, w in entries if t == 0 and p == 1)
    fn = sum(w for _, _, t, p, w in entries if t == 1 and p == 0)
    top, bottom = {
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "f1": (2 * tp, 2 * tp + fp + fn),
        "jaccard": (tp, tp + fp + fn),
    }[name]
    return top / bottom if bottom else 0.0


def mean(values, weights):
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def auc(entries):
    """Share of (positive, negative) pairs in the right order; ties count half."""
    pairs = [
        (wa * wb, (a > b) + 0.5 * (a == b))
        for _, _, ta, a, wa in entries
        for _, _, tb, b, wb in entries
        if ta == 1 and tb == 0
    ]
    return mean([s for _, s in pairs], [w for w, _ in pairs])


def average_precision(entries):
    """Sum of precision x step in recall, from the highest threshold down."""
    positives = sum(w for _, _, t, _, w in entries if t == 1)
    total = 0.0
    for threshold in {s for *_, s, _ in entries}:
        above = [(t, w) for _, _, t, s, w in entries if s >= threshold]
        gained = sum(w for _, _, t, s, w in entries if s == threshold and t == 1)
        precision = sum(w for t, w in above if t == 1) / sum(w for _, w in above)
        total += gained / positives * precision
    return total


def calibration(entries, n_bins=10):
    """Bins (0, 0.1], (0.1, 0.2], ...; the first bin holds 0."""
    bins = [[] for _ in range(n_bins)]
    for _, _, t, q, w in entries:
        k = next(k for k in range(n_bins) if q <= np.linspace(0, 1, n_bins + 1)[k + 1])
        bins[k].append(w * (q - t))
    return sum(abs(sum(b)) for b in bins) / sum(e[4] for e in entries)


def row_ranking(name, row):
    """Score the order of the labels of a row."""
    on = [s for _, _, t, s, _ in row if t == 1]
    off = [s for _, _, t, s, _ in row if t == 0]
    if name == "neg_coverage_error":
        return -sum(s >= min(on) for s in on + off) if on else 0
    if not on or not off:
        return 1 if name.startswith("label") else 0
    if name == "neg_label_ranking_loss":
        return -sum(a <= b for a in on for b in off) / (len(on) * len(off))
    return sum(sum(t >= s for t in on) / sum(t >= s for t in on + off) for s in on) / len(on)


def reference(name, y, p, weight=None):
    weight = [1.0] * len(y) if weight is None else weight
    entries = [
        (i, j, y[i][j], p[i][j], weight[i])
        for i in range(len(y))
        for j in range(len(y[0]))
        if y[i][j] == y[i][j] and weight[i] > 0
    ]
    by_row = {i: [e for e in entries if e[0] == i] for i in sorted({e[0] for e in entries})}
    by_label = {j: [e for e in entries if e[1] == j] for j in sorted({e[1] for e in entries})}
    row_weights = [weight[i] for i in by_row]
    entry_weights = [e[4] for e in entries]
    if name == "accuracy":
        return mean([all(t == q for _, _, t, q, _ in r) for r in by_row.values()], row_weights)
    if name == "neg_hamming_loss":
        return -mean([t != q for _, _, t, q, _ in entries], entry_weights)
    if name == "neg_log_loss":
        eps = np.finfo(float).eps
        clipped = [(t, min(max(q, eps), 1 - eps)) for _, _, t, q, _ in entries]
        return mean([log(q) if t == 1 else log(1 - q) for t, q in clipped], entry_weights)
    if name == "neg_brier_score":
        return -mean([(t - q) ** 2 for _, _, t, q, _ in entries], entry_weights)
    if name == "neg_calibration_error":
        return -calibration(entries)
    if name in ROW_RANKING_SCORES:
        return mean([row_ranking(name, r) for r in by_row.values()], row_weights)
    if name in RANKING_SCORES:
        function = auc if name.startswith("roc") else average_precision
        groups = [entries] if name.endswith("micro") else list(by_label.values())
        if name == "average_precision_micro" and len({t for _, _, t, _, _ in entries}) == 1:
            return float(entries[0][2])
        groups = [g for g in groups if {t for _, _, t, _, _ in g} == {0, 1}]
        return mean([function(g) for g in groups], [1] * len(groups)) if groups else None
    which, average = name.split("_")
    if average == "samples":
        return mean([ratio(which, r) for r in by_row.values()], row_weights)
    if average == "micro":
        return ratio(which, entries)
    scores = [ratio(which, c) for c in by_label.values()]
    if average == "macro":
        return mean(scores, [1] * len(scores))
    support = [sum(w for _, _, t, _, w in c if t == 1) for c in by_label.values()]
    return mean(scores, support) if sum(support) else 0.0


def arguments(name, labels, scores):
    return {"y_pred": labels} if name in LABEL_SCORES else {"y_score": scores}


@st.composite
def problems(draw):
    """Draw (y with NaN, labels, scores, weights); ties among the scores are common."""
    n, n_labels = draw(st.integers(1, 7)), draw(st.integers(1, 4))

    def array(values):
        rows = st.lists(st.sampled_from(values), min_size=n_labels, max_size=n_labels)
        return np.array(draw(st.lists(rows, min_size=n, max_size=n)), dtype=float)

    y = array([0, 1, NAN])
    y[draw(st.integers(0, n - 1)), draw(st.integers(0, n_labels - 1))] = draw(st.integers(0, 1))
    weight = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n))
    return y, array([0, 1]), array([0, 0.125, 0.25, 0.5, 0.75, 1]), np.array(weight)


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("name", ALL)
@settings(max_examples=16, deadline=None)
@given(problem=problems(), weighted=st.booleans())
def test_naive_reference(name, problem, weighted):
    y, labels, scores, weight = problem
    weight = weight if weighted else None
    kwargs = arguments(name, labels, scores)
    if weighted and not (~np.isnan(y[weight > 0])).any():
        with pytest.raises(ValueError, match="y_true holds no observed entry"):
            masked_score(name, y, sample_weight=weight, **kwargs)
        return
    expected = reference(
        name,
        y.tolist(),
        next(iter(kwargs.values())).tolist(),
        None if weight is None else weight.tolist(),
    )
    if expected is None:
        with pytest.raises(ValueError, match="both classes"):
            masked_score(name, y, sample_weight=weight, **kwargs)
    else:
        found = masked_score(name, y, sample_weight=weight, **kwargs)
        assert isinstance(found, float)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("name", ALL)
@settings(max_examples=10, deadline=None)
@given(problem=problems(), data=st.data())
def test_predictions_at_unobserved_entries_do_not_matter(name, problem, data):
    y, labels, scores, _ = problem
    before = arguments(name, labels, scores)
    junk = data.draw(st.sampled_from([0.0, 1.0, 7.5, -3.0, NAN, np.inf]))
    after = {key: np.where(np.isnan(y), junk, value) for key, value in before.items()}
    try:
        expected = masked_score(name, y, **before)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[:20]):
            masked_score(name, y, **after)
    else:
        assert masked_score(name, y, **after) == expected


# --- equality with scikit-learn on complete targets -----------------------------------------


def complete(seed, n=40, n_labels=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = (rng.random((n, n_labels)) < [0.1, 0.3, 0.5, 0.7, 0.9]).astype(int)
    y[0], y[1] = 0, 1  # every label has both classes, one row has no label
    scores = np.round(np.clip(0.6 * rng.random(y.shape) + 0.4 * y, 0, 1), 1).astype(dtype)
    return y, (rng.random(y.shape) < 0.4 + 0.2 * y).astype(int), scores, rng.random(n) + 0.1


def scikit_learn(name, y, labels, scores, weight):
    if name == "accuracy":
        return skm.accuracy_score(y, labels, sample_weight=weight)
    if name == "neg_hamming_loss":
        return -skm.hamming_loss(y, labels, sample_weight=weight)
    if name == "neg_calibration_error":  # see test_expected_calibration_error
        return reference(name, y.tolist(), scores.tolist(), weight)
    if name in ROW_RANKING_SCORES:
        function = getattr(
            skm, name.removeprefix("neg_"), skm.label_ranking_average_precision_score
        )
        sign = -1 if name.startswith("neg") else 1
        return sign * function(y, scores, sample_weight=weight)
    if name in PROBABILITY_SCORES:
        columns = zip(y.T, scores.T, strict=True)
        if name == "neg_log_loss":
            losses = [skm.log_loss(t, q, sample_weight=weight, labels=[0, 1]) for t, q in columns]
        else:
            losses = [skm.brier_score_loss(t, q, sample_weight=weight) for t, q in columns]
        return -np.mean(losses)
    if name in RANKING_SCORES:
        function = skm.roc_auc_score if name.startswith("roc") else skm.average_precision_score
        average = "micro" if name.endswith("micro") else "macro"
        return function(y, scores, average=average, sample_weight=weight)
    which, average = name.split("_")
    function = getattr(skm, f"{which}_score")
    return function(y, labels, average=average, sample_weight=weight, zero_division=0)


@pytest.mark.quick_cases(54)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ALL)
def test_equals_scikit_learn_on_complete_targets(name, dtype, weighted):
    for seed in range(2):
        y, labels, scores, weight = complete(seed, dtype=dtype)
        assert scores.max() == 1  # so that log_loss has something to clip
        weight = weight if weighted else None
        found = masked_score(name, y, sample_weight=weight, **arguments(name, labels, scores))
        assert found == pytest.approx(scikit_learn(name, y, labels, scores, weight), rel=1e-6)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("which", RATIOS)
def test_degenerate_labels_and_rows_follow_scikit_learn(which, average):
    y = np.array([[0, 0, 1], [0, 1, 1], [0, 0, 0]])
    labels = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    name = f"{which}_{average}"
    assert masked_score(name, y, y_pred=labels) == pytest.approx(
        scikit_learn(name, y, labels, None, None)
    )


# --- entries that are left out --------------------------------------------------------------


def test_rows_and_labels_without_observation_are_left_out():
    y = np.array([[1, 0, NAN], [0, 1, NAN], [NAN, NAN, NAN]])
    labels = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1]])
    assert masked_score("accuracy", y, y_pred=labels) == 0.5
    assert masked_score("f1_samples", y, y_pred=labels) == 0.5
    assert masked_score("f1_macro", y, y_pred=labels) == 0.5
    assert masked_score("neg_hamming_loss", y, y_pred=labels) == -0.25


def test_ranking_skips_labels_with_one_class():
    y = np.array([[1, 1, NAN], [0, 1, 1], [1, NAN, 1]])
    scores = np.array([[0.9, 0.1, 0.2], [0.5, 0.9, 0.1], [0.4, 0.5, 0.6]])
    assert masked_score("roc_auc", y, y_score=scores) == 0.5
    assert masked_score("average_precision", y, y_score=scores) == pytest.approx((1 + 2 / 3) / 2)
    for name in RANKING_SCORES[:3]:
        with pytest.raises(ValueError, match="y_true should have both classes"):
            masked_score(name, np.where(y == 0, NAN, y), y_score=scores)


@pytest.mark.parametrize("value", [0, 1])
def test_average_precision_of_constant_targets(value):
    """It is the value of scikit-learn, which is not NaN."""
    y, scores = np.full((3, 2), value), np.arange(6.0).reshape(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "No positive class found"
        expected = skm.average_precision_score(y.ravel(), scores.ravel())
    assert expected == value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert masked_score("average_precision_micro", y, y_score=scores) == expected
        report = multilabel_report(y, y, scores)
    assert report["average_precision_micro"] == expected
    assert np.isnan(report["average_precision"])


def test_a_single_label_is_not_taken_for_a_binary_target():
    y, labels = np.array([[1], [1], [0], [NAN]]), np.array([[1], [0], [0], [1]])
    assert masked_score("f1_macro", y, y_pred=labels) == pytest.approx(2 / 3)
    assert masked_score("recall_weighted", y, y_pred=labels) == 0.5


# --- kinds of input -------------------------------------------------------------------------


def test_kinds_of_target():
    y = np.array([[1, 0, NAN], [0, NAN, 1], [1, 1, 0]])
    labels = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 0]])
    expected = masked_score("f1_micro", y, y_pred=labels)
    nullable = pd.DataFrame(y, columns=list("abc")).astype("Int64")
    for same in (sp.csr_array(y), sp.csc_matrix(y), pd.DataFrame(y), nullable, y.tolist()):
        assert masked_score("f1_micro", same, y_pred=labels) == expected
    for same in (sp.csr_array(labels), labels.astype(bool), pd.DataFrame(labels)):
        assert masked_score("f1_micro", y, y_pred=same) == expected
    zeros_are_observed = sp.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]]))
    found = masked_score("neg_hamming_loss", zeros_are_observed, y_pred=np.ones((2, 2)))
    assert found == -0.75


@pytest.mark.parametrize("name", PROBABILITY_SCORES + RANKING_SCORES + ROW_RANKING_SCORES)
def test_list_of_probabilities(name):
    y, _, scores, _ = complete(0)
    outputs = [np.column_stack([1 - column, column]) for column in scores.T]
    assert masked_score(name, y, y_score=outputs) == masked_score(name, y, y_score=scores)
    with pytest.raises(ValueError, match=r"y_score, as a list, .*\(40, 1\)"):
        masked_score(name, y, y_score=[*outputs[:-1], np.ones((40, 1))])


def test_the_prediction_that_is_not_needed_is_ignored():
    y, labels, scores, _ = complete(0)
    for name in ALL:
        expected = masked_score(name, y, **arguments(name, labels, scores))
        assert masked_score(name, y, y_pred=labels, y_score=scores) == expected


@pytest.mark.parametrize(
    ("name", "y", "kwargs", "message"),
    [
        ("accuracy", [[2, 1]], {"y_pred": [[1, 1]]}, "y_true must be a 0/1 indicator matrix"),
        ("accuracy", [[np.inf, 1]], {"y_pred": [[1, 1]]}, "y_true must be a 0/1 indicator matrix"),
        ("accuracy", [1, 0], {"y_pred": [[1, 1]]}, r"y_true should have the shape .*\(2,\)"),
        ("accuracy", [[NAN, NAN]], {"y_pred": [[1, 1]]}, "y_true holds no observed entry"),
        ("accuracy", [[0, 1]], {"y_pred": [[1]]}, r"y_pred should have the shape of y_true"),
        ("accuracy", [[0, 1]], {"y_pred": [[0.5, 1]]}, "y_pred should be 0 or 1"),
        ("accuracy", [[0, 1]], {"y_pred": [[NAN, 1]]}, "y_pred should be 0 or 1"),
        ("accuracy", [[0, 1]], {"y_score": [[0, 1]]}, "y_pred should be given"),
        ("roc_auc", [[0, 1]], {"y_pred": [[0, 1]]}, "y_score should be given"),
        ("neg_log_loss", [[0, 1]], {"y_score": [[-0.1, 1]]}, r"y_score should be in \[0, 1\]"),
        ("neg_brier_score", [[0, 1]], {"y_score": [[0, NAN]]}, r"y_score should be in \[0, 1\]"),
        ("roc_auc_micro", [[0, 1]], {"y_score": [[0, np.inf]]}, "y_score should be finite"),
    ],
)
def test_wrong_input(name, y, kwargs, message):
    with pytest.raises(ValueError, match=message):
        masked_score(name, y, **kwargs)


@pytest.mark.parametrize("weight", [[1.0], [1.0, -1.0], [1.0, NAN]])
def test_wrong_weight(weight):
    with pytest.raises(ValueError, match="sample_weight should hold 2 finite numbers"):
        masked_score("accuracy", [[0], [1]], y_pred=[[0], [1]], sample_weight=weight)


def test_wrong_weights_of_labels():
    with pytest.raises(ValueError, match=r"sample_weight must have the shape of y, \(2, 1\)"):
        masked_score("accuracy", [[0], [1]], y_pred=[[0], [1]], sample_weight=[[1, 1], [1, 1]])


def test_unknown_name():
    with pytest.raises(ValueError, match=r"name should .*got 'f1_sample'.*'f1_samples'") as e:
        masked_scorer("f1_sample")
    assert all(name in str(e.value) for name in ALL)
    with pytest.raises(ValueError, match=r"got 'zzzzzzz'\.$"):
        masked_score("zzzzzzz", [[1]], y_pred=[[1]])
    with pytest.raises(ValueError, match=r"got \['accuracy'\]"):
        masked_scorer(["accuracy"])


# --- scorers --------------------------------------------------------------------------------


class Shares(ClassifierMixin, BaseEstimator):
    """Predict the observed share of each label, moved by `shift`; takes NaN in y."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y):
        self.shares_ = np.clip(np.nanmean(y, axis=0) + self.shift, 0, 1)
        return self

    def predict_proba(self, X):
        return np.tile(self.shares_, (len(X), 1)) * (0.9 + 0.1 * (np.asarray(X)[:, :1] > 0))

    def predict(self, X):
        return (self.predict_proba(X) >= 0.5).astype(int)


@pytest.fixture
def partly_observed():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    y = (rng.random((60, 5)) < [0.2, 0.4, 0.6, 0.7, 0.9]).astype(float)
    y[rng.random(y.shape) < 0.3] = NAN
    y[7] = NAN
    return X, y


def test_repr_pickle_equality():
    scorer = masked_scorer("f1_samples")
    assert repr(scorer) == "masked_scorer('f1_samples')"
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    assert scorer != masked_scorer("f1_macro")
    search = GridSearchCV(Shares(), {"shift": [0]}, scoring=scorer, cv=KFold(3))
    assert clone(search).scoring == scorer


@pytest.mark.deep
@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_grid_search(partly_observed, name, routing):
    X, y = partly_observed
    cv = KFold(3)
    grid = {"shift": [-0.9, 0.0, 0.3]}
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(Shares(), grid, scoring=masked_scorer(name), cv=cv)
        search.fit(X, y)
        score = search.score(X, y)
    for k, (train, test) in enumerate(cv.split(X)):
        for i, shift in enumerate(grid["shift"]):
            model = Shares(shift=shift).fit(X[train], y[train])
            kwargs = arguments(name, model.predict(X[test]), model.predict_proba(X[test]))
            expected = masked_score(name, y[test], **kwargs)
            assert search.cv_results_[f"split{k}_test_score"][i] == expected
    best = search.best_estimator_
    kwargs = arguments(name, best.predict(X), best.predict_proba(X))
    assert score == masked_score(name, y, **kwargs)
    if name == "neg_brier_score":
        assert search.best_params_ == {"shift": 0.0}


@pytest.mark.parametrize("routing", [False, True])
def test_other_model_selection(partly_observed, routing):
    X, y = partly_observed
    names = ["f1_samples", "neg_log_loss"]
    with sklearn.config_context(enable_metadata_routing=routing):
        one = [
            cross_val_score(Shares(), X, y, cv=KFold(3), scoring=masked_scorer(name))
            for name in names
        ]
        both = cross_validate(
            Shares(), X, y, cv=KFold(3), scoring={name: masked_scorer(name) for name in names}
        )
    for name, scores in zip(names, one, strict=True):
        assert np.isfinite(scores).all()
        np.testing.assert_array_equal(scores, both[f"test_{name}"])


@pytest.mark.parametrize("name", ["f1_macro", "jaccard_samples", "accuracy", "roc_auc"])
def test_scorer_equals_that_of_scikit_learn(name):
    y, *_ = complete(1)
    X = y + np.random.default_rng(0).normal(size=y.shape)
    for model in (MultiOutputClassifier(LogisticRegression()), KNeighborsClassifier(7)):
        model.fit(X, y)
        expected = skm.get_scorer(name)(model, X, y)
        assert masked_scorer(name)(model, X, y) == pytest.approx(expected)
        assert 0 < expected < 1


def test_scorer_takes_a_list_of_probabilities():
    y, *_ = complete(2)
    X = y + np.random.default_rng(0).normal(size=y.shape)
    model = MultiOutputClassifier(LogisticRegression()).fit(X, y)
    positive = np.column_stack([output[:, 1] for output in model.predict_proba(X)])
    found = masked_scorer("neg_brier_score")(model, X, y)
    assert found == -np.mean((y - positive) ** 2)


def test_scorer_knows_the_class_of_labels_with_one_class_in_fit():
    y, *_ = complete(2)
    X = y + np.random.default_rng(0).normal(size=y.shape)
    seen = y.copy()
    seen[:, 0], seen[:, 4] = 0, 1
    model = KNeighborsClassifier(5).fit(X, seen)
    outputs = model.predict_proba(X)
    assert outputs[0].shape == outputs[4].shape == (40, 1)
    positive = np.column_stack(
        [np.zeros(40), *(output[:, 1] for output in outputs[1:4]), np.ones(40)]
    )
    assert masked_scorer("neg_brier_score")(model, X, y) == -np.mean((y - positive) ** 2)


def test_scorer_ranks_by_decision_function():
    y, *_ = complete(2)
    X = y + np.random.default_rng(0).normal(size=y.shape)
    model = RidgeClassifier().fit(X, y)
    expected = skm.roc_auc_score(y, model.decision_function(X))
    assert masked_scorer("roc_auc")(model, X, y) == pytest.approx(expected)
    with pytest.raises(AttributeError, match="predict_proba for 'neg_log_loss'; RidgeClassifier"):
        masked_scorer("neg_log_loss")(model, X, y)


def test_scorer_passes_the_weight(partly_observed):
    X, y = partly_observed
    model = Shares().fit(X, y)
    weight = np.arange(60) % 3
    found = masked_scorer("accuracy")(model, X, y, sample_weight=weight)
    expected = masked_score("accuracy", y, y_pred=model.predict(X), sample_weight=weight)
    assert found == expected
    assert found != masked_scorer("accuracy")(model, X, y)


def test_scorer_gets_weights_by_metadata_routing():
    rng = np.random.RandomState(0)
    X, y = rng.randn(40, 3), rng.randint(0, 2, (40, 3)).astype(float)
    y[rng.random_sample(y.shape) < 0.2] = np.nan
    weight = rng.random_sample(40) + np.where(np.arange(40) < 20, 0, 5)
    dummy = Shares()
    folds = KFold(2)
    scorer = masked_scorer("neg_hamming_loss")
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = scorer.set_score_request(sample_weight=True)
        scores = cross_validate(
            dummy, X, y, cv=folds, scoring=weighted, params={"sample_weight": weight}
        )["test_score"]
        with pytest.raises(ValueError, match="sample_weight"):
            cross_validate(dummy, X, y, cv=folds, scoring=scorer, params={"sample_weight": weight})
    expected = [
        scorer(clone(dummy).fit(X[a], y[a]), X[b], y[b], sample_weight=weight[b])
        for a, b in folds.split(X)
    ]
    np.testing.assert_allclose(scores, expected)
    plain = [scorer(clone(dummy).fit(X[a], y[a]), X[b], y[b]) for a, b in folds.split(X)]
    assert not np.allclose(scores, plain)  # or the weights would make no difference
