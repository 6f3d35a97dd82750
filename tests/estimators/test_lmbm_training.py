"""Dual coordinate descent against the quadratic program, LIBLINEAR and its own gap."""

import numpy as np
import pytest
from conftest import JIT_DISABLED
from scipy import sparse
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from skcrbm.learning.large_margin import dual_coordinate as _dual_coordinate
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem, fit_large_margin


def random_problem(seed=0, n=40, d=5, n_labels=4, missing=0.0, penalty=2.0, kind=np.asarray):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    signs = np.sign(X[:, :n_labels] + rng.normal(size=(n, n_labels)))
    signs[:, -1] = np.where(rng.random(n) < 0.7, signs[:, 0], signs[:, -1])
    signs[rng.random(signs.shape) < missing] = 0.0
    limit = rng.uniform(0.05, 1.0, size=signs.shape)
    return LargeMarginProblem(kind(X), signs, limit, 1.3, penalty)


def fit(problem, tol=1e-8, max_iter=100_000, seed=0, **options):
    rng = np.random.RandomState(seed)
    return fit_large_margin(problem, tol=tol, max_iter=max_iter, rng=rng, **options)


def objective(problem, fitted):
    weights = fitted.coef, fitted.intercept, fitted.pairwise
    return problem.certificate(fitted.dual, weights)[0]


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_the_violation_is_what_tol_limits(tol):
    problem = random_problem(3)
    for margin in (1.0, 5.0):
        problem.margin = margin
        last = []
        fitted = fit(problem, tol=tol, on_pass_end=lambda *values, last=last: last.append(values))
        assert fitted.reason == "tol"
        assert fitted.violation <= 3 * tol  # a pass changes variables while it measures
        short = fit(problem, tol=tol, max_iter=2)
        assert short.violation > tol


@pytest.mark.parametrize("kind", [np.float32, np.asarray, sparse.csr_matrix])
def test_sums_over_blocks_of_rows(monkeypatch, kind):
    problem = random_problem(4, missing=0.2, kind=kind)
    limit = problem.limits()
    assert (limit == 0).sum() == (problem.signs == 0).sum() > 0
    dual = np.random.RandomState(0).random_sample(limit.shape) * limit
    dual[::3] = limit[::3]

    def sums():
        weights = problem.weights(dual)
        return [*weights, *problem.certificate(dual, weights)]

    whole, fitted = sums(), fit(problem)
    monkeypatch.setattr(_dual_coordinate, "BLOCK_ENTRIES", 70)
    assert len(problem.chunks()) > 5
    for part, expected in zip(sums(), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-13)
    again = fit(problem)
    assert again.n_iter == fitted.n_iter
    np.testing.assert_allclose(again.coef, fitted.coef, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_couplings_of_rare_labels(monkeypatch, kind):
    """Sums over the few labels of a row, instead of all pairs, make the same steps."""
    n_labels = 17 if JIT_DISABLED else 66
    monkeypatch.setattr(_dual_coordinate, "_MANY_LABELS", n_labels)
    problem = random_problem(
        2, n=60, d=n_labels, n_labels=n_labels, missing=0.02, penalty=20.0, kind=kind
    )
    problem.signs[np.random.default_rng(0).random(problem.signs.shape) < 0.9] = -1
    steps = []
    newton_step = _dual_coordinate.NewtonSteps.step
    monkeypatch.setattr(
        _dual_coordinate.NewtonSteps,
        "step",
        lambda *given, **options: steps.append(None) or newton_step(*given, **options),
    )
    monkeypatch.setattr(_dual_coordinate, "_FIRST_NEWTON", 4)
    fits = []
    for share in (0.125, 0.0):
        monkeypatch.setattr(_dual_coordinate, "_RARE_SHARE", share)
        assert _dual_coordinate._labels_are_rare(problem) == (share > 0)
        fits += [fit(problem, tol=1e-6, max_iter=3), fit(problem, tol=1e-6)]
    assert steps
    for one, other in zip(fits[:2], fits[2:]):
        assert one.n_iter == other.n_iter
        for name in ("coef", "intercept", "pairwise", "dual", "gap"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), atol=1e-8, err_msg=name
            )
    again = fit(problem, tol=1e-6, dual=fits[3].dual.copy())
    assert again.n_iter < fits[3].n_iter


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_one_bound_for_all_labels_of_a_row(kind):
    each = random_problem(4, missing=0.2, kind=kind)
    each.limit[:] = each.limit[:, :1]
    shared = LargeMarginProblem(each.X, each.signs, each.limit[:, :1], each.margin, each.penalty)
    fitted, expected = fit(shared), fit(each)
    assert fitted.n_iter == expected.n_iter
    for name in ("coef", "intercept", "pairwise", "dual", "gap", "violation"):
        np.testing.assert_array_equal(getattr(fitted, name), getattr(expected, name), name)
    again = fit(shared, dual=2 * fitted.dual)  # brought below the bound
    np.testing.assert_allclose(again.coef, fitted.coef, rtol=1e-6, atol=1e-9)


