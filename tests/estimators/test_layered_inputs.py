"""LayeredGMClassifier: clamped and missing inputs, refused input."""

import pickle

import numpy as np
import pytest
from reference.cases import deep
from reference.dtypes import float32_test
from reference.naive_layered import NaiveLayered
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.preprocessing import MinMaxScaler

from skcrbm import LayeredGMClassifier
from skcrbm.inference import TruncatedInference
from skcrbm.layers import Conv2d, Dense, HardClamping, Local2d
from skcrbm.learning import SGD, Adam, Backpropagation, LossPlateau
from skcrbm.learning.truncated import TruncatedLikelihood


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        60, n_features=5, n_informative=4, n_redundant=0, n_classes=3, random_state=0
    )
    return MinMaxScaler().fit_transform(X), y


def quick(**options):
    return LayeredGMClassifier(
        **{"layers": (Dense(4, 3),), "max_iter": 3, "random_state": 0, **options}
    )


def with_nan(X, share=0.3, seed=0):
    X = X.copy()
    X[np.random.RandomState(seed).random_sample(X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("options", [{}, {"clamping": HardClamping([0.3, 0.6])}])
@pytest.mark.parametrize("inference", ["mean_field", "sum_product", "tree_reweighted"])
def test_missing_inputs(data, inference, options):
    X, y = data
    holes = with_nan(X)
    model = quick(inference=inference, **options).fit(holes, y)
    assert np.isfinite(model.predict_proba(holes)).all()
    filled = model.impute(holes)
    observed = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[observed], holes[observed])
    assert ((filled[~observed] >= 0) & (filled[~observed] <= 1)).all()
    np.testing.assert_array_equal(np.isnan(holes), ~observed)  # left as it was
    rows = sparse.csr_matrix(np.where(np.isnan(holes), 7, holes))
    rows.data[rows.data == 7] = np.nan
    np.testing.assert_allclose(model.predict_proba(rows), model.predict_proba(holes), rtol=1e-9)
    np.testing.assert_allclose(model.impute(rows), filled, rtol=1e-9)
    # A complete row is the same whether others have holes or not.
    np.testing.assert_allclose(
        model.predict_proba(np.vstack([X[:1], holes[1:9]]))[0], model.predict_proba(X[:1])[0]
    )


@pytest.mark.parametrize("share", [0, 0.3])
@pytest.mark.parametrize(
    "layers", [(Dense(4, 3),), (Local2d(2, 2, 1), Dense(3))], ids=["dense", "local"]
)
@pytest.mark.parametrize("learning", ["backprop", "analytic"])
def test_many_states_as_a_sparse_matrix(data, monkeypatch, learning, layers, share):
    X, y = data
    X = with_nan(X[:, :4], share)
    options = {"clamping": HardClamping(np.arange(1, 9) / 9), "learning": learning}
    if len(layers) > 1:
        options["input_shape"] = (2, 2)
    expected = []
    for least in (99, 9):
        monkeypatch.setattr("skcrbm.energies.layered_model._SPARSE_STATES", least)
        model = quick(layers=layers, **options).fit(X, y)
        assert sparse.issparse(model._model.encode(X)[0]) == (least == 9)
        expected.append((model.predict_proba(X), model.impute(X)))
    for one, other in zip(*expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_imputation_equals_the_reference(data):
    X, y = data
    holes = with_nan(X, seed=3)
    model = quick(layers=(Dense(3),)).fit(holes, y)
    filled = model.impute(holes)
    for row in range(3):
        missing = np.isnan(holes[row])
        reference = NaiveLayered(
            model._model.structure, model._model.params, np.nan_to_num(holes[row]), missing
        )
        beliefs = reference.infer("tree_reweighted", "sequential", 5)
        for i in np.flatnonzero(missing):
            np.testing.assert_allclose(filled[row, i], softmax(beliefs[0, i])[1], rtol=1e-9)


@pytest.mark.compiled
def test_imputation_finds_a_copied_feature():
    """Two equal features that decide y: each one's belief follows from the other's value."""
    rng = np.random.RandomState(0)
    x = rng.randint(0, 2, 400).astype(float)
    X = np.column_stack([x, x, rng.random_sample(400)])
    holes = X.copy()
    holes[::2, 0] = np.nan
    holes[1::4, 1] = np.nan
    settings = {"early_stopping": LossPlateau(150), "solver": Adam(batch_size=400)}
    model = quick(max_iter=150, **settings).fit(holes, x.astype(int))
    assert model.score(holes, x) > 0.98


def test_features_that_may_and_may_not_be_missing(data):
    X, y = data
    model = quick().fit(X, y)  # complete, in [0, 1]: may be missing later
    assert np.isfinite(model.predict_proba(with_nan(X))).all()
    assert np.isfinite(model.impute(with_nan(X))).all()
    wide = X * 10 - 3
    assert np.isfinite(quick().fit(wide, y).predict_proba(wide)).all()
    with pytest.raises(ValueError, match="MinMaxScaler"):
        quick().fit(wide, y).predict(with_nan(wide))
    with pytest.raises(ValueError, match=r"must be in \[0, 1\],.* scale X with MinMaxScaler"):
        quick().fit(with_nan(wide), y)
    with pytest.raises(ValueError, match="MinMaxScaler"):
        quick().fit(with_nan(X), y).predict(wide)
    with pytest.raises(ValueError, match="MinMaxScaler"):
        quick().fit(sparse.csr_matrix(with_nan(wide)), y)
    # Hard clamping has thresholds for any scale.
    hard = quick(clamping=HardClamping(2.0)).fit(with_nan(wide), y)
    assert np.isfinite(hard.predict_proba(wide)).all()
    all_nan = X.copy()
    all_nan[:, 2] = np.nan
    assert np.isfinite(quick().fit(all_nan, y).predict_proba(X)).all()


@pytest.mark.parametrize("go_on", ["warm_start", "partial_fit"])
def test_a_feature_that_left_the_unit_interval_can_no_longer_be_missing(data, go_on):
    X, y = data
    wide = X.copy()
    wide[:, 0] = 10 * X[:, 0]
    model = quick(warm_start=True)
    step = model.fit if go_on == "warm_start" else model.partial_fit
    step(X, y)
    assert np.isfinite(model.predict_proba(with_nan(X))).all()
    step(wide, y)
    all_but_0 = with_nan(X)
    all_but_0[:, 0] = X[:, 0]
    assert np.isfinite(model.predict_proba(all_but_0)).all()
    with pytest.raises(ValueError, match="feature 0 is NaN, but its values in fit were outside"):
        model.predict(with_nan(X))


@float32_test
@pytest.mark.parametrize("missing", [False, True])
def test_other_dtype_than_in_fit(data, missing):
    """Everything is computed in the dtype of the fit: no kernel is compiled for mixtures."""
    X, y = data
    X, y = (with_nan(X) if missing else X)[:12].astype(np.float32), y[:12]
    wide = X.astype(np.float64)
    for a, b in ((X, wide), (wide, X)):
        for matrix in (np.array, sparse.csr_matrix):
            model = quick(layers=(Dense(3, 3), Dense(2))).fit(matrix(a), y)
            p = model.predict_proba(matrix(b))
            assert p.dtype == a.dtype
            np.testing.assert_array_equal(p, model.predict_proba(matrix(a)))
            model.partial_fit(matrix(b), y)
            assert {p.dtype for p in model._model.params} == {a.dtype}
            assert model.impute(b).dtype == b.dtype


def test_infinity_is_refused(data):
    X, y = data
    X = X.copy()
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        quick().fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"layers": (Dense(3), Dense(3)), "inference": TruncatedInference(n_iter=2)},
            r"n_iter=2 is too small for 2 hidden layer.*TruncatedInference\(n_iter=3",
        ),
        ({"layers": (100,)}, r"layers must contain objects .* such as Dense\(100\)"),
        ({"layers": 100}, "The 'layers' parameter"),
        (
            {"layers": (Conv2d(2, 3, 1),)},
            r"needs a layer of shape \(height, width\).*Set input_shape",
        ),
        ({"layers": (Dense(4), Local2d(2, 3, 1)), "input_shape": (5, 1)}, "no Dense layer before"),
        ({"layers": (Conv2d(2, 7, 1),), "input_shape": (5, 1)}, "does not fit"),
        ({"input_shape": (2, 2)}, r"input_shape must be.*features of X \(5\); got \(2, 2\)"),
        ({"input_shape": (2.5, 2)}, r"integers whose product is the number of features of X \(5\)"),
        ({"input_shape": (-1, -5)}, "positive integers"),
        ({"input_shape": ()}, "positive integers"),
        ({"clamping": "firm"}, "The 'clamping' parameter"),
        ({"clamping": HardClamping}, "The 'clamping' parameter"),
        ({"clamping": HardClamping([0.5, 0.2])}, "thresholds must increase"),
        ({"clamping": HardClamping([0.5, np.nan])}, "thresholds must be a number"),
        ({"clamping": HardClamping([])}, "thresholds must be a number"),
        ({"clamping": HardClamping(["low"])}, "thresholds must be a number"),
        ({"clamping": HardClamping([[0.2], [0.3, 0.4]])}, "thresholds must be a number"),
        ({"inference": "exact"}, "'inference' parameter"),
        ({"inference": TruncatedInference("exact")}, "'method' parameter"),
        ({"inference": TruncatedInference(n_iter=0)}, "'n_iter' parameter"),
        ({"learning": "cd"}, "'learning' parameter"),
        ({"learning": Backpropagation(label_smoothing=1.0)}, "'label_smoothing' parameter"),
    ],
)
def test_errors(data, options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(*data)


def test_imputation_needs_two_iterations(data):
    X, y = data
    model = quick(layers=(), inference=TruncatedInference(n_iter=1)).fit(X, y)
    with pytest.raises(ValueError, match=r"impute needs a model .*\(n_iter=2\)"):
        model.impute(with_nan(X))


def test_a_failed_fit_leaves_the_model_as_it_was(data):
    X, y = data
    model = quick().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="input_shape"):
        model.set_params(input_shape=(2, 2)).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


