"""Parts of models in saved states: plain dictionaries, shared parts, refused classes."""

import io
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

from skcrbm import (
    MSSVMCRBM,
    ChainCRF,
    CRBMClassifier,
    DecodedClassifier,
    LabelGraphCRF,
    LayeredGMClassifier,
    LMBMClassifier,
)
from skcrbm.density import MarkovRandomField
from skcrbm.energies import RBMEnergy
from skcrbm.inference import SumProduct
from skcrbm.layers import Dense
from skcrbm.utils.columns import Columns
from skcrbm.utils.pickling import built, plain

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3))
Y = (X @ rng.normal(size=(3, 3)) > 0).astype(int)
SEQUENCES = [X[:4], X[4:9], X[9:15]]
TAGS = [list("abab"), list("aabba"), list("bababb")]

#: Models, and the types other than their own that a reader must trust.
MODELS = {
    "CRBMClassifier": (CRBMClassifier(n_hidden=1, alpha=0.1, max_iter=2, random_state=0), []),
    "LMBMClassifier": (LMBMClassifier(C=1.0, pairwise_penalty=1.0), []),
    "MSSVMCRBM": (MSSVMCRBM(n_hidden=1, alpha=0.1, max_iter=2, random_state=0), []),
    "LayeredGMClassifier": (
        LayeredGMClassifier(layers=(Dense(2),), max_iter=1, random_state=0),
        [],
    ),
    "MarkovRandomField": (MarkovRandomField(max_iter=1, random_state=0), []),
    "ChainCRF": (ChainCRF(alpha=0.1, max_iter=3), []),
    "LabelGraphCRF": (LabelGraphCRF(alpha=0.1), []),
    "DecodedClassifier": (
        DecodedClassifier(RandomForestClassifier(2, random_state=0)),
        ["sklearn.tree._tree.Tree"],
    ),
    "nested": (
        DecodedClassifier(CRBMClassifier(n_hidden=0, alpha=0.1)),
        ["skcrbm.estimators._crbm.CRBMClassifier"],
    ),
}


class Outside(SumProduct):
    """A method of another package."""


@pytest.fixture(scope="module", params=list(MODELS))
def saved(request):
    model, others = MODELS[request.param]
    model = clone(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.showwarning", lambda *_, **__: None)
        if isinstance(model, ChainCRF):
            model.fit(SEQUENCES, TAGS)
        else:
            model.fit(*([Y] if isinstance(model, MarkovRandomField) else [X, Y]))
    return model, [f"{type(model).__module__}.{type(model).__name__}", *others]


def answers(model):
    if isinstance(model, ChainCRF):
        return np.concatenate(model.predict_proba(SEQUENCES))
    if isinstance(model, MarkovRandomField):
        return model.score_samples(Y)
    return model.predict(X)


class _Names(pickle.Unpickler):
    """Reads a pickle and notes the classes of this package."""

    def find_class(self, module, name):
        if module.startswith("skcrbm."):
            self.found.add(f"{module}.{name}")
        return super().find_class(module, name)


def test_a_pickle_names_the_class_of_the_model_only(saved):
    model, types = saved
    reader = _Names(io.BytesIO(pickle.dumps(model)))
    reader.found = set()
    again = reader.load()
    assert reader.found == {name for name in types if name.startswith("skcrbm.")}
    np.testing.assert_array_equal(answers(again), answers(model))


@pytest.mark.quick_cases(5)
def test_skops_needs_to_trust_the_class_of_the_model_only(saved):
    skops = pytest.importorskip("skops.io")
    model, types = saved
    content = skops.dumps(model)
    untrusted = skops.get_untrusted_types(data=content)
    # Versions of skops differ in the types of scikit-learn that they trust by themselves.
    ours = {name for name in types if not name.startswith("sklearn.")}
    assert ours <= set(untrusted) <= set(types)
    again = skops.loads(content, trusted=types)
    np.testing.assert_array_equal(answers(again), answers(model))
    assert skops.dumps(again)


def test_a_loaded_stream_goes_on_alike():
    model = CRBMClassifier(n_hidden=1, alpha=0.1, random_state=0).partial_fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_shared_parts_and_arrays_stay_shared():
    part, array = Columns(X, np.ones(len(X))), np.arange(3)
    state = {"a": part, "b": [part, (part, array)], "c": array, "names": ["x"], "class": Columns}
    saved = plain(state)
    assert isinstance(saved["a"], dict)
    assert saved["names"] is state["names"]
    for again in (built(saved), built(pickle.loads(pickle.dumps(saved)))):
        assert type(again["a"]) is Columns
        assert again["a"] is again["b"][0] is again["b"][1][0]
        assert again["b"][1][1] is again["c"]
        assert again["class"] is Columns
    assert state["b"][0] is part  # the state itself is left as it is


def test_a_part_that_contains_itself():
    method = SumProduct()
    method.inside = [method]
    again = built(plain({"method": method}))["method"]
    assert again is not method
    assert again.inside[0] is again


def test_objects_of_other_packages_stay_objects():
    method, model = Outside(), CRBMClassifier()
    state = {"a": method, "b": model, "c": np.float64}
    assert plain(state) is state
    energy = RBMEnergy([[1.0]], [0.0], [0.0])
    np.testing.assert_array_equal(built(plain([energy]))[0].weights, energy.weights)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "skcrbm.utils.pickling:checked_state",
        "skcrbm.utils.columns:np.ndarray",
        "skcrbm.estimators._crbm:CRBMClassifier",
        "skcrbm.utils.columns:Nothing",
    ],
)
def test_classes_that_are_no_parts_are_refused(name):
    with pytest.raises(ValueError, match="not a part of a model"):
        built({"_skcrbm_part": name, "state": {}})
