"""Warnings of evidence that contradicts a factor graph, and of samples of weight 0."""

import time
import warnings

import numpy as np
import pytest
from reference.budgets import short
from reference.categorical import Enumerated, random_graph, with_logic

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors, TableFactors
from skcrbm.energies.states import is_categorical
from skcrbm.inference import Gibbs, available_methods, infer, sample
from skcrbm.inference.contradictions import Guard, contradicted_models, log_partition_range
from skcrbm.inference.possible_states import REFUTED, PossibleStates
from skcrbm.inference.registry import METHODS


@pytest.mark.quick_cases(14)
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("kind", ["tables", "logic", "tree"])
def test_against_enumeration(seed, kind):
    """A model that is reported is impossible; on trees each impossible model is reported."""
    rng = np.random.default_rng(seed)
    if kind == "tables":
        energy = random_graph(seed, zeros=0.4, n_models=4)
    elif kind == "tree":
        energy = random_graph(seed, (2, 3, 4, 2), [(0, 1), (1, 2, 3), (3,)], 4, zeros=0.5)
    else:
        energy = with_logic(seed, 0.3).rows([0, 1, 0, 1])
    held = np.full((4, energy.n_variables), np.nan)
    for row in held:
        for v in rng.choice(energy.n_variables, 2, replace=False):
            row[v] = rng.integers(energy.n_states[v])
    energy = energy.condition(held)
    with np.errstate(invalid="ignore"):
        impossible = np.array([Enumerated(energy, n).best == -np.inf for n in range(4)])
    found = contradicted_models(energy)
    assert (impossible | ~found).all()
    if kind == "tree":
        np.testing.assert_array_equal(found, impossible)


@pytest.mark.parametrize("seed", range(10))
def test_binary_graphs(seed):
    """0/1 energies have the answer of the same graph with an axis of two states."""
    rng = np.random.default_rng(seed)
    tables = np.where(rng.random((4, 8)) < 0.3, -np.inf, 0)
    scopes = [[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]]
    logic = OrFactors([[0, 1, 2], [6]], [6, 7]), AndFactors([[3, 7, 4]], [8])
    energy = FactorGraphEnergy([TableFactors(scopes, tables), *logic], np.zeros((3, 9)))
    held = np.where(rng.random((3, 9)) < 0.5, rng.integers(2, size=(3, 9)), np.nan)
    found = contradicted_models(energy.condition(held))
    both = energy.with_states().condition(held)
    np.testing.assert_array_equal(found, contradicted_models(both))


def test_logic_alone():
    """Inputs that are off force the output off through two ORs."""
    energy = FactorGraphEnergy([OrFactors([[0, 1], [2]], [2, 3])], np.zeros((2, 4)))
    held = np.array([[0, 0, np.nan, 1], [0, np.nan, np.nan, 1]])
    assert contradicted_models(energy.condition(held)).tolist() == [True, False]


# ------------------------------------------------- every method, with and without evidence

EQUAL, UNEQUAL = np.where(np.eye(2), 0, -np.inf), np.where(np.eye(2), -np.inf, 0)
SOFT = [[0.0, 0.5], [-0.3, 0.2]]


def _graph(scopes, tables, n, by_state, more=()):
    """A graph of n 0/1 variables with logic factors, whose arrays have an axis of states or not."""
    energy = FactorGraphEnergy.from_tables(scopes, tables, n_variables=n)
    energy = FactorGraphEnergy([*energy.factors, *more], np.zeros((2, n)))
    return energy.with_states() if by_state else energy


