"""LabelDependencyDisplay: drawn weights, their order, and refused arguments."""

import warnings

import matplotlib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from reference.brute_force import brute_force

from skcrbm import MSSVMCRBM, CRBMClassifier, LMBMClassifier
from skcrbm.inspection import LabelDependencyDisplay
from skcrbm.targets.kinds import make_targets


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


class Pairwise(BaseEstimator):
    """A stand-in for a fitted estimator with pairwise weights."""

    def __init__(self, coupling=None, classes=None):
        self.coupling = coupling
        self.classes = classes

    def fit(self):
        self.pairwise_coef_ = np.asarray(self.coupling, float)
        n_labels = len(self.pairwise_coef_)
        y = np.eye(n_labels) if self.classes is None else self.classes
        self._targets = make_targets(y)
        self.classes_ = self._targets.classes
        return self


def two_groups(n_labels=8):
    """Even labels attract each other, odd ones too, and the groups exclude each other."""
    parity = (-1.0) ** np.arange(n_labels)
    coupling = 0.5 * np.outer(parity, parity)
    np.fill_diagonal(coupling, 0)
    return coupling


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    common = rng.normal(size=(150, 1))  # labels 0 and 1 go together, 2 excludes them
    noise = rng.normal(size=(150, 3))
    y = (X[:, :3] + 2 * common * [1, 1, -1] + noise > 0).astype(int)
    model = CRBMClassifier(n_hidden=4, inference="exact", max_iter=300, random_state=0)
    return model.fit(X, y), X, y


def test_pairwise_weights_are_drawn_as_they_are():
    coupling = two_groups(5)
    display = LabelDependencyDisplay.from_estimator(Pairwise(coupling).fit(), order=None)
    drawn = display.image_.get_array()
    np.testing.assert_array_equal(display.order_, np.arange(5))
    np.testing.assert_array_equal(drawn.mask, np.eye(5, dtype=bool))
    np.testing.assert_array_equal(drawn.filled(0), coupling)
    assert display.image_.get_clim() == (-0.5, 0.5)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list("01234")
    assert display.colorbar_.ax.get_ylabel() == "pairwise weight"
    assert display.figure_ is display.ax_.figure


def test_labels_that_attract_each_other_are_neighbours():
    display = LabelDependencyDisplay.from_estimator(Pairwise(two_groups()).fit())
    parity = display.order_ % 2
    assert sorted(display.order_) == list(range(8))
    assert np.count_nonzero(np.diff(parity)) == 1
    names = [t.get_text() for t in display.ax_.get_xticklabels()]
    assert names == [str(i) for i in display.order_]


def test_options_of_the_picture():
    _, ax = plt.subplots()
    estimator = Pairwise(two_groups(3), classes=["a", "b", "c"]).fit()
    display = LabelDependencyDisplay.from_estimator(
        estimator, ax=ax, order=None, cmap="PiYG", colorbar=False, vmin=-2, vmax=2
    )
    assert display.ax_ is ax
    assert display.colorbar_ is None
    assert display.image_.get_clim() == (-2, 2)
    assert display.image_.get_cmap().name == "PiYG"
    assert display.label_names == ["a", "b", "c"]
    display = LabelDependencyDisplay.from_estimator(estimator, label_names=["x", "y", "z"])
    assert display.label_names == ["x", "y", "z"]


@pytest.mark.deep
@pytest.mark.parametrize("n_labels", [1, 2, 3, 101])
def test_any_number_of_labels(n_labels):
    display = LabelDependencyDisplay(np.zeros((n_labels, n_labels))).plot()
    low, high = display.image_.get_clim()
    assert low == -high < 0
    display.figure_.canvas.draw()


def log_odds_ratio(model, x, i, k, others):
    """Return the log-odds ratio of labels i and k given the others, by enumeration."""
    field = model.hidden_coef_ @ x + model.hidden_intercept_
    log_p = np.empty((2, 2))
    for a in (0, 1):
        for b in (0, 1):
            clamp = np.full(len(others) + len(field), np.nan)
            clamp[: len(others)] = others
            clamp[i], clamp[k] = a, b
            bias = np.zeros(len(others))  # cancels
            log_p[a, b] = brute_force(model.weights_, bias, field, clamp).log_partition
    return log_p[1, 1] - log_p[1, 0] - log_p[0, 1] + log_p[0, 0]


