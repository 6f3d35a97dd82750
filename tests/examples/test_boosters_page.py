"""The gains over boosters on the page of the benchmark follow from the scores on the page."""

import re
from collections import Counter
from pathlib import Path

import pytest

from examples.studies import boosters

PAGE = (Path(__file__).parents[2] / "doc" / "multilabel_benchmark.md").read_text()


def tables():
    """Return the scores of each row, by data set and title of the row."""
    found = {}
    for block in PAGE.split("\n\n"):
        lines = block.splitlines()
        heading = re.match(r"\| (.+?) \| log loss \| log-lik\. ", lines[0]) if lines else None
        if heading and heading[1] != "gain of ours":
            rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
            found[heading[1]] = {title: list(map(float, cells)) for title, *cells in rows}
    return found


def test_the_table_of_gains_follows_from_the_scores():
    found = tables()
    assert len(found) == 11
    assert "\n".join(boosters.gain_lines(found)) in PAGE


def test_the_text_counts_the_cells():
    gains = {name: boosters.gains(table) for name, table in tables().items()}
    verdicts = Counter(boosters.verdict(m, g) for row in gains.values() for m, g in row.items())
    n_cells, n_kept = verdicts.total(), verdicts["first"] + verdicts["draw"]
    text = (
        f"reached in {n_kept} of {n_cells} cells: first in {verdicts['first']}, a draw in "
        f"{verdicts['draw']}, behind in {verdicts['behind']}"
    )
    assert text in " ".join(PAGE.split())


def test_gains_compare_the_best_rows():
    """A loss is better if it is lower, and a booster on top of which is a CRBM is left out."""
    table = {
        "LightGBM, own": [0.5, -3.0, *(0.2,) * 6, 1],
        "CatBoost, our rules": [0.4, -2.0, *(0.3,) * 6, 1],
        "CatBoost, on top, our rules": [0.1, -1.0, *(0.9,) * 6, 1],
        "CRBMClassifier(), our rules": [0.3, -1.5, *(0.2,) * 6, 1],
        "make_stacked(), our rules": [0.45, -4.0, *(0.309,) * 6, 1],
    }
    found = boosters.gains(table)
    assert found["log loss"] == pytest.approx(0.1)
    assert found["log-lik."] == pytest.approx(0.5)
    assert found["F1"] == pytest.approx(0.009)
    assert boosters.verdict("F1", 0.01) == "draw"
    assert boosters.verdict("log loss", 0.01) == "first"
    assert boosters.verdict("LRAP", -0.011) == "behind"