# Name: scopes, tables, number of variables, logic factors, evidence.
CONTRADICTIONS = {
    "a table without states": ([[0], [0, 1]], [[-np.inf] * 2, SOFT], 2, (), None),
    "two tables of one variable": (
        [[0], [0], [0, 1]], [[-np.inf, 0], [0, -np.inf], SOFT], 2, (), None,
    ),
    "along a chain": (
        [[0], [0, 1], [1, 2], [2]], [[0, -np.inf], EQUAL, EQUAL, [-np.inf, 0]], 3, (), None,
    ),
    "two colours of a ring": ([[i, (i + 1) % 5] for i in range(5)], [UNEQUAL] * 5, 5, (), None),
    "evidence of weight 0": ([[0], [0, 1]], [[-np.inf, 0.3], SOFT], 2, (), [0, np.nan]),
    "evidence at both ends": ([[0, 1], [1, 2]], [EQUAL, EQUAL], 3, (), [0, np.nan, 1]),
    "evidence of an OR": ([[0, 1]], [SOFT], 3, (OrFactors([[0, 1]], [2]),), [0, 0, 1]),
    "evidence in a loop": (
        [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [0, 5]], [UNEQUAL] * 5 + [SOFT], 8,
        (OrFactors([[0, 1]], [6]), AndFactors([[0, 6]], [7])),
        [*[np.nan] * 5, 1, np.nan, np.nan],
    ),
}  # fmt: skip


