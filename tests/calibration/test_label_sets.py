"""Conformal sets of label vectors: coverage, sizes, members and summaries."""

import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from reference.label_rules import Given
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.calibration import ConformalLabelSets, ConformalRiskControl
from skcrbm.calibration._label_sets import _mass_above, _scores
from skcrbm.calibration._summary import summarize
from skcrbm.datasets import make_structured_labels
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.targets.distribution import LabelDistribution
from skcrbm.targets.kinds import MultilabelTargets

N_LABELS = 5
RULES = ["mass", "probability"]


@pytest.fixture(scope="module")
def data():
    return make_structured_labels(900, n_labels=N_LABELS, random_state=0)


@pytest.fixture(scope="module")
def joint(data):
    X, Y = data
    return FrozenEstimator(CRBMClassifier(alpha=0.1, random_state=0).fit(X[:200], Y[:200]))


@pytest.fixture(scope="module")
def marginal(data):
    X, Y = data
    return FrozenEstimator(MultiOutputClassifier(LogisticRegression()).fit(X[:200], Y[:200]))


class Truth(ClassifierMixin, BaseEstimator):
    """The distribution that generated the rows, which a column of X numbers."""

    def __init__(self, distribution):
        self.distribution = distribution

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def score_label_sets(self, X, label_sets):
        place = np.asarray(label_sets) @ (1 << np.arange(label_sets.shape[1])[::-1])
        return np.log(self.distribution[X[:, 0].astype(int)][:, place])


def binomial_bounds(n, p, deviations=4):
    return p - deviations * np.sqrt(p * (1 - p) / n), p + deviations * np.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("rule", RULES)
def test_members_sizes_and_sets_agree(data, joint, marginal, rule):
    X, Y = data
    for model in (joint, marginal):
        sets = ConformalLabelSets(model, rule=rule).fit(X[200:400], Y[200:400])
        test, truth = X[400:480], Y[400:480]
        found, sizes = sets.predict_sets(test), sets.set_sizes(test)
        assert [len(vectors) for vectors in found] == sizes.tolist()
        inside = [(vectors == y).all(axis=1).any() for vectors, y in zip(found, truth)]
        np.testing.assert_array_equal(sets.contains(test, truth), inside)
        cut = sets.predict_sets(test, limit=3)
        assert all(np.array_equal(a[:3], b) for a, b in zip(found, cut))


def test_sets_hold_the_most_probable_vectors(data, joint):
    X, Y = data
    sets = ConformalLabelSets(joint, confidence=0.8).fit(X[200:400], Y[200:400])
    top = joint.predict_topk(X[400:420], 2**N_LABELS)
    for found, best, proba in zip(sets.predict_sets(X[400:420]), top.labels, top.proba):
        np.testing.assert_array_equal(found, best[: len(found)])
        above = proba[: len(found) - 1].sum()
        assert above <= sets.thresholds_[0] + 1e-9 < above + proba[len(found) - 1] + 1e-8


def test_coverage_of_the_true_distribution():
    """With the true p(y | x) sets of mass 0.9 need hardly any calibration."""
    _, Y, _, proba = make_structured_labels(
        3000, n_labels=N_LABELS, random_state=1, return_distribution=True
    )
    rows = np.arange(len(Y))[:, None]
    sets = ConformalLabelSets(FrozenEstimator(Truth(proba))).fit(rows[:1000], Y[:1000])
    low, high = binomial_bounds(2000, 0.9)
    assert low - 0.03 < sets.contains(rows[1000:], Y[1000:]).mean() < high + 0.03


@pytest.mark.deep
@pytest.mark.parametrize("rule", RULES)
def test_coverage_over_splits(data, joint, marginal, rule):
    """The coverage over many splits is between the confidence and 1 / (n + 1) more."""
    X, Y = data[0][200:], data[1][200:]
    rng = np.random.RandomState(0)
    for model in (joint, marginal):
        covered = []
        for _ in range(60):
            order = rng.permutation(len(Y))
            some, rest = order[:99], order[99:199]
            sets = ConformalLabelSets(model, confidence=0.8, rule=rule).fit(X[some], Y[some])
            covered.append(sets.contains(X[rest], Y[rest]).mean())
        # A split has the variance of a beta distribution and of a binomial distribution.
        error = np.sqrt(0.8 * 0.2 * (1 / 101 + 1 / 100) / 60)
        assert abs(np.mean(covered) - 0.8) < 4 * error + 0.01


