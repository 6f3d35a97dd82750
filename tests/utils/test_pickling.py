"""Pickles: their version, missing attributes in pickles of another version, their bytes."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import InconsistentVersionWarning as OfScikitLearn
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

import skcrbm
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
from skcrbm.density import (
    RBM,
    IsingModel,
    LargeMarginMarkovNetwork,
    MarkovRandomField,
    from_clauses,
)
from skcrbm.density._clauses import ClauseCliques
from skcrbm.energies import (
    AndFactors,
    BaseEnergy,
    FactorGraphEnergy,
    IsingEnergy,
    OneHotRBMEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.exceptions import InconsistentVersionWarning
from skcrbm.inference import InferenceResult, SumProduct, infer
from skcrbm.layers import Dense
from skcrbm.metrics import multilabel_report

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3))
Y = (X @ rng.normal(size=(3, 3)) > 0).astype(int)
SMALL = RBMEnergy([[1.0], [-0.5]], [[0.1, 0.2]], [0.3])

ESTIMATORS = [
    CRBMClassifier(n_hidden=1, alpha=0.1, max_iter=2, random_state=0),
    CRBMClassifier(n_hidden=1, alpha=0.1, max_iter=2, solver="adam", random_state=0),
    MSSVMCRBM(n_hidden=1, alpha=0.1, max_iter=2, random_state=0),
    LMBMClassifier(C=1.0, pairwise_penalty=1.0),
    SSVMClassifier(max_iter=5),
    LayeredGMClassifier(layers=(Dense(2),), max_iter=1, random_state=0),
    DecodedClassifier(MultiOutputClassifier(LogisticRegression())),
    CalibratedMarginals(CRBMClassifier(n_hidden=0, alpha=0.1), cv=2),
    OutOfBagLogOdds(RandomForestClassifier(20, random_state=0)),
    MarkovRandomField(max_iter=1, random_state=0),
    IsingModel(max_iter=1, random_state=0),
    IsingModel(edges=[(0, 1)], max_iter=1, random_state=0),
    RBM(n_hidden=2, max_iter=1, random_state=0),
    ImageCRBM(n_hidden=1, alpha=0.05, max_iter=1, random_state=0),
    LargeMarginMarkovNetwork(3, random_state=0),
]
OTHERS = [
    SMALL,
    SMALL.condition([np.nan, 1, np.nan]),
    OneHotRBMEnergy([[1.0], [-0.5]], [0.1, 0.2], [0.3]),
    IsingEnergy([[0.0, 1.0], [1.0, 0.0]], [0.1, 0.2]),
    SparseIsingEnergy(sparse.csr_matrix([[0.0, 1.0], [1.0, 0.0]]), [0.1, 0.2]),
    FactorGraphEnergy.from_energy(SMALL),
    FactorGraphEnergy([OrFactors([[0, 1]], [2]), AndFactors([[0, 2]], [1])], n_variables=3),
    TableFactors([[0, 1]], np.zeros((1, 4))),
    from_clauses([[1, -2]], [1.0]),
    SumProduct(max_iter=3),
    multilabel_report(Y, Y),
    Dense(3),
]


def name_of(thing):
    return (thing if isinstance(thing, type) else type(thing)).__name__


def fitted(estimator, y=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit((X > 0).astype(float), y)


@pytest.fixture(scope="module", params=[*ESTIMATORS, *OTHERS, InferenceResult], ids=name_of)
def thing(request):
    if request.param is InferenceResult:  # computed here, because the kernel may be compiled
        return infer(SMALL, "sum_product", return_state=True)
    return fitted(request.param) if request.param in ESTIMATORS else request.param


def state_of(thing, version, without=()):
    state = {**thing.__getstate__(), "_skcrbm_version": version}
    for name in without:
        del state[name]
    return state


def rebuilt(thing, state):
    new = type(thing).__new__(type(thing))
    new.__setstate__(state)
    return new


def test_the_version_is_in_the_pickle_and_not_in_the_object(thing):
    assert thing.__getstate__()["_skcrbm_version"] == skcrbm.__version__
    again = pickle.loads(pickle.dumps(thing))
    assert "_skcrbm_version" not in vars(again)
    assert list(vars(again)) == list(vars(thing))
    assert type(again) is type(thing)


@pytest.mark.filterwarnings("error")
def test_copies_and_pickles_of_this_version_do_not_warn(thing):
    content = pickle.dumps(thing)
    assert pickle.dumps(pickle.loads(content)) == pickle.dumps(pickle.loads(content))
    copy.deepcopy(thing)
    assert vars(copy.copy(thing)).keys() == vars(thing).keys()
    joblib.hash(thing)


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
def test_another_version_warns_in_both_names(thing, version):
    if not warns(thing):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rebuilt(thing, state_of(thing, version))
        return
    with pytest.warns(InconsistentVersionWarning, match=rf"saved by skcrbm {version} and is") as w:
        again = rebuilt(thing, state_of(thing, version))
    assert isinstance(w[0].message, OfScikitLearn)
    assert w[0].message.estimator_name == type(thing).__name__
    assert w[0].filename == __file__
    assert vars(again).keys() == vars(thing).keys()


def warns(thing):
    return not isinstance(thing, (BaseEnergy, TableFactors, ClauseCliques, SumProduct, Dense))


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
def test_a_pickle_of_a_model_warns_once(monkeypatch, thing, version):
    monkeypatch.setattr("skcrbm.utils.pickling.__version__", version)
    content = pickle.dumps(thing)
    monkeypatch.undo()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pickle.loads(content)
    names = [warning.message.estimator_name for warning in caught]
    # The classifier that is calibrated is a model, too: as a parameter, and fitted.
    inner = ["CRBMClassifier"] * 2 if isinstance(thing, CalibratedMarginals) else []
    assert names == ([*inner, name_of(thing)] if warns(thing) else [])


def test_a_pickle_without_a_version_warns(thing):
    if not warns(thing):
        pytest.skip("parts of models do not warn")
    state = thing.__getstate__()
    del state["_skcrbm_version"]
    with pytest.warns(InconsistentVersionWarning, match=r"saved by skcrbm before 0\.1"):
        rebuilt(thing, state)


def test_what_another_version_did_not_save_is_named(thing):
    needed = list(thing._saved)
    if hasattr(thing, "get_params"):
        needed += thing.get_params(deep=False)
    if hasattr(thing, "__dataclass_fields__"):
        needed += thing.__dataclass_fields__
    assert needed
    for name in needed:
        with pytest.raises(ValueError, match=rf"saved by skcrbm 0\.0\.1.*: {name}\. Load it with"):
            rebuilt(thing, state_of(thing, "0.0.1", [name]))


def test_versions_under_development_share_a_number(thing):
    """A state that lacks an attribute is refused, whatever its version number."""
    missing = (*thing._saved, *getattr(thing, "__dataclass_fields__", ()))
    if hasattr(thing, "get_params"):
        missing = tuple(thing.get_params(deep=False))
    state = thing.__getstate__()
    del state[missing[-1]]
    with pytest.raises(ValueError, match=f"needs: {missing[-1]}\\. Load it with the version of"):
        rebuilt(thing, state)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_parameters_alone_are_enough_before_fit(estimator):
    with pytest.warns(InconsistentVersionWarning):
        again = rebuilt(estimator, state_of(estimator, "0.0.1"))
    assert str(again) == str(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS[:6], ids=name_of)
@pytest.mark.parametrize("y", [Y[:, 0], Y[:, 0] + 2 * Y[:, 1]], ids=["binary", "multiclass"])
def test_what_is_needed_is_there_for_other_targets(estimator, y):
    if isinstance(estimator, DecodedClassifier):
        estimator = DecodedClassifier(LogisticRegression())
    model = fitted(estimator, y)
    with pytest.warns(InconsistentVersionWarning):
        again = rebuilt(model, state_of(model, "0.0.1"))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("y", [Y, Y[:, 0], Y[:, 0] + 2 * Y[:, 1]], ids=["labels", "two", "three"])
def test_what_is_inside_is_there_too(y):
    model = fitted(ESTIMATORS[1], y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["CRBMClassifier", "MSSVMCRBM", "LayeredGMClassifier"])
def test_what_is_needed_is_there_after_partial_fit(name):
    estimator = next(e for e in ESTIMATORS[1:] if name_of(e) == name)
    model = clone(estimator).partial_fit(X, Y)
    with pytest.warns(InconsistentVersionWarning):
        again = rebuilt(model, state_of(model, "0.0.1"))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_the_version_adds_little():
    for thing in (SMALL, SumProduct(), Dense(3)):
        plain = {k: v for k, v in thing.__getstate__().items() if k != "_skcrbm_version"}
        assert len(pickle.dumps(thing.__getstate__())) - len(pickle.dumps(plain)) < 50


def test_slices_of_a_layered_model_are_plain():
    """skops cannot write NumPy integers within a slice."""
    model = fitted(next(e for e in ESTIMATORS if isinstance(e, LayeredGMClassifier)))
    structure = model._model.structure
    for part in [*structure.weight_slices, *structure.unary_slices, *structure.unit_slices[1:]]:
        assert type(part.start) is int
        assert type(part.stop) is int