def test_blocks_of_sparse_rows_are_bounded_by_what_they_hold(monkeypatch):
    X = sparse.csr_matrix(np.ones((100, 50)))
    signs = np.ones((100, 2))
    problem = LargeMarginProblem(X, signs, signs, 1.0, 1.0)
    monkeypatch.setattr(_dual_coordinate, "BLOCK_ENTRIES", 600)
    assert max(X[rows].nnz for rows in problem.chunks()) <= 600


def naive_objectives(problem, fitted):
    """Primal and dual with loops, from the formulas."""
    X, y = np.asarray(problem.X), problem.signs
    (n, n_labels), d = y.shape, X.shape[1]
    a, b, s = np.zeros((n_labels, d)), np.zeros(n_labels), np.zeros((n_labels, n_labels))
    for r in range(n):
        for i in range(n_labels):
            step = fitted.dual[r, i] * y[r, i]
            a[i] += step * X[r]
            b[i] += step
            for k in range(n_labels):
                if k != i:
                    s[i, k] += step * y[r, k] / problem.penalty
                    s[k, i] += step * y[r, k] / problem.penalty
    pairs = sum(s[i, k] ** 2 for i in range(n_labels) for k in range(i))
    norm = 0.5 * (a**2).sum() + 0.5 * (b**2).sum() + 0.5 * problem.penalty * pairs
    loss = 0.0
    for r in range(n):
        for i in range(n_labels):
            if y[r, i] != 0:
                field = a[i] @ X[r] + b[i] + sum(s[i, k] * y[r, k] for k in range(n_labels))
                loss += problem.limit[r, i] * max(problem.margin - y[r, i] * field, 0.0)
    return (a, b, s), norm + loss, problem.margin * fitted.dual.sum() - norm


