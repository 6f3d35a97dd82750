"""Weights of single labels: `sample_weight` of shape (n_samples, n_outputs)."""

import importlib
import inspect
import pickle
import pkgutil

import numpy as np
import pandas as pd
import pytest
import sklearn
from reference.cases import deep_except
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_validate

import skcrbm
from skcrbm import (
    MSSVMCRBM,
    ChainCRF,
    CRBMClassifier,
    DecodedClassifier,
    ImageCRBM,
    LabelGraphCRF,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.annotation import find_label_issues
from skcrbm.calibration import CalibratedMarginals, ConformalLabelSets, ConformalRiskControl
from skcrbm.calibration._conformal import conformal_quantile
from skcrbm.constraints import Between, Constrained
from skcrbm.datasets import make_structured_labels
from skcrbm.decoding import fit_thresholds
from skcrbm.ensemble import BlendedLabelSets, OutOfBagLogOdds, make_stacked
from skcrbm.learning import SGD
from skcrbm.learning.data import ArraySource
from skcrbm.metrics import (
    expected_calibration_error,
    marginal_log_loss,
    masked_score,
    masked_scorer,
    multilabel_report,
)
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.targets.weights import (
    count_rows_of,
    first_copies,
    folds_of_copies,
    label_layers,
)

X, Y = make_structured_labels(90, n_features=3, n_informative=3, n_labels=4, random_state=0)
RNG = np.random.RandomState(0)
WEIGHT = RNG.choice([0.0, 0.5, 1.0, 2.0], size=Y.shape)
MODELS = {
    "crbm": CRBMClassifier(n_hidden=2, max_iter=30, random_state=0),
    "adam": CRBMClassifier(
        n_hidden=2, solver="adam", alpha=0.01, early_stopping=True, max_iter=4, random_state=0
    ),
    "threshold": CRBMClassifier(n_hidden=1, max_iter=20, decode="threshold", random_state=0),
    "balanced": CRBMClassifier(
        n_hidden=1, alpha=0.1, max_iter=20, class_weight=[{1: 2.0}] * 4, random_state=0
    ),
    "mssvm": MSSVMCRBM(n_hidden=2, inference="exact", max_iter=4, random_state=0),
    "lmbm": LMBMClassifier(random_state=0),
    "graph": LabelGraphCRF(max_iter=30),
    "layered": LayeredGMClassifier(layers=(), max_iter=4, random_state=0),
}


def copies_of(weight):
    """Return row numbers, labels and weights of the copies of each row, by the definition."""
    rows, labels, weights = [], [], []
    for n, w in enumerate(weight):
        below = 0.0
        for level in np.unique(w[w > 0]):
            rows.append(n)
            labels.append(np.where(w >= level, Y[n], np.nan))
            weights.append(level - below)
            below = level
    return np.array(rows), np.array(labels), np.array(weights)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", deep_except(("crbm", "mssvm", "lmbm", "graph", "layered"), MODELS))
def test_equal_weights_are_row_weights(name):
    """A weight per row gives the same model as equal weights of its labels, bit by bit."""
    row = RNG.choice([0.0, 1.0, 3.0], size=len(Y))
    by_row = clone(MODELS[name]).fit(X, Y, sample_weight=row)
    by_label = clone(MODELS[name]).fit(X, Y, sample_weight=np.repeat(row[:, None], 4, axis=1))
    np.testing.assert_array_equal(by_row.predict_proba(X), by_label.predict_proba(X))
    if name != "layered":
        np.testing.assert_array_equal(by_row.label_sets_, by_label.label_sets_)
    if name == "threshold":
        np.testing.assert_array_equal(by_row.thresholds_, by_label.thresholds_)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", deep_except(("adam", "mssvm", "lmbm", "graph", "layered"), MODELS))
def test_weight_0_is_a_missing_label(name):
    """A label of weight 0 is the same as NaN, and the value of weights of NaN has no effect."""
    seen = WEIGHT > 0
    gaps = np.where(seen, Y, np.nan)[seen.any(axis=1)]
    missing = clone(MODELS[name]).fit(X[seen.any(axis=1)], gaps)
    weighted = clone(MODELS[name]).fit(X, Y, sample_weight=seen.astype(float))
    np.testing.assert_array_equal(missing.predict_proba(X), weighted.predict_proba(X))
    ignored = np.where(np.isnan(gaps), RNG.rand(*gaps.shape), 1.0)
    ignored = clone(MODELS[name]).fit(X[seen.any(axis=1)], gaps, sample_weight=ignored)
    np.testing.assert_array_equal(missing.predict_proba(X), ignored.predict_proba(X))


@pytest.mark.parametrize(
    "model",
    [
        CRBMClassifier(n_hidden=2, alpha=0.1, alpha_hidden=0.01, max_iter=400, random_state=0),
        LMBMClassifier(C=0.1, pairwise_penalty=1.0, tol=1e-8, random_state=0),
        LabelGraphCRF(alpha=0.1, alpha_pairs=0.01, graph="full", max_iter=400),
    ],
    ids=["crbm", "lmbm", "graph"],
)
def test_weights_are_copies_of_rows(model):
    """Weights of labels are copies of the rows in which labels of smaller weight are missing."""
    rows, labels, weights = copies_of(WEIGHT)
    weighted = clone(model).fit(X, Y, sample_weight=WEIGHT)
    copied = clone(model).fit(X[rows], labels, sample_weight=weights)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=2e-4)
    plain = clone(model).fit(X, Y)
    assert np.abs(weighted.predict_proba(X) - plain.predict_proba(X)).max() > 0.02


