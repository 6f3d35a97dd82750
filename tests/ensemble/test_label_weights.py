"""Missing labels and weights of single labels in stacks of forests."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from scipy.special import expit
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier, DecodedClassifier
from skcrbm.calibration import ConformalLabelSets
from skcrbm.datasets import make_structured_labels
from skcrbm.ensemble import BlendedLabelSets, OutOfBagLogOdds, make_stacked

X, Y = make_structured_labels(70, n_features=4, n_informative=4, n_labels=4, random_state=0)
RNG = np.random.RandomState(0)
WEIGHT = RNG.choice([0.0, 0.5, 1.0, 2.0], size=Y.shape, p=[0.2, 0.2, 0.3, 0.3])
WEIGHT[:20] = WEIGHT[:20].clip(0.5)  # some complete rows
WEIGHT[33] = 0
GAPS = np.where(WEIGHT > 0, Y, np.nan)
FORESTS = {
    "random": RandomForestClassifier(15, min_samples_leaf=3, bootstrap=True, random_state=0),
    "extra": ExtraTreesClassifier(15, bootstrap=True, random_state=0),
}
LAST = CRBMClassifier(n_hidden=1, alpha=0.1, max_iter=20, random_state=0)


def stack(**options):
    return make_stacked(final_estimator=LAST, n_estimators=10, random_state=0, **options)


def shares_in_leaves(forest, rows, X):
    """Return, for each tree, the shares (n, N) of the training rows in the leaves of X."""
    weight = WEIGHT.max(axis=1)
    # Forests of scikit-learn draw rows by their weights, or older versions draw rows regardless of
    # the weights, rows of weight 0 included, and then count the drawn rows with their weights.
    drawn_by_weight = not any(33 in drawn for drawn in forest.estimators_samples_)
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_):
        count = np.bincount(drawn, minlength=len(rows)) * (1.0 if drawn_by_weight else weight)
        together = tree.apply(X)[:, None] == tree.apply(rows)
        yield (together * count) / (together * count).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", FORESTS)
@pytest.mark.parametrize("powerset", [False, True])
def test_leaves_count_labels_with_their_own_weights(kind, powerset):
    """Compare with scikit-learn's forest on completed labels, and sums over the rows of leaves."""
    found = OutOfBagLogOdds(FORESTS[kind], label_powerset=powerset)
    out_of_bag = expit(found.fit_transform(X, Y, WEIGHT))
    completed = np.where(WEIGHT > 0, Y, np.average(Y, axis=0, weights=WEIGHT) >= 0.5)
    targets = np.unique(completed, axis=0, return_inverse=True)[1] if powerset else completed
    forest = clone(FORESTS[kind]).fit(X, targets, sample_weight=WEIGHT.max(axis=1))
    largest = WEIGHT.max(axis=1).clip(0.5)
    weight = WEIGHT / largest[:, None]

    def means(shares):
        every = shares @ weight
        frequency = np.average(Y, axis=0, weights=WEIGHT)
        found = np.where(
            every > 0, shares @ (weight * Y) / np.where(every > 0, every, 1), frequency
        )
        return np.clip(found, 0.01, 0.99)

    new = RNG.normal(size=(30, 4))
    shares = sum(shares_in_leaves(forest, X, new))
    np.testing.assert_allclose(expit(found.transform(new)), means(shares), atol=1e-6)
    shares = np.zeros((70, 70))
    for one, drawn in zip(shares_in_leaves(forest, X, X), forest.estimators_samples_):
        unseen = np.setdiff1d(np.arange(70), drawn)
        shares[unseen] += one[unseen]
    np.testing.assert_allclose(out_of_bag, means(shares), atol=1e-6)
    if powerset:  # a complete row counts with its smallest weight
        proba = found._set_probabilities(new)
        sets = np.array([(found.label_sets_ == y).all(axis=1) for y in Y], float)
        sets *= (weight.min(axis=1))[:, None]
        shares = sum(shares_in_leaves(forest, X, new)) @ sets
        known = shares.any(axis=1)
        np.testing.assert_allclose(proba[known], shares[known] / shares[known].sum(1)[:, None])
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        assert len(found.label_sets_) == len(np.unique(Y[(WEIGHT > 0).all(axis=1)], axis=0))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "model",
    [
        stack(),
        BlendedLabelSets(stack(), cv=2),
        make_stacked([CRBMClassifier(n_hidden=0, alpha=0.1)], LAST, cv=2, random_state=0),
    ],
    ids=["stack", "blend", "folds"],
)
def test_equal_weights_and_weights_of_zero(model):
    """Equal weights are row weights, and a label of weight 0 is a missing label, bit by bit."""
    x, y, gaps, w = (part[WEIGHT.any(axis=1)] for part in (X, Y, GAPS, WEIGHT))
    row = RNG.choice([0.0, 1.0, 3.0], size=len(y))

    def proba(y, weight=None, x=x):
        return clone(model).fit(x, y, sample_weight=weight).predict_proba(x)

    np.testing.assert_array_equal(proba(y, row), proba(y, np.repeat(row[:, None], 4, axis=1)))
    missing = proba(gaps)
    np.testing.assert_array_equal(missing, proba(y, (w > 0) * 1.0))
    row = row.clip(0.5)  # without rows of weight 0, which count in the choice of folds
    np.testing.assert_array_equal(proba(gaps, row), proba(y, row[:, None] * (w > 0)))
    weighted = proba(y, w)
    assert np.abs(weighted - missing).max() > 0.01
    names = list("abcd")
    frame = pd.DataFrame(w, columns=names)[["d", "a", "c", "b"]]
    np.testing.assert_array_equal(weighted, proba(pd.DataFrame(y, columns=names), frame))
    np.testing.assert_allclose(proba(y, w, sp.csr_array(x)), weighted, atol=1e-6)


