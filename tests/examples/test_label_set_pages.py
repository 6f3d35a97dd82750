"""Sentences about the sizes of label sets agree with the tables of their page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "doc" / "label_sets.md").read_text()


def cells(first, title):
    """Return the cells of the row `title` of the table whose first heading is `first`."""
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    for line in lines[start:]:
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if row[0] == title:
            return row[1:]
    raise AssertionError(f"no row {title}")


def number(text):
    return float(text.replace(",", ""))


def sizes(title, table="Yeast"):
    """Return the mean size of the sets, which is the last but one column of both tables."""
    return number(cells(table, title)[-2])


def test_the_readme_has_the_figures_of_the_table():
    readme = " ".join((ROOT / "README.md").read_text().split())
    found = re.search(
        r"needs (\S+) vectors by the probabilities of `CRBMClassifier\(\)`, (\S+) by ten "
        r"classifier chains, and (\S+) by the marginals",
        readme,
    )
    titles = (
        "`CRBMClassifier()`",
        "ten classifier chains, C=1",
        "marginals of `CRBMClassifier()`, independent",
    )
    assert [number(text) for text in found.groups()] == [sizes(title) for title in titles]


WORDS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "fifteenth": 15, "sixteenth": 16}
WORDS |= {"seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20}
CONTROL = "marginals of `CRBMClassifier()`, independent"
JOINT, CHAINS = "`CRBMClassifier()`", "ten classifier chains, C=0.1"
MIXTURE, FOUR = "mixture of stack, units and flips", "Yeast, four splits"


@pytest.mark.parametrize(
    ("phrase", "model", "rival", "table"),
    [
        (r"are an? (\w+) of the size of the control's sets", JOINT, CONTROL, "Yeast"),
        (r"and (\w+) the size of the chains' sets", JOINT, "ten classifier chains, C=1", "Yeast"),
        (r"has a (\w+) of the size of the chains' sets with C=0.1", MIXTURE, CHAINS, FOUR),
        (r"\*\* has a (\w+) of the size of the control", JOINT, CONTROL, FOUR),
        (r"and a (\w+) of the size of the chains with C=0.1", JOINT, CHAINS, FOUR),
    ],
)
def test_ratios_in_the_text_are_ratios_of_the_table(phrase, model, rival, table):
    word = re.search(phrase, " ".join(PAGE.split())).group(1)
    ratio = sizes(rival, table) / sizes(model, table)
    assert ratio == pytest.approx(WORDS[word], rel=0.1)


def test_ratios_of_the_search_refer_to_the_chains():
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {FOUR} |"))
    rows = [line.split("|")[1:-1] for line in lines[start + 2 : start + 14]]
    for *_, size, ratio in rows:
        found = number(size) / sizes(CHAINS, FOUR)  # of sizes that are rounded
        assert found == pytest.approx(float(ratio), abs=0.007, rel=0.01)


@pytest.mark.parametrize("name", ["Yeast (14)", "enron (53)", "medical (45)", "emotions (6)"])
def test_coverages_are_within_two_standard_errors(name):
    """Both are rounded to three decimals."""
    for stated, cell in zip((0.8, 0.9, 0.95), cells("set (labels)", name)[1:], strict=False):
        covered, error = map(float, cell.split(" ± "))
        assert abs(covered - stated) <= 2 * error + 0.0015
