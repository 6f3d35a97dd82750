"""The program of chained belief propagation, with few steps on the smallest models."""

import itertools

import numpy as np
import pytest

from examples._harness import Rows, run_missing
from examples.papers import bp_chain_tables as program
from skcrbm.inference import sample

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


@pytest.mark.parametrize("learner", ["mle", "weighted_bp_chain", "bp", "cd 100 updates"])
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
    texts = [f"{float(found[name]):.3f}" for name in ("truth", "train", "fresh")]
    assert f"| 10 | {learner} | 1 | {' | '.join(texts)} |" in program.report(done)


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
    texts = [f"{float(found[c]):.3f}" for c in ("truth", "fresh", "precision", "recall")]
    assert f"| 5 | mle | 1 | {' | '.join(texts)} |" in program.report(done)
    # The share of valid sequences that the model gives its samples, from its probabilities.
    logs = log_probabilities(energy)
    share = sum(np.exp(logs[row]) for row in known)
    assert precision == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / len(drawn)))