@pytest.mark.deep
@pytest.mark.parametrize("structure", ["pairs", "groups"])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_coverage_of_cross_fitted_sets(structure, confidence):
    covered = []
    for seed in range(8):
        X, Y = make_structured_labels(1200, n_labels=4, structure=structure, random_state=seed)
        model = CRBMClassifier(alpha=0.1, random_state=0)
        sets = ConformalLabelSets(model, confidence=confidence).fit(X[:400], Y[:400])
        covered.append(sets.contains(X[400:], Y[400:]).mean())
    error = np.sqrt(confidence * (1 - confidence) * (1 / 401 + 1 / 800) / 8)
    assert confidence - 4 * error < np.mean(covered) < confidence + 4 * error + 0.015


def test_a_joint_model_has_smaller_sets(data, joint, marginal):
    X, Y = data
    sizes = [
        ConformalLabelSets(model).fit(X[200:500], Y[200:500]).set_sizes(X[500:]).mean()
        for model in (joint, marginal)
    ]
    assert sizes[0] < 0.8 * sizes[1]


def test_groups_have_thresholds_of_their_own(data, joint):
    """Wrong labels in one group must not change the coverage of the other group."""
    X, Y = data
    group = np.where(X[:, 0] > 0, "b", "a")
    noisy = Y.copy()
    noisy[group == "b"] = 1 - noisy[group == "b"]
    some, rest = slice(200, 600), slice(600, None)
    sets = ConformalLabelSets(joint, confidence=0.8)
    sets.fit(X[some], noisy[some], groups=group[some])
    inside = sets.contains(X[rest], noisy[rest], groups=group[rest])
    for name in "ab":
        mine = inside[group[rest] == name]
        low, _ = binomial_bounds(len(mine), 0.8)
        assert mine.mean() > low - 0.05
    sizes = sets.set_sizes(X[rest], groups=group[rest])
    assert sizes[group[rest] == "a"].mean() < sizes[group[rest] == "b"].mean()
    with pytest.raises(ValueError, match="needs groups, as in fit"):
        sets.contains(X[rest], Y[rest])
    with pytest.raises(ValueError, match="'c', which is not a group of fit"):
        sets.set_sizes(X[:1], groups=["c"])
    few = np.flatnonzero(group == "b")[:3]
    rows = np.r_[np.flatnonzero(group == "a")[:50], few]
    with pytest.raises(ValueError, match=r"at least 4 complete rows .* in group b, got 3"):
        sets.fit(X[rows], Y[rows], groups=group[rows])


def test_weights_choose_the_rows_that_calibrate(data, marginal):
    X, Y = data[0][200:400], data[1][200:400]
    weight = np.where(np.arange(200) < 120, 3.0, 0.0)
    weighted = ConformalLabelSets(marginal, confidence=0.8)
    weighted.fit(X, Y, sample_weight=weight)
    some = ConformalLabelSets(marginal, confidence=0.8).fit(X[:120], Y[:120])
    assert weighted.thresholds_[0] == pytest.approx(some.thresholds_[0], abs=1e-12)
    for scale in (1e-200, 1e305):  # 120 weights of 3e305 have a finite sum
        scaled = ConformalLabelSets(marginal, confidence=0.8)
        scaled.fit(X, Y, sample_weight=weight * scale)
        assert scaled.thresholds_ == weighted.thresholds_


@pytest.mark.parametrize("conformal", [ConformalLabelSets, ConformalRiskControl])
def test_weights_of_labels_need_a_classifier_that_takes_them(data, conformal):
    X, Y = data[0][:100], data[1][:100]
    weight = np.where(np.arange(N_LABELS) == 0, 2.0, np.ones(Y.shape))
    with pytest.raises(ValueError, match=r"MultiOutputClassifier .* sample_weight must have shape"):
        conformal(MultiOutputClassifier(LogisticRegression())).fit(X, Y, sample_weight=weight)


def test_missing_labels_do_not_calibrate(data, joint):
    X, Y = data[0][200:400], data[1][200:400].astype(float)
    Y[::3, 1] = np.nan
    complete = ~np.isnan(Y).any(axis=1)
    holey = ConformalLabelSets(joint).fit(X, Y)
    whole = ConformalLabelSets(joint).fit(X[complete], Y[complete])
    assert holey.thresholds_ == whole.thresholds_
    with pytest.raises(ValueError, match="NaN, or a label of weight 0, in every row"):
        ConformalLabelSets(joint).fit(X, np.where(np.arange(N_LABELS) == 0, np.nan, Y))


