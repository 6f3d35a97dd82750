"""Scores and searches under scikit-learn's names take NaN in y, and agree with scikit-learn's."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import model_selection as sklearn_selection
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold

import skcrbm
import skcrbm.model_selection as our_selection
from skcrbm import ChainCRF, CRBMClassifier, ImageCRBM, LabelGraphCRF
from skcrbm.metrics import masked_scorer
from skcrbm.model_selection import MultilabelStratifiedKFold

GRID = {"alpha": [0.1, 1.0]}


def crbm(**options):
    return CRBMClassifier(n_hidden=2, **{"alpha": 0.1, "max_iter": 5, "random_state": 0, **options})


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 3))
    Y = (X + rng.normal(size=X.shape) > 0).astype(float)
    return X, np.where(rng.random_sample(Y.shape) < 0.2, np.nan, Y)


def search(package, X, y, model, name="GridSearchCV", **options):
    """Mean scores of the candidates of a search."""
    found = getattr(package, name)(model, GRID, **options).fit(X, y)
    return found.cv_results_["mean_test_score"]


def call(name, package, X, y, model=None, **options):
    """Scores of a function or a search of scikit-learn or of this package."""
    model = crbm() if model is None else model
    if name.endswith("SearchCV"):
        if name == "RandomizedSearchCV":
            options = {"n_iter": 2, "random_state": 0, **options}
        return search(package, X, y, model, name, **options)
    more = {
        "learning_curve": {"train_sizes": [0.5, 1.0]},
        "validation_curve": {"param_name": "alpha", "param_range": [0.1, 1.0]},
        "permutation_test_score": {"n_permutations": 2, "random_state": 0},
    }.get(name, {})
    found = getattr(package, name)(model, X, y, **more, **options)
    return {"cross_validate": lambda r: r["test_score"], "cross_val_score": lambda r: r}.get(
        name, lambda r: r[1]
    )(found)


NAMES = [
    "cross_val_score",
    "cross_validate",
    "GridSearchCV",
    "RandomizedSearchCV",
    "learning_curve",
    "validation_curve",
    "permutation_test_score",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_folds_takes_nan(data, name):
    with pytest.raises(ValueError, match="Input y contains NaN"):
        call(name, sklearn_selection, *data, cv=3)
    splitter = MultilabelStratifiedKFold(3)
    expected = call(name, sklearn_selection, *data, cv=splitter)
    np.testing.assert_array_equal(call(name, our_selection, *data, cv=3), expected)
    # The name of a score is the score of the observed labels.
    expected = call(name, sklearn_selection, *data, cv=splitter, scoring=masked_scorer("f1_micro"))
    found = call(name, our_selection, *data, cv=3, scoring="f1_micro")
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(found).all()
    with pytest.raises(ValueError, match=r"scoring cannot ignore the NaN of y.*f1_micr"):
        call(name, our_selection, *data, cv=3, scoring="f1_micr")


@pytest.mark.parametrize("name", NAMES)
def test_complete_and_1d_targets_are_scored_as_in_scikit_learn(data, name):
    X, Y = data
    full = np.nan_to_num(Y).astype(int)
    for y, cv in ((pd.DataFrame(full), KFold(2)), (full[:, 0], 2)):
        expected = call(name, sklearn_selection, X, y, cv=cv, scoring="accuracy")
        found = call(name, our_selection, X, y, cv=cv, scoring="accuracy")
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    expected = call(name, sklearn_selection, X, full[:, 0], model=Ridge(), cv=2)
    np.testing.assert_array_equal(
        call(name, our_selection, X, full[:, 0], model=Ridge(), cv=2), expected
    )


def test_names_of_scores_mean_the_same_if_no_label_is_missing(data):
    """scikit-learn would read the rows of y as classes for "neg_log_loss"."""
    X, Y = data
    full = np.nan_to_num(Y)
    score = our_selection.cross_val_score
    for name in ("neg_log_loss", "neg_hamming_loss", "roc_auc"):
        expected = score(crbm(), X, full, cv=2, scoring=masked_scorer(name))
        np.testing.assert_array_equal(score(crbm(), X, full, cv=2, scoring=name), expected)
    # A name that only scikit-learn has.
    balanced = score(crbm(), X, full, cv=2, scoring="roc_auc_ovr")
    assert balanced.shape == (2,)


@pytest.mark.parametrize("name", ["cross_val_score", "GridSearchCV"])
def test_groups_stay_together(data, name):
    X, Y = data
    groups = np.repeat(np.arange(6), 10)
    splitter = our_selection.MultilabelStratifiedGroupKFold(3)
    splits = list(splitter.split(X, Y, groups))
    expected = call(name, sklearn_selection, X, Y, cv=splits)
    if name == "GridSearchCV":
        fitted = our_selection.GridSearchCV(crbm(), GRID, cv=3).fit(X, Y, groups=groups)
        found = fitted.cv_results_["mean_test_score"]
    else:
        found = our_selection.cross_val_score(crbm(), X, Y, groups=groups, cv=3)
        with_splitter = our_selection.cross_val_score(crbm(), X, Y, groups=groups, cv=GroupKFold(3))
        assert with_splitter.shape == (3,)
        with sklearn.config_context(enable_metadata_routing=True):
            routed = our_selection.cross_val_score(crbm(), X, Y, params={"groups": groups}, cv=3)
        np.testing.assert_array_equal(routed, expected)
    np.testing.assert_array_equal(found, expected)


def test_columns_of_classes_and_sequences():
    rng = np.random.RandomState(1)
    X = rng.normal(size=(40, 2))
    colours = np.array(["blue", "green", "red"], object)[rng.randint(3, size=(40, 2))]
    colours[rng.random_sample(colours.shape) < 0.1] = None
    score = our_selection.cross_val_score
    model = LabelGraphCRF(alpha=0.1, max_iter=5)
    assert np.isfinite(score(model, X, colours, cv=2)).all()
    groups = np.arange(40) % 4
    assert np.isfinite(score(model, X, colours, cv=2, groups=groups)).all()
    rows = [rng.normal(size=(4, 2)) for _ in range(9)]
    tags = [np.where(rng.random_sample(4) < 0.2, np.nan, rng.randint(2, size=4)) for _ in rows]
    assert np.isfinite(score(ChainCRF(alpha=0.1, max_iter=5), rows, tags, cv=3)).all()
    images = rng.randint(2, size=(9, 3, 3)).astype(float)
    gaps = np.where(rng.random_sample(images.shape) < 0.1, np.nan, images)
    model = ImageCRBM(n_hidden=2, max_iter=2)
    assert np.isfinite(score(model, images, gaps, cv=3, scoring="f1_micro")).all()
    fitted = our_selection.GridSearchCV(ChainCRF(max_iter=5), GRID, cv=3).fit(rows, tags)
    assert len(fitted.predict(rows)) == 9


def test_a_search_is_scikit_learns_search(data):
    X, Y = data
    fitted = our_selection.GridSearchCV(
        crbm(), GRID, cv=3, scoring=["f1_micro", "accuracy"], refit="accuracy"
    ).fit(X, Y)
    assert isinstance(fitted, sklearn_selection.GridSearchCV)
    assert fitted.cv == 3
    assert fitted.scoring == ["f1_micro", "accuracy"]
    assert repr(clone(fitted)) == repr(fitted)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.score(X, Y) == fitted.score(X, Y)
    assert {"mean_test_f1_micro", "mean_test_accuracy"} <= set(fitted.cv_results_)


def test_errors_name_y(data):
    X, Y = data
    score = partial(our_selection.cross_val_score, ExtraTreesClassifier(3))
    with pytest.raises(ValueError, match="NaN"):
        score(X, Y, cv=3, error_score="raise")
    with pytest.raises(ValueError, match="y must be a 0/1 indicator matrix"):
        our_selection.cross_val_score(crbm(), X, np.nan_to_num(Y) + 5, cv=3)


NAMED = (
    "CRBMClassifier MSSVMCRBM LMBMClassifier LabelGraphCRF LayeredGMClassifier ImageCRBM GridCRF"
)


@pytest.mark.parametrize("name", [*NAMED.split(), "DecodedClassifier"])
def test_docstrings_that_promise_missing_labels_name_these_functions(name):
    text = getattr(skcrbm, name).__doc__
    assert "NaN" in text
    assert "search with `skcrbm.model_selection` if y has missing labels" in " ".join(text.split())
