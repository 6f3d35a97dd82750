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


def sizes(title):
    return number(cells("Yeast", title)[1])


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


WORDS = {"half": 2, "fifteenth": 15, "sixteenth": 16, "seventeenth": 17, "eighteenth": 18}
WORDS |= {"nineteenth": 19, "twentieth": 20}


@pytest.mark.parametrize(
    ("phrase", "rival"),
    [
        (
            r"are an? (\w+) of the size of the control's sets",
            "marginals of `CRBMClassifier()`, independent",
        ),
        (r"and (\w+) the size of the chains' sets", "ten classifier chains, C=1"),
    ],
)
def test_ratios_in_the_text_are_ratios_of_the_table(phrase, rival):
    word = re.search(phrase, " ".join(PAGE.split())).group(1)
    ratio = sizes(rival) / sizes("`CRBMClassifier()`")
    assert ratio == pytest.approx(WORDS[word], rel=0.1)
