"""Ising models: storage of couplings, choice of the kernel."""

import pickle

import numpy as np
import pytest
from reference.dtypes import DTYPES
from reference.energy_cases import make_ising

from skcrbm.datasets import make_ising_lattice
from skcrbm.decoding import decoders_for
from skcrbm.energies import FactorGraphEnergy, IsingEnergy, SparseIsingEnergy, TableFactors
from skcrbm.energies._conversions import _kept_graph
from skcrbm.inference import (
    InferenceResult,
    MeanField,
    PerturbAndMaxProduct,
    SumProduct,
    TreeReweighted,
    available_methods,
    infer,
    sample,
)
from skcrbm.inference.ising import mean_field, messages
from skcrbm.inference.registry import METHODS
from skcrbm.inference.search import roof_dual

# Answers of a solver that does not draw random numbers.
ANSWERS = ["marginals", "log_partition", "map", "map_bound"]


def random_evidence(energy, seed=0):
    rng = np.random.default_rng(seed)
    shape = energy.n_models, energy.n_variables
    return energy.condition(rng.choice([np.nan, np.nan, 0, 1], shape))


def both_storages(energy):
    other = energy.as_sparse()
    assert (energy.couplings_are_sparse, other.couplings_are_sparse) == (False, True)
    return energy, other


# --------------------------------------------------------------------- storage


@pytest.mark.parametrize("dtype", DTYPES)
def test_storages_hold_the_same_model(dtype):
    dense = random_evidence(make_ising(0, 4, 1.0, dtype, 6, edges=np.tri(6, k=2)))
    dense, sparse = both_storages(dense)
    assert sparse.dtype == dtype
    np.testing.assert_array_equal(sparse.evidence, dense.evidence)
    np.testing.assert_array_equal(sparse.coupling_matrix(), dense.coupling)
    np.testing.assert_array_equal(sparse.coupling.toarray(), dense.coupling)
    for name in ("edges", "edge_coupling"):
        np.testing.assert_array_equal(getattr(dense, name), getattr(sparse, name))
    for own, other in zip(dense.neighbours, sparse.neighbours, strict=True):
        np.testing.assert_array_equal(own, other)
    for own, other in zip(dense.coupling_lists(), sparse.coupling_lists(), strict=True):
        np.testing.assert_array_equal(own, other)
    weights = np.arange(len(dense.edges), dtype=dtype)
    again = dense.with_edge_coupling(weights)
    assert not again.couplings_are_sparse
    np.testing.assert_array_equal(
        again.coupling, sparse.with_edge_coupling(weights).coupling_matrix()
    )
    assert sparse.as_sparse() is sparse


def test_the_argument_chooses_the_storage():
    matrix = np.array([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]])
    sparse = SparseIsingEnergy(matrix)
    assert type(sparse) is IsingEnergy
    assert len(sparse.edges) == 1
    assert IsingEnergy(sparse.coupling).couplings_are_sparse
    assert not IsingEnergy(matrix).couplings_are_sparse
    np.testing.assert_array_equal(IsingEnergy(matrix).field, np.zeros((1, 3)))
    assert isinstance(sparse, SparseIsingEnergy)
    assert not isinstance(IsingEnergy(matrix), SparseIsingEnergy)
    assert "map" in decoders_for(SparseIsingEnergy)


def test_a_matrix_that_is_too_large_is_refused():
    energy = SparseIsingEnergy.from_edges([[0, 1]], 1.0, np.zeros(12_000))
    with pytest.raises(ValueError, match="use 'map_search', 'icm' or 'simulated_annealing'"):
        infer(energy, "branch_and_bound")


# --------------------------------------------------------------------- methods


def test_both_storages_have_the_same_methods():
    dense, sparse = both_storages(make_ising(0, 1, 1.0, np.float64))
    assert available_methods(dense) == available_methods(sparse)
    assert "max_product" in available_methods(dense)
    assert {"branch_and_bound", "milp"} <= set(available_methods(sparse))


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("method", ["max_product", "branch_and_bound", "milp", "tree_reweighted"])
def test_methods_without_a_choice_by_storage(method, held):
    energy = make_ising(3, 3, 0.7, np.float64, 7)
    dense, sparse = both_storages(random_evidence(energy) if held else energy)
    for answer in set(ANSWERS) & METHODS.get(method)().supports(dense):
        one, other = (infer(energy, method, returns=answer) for energy in (dense, sparse))
        if answer == "map_bound":  # which is the score of the best state, in the order of the sums
            np.testing.assert_allclose(one.map_bound, other.map_bound, rtol=1e-14)
            continue
        name = "assignment" if answer == "map" else answer
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def banded(n_labels, width, n_models=2):
    """Return models in which each label is coupled with the next `width` labels."""
    rng = np.random.default_rng(n_labels)
    size = n_labels, n_labels
    upper = np.triu(rng.normal(size=size), 1) * np.tri(*size, k=width)
    return IsingEnergy(upper + upper.T, rng.normal(size=(n_models, n_labels)))


