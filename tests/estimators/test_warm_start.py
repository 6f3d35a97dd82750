"""Hyperparameters that shape a model do not change between fits that continue each other."""

import inspect
import pickle

import numpy as np
import pytest
from reference.every_estimator import MODELS, data_of, model_of, public_estimators

from skcrbm.layers import Dense

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*The columns of X have standard"
)

# A changed value of each hyperparameter that shapes a model.
CHANGES = {
    "ChainCRF": {
        "features": "all",
        "transition_features": True,
        "order": 2,
        "fit_intercept": False,
    },
    "GraphCRF": {"features": "all", "n_latent_states": 2, "directed": True},
    "GridCRF": {"window": 3, "pair_window": 5, "n_hidden": 1},
    "CRBMClassifier": {"n_hidden": 3},
    "MSSVMCRBM": {"n_hidden": 2},
    "ImageCRBM": {"n_hidden": 2},
    "LayeredGMClassifier": {
        "layers": (Dense(2),),
        "input_shape": (3,),
        "clamping": "hard",
    },
    "RBM": {"n_hidden": 3},
    "LabelGraphCRF": {"graph": [[0, 1]]},
    "IsingModel": {"edges": [[0, 1]]},
    "MarkovRandomField": {
        "factors": [[0], [1], [2], [0, 1]],
        "categories": [[0, 1], [0, 1], [1, 0]],
    },
    # The optimum does not depend on the dual variables from which training starts.
    "LMBMClassifier": {},
    "LargeMarginMarkovNetwork": {},
}
# These say how to train, to penalise or to predict, and a new value takes effect.
FREE = {
    *(
        "alpha",
        "alpha_hidden",
        "alpha_l1",
        "l1_ratio",
        "C",
        "margin",
        "pairwise_penalty",
        "alpha_pairs",
    ),
    *("learning", "hidden", "inference", "n_inference_iter", "solver", "max_iter", "tol"),
    *("early_stopping", "class_weight", "forbidden", "decode", "warm_start", "n_jobs"),
    *("random_state", "verbose", "binarize"),
}
# What the convex problems of a large margin read anew, and what `ImageCRBM` compares itself.
OTHERS = {
    "LMBMClassifier": {"cliques"},
    "LargeMarginMarkovNetwork": {"cliques", "ties", "inputs"},
    "ImageCRBM": {"structure"},
}


def resumable():
    """The estimators that go on from an earlier fit."""
    return [
        name
        for name, kind in public_estimators().items()
        if "warm_start" in inspect.signature(kind).parameters or hasattr(kind, "partial_fit")
    ]


def data(name):
    X, y = data_of(name, 12)
    return (X,) if y is None else (X, y)


def test_every_hyperparameter_is_structural_or_free():
    assert set(resumable()) == set(CHANGES)
    for name in resumable():
        kind = type(MODELS[name][0])
        structural = set(getattr(kind, "_structural", ()))
        assert structural == set(CHANGES[name]), name
        names = set(inspect.signature(kind).parameters)
        assert names - structural - OTHERS.get(name, set()) <= FREE, name
        assert not names & structural & FREE or structural == {"features"}, name


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, key) for name, changes in CHANGES.items() for key in changes]
)
def test_a_changed_structure_is_refused(name, parameter):
    model, args = model_of(name), data(name)
    if name in ("ChainCRF", "GraphCRF", "GridCRF", "LabelGraphCRF"):
        model.set_params(solver="adam")
    model.set_params(max_iter=1).fit(*args)
    before = pickle.dumps(model)
    old = model.get_params(deep=False)[parameter]
    model.set_params(warm_start=True, **{parameter: CHANGES[name][parameter]})
    for restored in (model, pickle.loads(pickle.dumps(model))):
        for train in (restored.fit, restored.partial_fit):
            with pytest.raises(
                ValueError, match=rf"^{parameter}.* than in the fit of|was fitted with"
            ):
                train(*args)
    model.set_params(**{parameter: old})  # the failed fits have changed nothing
    model.set_params(warm_start=False)
    assert pickle.dumps(model) == before
    model.set_params(warm_start=True).fit(*args)
    model.partial_fit(*args)
    model.set_params(warm_start=False, **{parameter: CHANGES[name][parameter]}).fit(*args)


def test_equal_structures_in_other_words():
    X, _ = data_of("RBM", 12)
    rbm = model_of("RBM").set_params(n_hidden="auto", warm_start=True).fit(X)
    rbm.set_params(n_hidden=rbm.weights_.shape[1]).fit(X)
    ising = model_of("IsingModel").set_params(edges=[[0, 1], [1, 2]], warm_start=True).fit(X)
    ising.set_params(edges=np.array([[1, 0], [1, 2]])).fit(X)
    field = model_of("MarkovRandomField").set_params(factors=[[0], [0, 2]], warm_start=True).fit(X)
    field.set_params(factors=((0,), np.array([0, 2]))).fit(X)
    edges = [[0, 1]]
    ising = model_of("IsingModel").set_params(edges=edges, warm_start=True).fit(X)
    edges.append([1, 2])  # the list of the user, changed in place
    with pytest.raises(ValueError, match=r"edges=\[\[0, 1\], \[1, 2\]\], but the model was fitted"):
        ising.fit(X)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("LMBMClassifier", {"C": 0.01, "margin": 2.0}),
        ("LMBMClassifier", {"cliques": 3, "pairwise_penalty": 5.0}),
        ("LargeMarginMarkovNetwork", {"C": 0.01, "cliques": 3}),
        ("LargeMarginMarkovNetwork", {"margin": 0.5, "alpha_l1": 0.1}),
    ],
)
def test_the_start_does_not_change_an_optimum(name, changes):
    model, args = model_of(name).set_params(warm_start=True, tol=1e-8, max_iter=20_000), data(name)
    again = model.fit(*args).set_params(**changes).fit(*args)
    fresh = model_of(name).set_params(tol=1e-8, max_iter=20_000, **changes).fit(*args)
    attribute = "pairwise_coef_" if name == "LMBMClassifier" else "weights_"
    np.testing.assert_allclose(getattr(again, attribute), getattr(fresh, attribute), atol=1e-4)