def test_cross_fitting_scores_rows_that_the_fold_did_not_train(data):
    X, Y = data[0][:150], data[1][:150]
    folds = MultilabelStratifiedKFold(3)
    model = MultiOutputClassifier(LogisticRegression())
    sets = ConformalLabelSets(model, rule="probability", confidence=0.5, cv=folds).fit(X, Y)
    scores = np.empty(len(Y))
    for train, test in folds.split(X, Y):
        proba = np.stack([p[:, 1] for p in clone(model).fit(X[train], Y[train]).predict_proba(X)])
        scores[test] = -np.log(np.where(Y == 1, proba.T, 1 - proba.T)).sum(axis=1)[test]
    assert sets.thresholds_[0] == pytest.approx(np.sort(scores)[75], rel=1e-9)


@pytest.mark.deep
def test_more_labels_than_can_be_enumerated():
    rng = np.random.RandomState(0)
    X = rng.randn(300, 4)
    Y = (rng.random_sample((300, 24)) < 1 / (1 + np.exp(3 - X[:, [0]]))).astype(int)
    for model in (
        MultiOutputClassifier(LogisticRegression()),
        CRBMClassifier(alpha=0.1, n_hidden=2),
    ):
        fitted = FrozenEstimator(model.fit(X[:100], Y[:100]))
        sets = ConformalLabelSets(fitted, confidence=0.8, n_draws=200, random_state=0)
        sets.fit(X[100:200], Y[100:200])
        low, high = binomial_bounds(100, 0.8)
        assert low - 0.1 < sets.contains(X[200:], Y[200:]).mean() < high + 0.1
        sizes = sets.set_sizes(X[200:])
        assert (sizes >= 0).all()
        assert 1 < sizes.mean() < 2**24
        with pytest.raises(ValueError, match="up to 20 labels, got 24"):
            sets.predict_sets(X[:2])


def test_estimated_sizes_agree_with_counts(data, joint, monkeypatch):
    X, Y = data
    sets = ConformalLabelSets(joint, n_draws=4000, random_state=0, rule="probability")
    sets.fit(X[200:400], Y[200:400])
    counted = sets.set_sizes(X[400:440])
    monkeypatch.setattr("skcrbm.targets.distribution.MAX_ALL_LABEL_SETS", 2)
    np.testing.assert_allclose(sets.set_sizes(X[400:440]), counted, rtol=0.2, atol=1.0)


@pytest.mark.parametrize("n_labels", [1000, 1500])
def test_sizes_beyond_the_largest_float(n_labels, recwarn):
    """All vectors of fair labels are equally probable, so a set holds 2^L vectors."""
    P = np.full((20, n_labels), 0.5)
    Y = np.random.RandomState(0).randint(0, 2, P.shape)
    model = FrozenEstimator(Given().fit(P, Y))
    sets = ConformalLabelSets(model, confidence=0.5, n_draws=10, random_state=0).fit(P, Y)
    expected = 2.0**1000 if n_labels == 1000 else np.inf
    np.testing.assert_allclose(sets.set_sizes(P[:2]), expected, rtol=1e-9)
    assert f"{sets.summarize(P[:1])[0].n_vectors:.3g}" == f"{expected:.3g}"
    assert not recwarn.list


def test_scores_from_draws_are_near_the_exact_scores(data, joint, marginal, monkeypatch):
    X, Y = data[0][200:300], data[1][200:300]
    options = {"rule": "mass", "n_draws": 2500, "n_best": 0, "seed": 0}
    for model in (joint, marginal):
        distribution = LabelDistribution(model, MultilabelTargets(Y.shape[1]))
        exact = _scores(distribution, X, Y, **options)
        with monkeypatch.context() as patch:
            patch.setattr("skcrbm.targets.distribution.MAX_ALL_LABEL_SETS", 2)
            found = _scores(distribution, X, Y, **options)
            alone = _scores(distribution, X[40:41], Y[40:41], **options)
        assert np.abs(found - exact).max() < 4 * 0.5 / np.sqrt(2500)
        assert alone[0] == found[40]  # the draws of a row do not depend on the other rows


