"""Text of the pages of the documentation."""

import re
from pathlib import Path

DOC = Path(__file__).parents[2] / "doc"


def found_in(page, phrase):
    """Return the match of a phrase with figures in a page, whose lines may be broken anywhere."""
    found = re.search(phrase, " ".join((DOC / page).read_text().split()))
    assert found, "the phrase has changed: adapt this test"
    return found