# ------------------------------------------------------------ rows that sparse inputs read

MANY_STATES = {"clamping": HardClamping(tuple(np.arange(1, 256) / 256))}


def by_rows_and_all(monkeypatch, fit):
    """Return `fit()` twice: steps move the rows that a batch reads, and steps move all rows."""
    found = []
    for limit in (0, 10**9):
        monkeypatch.setattr("skcrbm.inference.layered.network.ROW_SPARSE_WEIGHTS", limit)
        found.append(fit())
    return found


def late(model):
    """Whether Adam knows of rows that are moved late."""
    optimizer = model._progress.optimizer
    return bool(getattr(optimizer, "late", None))


def weights(model):
    return [layer.pairwise for layer in model.layers_]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("options", "by_rows"),
    [
        ({}, True),
        ({"inference": "mean_field"}, True),
        ({"learning": "analytic", "inference": TruncatedInference(n_iter=3)}, True),
        ({"layers": (Dense(4), Dense(3, 3))}, True),
        ({"layers": ()}, True),
        ({"solver": Adam(batch_size=130)}, True),
        ({"alpha_hidden": 0.1}, True),
        ({"alpha": 0.1}, False),
        ({"solver": SGD(batch_size=10)}, False),
    ],
)
def test_moving_the_rows_that_are_read_is_training_as_before(monkeypatch, options, by_rows):
    rng = np.random.RandomState(0)
    X, y = rng.random_sample((260, 6)), rng.randint(3, size=260)
    solver = Adam(batch_size=10)
    settings = {"layers": (Dense(4, 3),), "max_iter": 4, "solver": solver, "random_state": 0}

    def fit():
        model = LayeredGMClassifier(**{**settings, **MANY_STATES, **options})
        return model.fit(X, y)

    rows, arrays = by_rows_and_all(monkeypatch, fit)
    assert late(rows) == by_rows
    assert not late(arrays)
    for a, b in zip(weights(rows), weights(arrays), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_allclose(rows.loss_curve_, arrays.loss_curve_, rtol=1e-9)


def test_rows_that_are_read_with_early_stopping_and_partial_fit(monkeypatch):
    rng = np.random.RandomState(0)
    X, y = rng.random_sample((200, 6)), rng.randint(2, size=200)

    def fit():
        model = LayeredGMClassifier(
            max_iter=6,
            early_stopping=True,
            solver=Adam(batch_size=10),
            random_state=0,
            **MANY_STATES,
        ).fit(X, y)
        kept = [w.copy() for w in weights(model)]
        model.set_params(early_stopping=False)
        for part in (slice(0, 100), slice(100, 200), slice(0, 50)):
            model.partial_fit(X[part], y[part])
        return kept, model

    (before, rows), (expected, arrays) = by_rows_and_all(monkeypatch, fit)
    for a, b in zip([*before, *weights(rows)], [*expected, *weights(arrays)], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)  # gradients near epsilon


def test_sparse_columns_are_read_by_rows(monkeypatch):
    rng = np.random.RandomState(0)
    X = sparse.random(120, 300, density=0.02, format="csr", random_state=rng)
    y = rng.randint(2, size=120)

    def fit():
        return LayeredGMClassifier(max_iter=5, solver=Adam(batch_size=10), random_state=0).fit(X, y)

    rows, arrays = by_rows_and_all(monkeypatch, fit)
    assert late(rows)
    for a, b in zip(weights(rows), weights(arrays), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)  # gradients near epsilon


def test_rows_that_are_read_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("skcrbm.inference.layered.network.ROW_SPARSE_WEIGHTS", 0)
    rng = np.random.RandomState(0)
    X, y = rng.random_sample((300, 6)), rng.randint(2, size=300)
    one, two = (
        LayeredGMClassifier(
            max_iter=3,
            solver=Adam(batch_size=150),
            n_jobs=n_jobs,
            random_state=0,
            **MANY_STATES,
        ).fit(X, y)
        for n_jobs in (1, 2)
    )
    for a, b in zip(weights(one), weights(two), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "options", [deep({}), {"inference": "mean_field"}, deep({"learning": "analytic"})], ids=str
)
def test_pixels_that_are_missing_now_and_then_move_all_rows(monkeypatch, options):
    rng = np.random.RandomState(0)
    X, y = rng.random_sample((100, 6)), rng.randint(2, size=100)
    X[rng.random_sample(X.shape) < 0.02] = np.nan  # some batches have no NaN

    def fit():
        return LayeredGMClassifier(
            max_iter=3, solver=Adam(batch_size=5), random_state=0, **MANY_STATES, **options
        ).fit(X, y)

    rows, arrays = by_rows_and_all(monkeypatch, fit)
    assert late(rows)
    for a, b in zip(weights(rows), weights(arrays), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_batches_that_read_most_rows_move_all(monkeypatch):
    monkeypatch.setattr("skcrbm.inference.layered.network.ROW_SPARSE_WEIGHTS", 0)
    rng = np.random.RandomState(0)
    X = sparse.random(60, 40, density=0.3, format="csr", random_state=rng)
    model = LayeredGMClassifier(max_iter=2, random_state=0, early_stopping=False)
    y = rng.randint(2, size=60)
    assert late(model.set_params(solver=Adam(batch_size=1)).fit(X, y))
    assert not late(model.set_params(solver__batch_size=20).fit(X, y))


def test_divergence_by_rows(monkeypatch):
    def fit():
        with pytest.raises(FloatingPointError, match="diverged"):
            LayeredGMClassifier(
                max_iter=4,
                solver=Adam(learning_rate=1e20, batch_size=2),
                random_state=0,
                **MANY_STATES,
            ).fit(X, y)

    rng = np.random.RandomState(0)
    X, y = rng.random_sample((100, 6)).astype(np.float32), rng.randint(2, size=100)
    by_rows_and_all(monkeypatch, fit)


def test_interrupted_by_rows_goes_on_from_what_is_kept(monkeypatch):
    rng = np.random.RandomState(0)
    X, y = rng.random_sample((100, 6)), rng.randint(2, size=100)

    def fit():
        model = LayeredGMClassifier(
            max_iter=5,
            solver=Adam(batch_size=5),
            random_state=0,
            early_stopping=False,
            **MANY_STATES,
        )
        step, visits = TruncatedLikelihood.step, []

        def interrupt(self, *arguments):
            visits.append(None)
            if len(visits) == 33:  # in the middle of the second epoch
                raise KeyboardInterrupt
            return step(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(TruncatedLikelihood, "step", interrupt)
            with pytest.warns(match="interrupted"):
                model.fit(X, y)
        return model.partial_fit(X, y)

    rows, arrays = by_rows_and_all(monkeypatch, fit)
    assert late(rows)
    assert len(pickle.dumps(rows)) < 1.1 * len(pickle.dumps(arrays))
    for a, b in zip(weights(rows), weights(arrays), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


# ------------------------------------------------------------ options as objects


def test_names_stand_for_objects(data):
    X, y = data
    names = quick(clamping="hard", inference="sum_product", learning="analytic").fit(X, y)
    objects = quick(
        clamping=HardClamping(), inference=TruncatedInference("sum_product"), learning="analytic"
    ).fit(X, y)
    np.testing.assert_array_equal(names.predict_proba(X), objects.predict_proba(X))


def test_options_are_cloned_printed_pickled_and_set(data):
    X, y = data
    model = quick(clamping=HardClamping([0.3, 0.6]), inference=TruncatedInference(n_iter=3))
    copy = pickle.loads(pickle.dumps(clone(model)))
    assert repr(copy.inference) == "TruncatedInference(n_iter=3)"
    assert repr(copy.clamping) == "HardClamping(thresholds=[0.3, 0.6])"
    np.testing.assert_array_equal(copy.fit(X, y).predict_proba(X), model.fit(X, y).predict_proba(X))
    # Prediction goes on with the inference of the fit.
    before = model.predict_proba(X)
    model.set_params(inference__n_iter=7, inference__method="mean_field")
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.fit(X, y).n_inference_iter_ == 7
