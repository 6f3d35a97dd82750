"""CRBMClassifier with nothing set: L-BFGS, a penalty found by validation, columns of any scale."""

import pickle
import warnings

import numpy as np
import pytest
from reference.cases import deep
from reference.crbm_data import PARAMETERS, assert_same_parameters, make_data, quick
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skcrbm import CRBMClassifier
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference.base import resolve_method
from skcrbm.learning import Adam, EarlyStopping, Likelihood, LossPlateau
from skcrbm.learning.data import Batch, Clock
from skcrbm.learning.objectives import Contrast
from skcrbm.metrics import masked_scorer
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.utils.columns import Columns

# As CRBMParams has them.
PARAMETERS_IN_ORDER = (
    "weights_",
    "visible_coef_",
    "hidden_coef_",
    "visible_intercept_",
    "hidden_intercept_",
)


def dependent(n=120, n_outputs=5, seed=0):
    """Each row has exactly one of two patterns of labels, of which X says little."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 4)
    side = X[:, 0] + 2 * rng.randn(n) > 0
    pattern = np.arange(n_outputs) % 2 == 0
    flips = rng.rand(n, n_outputs) < 0.05
    return X, ((side[:, None] == pattern) ^ flips).astype(int)


def independent(n=120, n_outputs=5, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 4)
    return X, (X @ rng.randn(4, n_outputs) + 1.7 * rng.logistic(size=(n, n_outputs)) > 0).astype(
        int
    )


def default(**options):
    return CRBMClassifier(random_state=0, **options)


# ------------------------------------------------------------------------------- the guard


def test_hidden_units_stay_where_they_help():
    X, Y = dependent()
    model = default().fit(X, Y)
    assert model.n_hidden_ == 8
    assert model.weights_.shape == (5, 8)
    without = default(n_hidden=0).fit(X, Y)
    X, Y = dependent(seed=1)
    assert model.score_samples(X, Y).mean() > without.score_samples(X, Y).mean() + 0.5


def test_hidden_units_go_where_they_do_not():
    X, Y = independent()
    model = default().fit(X, Y)
    assert model.n_hidden_ == 0
    assert model.weights_.shape == (5, 0)
    assert model.hidden_coef_.shape == (0, 4)
    assert model.transform(X).shape == (120, 0)
    # It is the model that was asked for without hidden units.
    np.testing.assert_allclose(model.alpha_, default(n_hidden=0).fit(X, Y).alpha_, rtol=1e-6)
    # And they are kept if the penalty is a number: nothing is searched.
    assert default(alpha=0.1, max_iter=3).fit(X, Y).n_hidden_ == 8


# -------------------------------------------------------------------------------- the path


def test_record_of_the_path():
    X, Y = dependent()
    model = default().fit(X, Y)
    path = model.alpha_path_
    assert set(path) == {"n_hidden", "alpha", "log_likelihood", "log_loss"}
    assert len({len(column) for column in path.values()}) == 1
    assert set(path["n_hidden"]) == {0, 8}
    deep = path["n_hidden"] == 8
    best = np.argmax(np.where(deep, path["log_likelihood"], -np.inf))
    assert 10**-0.25 <= model.alpha_ / path["alpha"][best] <= 10**0.25
    fixed = default(alpha=0.3, max_iter=3).fit(X, Y)
    assert fixed.alpha_ == 0.3
    assert all(len(column) == 0 for column in fixed.alpha_path_.values())


@pytest.mark.deep
def test_search_on_samples_of_large_data(monkeypatch):
    """On large data the search reads some labels and rows, and finds about the same model."""
    X, Y = dependent(400, n_outputs=12)
    X_test, Y_test = dependent(400, n_outputs=12, seed=1)
    whole = default(n_hidden=2).fit(X, Y)
    auto, states = "skcrbm.estimators._crbm_auto.", 12 * 4
    for limit, value in {"_CONVEX_ENTRIES": 1, "_LEAST_SAMPLED": 9, "_CONVEX_ROWS": 100}.items():
        monkeypatch.setattr(auto + limit, value)
    monkeypatch.setattr(auto + "HIDDEN_STATES", 200 * states)
    seen = []
    original = Contrast.step

    def step(self, model, batch, *args):
        seen.append((*batch.visible.shape, model.params.weights.shape[1]))
        return original(self, model, batch, *args)

    monkeypatch.setattr(Contrast, "step", step)
    model = default(n_hidden=2).fit(X, Y)
    assert set(seen) == {(320, 9, 0), (200, 12, 0), (200, 12, 2), (400, 12, 2)}
    n_hidden, alphas = model.alpha_path_["n_hidden"], model.alpha_path_["alpha"]
    assert (n_hidden == 2).sum() == 1
    assert model.alpha_ == alphas[-1] == 2 * alphas[-2]
    assert whole.n_hidden_ == model.n_hidden_ == 2
    losses = [-masked_scorer("neg_log_loss")(m, X_test, Y_test) for m in (whole, model)]
    assert losses[1] < 1.02 * losses[0]
    assert_same_parameters(default(n_hidden=2, n_jobs=2).fit(X, Y), model)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("target", ["multilabel", "binary", "multiclass"])
def test_no_worse_than_a_fine_grid(target):
    """Validation score on other rows within 2 % of the best of a grid, searched on these."""
    X, Y = independent(400)
    y = {"multilabel": Y, "binary": Y[:, 0], "multiclass": Y[:, :3].sum(axis=1)}[target]
    X = np.hstack([X, np.random.RandomState(5).randn(400, 20)])
    fit, held_out = np.arange(400) < 150, np.arange(400) >= 150
    model = default(n_hidden=0).fit(X[fit], y[fit])
    Z = Columns(X[fit], np.ones(150)).transform(X)
    scores = [
        default(n_hidden=0, alpha=alpha)
        .fit(Z[fit], y[fit])
        .score_samples(Z[held_out], y[held_out])
        .mean()
        for alpha in np.geomspace(1e-4, 10, 11)
    ]
    score = model.score_samples(X[held_out], y[held_out]).mean()
    assert score > 1.02 * max(scores)  # both are negative


def test_path_finds_the_best_of_its_own_score():
    """On the folds that it uses, against a fine grid of converged fits."""
    X, Y = independent(90)
    model = default(n_hidden=0).fit(X, Y)
    Z = Columns(X, np.ones(90)).transform(X)

    folds = list(MultilabelStratifiedKFold(5, shuffle=True, random_state=0).split(Y, Y))

    def score(alpha):
        return np.mean(
            np.concatenate(
                [
                    default(n_hidden=0, alpha=alpha * 90 / len(train))
                    .fit(Z[train], Y[train])
                    .score_samples(Z[test], Y[test])
                    for train, test in folds
                ]
            )
        )

    best = max(score(alpha) for alpha in np.geomspace(1e-3, 1, 7))
    assert score(model.alpha_) > 1.02 * best
    assert max(model.alpha_path_["log_likelihood"]) == pytest.approx(best, rel=0.02)


# ------------------------------------------------------------------- columns of any scale


@pytest.mark.deep
@pytest.mark.parametrize("data", [dependent, deep(independent)])
def test_shifts_and_scales_of_columns_do_not_matter(data):
    X, Y = data()
    X[:, 3] = X[:, 3] > 0
    model = default(max_iter=30).fit(X, Y)
    moved = X * [1e-4, 1e3, 7, -5] + [1e3, -50, 0, 2]
    # The last column is two-valued: -5 and 0 become 1 and 0, which reverses its sign.
    other = default(max_iter=30).fit(moved, Y)
    assert other.n_hidden_ == model.n_hidden_
    np.testing.assert_allclose(other.predict_proba(moved), model.predict_proba(X), atol=0.02)
    moved = X * [1e-4, 1e3, 7, 5] + [1e3, -50, 0, 2]
    other = default(max_iter=30).fit(moved, Y)
    assert other.alpha_ == pytest.approx(model.alpha_, rel=0.05)
    np.testing.assert_allclose(other.predict_proba(moved), model.predict_proba(X), atol=0.01)


def test_coefficients_are_those_of_the_columns_given():
    X, Y = independent()
    X = X * [1, 100, 0.01, 1] + [5, 0, 0, 3]
    X = np.column_stack([X, np.full(120, 4.0)])
    model = default(n_hidden=0).fit(X, Y)
    log_odds = X @ model.visible_coef_.T + model.visible_intercept_
    np.testing.assert_allclose(model.decision_function(X), log_odds, atol=1e-9)
    assert (model.visible_coef_[:, 4] == 0).all()
    wide = np.hstack([X, np.random.RandomState(1).randn(120, 150)])  # in the space of the rows
    model = default(n_hidden=0).fit(wide, Y)
    assert model.visible_coef_.shape == (5, 155)
    log_odds = wide @ model.visible_coef_.T + model.visible_intercept_
    np.testing.assert_allclose(model.decision_function(wide), log_odds, atol=1e-9)


@pytest.mark.parametrize("wide", [deep(False), True])
def test_sparse_is_dense(wide):
    rng = np.random.RandomState(0)
    X = (rng.rand(120, 150 if wide else 12) < 0.15).astype(float)
    Y = (X[:, :4] + X[:, 4:8] + 0.3 * rng.randn(120, 4) > 0.5).astype(int)
    dense = default(max_iter=40).fit(X, Y)
    csr = default(max_iter=40).fit(sparse.csr_matrix(X), Y)
    assert csr.alpha_ == pytest.approx(dense.alpha_, rel=1e-3)
    np.testing.assert_allclose(csr.predict_proba(X), dense.predict_proba(X), atol=1e-3)


def test_float32():
    X, Y = dependent()
    model = default(max_iter=30).fit(X.astype(np.float32), Y)
    for name in PARAMETERS:
        assert getattr(model, name).dtype == np.float32
    double = default(max_iter=30).fit(X.astype(np.float32).astype(float), Y)
    # Only the results are rounded: all is computed in float64, from labels' log-odds in float32.
    assert model.alpha_ == pytest.approx(double.alpha_, rel=0.1)
    np.testing.assert_allclose(model.predict_proba(X), double.predict_proba(X), atol=0.01)


# --------------------------------------------------------------------------- kinds of data


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "target", ["multilabel", deep("missing"), "binary", "multiclass", deep("one label")]
)
def test_kinds_of_targets(target):
    X, Y = dependent(120)
    partly = np.where(np.random.RandomState(1).rand(*Y.shape) < 0.2, np.nan, Y)
    y = {
        "multilabel": Y,
        "missing": partly,
        "binary": Y[:, 0],
        "multiclass": Y[:, 0] + 2 * (X[:, 1] > 0),
        "one label": np.column_stack([Y[:, 0], np.zeros(120, int)]),
    }[target]
    weight = np.random.RandomState(2).uniform(0.1, 2, 120)
    model = default(max_iter=20)
    model.fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(X)).all()
    assert len(model.alpha_path_["alpha"]) >= 3
    assert model.loss_curve_ == sorted(model.loss_curve_, reverse=True)


def test_labels_that_are_constant_or_rare():
    X, Y = dependent(150)
    Y = np.column_stack([Y, np.zeros(150, int), np.ones(150, int), np.arange(150) == 7])
    for options in ({}, {"alpha": 0.01}):
        proba = default(**options).fit(X, Y).predict_proba(X)
        # A label that is never on in 150 rows is not impossible.
        assert (proba[:, 5] > 1e-5).all()
        assert (proba[:, 5] < 0.02).all()
        assert (proba[:, 6] > 0.98).all()
        assert (proba[:, 6] < 1 - 1e-5).all()
        assert proba[:, 7].mean() == pytest.approx(1 / 150, rel=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "y holds labels whose observed entries are all equal")
        constant = default().fit(np.ones((60, 3)), np.ones((60, 2), int))
    assert (constant.predict(np.ones((1, 3))) == 1).all()
    assert (constant.visible_coef_ == 0).all()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("n", [1, 2, 39, 40])
def test_few_rows(n):
    X, Y = dependent(n)
    model = default().fit(X, Y)
    assert (len(model.alpha_path_["alpha"]) > 0) == (n >= 40)
    assert model.alpha_ >= 0
    assert np.isfinite(model.predict_proba(X)).all()


def test_weights_are_copies_with_hidden_units():
    """The pull on W of alpha_hidden="auto" counts weights, not rows."""
    X, Y = dependent()
    X, Y, counts = X[:60], Y[:60], np.random.RandomState(0).randint(1, 4, 60)
    model = CRBMClassifier(n_hidden=4, alpha=0.01, random_state=0)
    weighted = clone(model).fit(X, Y, sample_weight=counts)
    repeated = model.fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)


def test_weights_are_copies_where_nothing_is_searched():
    """With few rows the penalty is fixed; with more rows the folds split rows, not copies."""
    X, Y = dependent(12)
    counts = np.random.RandomState(0).randint(0, 4, 12)
    weighted = default().fit(X, Y, sample_weight=counts)
    repeated = default().fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    assert weighted.alpha_ == pytest.approx(repeated.alpha_)
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-3, atol=1e-5
    )


def test_scale_of_weights_does_not_matter():
    X, Y = dependent(100)
    a, b = (default(max_iter=10).fit(X, Y, sample_weight=np.full(100, w)) for w in (1.0, 1024.0))
    assert_same_parameters(a, b, rtol=1e-6, atol=1e-9)


# --------------------------------------------------------------------- solvers and settings


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"learning": "cd"}, "learning='cd'"),
        ({"inference": "sum_product"}, "'sum_product' inference"),
        ({"early_stopping": True}, "early_stopping=True"),
        ({"early_stopping": EarlyStopping(refit=False)}, "early_stopping=EarlyStopping"),
        ({"early_stopping": LossPlateau(3)}, "early_stopping=LossPlateau"),
    ],
)
def test_what_lbfgs_cannot_do(options, named):
    X, Y = make_data()
    model = quick(solver="lbfgs", **options)
    with pytest.raises(ValueError, match=f"solver='lbfgs' .* cannot be used with {named}"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    auto = model.set_params(solver="auto").fit(X, Y)
    instead = "asgd" if "inference" in options else "adam"
    assert_same_parameters(auto, quick(solver=instead, **options).fit(X, Y))
    assert_same_parameters(quick(solver="auto").fit(X, Y), quick(solver="lbfgs").fit(X, Y))


def test_partial_fit_goes_by_adam():
    X, Y = make_data()
    with pytest.raises(ValueError, match="cannot be used with partial_fit"):
        quick(solver="lbfgs").partial_fit(X, Y)
    fresh = default(n_hidden=2).partial_fit(2 * X, Y)  # columns of mean square above 1
    assert fresh.alpha_ == 0.1
    # The first steps of the automatic solver are longer than the steps of Adam.
    given = default(n_hidden=2, alpha=0.1, solver=Adam(batch_size=20)).partial_fit(2 * X, Y)
    assert fresh.score_samples(2 * X, Y).mean() > given.score_samples(2 * X, Y).mean() + 0.05
    model = default(n_hidden=2).fit(X, Y)
    alpha, before = model.alpha_, model.score_samples(X, Y).mean()
    for _ in range(3):
        model.partial_fit(X, Y)
    assert model.alpha_ == alpha
    assert model.score_samples(X, Y).mean() > before - 0.2


@pytest.mark.parametrize("scale", [0.0, 0.01, 100.0])
def test_partial_fit_recovers_from_an_odd_first_batch(scale):
    """First rows that are zeros, or of another scale, must not spoil the steps after them."""
    rng = np.random.default_rng(0)
    X, B = rng.normal(size=(600, 10)), rng.normal(size=(10, 4))
    Y = (X @ B + 0.5 * rng.normal(size=(600, 4)) > 0).astype(int)
    model = CRBMClassifier(random_state=0).partial_fit(scale * X[:50], Y[:50])
    for start in range(50, 500, 50):
        model.partial_fit(X[start : start + 50], Y[start : start + 50])
    assert (model.predict(X[500:]) == Y[500:]).mean() > 0.77
    if scale == 0:
        assert np.abs(model.visible_coef_).max() < 8


def test_warm_start_goes_on_with_what_was_found():
    X, Y = dependent()
    model = default(warm_start=True, max_iter=15).fit(X, Y)
    alpha, loss, n_iter = model.alpha_, model.loss_curve_[-1], model.n_iter_
    model.fit(X, Y)
    assert model.alpha_ == alpha
    assert len(model.alpha_path_["alpha"]) == 0
    assert model.loss_curve_[0] <= loss
    assert n_iter == 15
    # Removed hidden units stay removed, and `n_hidden` keeps its value of the first fit.
    X, Y = independent()
    model = default(warm_start=True).fit(X, Y).fit(X, Y)
    assert model.n_hidden_ == 0
    with pytest.raises(ValueError, match="n_hidden=3, but the model was fitted with n_hidden=8"):
        model.set_params(n_hidden=3).fit(X, Y)


def test_stochastic_training_takes_the_penalty_of_the_convex_model():
    X, Y = make_data()
    convex = default(n_hidden=0).fit(X, Y)
    model = default(n_hidden=2, learning="cd", max_iter=2).fit(X, Y)
    assert model.alpha_ == pytest.approx(max(convex.alpha_, 1 / len(X)))
    assert set(model.alpha_path_["n_hidden"]) == {0}
    assert model.n_hidden_ == 2
    classes = Y[:, :2].sum(axis=1)
    convex = default(n_hidden=0).fit(X, classes)
    by_adam = default(n_hidden=2, solver="adam", max_iter=2).fit(X, classes)
    assert by_adam.alpha_ == pytest.approx(max(convex.alpha_, 1 / len(X)))
    moved = default(n_hidden=2, learning="cd", max_iter=2).fit(1000 * X + 5, Y)
    np.testing.assert_allclose(moved.predict_proba(1000 * X + 5), model.predict_proba(X), atol=0.02)


def test_numbers_mean_what_they_did():
    """`alpha` is the penalty for columns in their given units, `alpha_hidden` for W."""
    X, Y = make_data()
    X = X * [1, 10, 0.1, 1]
    model = default(n_hidden=3, alpha=0.02, alpha_hidden=0.05, max_iter=1000).fit(X, Y)
    params = CRBMParams(*(getattr(model, name) for name in PARAMETERS_IN_ORDER))
    batch = Batch(X, Y.astype(float), np.ones(90), np.arange(90))
    objective = Likelihood().conditional(resolve_method("exact"))
    step, _ = objective.step(ConditionalRBM(params), batch, Clock(0, 0), objective.start(90))
    for gradient, p, factor in zip(step.gradient, params, (0.05, 0.02, 0.02, 0, 0), strict=True):
        np.testing.assert_allclose(gradient / 90 + factor * p, 0, atol=3e-2)


def test_in_a_grid_search():
    X, Y = make_data(60)
    search = GridSearchCV(
        default(n_hidden=2, max_iter=10),
        {"alpha": [0.01, "auto"]},
        cv=2,
        scoring=masked_scorer("neg_log_loss"),
    ).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_clone_and_pickle():
    X, Y = dependent(100)
    model = default(max_iter=10).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert_same_parameters(copy.partial_fit(X, Y), model.partial_fit(X, Y))
    assert_same_parameters(clone(model).fit(X, Y), default(max_iter=10).fit(X, Y))


@pytest.mark.deep
def test_thresholds_with_what_was_found(monkeypatch):
    X, Y = independent()
    model = default(decode="threshold").fit(X * 1000, Y)
    seen = []
    original = CRBMClassifier.fit

    def spying(self, X, y, sample_weight=None):
        seen.append((self.alpha, self.n_hidden))
        return original(self, X, y, sample_weight)

    monkeypatch.setattr(CRBMClassifier, "fit", spying)
    again = default(decode="threshold").fit(X, Y)
    assert seen[1:] == [(again.alpha_, 0)] * 5
    np.testing.assert_allclose(model.thresholds_, again.thresholds_, atol=1e-3)


# ------------------------------------------------------------------------ progress, Ctrl-C


def test_verbose(capsys):
    X, Y = dependent()
    model = default(verbose=2, max_iter=8).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    tried = [line for line in lines if line.startswith("alpha ")]
    assert len(tried) == len(model.alpha_path_["alpha"])
    assert sum(line.startswith("Iteration ") for line in lines) == model.n_iter_
    X, Y = independent()
    default(verbose=True, max_iter=8).fit(X, Y)
    assert "are left out" in capsys.readouterr().out


@pytest.fixture
def interrupt(monkeypatch):
    def at(step):
        original, done = Contrast.step, []

        def interrupted(self, *args):
            if len(done) == step:
                raise KeyboardInterrupt
            done.append(1)
            return original(self, *args)

        monkeypatch.setattr(Contrast, "step", interrupted)
        return done

    yield at
    monkeypatch.undo()


def test_interrupt_in_any_stage(interrupt, monkeypatch):
    X, Y = dependent(80)
    done = interrupt(10**9)
    whole = default(max_iter=12).fit(X, Y)
    total = len(done)
    monkeypatch.undo()
    usable = 0
    for step in np.linspace(3, total - 1, 5).astype(int):
        interrupt(int(step))
        model = default(max_iter=12)
        try:
            with pytest.warns(UserWarning, match="interrupted; keeping"):
                model.fit(X, Y)
            usable += 1
            assert 0 < model.n_iter_ <= whole.n_iter_
            assert model.loss_curve_ == whole.loss_curve_[: model.n_iter_]
            assert np.isfinite(model.predict_proba(X)).all()
        except (KeyboardInterrupt, pytest.fail.Exception):
            with pytest.raises(NotFittedError):
                model.predict(X)
        monkeypatch.undo()
    assert 0 < usable < 5


@pytest.mark.deep
def test_sparse_rows_after_a_fit_on_dense_ones():
    X, Y = make_data()
    X = X + 10
    start = default(n_hidden=2).fit(X, Y)
    dense, csr = (clone(start).fit(X, Y) for _ in range(2))
    for _ in range(20):
        dense.partial_fit(X, Y)
        csr.partial_fit(sparse.csr_matrix(X), Y)
    losses = dense.loss_curve_[-1], csr.loss_curve_[-1]
    assert losses[1] < losses[0] + 0.2