def test_weights_through_hidden_units(fitted):
    """Quarters of log odds-ratios: at x = 0 without others, or on average over rows of X."""
    model, X, _ = fitted
    display = LabelDependencyDisplay.from_estimator(model)
    with_rows = LabelDependencyDisplay.from_estimator(model, X[:6])
    predicted = model.predict(X[:6])
    for i in range(3):
        for k in range(i):
            plain = log_odds_ratio(model, np.zeros(4), i, k, np.zeros(3))
            rows = [log_odds_ratio(model, X[n], i, k, predicted[n]) for n in range(6)]
            for drawn, expected in ((display, plain), (with_rows, np.mean(rows))):
                np.testing.assert_allclose(drawn.dependency[i, k], expected / 4, atol=1e-10)
                assert drawn.dependency[i, k] == drawn.dependency[k, i]


def test_a_crbm_finds_what_goes_together(fitted):
    model, X, _ = fitted
    weights = LabelDependencyDisplay.from_estimator(model, X).dependency
    assert weights[0, 1] > 0.1
    assert max(weights[0, 2], weights[1, 2]) < -0.1


def test_sparse_rows_are_dense_rows(fitted):
    model, X, _ = fitted
    dense = LabelDependencyDisplay.from_estimator(model, X).dependency
    csr = LabelDependencyDisplay.from_estimator(model, sparse.csr_matrix(X)).dependency
    np.testing.assert_allclose(csr, dense, atol=1e-12)


def test_rows_of_a_table_are_rows(fitted):
    pd = pytest.importorskip("pandas")
    model, X, Y = fitted
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    named = clone(model).fit(table, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # that X has no feature names
        of_table = LabelDependencyDisplay.from_estimator(named, table).dependency
    dense = LabelDependencyDisplay.from_estimator(model, X).dependency
    np.testing.assert_array_equal(of_table, dense)


def test_hidden_units_that_are_maximised(fitted):
    """The second difference of max(0, .) in place of the softplus."""
    _, X, y = fitted
    model = MSSVMCRBM(hidden="max", inference="max_product", n_hidden=4, max_iter=20)
    model.set_params(random_state=0).fit(X, y)
    W, c = model.weights_, model.hidden_intercept_
    relu = [np.maximum(0, x).sum() for x in (c + W[0] + W[1], c, c + W[0], c + W[1])]
    weights = LabelDependencyDisplay.from_estimator(model).dependency
    np.testing.assert_allclose(weights[0, 1], (relu[0] + relu[1] - relu[2] - relu[3]) / 4)


def test_what_was_fitted_is_drawn_not_what_is_set(fitted):
    _, X, y = fitted
    model = MSSVMCRBM(n_hidden=4, max_iter=5, random_state=0).fit(X, y)
    for rows in (None, X[:5]):
        before = LabelDependencyDisplay.from_estimator(model, rows).dependency
        model.set_params(hidden="max")
        after = LabelDependencyDisplay.from_estimator(model, rows).dependency
        np.testing.assert_array_equal(after, before)
        model.set_params(hidden="marginal")
    assert model.hidden_ == "marginal"


def test_weights_of_a_large_margin_machine(fitted):
    _, X, y = fitted
    model = LMBMClassifier(C=0.1, pairwise_penalty=1.0, random_state=0).fit(X, y)
    display = LabelDependencyDisplay.from_estimator(model, X)
    np.testing.assert_array_equal(display.dependency, model.pairwise_coef_)
    assert display.dependency[0, 1] > 0 > display.dependency[0, 2]


def test_what_cannot_be_drawn(fitted):
    model, X, y = fitted
    with pytest.raises(NotFittedError):
        LabelDependencyDisplay.from_estimator(CRBMClassifier())
    with pytest.raises(ValueError, match=r"pairwise_coef_ or hidden units.*LogisticRegression"):
        LabelDependencyDisplay.from_estimator(LogisticRegression().fit(X, y[:, 0]))
    with pytest.raises(ValueError, match="fitted on 2-D y"):
        LabelDependencyDisplay.from_estimator(CRBMClassifier(max_iter=2).fit(X, y.sum(1)))
    with pytest.raises(ValueError, match="label_names must have 3 entries, got 2"):
        LabelDependencyDisplay.from_estimator(model, label_names=["a", "b"])
    with pytest.raises(ValueError, match="order must be 'auto' or None"):
        LabelDependencyDisplay.from_estimator(model, order="size")
    with pytest.raises(ValueError, match="features"):
        LabelDependencyDisplay.from_estimator(model, X[:, :2])
