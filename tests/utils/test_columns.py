"""Columns on one scale: scaled columns, and coefficients in the original units."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from skcrbm import MSSVMCRBM, CRBMClassifier, ImageCRBM
from skcrbm.utils import columns
from skcrbm.utils.columns import Columns, LazyRows, in_faster_storage

KINDS = (np.asarray, sparse.csr_matrix)


def make_columns():
    """Two-valued, normal, constant, two-valued with a large offset, few that are not 0."""
    rng = np.random.default_rng(0)
    some = np.where(rng.random(40) < 0.2, rng.normal(size=40), 0.0)
    return np.column_stack(
        [
            rng.integers(0, 2, 40) * 5.0,
            rng.normal(3.0, 0.1, 40),
            np.full(40, 0.1),
            1e4 + rng.integers(0, 2, 40),
            some,
        ]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scales(dtype):
    X = make_columns().astype(dtype)
    columns = Columns(X, np.ones(40))
    Z = columns.transform(X)
    for d in (0, 3):
        np.testing.assert_array_equal(Z[:, d], X[:, d] > X[:, d].min())
    for d in (1, 4):
        np.testing.assert_allclose([Z[:, d].mean(), Z[:, d].std()], [0.0, 0.5], atol=1e-5)
    np.testing.assert_array_equal(Z[:, 2], 0)
    assert columns.variance == pytest.approx(Z.var(axis=0).sum())


def test_units_do_not_matter():
    X = make_columns()
    moved = X * [1e-3, 7.0, 2.0, 1.0, 1e200] + [4.0, 0.0, 1.0, 1e3, 0.0]
    np.testing.assert_allclose(
        Columns(moved, np.ones(40)).transform(moved),
        Columns(X, np.ones(40)).transform(X),
        atol=1e-9,
    )


def test_sparse_columns_keep_their_zeros_and_ratios():
    """The median scale becomes 1; a column in other units comes within a factor of 8."""
    rng = np.random.default_rng(0)
    X = (rng.random((40, 6)) < 0.3) * [1.0, 0.1, 0.4, 2.0, 3e180, 0.0]
    X[0] = [1.0, 0.1, 0.4, 2.0, 3e180, 0.0]
    columns = Columns(sparse.csr_matrix(X), np.ones(40))
    Z = columns.transform(sparse.csr_matrix(X))
    assert sparse.issparse(Z)
    np.testing.assert_allclose(Z.toarray()[0], [1.0, 1 / 8, 0.4, 2.0, 8.0, 0.0])
    np.testing.assert_array_equal(Z.toarray() != 0, X != 0)
    assert columns.variance == pytest.approx(Z.toarray().var(axis=0).sum())
    dense = rng.normal(size=(40, 1))  # a sparse matrix without zeros
    Z = Columns(sparse.csr_matrix(dense), np.ones(40)).transform(sparse.csr_matrix(dense))
    assert Z.toarray().std() == pytest.approx(0.5)


@pytest.mark.parametrize(("density", "stored"), [(0.05, sparse.csr_matrix), (0.3, np.ndarray)])
def test_storage_depends_on_the_values_alone(density, stored):
    X = sparse.random(200, 50, density, format="csr", random_state=0)
    untidy = X.copy()
    untidy.data[::3] = 0.0  # stored zeros, and indices in another order
    X = untidy.copy()
    X.eliminate_zeros()
    for row in range(200):
        part = slice(untidy.indptr[row], untidy.indptr[row + 1])
        untidy.indices[part] = untidy.indices[part][::-1].copy()
        untidy.data[part] = untidy.data[part][::-1].copy()
    untidy.has_sorted_indices = False
    before = untidy.indices.copy()
    found = [in_faster_storage(x) for x in (X, untidy, X.toarray())]
    assert all(isinstance(x, stored) for x in found)
    for x in found[1:]:
        if stored is np.ndarray:
            np.testing.assert_array_equal(x, found[0])
        else:
            for name in ("data", "indices", "indptr"):
                np.testing.assert_array_equal(getattr(x, name), getattr(found[0], name))
    np.testing.assert_array_equal(untidy.indices, before)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_weights_are_copies(kind):
    X = make_columns()
    weight = np.random.default_rng(1).integers(1, 4, 40)
    one, other = (
        Columns(kind(rows), w.astype(float))
        for rows, w in ((X, weight), (np.repeat(X, weight, axis=0), np.ones(weight.sum())))
    )
    np.testing.assert_allclose(one.factor, other.factor)
    np.testing.assert_allclose(one.shift, other.shift)
    assert one.variance == pytest.approx(other.variance)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_coefficients_for_the_columns_as_given(kind):
    X = make_columns()
    columns = Columns(kind(X), np.ones(40))
    rng = np.random.default_rng(2)
    inside, b = rng.normal(size=(3, 5)), rng.normal(size=3)
    coef, intercept = columns.as_given(inside, b)
    np.testing.assert_allclose(
        X @ coef.T + intercept, columns.transform(kind(X)) @ inside.T + b, atol=1e-8
    )


def test_lazy_rows_of_rows():
    X = make_columns()
    columns = Columns(X, np.ones(40))
    rows, Z = LazyRows(X, columns), columns.transform(X)
    chosen = np.array([7, 3, 30, 3])
    for index in (chosen, Z[:, 1] > 0, slice(5, 20)):
        assert rows[index].shape == Z[index].shape
        np.testing.assert_array_equal(np.asarray(rows[index]), Z[index])
    np.testing.assert_array_equal(np.asarray(rows[chosen][1:][[2, 0]]), Z[[3, 3]])
    assert rows[chosen].X is X  # nothing is copied before it is asked for


def test_scales_do_not_depend_on_blocks(monkeypatch):
    X, weight = make_columns(), np.arange(1.0, 41.0)
    whole = Columns(X, weight)
    monkeypatch.setattr(columns, "BLOCK_ENTRIES", 15)
    parts = Columns(X, weight)
    for name in ("shift", "factor", "variance"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-13)


@pytest.mark.parametrize(("share", "value"), [(0.6, 1.0), (1.0, None)])
def test_a_word_of_most_texts_is_not_centred(share, value):
    """A frequent word keeps its zeros; a column far from 0 is scaled like a dense column."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 90)) < 0.02, rng.random((300, 90)), 0.0)
    weights = np.clip(rng.normal(0.25, 0.1, 300), 0.01, None) if value is None else value
    X[:, 7] = np.where(rng.random(300) < share, weights, 0.0)
    X[:, 8] = 1.0
    X[:, 9] = rng.normal(-2000.0, 5.0, 300)
    X[:5, 9] = 0.0
    X[:, 10] = rng.normal(0.0, 1.0, 300)
    X[:, 11] = rng.normal(1e4, 1.0, 300)
    X[:, 12] = rng.uniform(0.4, 0.6, 300)
    weight = rng.integers(1, 4, 300).astype(float)
    found = [in_faster_storage(kind(X)) for kind in KINDS]
    assert all(sparse.issparse(x) for x in found)
    columns = Columns(found[0], weight)
    np.testing.assert_array_equal(np.flatnonzero(columns.shift), [9, 11, 12])
    Z = columns.transform(found[0])
    assert sparse.issparse(Z)
    Z = Z.toarray()
    share = weight / weight.sum()
    for column in (9, 10, 11):
        assert np.sqrt(share @ (Z[:, column] - share @ Z[:, column]) ** 2) == pytest.approx(0.5)
    np.testing.assert_allclose(share @ Z[:, [9, 11, 12]], 0, atol=1e-6)
    np.testing.assert_array_equal((Z != 0)[:, [7, 10]], (X != 0)[:, [7, 10]])
    common = columns.factor[[0, 7, 12]]  # words, and a column that could be a word of all texts
    np.testing.assert_allclose(common, common[0])
    np.testing.assert_array_equal(Z[:, 8], 0)
    assert columns.variance == pytest.approx(share @ (Z - share @ Z) ** 2 @ np.ones(90), rel=1e-6)
    coef, intercept = columns.as_given(rng.normal(size=(3, 90)), np.zeros(3))
    inside, b = columns.inside(coef, intercept)
    np.testing.assert_allclose(X @ coef.T + intercept, Z @ inside.T + b, atol=1e-6)