def _has_nan(found):
    arrays = [v for v in vars(found).values() if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    arrays = [v for v in arrays if v is not found.trace]
    return any(np.isnan(v).any() for v in [*arrays, *(found.statistics or ())])


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_no_state_of_positive_weight(kind, by_state):
    """Log Z is -inf and nothing has converged; or the error speaks of clamp if it was given."""
    *graph, more, clamp = CONTRADICTIONS[kind]
    energy = _graph(*graph, by_state, more)
    for method in available_methods(energy):
        refuses = METHODS.get(method).refuses_contradictions
        answers = sorted(METHODS.get(method)().supports(energy))
        for answer in answers[-1:] if refuses else answers:
            if refuses:
                with pytest.raises(ValueError, match="no state of positive weight") as caught:
                    infer(energy, method, clamp=clamp, returns=answer, **short(method, answer))
                assert ("clamp" in str(caught.value)) == (clamp is not None)
                continue
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = infer(energy, method, clamp=clamp, returns=answer, **short(method, answer))
            (text,) = [str(w.message) for w in caught]
            assert "2 of 2 models" in text
            assert ("clamp" in text) == (clamp is not None), text
            assert not found.converged.any(), (method, answer)
            assert not _has_nan(found), (method, answer)
            for number in (found.log_partition, found.map_bound, found.sample_log_prob):
                assert number is None or (number == -np.inf).all(), (method, answer)
            if found.gap is not None:
                assert (found.gap == 0).all()
            if clamp is not None and found.marginals is not None and not is_categorical(energy):
                held = ~np.isnan(clamp)
                np.testing.assert_array_equal(found.marginals[:, held], [np.array(clamp)[held]] * 2)


@pytest.mark.parametrize("by_state", [False, True])
def test_other_models_of_the_batch_keep_their_answers(by_state):
    """A model without states changes neither the answers nor the warnings of the others."""
    energy = _graph([[0, 1], [1, 2]], [EQUAL, SOFT], 3, by_state)
    clamp = np.array([[0, 1, np.nan], [1, np.nan, np.nan]])
    for method in available_methods(energy):
        if METHODS.get(method).refuses_contradictions:
            continue
        answers = sorted(METHODS.get(method).answers - {"best_states", "marginal_map", "samples"})
        for answer in answers:
            if answer == "sample_log_prob" or method in ("bp_chain", "gibbs"):
                continue
            options = short(method, answer)
            with pytest.warns(UserWarning, match="1 of 2 models"):
                both = infer(energy, method, clamp=clamp, returns=answer, pairwise="per_example",
                             **options)  # fmt: skip
            one = infer(energy.rows([1, 1]), method, clamp=clamp[1], returns=answer,
                        pairwise="per_example", **options)  # fmt: skip
            for name, value in vars(one).items():
                for a, b in zip(_arrays(value), _arrays(getattr(both, name)), strict=True):
                    np.testing.assert_array_equal(a[1], b[1], err_msg=f"{method} {answer} {name}")


def _arrays(value):
    if isinstance(value, tuple):
        return [part for part in value if isinstance(part, np.ndarray)]
    return [value] if isinstance(value, np.ndarray) else []


@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
@pytest.mark.parametrize("by_state", [False, True])
def test_possible_loops_are_not_reported(method, by_state):
    """Two colours of an even ring; the modes of equal beliefs have weight 0, a search finds one."""
    energy = _graph([[i, (i + 1) % 6] for i in range(6)], [UNEQUAL] * 6, 6, by_state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert infer(energy, method).converged.all()


def test_a_search_without_result_warns(monkeypatch):
    """Seven pigeons in six holes: no state, and no short proof."""
    monkeypatch.setattr("skcrbm.inference.possible_states._SEARCH_ENTRIES", 10_000)
    pairs = [[i, k] for i in range(7) for k in range(i)]
    table = np.where(np.eye(6), -np.inf, 0)
    energy = FactorGraphEnergy.from_tables(pairs, [table] * len(pairs))
    with pytest.warns(UserWarning, match="may have no state of positive weight"):
        infer(energy, "sum_product")
    monkeypatch.undo()
    energy = FactorGraphEnergy.from_tables(pairs, [table] * len(pairs))  # without kept answers
    with pytest.warns(UserWarning, match="contradict each other"):
        found = infer(energy, "sum_product", returns="log_partition")
    assert found.log_partition[0] == -np.inf
    assert not found.converged[0]


def test_answers_of_searches_are_kept_by_the_zeros():
    """Two colours of a ring of three do not exist, of an open chain they do."""
    ring = _graph([[0, 1], [1, 2], [2, 0]], [UNEQUAL] * 3, 3, False)
    for weights, possible in ((UNEQUAL, False), (UNEQUAL, False), (SOFT, True), (UNEQUAL, False)):
        flat = np.append(ring.log_potentials[:8], np.ravel(weights))
        found = PossibleStates(ring.with_log_potentials(flat))
        assert (found.search(0) == REFUTED) == (not possible)


@pytest.mark.parametrize("seed", range(20))
def test_search_against_enumeration(seed):
    """On graphs with loops, the guard finds exactly the models without states."""
    energy = random_graph(seed, zeros=0.55, n_models=1)
    possible = Enumerated(energy, 0).best > -np.inf
    guard = Guard(energy, False)
    fields = {"converged": np.ones(1, bool), "log_partition": np.zeros(1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        guard.finish(fields, frozenset({"log_partition"}))
    assert fields["converged"][0] == possible
    assert (fields["log_partition"][0] > -np.inf) == possible


def test_long_chains_take_linear_time():
    """Earlier each round of the propagation visited all factors of a chain."""
    n = 20_000
    pairs = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    energy = FactorGraphEnergy([TableFactors(pairs, EQUAL)])
    held = np.full(n, np.nan)
    held[0], held[-1] = 0, 1
    start = time.process_time()
    assert contradicted_models(energy.condition(held))[0]
    held[-1] = 0
    assert not contradicted_models(energy.condition(held))[0]
    assert time.process_time() - start < 5


# ------------------------------------------------------------------------- other promises


@pytest.mark.parametrize("method", ["gibbs", "sum_product", "mean_field", "icm", "bp_chain"])
def test_contradicting_evidence(method):
    energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])], np.zeros((2, 3)))
    clamp = [[0, 0, np.nan], [0, 0, 1]]
    with pytest.warns(UserWarning, match="clamp contradicts the factors of 1 of 2 models.*model 1"):
        found = infer(energy, method, clamp=clamp)
    assert not found.converged[1]


@pytest.mark.parametrize("returns", ["samples", "log_partition"])
def test_perturb_and_map_warns_once_and_counts_the_models_of_the_user(returns):
    """The method solves many copies of a model; earlier it warned about 64 of 64 models."""
    energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])], np.zeros((2, 3)))
    clamp = [[0, 0, np.nan], [0, 0, 1]]
    with pytest.warns(UserWarning, match="clamp contradicts") as caught:
        found = infer(energy, "perturb_and_map", returns=returns, clamp=clamp, n_samples=100)
    assert len(caught) == 1
    assert "clamp contradicts the factors of 1 of 2 models" in str(caught[0].message)
    assert found.converged.tolist() == [True, False]
    if returns == "samples":
        assert (found.samples == [[[0, 0, 0]], [[0, 0, 1]]]).all()
    else:
        assert found.log_partition[1] == -np.inf


