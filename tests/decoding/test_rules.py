"""Decoding rules as objects: names, options, models with an energy and any classifier."""

import pickle

import numpy as np
import pytest
from reference.random_models import random_rbm
from reference.states import all_states
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skcrbm import CRBMClassifier, DecodedClassifier, LMBMClassifier, SSVMClassifier
from skcrbm.decoding import (
    MAP,
    ExpectedMetric,
    Hinge,
    LabelSet,
    Marginal,
    MarginalMAP,
    Posterior,
    Threshold,
    decode_samples,
    fit_thresholds,
)
from skcrbm.decoding.posterior import ClassifierPosterior
from skcrbm.decoding.rules import DECODERS, decoder_constraint, resolve_decoder
from skcrbm.inference import Exact
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.model_selection.folds import out_of_fold
from skcrbm.targets.wrapped import final_model
from skcrbm.utils.options import option_name

RULES = {
    "marginal": Marginal(),
    "label_set": LabelSet(),
    "expected_jaccard": ExpectedMetric("jaccard"),
    "expected_f1": ExpectedMetric("f1"),
    "threshold": Threshold(),
    "marginal_map": MarginalMAP(),
    "map": MAP(),
    "hinge": Hinge(),
}
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    Y = (X @ rng.normal(size=(4, 5)) + rng.normal(size=(150, 5)) > 0.5).astype(int)
    return X, Y


def quick(**options):
    return CRBMClassifier(
        **{"n_hidden": 2, "alpha": 0.05, "max_iter": 10, "random_state": 0, **options}
    )


def test_marginal_rule_with_and_without_empty_predictions():
    proba = np.array([[0.1, 0.4, 0.3], [0.6, 0.7, 0.2], [0.0, 0.0, 0.0]])
    for automatic in (True, False):
        posterior = ClassifierPosterior(proba, None, np.zeros((0, 3)), allow_empty=automatic)
        full, empty = [[0, 1, 0], [1, 1, 0], [0, 0, 0]], [[0, 0, 0], [1, 1, 0], [0, 0, 0]]
        assert Marginal(allow_empty=False).decode(posterior).tolist() == full
        assert Marginal(allow_empty=True).decode(posterior).tolist() == empty
        assert Marginal().decode(posterior).tolist() == (empty if automatic else full)


@pytest.mark.parametrize("name", RULES)
def test_a_name_stands_for_an_object_with_its_defaults(name):
    assert list(DECODERS) == list(RULES)
    rule = resolve_decoder(name)
    assert repr(rule) == repr(RULES[name])
    assert rule.name == RULES[name].name == option_name(name) == option_name(rule) == name
    assert resolve_decoder(rule) is rule
    again = pickle.loads(pickle.dumps(rule))
    assert repr(clone(rule)) == repr(again) == repr(rule)


def test_names_of_metrics():
    for metric in ("f1", "jaccard"):
        assert ExpectedMetric(metric).name == ExpectedMetric(f"{metric}_samples").name


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            "expected_f2",
            ValueError,
            r"decode must be one of 'marginal'.*Did you mean 'expected_f1'",
        ),
        (Marginal, TypeError, r"decode must be one of .* or a configured object such as"),
        (3, TypeError, "got 3"),
        (ExpectedMetric("f2"), ValueError, "'metric' parameter of ExpectedMetric"),
        (ExpectedMetric(zero_division=0.5), ValueError, "'zero_division' parameter of Expected"),
        (ExpectedMetric(n_samples=0), ValueError, "'n_samples' parameter of ExpectedMetric"),
        (Threshold("precision_micro"), ValueError, "'metric' parameter of Threshold"),
        (Threshold(cv="five"), ValueError, "'cv' parameter of Threshold"),
    ],
)
def test_refusals(data, value, error, message):
    with pytest.raises(error, match=message):
        resolve_decoder(value)
    with pytest.raises(ValueError, match="parameter of"):
        DecodedClassifier(TREE, decode=value).fit(*data)


def test_rules_that_an_estimator_lacks(data):
    with pytest.raises(ValueError, match="decode must be one of 'marginal'; got MAP"):
        resolve_decoder(MAP(), possible=["marginal"])
    names, objects = decoder_constraint(["marginal", "map"], auto=True)
    assert all(names.is_satisfied_by(name) for name in ("marginal", "map", "auto"))
    assert objects.is_satisfied_by(MAP())
    assert not objects.is_satisfied_by(MAP)
    assert not objects.is_satisfied_by(Hinge())
    for model in (quick(decode=Hinge()), SSVMClassifier(decode=Threshold())):
        with pytest.raises(ValueError, match=r"'decode' parameter .* one of these rules as an obj"):
            model.fit(*data)


