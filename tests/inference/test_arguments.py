"""Arguments that are not valid: one error names the argument, in each function of inference."""

import numpy as np
import pandas as pd
import pytest

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    OneHotRBMEnergy,
    RBMEnergy,
    TableFactors,
    write_uai_solution,
)
from skcrbm.inference import (
    AnnealedImportanceSampling,
    BPChain,
    Gibbs,
    SumProduct,
    available_methods,
    estimate_log_partition,
    infer,
    sample,
)

ENERGY = IsingEnergy([[0, 1.0], [1, 0]])
WRONG = [
    3.5, np.array([1, 2]), [["marginals"]], {"a": 1}, np.array(["marginals"]), object(), b"x",
    ["marginals", None], [np.array([1])], float("nan"), "", IsingEnergy, pd.DataFrame([[1]]),
]  # fmt: skip
FUNCTIONS = {
    infer: {"n_samples": {"returns": "samples", "method": "gibbs"}, "n_best": {"method": "exact"}},
    sample: {},
    estimate_log_partition: {},
}
# Arguments, and values in `WRONG` that are valid for them.
ARGUMENTS = {
    infer: {
        "returns": [["marginals"]], "pairwise": [], "clamp": [[1, 2]], "sample_weight": [],
        "init": [], "n_samples": [], "n_best": [], "return_trace": [], "return_state": [],
        "n_jobs": [], "method": [],
    },
    sample: {
        "method": [], "n_samples": [], "burn_in": [], "thin": [], "n_chains": [], "clamp": [],
        "init": [], "return_log_prob": [], "return_state": [], "n_jobs": [],
    },
    estimate_log_partition: {
        "method": [], "n_chains": [], "n_betas": [], "n_samples": [], "clamp": [], "n_jobs": [],
    },
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_wrong_energies(function):
    for wrong in [None, *WRONG]:
        with pytest.raises(TypeError, match=r"^energy must be an energy such as RBMEnergy, got "):
            function(wrong)


@pytest.mark.parametrize(
    ("function", "argument"),
    [(f, a) for f, names in ARGUMENTS.items() for a in names],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_wrong_arguments(function, argument):
    valid = ARGUMENTS[function][argument]
    for wrong in WRONG:
        if isinstance(wrong, np.ndarray) and wrong.tolist() in (valid, *valid):
            continue
        options = FUNCTIONS[function].get(argument, {})
        with pytest.raises((ValueError, TypeError)) as caught:
            function(ENERGY, **{**options, argument: wrong})
        text = str(caught.value)
        assert argument in text or (argument == "n_best" and "best_states" in text), text
        assert "ambiguous" not in text
        assert "unhashable" not in text


def test_wrong_answers_of_available_methods():
    for wrong in ([["marginals"]], [np.array([1])], 3.5, [None], ["marginal"]):
        with pytest.raises(ValueError, match=r"^returns must contain one or more of"):
            available_methods(ENERGY, wrong)


@pytest.mark.parametrize("answer", ["map_bound", "map", "marginal_map"])
def test_methods_for_bounds(answer):
    """The listed methods, and no others, answer."""
    energy = RBMEnergy([[1.0, 2.0]] * 2, [0.0, 1.0], [0.5, 0.0])
    listed = available_methods(energy, answer)
    for name in available_methods(energy):
        if name in listed:
            found = infer(energy, name, returns=answer)
            assert (found.map_bound is not None) == (answer == "map_bound")
        else:
            with pytest.raises(ValueError, match=f"(?s){name}"):
                infer(energy, name, returns=answer)
    assert ("dual_decomposition" in listed) == (answer != "map")


def test_every_ising_model_has_the_methods_of_its_kind():
    """A method that serves sparse couplings serves a matrix, and the other way round."""
    assert available_methods(ENERGY) == available_methods(ENERGY.as_sparse())
    assert infer(ENERGY, "max_product").assignment.shape == (1, 2)


ENERGIES = {
    "RBM": RBMEnergy([[1.0, 2.0]] * 2, [0.0, 1.0], [0.5, 0.0]),
    "one-hot RBM": OneHotRBMEnergy([[1.0, 2.0]] * 2, [0.0, 1.0], [0.5, 0.0]),
    "Ising": ENERGY,
    "sparse Ising": ENERGY.as_sparse(),
    "graph": FactorGraphEnergy([TableFactors([[0, 1]], np.eye(2))]),
    "states": FactorGraphEnergy([TableFactors([[0, 1]], np.eye(3))]),
}
RAGGED = [[1, 2], [3]]


@pytest.mark.parametrize("kind", ENERGIES)
def test_wrong_arguments_of_energies(kind):
    energy = ENERGIES[kind]
    for wrong in (None, 3.5, -2, "a", [0.5], np.array([1.0, 2.0]), RAGGED, object(), 10**30):
        with pytest.raises(ValueError, match="index must"):
            energy.rows(wrong)
        for scaled in (energy.scaled, energy.tempered):
            if isinstance(wrong, (float, int)) and wrong > 0:
                continue
            with pytest.raises(ValueError, match="beta must be a finite number"):
                scaled(wrong)
    for method, name in (
        (energy.score, "states"), (energy.statistics, "states"), (energy.log_weight, "visible"),
        (energy.log_weight_of_sets, "visible_sets"), (energy.condition, "clamp"),
        (lambda x: energy.with_fields(*(x for _ in energy.fields)), "fields"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} must"):
            method(RAGGED)
    one = energy.rows(0)
    assert one.n_models == 1
    for index in ([0], np.array([True]), slice(1), -1):
        np.testing.assert_array_equal(one.fields[0], energy.rows(index).fields[0])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: IsingEnergy.from_edges(RAGGED, 1.0, [0, 0]), "edges"),
        (lambda: IsingEnergy.from_edges([[0, 1]], RAGGED, [0, 0]), "weights"),
        (lambda: IsingEnergy.from_edges([[0, 1]], 1.0, RAGGED), "field"),
        (lambda: IsingEnergy.from_ising(3.5, {}), "h"),
        (lambda: IsingEnergy.from_ising({"a": "1"}, {}), "h"),
        (lambda: IsingEnergy.from_ising({0: 1.0}, {(0, 1): 1j}), "J"),
        (lambda: IsingEnergy.from_ising({0: 1.0}, {}, None), "offset"),
        (lambda: IsingEnergy.from_ising({0: 1.0}, {}, np.nan), "offset"),
        (lambda: IsingEnergy.from_networkx(None), "graph"),
        (lambda: IsingEnergy.from_triangle(RAGGED), "triangle"),
        (lambda: ENERGY.to_ising(3.5), "model"),
        (lambda: FactorGraphEnergy.from_tables(3.5, []), "scopes"),
        (lambda: FactorGraphEnergy.from_tables([[0]], 3.5), "log_potentials"),
        (lambda: FactorGraphEnergy([], RAGGED), "field"),
        (lambda: FactorGraphEnergy([], n_states=RAGGED), "n_states"),
        (lambda: FactorGraphEnergy([], n_variables=-1), "n_variables"),
        (lambda: ENERGIES["graph"].unflatten(RAGGED), "flat"),
        (lambda: write_uai_solution(np.array([1, 2]), [0]), "task"),
        (lambda: infer(ENERGY, BPChain(order=RAGGED), returns="samples"), "order"),
    ],
)
def test_names_in_errors(make, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        make()


def test_options_of_small_types():
    """Options such as np.int8(100) count as the numbers of Python."""
    for method, answer, options in (
        (Gibbs, "samples", {"burn_in": 120, "n_chains": 3, "thin": 2}),
        (AnnealedImportanceSampling, "log_partition", {"n_chains": 100, "n_betas": 5}),
        (SumProduct, "marginals", {"max_iter": 100}),
    ):
        random = {"random_state": 0} if "random_state" in vars(method()) else {}
        small = {name: np.int8(value) for name, value in options.items()}
        for found in (
            infer(ENERGY, method(**small, **random), returns=answer),
            infer(ENERGY, method.name, returns=answer, **small, **random),
        ):
            expected = infer(ENERGY, method(**options, **random), returns=answer)
            np.testing.assert_array_equal(getattr(found, answer), getattr(expected, answer))