def test_independent_labels_have_weighted_regressions():
    """Without hidden units each label is a logistic regression with the weights of the label."""
    alpha = 0.05
    model = CRBMClassifier(n_hidden=0, alpha=alpha, max_iter=1000, random_state=0)
    found = model.fit(X, Y, sample_weight=WEIGHT).predict_proba(X)
    total = WEIGHT.max(axis=1).sum()  # a row counts with its largest weight
    for i in range(4):
        regression = LogisticRegression(C=1 / (alpha * total), tol=1e-10, max_iter=5000)
        regression.fit(X, Y[:, i], sample_weight=WEIGHT[:, i])
        np.testing.assert_allclose(found[:, i], regression.predict_proba(X)[:, 1], atol=1e-4)


def test_layers_add_up_to_the_weights():
    """The weights of the copies in which a label is observed add up to the weight of the label."""
    layers = label_layers(Y.astype(float), WEIGHT)
    observed = layers.weight[:, None] * ~np.isnan(layers.visible)
    total = np.zeros(Y.shape)
    np.add.at(total, layers.row, observed)
    np.testing.assert_allclose(total, WEIGHT)
    assert (layers.weight > 0).all()
    first = np.unique(layers.row, return_index=True)[1]
    assert (~np.isnan(layers.visible[first]) == (WEIGHT > 0)[WEIGHT.any(axis=1)]).all()


def test_folds_keep_copies_together():
    """No fold has copies of the same row in both parts."""
    layers = label_layers(Y.astype(float), WEIGHT)
    splitter = MultilabelStratifiedKFold(3)
    first = layers.visible[first_copies(layers.origin)]
    folds = folds_of_copies(splitter.split(first, first), layers.origin)
    for train, test in folds:
        assert not set(layers.row[train]) & set(layers.row[test])
        assert len(train) + len(test) == len(layers.row)


def test_class_weight_multiplies_all_copies():
    """`class_weight` multiplies the weights of all labels of a row by the same factor."""
    factors = np.where(Y == 1, 2.0, 1.0)
    positive = WEIGHT > 0
    row = np.where(positive, factors, 1.0).prod(axis=1)
    layers = label_layers(Y.astype(float), WEIGHT)
    scale = layers.weight.sum() / (layers.weight * row[layers.row]).sum()
    weighted = clone(MODELS["balanced"]).fit(X, Y, sample_weight=WEIGHT)
    plain = clone(MODELS["balanced"]).set_params(class_weight=None)
    plain.fit(X, Y, sample_weight=WEIGHT * (scale * row)[:, None])
    np.testing.assert_allclose(weighted.predict_proba(X), plain.predict_proba(X), atol=1e-5)