@pytest.mark.deep
def test_coverage_does_not_depend_on_the_error_of_the_draws(data, joint, marginal, monkeypatch):
    """Scores from 15 draws are bad estimates, but all rows have the same bad score."""
    monkeypatch.setattr("skcrbm.targets.distribution.MAX_ALL_LABEL_SETS", 2)
    X, Y = data[0][200:], data[1][200:]
    for model in (joint, marginal):
        rng, covered = np.random.RandomState(0), []
        for seed in range(40):
            order = rng.permutation(len(Y))
            some, rest = order[:99], order[99:]
            sets = ConformalLabelSets(model, confidence=0.8, n_draws=15, random_state=seed)
            covered.append(sets.fit(X[some], Y[some]).contains(X[rest], Y[rest]).mean())
        # Scores are multiples of 1/15, and rows with equal scores can only raise the coverage.
        assert np.mean(covered) > 0.8 - 4 * np.sqrt(0.8 * 0.2 * (1 / 101 + 1 / 601) / 40)
        assert np.mean(covered) < 0.95


def test_other_joint_models_and_pipelines(data):
    X, Y = data
    scaled = make_pipeline(StandardScaler(), LMBMClassifier(C=0.1))
    sets = ConformalLabelSets(scaled, cv=3).fit(X[:150], Y[:150])
    assert sets.contains(X[150:300], Y[150:300]).mean() > 0.8
    again = pickle.loads(pickle.dumps(sets))
    np.testing.assert_array_equal(again.set_sizes(X[:20]), sets.set_sizes(X[:20]))
    assert sets.predict(X[:3]).shape == (3, N_LABELS)


def test_any_sparse_format(data, joint):
    """The rows of X are taken in parts, also if the format of X has no rows to take."""
    X, Y = data
    model = ConformalLabelSets(FrozenEstimator(joint)).fit(X, Y)
    for convert in (sparse.coo_matrix, sparse.dia_matrix):
        part = convert(X[:9])
        np.testing.assert_array_equal(model.contains(part, Y[:9]), model.contains(X[:9], Y[:9]))
        np.testing.assert_array_equal(model.set_sizes(part), model.set_sizes(X[:9]))


def test_names(data, joint):
    X, Y = data
    names = list("ABCDE")
    frame = pd.DataFrame(Y[200:400], columns=names)
    model = CRBMClassifier(alpha=0.1, random_state=0).fit(X[:200], frame)
    sets = ConformalLabelSets(FrozenEstimator(model), confidence=0.6).fit(X[200:400], frame)
    summary = sets.summarize(X[400:401])[0]
    assert sorted(summary.on + summary.off + summary.open) == names
    assert summary.n_vectors == sets.set_sizes(X[400:401])[0]
    backwards = pd.DataFrame(Y[400:450], columns=names)[names[::-1]]
    np.testing.assert_array_equal(
        sets.contains(X[400:450], backwards), sets.contains(X[400:450], Y[400:450])
    )


def test_summaries():
    names = list("ABCDEFGH")
    vectors = np.array(
        [[1, 0, 0, 0, 1, 0, 0, 1], [1, 0, 0, 0, 0, 1, 0, 1], [1, 0, 0, 0, 0, 0, 1, 0]]
    )
    summary = summarize(vectors, names, 10)
    assert summary.on == ["A"]
    assert summary.off == ["B", "C", "D"]
    assert str(summary).startswith("on: A; off: B to D; open: E and F, not both")
    assert "E only with H" in summary.relations
    assert "either G or H" in summary.relations
    assert len(summarize(vectors, names, 2).relations) == 2
    pairs = np.array([[0, 0], [1, 1]])
    assert summarize(pairs, ["B", "D"], 5).text == "open: B and D, both or neither"
    assert summarize(np.array([[0, 1], [1, 0], [1, 1]]), "BD", 5).text == "open: B or D, or both"
    assert summarize(np.empty((0, 2)), "BD", 5).text == "no label vector"
    free = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert summarize(free, "BD", 5).text == "open: B, D"


