"""The program of rules between labels: its scores on a made-up hierarchy, against counts."""

import numpy as np
import pytest

from examples.studies import label_rules

# This test fits models with the program, which is slow.
pytestmark = pytest.mark.deep

EDGES = [(0, 1), (0, 2), (2, 3)]


@pytest.fixture
def table(monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 4))
    Y = (X + rng.normal(size=(160, 4)) > 0).astype(int)
    for parent, child in EDGES:
        Y[:, child] &= Y[:, parent]
    parts = X[:100], Y[:100], X[100:], Y[100:], EDGES
    monkeypatch.setattr(label_rules, "load", lambda name: parts)
    label_rules.main(["--sets", "diatoms"])
    lines = capsys.readouterr().out.splitlines()
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return parts, {row[0]: row[1:] for row in rows[2:]}


def test_rows(table):
    (X, Y, X_test, Y_test, _), rows = table
    plain = label_rules.CLASSIFIERS["regressions"].fit(X, Y).predict(X_test)
    wrong = [any(v[child] > v[parent] for parent, child in EDGES) for v in plain]
    row = rows["regressions at one half"]
    assert float(row[3]) == pytest.approx(np.mean(wrong), abs=6e-4)
    assert float(row[2]) == pytest.approx((plain == Y_test).all(axis=1).mean(), abs=6e-4)
    both, either = (plain & Y_test).sum(axis=1), (plain | Y_test).sum(axis=1)
    jaccard = np.divide(both, either, out=np.zeros(60), where=either > 0)
    assert float(row[1]) == pytest.approx(jaccard.mean(), abs=6e-4)
    for name, cells in rows.items():
        if "rules" in name or "top-down" in name:
            assert float(cells[3]) == 0.0, name
