"""Tests of the columns of features in dicts and in collections of strings."""

import pickle
from enum import StrEnum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import DictVectorizer

from skcrbm.targets import sequences
from skcrbm.targets.sequences import SequenceRows

_NAMES = st.sampled_from(["a", "b", "a=b", "b=a", "c"])
_VALUES = st.one_of(
    st.sampled_from(["a", "b=a", "1", "", "x"]),
    st.sampled_from([0, 1, True, False, 2.5, -1, np.float32(0.5), 0.0, 1.0]),
)
_DICTS = st.dictionaries(_NAMES, _VALUES, max_size=4)
_STRINGS = st.lists(st.sampled_from(["a", "b", "a=b", "c"]), max_size=5)


def by_name(rows, converter):
    """Return the values of each row by the names of the features, without zeros."""
    names = list(converter.index.columns)
    return [{names[j]: v for j, v in enumerate(row) if v} for row in rows.toarray().tolist()]


@pytest.mark.deep
@settings(max_examples=300, deadline=None)
@given(st.lists(_DICTS, min_size=1, max_size=6), st.lists(_DICTS, min_size=1, max_size=6))
def test_rows_of_dicts_equal_dict_vectorizer(train, test):
    train = [*train, {"c": 1}]  # at least one feature
    converter, vectorizer = SequenceRows(), DictVectorizer()
    expected = vectorizer.fit_transform(train).toarray()
    columns = vectorizer.vocabulary_
    rows, _ = converter.fit_transform([train])
    assert set(converter.index.columns) == set(columns)
    order = [columns[name] for name in converter.index.columns]
    np.testing.assert_array_equal(rows.toarray(), expected[:, order])
    expected = vectorizer.transform(test).toarray()[:, order]
    for again in (converter, converter, pickle.loads(pickle.dumps(converter))):
        rows, _ = again.transform([test])
        np.testing.assert_array_equal(rows.toarray(), expected)
        assert rows.has_canonical_format


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(_DICTS, _STRINGS, _STRINGS.map(set), _STRINGS.map(tuple)), min_size=1))
def test_dicts_and_strings_in_one_sequence(items):
    items = [*items, {"c": 1}]
    dicts = [item if isinstance(item, dict) else dict.fromkeys(item, 1) for item in items]
    expected = DictVectorizer(sparse=False).fit(dicts).transform(dicts)
    names = sorted({f"{k}={v}" if isinstance(v, str) else k for d in dicts for k, v in d.items()})
    converter = SequenceRows()
    rows, start = converter.fit_transform([items, items[-1:]])
    assert start.tolist() == [0, len(items), len(items) + 1]
    found = by_name(rows[:-1], converter)
    assert found == [{n: v for n, v in zip(names, row) if v} for row in expected.tolist()]


@pytest.mark.parametrize("size", [1, 2, 4096])
def test_parts_do_not_change_the_columns(monkeypatch, size):
    monkeypatch.setattr(sequences, "_ITEMS_PER_PART", size)
    X = [
        [{"w": "x", "n": 2}, {"w": "y"}, {"n": np.False_, "w": "x"}],
        [["w=y", "w=y", "z"], {"w": "z"}],
    ]
    converter = SequenceRows()
    rows, _ = converter.fit_transform(X)
    assert list(converter.index.columns) == ["w=x", "n", "w=y", "z", "w=z"]
    expected = [[1, 2, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(rows.toarray(), expected)
    np.testing.assert_array_equal(converter.transform(X)[0].toarray(), expected)


@pytest.mark.parametrize("size", [1, 4096])
@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"w": "x", "bad": [1]}, "sequence 1 of X has the feature 'bad' with the value"),
        ({"w": "x", "bad": 1j}, "sequence 1 of X has the feature 'bad' with the value 1j"),
        ({"w": "x", "bad": None}, "sequence 1 of X has the feature 'bad' with the value None"),
        (["x", ["y"]], r"sequence 1 of X holds the feature \['y'\]; names of features should be"),
        ("word", "sequence 1 of X holds 'word'; each position should be a dict or a collection"),
        (5, "sequence 1 of X holds 5; each position should be a dict or a collection"),
        ({"w": "x", "n": 1, "big": 10**400}, "sequence 1 of X has the feature 'big' with a number"),
        (iter(["x"]), "sequence 1 of X holds a position of the type list_iterator, which can be"),
    ],
)
def test_an_invalid_position_names_its_sequence(monkeypatch, size, item, message):
    monkeypatch.setattr(sequences, "_ITEMS_PER_PART", size)
    first = [["x"]] if isinstance(item, list) else [{"w": "x"}]
    converter = SequenceRows()
    converter.fit_transform([first * 3, [*first, {"w": "y"}], first])
    for convert in (SequenceRows().fit_transform, converter.transform):
        with pytest.raises(ValueError, match=message):
            convert([first * 3, [*first, item], first])


class _Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def test_keys_and_values_that_are_not_plain_strings():
    items = [{1: "a", "c": _Colour.RED}, {1: "b", "c": _Colour.BLUE}, {1: np.str_("a"), "n": 7}]
    converter = SequenceRows()
    rows, _ = converter.fit_transform([items])
    assert rows.nnz == 6
    found, _ = converter.transform([items])
    np.testing.assert_array_equal(found.toarray(), rows.toarray())


@pytest.mark.parametrize("first", [[["x"]], [{"w": "x"}]])
def test_a_list_whose_positions_are_all_empty(first):
    """The features of the fit decide that empty lists are positions without features."""
    converter = SequenceRows()
    converter.fit_transform([first])
    rows, start = converter.transform([[[], []], [[]]])
    assert rows.shape == (3, 1)
    assert rows.nnz == 0
    np.testing.assert_array_equal(start, [0, 2, 3])
    rows, start = converter.transform([[[]], [], np.empty((0, 5))])  # empty sequences
    assert (rows.shape, start.tolist()) == ((1, 1), [0, 1, 1, 1])
    with pytest.raises(ValueError, match="list of sequences of dicts or of collections of strings"):
        converter.transform([[[1.0]]])


def test_objects_that_can_be_read_only_once_are_errors():
    converter = SequenceRows()
    converter.fit_transform([[["x"]]])
    for convert in (SequenceRows().fit_transform, converter.transform):
        with pytest.raises(ValueError, match="sequence 0 of X holds a position of the type list_i"):
            convert([[iter(["x"]), ["x"]]])
        for X in ([(item for item in [["x"]])], [[["x"]], map(list, "x")]):
            with pytest.raises(ValueError, match="each sequence of X should be an array"):
                convert(X)