def test_summaries_of_draws():
    """Draws give the relations that are no accident, and the labels that are most open."""
    rng = np.random.default_rng(0)
    vectors = rng.random((400, 60)) < np.linspace(0.02, 0.5, 60)
    vectors[:, 10:20] = False
    vectors[:, 1] = True
    vectors[:, 59] = ~vectors[:, 58]
    names = [f"L{i}" for i in range(60)]
    summary = summarize(vectors, names, 5, 1234.5)
    assert summary.n_vectors == 1234.5
    assert summary.n_draws == 400
    assert summary.on == ["L1"]
    assert summary.off == names[10:20]
    assert summary.relations == ["either L58 or L59"]
    share = np.abs(vectors.mean(axis=0) - 0.5)[:58]
    most_open = np.sort(np.argsort(share, kind="stable")[:20])
    assert "open: " + ", ".join(names[i] for i in most_open) + " and 27 more;" in str(summary)
    assert str(summary).endswith("either L58 or L59; in all of 400 draws from the set")
    nothing = summarize(vectors[:0], names, 5, 0.0)
    assert nothing.text == "no draw is in the set"
    assert nothing.open == names


def test_summaries_of_many_labels(data, joint, monkeypatch):
    """The draws of a set agree with the enumerated set."""
    X, Y = data
    sets = ConformalLabelSets(joint, confidence=0.6, n_draws=3000, random_state=0)
    sets.fit(X[200:400], Y[200:400])
    exact = sets.summarize(X[400:420])
    monkeypatch.setattr("skcrbm.targets.distribution.MAX_ALL_LABEL_SETS", 2)
    drawn = sets.summarize(X[400:420])
    # Estimated masses move the boundary of a few sets.
    same = [(a.on, a.off, a.open) == (b.on, b.off, b.open) for a, b in zip(exact, drawn)]
    assert np.mean(same) >= 0.8
    sizes = sets.set_sizes(X[400:420])
    assert [summary.n_vectors for summary in drawn] == pytest.approx(sizes.tolist())
    assert all(0 < summary.n_draws <= 3000 and summary.text for summary in drawn)
    assert all(summary.n_draws == 0 for summary in exact)


def test_relations_are_those_of_pairs_of_labels():
    """Each relation holds in all vectors, and each pair without all combinations has one."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        vectors = rng.random((rng.integers(1, 12), 4)) < 0.5
        summary = summarize(vectors, "ABCD", 10)
        opened = [i for i, name in enumerate("ABCD") if name in summary.open]
        expected = [
            pair for pair in combinations(opened, 2) if len(np.unique(vectors[:, pair], axis=0)) < 4
        ]
        assert len(summary.relations) == len(expected)
        for (i, k), text in zip(expected, summary.relations):
            assert {"ABCD"[i], "ABCD"[k]} <= set(text.replace(",", " ").split())
            a, b = vectors[:, i], vectors[:, k]
            if "not both" in text:
                assert not (a & b).any()
            if "or both" in text:
                assert (a | b).all()
            if "only with" in text:
                first, second = (a, b) if text.startswith("ABCD"[i]) else (b, a)
                assert (~first | second).all()


def test_mass_above():
    log_p = np.log([[0.2, 0.5, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])
    expected = [[0.5, 0, 0.5, 0.9], [0, 0, 0, 0]]
    np.testing.assert_allclose(_mass_above(log_p), expected, atol=1e-12)
    with np.errstate(divide="ignore"):
        log_p = np.log([[0.0, 0.6, 0.4, 0.0]])
    np.testing.assert_allclose(_mass_above(log_p), [[1, 0, 0.6, 1]], atol=1e-12)


def test_errors(data, joint):
    X, Y = data
    with pytest.raises(ValueError, match="with at least two columns"):
        ConformalLabelSets(joint).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="RidgeClassifier has neither"):
        ConformalLabelSets(RidgeClassifier()).fit(X, Y)
    with pytest.raises(ValueError, match="at least 9 complete rows"):
        ConformalLabelSets(joint).fit(X[:8], Y[:8])
    with pytest.raises(ValueError, match="confidence"):
        ConformalLabelSets(joint, confidence=1.0).fit(X, Y)
    with pytest.raises(ValueError, match="groups must have the shape"):
        ConformalLabelSets(joint).fit(X, Y, groups=[1, 2])
    with pytest.raises(NotFittedError):
        ConformalLabelSets(joint).set_sizes(X)
    sets = ConformalLabelSets(joint).fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match=r"y must have shape \(5, 5\)"):
        sets.contains(X[:5], Y[:4])
    with pytest.raises(ValueError, match="limit"):
        sets.predict_sets(X[:5], limit=0)
