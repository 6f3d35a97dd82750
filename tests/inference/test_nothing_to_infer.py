"""Models without models, variables, factors or a choice of states, in every method."""

import warnings

import numpy as np
import pytest
from reference.budgets import short

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    OneHotRBMEnergy,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference import available_methods, infer
from skcrbm.inference.registry import METHODS
from skcrbm.utils.categorical import OutputUnits

zeros = np.zeros


def rbm(v, h, kind=RBMEnergy, *more):
    return lambda n: kind(zeros((v, h)), zeros((n, v)), zeros((n, h)), *more)


def graph(*shape, factors=(), **options):
    return lambda n: FactorGraphEnergy(list(factors), zeros((n, *shape)), **options)


# Name: function of the number of models, and log Z.
MODELS = {
    "Ising": (lambda n: IsingEnergy(zeros((0, 0)), zeros((n, 0))), 0),
    "sparse Ising": (lambda n: SparseIsingEnergy(zeros((0, 0)), zeros((n, 0))), 0),
    "RBM without visible units": (rbm(0, 2), 2 * np.log(2)),
    "RBM without hidden units": (rbm(2, 0), 2 * np.log(2)),
    "RBM without units": (rbm(0, 0), 0),
    "one class": (rbm(1, 0, OneHotRBMEnergy), 0),
    "classes without hidden units": (rbm(3, 0, OneHotRBMEnergy), np.log(3)),
    "no outputs": (rbm(0, 2, GroupedRBMEnergy, OutputUnits(())), 2 * np.log(2)),
    "outputs without hidden units": (rbm(3, 0, GroupedRBMEnergy, OutputUnits((3,))), np.log(3)),
    "no variables": (graph(0), 0),
    "no variables, three states": (graph(0, 3), 0),
    "no variables, list of states": (graph(0, 3, n_states=[]), 0),
    "no factors": (graph(2), 2 * np.log(2)),
    "no factors, three states": (graph(2, 3), 2 * np.log(3)),
    "one state": (graph(2, 1, n_states=1), 0),
    "one state and two": (
        graph(2, 2, factors=[TableFactors([[0, 1]], zeros((1, 1, 2)))]),
        np.log(2),
    ),
    "a table": (graph(2, factors=[TableFactors([[0, 1]], zeros(4))]), 2 * np.log(2)),
}


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("n_models", [2, 1, 0])
@pytest.mark.parametrize("kind", MODELS)
def test_every_method(kind, n_models):
    """No warning and no error; log Z is the logarithm of the number of states."""
    make, log_z = MODELS[kind]
    energy = make(n_models)
    free = np.full((n_models, energy.n_variables), np.nan)
    for method in available_methods(energy):
        for answer in sorted(METHODS.get(method)().supports(energy)):
            for clamp in (None, free):
                forms = ("sum", "per_example") if answer == "statistics" else ("sum",)
                for pairwise in forms:
                    with warnings.catch_warnings():
                        warnings.simplefilter("error")
                        found = infer(
                            energy,
                            method,
                            returns=answer,
                            clamp=clamp,
                            pairwise=pairwise,
                            **short(method, answer),
                        )
                    assert found.converged.shape == (n_models,)
                    if answer == "marginals":
                        assert found.marginals.shape == energy.belief_shape
                        assert np.isfinite(found.marginals).all()
                    if answer == "log_partition" and method in ("exact", "sum_product"):
                        np.testing.assert_allclose(found.log_partition, log_z, atol=1e-9)
                    if answer == "statistics":
                        leading = (n_models,) if pairwise == "per_example" else ()
                        shapes = tuple((*leading, *s) for s in energy.statistic_shapes)
                        assert tuple(part.shape for part in found.statistics) == shapes


@pytest.mark.parametrize(
    "make",
    [
        lambda f: RBMEnergy(zeros((0, 3)), zeros((4, 0)), f),
        lambda f: RBMEnergy(zeros((3, 0)), f, zeros((4, 0))),
        lambda f: RBMEnergy(zeros((1, 2)), f[:, :1], f[:, 1:]),
        lambda f: IsingEnergy(zeros((3, 3)), f / 2),
        lambda f: SparseIsingEnergy(zeros((3, 3)), f / 2),
        lambda f: FactorGraphEnergy([], f),
        lambda f: FactorGraphEnergy([], np.stack([zeros((4, 3)), f], axis=2)),
    ],
)
def test_fields_alone(make):
    """Every method returns the fields of variables without couplings as log-odds."""
    field = np.random.default_rng(0).normal(size=(4, 3))
    energy = make(field)
    for method in available_methods(energy):
        answers = METHODS.get(method)().supports(energy)
        for answer in sorted({"marginals", "map", "samples"} & answers):
            found = infer(energy, method, returns=answer, **short(method, answer))
            if answer == "samples":
                assert found.samples.shape == (4, 2, 3)
            elif answer == "map":
                np.testing.assert_array_equal(found.assignment, field > 0)
            elif not METHODS.get(method)().is_random:
                on = found.marginals if found.marginals.ndim == 2 else found.marginals[:, :, 1]
                np.testing.assert_allclose(on, 1 / (1 + np.exp(-field)), rtol=1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_members(kind):
    energy = MODELS[kind][0](2)
    states = np.zeros((2, energy.n_variables))
    if hasattr(energy, "units") and energy.n_visible:
        states[:, 0] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(energy.score(states), 0)
        assert energy.log_weight(states[:, : energy.n_visible]).shape == (2,)
        assert len(energy.visible_log_odds(states[:, : energy.n_visible])) == 2
        energy.statistics(states)
    with pytest.raises(ValueError, match="states must have at least one row"):
        energy.statistics(states[:0])


def test_no_classes():
    with pytest.raises(ValueError, match="weights must have a row for each class"):
        OneHotRBMEnergy(zeros((0, 2)), zeros(0), zeros(2))