@pytest.mark.parametrize("penalty", [0.5, 1.0, 30.0])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_gap_closes(penalty, missing):
    problem = random_problem(1, penalty=penalty, missing=missing)
    rough = fit(problem, max_iter=5)
    fitted = fit(problem)
    assert fitted.reason == "tol"
    weights, primal, dual = naive_objectives(problem, fitted)
    for mine, expected in zip((fitted.coef, fitted.intercept, fitted.pairwise), weights):
        np.testing.assert_allclose(mine, expected, atol=1e-10)
    assert fitted.gap == pytest.approx((primal - dual) / primal, abs=1e-12)
    assert abs(fitted.gap) < 1e-10 < 1e-6 < rough.gap < 0.5
    assert rough.n_iter < fitted.n_iter
    np.testing.assert_array_equal(fitted.pairwise, fitted.pairwise.T)
    np.testing.assert_array_equal(np.diag(fitted.pairwise), 0)
    assert (fitted.dual >= 0).all()
    assert (fitted.dual <= problem.limit).all()
    assert (fitted.dual[problem.signs == 0] == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_quadratic_program(seed):
    """The fit reaches the primal minimum of a general solver with slack variables."""
    problem = random_problem(seed, n=10, d=3, n_labels=3, missing=0.2 * seed)
    X, y = problem.X, problem.signs
    n_labels, d = 3, X.shape[1]
    size = n_labels * (d + 1)
    upper = np.triu_indices(n_labels, 1)

    def split(v):
        s = np.zeros((n_labels, n_labels))
        s[upper] = v[size : size + 3]
        ab = v[:size].reshape(n_labels, d + 1)
        return ab[:, :d], ab[:, d], s + s.T, v[size + 3 :].reshape(y.shape)

    def value(v):
        a, b, s, slack = split(v)
        norm = (a**2).sum() + (b**2).sum() + problem.penalty * (s**2).sum() / 2
        return 0.5 * norm + (problem.limit * slack).sum()

    def margins(v):
        a, b, s, slack = split(v)
        m = y * (X @ a.T + b + y @ s)
        return (slack + m - problem.margin)[y != 0]

    start = np.concatenate([np.zeros(size + 3), np.full(y.size, problem.margin)])
    bounds = [(None, None)] * (size + 3) + [(0, None)] * y.size
    found = minimize(
        value,
        start,
        method="SLSQP",
        bounds=bounds,
        constraints={"type": "ineq", "fun": margins},
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    fitted = fit(problem, tol=1e-10)
    primal = objective(problem, fitted)
    assert primal == pytest.approx(found.fun, rel=1e-6)
    assert primal <= found.fun * (1 + 1e-9)
    a, _, s, _ = split(found.x)
    np.testing.assert_allclose(fitted.coef, a, atol=1e-3)
    np.testing.assert_allclose(fitted.pairwise, s, atol=1e-3)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_without_pairs_it_is_one_linear_svm_per_label(kind):
    problem = random_problem(3, n=80, penalty=np.inf, kind=kind)
    fitted = fit(problem)
    np.testing.assert_array_equal(fitted.pairwise, 0)
    for i in range(4):
        svm = LinearSVC(loss="hinge", C=1.0, tol=1e-10, max_iter=1_000_000, random_state=0)
        # LIBLINEAR's margin is 1: weights scale with gamma, weights of rows by 1 / gamma.
        weight = problem.limit[:, i] / problem.margin
        svm.fit(problem.X, problem.signs[:, i], sample_weight=weight)
        np.testing.assert_allclose(fitted.coef[i], problem.margin * svm.coef_[0], atol=1e-6)
        np.testing.assert_allclose(fitted.intercept[i], problem.margin * svm.intercept_, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("penalty", [1.0, np.inf])
def test_sparse_equals_dense(dtype, penalty):
    dense = random_problem(4, penalty=penalty, missing=0.1)
    dense.X = dense.X.astype(dtype)
    csr = LargeMarginProblem(
        sparse.csr_matrix(dense.X), dense.signs, dense.limit, dense.margin, penalty
    )
    for tol, atol in ((1e-3, 1e-7), (1e-9, 1e-7)):
        mine, other = fit(dense, tol), fit(csr, tol)
        np.testing.assert_allclose(mine.coef, other.coef, atol=atol)
        np.testing.assert_allclose(mine.pairwise, other.pairwise, atol=atol)
        np.testing.assert_allclose(mine.intercept, other.intercept, atol=atol)


def test_rows_with_weights_and_missing_labels():
    """U counts copies of a row; labels that are not observed are left out."""
    problem = random_problem(5, missing=0.2)
    copies = np.random.default_rng(0).integers(1, 4, 40)
    weighted = LargeMarginProblem(
        problem.X, problem.signs, 0.1 * np.repeat(copies[:, None], 4, 1), 1.0, 2.0
    )
    index = np.repeat(np.arange(40), copies)
    repeated = LargeMarginProblem(
        problem.X[index], problem.signs[index], np.full((len(index), 4), 0.1), 1.0, 2.0
    )
    mine, other = fit(weighted), fit(repeated)
    np.testing.assert_allclose(mine.coef, other.coef, atol=1e-6)
    np.testing.assert_allclose(mine.pairwise, other.pairwise, atol=1e-6)
    # A label that is never observed leaves the others to themselves.
    signs = problem.signs.copy()
    signs[:, 2] = 0
    rest = [0, 1, 3]
    with_it = fit(LargeMarginProblem(problem.X, signs, problem.limit, 1.0, 2.0))
    without = fit(LargeMarginProblem(problem.X, signs[:, rest], problem.limit[:, rest], 1.0, 2.0))
    np.testing.assert_allclose(with_it.coef[rest], without.coef, atol=1e-6)
    np.testing.assert_allclose(with_it.pairwise[np.ix_(rest, rest)], without.pairwise, atol=1e-6)
    np.testing.assert_array_equal(with_it.coef[2], 0)
    np.testing.assert_array_equal(with_it.pairwise[2], 0)


def test_warm_start_and_reproducibility():
    problem = random_problem(6, n=200)
    first = fit(problem, tol=1e-4)
    again = fit(problem, tol=1e-4)
    np.testing.assert_array_equal(first.dual, again.dual)
    resumed = fit(problem, tol=1e-4, dual=first.dual)
    assert resumed.n_iter < first.n_iter / 2
    other = LargeMarginProblem(problem.X, problem.signs, problem.limit / 2, 1.3, 2.0)
    np.testing.assert_allclose(fit(other, dual=first.dual).coef, fit(other).coef, atol=1e-6)


def test_limits_of_the_run():
    problem = random_problem(7)
    seen = []
    short = fit(problem, max_iter=3, on_pass_end=lambda *values: seen.append(values))
    assert (short.n_iter, short.reason) == (3, "max_iter")
    assert [number for number, *_ in seen] == [0, 1, 2]
    assert seen[-1][-1]().reason == "callback"
    assert short.gap > 0

    def interrupt(number, *_):
        if number == 1:
            raise KeyboardInterrupt

    assert fit(problem, on_pass_end=interrupt).reason == "interrupted"
    stopped = fit(problem, on_pass_end=lambda number, *_: number == 1)
    assert (stopped.n_iter, stopped.reason) == (2, "callback")
    np.testing.assert_array_equal(stopped.dual, fit(problem, max_iter=2).dual)
    nothing = LargeMarginProblem(problem.X, problem.signs, 0 * problem.limit, 1.0, 1.0)
    fitted = fit(nothing)
    assert (fitted.n_iter, fitted.reason, fitted.gap) == (0, "tol", 0.0)
    np.testing.assert_array_equal(fitted.coef, 0)


@pytest.mark.parametrize(
    ("x", "first", "second"),
    [
        ([1, 1, 1, 1], "-++-", "+-+-"),
        ([2, 1, 1, 0], "--++", "++++"),
        ([-1, -1, 3, 0], "---+", "+---"),
    ],
)
def test_no_variable_lies_between_its_bounds_when_newton_steps_begin(x, first, second):
    """All variables are at their bounds if the bounds are too low to satisfy the margins."""
    X = np.reshape(np.array(x, dtype=float), (-1, 1))
    signs = np.array([[1.0 if c == "+" else -1.0 for c in text] for text in (first, second)]).T
    fitted = fit(LargeMarginProblem(X, signs, np.full(signs.shape, 0.01), 1.0, 1e-4))
    assert fitted.gap < 1e-12
    assert fitted.n_iter > 60  # Newton steps begin there


def test_a_single_row():
    """With a single row, the projected gradient is compared with 0."""
    problem = random_problem(8, n=1)
    fitted = fit(problem)
    assert fitted.gap < 1e-12 < fit(problem, max_iter=1).gap


def test_limits_far_above_the_solution():
    """Rounding is measured by the variables, not by their bounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    signs = np.where(X[:, :2] > 0, 1.0, -1.0)
    fits = [
        fit(LargeMarginProblem(X, signs, np.full(signs.shape, limit), 1.0, 10.0), tol=1e-6)
        for limit in (1e4, 1e18)
    ]
    assert fits[0].dual.max() < 1e4
    np.testing.assert_allclose(fits[1].coef, fits[0].coef, rtol=1e-5)


def test_large_float32():
    """Values of 1e20 are accepted, although their squares overflow float32."""
    problem = random_problem(9)
    single = LargeMarginProblem(
        (1e20 * problem.X).astype(np.float32), problem.signs, 1e-40 * problem.limit, 1.3, 2.0
    )
    double = LargeMarginProblem(single.X.astype(np.float64), problem.signs, single.limit, 1.3, 2.0)
    np.testing.assert_allclose(fit(single).coef, fit(double).coef, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e155, 1e200])
def test_overflow(scale):
    problem = random_problem(10)
    problem.X = scale * problem.X
    with pytest.raises(ValueError, match="training overflowed"):
        fit(problem)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    ("n_labels", "penalty"),
    [(6, 30.0), (6, np.inf), pytest.param(46, 300.0, marks=pytest.mark.compiled)],
)
def test_few_passes_are_enough_where_columns_and_labels_depend_on_each_other(
    n_labels, penalty, kind
):
    """By passes alone the gap is above 2e-3; 46 labels have too many pairs for one system."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12)) * np.geomspace(1, 0.05, 12)
    fields = X @ rng.normal(size=(12, n_labels)) + 0.5 * rng.normal(size=(200, n_labels))
    signs = np.where(fields + rng.normal(size=(200, 1)) > 0, 1.0, -1.0)
    problem = LargeMarginProblem(kind(X), signs, np.full(signs.shape, 10.0), 1.0, penalty)
    fitted = fit(problem, tol=1e-3, max_iter=300)
    assert fitted.gap < 5e-4
    # One pass at a time, as with callbacks: the same bits.
    looked_at = fit(problem, tol=1e-3, max_iter=300, on_pass_end=lambda *values: False)
    np.testing.assert_array_equal(looked_at.dual, fitted.dual)
