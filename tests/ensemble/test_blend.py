"""Mixture of a stack and of its label-set trees."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold

from skcrbm import CRBMClassifier
from skcrbm.datasets import make_structured_labels
from skcrbm.ensemble import BlendedLabelSets, OutOfBagLogOdds, make_stacked
from skcrbm.ensemble._blend import _best_weight
from skcrbm.targets.label_sets import all_label_vectors

X, Y = make_structured_labels(260, n_labels=4, structure="groups", random_state=0)
RNG = np.random.RandomState(1)
TRAIN, TEST = slice(0, 200), slice(200, None)
FINAL = CRBMClassifier(n_hidden=2, alpha=0.03, max_iter=30)


@pytest.fixture(scope="module")
def blend():
    stack = make_stacked(final_estimator=FINAL, n_estimators=25, random_state=0)
    return BlendedLabelSets(stack).fit(X[TRAIN], Y[TRAIN])


def test_it_is_the_mixture_of_its_parts(blend):
    """Probabilities are weighted means of the stack and of the trees, by enumeration."""
    stack, w = blend.estimator_, blend.weight_
    part = stack[0].transformer_list[1][1]
    assert part.label_powerset
    trees = part.estimator_.predict_proba(X[TEST])
    vectors = all_label_vectors(4)
    own = np.exp(stack.score_label_sets(X[TEST], vectors))
    of_trees = np.array(
        [[t[(part.label_sets_ == v).all(axis=1)].sum() for v in vectors] for t in trees]
    )
    wanted = w * own + (1 - w) * of_trees
    found = np.exp(blend.score_label_sets(X[TEST], vectors))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(blend.predict_proba(X[TEST]), found @ vectors, atol=1e-5)
    index = (Y[TEST][:, None] == vectors).all(axis=2).argmax(axis=1)
    chosen = found[np.arange(60), index]
    np.testing.assert_allclose(np.exp(blend.score_samples(X[TEST], Y[TEST])), chosen, rtol=1e-5)
    gaps = Y[TEST].astype(float)
    gaps[:, 1] = np.nan
    agree = (np.isnan(gaps)[:, None] | (gaps[:, None] == vectors)).all(axis=2)
    summed = (found * agree).sum(axis=1)
    np.testing.assert_allclose(np.exp(blend.score_samples(X[TEST], gaps)), summed, rtol=1e-5)


def test_rules_choose_from_the_mixture(blend):
    """Each rule maximises its expectation under the mixture over the label sets seen in fit."""
    sets, vectors = blend.label_sets_, all_label_vectors(4)
    proba = np.exp(blend.score_label_sets(X[TEST], sets))
    blend = clone_fitted(blend, "label_set")
    np.testing.assert_array_equal(blend.predict(X[TEST]), sets[proba.argmax(axis=1)])
    blend = clone_fitted(blend, "marginal")
    np.testing.assert_array_equal(blend.predict(X[TEST]), blend.predict_proba(X[TEST]) >= 0.5)
    both = (sets[:, None] * vectors).sum(axis=2)
    either = np.maximum(sets[:, None], vectors).sum(axis=2)
    index = np.where(either > 0, both / np.maximum(either, 1), 0.0)
    blend = clone_fitted(blend, "expected_jaccard")
    chosen = (blend.predict(X[TEST])[:, None] == sets).all(axis=2).argmax(axis=1)
    proba = np.exp(blend.score_label_sets(X[TEST], vectors))
    expected = proba @ index.T
    best = expected.max(axis=1)
    np.testing.assert_allclose(expected[np.arange(60), chosen], best, rtol=1e-5)
    size = vectors.sum(axis=1)
    both, total = vectors @ vectors.T, size[:, None] + size
    f1 = np.where(total > 0, 2 * both / np.maximum(total, 1), 0.0)
    labels = clone_fitted(blend, "expected_f1").predict(X[TEST])
    chosen = (labels[:, None] == vectors).all(axis=2).argmax(axis=1)
    expected = proba @ f1.T
    best = expected.max(axis=1)
    np.testing.assert_allclose(expected[np.arange(60), chosen], best, rtol=1e-5)


def test_empty_predictions_score_0():
    """With many rows without labels, the rules still predict labels, as the other estimators do."""
    few = Y * (RNG.random_sample(len(Y)) < 0.3)[:, None]
    stack = make_stacked(final_estimator=FINAL, n_estimators=12, random_state=0)
    blend = BlendedLabelSets(stack, cv=2).fit(X, few)
    assert not clone_fitted(blend, "label_set").predict(X).any(axis=1).all()
    for decode in ("expected_f1", "expected_jaccard"):
        assert clone_fitted(blend, decode).predict(X).any(axis=1).all()


def clone_fitted(blend, decode):
    """Return the fitted object with another rule."""
    copy = BlendedLabelSets(decode=decode)
    copy.__dict__.update({k: v for k, v in vars(blend).items() if k != "decode"})
    return copy


def test_the_weight_maximises_the_likelihood(blend):
    """No other weight has a better likelihood of the rows from which the weight was found."""
    rng = np.random.RandomState(0)
    stack, trees = np.log(rng.beta(2, 5, 300)), rng.beta(1, 4, 300) * (rng.rand(300) < 0.7)
    weight = _best_weight(stack, trees, np.ones(300))

    def likelihood(w):
        return np.log(w * np.exp(stack) + (1 - w) * trees).mean()

    best = max(likelihood(w) for w in np.linspace(0.01, 0.99, 99))
    assert likelihood(weight) >= best - 1e-6
    found = blend.log_likelihoods_
    assert found["blend"] >= max(found["stack"], found["trees"]) - 1e-9


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:.*were seen by every tree")
def test_weights_of_rows():
    """Weight 0 leaves a row out, and other weights are copies where nothing is drawn at random."""
    stack = make_stacked(final_estimator=FINAL, n_estimators=12, random_state=0)
    model = BlendedLabelSets(stack, cv=KFold(3))
    weight = np.random.RandomState(0).choice([0.0, 1.0, 2.0], size=200)
    kept = weight > 0
    found = clone(model).fit(X[TRAIN], Y[TRAIN], sample_weight=weight)
    part = clone(model).fit(X[TRAIN][kept], Y[TRAIN][kept], sample_weight=weight[kept])
    assert found.weight_ == part.weight_
    np.testing.assert_array_equal(found.predict_proba(X[TEST]), part.predict_proba(X[TEST]))
    # The last step learns from the weighted rows, and both forests do.
    inputs = found.estimator_.steps[0][1].transform(X[TEST])
    plain = clone(model).fit(X[TRAIN][kept], Y[TRAIN][kept])
    assert not np.allclose(inputs, plain.estimator_.steps[0][1].transform(X[TEST]))
    # A row of weight 200 dominates: its labels become more probable than without weights.
    heavy = clone(model).fit(X[TRAIN], Y[TRAIN], np.where(np.arange(200) == 7, 200.0, 1.0))
    even = clone(model).fit(X[TRAIN], Y[TRAIN])
    row = X[7:8], Y[7:8]
    assert heavy.score_samples(*row)[0] > even.score_samples(*row)[0]
    stack, trees, copies = np.log(RNG.beta(2, 5, 50)), RNG.beta(1, 4, 50), RNG.randint(1, 4, 50)
    repeated = np.repeat(stack, copies), np.repeat(trees, copies)
    assert _best_weight(stack, trees, copies) == pytest.approx(
        _best_weight(*repeated, np.ones(copies.sum())), rel=1e-9
    )


def test_samples_follow_the_mixture(blend):
    """Frequencies of draws are close to the probabilities."""
    draws = blend.sample(X[200:203], 4000, random_state=0)
    assert draws.shape == (3, 4000, 4)
    found = draws.mean(axis=1)
    np.testing.assert_allclose(found, blend.predict_proba(X[200:203]), atol=0.04)
    again = blend.sample(X[200:203], 4000, random_state=0)
    np.testing.assert_array_equal(draws, again)


def test_errors_and_names():
    """Errors say which stack is possible; label names are kept."""
    trees = ExtraTreesClassifier(5, bootstrap=True)
    for estimator in (
        CRBMClassifier(),
        make_stacked([trees], FINAL),
        make_stacked([CRBMClassifier(alpha=0.1)], FINAL, cv=3),
    ):
        with pytest.raises(ValueError, match="estimator must be a pipeline from make_stacked"):
            BlendedLabelSets(estimator).fit(X, Y)
    pd = pytest.importorskip("pandas")
    blend = BlendedLabelSets(
        make_stacked([OutOfBagLogOdds(trees, label_powerset=True, random_state=0)], clone(FINAL))
    )
    with pytest.warns(UserWarning, match="were seen by every tree"):
        blend.fit(X, pd.DataFrame(Y, columns=list("abcd")))
    assert list(blend.label_names_) == list("abcd")
    assert blend.score(X, pd.DataFrame(Y, columns=list("abcd"))) > 0.2


@pytest.mark.parametrize("form", [sparse.coo_matrix, sparse.bsr_array, sparse.dok_matrix])
def test_all_sparse_forms_of_inputs(form):
    stack = make_stacked(final_estimator=FINAL, n_estimators=10, random_state=0)
    wanted = BlendedLabelSets(stack, cv=2).fit(X[:60], Y[:60]).predict_proba(X)
    found = BlendedLabelSets(stack, cv=2).fit(form(X[:60]), Y[:60]).predict_proba(form(X))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
