"""Questions about 0/1 label matrices with gaps."""

import numpy as np
import pytest

from skcrbm.energies.states import signs_of, visible_of
from skcrbm.targets.indicator import indicator_with_nan, observed_weight
from skcrbm.targets.label_sets import distinct_rows, label_sets_of, may_be_empty, unseen_share

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


def with_gaps(n_rows=50):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=(n_rows, 3)).astype(np.float32)
    y[rng.random(y.shape) < 0.1] = NAN
    return y


def test_blocks_of_rows_change_nothing(monkeypatch):
    y, weight = with_gaps(), np.arange(1.0, 51.0)

    def answers():
        return (
            distinct_rows(np.nan_to_num(y)),
            label_sets_of(y),
            unseen_share(y),
            observed_weight(y, weight),
            indicator_with_nan(y),
        )

    whole = answers()
    monkeypatch.setattr("skcrbm.targets.indicator.BLOCK_ENTRIES", 12)
    for found, expected in zip(answers(), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(whole[3][0], weight @ (y == 1))
    np.testing.assert_array_equal(whole[3][1], weight @ ~np.isnan(y))
    broken = y.copy()
    broken[-1, -1] = 0.5  # in the last block
    with pytest.raises(ValueError, match=r"other values: 0, 0\.5, 1"):
        indicator_with_nan(broken)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_indicator_is_a_copy_in_the_type_asked_for(dtype):
    for y in (with_gaps(), with_gaps().astype(np.float64), with_gaps().astype(object)):
        found = indicator_with_nan(y, dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, with_gaps())
        found[:] = 1.0
        assert np.isnan(y.astype(float)).any()  # the given array is unchanged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signs_there_and_back(dtype):
    y = with_gaps().astype(dtype)
    back = visible_of(signs_of(y), y.dtype)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, y)