def _categories_that_are_equal():
    """A chain of three variables, in which neighbours have the same of three states."""
    return FactorGraphEnergy.from_tables([[0, 1], [1, 2]], [np.where(np.eye(3), 0, -np.inf)] * 2)


@pytest.mark.parametrize("method", available_methods(_categories_that_are_equal()))
def test_contradicting_evidence_of_categories(method):
    """Every method warns, or raises an error if it can prove that there is no state."""
    energy = _categories_that_are_equal()
    if method in ("exact", "map_search"):
        with pytest.raises(ValueError, match="no state of positive weight that agrees with clamp"):
            infer(energy, method, clamp=[1, 2, np.nan])
        return
    with pytest.warns(UserWarning, match="clamp contradicts the factors of 1 of 1 models"):
        found = infer(energy, method, clamp=[1, 2, np.nan])
    assert not found.converged[0]


@pytest.mark.parametrize("method", ["gibbs", "icm"])
def test_possible_evidence_of_categories(method):
    energy = FactorGraphEnergy.from_tables([[0, 1]], [np.where(np.eye(3), 0, -np.inf)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer(energy, method, clamp=[1, np.nan])


@pytest.mark.parametrize("by_state", [False, True])
def test_samples_of_weight_0(by_state):
    """The chains do not find the only state of positive weight of each table of six variables."""
    only = np.full(64, -np.inf)
    only[37] = 0
    energy = FactorGraphEnergy([TableFactors(np.arange(24).reshape(4, 6), only)])
    energy = energy.with_states() if by_state else energy
    with pytest.warns(UserWarning, match="samples of 1 of 1 models .* have weight 0"):
        sample(energy, "gibbs", n_samples=3, burn_in=3, random_state=0)
    with pytest.warns(UserWarning, match="samples of 1 of 1 models .* have weight 0"):
        found = infer(energy, Gibbs(max_iter=5, burn_in=1, random_state=0), returns="marginals")
    assert not found.converged[0]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("binary", [False, True])
def test_range_of_log_partition(seed, binary):
    """Log Z of a possible model is in its range, whatever the evidence."""
    rng = np.random.default_rng(seed)
    if binary:
        tables = np.where(rng.random((4, 8)) < 0.3, -np.inf, rng.normal(size=(4, 8)))
        scopes = [[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]]
        logic = OrFactors([[0, 1, 2]], [6])
        energy = FactorGraphEnergy([TableFactors(scopes, tables), logic], rng.normal(size=(3, 7)))
    else:
        energy = random_graph(seed, zeros=0.2, n_models=3)
    held = np.full((3, energy.n_variables), np.nan)
    held[1, 0], held[2, 1] = 0, 1
    energy = energy.condition(held)
    low, high = log_partition_range(energy)
    for n in range(3):
        try:
            exact = infer(energy.rows([n]), "exact", returns="log_partition").log_partition[0]
        except ValueError:
            continue
        assert low[n] - 1e-9 <= exact <= high[n] + 1e-9


def test_impossible_log_partition_warns():
    """Parities of many loops have a Bethe log Z far below the log-weight of every state."""
    rng = np.random.default_rng(0)
    scopes = [rng.choice(30, 3, replace=False) for _ in range(40)]
    planted = rng.integers(2, size=30)
    parity = np.indices((2, 2, 2)).sum(axis=0) % 2
    tables = [np.where(parity == planted[scope].sum() % 2, 0, -np.inf) for scope in scopes]
    energy = FactorGraphEnergy([TableFactors(scopes, tables)])
    with pytest.warns(UserWarning, match=r"log_partition of 1 of 1 models .* is wrong"):
        found = infer(energy, "sum_product", returns="log_partition")
    exact = infer(energy, "exact", returns="log_partition")
    assert found.log_partition[0] < -1 < -1e-9 <= exact.log_partition[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the messages of 1 of 1 models")  # estimated errors
        infer(energy, "sum_product")  # marginals alone have no such range
        infer(energy, "mean_field", returns="log_partition")  # a valid lower bound
