"""Errors that list alternatives list those that work there, and no others."""

import re
import warnings

import numpy as np
import pytest
from reference.cases import deep_except
from reference.outside import TripleEnergy
from sklearn.utils._param_validation import InvalidParameterError

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    ImageCRBM,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.datasets import make_ising_lattice, make_random_factor_graph
from skcrbm.density import RBM, IsingModel, MarkovRandomField
from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import (
    MPLP,
    Gibbs,
    MaxProduct,
    available_methods,
    estimate_log_partition,
    infer,
    sample,
)
from skcrbm.learning import BPChainLearning

RNG = np.random.RandomState(0)
X = RNG.randn(30, 3)
Y = (X + RNG.randn(30, 3) > 0).astype(int)
FEW = {"n_hidden": 2, "max_iter": 2, "random_state": 0}
FIXED = {"C": 1.0, "pairwise_penalty": 1.0, "random_state": 0}
ENERGIES = {
    "RBM": RBMEnergy(RNG.randn(3, 2), RNG.randn(2, 3), RNG.randn(2)),
    "one-hot": OneHotRBMEnergy(RNG.randn(3, 2), RNG.randn(2, 3), RNG.randn(2)),
    "Ising": IsingEnergy([[0, 0.5], [0.5, 0]], [[0.1, -0.2]]),
    "sparse": make_ising_lattice((3, 3), 0.3),
    "graph": make_random_factor_graph(6, random_state=0),
}


def listed(call, *args, **options):
    """Names of methods in the message of the error that a call raises."""
    with pytest.raises((ValueError, TypeError)) as info:
        call(*args, **options)
    told = str(info.value).partition("; got ")[0].partition(". Got ")[0]
    names = [name for name in re.findall(r"'(\w+)'", told) if name in available_methods()]
    assert names, told
    return names


@pytest.mark.parametrize("energy", ENERGIES)
@pytest.mark.parametrize(
    "returns", [None, "map", "marginals", "log_partition", ("samples", "sample_log_prob")]
)
@pytest.mark.parametrize("wrong", ["foo", None])
def test_methods_that_infer_lists_answer(energy, returns, wrong):
    energy = ENERGIES[energy]
    # `tests/energies/test_conformance.py` shows that all of these methods answer.
    assert listed(infer, energy, wrong, returns=returns) == available_methods(energy, returns or ())
    with pytest.raises((ValueError, TypeError), match="method must be one of 'auto', 'exact'"):
        infer(energy, wrong, returns=returns)


@pytest.mark.parametrize("energy", ENERGIES)
def test_methods_that_the_short_forms_list_answer(energy):
    energy = ENERGIES[energy]
    assert listed(sample, energy, "foo") == available_methods(energy, "samples")
    if "ais" in available_methods(energy):
        estimators = ["bp_chain", "perturb_and_max_product", "perturb_and_map", "ais"]
        assert listed(estimate_log_partition, energy, method="foo") == estimators
        assert listed(estimate_log_partition, energy, method="exact") == estimators
    else:
        with pytest.raises(ValueError, match="no method estimates log Z of OneHotRBMEnergy"):
            estimate_log_partition(energy, method="exact")


def test_options_that_others_have():
    energy = ENERGIES["Ising"]
    names = listed(infer, energy, "exact", return_trace=True)
    assert set(names) == {"exact", "mean_field", "sum_product", "tree_reweighted"}
    for name in names[1:]:
        assert infer(energy, name, return_trace=True).trace is not None
    assert listed(infer, energy, "exact", returns="samples", return_state=True)[1:] == [
        *("gibbs", "gibbs_with_gradients", "bp_chain", "perturb_and_max_product")
    ]


def test_answers_that_are_listed():
    listed = re.escape("more of ['best_states', 'log_partition', 'map', ")
    with pytest.raises(ValueError, match=listed) as info:
        infer(ENERGIES["Ising"], "exact", returns="mapp")
    assert "marginal_map" not in str(info.value)
    with pytest.raises(ValueError, match=r"one or more of \['marginals', .*, 'statistics'\]"):
        infer(ENERGIES["RBM"], Gibbs(), returns="sampels")


def test_available_methods_takes_one_answer_as_it_takes_several():
    for energy in (None, *ENERGIES.values()):
        for answer in ("map", "samples", "log_partition"):
            found = available_methods(energy, answer)
            assert found == available_methods(energy, [answer])
            assert "exact" in found
    with pytest.raises(ValueError, match="returns must contain one or more of"):
        available_methods(returns="m")
    with pytest.raises(TypeError, match="energy must be an energy such as RBMEnergy, got 'map'"):
        available_methods("map")


