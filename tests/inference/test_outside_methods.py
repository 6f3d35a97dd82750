"""Methods that another package registers: when their names are valid, and what `infer` checks."""

import copy
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reference import outside_marginals

from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.datasets import make_structured_labels
from skcrbm.density import RBM
from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference import (
    InferenceMethod,
    MeanField,
    available_methods,
    infer,
    register_method,
    register_solver,
    registry,
)
from skcrbm.inference.choice import methods_for
from skcrbm.inference.registry import ANSWERS, METHODS, SOLVERS

HERE = __name__
N, V, H = 3, 4, 2
X, Y = make_structured_labels(60, random_state=0)


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """Tables to which a test may add lines."""
    monkeypatch.setattr(METHODS, "locations", dict(METHODS.locations))
    monkeypatch.setattr(registry, "SOLVERS", copy.deepcopy(SOLVERS))
    monkeypatch.setattr(registry, "ANSWERS", dict(ANSWERS))
    yield
    registry._imported.cache_clear()


def rbm(scale=1.0):
    rng = np.random.default_rng(0)
    return RBMEnergy(rng.normal(0, scale, (V, H)), rng.normal(size=(N, V)), rng.normal(size=(N, H)))


def classifier(inference):
    return CRBMClassifier(inference=inference, n_hidden=2, alpha=0.1, max_iter=3, random_state=0)


# ---------------------------------------------------------------- names and locations


def test_the_worked_example_equals_mean_field():
    outside_marginals.register()
    answers, energy = ("marginals", "statistics", "log_partition"), rbm(0.3)
    for pairwise, clamp in (("sum", None), ("per_example", [1, *[np.nan] * 5])):
        found, expected = (
            infer(energy, name, returns=answers, pairwise=pairwise, clamp=clamp, tol=1e-9)
            for name in ("damped_mean_field", "mean_field")
        )
        assert found.converged.all()
        np.testing.assert_allclose(found.marginals, expected.marginals, atol=1e-6)
        np.testing.assert_allclose(found.pairwise, expected.pairwise, atol=1e-6)
        np.testing.assert_allclose(found.log_partition, expected.log_partition, atol=1e-6)


def test_names_are_valid_as_soon_as_they_are_registered():
    """The estimators have been imported before the method is registered."""
    name = "damped_mean_field"
    names = methods_for(RBMEnergy, {"statistics", "log_partition"})
    assert name not in names
    with pytest.raises(ValueError, match="'sum_product', 'tree_reweighted' or a configured"):
        classifier(name).fit(X, Y)
    outside_marginals.register()
    assert name in names
    assert [*names] == ["exact", "mean_field", "sum_product", "tree_reweighted", name]
    assert (names[-1], len(names)) == (name, 5)
    assert repr(names) == repr([*names])
    model = classifier(name).fit(X, Y)
    same = classifier(outside_marginals.DampedMeanField()).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    assert RBM(inference=name, n_hidden=2, max_iter=2, random_state=0).fit(Y).n_iter_ == 2
    with pytest.raises(ValueError, match="'tree_reweighted', 'damped_mean_field' or a configured"):
        classifier("damped").fit(X, Y)
    with pytest.raises(ValueError, match=r"such as \[ICM\(n_restarts=10\), SumProduct\(\)\]"):
        MSSVMCRBM(inference=name).fit(X, Y)  # finds no best state


PROGRAM = """
from skcrbm.inference import InferenceMethod, available_methods, register_method
register_method("broken", "no_such_module:Method")
register_method("later", "__main__:Later")
from skcrbm import CRBMClassifier
assert not {"broken", "later"} & {*available_methods()}
class Later(InferenceMethod):
    name = "later"
    answers = frozenset(["marginals"])
assert available_methods()[-1] == "later"
"""


@pytest.mark.deep
def test_a_wrong_location_breaks_no_import():
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, cwd=root, timeout=300)


class Unnamed(InferenceMethod):
    name = "another"
    answers = frozenset({"marginals"})


class Misspelt(InferenceMethod):
    name = "misspelt"
    answers = frozenset({"marginal"})


class Required(InferenceMethod):
    name = "required"
    answers = frozenset({"marginals"})

    def __init__(self, option):
        self.option = option


