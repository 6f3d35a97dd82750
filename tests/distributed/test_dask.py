"""With Dask: the same bits as in one process."""

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skcrbm import CRBMClassifier

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

rng = np.random.RandomState(0)
X = rng.standard_normal((120, 4))
Y = (X @ rng.standard_normal((4, 3)) + rng.standard_normal((120, 3)) > 0).astype(int)
MODEL = CRBMClassifier(n_hidden=2, alpha=0.01, solver="adam", max_iter=3, random_state=0)


@pytest.fixture(scope="module")
def client():
    """Two workers, which are threads: to start processes would take most of the time."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    with (
        distributed.LocalCluster(**options, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_grid_search_on_the_cluster(client):
    def search(n_jobs):
        return GridSearchCV(MODEL, {"alpha": [0.01, 1.0]}, cv=2, n_jobs=n_jobs).fit(X, Y)

    here = search(n_jobs=1)
    with joblib.parallel_config(backend="dask"):
        there = search(n_jobs=-1)
    scores = "mean_test_score"
    np.testing.assert_array_equal(there.cv_results_[scores], here.cv_results_[scores])
    assert len(set(here.cv_results_[scores])) == 2
    assert there.best_params_ == here.best_params_
    np.testing.assert_array_equal(
        there.best_estimator_.visible_coef_, here.best_estimator_.visible_coef_
    )


def test_an_array_of_sparse_blocks(client):
    """It is put together as a sparse matrix, in `fit` and in prediction."""
    rows = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
    blocks = da.from_array(rows.toarray(), chunks=(50, -1)).map_blocks(sparse.csr_matrix)
    here, there = clone(MODEL).fit(rows, Y), clone(MODEL).fit(blocks, Y)
    np.testing.assert_array_equal(here.visible_coef_, there.visible_coef_)
    np.testing.assert_array_equal(here.predict_proba(rows), there.predict_proba(blocks))


def test_a_data_frame(client):
    """Dask's data frames are computed; a column named "compute" is a column."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["memory", "compute", "disk", "network"])
    here = clone(MODEL).fit(frame, Y)
    np.testing.assert_array_equal(here.visible_coef_, clone(MODEL).fit(X, Y).visible_coef_)
    dd = pytest.importorskip("dask.dataframe")
    there = clone(MODEL).fit(dd.from_pandas(frame, npartitions=2), Y)
    np.testing.assert_array_equal(here.visible_coef_, there.visible_coef_)


def test_prediction_block_by_block(client):
    model = MODEL.fit(X, Y)
    blocks = da.from_array(X, chunks=(50, -1))
    shape = {"chunks": (blocks.chunks[0], (Y.shape[1],))}
    labels = blocks.map_blocks(model.predict, dtype=int, meta=np.empty((0, 0), int), **shape)
    proba = blocks.map_blocks(model.predict_proba, dtype=float, meta=np.empty((0, 0)), **shape)
    np.testing.assert_array_equal(labels.compute(), model.predict(X))
    np.testing.assert_array_equal(proba.compute(), model.predict_proba(X))


def test_incremental_fits_over_blocks(client):
    def fit_blocks(blocks):
        model = CRBMClassifier(n_hidden=2, alpha=0.01, random_state=0)
        for x, y in blocks:
            model.partial_fit(x, y)
        return model

    x_blocks, y_blocks = (da.from_array(a, chunks=(40, -1)) for a in (X, Y))
    there = fit_blocks(
        (x.compute(), y.compute())
        for x, y in zip(x_blocks.to_delayed()[:, 0], y_blocks.to_delayed()[:, 0], strict=True)
    )
    here = fit_blocks(zip(np.split(X, 3), np.split(Y, 3), strict=True))
    np.testing.assert_array_equal(there.visible_coef_, here.visible_coef_)
    # The same in a task of a worker.
    task = client.submit(fit_blocks, list(zip(np.split(X, 3), np.split(Y, 3), strict=True)))
    np.testing.assert_array_equal(task.result().visible_coef_, here.visible_coef_)