def test_partial_fit_and_data_frames():
    """`partial_fit` takes weights of labels, and frames are matched by the names of labels."""
    names = list("abcd")
    y = pd.DataFrame(Y, columns=names)
    weight = pd.DataFrame(WEIGHT, columns=names)[["c", "a", "d", "b"]]
    for fit in ("fit", "partial_fit"):
        model = clone(MODELS["adam"]).set_params(early_stopping=False)
        by_name = getattr(clone(model), fit)(X, y, sample_weight=weight)
        by_place = getattr(clone(model), fit)(X, Y, sample_weight=WEIGHT)
        np.testing.assert_array_equal(by_name.predict_proba(X), by_place.predict_proba(X))
        assert by_name.score(X, y, weight) == by_place.score(X, Y, WEIGHT)


@pytest.mark.parametrize("name", ["f1_samples", "f1_macro", "f1_micro", "neg_hamming_loss"])
def test_scores_and_thresholds_of_copies(name):
    """Scores with weights of labels are the scores of the copies."""
    proba = RNG.rand(*Y.shape)
    rows, labels, weights = copies_of(WEIGHT)
    found = masked_score(name, Y, y_pred=proba > 0.5, sample_weight=WEIGHT)
    wanted = masked_score(name, labels, y_pred=proba[rows] > 0.5, sample_weight=weights)
    assert found == pytest.approx(wanted)
    thresholds = fit_thresholds(Y, proba, name, sample_weight=WEIGHT)
    wanted = fit_thresholds(labels, proba[rows], name, sample_weight=weights)
    np.testing.assert_allclose(thresholds, wanted)


def test_scores_of_entries_are_weighted_means():
    """Scores over entries are means with the weights of the entries."""
    proba = RNG.rand(*Y.shape)
    loss = -np.log(np.where(Y == 1, proba, 1 - proba))
    found = marginal_log_loss(Y, proba, sample_weight=WEIGHT)
    assert found == pytest.approx(np.average(loss, weights=WEIGHT))
    report = multilabel_report(Y, proba > 0.5, proba, sample_weight=WEIGHT)
    assert report["neg_log_loss"] == pytest.approx(-found)
    assert report.n_samples == WEIGHT.any(axis=1).sum()
    assert report.n_observed == (WEIGHT > 0).sum()
    np.testing.assert_allclose(report.by_label["support"], (WEIGHT * Y).sum(axis=0))


def test_wrappers_pass_weights_on():
    """Decoding, rules, calibration and the search for wrong labels take weights of labels."""
    inner = CRBMClassifier(n_hidden=0, alpha=0.1, random_state=0)
    plain = clone(inner).fit(X, Y, sample_weight=WEIGHT).predict_proba(X)
    decoded = DecodedClassifier(inner, decode="threshold").fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(decoded.predict_proba(X), plain)
    ruled = Constrained(inner, [Between([0, 1, 2, 3], 0, 4)]).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(ruled.estimator_.predict_proba(X), plain)
    calibrated = CalibratedMarginals(inner).fit(X, Y, sample_weight=WEIGHT)
    assert calibrated.predict_proba(X).shape == Y.shape
    issues = find_label_issues(inner, X, Y, sample_weight=WEIGHT)
    equal = find_label_issues(inner, X, Y)
    assert np.abs(issues.entry_scores - equal.entry_scores).max() > 0.01


def test_calibrators_use_the_weights_of_their_label():
    """The calibrator of a label has the weights of the label."""
    inner = CRBMClassifier(n_hidden=0, alpha=0.1, random_state=0)
    only_first = np.ones(Y.shape)
    only_first[:, 0] = np.where(np.arange(90) % 2, 5.0, 1.0)
    found = CalibratedMarginals(inner).fit(X, Y, sample_weight=only_first)
    equal = CalibratedMarginals(inner).fit(X, Y, sample_weight=only_first[:, 0])
    first, other = ([m.calibrators_[j].coef_[0, 0] for m in (found, equal)] for j in (0, 1))
    assert first[0] == pytest.approx(first[1], rel=0.02)
    assert other[0] != pytest.approx(other[1], rel=1e-3)