@pytest.mark.parametrize(
    ("name", "location", "kind", "message"),
    [
        ("broken", "no_such_module:Method", ImportError, "cannot be imported: ModuleNotFoundError"),
        ("broken", f"{HERE}:Missing", ImportError, "has no attribute 'Missing'"),
        (
            "broken",
            f"{HERE}:rbm",
            TypeError,
            "must be a subclass of InferenceMethod; got <function",
        ),
        ("broken", f"{HERE}:Unnamed", ValueError, "name must be 'broken'; got 'another'"),
        ("misspelt", f"{HERE}:Misspelt", ValueError, "answers must be a frozenset .*'marginal'"),
        ("required", f"{HERE}:Required", TypeError, "need defaults; 'option' has no default"),
    ],
)
def test_a_wrong_registration_is_an_error_when_the_method_is_used(name, location, kind, message):
    listed = available_methods()
    register_method(name, location)
    assert available_methods() == listed
    assert infer(rbm(), "exact").marginals.shape == (N, V + H)
    with pytest.raises(ValueError, match="'exact'"):
        infer(rbm(), "no_such_method")
    for use in (lambda: infer(rbm(), name), lambda: classifier(name).fit(X, Y)):
        with pytest.raises(kind, match=f"inference='{name}' is registered as '{location}'.*") as e:
            use()
        assert e.match(message)
        assert (e.value.__cause__ is not None) == (kind is ImportError)


def test_a_built_in_method_that_cannot_be_imported_is_not_left_out():
    METHODS.locations["exact"] = "skcrbm.inference.methods.exact:Missing"
    with pytest.raises(ImportError, match="inference='exact' is registered as"):
        available_methods()


# ---------------------------------------------------------------- solvers and their answers

RETURNED = None


class Returns(InferenceMethod):
    """A method whose solver returns what the test wants."""

    name = "returns"
    answers = frozenset({"marginals", "statistics", "log_partition", "map", "samples"})
    accepts = frozenset({"return_trace", "return_state"})


def solve(method, energy, query):
    return RETURNED


class SolvesItself(Returns):
    def supports(self, energy):
        return self.answers

    def solve(self, energy, query):
        return RETURNED


ODDS = np.zeros((N, V + H))
INVALID = [
    ({}, None, TypeError, "must return a dict with fields of InferenceResult; got None"),
    ({}, {}, ValueError, "the field 'log_odds' for 'marginals'; it is missing"),
    ({}, {"log_odds": None}, ValueError, "the field 'log_odds' for 'marginals'; it is missing"),
    ({}, {"logodds": ODDS}, ValueError, "only fields from 'assignment', .*; got 'logodds'"),
    ({}, {"marginals": ODDS}, ValueError, "computes the marginals from 'log_odds'"),
    ({}, {"log_odds": ODDS[:, :V]}, ValueError, r"'log_odds' .* shape \(3, 6\); got .* \(3, 4\)"),
    ({}, {"log_odds": ODDS.tolist()}, ValueError, "'log_odds' .* got a list of length 3"),
    ({}, {"log_odds": ODDS.astype(str)}, ValueError, "'log_odds' as an array of numbers"),
    ({}, {"log_odds": ODDS * np.nan}, ValueError, r"'log_odds' without NaN; got NaN at index \[0"),
    ({}, {"log_odds": ODDS, "n_iter": 0}, ValueError, r"'n_iter' .* shape \(3,\); got 0"),
    ("log_partition", {"log_partition": np.zeros((N, 1))}, ValueError, r"shape \(3,\); got"),
    ("map", {"assignment": np.zeros((N, V))}, ValueError, r"'assignment' .* shape \(3, 6\)"),
    ("statistics", {"statistics": np.zeros((V, H))}, ValueError, r"a tuple of arrays .*\[\(4, 2\)"),
    ("statistics", {"statistics": ()}, ValueError, "got a tuple of length 0"),
    ("statistics", {"statistics": (np.zeros((N, V, H)),)}, ValueError, r"\[0\] .* shape \(4, 2\)"),
    ({"return_trace": True}, {"log_odds": ODDS}, ValueError, "'trace' for return_trace=True"),
    ({"return_state": True}, {"log_odds": ODDS}, ValueError, "'state' for return_state=True"),
    (
        {"returns": "samples", "n_samples": 2},
        {"samples": np.zeros((N, 1, V + H))},
        ValueError,
        r"'samples' .* shape \(3, 2, 6\)",
    ),
]


