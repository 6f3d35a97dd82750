"""Stacking in one call."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.ensemble import OutOfBagLogOdds, make_stacked
from skcrbm.ensemble._stacked import ComparedPipeline
from skcrbm.metrics import masked_score


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(150, n_features=6, n_classes=4, random_state=0)


def quick_model(**options):
    return CRBMClassifier(n_hidden=2, alpha=0.03, max_iter=30, **options)


def test_it_is_the_pipeline_written_out(data):
    X, Y = data
    stacked = make_stacked(final_estimator=quick_model(), n_estimators=20, random_state=0)
    rng = np.random.RandomState(0)
    options = {"n_estimators": 20, "bootstrap": True}
    parts = [
        OutOfBagLogOdds(
            forest(**options), label_powerset=powerset, random_state=rng.randint(2**31 - 1)
        )
        for forest, powerset in (
            (ExtraTreesClassifier, False),
            (ExtraTreesClassifier, True),
            (RandomForestClassifier, False),
        )
    ]
    final = quick_model(random_state=rng.randint(2**31 - 1))
    by_hand = make_pipeline(make_union(*parts), final).fit(X, Y)
    assert stacked.fit(X, Y)[:-1].transform(X).shape == (len(X), 12)
    np.testing.assert_array_equal(stacked.predict_proba(X), by_hand.predict_proba(X))


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:CRBMClassifier on X has")
def test_nothing_set_beats_the_forests_log_odds_of_their_own_rows(data):
    X, Y = data
    stacked = make_stacked(n_estimators=30, random_state=0).fit(X[:100], Y[:100])
    assert type(stacked[-1]) is CRBMClassifier
    loss = -masked_score("neg_log_loss", Y[100:], y_score=stacked.predict_proba(X[100:]))
    share = np.tile(Y[:100].mean(axis=0), (50, 1))
    assert loss < 0.9 * -masked_score("neg_log_loss", Y[100:], y_score=share)
    known = np.full(Y[100:].shape, np.nan)
    known[:, 0] = 1
    assert (stacked.predict(X[100:], y_known=known)[:, 0] == 1).all()


def test_the_seed_alone_decides_and_the_parts_stay_as_they_are(data):
    X, Y = data
    forest, final = RandomForestClassifier(30), quick_model()
    first, second, other = (
        make_stacked([forest, StandardScaler()], final, random_state=seed).fit(X, Y)
        for seed in (0, 0, 1)
    )
    p = first.predict_proba(X)
    np.testing.assert_array_equal(p, second.predict_proba(X))
    assert (p != other.predict_proba(X)).any()
    assert first[:-1].transform(X).shape == (len(X), 4 + 6)
    assert not hasattr(forest, "estimators_")
    assert final.random_state is None
    assert not hasattr(final, "visible_coef_")
    clone(first)


def linear_words(rng):
    """Return 0/1 words, and labels whose log-odds are linear in many of the words."""
    X = (rng.random((200, 120)) < 0.2).astype(float)
    field = (X - 0.2) @ rng.normal(size=(120, 4))
    return X, (field + 0.5 * rng.logistic(size=field.shape) > 1).astype(int)


@pytest.mark.deep
def test_a_stack_that_is_worse_than_its_last_step_alone_warns():
    X, Y = linear_words(np.random.default_rng(0))
    stacked = make_stacked(n_estimators=30, random_state=0)
    with pytest.warns(UserWarning, match="use CRBMClassifier alone") as caught:
        stacked.fit(X, Y)
    figures = stacked.held_out_log_likelihood_
    assert figures["plain"] > 0.99 * figures["stack"]
    assert f"{figures['plain']:.3f}" in str(caught[0].message)
    assert f"{figures['stack']:.3f}" in str(caught[0].message)
    alone = CRBMClassifier(random_state=stacked[-1].random_state).fit(X, Y)
    np.testing.assert_array_equal(stacked.plain_.predict_proba(X), alone.predict_proba(X))
    assert figures["plain"] == alone.alpha_path_["log_likelihood"].max()


@pytest.mark.deep
def test_a_stack_that_is_better_does_not_warn(recwarn):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    Y = (np.sin(4 * X[:, :3]) > 0).astype(int)  # steps that trees learn in each column
    stacked = make_stacked(n_estimators=30, random_state=0).fit(X, Y)
    figures = stacked.held_out_log_likelihood_
    assert figures["stack"] > figures["plain"]
    assert not [w for w in recwarn if "alone" in str(w.message)]
    assert not hasattr(clone(stacked), "plain_")
    X[0, 0] = np.nan  # forests take NaN in X, the plain model does not
    stacked.fit(X, Y)
    assert not hasattr(stacked, "held_out_log_likelihood_")


@pytest.mark.parametrize(
    "options",
    [{"compare": False}, {"final_estimator": quick_model()}, {"estimators": [GaussianNB()]}],
)
def test_no_comparison(options):
    assert not isinstance(make_stacked(**options), ComparedPipeline)


@pytest.mark.deep
def test_boosted_trees(data):
    X, Y = data
    booster = HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=5)
    stacked = [
        make_stacked(
            [OneVsRestClassifier(booster)], quick_model(), cv=2, n_jobs=n_jobs, random_state=0
        ).fit(X[:100], Y[:100])
        for n_jobs in (None, 2)
    ]
    p = stacked[0].predict_proba(X[100:])
    np.testing.assert_array_equal(p, stacked[1].predict_proba(X[100:]))
    loss = -masked_score("neg_log_loss", Y[100:], y_score=p)
    share = np.tile(Y[:100].mean(axis=0), (50, 1))
    assert loss < 0.95 * -masked_score("neg_log_loss", Y[100:], y_score=share)
    names = stacked[0][0].get_feature_names_out()
    assert [name.rpartition("__")[2] for name in names] == ["0", "1", "2", "3"]


def test_missing_labels_pass_where_the_parts_take_them(data):
    X, Y = data
    Y = Y.astype(float)
    Y[::3, 1] = np.nan
    stacked = make_stacked([quick_model()], quick_model(), cv=3, random_state=0).fit(X, Y)
    assert stacked.predict_proba(X).shape == Y.shape
    with pytest.raises(ValueError, match="does not take missing labels"):
        make_stacked(n_estimators=5, cv=3).fit(X, Y)


def test_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    stacked = make_stacked([GaussianNB()], cv=3, random_state=0).fit(X, names)
    assert (stacked.predict(X) == names).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimators": []}, "estimators is empty"),
        ({"estimators": [3]}, "estimators must hold classifiers"),
        ({"final_estimator": 3}, "'final_estimator' parameter"),
        ({"compare": 1.5}, "'compare' parameter"),
        ({"n_estimators": 0}, "'n_estimators' parameter"),
        ({"cv": "folds"}, "'cv' parameter"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_stacked(**options)