def test_options_in_a_search(data):
    X, Y = data
    model = DecodedClassifier(TREE, decode=ExpectedMetric())
    assert model.get_params()["decode__zero_division"] == "auto"
    grid = {"decode__metric": ["f1", "jaccard"], "decode__zero_division": [0.0, 1.0]}
    search = GridSearchCV(model, grid, scoring="f1_samples", cv=KFold(2)).fit(X, Y)
    assert set(search.best_params_) == set(grid)
    assert repr(model.decode) == "ExpectedMetric()"  # the search fits copies


@pytest.mark.parametrize("name", [name for name in RULES if name not in ("threshold", "hinge")])
def test_models_take_objects_and_names_alike(data, name):
    X, Y = data
    model = quick().fit(X, Y)
    expected = model.set_params(decode=name).predict(X)
    np.testing.assert_array_equal(model.set_params(decode=RULES[name]).predict(X), expected)


# ------------------------------------------------------------------------- options


@pytest.mark.parametrize("zero_division", [0.0, 1.0, "auto"])
@pytest.mark.parametrize("metric", ["f1", "jaccard"])
def test_score_of_empty_rows_in_a_model(metric, zero_division):
    """The chosen vector is the best, or near the best of all for the Jaccard index."""
    energy = random_rbm(3, 5, 3, 20, scale=1.5)
    energy = energy.with_fields(energy.visible_bias - 2, energy.hidden_bias)
    posterior = Posterior(energy, Exact(), None, np.zeros((0, 5), np.int8), None)
    found = ExpectedMetric(metric, zero_division=zero_division).decode(posterior)
    vectors = all_states(5, float)
    log_weight = energy.log_weight_of_sets(vectors)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    both = vectors @ vectors.T
    sizes = vectors.sum(axis=1)[:, None] + vectors.sum(axis=1)
    top, bottom = (2 * both, sizes) if metric == "f1" else (both, sizes - both)
    empty_score = 0.0 if zero_division == "auto" else zero_division
    value = weight @ np.where(bottom == 0, empty_score, top / np.maximum(bottom, 1))
    mine = value[np.arange(20), found @ (1 << np.arange(5)[::-1])]
    assert (mine >= (1.0 if metric == "f1" else 0.9) * value.max(axis=1) - 1e-11).all()
    if empty_score == 0:
        assert found.any(axis=1).all()
    else:
        assert not found.any(axis=1).all()


def test_a_model_decodes_draws(data):
    X, Y = data
    model = quick(decode=ExpectedMetric("jaccard", n_samples=30)).fit(X, Y)
    found = model.predict(X)
    np.testing.assert_array_equal(model.predict(X), found)
    draws = np.concatenate([model.sample(row[None], 30, random_state=0) for row in X])
    np.testing.assert_array_equal(
        found,
        decode_samples(draws, "jaccard", zero_division=0.0, allow_empty=model.allow_empty_),
    )
    known = np.where(np.arange(5) < 2, Y, np.nan)
    with_known = model.predict(X, y_known=known)
    np.testing.assert_array_equal(with_known[:, :2], Y[:, :2])
    # The prediction of a row does not depend on the other rows.
    np.testing.assert_array_equal(model.predict(X[7:9]), found[7:9])
    np.testing.assert_array_equal(model.predict(X[7:9], y_known=known[7:9]), with_known[7:9])
    posterior = ClassifierPosterior(np.full((3, 2), 0.5), None, np.zeros((0, 2)))
    with pytest.raises(ValueError, match="n_samples needs a classifier that can draw samples"):
        ExpectedMetric(n_samples=3).decode(posterior)


@pytest.mark.parametrize("cv", [3, KFold(2)])
def test_folds_of_a_models_thresholds(data, cv):
    X, Y = data
    model = quick(decode=Threshold("f1_micro", cv=cv), alpha=0.1, n_hidden=0).fit(X, Y)
    splitter = cv
    if cv == 3:
        seed = 0  # another seed of the folds than in the fit
        splitter = MultilabelStratifiedKFold(3, shuffle=True, random_state=seed)
    unseen = out_of_fold(
        clone(model).set_params(decode="marginal"),
        X,
        Y,
        cv=splitter,
        respond=CRBMClassifier.predict_proba,
    )
    expected = fit_thresholds(Y, unseen, "f1_micro")
    np.testing.assert_allclose(model.thresholds_, expected, atol=0.05 if cv == 3 else 1e-6)
    with pytest.raises(ValueError, match=r"decode='threshold' needs at least 7 rows .* got 4"):
        quick(decode=Threshold(cv=7)).fit(X[:4], Y[:4])