@pytest.mark.parametrize("pairwise", ["sum", "per_example"])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    ("method", "shape"),
    [("exact", shape) for shape in ((40, 1), (14, 2), (9, 8))]
    + [("sum_product", shape) for shape in ((9, 1), (50, 2), (45, 44))],
)
def test_the_shape_chooses_and_not_the_storage(shape, method, held, pairwise):
    """There are models on both sides of each threshold."""
    energy = banded(*shape)
    dense, sparse = both_storages(random_evidence(energy, 1) if held else energy)
    options = {"returns": ("marginals", "statistics", "log_partition"), "pairwise": pairwise}
    one, other = (infer(x, method, **options) for x in (dense, sparse))
    np.testing.assert_array_equal(one.marginals, other.marginals)
    np.testing.assert_array_equal(one.log_partition, other.log_partition)
    i, k = sparse.edges.T
    np.testing.assert_allclose(one.pairwise[..., i, k], other.pairwise, atol=1e-12)
    assert (dense.n_enumerated(), dense.max_enumerated) == (
        sparse.n_enumerated(), sparse.max_enumerated
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "options", "answer"),
    [
        ("icm", {}, "assignment"),
        ("gibbs", {"max_iter": 5, "burn_in": 0}, "log_odds"),
        ("gibbs_with_gradients", {"max_iter": 5, "burn_in": 0}, "log_odds"),
        ("perturb_and_max_product", {"max_iter": 5}, "samples"),
        ("ais", {"n_betas": 5}, "log_partition"),
    ],
)
@pytest.mark.parametrize("shape", [(9, 8), (50, 2), (45, 44)])
def test_samplers_do_not_choose_by_storage(shape, method, options, answer):
    dense, sparse = both_storages(random_evidence(banded(*shape, n_models=9), 1))
    returns = {"assignment": "map", "log_odds": "marginals"}.get(answer, answer)
    one, other = (
        infer(x, method, returns=returns, random_state=0, **options) for x in (dense, sparse)
    )
    np.testing.assert_allclose(getattr(one, answer), getattr(other, answer), rtol=1e-9)


def test_exact_eliminates_a_chain_that_is_a_matrix():
    """Sum-product messages are exact on a chain; a narrow band of few labels is enumerated."""
    chain = banded(40, 1)
    returns = ("marginals", "statistics", "log_partition", "map")
    found = infer(chain, "exact", returns=returns)
    messages_of_chain = infer(chain, "sum_product", tol=1e-13, returns=returns[:3])
    np.testing.assert_allclose(found.marginals, messages_of_chain.marginals, atol=1e-10)
    np.testing.assert_allclose(found.log_partition, messages_of_chain.log_partition, rtol=1e-12)
    np.testing.assert_allclose(found.pairwise, messages_of_chain.pairwise, atol=1e-9)
    best = infer(chain, "max_product", max_iter=100).assignment
    np.testing.assert_array_equal(found.assignment, best)
    assert sample(chain, "exact", random_state=0).shape == (2, 1, 40)


@pytest.mark.parametrize("held", [False, True])
def test_statistics_of_a_matrix_after_an_elimination(held, monkeypatch):
    """The labels of pairs without a coupling depend on each other, too."""
    energy = random_evidence(banded(13, 2), 3) if held else banded(13, 2)
    found = []
    for cheaper in (True, False):
        monkeypatch.setattr(IsingEnergy, "elimination_is_cheaper", cheaper)
        found.append(infer(energy, "exact", returns="statistics", pairwise="per_example").pairwise)
    np.testing.assert_allclose(*found, atol=1e-13)


# ------------------------------------------------------------- choice of the kernel


@pytest.mark.parametrize(
    ("n_models", "n_labels", "damping", "side_by_side"),
    [
        (1, 6, 0.0, True),
        (2000, 14, 0.0, True),
        (500, 30, 0.5, True),
        (2000, 6, 0.3, False),
        (7, 60, 0.0, False),
        (100, 60, 0.0, True),
        (16, 100, 0.0, False),
        (16, 200, 0.0, False),
        (16, 200, 0.5, True),
    ],
)
def test_shapes_choose_the_kernel(n_models, n_labels, damping, side_by_side):
    edge = np.zeros((n_labels, n_labels))
    assert bool(messages._n_lanes(n_models, edge, damping, 10.0)) == side_by_side
    assert messages._n_lanes(n_models, edge, damping, 301.0) == 0  # odds out of range


def with_kernel(monkeypatch, n_lanes, ask):
    with monkeypatch.context() as patch:
        patch.setattr(messages, "_n_lanes", lambda *args: n_lanes)
        return ask()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("n_lanes", [1, 8, 50])