@pytest.mark.parametrize("method", ["returns", SolvesItself()], ids=["registered", "object"])
@pytest.mark.parametrize(("arguments", "returned", "kind", "message"), INVALID)
def test_invalid_fields_of_a_solver(monkeypatch, method, arguments, returned, kind, message):
    monkeypatch.setattr(sys.modules[__name__], "RETURNED", returned)
    register_method("returns", f"{HERE}:Returns")
    register_solver("returns", "RBMEnergy", f"{HERE}:solve")
    if isinstance(arguments, str):
        arguments = {"returns": arguments}
    with pytest.raises(kind, match=f"the solver of inference method 'returns' .*{message}"):
        infer(rbm(), method, **arguments)


def test_valid_fields_of_a_solver(monkeypatch):
    """Infinite log-odds are valid, and so are integers; n_iter and converged may be missing."""
    odds = np.array([[-np.inf, np.inf, 0, 0, 0, 0]] * N)
    returned = {"log_odds": odds, "statistics": (np.zeros((V, H), int),), "state": "any object"}
    monkeypatch.setattr(sys.modules[__name__], "RETURNED", returned)
    found = infer(rbm(), SolvesItself(), returns=("marginals", "statistics"))
    np.testing.assert_array_equal(found.marginals, [[0, 1, 0.5, 0.5, 0.5, 0.5]] * N)


def test_fields_of_an_outside_solver_of_a_built_in_method_are_checked(monkeypatch):
    class Renamed(RBMEnergy):
        pass

    monkeypatch.setattr(sys.modules[__name__], "RETURNED", {"log_odds": ODDS * np.nan})
    register_solver("mean_field", "Renamed", f"{HERE}:solve")
    with pytest.raises(ValueError, match="method 'mean_field' must return 'log_odds' without NaN"):
        infer(Renamed(rbm().weights, *rbm().fields), MeanField())


def test_the_name_of_an_energy_must_be_known():
    register_method("returns", f"{HERE}:Returns")
    with pytest.raises(ValueError, match=r"one of 'BaseEnergy', .*'RBMEnergy'.*; got 'RBMenergy'"):
        register_solver("returns", "RBMenergy", f"{HERE}:solve")


def test_an_error_tells_for_which_energies_a_method_has_solvers():
    register_method("returns", f"{HERE}:Returns")
    with pytest.raises(ValueError, match="Solvers of 'returns' are registered for: none"):
        infer(rbm(), "returns")
    register_solver("returns", "IsingEnergy", f"{HERE}:solve")
    with pytest.raises(ValueError, match="Solvers of 'returns' are registered for: 'IsingEnergy'"):
        infer(rbm(), "returns")
    register_solver("returns", "RBMEnergy", f"{HERE}:missing")
    with pytest.raises(ImportError, match="solver of 'returns' for RBMEnergy is registered as"):
        infer(rbm(), "returns")
    with pytest.raises(ValueError) as error:
        infer(IsingEnergy(np.zeros((2, 2)), np.zeros((1, 2))), "bp_chain", returns="map")
    assert "Solvers" not in str(error.value)


def test_a_solver_that_is_defined_and_registered_again_replaces_the_first(monkeypatch):
    register_method("returns", f"{HERE}:Returns")
    for value in (0.0, 1.0):
        fields = {"log_odds": np.full((N, V + H), value)}
        monkeypatch.setattr(sys.modules[__name__], "solve", lambda *_, fields=fields: fields)
        register_solver("returns", "RBMEnergy", f"{HERE}:solve")
        assert infer(rbm(), "returns").log_odds[0, 0] == value


def test_help_explains_the_class_attributes():
    text = inspect.getdoc(InferenceMethod)
    for name in InferenceMethod.__annotations__:
        if not name.startswith("_"):
            assert f"\n{name} : " in text