CONFORMAL = {
    "sets": (ConformalLabelSets, "thresholds_", {"confidence": 0.7}),
    "risk": (ConformalRiskControl, "threshold_", {"risk": 0.3}),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", CONFORMAL)
def test_conformal_sets_take_weights_of_labels(name):
    """Equal weights are row weights, and a label of weight 0 is a missing label."""
    kind, attribute, options = CONFORMAL[name]
    model = CRBMClassifier(n_hidden=0, alpha=0.1)

    def threshold(y, weight):
        fitted = kind(model, cv=KFold(3), **options).fit(X, y, sample_weight=weight)
        return getattr(fitted, attribute), fitted.estimator_.visible_coef_

    rows = RNG.choice([0.5, 1.0, 2.0], size=len(Y))
    for found, expected in [
        (threshold(Y, np.repeat(rows[:, None], 4, axis=1)), threshold(Y, rows)),
        (
            threshold(Y, (WEIGHT > 0) * 1.0),
            threshold(np.where(WEIGHT > 0, Y, np.nan), np.ones(WEIGHT.shape)),
        ),
    ]:
        assert found[0] == pytest.approx(expected[0], rel=1e-6)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", CONFORMAL)
def test_rows_calibrate_with_their_smallest_label_weight(name):
    kind, attribute, options = CONFORMAL[name]
    fitted = FrozenEstimator(CRBMClassifier(n_hidden=0, alpha=0.1).fit(X, Y))
    found = kind(fitted, **options).fit(X, Y, sample_weight=WEIGHT)
    expected = kind(fitted, **options).fit(X, Y, sample_weight=WEIGHT.min(axis=1))
    assert getattr(found, attribute) == getattr(expected, attribute)
    with pytest.raises(ValueError, match="a label of weight 0, in every row"):
        kind(fitted, **options).fit(X, Y, sample_weight=np.eye(4)[np.arange(90) % 4])


def test_conformal_weights_are_copies_beside_a_row_of_average_weight():
    """The threshold is a quantile of the copies, with the new row as copies of infinite score."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, confidence = rng.integers(20, 60), rng.uniform(0.2, 0.8)
        scores, weight = rng.normal(size=n), rng.integers(1, 5, n)
        copies = np.sort(np.repeat(scores, weight * n))
        copies = np.append(copies, np.full(weight.sum(), np.inf))
        place = int(np.ceil(confidence * len(copies) * (1 - 1e-12))) - 1
        assert conformal_quantile(scores, weight.astype(float), confidence, "") == copies[place]


def test_routing_passes_weights_of_labels():
    """Metadata routing cuts the matrix of weights to the rows of each fold."""
    inner = CRBMClassifier(n_hidden=0, alpha=0.1, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = inner.set_fit_request(sample_weight=True)
        scorer = masked_scorer("neg_log_loss").set_score_request(sample_weight=True)
        found = cross_validate(inner, X, Y, cv=3, scoring=scorer, params={"sample_weight": WEIGHT})[
            "test_score"
        ]
    train, test = np.arange(30, 90), np.arange(30)
    model = clone(inner).fit(X[train], Y[train], sample_weight=WEIGHT[train])
    wanted = -marginal_log_loss(Y[test], model.predict_proba(X[test]), sample_weight=WEIGHT[test])
    assert found[0] == pytest.approx(wanted)


PLAIN = CRBMClassifier(n_hidden=0, alpha=0.1)
# Estimators and functions whose `sample_weight` may have the shape of a 2-D y, in small settings.
TAKE_LABEL_WEIGHTS = {
    "CRBMClassifier": PLAIN,
    "MSSVMCRBM": MSSVMCRBM(n_hidden=1, max_iter=1),
    "LMBMClassifier": LMBMClassifier(C=0.1, pairwise_penalty=1.0),
    "LabelGraphCRF": LabelGraphCRF(alpha=0.1, max_iter=2),
    "LayeredGMClassifier": LayeredGMClassifier(layers=(), max_iter=1),
    "ImageCRBM": ImageCRBM(n_hidden=1, max_iter=1),
    "DecodedClassifier": DecodedClassifier(PLAIN),
    "Constrained": Constrained(PLAIN, [Between([0, 1, 2, 3], 0, 4)]),
    "CalibratedMarginals": CalibratedMarginals(PLAIN, cv=2),
    "ConformalLabelSets": ConformalLabelSets(PLAIN, confidence=0.5, cv=2),
    "ConformalRiskControl": ConformalRiskControl(PLAIN, risk=0.5, cv=2),
    "OutOfBagLogOdds": OutOfBagLogOdds(ExtraTreesClassifier(5, bootstrap=True)),
    "BlendedLabelSets": BlendedLabelSets(
        make_stacked(final_estimator=PLAIN, n_estimators=10, random_state=0), cv=2
    ),
    "find_label_issues": lambda X, Y, sample_weight: find_label_issues(
        PLAIN, X, Y, cv=2, sample_weight=sample_weight
    ),
    "masked_score": lambda X, Y, sample_weight: masked_score(
        "f1_micro", Y, y_pred=Y, sample_weight=sample_weight
    ),
    "multilabel_report": lambda X, Y, sample_weight: multilabel_report(
        Y, Y, sample_weight=sample_weight
    ),
    "marginal_log_loss": lambda X, Y, sample_weight: marginal_log_loss(
        Y, 0.8 * Y + 0.1, sample_weight=sample_weight
    ),
    "expected_calibration_error": lambda X, Y, sample_weight: expected_calibration_error(
        Y, 0.8 * Y + 0.1, sample_weight=sample_weight
    ),
    "fit_thresholds": lambda X, Y, sample_weight: fit_thresholds(
        Y, 0.8 * Y + 0.1, sample_weight=sample_weight
    ),
}
# These have no y of labels, or no definition of a missing label (SSVMClassifier, see its Notes).
TAKE_OTHER_WEIGHTS = {"SSVMClassifier", "ChainCRF", "GraphCRF", "GridCRF", "infer"}
TAKE_OTHER_WEIGHTS |= {"RBM", "IsingModel", "MarkovRandomField", "LargeMarginMarkovNetwork"}


def test_every_sample_weight_is_listed():
    """A new estimator or function with `sample_weight` must take weights of labels, or say why."""
    found = set()
    for module in pkgutil.iter_modules(skcrbm.__path__, "skcrbm."):
        public = importlib.import_module(module.name)
        for name in getattr(public, "__all__", []):
            item = getattr(public, name)
            function = getattr(item, "fit", None) if inspect.isclass(item) else item
            if callable(function) and "sample_weight" in inspect.signature(function).parameters:
                found.add(name)
                shape = inspect.getdoc(function).partition("sample_weight :")[2].partition("\n")[0]
                many = any(text in shape for text in ("n_outputs)", "n_labels)", "shape of y"))
                assert many == (name in TAKE_LABEL_WEIGHTS), (name, shape)
    assert found == TAKE_OTHER_WEIGHTS | set(TAKE_LABEL_WEIGHTS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TAKE_LABEL_WEIGHTS)
def test_all_take_weights_of_labels(name):
    model = TAKE_LABEL_WEIGHTS[name]
    fit = clone(model).fit if hasattr(model, "fit") else model
    fit(X, Y, sample_weight=WEIGHT.clip(0.5))
    with pytest.raises(ValueError, match="sample_weight"):
        fit(X, Y, sample_weight=WEIGHT[:, :3])


@pytest.mark.parametrize(
    "model",
    [
        SSVMClassifier(),
        CalibratedMarginals(SSVMClassifier()),
        ConformalLabelSets(SSVMClassifier()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_others_say_that_they_need_row_weights(model):
    """Estimators without weights of labels say so."""
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(n_samples,\)"):
        model.fit(X, Y, sample_weight=WEIGHT)


def test_invalid_weights_get_clear_errors():
    """Errors name the argument, the shape and the cause."""
    model = CRBMClassifier(n_hidden=0, alpha=0.1)
    for weight, text in [
        (WEIGHT[:, :2], r"must have the shape of y, \(90, 4\)"),
        (-WEIGHT, "not negative"),
        (np.full(Y.shape, np.nan), "finite"),
        (np.zeros(Y.shape), "zero for every observed label"),
        (WEIGHT.astype(str), "of type"),
        (sparse.csr_matrix(WEIGHT), "toarray"),
        ([[1.0, 2.0], [1.0]], "sample_weight must be"),
        (np.full(Y.shape, 1e308), "sum of the weights"),
        (np.full(len(Y), 1e308), "sum of the weights"),
        (pd.DataFrame(WEIGHT, columns=list("abcx")), "x"),
    ]:
        with pytest.raises(ValueError, match=text):
            model.fit(X, pd.DataFrame(Y, columns=list("abcd")), sample_weight=weight)
    with pytest.raises(ValueError, match="2-D y"):
        model.fit(X, Y[:, 0], sample_weight=WEIGHT)
    with pytest.raises(ValueError, match="equal weights"):
        model.set_params(learning="cd", n_hidden=1).fit(X, Y, sample_weight=WEIGHT + 1)
    with pytest.raises(ValueError, match="sample_weight has 90 sequences, but X has 1"):
        ChainCRF().fit([X], [Y[:, 0]], sample_weight=WEIGHT)


def test_weights_follow_the_columns_of_y():
    """Weights without names belong to the columns of y, whatever the order of the labels."""
    frame, names = pd.DataFrame(Y, columns=list("abcd")), ["d", "b"]
    first = CRBMClassifier(n_hidden=1, random_state=0).partial_fit(X, frame)
    part, weight = frame[names].to_numpy(), WEIGHT[:, [3, 1]]
    full = np.where(np.isin(list("abcd"), names), Y, np.nan)
    wanted = clone_of(first).partial_fit(X, full, sample_weight=WEIGHT).predict_proba(X)
    for y, w, options in [
        (part, weight, {"classes": names}),
        (part, pd.DataFrame(WEIGHT, columns=list("abcd"))[["b", "d"]], {"classes": names}),
        (frame[names], weight, {}),
        (frame[names], pd.DataFrame(weight, columns=names)[["b", "d"]], {}),
    ]:
        found = clone_of(first).partial_fit(X, y, sample_weight=w, **options)
        np.testing.assert_array_equal(found.predict_proba(X), wanted)
    with pytest.raises(ValueError, match=r"sample_weight must have the shape of y, \(90, 2\)"):
        first.partial_fit(X, frame[names], sample_weight=WEIGHT)


def clone_of(model):
    return pickle.loads(pickle.dumps(model))


def test_new_labels_have_weights():
    """A new label of weight 0 is a new label without an observation."""
    first = CRBMClassifier(n_hidden=1, random_state=0).partial_fit(X, Y[:, :3])
    seen = WEIGHT > 0
    by_weight = clone_of(first).partial_fit(X, Y, classes=range(4), sample_weight=seen * 1.0)
    gaps = np.where(seen, Y, np.nan)[seen.any(axis=1)]
    by_nan = clone_of(first).partial_fit(X[seen.any(axis=1)], gaps, classes=range(4))
    np.testing.assert_array_equal(by_weight.predict_proba(X), by_nan.predict_proba(X))
    nothing = clone_of(first).partial_fit(X, Y, classes=range(4), sample_weight=0 * WEIGHT)
    np.testing.assert_array_equal(nothing.predict_proba(X), first.predict_proba(X))


@pytest.mark.parametrize("classes", [False, True])
def test_scores_match_weights_with_the_columns_of_y(classes):
    """`score` and the report use the order of the columns of y, also for weights without names."""
    names, mixed = list("abcd"), list("cdab")
    labels = np.array(["off", "on"])[Y] if classes else Y
    frame, weights = (pd.DataFrame(a, columns=names) for a in (labels, WEIGHT))
    model = LabelGraphCRF(alpha=0.1, max_iter=5).fit(X, frame)
    wanted = model.score(X, labels, sample_weight=WEIGHT)
    assert wanted != pytest.approx(model.score(X, labels, sample_weight=weights[mixed].to_numpy()))
    for w in (weights[mixed].to_numpy(), weights[mixed], weights):
        assert model.score(X, frame[mixed], sample_weight=w) == pytest.approx(wanted)
    assert model.score(X, frame, sample_weight=weights[mixed]) == pytest.approx(wanted)
    if not classes:
        proba = np.random.RandomState(0).random_sample(Y.shape)
        options = {"metric": "f1_macro", "per_label": True}
        plain = fit_thresholds(Y, proba, sample_weight=WEIGHT, **options)
        named = pd.DataFrame(proba, columns=names)
        for y, p, w in [
            (frame, proba, weights[mixed]),
            (frame[mixed], named, weights),
            (frame[mixed], named, weights[mixed].to_numpy()),
        ]:
            found = fit_thresholds(y, p, sample_weight=w, **options)
            np.testing.assert_array_equal(found, plain)
        reports = [multilabel_report(frame, Y, sample_weight=w) for w in (weights, weights[mixed])]
        assert str(reports[0]) == str(reports[1])


def test_regressions_in_place_of_hidden_units_count_rows_once(monkeypatch):
    """The penalty of the fallback of MSSVMCRBM counts rows, not their copies."""
    import skcrbm.estimators._crbm_auto as auto

    counts = []

    def spy(origin, n_copies):
        counts.append(count_rows_of(origin, n_copies))
        return counts[-1]

    monkeypatch.setattr(auto, "count_rows_of", spy)
    y = np.random.RandomState(1).randint(0, 2, (90, 11))
    weight = np.random.RandomState(2).choice([1.0, 2.0], size=y.shape)
    MSSVMCRBM(n_hidden=11, max_iter=1, early_stopping=True, random_state=0).fit(
        X, y, sample_weight=weight
    )
    assert len(counts) > 2
    assert max(counts) == 90


def test_batches_hold_all_copies_of_their_rows():
    """Each original row is in one batch, with all its copies, also if some rows are left out."""
    layers = label_layers(Y.astype(float), WEIGHT)
    origin, n = layers.row, len(layers.row)
    for positions in (None, np.flatnonzero(origin % 3 > 0)):
        kept = np.arange(n) if positions is None else positions
        arrays = np.arange(n)[:, None], layers.visible, layers.weight
        source = ArraySource(*arrays, positions=positions, origin=origin)
        assert source.n_originals == len(np.unique(origin[kept]))
        batches = list(source.batches(np.random.RandomState(0), 20))
        sizes = [len(np.unique(batch.origin)) for batch in batches]
        assert sizes[:-1] == [20] * (len(batches) - 1)
        assert sizes == [source.count_originals(batch) for batch in batches]
        assert sum(sizes) == source.n_originals
        visited = np.concatenate([batch.X[:, 0] for batch in batches])
        np.testing.assert_array_equal(np.sort(visited), kept)


def test_a_step_with_weights_of_labels_is_a_step_with_copies():
    """A batch counts rows, not copies: a step on all rows has the gradient of all copies."""
    rows, labels, weights = copies_of(WEIGHT)
    options = {"n_hidden": 2, "alpha": 0.1, "random_state": 0}
    weighted = CRBMClassifier(solver=SGD(learning_rate=0.1, batch_size=len(Y)), **options)
    copied = CRBMClassifier(solver=SGD(learning_rate=0.1, batch_size=len(rows)), **options)
    for _ in range(3):
        weighted.partial_fit(X, Y, sample_weight=WEIGHT)
        copied.partial_fit(X[rows], labels, sample_weight=weights)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("model", [CRBMClassifier(), MSSVMCRBM(n_hidden=2), LayeredGMClassifier()])
def test_weights_of_labels_take_no_more_steps_than_weights_of_rows(model):
    """Different weights for all labels would make as many steps as copies, which takes long."""
    dense = np.random.RandomState(0).random_sample(Y.shape)
    plain = clone(model).set_params(random_state=0).partial_fit(X, Y)
    weighted = clone(model).set_params(random_state=0).partial_fit(X, Y, sample_weight=dense)
    assert weighted._progress.n_steps == plain._progress.n_steps