def test_models_side_by_side_or_one_after_the_other(monkeypatch, dtype, damping, held, n_lanes):
    energy = make_ising(4, 21, 0.6, dtype, 7)
    energy = random_evidence(energy) if held else energy
    method = SumProduct(damping=damping, max_iter=25)

    def ask():
        wanted = {"marginals", "statistics", "log_partition"}
        first = infer(energy, method, returns=wanted, return_state=True, return_trace=True)
        further = infer(energy, method, init=first, pairwise="per_example", returns=wanted)
        beliefs = InferenceResult(log_odds=0.9 * first.log_odds)
        return first, further, infer(energy, method, init=beliefs)

    one = with_kernel(monkeypatch, 0, ask)
    other = with_kernel(monkeypatch, n_lanes, ask)
    tolerance = 2e-6 if dtype == np.float32 else 1e-13
    for own, found in zip(one, other, strict=True):
        np.testing.assert_allclose(found.marginals, own.marginals, atol=tolerance)
        if own.statistics is not None:
            np.testing.assert_allclose(found.pairwise, own.pairwise, atol=20 * tolerance)
            np.testing.assert_allclose(found.log_partition, own.log_partition, atol=9 * tolerance)
        if dtype == np.float64:
            np.testing.assert_array_equal(found.n_iter, own.n_iter)
            np.testing.assert_array_equal(found.converged, own.converged)
    if dtype == np.float64:
        np.testing.assert_allclose(other[0].trace, one[0].trace, atol=tolerance)
    assert one[0].converged.any()


def test_a_state_goes_from_a_kernel_to_the_other(monkeypatch):
    energy = make_ising(5, 12, 0.3, np.float64, 6)
    ask = SumProduct(max_iter=40, tol=1e-10)
    started = {
        n: with_kernel(monkeypatch, n, lambda: infer(energy, ask, return_state=True))
        for n in (0, 8)
    }
    for n, state in ((0, started[8]), (8, started[0])):
        again = with_kernel(monkeypatch, n, lambda state=state: infer(energy, ask, init=state))
        assert again.n_iter.max() <= 2
        np.testing.assert_allclose(again.marginals, state.marginals, atol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 60.0])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("storage", [IsingEnergy, SparseIsingEnergy])
def test_tree_reweighted_of_a_complete_graph(monkeypatch, storage, held, damping, scale):
    """Both kernels reach the same point; strong couplings need logarithms."""
    energy = make_ising(4, 9, 0.1, np.float64, 6)
    energy = storage(scale * np.abs(energy.coupling), 3 * scale * energy.field)
    energy = random_evidence(energy) if held else energy
    method = TreeReweighted(tol=1e-12, max_iter=3000, damping=damping)
    found = []
    for most in (3, 1000):
        monkeypatch.setattr(messages, "_MOST_IN_LANES", most)
        found.append(infer(energy, method, returns=("marginals", "statistics"), return_state=True))
        assert found[-1].converged.all()
    np.testing.assert_allclose(found[0].marginals, found[1].marginals, atol=1e-9)
    np.testing.assert_allclose(found[0].pairwise, found[1].pairwise, atol=1e-8)
    assert found[0].state.values.shape != found[1].state.values.shape
    monkeypatch.setattr(messages, "_MOST_IN_LANES", 3)
    for start in found:  # the beliefs of a state of the other kernel are enough
        again = infer(energy, method, init=start)
        np.testing.assert_allclose(again.marginals, found[0].marginals, atol=1e-9)
    assert (infer(energy, method, init=found[0]).n_iter <= 3).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("storage", [IsingEnergy, SparseIsingEnergy])
def test_mean_field_of_a_matrix_and_of_a_graph(monkeypatch, storage, held, dtype):
    energy = make_ising(4, 21, 0.6, dtype, 7)
    energy = storage(energy.coupling, energy.field)
    energy = random_evidence(energy) if held else energy
    wanted = {"marginals", "statistics", "log_partition"}
    results = []
    for side_by_side in (False, True):
        monkeypatch.setattr(mean_field, "_side_by_side", lambda *args, s=side_by_side: s)
        method = MeanField(max_iter=9)
        first = infer(energy, method, returns=wanted, return_state=True, return_trace=True)
        further = infer(energy, method, init=first, pairwise="per_example", returns=wanted)
        results.append((first, further))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for one, other in zip(*results, strict=True):
        for name in ("marginals", "log_odds", "pairwise", "log_partition"):
            own, found = getattr(one, name), getattr(other, name)
            np.testing.assert_allclose(found, own, rtol=tolerance, atol=tolerance)
        if dtype == np.float64:
            np.testing.assert_array_equal(other.n_iter, one.n_iter)
            np.testing.assert_array_equal(other.converged, one.converged)
    np.testing.assert_allclose(results[1][0].trace, results[0][0].trace, atol=tolerance)


