"""Docstrings, comments and pages keep to the limits of `tests.prose`."""

import pytest

from tests import prose


@pytest.mark.deep
@pytest.mark.parametrize("paths", prose.DEFAULT, ids=lambda paths: paths[0])
def test_habits_of_style(paths):
    total = prose.count([prose.ROOT / path for path in paths])
    assert not total.of
    assert total.per_10000(total.what) <= prose.MAX_WHAT
    assert total.per_10000(total.pronouns) <= prose.MAX_PRONOUNS


def test_what_is_counted(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""Return what is there; None.\n\n    Of the labels: none, or that of x.\n"""\n# a one.\n'
    )
    total = prose.count([path])
    assert (len(total.what), len(total.pronouns), len(total.of)) == (1, 3, 1)
