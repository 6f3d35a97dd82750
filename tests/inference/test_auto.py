"""The choice of method="auto", the status of answers, and the warning about convergence."""

import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from reference.energy_cases import CASES
from reference.random_models import random_rbm
from sklearn.exceptions import ConvergenceWarning

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    SparseIsingEnergy,
    TableFactors,
    read_uai_evidence,
    read_uai_solution,
)
from skcrbm.inference import (
    Exact,
    InferenceResult,
    SumProduct,
    estimate_log_partition,
    infer,
    sample,
)
from skcrbm.inference.exact.cost import seconds_of_exact
from skcrbm.inference.running import run_inference

DATA = Path(
    os.environ.get("SKCRBM_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
FILES = [p for task in ("BAYES", "MAR", "PR") for p in sorted((DATA / "uai" / task).glob("*.uai"))]
ANSWERS = [
    "marginals", "pairwise", "log_partition", "map", "map_bound", "marginal_map", "samples",
    "sample_log_prob", "best_states",
]  # fmt: skip


@pytest.fixture
def no_time(monkeypatch):
    """Make "exact" too slow for every model, so that the tests of other choices are small."""
    monkeypatch.setattr("skcrbm.inference.automatic.AUTO_SECONDS", -1.0)
    monkeypatch.setattr("skcrbm.inference.automatic._AIS_SECONDS", -1.0)
    monkeypatch.setattr("skcrbm.inference.automatic._CHAIN_SECONDS", -1.0)


def frustrated(n_models=4, seed=3):
    """Return dense Ising models on some of which messages oscillate, also with damping."""
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(0, 1.0, (10, 10)), 1)
    return IsingEnergy(coupling + coupling.T, rng.normal(size=(n_models, 10)))


def table_graph(seed=0, zeros=False):
    rng = np.random.default_rng(seed)
    tables = rng.normal(0, 0.5 if zeros else 2.0, (8, 2, 2, 2))
    if zeros:
        tables[:, 0, 1, 0] = -np.inf
    scopes = [rng.choice(8, 3, replace=False) for _ in range(8)]
    return FactorGraphEnergy([TableFactors(scopes, tables)], rng.normal(size=(1, 8)))


# ------------------------------------------------------------------------- "exact" if possible


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_small_models_get_exact_answers(case):
    energy = case.make(0, 2, 1.0, np.float64)
    possible = Exact().supports(energy)
    for returns in ANSWERS:
        if returns in possible or (returns == "pairwise" and "statistics" in possible):
            found = infer(energy, returns=returns, random_state=0)
            assert (found.method, found.status) == ("exact", "exact")
            wanted = infer(energy, "exact", returns=returns, random_state=0)
            for name in ("marginals", "log_partition", "assignment", "samples", "best_scores"):
                value = getattr(wanted, name)
                if value is not None:
                    np.testing.assert_array_equal(getattr(found, name), value)


@pytest.mark.parametrize("limit", [1, 3, 4, 30])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_estimate_is_infinite_where_exact_refuses(case, limit):
    """An answer that "exact" refuses is expected never, and every other answer in seconds."""
    energy = case.make(0, 2, 1.0, np.float64)
    method = Exact(max_units=limit, max_entries=2**limit)
    for returns in ("marginals", "map", "marginal_map"):
        if returns not in method.supports(energy):
            continue
        seconds = seconds_of_exact(method, energy, frozenset({returns}))
        if seconds < np.inf:
            assert seconds < 1
            infer(energy, method, returns=returns)
        else:
            with pytest.raises(ValueError, match="the limit is"):
                infer(energy, method, returns=returns)


def test_evidence_makes_models_narrow():
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(size=(40, 40)), 1)
    energy = IsingEnergy(coupling + coupling.T, rng.normal(size=(1, 40)))
    held = np.zeros(40)
    held[:9] = np.nan
    assert infer(energy, returns="marginals").method != "exact"
    assert infer(energy, clamp=held).method == "exact"
    assert infer(energy.condition(held)).method == "exact"


def test_large_graphs_with_loops_are_not_planned(monkeypatch):
    ring = np.column_stack([np.arange(16), np.roll(np.arange(16), -1)])
    loop = SparseIsingEnergy.from_edges(ring, 0.5, np.zeros(16))
    graphs = [loop, FactorGraphEnergy.from_energy(loop)]
    chains = [SparseIsingEnergy.from_edges(ring[:-1], 0.5, np.zeros(16))]
    chains.append(FactorGraphEnergy.from_energy(chains[0]))
    for energy in graphs + chains:
        assert infer(energy).method == "exact"
    monkeypatch.setattr("skcrbm.inference.exact.cost._MOST_PLANNED", 15)
    for energy in graphs:
        assert infer(energy).method == "sum_product"
    for energy in chains:
        assert infer(energy).method == "exact"


