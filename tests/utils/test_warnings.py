"""Warnings point at the user's line at any depth."""

import inspect
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcrbm import MSSVMCRBM, CRBMClassifier, DecodedClassifier, LMBMClassifier
from skcrbm.inference import BranchAndBound, MixedProduct, SumProduct
from skcrbm.learning import EarlyStopping
from skcrbm.utils.warnings import warn_user


def line():
    return inspect.currentframe().f_back.f_lineno


def compiled_inside(source, module, **names):
    """Functions of a source that claims to be a file of the given module's package."""
    exec(compile(source, module.__file__, "exec"), names)
    return names


def test_called_directly_it_is_the_callers_line():
    expected = line() + 2
    with pytest.warns(UserWarning, match="here") as caught:
        warn_user("here")
    assert (caught[0].filename, caught[0].lineno) == (__file__, expected)


def test_frames_of_the_package_and_of_wrappers_do_not_count():
    import sklearn.base

    import skcrbm.learning.loop

    inner = compiled_inside(
        "def run():\n    warn('deep', Category)\n",
        skcrbm.learning.loop,
        warn=warn_user,
        Category=ConvergenceWarning,
    )["run"]

    @contextmanager
    def context():
        yield

    wrapped = compiled_inside("def wrap():\n    run()\n", sklearn.base, run=context()(inner))[
        "wrap"
    ]
    expected = line() + 2
    with pytest.warns(ConvergenceWarning, match="deep") as caught:
        wrapped()
    assert (caught[0].filename, caught[0].lineno) == (__file__, expected)


@pytest.mark.parametrize("depth", ["estimator", "pipeline"])
def test_a_fit_warns_at_the_line_of_fit(depth):
    """Two depths of the call path: directly, and through a pipeline of scikit-learn."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4, 2)), rng.integers(0, 2, (4, 3)).astype(float)
    Y[:, 0] = 1
    model = CRBMClassifier(early_stopping=EarlyStopping(0.999), max_iter=1)
    if depth == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    expected = line() + 2
    with pytest.warns(UserWarning, match="no validation part") as caught:
        model.fit(X, Y)
    assert {(w.filename, w.lineno) for w in caught} == {(__file__, expected)}


FEW = {"max_iter": 1, "random_state": 0}
WARNING = {
    "marginals": CRBMClassifier(inference=SumProduct(max_iter=1, tol=1e-9), **FEW),
    "best states": MSSVMCRBM(inference=MixedProduct(max_iter=1), **FEW),
    "couplings": CRBMClassifier(
        n_hidden=3, inference="sum_product", max_iter=200, alpha=0, random_state=0
    ),
    "passes": LMBMClassifier(**FEW),
}


@pytest.mark.parametrize("name", WARNING)
@pytest.mark.parametrize("depth", ["estimator", "pipeline"])
def test_every_warning_of_a_fit(name, depth):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 8))
    Y[:, 1:] = np.where(rng.random((60, 7)) < 0.9, Y[:, :1], Y[:, 1:])
    model = WARNING[name] if depth == "estimator" else make_pipeline(WARNING[name])
    expected = line() + 2
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, Y)
    assert {(w.filename, w.lineno) for w in caught} == {(__file__, expected)}


def test_a_prediction_warns_at_its_line():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 8))
    model = LMBMClassifier(
        C=0.1,
        pairwise_penalty=1.0,
        decode="hinge",
        inference=BranchAndBound(node_limit=1),
        random_state=0,
    ).fit(X, Y)
    for depth in (model, make_pipeline(model), DecodedClassifier(model).fit(X, Y).estimator_):
        expected = line() + 2
        with pytest.warns(ConvergenceWarning, match="node_limit=1") as caught:
            depth.predict(X)
        assert {(w.filename, w.lineno) for w in caught} == {(__file__, expected)}


def test_filters_see_the_users_module():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", module=__name__)
        warn_user("seen")
    assert len(caught) == 1
