"""The tables of the pages are the results beside them, as their programs print them."""

import csv
import io
import re
from pathlib import Path

import pytest

from examples._harness import Rows
from examples.papers import bp_chain_tables, crbm_figures, crbm_tables, layered_tables, pmp_tables
from examples.studies import (
    boosters,
    inference_in_learning,
    learning_rules,
    margin_settings,
    persistent_messages,
    rule_settings,
)

DOC = Path(__file__).parents[2] / "doc"
REPORTS = {
    "bp_chain_tables": bp_chain_tables.report,
    "crbm_figures": lambda rows: crbm_figures.report(io.BytesIO(), rows),
    "crbm_tables": crbm_tables.markdown,
    "inference_in_learning": inference_in_learning.report,
    "layered_tables": layered_tables.markdown,
    "learning_rules_multilabel": learning_rules.markdown,
    "margin_settings": margin_settings.markdown,
    "persistent_messages": persistent_messages.markdown,
    "pmp_tables": pmp_tables.report,
    "rule_settings": rule_settings.markdown,
}
# The report of this program reads the data sets: `test_a_table_whose_report_reads_data`.
READS_DATA = "lmbm_tables"


def cells_of(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("name", REPORTS)
def test_a_table_is_made_from_its_results(name):
    path = DOC / f"{name}.csv"
    rows = Rows(path).read()
    assert len(rows) == len(path.read_text().splitlines()) - 1 > 3
    assert (DOC / f"{name}.md").read_text() == REPORTS[name](rows)


def test_every_file_of_results_has_a_test():
    results = [path for path in DOC.glob("*.csv") if path.read_text().startswith("key,")]
    assert {path.stem for path in results} == {*REPORTS, READS_DATA}


def test_a_table_whose_report_reads_data():
    with open(DOC / f"{READS_DATA}.csv", newline="") as file:
        results = {row["key"]: row for row in csv.DictReader(file)}
    shown = {}
    for line in (DOC / f"{READS_DATA}.md").read_text().splitlines():
        if line.startswith("### "):
            data = line[4:].lower()
        elif line.startswith("| ") and not line.startswith("| |"):
            name, *cells = cells_of(line)
            if not cells[0].startswith("not run"):
                shown[f"{data}, {name}"] = cells
    assert shown.keys() == results.keys()
    for key, cells in shown.items():
        row = results[key]
        assert [c.split(" ")[0] for c in cells[:5]] == [f"{float(row[k]):.3f}" for k in "HAPRF"]
        times = [cells[5], cells[6].split(" ")[0], cells[7]]
        assert times == [row["chosen"], row["fit"], row["predict"]], key


def test_a_table_of_gains_follows_from_the_scores_on_its_page():
    page = (DOC / "multilabel_benchmark.md").read_text()
    scores = {}
    for block in page.split("\n\n"):
        lines = block.splitlines()
        heading = re.match(r"\| (.+?) \| log loss \| log-lik\. ", lines[0]) if lines else None
        if heading and heading[1] != "gain of ours":
            rows = [cells_of(line) for line in lines[2:]]
            scores[heading[1]] = {title: list(map(float, cells)) for title, *cells in rows}
    assert len(scores) == 11
    assert "\n".join(boosters.gain_lines(scores)) in page