def test_a_refusal_is_planned_once(monkeypatch):
    """The search for an order of elimination may take seconds."""
    energy, calls = table_graph(5).condition([0, *[np.nan] * 7]), []
    from skcrbm.inference.exact import plans

    search = plans.min_fill
    monkeypatch.setattr(plans, "min_fill", lambda *a: calls.append(1) or search(*a))
    for _ in range(3):
        with pytest.raises(ValueError, match="the limit is max_entries=2"):
            infer(energy, "exact", max_entries=2)
    assert len(calls) == 1


def test_marginal_map_of_a_graph_needs_its_variables():
    with pytest.raises(ValueError, match="'exact' needs map_variables"):
        infer(table_graph(), returns="marginal_map")
    found = infer(table_graph(), returns="marginal_map", map_variables=[0, 3])
    wanted = infer(table_graph(), "exact", returns="marginal_map", map_variables=[0, 3])
    np.testing.assert_array_equal(found.assignment, wanted.assignment)
    with pytest.raises(ValueError, match="integers from 0 to 7"):
        infer(table_graph(), returns="marginal_map", map_variables=[9])


# --------------------------------------------------------------------------- other choices


@pytest.mark.parametrize(
    ("kind", "returns", "method", "status"),
    [
        ("rbm", "marginals", "sum_product", "approximate"),
        ("rbm", ("marginals", "pairwise", "log_partition"), "sum_product", "approximate"),
        ("rbm", "map", "max_product", "approximate"),
        ("rbm", "map_bound", "linear_program", "bounded"),
        ("rbm", "marginal_map", "mixed_product", "approximate"),
        ("rbm", "samples", "gibbs", "approximate"),
        ("rbm", ("samples", "marginals"), "gibbs", "approximate"),
        ("rbm", "log_partition", "ais", "approximate"),
        ("graph", "sample_log_prob", "bp_chain", "approximate"),
        ("graph", "map", "map_search", "exact"),
        ("graph", "map_bound", "map_search", "exact"),
        ("graph", "log_partition", "ais", "approximate"),
        ("zeros", "log_partition", "bp_chain", "approximate"),
    ],
)
def test_the_choice_without_exact(no_time, kind, returns, method, status):
    energy = random_rbm(0, 4, 3) if kind == "rbm" else table_graph(zeros=kind == "zeros")
    found = infer(energy, returns=returns, random_state=0)
    assert found.method == method
    assert found.status == status
    assert repr(found).startswith(
        f"<InferenceResult: {status}{'' if status == method else f' ({method})'}"
    )


def test_long_estimates_of_log_z_are_messages(no_time, monkeypatch):
    monkeypatch.setattr("skcrbm.inference.automatic._AIS_SECONDS", 1.0)
    assert infer(random_rbm(0, 4, 3), returns="log_partition", random_state=0).method == "bp_chain"
    monkeypatch.setattr("skcrbm.inference.automatic._CHAIN_SECONDS", 1.0)
    assert infer(random_rbm(0, 4, 3), returns="log_partition").method == "sum_product"
    # The user asks for an estimate.
    found = estimate_log_partition(random_rbm(0, 4, 3), random_state=0)
    assert found.standard_error[0] > 0


def test_best_states_have_the_limits_of_exact(no_time):
    assert infer(table_graph(), returns="best_states").status == "exact"
    with pytest.raises(ValueError, match="'exact' enumerates the smaller layer"):
        infer(random_rbm(0, 60, 60), returns="best_states")


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({"max_iter": 50}, "sum_product"),
        ({"return_trace": True}, "sum_product"),
        ({"damping": 0.5, "return_state": True}, "sum_product"),
        ({"n_chains": 5}, "gibbs"),
        ({"max_units": 9}, "exact"),
        ({"random_state": 0}, "exact"),
        ({"returns": "log_partition", "n_samples": 50}, "bp_chain"),
        ({"returns": "map", "max_nodes": 50}, "map_search"),
    ],
)
def test_options_exclude_methods(options, method):
    found = infer(table_graph(zeros=True), **options)
    assert found.method == method


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"foo": 3}, "'exact', 'sum_product', 'gibbs' for 'marginals', .* takes 'foo'.*max_iter"),
        ({"returns": "samples", "return_trace": True}, "no such method takes 'return_trace'"),
        ({"damping": 2.0}, "'damping' parameter of SumProduct"),
        ({"n_samples": 7}, "n_samples is only valid if"),
        ({"method": "automatic"}, "method must be one of 'auto', 'exact'"),
        ({"returns": "log_z"}, "returns must contain one or more of"),
    ],
)
def test_errors_of_auto(options, message):
    with pytest.raises(ValueError, match=message):
        infer(random_rbm(0, 3, 2), **options)


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_an_error_of_exact_marginals_is_0(method):
    found = infer(table_graph(), method, estimate_error=True)
    np.testing.assert_array_equal(found.estimated_error, [0.0])


