"""Sparse matrices in every form that SciPy allows: duplicate entries, any order, stored zeros."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    DecodedClassifier,
    ImageCRBM,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.calibration import CalibratedMarginals
from skcrbm.density import RBM, IsingModel, LargeMarginMarkovNetwork, MarkovRandomField
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.learning import Adam
from skcrbm.metrics import masked_score
from skcrbm.model_selection import MultilabelStratifiedKFold

MODELS = {
    "crbm": CRBMClassifier(max_iter=20, random_state=0),
    "crbm_adam": CRBMClassifier(
        solver=Adam(batch_size=8), alpha=0.01, n_hidden=2, max_iter=3, random_state=0
    ),
    "images": ImageCRBM(n_hidden=2, alpha=0.05, max_iter=2, random_state=0),
    "mssvm": MSSVMCRBM(n_hidden=2, max_iter=3, random_state=0),
    "lmbm": LMBMClassifier(random_state=0),
    "lmbm_fixed": LMBMClassifier(C=1.0, random_state=0),
    "ssvm": SSVMClassifier(C=0.1, max_iter=20),
    "layered": LayeredGMClassifier(max_iter=2, random_state=0),
    "decoded": DecodedClassifier(CRBMClassifier(n_hidden=0, alpha=0.1, random_state=0)),
    "calibrated": CalibratedMarginals(LMBMClassifier(C=0.1, random_state=0), cv=2),
    "out_of_fold": OutOfBagLogOdds(LMBMClassifier(C=0.1, random_state=0), cv=2),
}


def messy(matrix, kind=sparse.csr_matrix):
    """Return an equal CSR matrix with entries in two halves, zeros, and columns in falling order.

    The halves differ, so that a consumer that overwrites instead of adding is wrong, too.
    """
    data, indices, indptr = [], [], [0]
    for row in sparse.csr_matrix(matrix).toarray():
        for column in reversed(range(len(row))):
            value = row[column]
            parts = [value * 0.25, 0.0, value * 0.75] if value else [0.0] * (column % 2)
            data += parts
            indices += [column] * len(parts)
        indptr.append(len(data))
    found = kind((np.array(data, matrix.dtype), indices, indptr), shape=matrix.shape)
    assert not found.has_canonical_format
    return found


def parts_of(matrix):
    return matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(80, 6, n_classes=4, random_state=0)
    X[X < 6] = 0.0
    return sparse.csr_matrix(X), Y


@pytest.mark.quick_cases(3)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The columns of X")
@pytest.mark.parametrize("name", MODELS)
def test_every_form_of_x_gives_the_same_model(data, name):
    X, Y = data
    given = messy(X)
    before = parts_of(given)
    answer = "transform" if name == "out_of_fold" else "predict_proba"
    if name == "ssvm":
        answer = "predict"
    expected, found = clone(MODELS[name]).fit(X, Y), clone(MODELS[name]).fit(given, Y)
    assert np.ptp(getattr(expected, answer)(X), axis=0).any()  # not the intercepts alone
    for model, rows in ((found, X), (found, given), (expected, given)):
        np.testing.assert_array_equal(getattr(model, answer)(rows), getattr(expected, answer)(X))
    for part, copy in zip(parts_of(given), before, strict=True):
        np.testing.assert_array_equal(part, copy)


@pytest.mark.filterwarnings("ignore:The columns of X")
@pytest.mark.parametrize("name", ["crbm_adam", "images", "mssvm", "layered"])
def test_partial_fit(data, name):
    X, Y = data
    expected, found = clone(MODELS[name]), clone(MODELS[name])
    for part in (slice(0, 40), slice(40, 80)):
        expected.partial_fit(X[part], Y[part])
        found.partial_fit(messy(X[part]), Y[part])
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


@pytest.mark.filterwarnings("ignore:The columns of X")
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, bool])
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_entries_are_added_after_the_conversion_to_floats(dtype, kind):
    entries = (np.ones(4, dtype), [0, 0, 1, 1], [0, 2, 4]), (2, 2)
    X = kind(entries[0], shape=entries[1])
    if dtype is np.uint8:
        X.data[:] = 200  # the sum does not fit
    Y = np.array([[0, 1], [1, 0]])
    model = CRBMClassifier(n_hidden=0, alpha=0.1).fit(X, Y)
    dense = np.diag([2.0, 2.0]) * float(X.data[0])
    dense = dense.astype(np.float32) if dtype is np.float32 else dense
    np.testing.assert_array_equal(
        model.predict_proba(X), model.predict_proba(sparse.csr_matrix(dense))
    )


def test_a_sum_that_overflows_is_refused():
    X = sparse.csr_matrix((np.full(3, 1e308), [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    with pytest.raises(ValueError, match="X contains infinity"):
        CRBMClassifier(n_hidden=0).fit(X, [[0, 1], [1, 0]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        RBM(2, max_iter=2, random_state=0),
        IsingModel(max_iter=2, random_state=0),
        MarkovRandomField(max_iter=2, random_state=0),
        LargeMarginMarkovNetwork(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_densities(data, model):
    X = sparse.csr_matrix(data[1].astype(float))
    given = messy(X)
    expected, found = clone(model).fit(X), clone(model).fit(given)
    for rows in (X, given):
        np.testing.assert_array_equal(found.score_samples(rows), expected.score_samples(X))


@pytest.mark.quick_cases(2)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The columns of X")
@pytest.mark.parametrize("name", MODELS)
def test_every_form_of_y_gives_the_same_model(data, name):
    X, Y = data
    given = messy(sparse.csr_matrix(Y.astype(float)))
    before = parts_of(given)
    answer = "transform" if name == "out_of_fold" else "predict"
    expected, found = clone(MODELS[name]).fit(X, Y), clone(MODELS[name]).fit(X, given)
    np.testing.assert_array_equal(getattr(found, answer)(X), getattr(expected, answer)(X))
    if name != "out_of_fold":
        assert found.score(X, given) == expected.score(X, Y)
    for part, copy in zip(parts_of(given), before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_every_form_of_y_gives_the_same_folds_and_scores(data):
    Y = data[1].astype(float)
    given = messy(sparse.csr_matrix(Y))
    before = parts_of(given)
    for form in (given, given.tocsc(), given.tocoo()):
        folds = MultilabelStratifiedKFold(3).split(Y, form)
        for (_, found), (_, expected) in zip(
            folds, MultilabelStratifiedKFold(3).split(Y, Y), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
        assert masked_score("accuracy", form, y_pred=form) == 1.0
    for part, copy in zip(parts_of(given), before, strict=True):
        np.testing.assert_array_equal(part, copy)
    twice = sparse.csc_matrix(([1.0, 1.0, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    with pytest.raises(ValueError, match="y must be a 0/1 indicator matrix"):
        next(MultilabelStratifiedKFold(2).split(Y[:2], twice))


@pytest.mark.filterwarnings("ignore:The columns of X")
def test_a_classifier_of_scikit_learn_gets_a_sparse_x_as_it_is(data):
    X, Y = data
    model = DecodedClassifier(OneVsRestClassifier(MultinomialNB()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected, found = clone(model).fit(X, Y), clone(model).fit(messy(X), Y)
    np.testing.assert_allclose(found.predict_proba(messy(X)), expected.predict_proba(X))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("model", "density"),
    [
        (CRBMClassifier(random_state=0), 0.02),
        (CRBMClassifier(n_hidden=0, decode="threshold", random_state=0), 0.3),
        (CRBMClassifier(n_hidden=2, alpha=1e-3, max_iter=20, random_state=0), 0.02),
        (LMBMClassifier(random_state=0), 0.02),
        (LMBMClassifier(cliques=3, random_state=0), 0.3),
        (CRBMClassifier(solver="adam", max_iter=5, random_state=0), 0.02),
        (CRBMClassifier(solver="asgd", max_iter=5, random_state=0), 0.3),
        (MSSVMCRBM(n_hidden=2, max_iter=20, random_state=0), 0.02),
        (MSSVMCRBM(solver="asgd", max_iter=5, random_state=0), 0.3),
        (MSSVMCRBM(n_hidden=2, alpha=0.1, max_iter=20, random_state=0), 0.3),
        (ImageCRBM(n_hidden=2, max_iter=5, random_state=0), 0.02),
    ],
    ids=[
        "crbm",
        "crbm_threshold",
        "crbm_fixed",
        "lmbm",
        "lmbm_pairs",
        "crbm_adam",
        "crbm_asgd",
        "mssvm",
        "mssvm_asgd",
        "mssvm_fixed",
        "images",
    ],
)
def test_dense_and_sparse_fits_are_equal(model, density):
    """The storage of X does not decide about scales, shifts or the penalty."""
    rng = np.random.default_rng(0)
    X = sparse.random(200, 150, density, format="csr", random_state=1)
    X.data *= rng.uniform(0.2, 3.0, 150)[X.indices]
    Y = (X @ rng.normal(size=(150, 4)) + rng.normal(scale=0.3, size=(200, 4)) > 0.3).astype(int)
    dense = clone(model).fit(X.toarray(), Y)
    found = clone(model).fit(X, Y)
    np.testing.assert_array_equal(found.visible_coef_, dense.visible_coef_)
    proba = [m.predict_proba(x) for m in (found, dense) for x in (X, X.toarray())]
    for p in proba[1:]:
        np.testing.assert_allclose(p, proba[0], atol=1e-9)
    np.testing.assert_array_equal(found.predict(X), dense.predict(X.toarray()))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("name", ["crbm", "lmbm"])
def test_a_filled_column_far_from_0_among_zeros(name, kind):
    """The origin of a column such as a year does not matter, also beside many columns of zeros."""
    rng = np.random.default_rng(0)
    city, year = np.eye(30)[rng.integers(0, 30, 300)], rng.normal(2000, 5, 300)
    Y = np.column_stack([year > 2000, year > 1997]).astype(int)
    model = {"crbm": CRBMClassifier(n_hidden=0, random_state=0), "lmbm": MODELS["lmbm"]}[name]
    X = kind(np.column_stack([city, year]))
    assert (clone(model).fit(X, Y).predict(X) == Y).mean() > 0.95


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["lmbm", "crbm"])
def test_units_of_numbers_beside_words_do_not_matter(name):
    """Numbers such as a change of price have their own scale; dense and sparse fits are equal."""
    rng = np.random.default_rng(0)
    words = sparse.random(200, 150, 0.02, format="csr", random_state=1)
    numbers = rng.normal(size=(200, 2))
    scores = numbers + 2 * (words @ rng.normal(size=(150, 2)))
    Y = (scores + 0.5 * rng.normal(size=(200, 2)) > 0).astype(int)
    model = {"crbm": CRBMClassifier(n_hidden=1, random_state=0), "lmbm": MODELS["lmbm"]}[name]
    proba = []
    for kind, units in ((sparse.csr_matrix, [1, 1]), (np.asarray, [1e-3, 1e3])):
        X = kind(sparse.hstack([words, sparse.csr_matrix(numbers * units)]).toarray())
        proba.append(clone(model).fit(X, Y).predict_proba(X))
    np.testing.assert_allclose(proba[1], proba[0], atol=1e-6)
