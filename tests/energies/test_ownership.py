"""Energies own their arrays: changes of the caller's arrays after construction change nothing."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    LayeredEnergy,
    LayeredStructure,
    OneHotRBMEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.inference import available_methods, infer
from skcrbm.inference.registry import METHODS
from skcrbm.layers import Dense
from skcrbm.utils.categorical import OutputUnits

COUPLING = [[0, 1, 0.5], [1, 0, -1], [0.5, -1, 0]]
PAIRS, EDGES = [[0, 1, 2, 0.5]], [[0, 1], [1, 2]]
RBM = ([[1.0, -1.0], [0.5, 2.0], [0.3, 0.1]], [[0.1, 0.2, 0.3]] * 2, [[0.4, -0.5]] * 2)
LAYERS = LayeredStructure([Dense(1)], (2,), 2, 1, 3)


def logic(inputs, outputs, ands, ends, field):
    return FactorGraphEnergy([OrFactors(inputs, outputs), AndFactors(ands, ends)], field)


def conditioned(*arrays):
    return IsingEnergy(COUPLING, np.zeros((2, 3))).condition(*arrays)


def with_fields(*arrays):
    return RBMEnergy(*RBM).with_fields(*arrays)


# Name: function of arrays that returns an energy, and the arrays.
MAKE = {
    "RBM": (RBMEnergy, RBM),
    "one-hot RBM": (OneHotRBMEnergy, RBM),
    "grouped RBM": (lambda *parts: GroupedRBMEnergy(*parts, OutputUnits((3,))), RBM),
    "Ising": (IsingEnergy, (COUPLING, [[0.1, 0.2, 0.3]] * 2)),
    "Ising, one row": (IsingEnergy, (COUPLING, [0.1, 0.2, 0.3])),
    "sparse Ising": (SparseIsingEnergy, (COUPLING, [[0.1, 0.2, 0.3]] * 2)),
    "edges": (IsingEnergy.from_edges, (EDGES, [1.0, 2.0], [[0.1, 0.2, 0.3]] * 2)),
    "triangle": (IsingEnergy.from_triangle, (np.triu(COUPLING), [[0.1, 0.2, 0.3]] * 2)),
    "factor graph": (
        lambda scopes, tables, field: FactorGraphEnergy([TableFactors(scopes, tables)], field),
        (EDGES, [[0.1, 0.2, 0.3, -1.0]] * 2, [[0.1, 0.2, 0.3]] * 2),
    ),
    "states": (
        lambda scopes, tables, field, n: FactorGraphEnergy(
            [TableFactors(scopes, tables)], field, n_states=n
        ),
        (EDGES, np.ones((2, 3, 3)), np.ones((2, 3, 3)), [3, 3, 3]),
    ),
    "tables": (
        lambda a, b, x, y, field: FactorGraphEnergy.from_tables([a, b], [x, y], field),
        ([0, 1], [1, 2], [0.1, 0.2, 0.3, -1.0], [[1.0, 2.0], [0.5, 0.1]], [0.1, 0.2, 0.3]),
    ),
    "logic": (logic, (np.array([[0, 1]]), [2], np.array([[0, 2]]), [3], [[0.1, 0.2, 0.3, 0.4]])),
    "layered": (
        lambda w, field, unaries: LayeredEnergy(LAYERS, [w], field, unaries),
        ([1.0, 2.0], [[0.0, -1.0, 0.5]] * 2, [0.1, 0.2, 0.3]),
    ),
    "log-potentials": (
        FactorGraphEnergy([TableFactors(EDGES, [0.1, 0.2, 0.3, -1.0])]).with_log_potentials,
        (np.arange(8.0),),
    ),
    "edge couplings": (IsingEnergy.from_edges(EDGES, 1.0, [0.1, 0.2, 0.3]).with_edge_coupling,
                       ([1.0, 2.0],)),
    "fields": (with_fields, ([[0.1, 0.2, 0.3]] * 3, [[0.4, -0.5]] * 3)),
    "evidence": (conditioned, ([[0.0, np.nan, 1.0]] * 2,)),
}  # fmt: skip


def contents(energy):
    """All arrays of an energy, and scores of states."""
    states = np.zeros((energy.n_models, energy.n_variables), int)
    states[:, 0] = 1
    extra = [getattr(energy, name, None) for name in ("unaries", "n_states", "edges", "evidence")]
    return [
        np.array(part)
        for part in (*energy.fields, *energy.couplings, energy.score(states), *extra)
        if part is not None
    ]


@pytest.mark.parametrize("container", [np.array, pd.DataFrame, np.float32])
@pytest.mark.parametrize("kind", MAKE)
def test_changed_arrays(kind, container):
    make, parts = MAKE[kind]
    arrays = [np.array(part) for part in parts]
    if container is np.float32:
        arrays = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays]
    given = arrays
    if container is pd.DataFrame:
        given = [pd.DataFrame(a) if a.ndim == 2 and a.dtype.kind == "f" else a for a in arrays]
        given = [a if isinstance(a, np.ndarray) or np.shares_memory(a, b) else b
                 for a, b in zip(given, arrays, strict=True)]  # fmt: skip
    energy = make(*given)
    before = contents(energy)
    for array in arrays:
        array[...] = 0 if array.dtype.kind == "i" else 7
    for one, two in zip(before, contents(energy), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dok", "lil"])
@pytest.mark.parametrize("make", [IsingEnergy, SparseIsingEnergy, IsingEnergy.from_triangle])
def test_changed_sparse_matrices(make, form):
    full = np.triu(COUPLING) if make == IsingEnergy.from_triangle else np.array(COUPLING)
    matrix = sparse.coo_array(full).asformat(form)
    energy = make(matrix)
    before = contents(energy)
    np.testing.assert_array_equal(matrix.toarray(), full)  # the argument does not change either
    if hasattr(matrix, "data") and isinstance(matrix.data, np.ndarray) and form != "lil":
        matrix.data[:] = 7
    for one, two in zip(before, contents(energy), strict=True):
        np.testing.assert_array_equal(one, two)


def test_infer_changes_no_argument():
    coupling, field = np.array(COUPLING), np.array([[0.1, 0.2, 0.3]] * 2)
    clamp, weight = np.array([np.nan, 1.0, np.nan]), np.ones(2)
    copies = [part.copy() for part in (coupling, field, clamp, weight)]
    infer(IsingEnergy(coupling, field), clamp=clamp, sample_weight=weight, returns="pairwise")
    for one, two in zip(copies, (coupling, field, clamp, weight), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("order", ["<f4", ">f4", "<f8", ">f8", "f2"])
def test_byte_orders(order):
    """The byte order of an array does not change the precision."""
    expected = np.float64 if "8" in order else np.float32
    for kind in ("RBM", "Ising", "factor graph", "states", "layered", "edges"):
        make, parts = MAKE[kind]
        arrays = [np.array(p) for p in parts]
        energy = make(*(a.astype(order) if a.dtype.kind == "f" else a for a in arrays))
        assert energy.dtype == expected
        assert all(part.dtype.isnative for part in (*energy.fields, *energy.couplings))
        found = infer(energy, "exact").marginals
        np.testing.assert_allclose(found, infer(make(*arrays), "exact").marginals, atol=1e-3)


@pytest.mark.parametrize("kind", MAKE)
def test_arrays_that_are_not_real(kind):
    """Masked entries, complex numbers, texts and dates are errors in every argument."""
    make, parts = MAKE[kind]
    for j, part in enumerate(parts):
        array = np.array(part)
        masked = np.ma.array(array, mask=np.zeros(array.shape, bool))
        masked[(0,) * array.ndim] = np.ma.masked
        for wrong in (
            masked, array.astype(complex), array.astype(str), array.astype(str).tolist(),
            array.astype("m8[s]"), None if array.ndim > 1 else "ab",
        ):  # fmt: skip
            if wrong is None:  # the default of several arguments
                continue
            with pytest.raises(ValueError, match=r"must (be|hold)"):
                make(*parts[:j], wrong, *parts[j + 1 :])


@pytest.mark.parametrize("form", [tuple, np.asmatrix, memoryview, "frame", "object"])
@pytest.mark.parametrize("kind", MAKE)
def test_containers(kind, form):
    make, parts = MAKE[kind]
    expected = contents(make(*parts))
    for j, part in enumerate(parts):
        array = np.array(part)
        if form is np.asmatrix and array.ndim != 2:
            continue
        if form == "frame":
            given = {1: pd.Series, 2: pd.DataFrame}.get(array.ndim, np.array)(array)
        elif form == "object":
            given = array.astype(object if array.dtype.kind == "f" else array.dtype)
        else:
            given = form(array.tolist() if form is tuple else array)
        found = contents(make(*parts[:j], given, *parts[j + 1 :]))
        for one, two in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, two)


def test_masked_states():
    states = np.ma.array([[0, 1, 1]], mask=[[True, False, False]])
    for energy in (RBMEnergy([[1.0]] * 2, [0, 0], [0]), IsingEnergy(COUPLING, [0.1, 0.2, 0.3]),
                   FactorGraphEnergy([TableFactors(EDGES, np.eye(3))])):  # fmt: skip
        for ask in (energy.score, energy.statistics):
            with pytest.raises(ValueError, match="states must not have masked entries"):
                ask(states)


@pytest.mark.parametrize("kind", ["RBM", "one-hot RBM", "Ising", "sparse Ising", "factor graph"])
def test_infer_changes_no_earlier_result(kind):
    """A method that continues from a result leaves the result as it is."""
    make, parts = MAKE[kind]
    energy = make(*parts)
    continued = set()
    for name in available_methods(energy):
        method = METHODS.get(name)
        if "init" not in method.accepts:
            continue
        options = {"random_state": 0} if method().is_random else {}
        if "max_iter" in vars(method()):
            options["max_iter"] = 4
        if "return_state" in method.accepts:
            options["return_state"] = True
        for answer in sorted(method().supports(energy) & {"marginals", "samples", "map"}):
            first = infer(energy, name, returns=answer, **options)
            before = pickle.dumps(first)
            one = infer(energy, name, returns=answer, init=first, **options)
            assert pickle.dumps(first) == before, (name, answer)
            two = infer(energy, name, returns=answer, init=first, **options)
            np.testing.assert_array_equal(pickle.dumps(one), pickle.dumps(two))
            continued.add(name)
    assert "gibbs" in continued