def test_samples_and_log_z_of_small_models_are_exact():
    energy = random_rbm(0, 3, 2, n_models=2)
    np.testing.assert_array_equal(
        sample(energy, n_samples=9, random_state=1),
        sample(energy, "exact", n_samples=9, random_state=1),
    )
    np.testing.assert_array_equal(
        sample(energy, n_samples=9, burn_in=7, random_state=1),
        sample(energy, "gibbs", n_samples=9, burn_in=7, random_state=1),
    )
    assert sample(energy, return_log_prob=True)[1].shape == (2, 1)
    found = estimate_log_partition(energy)
    wanted = infer(energy, "exact", returns="log_partition").log_partition
    np.testing.assert_array_equal(found.log_partition, wanted)
    np.testing.assert_array_equal(found.standard_error, [0.0, 0.0])
    assert found.effective_sample_size is None
    by_ais = estimate_log_partition(energy, n_betas=20, random_state=0)
    assert (by_ais.effective_sample_size > 1).all()


# ----------------------------------------------------------- messages that do not converge


def test_second_run_of_late_models(no_time):
    """Models without convergence get the damped answer; all others keep theirs."""
    energy = frustrated()
    first = infer(energy, "sum_product", returns=("marginals", "log_partition"))
    damped = infer(energy, SumProduct(1000, damping=0.5), returns=("marginals", "log_partition"))
    late = ~first.converged
    assert 0 < late.sum() < 4
    found = infer(energy, returns=("marginals", "log_partition"))
    assert found.method == "sum_product"
    np.testing.assert_array_equal(found.converged, first.converged | damped.converged)
    for name in ("marginals", "log_partition"):
        given, again = getattr(first, name), getattr(damped, name)
        np.testing.assert_allclose(getattr(found, name)[~late], given[~late])
        np.testing.assert_allclose(getattr(found, name)[late], again[late], rtol=1e-9)
    alone = infer(energy, returns="marginals", random_state=0)
    assert alone.method == "sum_product, gibbs"
    exact = infer(energy, "exact").marginals
    hard = ~found.converged
    assert (
        np.abs(alone.marginals - exact)[hard].mean() < np.abs(found.marginals - exact)[hard].mean()
    )


