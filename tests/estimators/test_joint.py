"""Questions about p(y | x) of fitted models, against enumeration of all label vectors."""

import numpy as np
import pytest
from reference.states import all_states
from scipy.special import expit, logsumexp, softmax
from sklearn.base import is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import MSSVMCRBM, CRBMClassifier, LMBMClassifier
from skcrbm.inference import SumProduct

L = 4
VECTORS = all_states(L)


def make_data(n=60):
    rng = np.random.RandomState(0)
    X = rng.randn(n, 3)
    base = X @ rng.randn(3, 2) + rng.randn(n, 2)
    return X, (base[:, [0, 0, 1, 1]] + 0.5 * rng.randn(n, L) > 0).astype(int)


@pytest.fixture(scope="module", params=["crbm", "mssvm", "mssvm_max"])
def fitted(request):
    X, Y = make_data()
    options = {"n_hidden": 3, "alpha": 0.02, "max_iter": 40, "random_state": 0}
    model = {
        "crbm": CRBMClassifier(**options),
        "mssvm": MSSVMCRBM(**options, inference="exact"),
        "mssvm_max": MSSVMCRBM(**options, inference="exact", hidden="max"),
    }[request.param]
    return model.fit(X, Y), X, Y


def log_joint(model, X, known=None):
    """Log p(y | x, known) of all 16 label vectors from the fitted attributes, (n, 16)."""
    score = np.empty((len(X), len(VECTORS)))
    for n, x in enumerate(X):
        b = model.visible_intercept_ + model.visible_coef_ @ x
        c = model.hidden_intercept_ + model.hidden_coef_ @ x
        score[n] = VECTORS @ b + np.logaddexp(0, c + VECTORS @ model.weights_).sum(axis=1)
    if known is not None:
        agrees = (np.isnan(known[:, None]) | (known[:, None] == VECTORS)).all(axis=2)
        score[~agrees] = -np.inf
    return score - logsumexp(score, axis=1, keepdims=True)


def some_known(Y, share=0.4, seed=3):
    known = Y.astype(float)
    known[np.random.RandomState(seed).random_sample(Y.shape) > share] = np.nan
    return known


@pytest.mark.parametrize("with_known", [False, True])
def test_score_samples(fitted, with_known):
    model, X, Y = fitted
    known = some_known(Y) if with_known else None
    expected = log_joint(model, X, known)
    at = (Y @ [8, 4, 2, 1]).astype(int)
    rows = np.arange(len(X))
    found = model.score_samples(X, Y, y_known=known)
    np.testing.assert_allclose(found, expected[rows, at], atol=1e-9)
    # Entries that are not observed are summed out.
    partly = Y.astype(float)
    partly[np.random.RandomState(5).random_sample(Y.shape) < 0.5] = np.nan
    agrees = (np.isnan(partly[:, None]) | (partly[:, None] == VECTORS)).all(axis=2)
    reference = logsumexp(np.where(agrees, expected, -np.inf), axis=1)
    np.testing.assert_allclose(model.score_samples(X, partly, y_known=known), reference, atol=1e-9)


def test_score_samples_at_the_ends(fitted):
    model, X, Y = fitted
    np.testing.assert_allclose(model.score_samples(X, np.full(Y.shape, np.nan)), 0, atol=1e-12)
    np.testing.assert_array_equal(model.score_samples(X), np.zeros(len(X)))
    known = np.where(np.arange(L) == 1, 1.0 - Y, np.nan)
    assert (model.score_samples(X, Y, y_known=known) == -np.inf).all()
    np.testing.assert_allclose(model.score_samples(X, Y, y_known=Y), 0, atol=1e-9)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