ESTIMATORS = {
    "CRBM": lambda m: CRBMClassifier(inference=m, **FEW).fit(X, Y),
    "images": lambda m: ImageCRBM(inference=m, **FEW).fit(X, Y),
    "MSSVM": lambda m: MSSVMCRBM(inference=m, **FEW).fit(X, Y),
    "MSSVM, marginals": lambda m: MSSVMCRBM(inference=["mixed_product", m], **FEW).fit(X, Y),
    "LMBM": lambda m: LMBMClassifier(inference=m, **FIXED).fit(X, Y),
    "LMBM, marginals": lambda m: LMBMClassifier(inference=["branch_and_bound", m], **FIXED).fit(
        X, Y
    ),
    "SSVM": lambda m: SSVMClassifier(inference=m, max_iter=2).fit(X, Y),
    "layered": lambda m: LayeredGMClassifier(inference=m, max_iter=2).fit(X, Y),
    "RBM": lambda m: RBM(inference=m, learning="mle", **FEW).fit(Y),
    "Ising": lambda m: IsingModel(inference=m, learning="mle", max_iter=2).fit(Y),
    "MRF": lambda m: MarkovRandomField(inference=m, learning="mle", max_iter=2).fit(Y),
    "sampler": lambda m: RBM(learning=BPChainLearning(sampler=m), **FEW).fit(Y),
}


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    "kind", deep_except([kind for kind in ESTIMATORS if kind != "MSSVM"], ESTIMATORS)
)
def test_methods_that_estimators_list_train(kind):
    fit = ESTIMATORS[kind]
    for name in listed(fit, "foo"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit(name)
            if hasattr(model, "predict_proba"):
                assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("CRBM", MaxProduct()),
        ("CRBM", MPLP()),
        ("CRBM", Gibbs()),
        ("MSSVM", Gibbs()),
        ("RBM", Gibbs()),
        ("Ising", MaxProduct()),
        ("sampler", MaxProduct()),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_objects_that_cannot_serve(kind, method):
    fit = ESTIMATORS[kind]
    names = {name for name in listed(fit, method) if name != method.name}
    assert names
    assert names <= set(listed(fit, "foo"))  # which the test above trains with


def test_methods_of_prediction_alone():
    """Not told, as training by the likelihood has no use for it, but taken."""
    model = CRBMClassifier(learning="cd", inference="gibbs", **FEW).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    with pytest.raises(ValueError, match=r"with learning='cd' must be one of .* Got 'mplp'"):
        CRBMClassifier(learning="cd", inference=MPLP(), **FEW).fit(X, Y)


COMBINED = {
    "CRBM": (lambda **o: CRBMClassifier(n_hidden=1, max_iter=1, alpha=0.1, **o), True),
    "RBM": (lambda **o: RBM(n_hidden=1, max_iter=1, **o), False),
    "Ising": (lambda **o: IsingModel(max_iter=1, **o), False),
    "MRF": (lambda **o: MarkovRandomField(max_iter=1, **o), False),
}
LEARNING = ["mle", "cd", "pcd", "cd_percloss", "pmp", "bp", "bp_chain"]


@pytest.mark.parametrize("kind", COMBINED)
def test_every_method_with_every_learning_rule(kind):
    """A pair fits, or the parameter check refuses it with the list of possible methods."""
    make, conditional = COMBINED[kind]
    data = (X[:8], Y[:8]) if conditional else (Y[:8],)
    for rule in LEARNING:
        possible, refused = [], []
        for name in available_methods():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    model = make(learning=rule, inference=name, random_state=0).fit(*data)
                except InvalidParameterError as error:
                    refused.append(str(error))
                    continue
            possible.append(name)
            if conditional:
                assert np.isfinite(model.predict_proba(data[0])).all()
        if not possible:  # the estimator does not have the rule
            assert any("The 'learning' parameter of" in message for message in refused)
            continue
        assert refused
        for message in refused:
            assert message.startswith(f"The 'inference' parameter of {type(make()).__name__}")
            told = message.partition(" must be ")[2].partition(". Got")[0]
            assert set(re.findall(r"'(\w+)'", told)) - {"auto"} <= set(possible)


def test_solvers_that_are_listed():
    with pytest.raises(ValueError, match="lbfgs") as info:
        CRBMClassifier(solver="lbfgs", learning="cd", **FEW).fit(X, Y)
    for solver in re.findall(r"'(\w+)'", str(info.value).partition("; use ")[2]):
        CRBMClassifier(solver=solver, learning="cd", **FEW).fit(X, Y)
        CRBMClassifier(solver=solver, **FEW).partial_fit(X, Y)


@pytest.mark.parametrize("name", ["sum_product", "mean_field"])
def test_one_hot_names_the_methods_that_work(name):
    energy = OneHotRBMEnergy(np.ones((2, 2)), [0, 0], [0, 0])
    with pytest.raises(ValueError, match=f"'{name}' does not work on OneHotRBMEnergy.*'exact'"):
        infer(energy, name)


def test_an_energy_without_solvers_of_its_own():
    energy = TripleEnergy([[0, 1, 2]], [1.0], np.zeros(3))
    with pytest.raises(ValueError, match="not work on TripleEnergy; methods that do: 'exact', 'gi"):
        infer(energy, "sum_product")


def test_methods_for_what_has_no_meaning():
    energy = IsingEnergy(np.zeros((2, 2)), np.zeros(2))
    for ask in (available_methods, lambda e, r: infer(e, "exact", returns=r)):
        with pytest.raises(ValueError, match="'marginal_map', which has no meaning for an Ising"):
            ask(energy, "marginal_map")


@pytest.mark.parametrize(
    ("name", "kind", "others"),
    [
        ("mixed_product", "Ising", "RBMEnergy"),
        ("dual_decomposition", "Ising", "RBMEnergy"),
        ("branch_and_bound", "RBM", "IsingEnergy, FactorGraphEnergy"),
        ("milp", "RBM", "IsingEnergy"),
    ],
)
def test_a_method_that_a_class_lacks_is_named_with_the_classes_that_have_it(name, kind, others):
    """So does the error if the default answer of the method has no meaning for the class."""
    with pytest.raises(ValueError, match=f"does not work on .*'exact'.*It works on {others}"):
        infer(ENERGIES[kind], name)