@pytest.mark.parametrize("make", [frustrated, pytest.param(table_graph, marks=pytest.mark.deep)])
def test_statistics_of_late_models_are_sums(no_time, make):
    energy = make() if make is frustrated else make(1).rows([0, 0, 0, 0])
    weight = np.array([1.0, 0.5, 2.0, 3.0])
    options = {"returns": "pairwise", "sample_weight": weight, "random_state": 0}
    total = infer(energy, **options).pairwise
    each = infer(energy, **options, pairwise="per_example").pairwise
    np.testing.assert_allclose(total, np.tensordot(weight, each, 1), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------- status and warnings


def warned(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return result, [w.category for w in caught]


def test_late_answers_warn_once(no_time):
    energy = frustrated()
    for method in ("auto", "sum_product", "gibbs"):
        options = {"random_state": 0} if method != "sum_product" else {}
        options |= {"max_iter": 2} if method != "auto" else {}
        result, categories = warned(lambda m=method, o=options: infer(energy, m, **o))
        assert result.status == "not converged"
        assert categories == [ConvergenceWarning]
    result, categories = warned(lambda: run_inference(energy, "sum_product"))
    assert (result.status, categories) == ("not converged", [])
    with pytest.warns(ConvergenceWarning, match=r"'sum_product' has not .* damping \(SumProduct"):
        infer(energy, "sum_product")
    with pytest.warns(ConvergenceWarning, match=r"'sum_product' has not .* Try another method"):
        infer(energy, returns=("marginals", "log_partition"))


def test_contradictions_warn_once(no_time):
    graph = FactorGraphEnergy([TableFactors([[0, 1]], np.full((1, 2, 2), -np.inf))])
    result, categories = warned(lambda: infer(graph))
    assert (result.status, categories) == ("not converged", [UserWarning])


@pytest.mark.parametrize(
    ("method", "returns", "options", "status"),
    [
        ("exact", ("marginals", "map"), {}, "exact"),
        ("tree_reweighted", "log_partition", {"max_iter": 1}, "bounded"),
        ("tree_reweighted", ("marginals", "log_partition"), {"max_iter": 1}, "not converged"),
        ("mean_field", "log_partition", {}, "bounded"),
        ("icm", "map", {}, "approximate"),
        ("map_search", "map", {}, "exact"),
        ("map_search", "map", {"max_nodes": 1, "max_entries": 1}, "approximate"),
        ("map_search", "map_bound", {"max_nodes": 1, "max_entries": 1}, "bounded"),
        ("mplp", "map_bound", {"max_iter": 1}, "bounded"),
        ("max_product", "map", {"max_iter": 1}, "not converged"),
        ("ais", "log_partition", {"random_state": 0}, "approximate"),
    ],
)
def test_status_of_methods(method, returns, options, status):
    energy = frustrated(1)
    result, categories = warned(lambda: infer(energy, method, returns=returns, **options))
    assert (result.method, result.status) == (method, status)
    assert (ConvergenceWarning in categories) == (status == "not converged")


def test_messages_on_a_tree_are_exact():
    chain = SparseIsingEnergy.from_edges([[0, 1], [1, 2]], [0.5, 1.0], np.zeros(3))
    assert infer(chain, "sum_product").status == "exact"
    assert infer(chain, "sum_product", estimate_error=False).status == "approximate"
    assert InferenceResult().status is None


# ------------------------------------------------------------------ files of competitions


def error_of(energy, path, marginals):
    """Return the mean error of the marginals of the free variables of a file."""
    _, parts = read_uai_solution(f"{path}.MAR", energy.state_counts)
    found = marginals[0]
    errors = []
    for v in np.flatnonzero(energy.free[0]):
        p = np.array([1 - found[v], found[v]]) if found.ndim == 1 else found[v, : parts[v].size]
        errors.append(np.abs(p - parts[v][0]).max())
    return float(np.mean(errors))


def network(path):
    energy = FactorGraphEnergy.from_uai(path)
    return energy.condition(read_uai_evidence(f"{path}.evid", energy.state_counts))


@pytest.mark.parametrize(
    "path",
    [
        p if p.stem in ("BN_78", "Promedus_24") else pytest.param(p, marks=pytest.mark.deep)
        for p in FILES
    ],
    ids=lambda p: f"{p.parent.name}/{p.stem}" if isinstance(p, Path) else "none",
)
def test_exact_on_files_where_possible(path):
    energy, asked = network(path), frozenset({"log_partition"})
    method = Exact(max_entries=2**26)
    seconds = seconds_of_exact(method, energy, asked)
    if seconds > 2.5:  # the largest tables belong to the program of the study
        return
    start = time.process_time()
    found = infer(energy, returns="log_partition")
    assert found.status == "exact"
    assert time.process_time() - start < 20
    known = json.loads((DATA / "uai" / "exact.json").read_text())
    target = known.get(f"{path.parent.name}/{path.stem}", {}).get("exact_log10")
    if target is not None:
        assert found.log_partition[0] / np.log(10) == pytest.approx(target, abs=1e-4)


@pytest.mark.deep
@pytest.mark.skipif(not FILES, reason="needs the files of the competition")
def test_files_that_are_too_wide_for_exact():
    """All other files take at most 10 s (the largest tables are those of CSP_11)."""
    method, asked = Exact(max_entries=2**26), frozenset({"marginals"})
    seconds = {path.stem: seconds_of_exact(method, network(path), asked) for path in FILES}
    assert {name for name, expected in seconds.items() if expected > 20} == {
        "Grids_15", "Grids_18", "ObjectDetection_29", "Promedus_18", "linkage_11", "linkage_16",
        "linkage_21", "2bitadd_11.cnf", "2bitmax_6.cnf", "BN_69", "c1908.isc.cnf", "log-2.cnf",
        "logistics.a.cnf", "rb.cnf",
    }  # fmt: skip


@pytest.mark.deep
@pytest.mark.skipif(not FILES, reason="needs the files of the competition")
def test_marginals_of_wide_files_are_near_the_best_method():
    """The mean error is not worse than the mean error of any single method by more than 0.01."""
    methods = {
        "damped": SumProduct(1000, damping=0.5), "plain": SumProduct(1000), "gibbs": "gibbs",
        "tree_reweighted": "tree_reweighted", "mean_field": "mean_field",
    }  # fmt: skip
    errors = {name: [] for name in ("auto", *methods)}
    for name in ("Grids_15", "Grids_18", "ObjectDetection_29", "linkage_11", "linkage_16"):
        path = DATA / "uai" / "MAR" / f"{name}.uai"
        energy = network(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for key in errors:
                method = methods.get(key, "auto")
                seed = {"random_state": 0} if method in ("auto", "gibbs") else {}
                found = infer(energy, method, estimate_error=False, **seed)
                assert key != "auto" or found.status != "exact"
                errors[key].append(error_of(energy, path, found.marginals))
    best = min(np.mean(errors[key]) for key in methods)
    assert np.mean(errors["auto"]) <= best + 0.01