def test_methods_of_score_samples(fitted):
    model, X, Y = fitted
    X, Y = X[:6], Y[:6]
    exact = model.score_samples(X, Y)
    ais = model.score_samples(X, Y, method="ais", random_state=0)
    np.testing.assert_allclose(ais, exact, atol=0.3)
    np.testing.assert_array_equal(
        ais[:2], model.score_samples(X[:2], Y[:2], method="ais", random_state=0)
    )
    labels, proba = model.predict_topk(X, method="ais", random_state=0)
    score = model.score_samples(X, labels[:, 0], method="ais", random_state=0)
    np.testing.assert_allclose(np.log(proba[:, 0]), score, atol=1e-9)
    assert (model.score_samples(X, Y, method="mean_field") >= exact - 1e-9).all()  # Z from below
    for method in ("sum_product", SumProduct(damping=0.3)):
        assert np.abs(model.score_samples(X, Y, method=method) - exact).max() < 3
    with pytest.raises(ValueError, match="cannot answer 'log_partition'"):
        model.score_samples(X, Y, method="icm")
    with pytest.raises(ValueError, match="method must be one of"):
        model.score_samples(X, Y, method="exactly")


@pytest.mark.compiled
@pytest.mark.parametrize("with_known", [False, True])
@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_sample(fitted, method, with_known):
    model, X, Y = fitted
    X, Y = X[:6], Y[:6]
    known = some_known(Y) if with_known else None
    n = 3000 if method == "exact" else 2000
    draws = model.sample(X, n, y_known=known, method=method, random_state=1)
    assert draws.shape == (6, n, L)
    if with_known:
        free = np.isnan(known)
        np.testing.assert_array_equal(
            np.where(free[:, None], 0, draws), np.broadcast_to(
                np.where(free, 0, known)[:, None], draws.shape
            )
        )  # fmt: skip
    if method == "gibbs" or with_known:
        # Draws of a chain depend on each other.
        marginals = model.predict_proba(X, y_known=known)
        np.testing.assert_allclose(draws.mean(axis=1), marginals, atol=0.12)
        return
    share = (draws[:, :, None] == VECTORS).all(axis=3).mean(axis=1)
    p = np.exp(log_joint(model, X))
    # Vectors that are nearly impossible may be drawn once or twice.
    assert (np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / n) + 3 / n).all()
    np.testing.assert_array_equal(draws, model.sample(X, n, random_state=1))
    assert (draws != model.sample(X, n, random_state=2)).any()


@pytest.mark.parametrize("with_known", [False, True])
@pytest.mark.parametrize("k", [1, 3, 16])
def test_topk(fitted, k, with_known):
    model, X, Y = fitted
    known = some_known(Y) if with_known else None
    if with_known:
        known[0] = Y[0]
    joint = log_joint(model, X, known)
    labels, proba = model.predict_topk(X, k, y_known=known)
    assert labels.shape == (len(X), k, L)
    best = -np.sort(-joint, axis=1)[:, :k]
    np.testing.assert_allclose(proba, np.exp(best), atol=1e-9)
    for n in range(len(X)):
        exists = np.isfinite(best[n])
        index = labels[n][exists] @ [8, 4, 2, 1]
        np.testing.assert_allclose(joint[n, index], best[n][exists], atol=1e-9)
        assert (labels[n][~exists] == -1).all()
        assert len(set(index)) == exists.sum()


def test_topk_over_candidates(fitted):
    model, X, Y = fitted
    sets = np.unique(Y, axis=0)
    labels, proba = model.predict_topk(X, len(sets), candidates="label_sets")
    joint = np.exp(log_joint(model, X))
    # Probabilities of all there is, not shares among the candidates.
    expected = -np.sort(-joint[:, sets @ [8, 4, 2, 1]], axis=1)
    np.testing.assert_allclose(proba, expected, atol=1e-9)
    assert (proba.sum(axis=1) < 1 + 1e-9).all()
    given = model.predict_topk(X, 2, candidates=np.vstack([sets, sets]))
    np.testing.assert_array_equal(given.labels, labels[:, :2])
    if isinstance(model, CRBMClassifier):
        first = model.set_params(decode="label_set").predict(X)
        np.testing.assert_array_equal(labels[:, 0], first)
        known = some_known(Y)
        first = model.predict(X, y_known=known)
        top = model.predict_topk(X, candidates="label_sets", y_known=known)
        np.testing.assert_array_equal(top.labels[:, 0], first)
    # No candidate agrees: all of them with the known labels written over.
    known = np.full(Y.shape, np.nan)
    known[:, :2] = [1, 0]
    top = model.predict_topk(X, 2, candidates=[[0, 0, 1, 1], [0, 1, 1, 1]], y_known=known)
    np.testing.assert_array_equal(top.labels[:, 0], np.tile([1, 0, 1, 1], (len(X), 1)))
    assert (top.labels[:, 1] == -1).all()
    assert (top.proba[:, 1] == 0).all()


