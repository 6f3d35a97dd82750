"""Files of the UAI competitions against a naive parser and the published figures.

Run where the data lies: the folder in the environment variable SKCRBM_DATA, else
``shared/data`` beside the checkout.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from skcrbm.energies import (
    read_uai,
    read_uai_evidence,
    read_uai_solution,
    write_uai_evidence,
    write_uai_solution,
)
from skcrbm.formats.uai import read_network, write_uai

DATA = Path(
    os.environ.get("SKCRBM_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
FILES = sorted((DATA / "uai").glob("*/*.uai"))
# The naive parser takes most of the time: large files are read with the deep tests.
each_file = pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.deep) if p.stat().st_size > 50_000 else p for p in FILES],
    # without the files, pytest passes a placeholder
    ids=lambda p: f"{p.parent.name}/{p.stem}" if isinstance(p, Path) else "none",
)


def naive_network(text):
    """Parse UAI text word by word."""
    words = iter(text.split())
    kind, n = next(words), int(next(words))
    states = [int(next(words)) for _ in range(n)]
    sizes = range(int(next(words)))
    scopes = [[int(next(words)) for _ in range(int(next(words)))] for _ in sizes]
    tables = [[float(next(words)) for _ in range(int(next(words)))] for _ in scopes]
    assert next(words, None) is None
    return kind, states, scopes, tables


@each_file
def test_real_network(path):
    network = read_network(path)
    kind, states, scopes, tables = naive_network(path.read_text())
    assert network.kind == kind
    assert network.n_states.tolist() == states
    assert [scope.tolist() for scope in network.scopes] == scopes
    rng = np.random.default_rng(0)
    for scope, table, expected in zip(scopes, network.tables, tables, strict=True):
        assert table.shape == tuple(states[i] for i in scope)
        assert table.ravel().tolist() == expected
        state = [int(rng.integers(states[i])) for i in scope]
        entry = 0
        for i, x in zip(scope, state, strict=True):
            entry = entry * states[i] + x
        assert table[tuple(state)] == expected[entry]
    again = read_network(write_uai(network))
    assert all(map(np.array_equal, again.tables, network.tables))


@each_file
def test_real_evidence(path):
    states = read_network(path).n_states
    evidence_path = Path(f"{path}.evid")
    evidence = read_uai_evidence(evidence_path, states)
    words = list(map(int, evidence_path.read_text().split()))
    if len(words) % 2 == 0:  # the number of samples, and a list of an odd number of words
        assert words.pop(0) == 1
    expected = np.full((1, len(states)), np.nan)
    expected[0, words[1::2]] = words[2::2]
    assert words[0] == len(words[1::2]) == (~np.isnan(evidence)).sum()
    np.testing.assert_array_equal(evidence, expected)
    assert not (evidence >= states).any()
    np.testing.assert_array_equal(read_uai_evidence(write_uai_evidence(evidence), states), expected)


@each_file
def test_real_solutions(path):
    network = read_network(path)
    states = network.n_states
    evidence = read_uai_evidence(f"{path}.evid", states)[0]
    held = np.flatnonzero(~np.isnan(evidence))
    values = {}
    for task in ("PR", "MAR", "MAP"):
        if Path(f"{path}.{task}").exists():
            name, values[task] = read_uai_solution(f"{path}.{task}", states)
            assert name == task
            again = read_uai_solution(write_uai_solution(task, values[task]), states)[1]
            for left, right in zip(values[task], again, strict=True):
                np.testing.assert_array_equal(left, right)
    if path.name != "BN_42.uai":
        assert values
    problem = read_uai(path)
    np.testing.assert_array_equal(problem.evidence, evidence[None])
    assert set(problem.solutions) == set(values)
    for task, value in values.items():
        for left, right in zip(problem.solutions[task], value, strict=True):
            np.testing.assert_array_equal(left, right)
    if "PR" in values:
        assert float(Path(f"{path}.PR").read_text().split()[1]) == values["PR"][0]
    if "MAR" in values:
        assert [m.shape for m in values["MAR"]] == [(1, k) for k in states]
        for i in held:
            assert values["MAR"][i][0, int(evidence[i])] == pytest.approx(1, abs=1e-5)
    if "MAP" in values:
        assert values["MAP"].shape == (1, len(states))
        assert (values["MAP"][0] < states).all()
        np.testing.assert_array_equal(values["MAP"][0, held], evidence[held])
        score = sum(
            np.log10(table[tuple(values["MAP"][0, scope])])
            for scope, table in zip(network.scopes, network.tables, strict=True)
        )
        known = json.loads((DATA / "uai" / "exact.json").read_text(encoding="utf-8"))
        assert score == pytest.approx(known[f"MAP/{path.stem}"]["published_log10"], rel=1e-9)