def test_score_of_empty_rows_in_thresholds():
    """Models and any classifier take 0 by default, as scikit-learn's scores do."""
    X, Y = np.zeros((40, 1)), np.zeros((40, 2), int)
    Y[:12, 0] = 1
    model = quick(n_hidden=0, alpha=0.1)
    for zero_division, on in (("auto", True), (1.0, False), (0.0, True)):
        rule = Threshold(zero_division=zero_division)
        assert model.set_params(decode=rule).fit(X, Y).predict(X).any() == on
        inner = DecodedClassifier(quick(n_hidden=0, alpha=0.1), decode=rule).fit(X, Y)
        assert inner.predict(X).any() == on


# ------------------------------------------------------------------ any classifier


def test_label_sets_of_any_classifier(data):
    """The most probable label set of fit under independent labels, known labels included."""
    X, Y = data
    model = DecodedClassifier(TREE, decode="label_set").fit(X[:100], Y[:100])
    sets = np.unique(Y[:100], axis=0)
    np.testing.assert_array_equal(model.label_sets_, sets)
    proba = model.predict_proba(X[100:])
    likelihood = np.prod(np.where(sets, proba[:, None], 1 - proba[:, None]), axis=2)
    found = model.predict(X[100:])
    chosen = (found[:, None] == sets).all(axis=2)
    assert (chosen.sum(axis=1) == 1).all()
    assert found.dtype == np.int64
    np.testing.assert_allclose(likelihood[chosen], likelihood.max(axis=1))


def test_label_sets_that_known_labels_rule_out():
    sets = np.array([[1, 1, 0], [0, 1, 1]], np.int8)
    proba = np.array([[0.9, 0.6, 0.0], [0.9, 0.6, 1.0], [1.0, 0.2, 1.0], [0.0, 0.0, 0.0]])
    known = np.full((4, 3), np.nan)
    known[1, 2], known[2, [0, 2]] = 1, 1
    posterior = ClassifierPosterior(proba, known, sets)
    found = LabelSet().decode(posterior)
    # The last row: both sets are impossible.
    np.testing.assert_array_equal(found, [[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 1, 0]])


def test_label_sets_exclude_the_empty_vector():
    sets = np.array([[0, 0], [1, 0]], np.int8)
    posterior = ClassifierPosterior(np.full((1, 2), 0.1), None, sets)
    np.testing.assert_array_equal(LabelSet().decode(posterior), [[0, 0]])
    posterior = posterior._replace(allow_empty=False)
    np.testing.assert_array_equal(LabelSet().decode(posterior), [[1, 0]])


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: make_pipeline(StandardScaler(), m)])
@pytest.mark.parametrize("name", ["label_set", "map", "marginal_map"])
def test_rules_by_the_joint_distribution_of_a_wrapped_model(data, name, wrap):
    X, Y = data
    model = DecodedClassifier(wrap(quick()), decode=name).fit(X, Y)
    plain = wrap(quick(decode=name)).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    known = np.where(np.arange(5) < 2, 1.0 - Y, np.nan)
    found = model.predict(X, y_known=known)
    np.testing.assert_array_equal(found[:, :2], 1 - Y[:, :2])
    assert final_model(model.estimator_)[0].decode == "marginal"


def test_hinge_of_a_wrapped_model(data):
    X, Y = data
    lmbm = LMBMClassifier(C=0.1, pairwise_penalty=10.0, random_state=0)
    model = DecodedClassifier(lmbm, decode="hinge").fit(X, Y)
    expected = clone(lmbm).set_params(decode="hinge").fit(X, Y).predict(X)
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize(
    ("inner", "rule"),
    [
        (TREE, "map"),
        (MultiOutputClassifier(LogisticRegression()), MarginalMAP()),
        (quick(), "hinge"),
    ],
)
def test_rules_that_a_wrapped_model_cannot_serve(data, inner, rule):
    message = "joint distribution whose own parameter decode accepts this rule; .*"
    with pytest.raises(ValueError, match=message + "decode can be 'marginal', 'label_set'"):
        DecodedClassifier(inner, decode=rule).fit(*data)
    model = DecodedClassifier(inner).fit(*data).set_params(decode=rule)
    with pytest.raises(ValueError, match=message):
        model.predict(data[0])


def test_error_lists_the_rules_of_the_wrapped_model(data):
    with pytest.raises(
        ValueError, match=r"CRBMClassifier is not such an estimator. .* 'marginal_map', 'map'$"
    ):
        DecodedClassifier(quick(), decode="hinge").fit(*data)


@pytest.mark.parametrize("rule", [Marginal(), LabelSet(), ExpectedMetric(), Threshold()], ids=repr)
def test_rules_without_a_certificate(rule):
    assert not rule.certified
    with pytest.raises(NotImplementedError, match="cannot bound how far"):
        rule.decode_with_gap(None)