@pytest.mark.parametrize("with_known", [False, True])
def test_pairwise(fitted, with_known):
    model, X, Y = fitted
    known = some_known(Y) if with_known else None
    pairs = model.predict_pairwise_proba(X, y_known=known)
    joint = np.exp(log_joint(model, X, known))
    expected = np.einsum("nk,ki,kj->nij", joint, VECTORS, VECTORS)
    np.testing.assert_allclose(pairs, expected, atol=1e-9)
    np.testing.assert_array_equal(pairs, np.swapaxes(pairs, 1, 2))
    marginals = np.diagonal(pairs, axis1=1, axis2=2)
    np.testing.assert_allclose(marginals, model.predict_proba(X, y_known=known), atol=1e-12)


@pytest.mark.parametrize("with_known", [False, True])
def test_transform(fitted, with_known):
    model, X, Y = fitted
    known = some_known(Y) if with_known else None
    joint = np.exp(log_joint(model, X, known))
    expected = np.empty((len(X), 3))
    for n, x in enumerate(X):
        inputs = model.hidden_intercept_ + model.hidden_coef_ @ x + VECTORS @ model.weights_
        expected[n] = joint[n] @ expit(inputs)
    np.testing.assert_allclose(model.transform(X, y_known=known), expected, atol=1e-9)
    names = model.get_feature_names_out()
    assert list(names) == [f"{type(model).__name__.lower()}{j}" for j in range(3)]


def test_transform_in_a_pipeline():
    X, Y = make_data()
    model = make_pipeline(
        StandardScaler(), CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=5, random_state=0)
    )
    frame = model.set_output(transform="pandas").fit(X, Y).transform(X)
    assert list(frame.columns) == ["crbmclassifier0", "crbmclassifier1"]
    assert is_classifier(model)
    again = model.fit_transform(X, Y)
    np.testing.assert_allclose(again, frame)
    assert CRBMClassifier(n_hidden=0, max_iter=1).fit(X, Y).transform(X).shape == (60, 0)


def test_approximate_inference():
    """Pairs and hidden marginals come from the inference method of the model."""
    X, Y = make_data()
    model = CRBMClassifier(n_hidden=3, inference="sum_product", max_iter=20, random_state=0)
    model.fit(X, Y)
    pairs = model.predict_pairwise_proba(X)
    np.testing.assert_array_equal(pairs, np.swapaxes(pairs, 1, 2))
    marginals = np.diagonal(pairs, axis1=1, axis2=2)
    np.testing.assert_allclose(marginals, model.predict_proba(X), atol=1e-6)
    expected = np.einsum("nk,ki,kj->nij", np.exp(log_joint(model, X)), VECTORS, VECTORS)
    assert np.abs(pairs - expected).max() < 0.1
    assert model.transform(X).shape == (60, 3)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", [CRBMClassifier, MSSVMCRBM])