@pytest.mark.parametrize("n_lanes", [8, 32])
def test_a_model_does_not_depend_on_its_neighbours(n_lanes, monkeypatch):
    energy = make_ising(6, 40, 0.8, np.float64, 5)
    whole = with_kernel(monkeypatch, n_lanes, lambda: infer(energy, "sum_product"))
    alone = with_kernel(monkeypatch, n_lanes, lambda: infer(energy.rows([17]), "sum_product"))
    np.testing.assert_allclose(alone.marginals[0], whole.marginals[17], rtol=1e-15)
    assert alone.n_iter[0] == whole.n_iter[17]


@pytest.mark.parametrize("scale", [1.0, 60.0, 400.0])
def test_strong_models_are_finite_in_both_storages(scale):
    """On a tree all forms of messages are exact."""
    chain = np.diag(np.full(4, scale), 1)
    fields = scale * np.random.default_rng(1).normal(0, 1, (9, 5))
    dense, sparse = both_storages(IsingEnergy(chain + chain.T, fields))
    exact = infer(FactorGraphEnergy.from_energy(dense), "exact", returns={"marginals", "map"})
    for energy in (dense, sparse):
        found = infer(energy, "sum_product")
        np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-9)
        best = infer(energy, "max_product").assignment
        np.testing.assert_allclose(energy.score(best), energy.score(exact.assignment))


# --------------------------------------------------------------- perturbed maxima


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_perturbed_maxima_of_a_matrix_and_of_edges(dtype, held):
    """Sample i of a model has random numbers of its own, whatever the number of samples."""
    energy = make_ising(7, 1, 0.5, dtype, 6)
    dense, sparse = both_storages(random_evidence(energy, 2) if held else energy)
    method = PerturbAndMaxProduct(random_state=0)
    few, many = (sample(dense, method, n_samples=n) for n in (3, 12))
    np.testing.assert_array_equal(few[0], many[0, :3])
    np.testing.assert_array_equal(many, sample(sparse, method, n_samples=12))


def test_perturbed_maxima_go_on_if_couplings_become_nonzero():
    """The messages of a matrix belong to all pairs, so that learning may start from zeros."""
    method = PerturbAndMaxProduct(random_state=0)
    energy = make_ising(8, 1, 0.5, np.float64, 5)
    for n_samples in (3, 12):
        zeros = energy.scaled(0.0)
        first = infer(zeros, method, returns="samples", n_samples=n_samples, return_state=True)
        further = infer(energy, method, returns="samples", n_samples=n_samples, init=first)
        assert further.samples.shape == (1, n_samples, 5)


# ------------------------------------------------------------------ linear programs


@pytest.mark.parametrize(
    ("shape", "by_highs"), [((10, 10), False), ((11, 10), True), ((3, 3), False)]
)
def test_shapes_choose_the_solver_of_a_linear_program(monkeypatch, shape, by_highs):
    """The choice does not depend on the storage."""
    called = []
    solve = roof_dual.solve_linear_program
    monkeypatch.setattr(
        roof_dual, "solve_linear_program", lambda *args: called.append(args) or solve(*args)
    )
    lattice = make_ising_lattice(shape, 0.5, periodic=False)
    rng = np.random.default_rng(0)
    lattice = lattice.with_fields(rng.normal(0, 0.3, (2, lattice.n_variables)))
    dense = IsingEnergy(lattice.coupling_matrix(), lattice.field)
    one, other = (infer(energy, "linear_program") for energy in (lattice, dense))
    assert len(called) == (2 if by_highs else 0)
    np.testing.assert_array_equal(one.map_bound, other.map_bound)
    assert one.gap.max() < 1e-6  # couplings are attractive


@pytest.mark.parametrize("method", ["mean_field", "tree_reweighted", "exact"])
def test_what_is_kept_of_a_graph_does_not_depend_on_numbers(method):
    rng = np.random.default_rng(0)
    edges = [(i, (i + 1) % 6) for i in range(6)]
    first = IsingEnergy.from_edges(edges, rng.normal(size=6), rng.normal(size=(2, 6)))
    tables = FactorGraphEnergy([TableFactors(edges, rng.normal(size=(6, 3, 3)))])
    models = [
        first,
        IsingEnergy.from_edges(edges, rng.normal(size=6), rng.normal(size=(2, 6))),
        first.condition([1, *[np.nan] * 5]),
        tables,
        tables.with_log_potentials(rng.normal(size=54)),
    ]
    found = [infer(model, method).log_odds for model in models]
    for model, log_odds in zip(models, found, strict=True):
        _kept_graph.cache_clear()
        new = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(infer(new, method).log_odds, log_odds)
