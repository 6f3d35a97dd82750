"""The program of chained belief propagation, with few steps on the smallest models."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from examples._harness import Rows, run_missing
from examples.papers import _bp_chain_scores as scores
from examples.papers import bp_chain_tables as program
from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import Gibbs, infer, sample

# These tests fit models with the programs, which is slow.
pytestmark = pytest.mark.deep

N_STEPS = 12


@pytest.fixture
def fitted(monkeypatch):
    """Models that the program makes; a few steps of learning instead of 1000."""
    models = []
    kind = program.MarkovRandomField

    def make(**options):
        models.append(kind(**options))
        return models[-1]

    monkeypatch.setattr(program, "MarkovRandomField", make)
    monkeypatch.setattr(program, "N_STEPS", N_STEPS)
    monkeypatch.setattr(program, "RATES", {"mrf": [(0, 0.1)], "sequences": [(0, 1.0), (6, 0.1)]})
    return models


def run(key, tmp_path):
    """Run a cell; return its row and the store."""
    store = Rows(tmp_path / "rows.csv")
    run_missing([cell for cell in program.make_cells(True, 1) if cell[0] == key], store)
    return store.read()[key], store.read()


def log_probabilities(energy):
    """Return the log-probabilities of all states of 0/1 variables from the tables, by state."""
    states = np.array(list(itertools.product((0, 1), repeat=energy.n_variables)))
    score = states @ np.ravel(energy.field).astype(float)
    for factors in energy.tables:
        shape = factors.log_potentials.shape
        tables = factors.log_potentials.reshape(shape[0], *[2] * factors.variables.shape[1])
        for variables, table in zip(factors.variables, tables.astype(float)):
            score += table[tuple(states[:, variables].T)]
    top = score.max()
    score -= top + np.log(np.exp(score - top).sum())
    return dict(zip(map(tuple, states.tolist()), score))


def mean_log(rows, energy):
    """Return the mean log-probability of rows."""
    logs = log_probabilities(energy)
    return np.mean([logs[tuple(row)] for row in rows.astype(int).tolist()])


@pytest.mark.parametrize("learner", ["weighted_bp_chain", "bp", "gibbs 100 updates"])
def test_likelihoods_by_enumeration(learner, fitted, tmp_path):
    found, done = run(f"mrf n=10 instance=0 {learner}", tmp_path)
    truth, train, fresh, _ = program.problem("mrf", 10, 0)
    assert len(train) == len(fresh) == 1000
    model = fitted[0].energy_
    expected = mean_log(fresh, truth), mean_log(train, model), mean_log(fresh, model)
    assert max(expected) < -0.1
    for name, value in zip(("truth", "train", "fresh"), expected):
        assert float(found[name]) == pytest.approx(value, abs=2e-3)
    if learner == "weighted_bp_chain":
        shares = fitted[0].effective_sample_size_curve_
        assert found["share"] == f"{np.median(shares):.2f}" > "0.00"
    else:
        assert found["share"] == ""
    names = ("truth", "train", "fresh", "own_train", "own_fresh")
    texts = [f"{float(found[name]):.3f}" for name in names]
    assert f"| 10 | {learner} | 1 | {' | '.join(texts)} |" in program.report(done)
    if learner in ("mle", "weighted_bp_chain"):
        assert (found["own_train"], found["own_fresh"]) == (found["train"], found["fresh"])
    elif learner == "bp":
        p = infer(model, program.BELIEFS, returns="marginals").marginals[0].astype(float)
        logs = np.log(np.where(fresh > 0.5, p, 1 - p)).sum(axis=1)
        assert float(found["own_fresh"]) == pytest.approx(logs.mean(), abs=2e-3)
    else:  # Gibbs chains of 10 sweeps from coin flips
        method = Gibbs(burn_in=9, n_chains=400_000)
        drawn = sample(model, method, n_samples=400_000, random_state=0)[0]
        shares = np.bincount(drawn @ (1 << np.arange(10)), minlength=1024) / len(drawn)
        logs = scores.gibbs_log_probs(model, 10, fresh)
        assert float(found["own_fresh"]) == pytest.approx(logs.mean(), abs=2e-4)
        rows, logs = fresh[logs > -7], logs[logs > -7]
        assert len(rows) > 500
        expected = np.log(shares[rows.astype(int) @ (1 << np.arange(10))])
        np.testing.assert_allclose(logs, expected, atol=0.25)
        assert logs.mean() == pytest.approx(expected.mean(), abs=0.05)


def test_sequences_by_enumeration(fitted, tmp_path):
    found, done = run("sequences n=5 instance=0 mle", tmp_path)
    _, _, valid, _ = program.problem("sequences", 5, 0)
    energy = fitted[0].energy_
    assert float(found["truth"]) == pytest.approx(-np.log(len(valid)), abs=1e-4)
    assert float(found["fresh"]) == pytest.approx(mean_log(valid, energy), abs=2e-3)
    drawn = sample(energy, "exact", n_samples=5 * len(valid), random_state=0)[0].astype(int)
    known, seen = ({tuple(row) for row in rows.tolist()} for rows in (valid.astype(int), drawn))
    precision = sum(tuple(row) in known for row in drawn.tolist()) / len(drawn)
    recall = len(known & seen) / len(known)
    assert found["precision"] == f"{precision:.3f}" > "0.1"
    assert found["recall"] == f"{recall:.3f}" > "0.1"
    texts = [f"{float(found[c]):.3f}" for c in ("truth", "fresh", "own_fresh")]
    shares = [f"{float(found[c]):.3f}" for c in ("precision", "own_precision")]
    assert f"| 5 | mle | 1 | {' | '.join(texts)} |  | {' | '.join(shares)} |" in program.report(
        done
    )
    # The share of valid sequences that the model gives its samples, from its probabilities.
    logs = log_probabilities(energy)
    share = sum(np.exp(logs[row]) for row in known)
    assert precision == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / len(drawn)))


# --- probabilities with which samplers draw a state ------------------------------------------


@pytest.fixture(scope="module")
def loopy():
    """A factor graph of five variables with loops, all its states, and their scores."""
    rng = np.random.RandomState(3)
    scopes = [(2, 0, 1), (1, 3), (4, 2), (3, 4, 0), (1, 4)]
    tables = [rng.normal(0, 1.5, 2 ** len(scope)) for scope in scopes]
    energy = FactorGraphEnergy.from_tables(scopes, tables, rng.normal(size=5), n_variables=5)
    return energy, np.array(list(itertools.product((0, 1), repeat=5)))


@pytest.mark.parametrize("chain", program.CHAINS.values(), ids=program.CHAINS)
def test_probabilities_of_the_chain(chain, loopy):
    """They sum to 1, differ from the model, and are the probabilities that the sampler reports."""
    energy, states = loopy
    logs = scores.chain_log_probs(energy, chain, states)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-5)
    exact = np.array([log_probabilities(energy)[tuple(s)] for s in states.tolist()])
    assert np.abs(logs - exact).max() > 0.01
    drawn, log_prob = sample(energy, chain, n_samples=300, return_log_prob=True, random_state=0)
    index = drawn[0] @ (1 << np.arange(5)[::-1])
    np.testing.assert_allclose(logs[index], log_prob[0], atol=1e-5)


def test_probabilities_of_beliefs(loopy):
    energy, states = loopy
    logs = scores.belief_log_probs(energy, program.BELIEFS, states)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-5)
    p = infer(energy, program.BELIEFS, returns="marginals").marginals[0]
    np.testing.assert_allclose(np.exp(logs) @ states, p, atol=1e-5)


def test_probabilities_of_gibbs_chains(loopy):
    """After one sweep they are shares of samples; after many they are the model's."""
    energy, states = loopy
    for n_sweeps in (1, 2):
        logs = scores.gibbs_log_probs(energy, n_sweeps, states)
        assert np.exp(logs).sum() == pytest.approx(1)
        method = Gibbs(burn_in=n_sweeps - 1, n_chains=200_000)
        drawn = sample(energy, method, n_samples=200_000, random_state=0)[0]
        shares = np.bincount(drawn @ (1 << np.arange(5)[::-1]), minlength=32) / len(drawn)
        np.testing.assert_allclose(np.exp(logs), shares, atol=0.006)
    exact = [log_probabilities(energy)[tuple(s)] for s in states.tolist()]
    assert np.abs(scores.gibbs_log_probs(energy, 1, states) - exact).max() > 0.05
    np.testing.assert_allclose(scores.gibbs_log_probs(energy, 300, states), exact, atol=1e-3)
    assert scores.gibbs_log_probs(energy, 10**8, states) is None