@pytest.mark.parametrize("kind", ["crbm", "mssvm", "images"])
def test_large_memory_maps_are_not_copied(kind, tmp_path, monkeypatch):
    """A stochastic fit with a given penalty reads a memory-mapped X by batches, as documented."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 30)) < 0.05, rng.random((60, 30)), 0.0)
    Y = rng.integers(0, 2, (60, 4))
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", np.float64, "r", shape=X.shape)
    model = {
        "crbm": CRBMClassifier(alpha=0.01, solver="adam", max_iter=2, random_state=0),
        "mssvm": MSSVMCRBM(n_hidden=1, alpha=0.01, solver="adam", max_iter=2, random_state=0),
        "images": ImageCRBM(n_hidden=1, alpha=0.01, max_iter=2, random_state=0),
    }[kind]
    wanted = clone(model).fit(X, Y)
    monkeypatch.setattr(columns, "_MOST_MAPPED", 1000)
    copies = []
    monkeypatch.setattr(columns.sparse, "csr_matrix", lambda *given: copies.append(given))
    found = clone(model).fit(mapped, Y)
    assert not copies
    np.testing.assert_allclose(found.visible_coef_, wanted.visible_coef_, rtol=1e-9, atol=1e-12)


def test_a_heavy_row_does_not_fill_the_other_rows():
    """A shift fills the zeros of a column, so weights alone must not cause it."""
    X = sparse.random(200, 50, 0.05, format="lil", random_state=0)
    X[0] = 1 + np.random.default_rng(0).random(50)
    X, weight = X.tocsr(), np.ones(200)
    weight[0] = 1e4
    assert Columns(X, weight).transform(X).nnz == X.nnz
