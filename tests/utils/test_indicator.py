"""Questions about 0/1 label matrices with gaps."""

import numpy as np
import pytest

from skcrbm.utils.indicator import (
    distinct_rows,
    indicator_with_nan,
    label_sets_of,
    may_be_empty,
    unseen_share,
)

NAN = np.nan


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[1, 0], [0, 1]], False),
        ([[1, 0], [0, 0]], True),
        ([[1, NAN], [0, 1]], False),
        ([[0, NAN], [0, 1]], False),  # the first row decides nothing
        ([[0, NAN], [NAN, NAN]], True),  # nothing decides
        ([[1], [1]], True),  # a single label may always be off
    ],
)
def test_whether_a_row_may_have_no_label(rows, expected):
    assert may_be_empty(np.array(rows, float)) is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[1, 0], [1, 0], [0, 1]], 1 / 3),
        ([[1, 0], [0, 1]], 1.0),
        ([[1, 0], [1, 0]], 0.0),
        ([[1, 0], [1, 0], [0, NAN]], 0.0),
        ([[1, NAN]], 1.0),
    ],
)
def test_share_of_label_sets_that_are_new(rows, expected):
    assert unseen_share(np.array(rows, float)) == expected


def test_distinct_rows_in_order():
    rows = np.random.default_rng(0).integers(2, size=(200, 9))
    np.testing.assert_array_equal(distinct_rows(rows), np.unique(rows, axis=0))
    sets = label_sets_of(np.array([[1.0, 1], [0, NAN], [0, 1], [1, 1]]))
    np.testing.assert_array_equal(sets, [[0, 1], [1, 1]])
    assert label_sets_of(np.array([[NAN, 1.0]])).shape == (0, 2)


def test_the_first_five_odd_values_are_named():
    odd = np.array([[3.0, 4], [5, 6], [7, 8]])
    with pytest.raises(ValueError, match=r"other values: 3, 4, 5, 6, 7 .*\. Unknown"):
        indicator_with_nan(odd)