@pytest.mark.parametrize("n_sweeps", [1, 2, 4])
def test_estimated_probabilities_of_gibbs_chains(n_sweeps, loopy):
    energy, states = loopy
    exact = scores.gibbs_log_probs(energy, n_sweeps, states)
    rows = np.repeat(states, 2, axis=0)
    found = scores.estimated_gibbs_log_probs(energy, n_sweeps, rows, 0, n_chains=40_000)
    np.testing.assert_allclose(found, np.repeat(exact, 2), atol=0.03)
    coarse = scores.estimated_gibbs_log_probs(energy, n_sweeps, states, 0, n_chains=10)
    assert np.abs(coarse - exact).max() > 0.1


@pytest.mark.parametrize(("learner", "sweeps"), [("cd 100 updates", 20), ("pcd", 100)])
def test_shares_of_gibbs_chains(learner, sweeps, fitted, tmp_path):
    """Own samples come from as many sweeps as in learning, long samples from 1000 sweeps."""
    found, _ = run(f"sequences n=5 instance=0 {learner}", tmp_path)
    _, _, valid, _ = program.problem("sequences", 5, 0)
    energy, n = fitted[0].energy_, 5 * len(valid)
    known = {tuple(row) for row in valid.astype(int).tolist()}
    logs = log_probabilities(energy)
    for prefix, length in (("own_", sweeps), ("long_", 1000)):
        method = Gibbs(burn_in=length - 1, n_chains=n)
        drawn = sample(energy, method, n_samples=n, random_state=0)[0].astype(int)
        seen = [tuple(row) for row in drawn.tolist()]
        precision = sum(row in known for row in seen) / n
        assert found[f"{prefix}precision"] == f"{precision:.3f}" > "0.2"
        assert found[f"{prefix}recall"] == f"{len(known & set(seen)) / len(known):.3f}" > "0.5"
    # After 1000 sweeps the chains have the distribution of the model.
    assert float(found["long_fresh"]) == pytest.approx(mean_log(valid, energy), abs=2e-3)
    assert float(found["long_train"]) == pytest.approx(float(found["train"]), abs=2e-3)
    assert found["long_excluded"] == "0.000"
    assert min(logs.values()) > program.FLOOR