@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_class_vector(kind, classes):
    X, Y = make_data()
    y = np.array(classes)[Y[:, [0, 2]].sum(axis=1) % len(classes)]
    model = kind(n_hidden=2, max_iter=20, random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    index = np.searchsorted(classes, y)
    log_p = model.score_samples(X, y)
    np.testing.assert_allclose(log_p, np.log(proba[np.arange(60), index]), atol=1e-9)
    labels, top = model.predict_topk(X, 2)
    np.testing.assert_array_equal(labels[:, 0], model.predict(X))
    np.testing.assert_allclose(top, -np.sort(-proba, axis=1)[:, :2], atol=1e-9)
    draws = model.sample(X[:10], 2000, random_state=0)
    assert draws.shape == (10, 2000)
    for k, name in enumerate(classes):
        p = proba[:10, k]
        bound = 5 * np.sqrt(p * (1 - p) / 2000) + 1e-12
        assert (np.abs((draws == name).mean(axis=1) - p) <= bound).all()
    assert model.transform(X).shape == (60, model.weights_.shape[1])
    with pytest.raises(ValueError, match="predict_pairwise_proba is for 2-D y"):
        model.predict_pairwise_proba(X)
    with pytest.raises(ValueError, match="y_known is for 2-D indicator y"):
        model.sample(X, y_known=Y)
    with pytest.raises(ValueError, match="number of classes"):
        model.predict_topk(X, 4)
    with pytest.raises(ValueError, match="n_samples must be an int"):
        model.sample(X, 0)
    with pytest.raises(ValueError, match="classes that the model does not"):
        model.score_samples(X, np.array(["other"] * 60))


def test_refusals(fitted):
    model, X, Y = fitted
    for call, message in (
        (lambda: model.sample(X, 0), "n_samples must be an int of at least 1"),
        (
            lambda: model.sample(X, method="icm"),
            "'icm' cannot answer 'samples'; .* 'exact', 'gibbs'",
        ),
        (lambda: model.sample(X, burn_in=5), "'exact' has no option 'burn_in'"),
        (lambda: model.sample(X, y_known=Y[:3]), "y_known must have shape"),
        (lambda: model.score_samples(X, Y[:, :2]), r"y must have shape \(n_samples, 4\)"),
        (
            lambda: model.score_samples(X, Y[:5]),
            "X and y must have the same number of rows, got 60 and 5",
        ),
        (lambda: model.score_samples(X, 2 * Y), "y must be a 0/1 indicator"),
        (lambda: model.predict_topk(X, 17), "k=17 is larger than the number of candidates, 16"),
        (lambda: model.predict_topk(X, 0), "k must be an int of at least 1"),
        (lambda: model.predict_topk(X, candidates="some"), "candidates must be 'auto', 'all'"),
        (lambda: model.predict_topk(X, candidates=[[1, 0]]), r"shape \(n_sets, 4\)"),
        (lambda: model.predict_topk(X, candidates=[[2, 0, 0, 0]]), "must be 0/1 vectors"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_annealed_importance_sampling_of_a_machine_without_hidden_units():
    X, Y = make_data()
    model = LMBMClassifier().fit(X, Y)
    sampled = model.score_samples(X[:5], Y[:5], method="ais", random_state=0)
    np.testing.assert_allclose(sampled, model.score_samples(X[:5], Y[:5]), atol=0.1)


def test_many_outputs():
    """Beyond 14 outputs the candidates are the label sets, beyond 20 all vectors are refused."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = (rng.random((40, 22)) < expit(X @ rng.normal(size=(3, 22)))).astype(int)
    model = CRBMClassifier(n_hidden=2, alpha=0.05, max_iter=5, random_state=0).fit(X, Y)
    labels, proba = model.predict_topk(X, 2)
    assert all((model.label_sets_ == v).all(axis=1).any() for v in labels[:, 0])
    assert (np.diff(proba, axis=1) <= 0).all()
    log_p = model.score_samples(X, labels[:, 1])
    np.testing.assert_allclose(proba[:, 1], np.exp(log_p), rtol=1e-9)
    with pytest.raises(ValueError, match="the limit is 20 outputs"):
        model.predict_topk(X, candidates="all")
    assert model.sample(X, 2, random_state=0).shape == (40, 2, 22)
    large = CRBMClassifier(n_hidden=21, max_iter=1, inference="mean_field").fit(X, Y)
    with pytest.raises(ValueError, match="'exact' enumerates the smaller layer, which has 21"):
        large.sample(X)
    with pytest.raises(ValueError, match="'exact' enumerates the smaller layer, which has 21"):
        large.score_samples(X, Y)
    assert np.isfinite(large.score_samples(X, Y, method="sum_product")).all()
    assert large.sample(X, method="gibbs", burn_in=3, random_state=0).shape == (40, 1, 22)


def test_float32():
    X, Y = make_data()
    model = CRBMClassifier(n_hidden=3, max_iter=10, random_state=0).fit(X.astype(np.float32), Y)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    total = logsumexp(
        [model.score_samples(X, np.tile(v, (60, 1))) for v in VECTORS], axis=0
    )  # fmt: skip
    np.testing.assert_allclose(total, 0, atol=1e-4)
    proba = model.predict_topk(X, 16).proba
    np.testing.assert_allclose(proba, softmax(np.log(proba), axis=1), atol=1e-4)