def test_weights_are_repeated_rows_on_average():
    """Trees draw rows at random, so weights of 2 are copies of the rows only on average."""
    forest = ExtraTreesClassifier(200, bootstrap=True, max_depth=2, random_state=0)
    weight = np.where(np.arange(70)[:, None] < 35, 2.0, WEIGHT.clip(0.5))
    rows = np.append(np.arange(70), np.arange(35))
    plain = np.where(np.arange(70)[:, None] < 35, 1.0, weight)
    found = OutOfBagLogOdds(forest).fit(X, Y, weight).transform(X)
    copied = OutOfBagLogOdds(forest).fit(X[rows], Y[rows], plain[rows]).transform(X)
    unequal = OutOfBagLogOdds(forest).fit(X, Y).transform(X)
    difference = np.abs(expit(found) - expit(copied)).mean()
    assert difference < 0.025 < np.abs(expit(unequal) - expit(copied)).mean()


def test_missing_labels_do_not_count_as_off():
    """With half of the labels missing the means of the probabilities stay where they were."""
    X, Y = make_structured_labels(400, n_labels=4, random_state=1)
    gaps = np.where(RNG.random_sample(Y.shape) < 0.5, np.nan, Y)
    model = stack().fit(X, gaps)
    assert np.abs(model.predict_proba(X).mean(axis=0) - Y.mean(axis=0)).max() < 0.07
    sets = ConformalLabelSets(stack(), cv=2, confidence=0.8)
    assert sets.fit(X, Y, sample_weight=RNG.choice([1.0, 2.0], Y.shape)).contains(X, Y).mean() > 0.7


def test_metadata_routing_passes_weights_to_the_parts_that_request_them():
    wanted = stack().fit(X, Y, sample_weight=WEIGHT).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = stack()
        for _, part in routed[0].transformer_list:
            part.set_fit_request(sample_weight=True)
        routed[-1].set_fit_request(sample_weight=True)
        found = DecodedClassifier(routed).fit(X, Y, sample_weight=WEIGHT).predict_proba(X)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.deep
def test_plain_model_of_the_comparison_gets_the_weights():
    stacked = make_stacked(n_estimators=10, random_state=0).fit(X, Y, sample_weight=WEIGHT)
    plain = clone(stacked[-1]).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(stacked.plain_.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize(
    ("model", "y", "weight", "text"),
    [
        (OutOfBagLogOdds(FORESTS["extra"]), Y, WEIGHT[:, :3], r"must have the shape of y, \(70, 4"),
        (OutOfBagLogOdds(FORESTS["extra"]), Y, 0 * WEIGHT, "sample_weight is zero"),
        (OutOfBagLogOdds(FORESTS["extra"], label_powerset=True, cv=3), GAPS, None, "y holds NaN"),
        (OutOfBagLogOdds(BaggingClassifier()), Y, WEIGHT, "weights of single labels"),
        (OutOfBagLogOdds(RandomForestClassifier(), cv=3), Y, WEIGHT + 1, "a weight for each row"),
        (
            OutOfBagLogOdds(RandomForestClassifier(class_weight="balanced")),
            Y,
            WEIGHT,
            "class_weight of RandomForestClassifier must be None",
        ),
        (make_stacked([FORESTS["extra"], PCA(2)]), Y, WEIGHT, "not supported by PCA"),
        (BlendedLabelSets(stack()), Y, np.eye(4)[np.arange(70) % 4], "without labels of weight 0"),
        (BlendedLabelSets(stack()), np.where(Y == 1, 1, np.nan), None, "a row without NaN"),
    ],
    ids=range(9),
)
def test_errors(model, y, weight, text):
    fit = model.fit_transform if isinstance(model, OutOfBagLogOdds) else model.fit
    with pytest.raises(ValueError, match=text):
        fit(X, y, sample_weight=weight)


def test_folds_with_a_forest_explain_labels_of_weight_0():
    with pytest.raises(ValueError, match="labels of weight 0"):
        OutOfBagLogOdds(FORESTS["extra"], cv=3).fit_transform(X, Y, WEIGHT)


def test_transformers_of_a_stack_take_weights_of_rows_only():
    mixed = make_stacked([StandardScaler(), FORESTS["extra"]], LAST, random_state=0)
    with pytest.raises(ValueError, match=r"sample_weight must have shape .* StandardScaler"):
        mixed.fit(X, Y, WEIGHT)
    mixed.fit(X, Y, WEIGHT.max(axis=1))
