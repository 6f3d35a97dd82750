"""Stacking in one call."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.ensemble import OutOfBagLogOdds, make_stacked
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


def test_missing_labels_pass_where_the_parts_take_them(data):
    X, Y = data
    Y = Y.astype(float)
    Y[::3, 1] = np.nan
    stacked = make_stacked([quick_model()], quick_model(), cv=3, random_state=0).fit(X, Y)
    assert stacked.predict_proba(X).shape == Y.shape
    with pytest.raises(ValueError, match="not observed"):
        make_stacked(n_estimators=5).fit(X, Y)


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
        ({"n_estimators": 0}, "'n_estimators' parameter"),
        ({"cv": "folds"}, "'cv' parameter"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_stacked(**options)