def test_rows_that_a_sampler_excludes_are_counted():
    found = program.log_texts("own_", [-1.0, -250.0, -np.inf], True)
    assert found == {"own_fresh": "-67.0000", "own_excluded": "0.667"}
    precision, recall = scores.precision_and_recall(
        np.array([[0, 1], [0, 1], [1, 1], [0, 0]]), np.array([[0, 1], [1, 0]])
    )
    assert (precision, recall) == (0.5, 0.5)


# --- the picture ------------------------------------------------------------------------------


def test_a_curve_shows_every_instance_and_the_mean():
    rows = [
        {"n": n, "truth": -1.0, "own_train": value}
        for n, value in ((10, -1.5), (10, -3.5), (13, -2.0), (16, ""))
    ]
    axis = Figure().subplots()
    program.draw_curve(axis, rows, "own_train", 0.25, {"color": "C0", "label": "mle"})
    *dots, curve = axis.lines
    np.testing.assert_allclose(
        np.concatenate([line.get_xydata() for line in dots]),
        [[10.25, -0.5], [10.25, -2.5], [13.25, -1.0]],
    )
    np.testing.assert_allclose(curve.get_xydata(), [[10.25, -1.5], [13.25, -1.0]])
    assert curve.get_label() == "mle"


def test_weighted_3sat():
    energy = program.make_weighted_3sat(12, 0)
    (group,) = energy.factors
    assert group.variables.shape == (36, 3)
    weights = np.sort(np.exp(group.log_potentials), axis=1)
    assert ((weights[:, 0] >= 0.1) & (weights[:, 0] <= 1)).all()
    assert ((weights[:, 1:] >= 10) & (weights[:, 1:] <= 1000)).all()
    assert len(set(group.log_potentials.argmin(axis=1))) == 8
