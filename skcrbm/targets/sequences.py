"""Convert lists of sequences to flat arrays: X to a matrix, and y to a list of all labels.

The positions of the first sequence come first, then the positions of the second sequence, and so
on. An array `start` contains the first position of each sequence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import chain, pairwise, repeat
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import check_array

from skcrbm.targets.codes import is_missing, label_list
from skcrbm.targets.feature_names import ColumnNames, require_same_columns, stacked_tables
from skcrbm.targets.names import is_frame
from skcrbm.utils.ragged import SequenceArrays
from skcrbm.utils.validation import check_sample_weight, hold_dates
from skcrbm.utils.wrong_features import is_number

# Number of positions whose features are converted together. A larger number takes more memory.
_ITEMS_PER_PART = 4096
# Types of positions that are collections of names: each named feature has the value 1.
_COLLECTIONS = {list, tuple, set, frozenset}
# Types of values of a dict that hold further features.
_NESTED = {*_COLLECTIONS, dict}


class Structure(NamedTuple):
    """Words for a structure and its parts in error messages, such as "sequence" and "position"."""

    whole: str
    part: str


SEQUENCE, GRAPH = Structure("sequence", "position"), Structure("graph", "node")
IMAGE = Structure("image", "pixel")


class FeatureIndex:
    """Map names of features to columns, to turn dicts or strings into rows of a CSR matrix.

    In a dict, a number is the value of its feature, and a string, as in ``{"word": "the"}``, means
    that the feature "word=the" has the value 1. The features in a dict or collection inside of a
    dict get its key as a prefix, such as "near:a". In a collection of strings, each string is the
    name of a feature with the value 1.

    From dicts of numbers and strings, scikit-learn's `DictVectorizer` makes the same matrix, apart
    from the order of the columns. It also takes None, which becomes NaN, and a list of strings,
    which becomes a feature "word=the" for each string; both are errors here. `DictVectorizer` is
    not used, because it takes ten times as long, which would be most of the time of a prediction.
    """

    def __init__(self, kind: Structure = SEQUENCE):
        self.columns: dict[str, int] = {}
        self.kind = kind
        # Map from keys of dicts to maps from values to columns. Two look-ups take less time than
        # making the string "word=the". The first prediction from dicts makes this map.
        self._by_key: dict[str, dict[str, int]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave `_by_key` out of a pickle, because predictions make it again."""
        return {**vars(self), "_by_key": None}

    def rows(self, X: list, start: np.ndarray, learn: bool) -> csr_matrix:
        """Return the rows of all positions; add new features if `learn` is True, else skip them.

        `start` holds the first position of each sequence, for error messages.
        """
        if learn:
            self._by_key = None
            self.columns = defaultdict()
            self.columns.default_factory = self.columns.__len__
        items = list(chain.from_iterable(X))
        parts = [
            self._part(items[a : a + _ITEMS_PER_PART], start, a, learn)
            for a in range(0, len(items), _ITEMS_PER_PART)
        ]
        if learn:
            self.columns = dict(self.columns)
            _check_names(self.columns)
        columns, data, lengths, once = map(list, zip(*parts))
        del parts, items
        return self._matrix(*map(_joined, (columns, data, lengths, once)))

    def _part(self, items, start, first, learn):
        """Return the features of the positions `items`; the first of them has the index `first`.

        The result has four arrays: the column of each feature (-1 if the feature is unknown), the
        value of each feature, the number of features of each position, and True for each position
        that is a collection of strings.
        """
        kinds = set(map(type, items))
        collections = kinds <= _COLLECTIONS
        if not collections and kinds != {dict}:
            number = np.searchsorted(start, np.arange(first, first + len(items)), side="right") - 1
            items = [_as_dict(item, i, self.kind) for item, i in zip(items, number.tolist())]
        if not collections and any(kind in _NESTED for kind in _kinds_of_values(items)):
            number = np.searchsorted(start, np.arange(first, first + len(items)), side="right") - 1
            items = [_flat(item, i, self.kind) for item, i in zip(items, number.tolist())]
        lengths = np.fromiter(map(len, items), np.int64, len(items))
        try:
            if collections:
                columns = self._of_strings(items, int(lengths.sum()), learn)
                data = np.broadcast_to(1.0, columns.shape)  # takes no memory
            else:
                columns, data = self._of_dicts(items, learn)
        except _FeatureError as error:
            place = first + int(np.searchsorted(np.cumsum(lengths), error.place, side="right"))
            number = int(np.searchsorted(start, place, side="right")) - 1
            raise ValueError(f"{self.kind.whole} {number} of X {error}") from None
        return columns, data, lengths, np.full(len(items), collections)

    def _of_strings(self, items, n_names, learn):
        """Return the column of each string in collections of strings."""
        names = chain.from_iterable(items)
        find = map(self.columns.__getitem__, names) if learn else self._found(names)
        try:
            return np.fromiter(find, np.int32, n_names)
        except TypeError:  # a name that cannot be hashed
            for place, name in enumerate(chain.from_iterable(items)):
                if not isinstance(name, str):
                    raise _FeatureError(
                        place, f"holds the feature {name!r}; names of features should be strings"
                    ) from None
            raise

    def _found(self, names):
        return map(self.columns.get, names, repeat(-1))

    def _of_dicts(self, items, learn):
        """Return the column and the value of each feature in dicts."""
        names = list(chain.from_iterable(items))
        values = list(chain.from_iterable(map(dict.values, items)))
        if learn:
            pairs = zip(names, values)
            features = (f"{k}={v}" if isinstance(v, str) else k for k, v in pairs)
            columns = np.fromiter(map(self.columns.__getitem__, features), np.int32, len(names))
            others = [i for i, value in enumerate(values) if not isinstance(value, str)]
        else:
            columns = self._columns_of_pairs(names, values)
            missing = np.flatnonzero(columns == -1).tolist()
            others = [i for i in missing if type(values[i]) is not str or type(names[i]) is not str]
        data = np.broadcast_to(1.0, columns.shape)  # takes no memory
        if others:
            data = np.ones(len(columns))
            names, values = ([part[i] for i in others] for part in (names, values))
            if not learn:
                pairs = zip(names, values)
                features = (f"{k}={v}" if isinstance(v, str) else k for k, v in pairs)
                columns[others] = np.fromiter(self._found(features), np.int32, len(others))
            data[others] = _numbers(names, values, others)
        return columns, data

    def _columns_of_pairs(self, names, values):
        """Return the column of each pair of a key and a string value, or -1 if it has no column."""
        if self._by_key is None:
            self._by_key = _columns_by_key(self.columns)
        try:
            by_value = map(self._by_key.get, names, repeat({}))
            return np.fromiter(map(dict.get, by_value, values, repeat(-1)), np.int32, len(names))
        except TypeError:  # a value that cannot be hashed is invalid, see `_numbers`
            return np.full(len(names), -1, np.int32)

    def _matrix(self, columns, data, lengths, once):
        """Return the CSR matrix of the features that `_part` returns for all positions.

        A feature that occurs twice in a collection of strings counts once.
        """
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        known = columns >= 0
        if not known.all():
            indptr = np.concatenate([[0], np.cumsum(known)])[indptr]
            columns, data = columns[known], data[known]
        indptr = indptr.astype(np.int32)
        shape = len(lengths), len(self.columns)
        rows = csr_matrix((data, columns, indptr), shape)
        rows.sort_indices()
        same = np.zeros(rows.nnz, np.bool_)
        same[1:] = rows.indices[1:] == rows.indices[:-1]
        begin = indptr[:-1][np.diff(indptr) > 0]
        same[begin] = False
        if same.any():
            rows.data[same & np.repeat(once, np.diff(indptr))] = 0.0
            rows.sum_duplicates()
        return rows


def _joined(parts):
    """Concatenate a list of arrays and empty the list, to free the memory of the arrays."""
    found = np.concatenate(parts)
    parts.clear()
    return found


def _kinds_of_values(items):
    """Return the types of the values in dicts."""
    return set(map(type, chain.from_iterable(map(dict.values, items))))


def _flat(item, number, kind, prefix=""):
    """Return the features of a dict whose values may be dicts or collections of strings.

    The features inside get the key as a prefix, as in crfsuite: ``{"near": ["a", "b"]}`` has the
    features "near:a" and "near:b", and ``{"next": {"word": "the"}}`` has "next:word=the".
    """
    found: dict[Any, Any] = {}
    for key, value in item.items():
        name = f"{prefix}{key}" if prefix else key
        if isinstance(value, Mapping):
            found.update(_flat(value, number, kind, f"{name}:"))
        elif type(value) in _COLLECTIONS:
            for inner in value:
                if not isinstance(inner, str):
                    raise ValueError(
                        f"{kind.whole} {number} of X has the feature {key!r} with the value "
                        f"{inner!r} in a collection; a collection should hold strings"
                    )
                found[f"{name}:{inner}"] = 1.0
        else:
            found[name] = value
    return found


class _FeatureError(Exception):
    """An invalid feature; `place` is its index among the features of the given positions."""

    def __init__(self, place: int, message: str):
        super().__init__(message)
        self.place = place


def _columns_by_key(columns):
    """Return a dict that maps the key "word" to ``{"the": column}`` for the feature "word=the"."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for name, column in columns.items():
        end = name.find("=")
        while end >= 0:  # "a=b=c" may have the key "a" or the key "a=b"
            found[name[:end]][name[end + 1 :]] = column
            end = name.find("=", end + 1)
    return dict(found)


def _numbers(names, values, places):
    """Return the values of features as numbers, with 1.0 for strings."""
    wrong = [
        kind
        for kind in set(map(type, values))
        if not issubclass(kind, (str, Number, np.bool_)) or issubclass(kind, complex)
    ]
    if wrong:
        i = next(i for i, value in enumerate(values) if type(value) in wrong)
        raise _FeatureError(
            places[i],
            f"has the feature {names[i]!r} with the value {values[i]!r}; values should be strings "
            "or numbers",
        )
    try:
        return [1.0 if isinstance(value, str) else float(value) for value in values]
    except OverflowError:
        i = next(i for i, value in enumerate(values) if _overflows(value))
        raise _FeatureError(
            places[i],
            f"has the feature {names[i]!r} with a number that is too large for a float; its "
            "magnitude should be at most 1.8e308",
        ) from None


def _overflows(value):
    """Return True if a value, a string or a number, is a number that is too large for a float."""
    try:
        _ = 1.0 if isinstance(value, str) else float(value)
    except OverflowError:
        return True
    return False


def _as_dict(item, number, kind):
    """Return the features of a position as a dict; each string of a collection has the value 1."""
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
        raise ValueError(
            f"{kind.whole} {number} of X holds {item!r}; each {kind.part} should be a dict or a "
            "collection of strings"
        )
    _require_length(item, number, kind)
    return dict.fromkeys(item, 1)


def _require_length(item, number, kind):
    """Raise a ValueError if a position is an iterator, which loses its features when it is read."""
    if not isinstance(item, Sized):
        raise ValueError(
            f"{kind.whole} {number} of X holds a {kind.part} of the type {type(item).__name__}, "
            f"which can be read only once; each {kind.part} should be a dict or a list"
        )


def _check_names(names):
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"X holds the feature {name!r}; names of features should be strings")


class SequenceRows:
    """Converter of a list of sequences into a matrix with a row for each position.

    A sequence is an array, a data frame or a sparse matrix (n_i, n_features), or a list with a dict
    or a collection of strings for each position, see `FeatureIndex`. `owner` is the name of the
    estimator in warnings.
    """

    def __init__(self, kind: Structure = SEQUENCE, owner: str = "the model"):
        self.kind = kind
        self.columns = ColumnNames(owner)
        self.index: FeatureIndex | None = None
        self.n_features: int | None = None

    @property
    def names(self) -> np.ndarray | None:
        """Names of the features, from dicts, strings or data frames; None without names."""
        return self.columns.names if self.index is None else np.array([*self.index.columns], object)

    def fit_transform(self, X: Any) -> SequenceArrays:
        """Return the features of all positions, and store the features of the fit."""
        X = list_of(X, "X", f"{self.kind.whole}s")
        self.index = FeatureIndex(self.kind) if _holds_items(X, self.kind) else None
        if all(map(is_empty, X)):
            raise ValueError(f"all {self.kind.whole}s of X are empty, so there is nothing to fit")
        if self.index is None:
            self.columns.learn(_tables(X), self.kind.whole)
            rows, start = self._stacked(X)
        else:
            rows, start = self._indexed(X, learn=True)
        self.n_features = rows.shape[1]
        return SequenceArrays(rows, start)

    def transform(self, X: Any) -> SequenceArrays:
        """Return the features of all positions, with the columns of the fit."""
        X = list_of(X, "X", f"{self.kind.whole}s")
        if self.index is not None:
            if _holds_items(X, self.kind) is False:
                raise ValueError(
                    f"X should be a list of {self.kind.whole}s of dicts or of collections of "
                    "strings, as in fit"
                )
            return SequenceArrays(*self._indexed(X, learn=False))
        if _holds_items(X, self.kind):
            raise ValueError(
                f"X holds dicts or strings, but the model was fitted on arrays with "
                f"{self.n_features} features"
            )
        self.columns.check(_tables(X), self.kind.whole)
        rows, start = self._stacked(X)
        if start[-1] == 0:
            return SequenceArrays(np.empty((0, self.n_features or 0)), start)
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features, but the model was fitted with {self.n_features} "
                "features"
            )
        return SequenceArrays(rows, start)

    def _stacked(self, X):
        rows, start = _stacked(X, self.kind, self.columns.names)
        rows = _checked(rows, start, self.kind) if start[-1] else rows
        if issparse(rows):
            rows.sum_duplicates()
        return rows, start

    def _indexed(self, X, learn):
        start = _starts([len(sequence) for sequence in X])
        if start[-1] == 0:
            return csr_matrix((0, len(self.index.columns))), start
        return _checked(self.index.rows(X, start, learn), start, self.kind), start


def list_of(values: Any, name: str, kind: str) -> list:
    """Return the values as a list, or raise a ValueError; `kind` names the expected items."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"{name} should be a list of {kind}, got {type(values).__name__}")
    if (
        issparse(values)
        or is_frame(values)
        or hasattr(values, "iloc")
        or getattr(values, "ndim", 3) == 2
    ):
        raise ValueError(
            f"{name} should be a list of {kind}, got a single table of shape {values.shape}; "
            f"pass [{name}] for a list with a single item"
        )
    values = list(values)
    if not values:
        raise ValueError(f"{name} is an empty list; it should hold at least one of the {kind}")
    return values


def _holds_items(X, kind):
    """Return True if positions are dicts or collections of strings, False if they are numbers.

    The result is None if all sequences are empty, or if all positions are empty lists, which may be
    positions without features.
    """
    for sequence in X:
        table = issparse(sequence) or is_frame(sequence)
        if not table and (isinstance(sequence, (str, bytes, Mapping)) or not _is_list(sequence)):
            advice = ""
            if isinstance(sequence, Mapping):
                advice = f"; if X holds the {kind.part}s of a single {kind.whole}, pass [X]"
            elif isinstance(sequence, (str, bytes)):
                advice = f"; write a word as its features, as in [[{{'word': {sequence!r}}}, ...]]"
            raise ValueError(
                f"each {kind.whole} of X should be an array (n_{kind.part}s, n_features) or a list "
                f"of dicts, got {type(sequence).__name__}{advice}"
            )
    for i, sequence in enumerate(X):
        if is_empty(sequence):
            continue
        if issparse(sequence) or is_frame(sequence) or isinstance(sequence, np.ndarray):
            return False
        for item in sequence:
            if isinstance(item, (str, bytes)):
                raise ValueError(
                    f"a {kind.part} of X should be a dict of features or a list of strings, got "
                    f"the string {item!r}; write ['{item}'] if it is a feature"
                )
            if isinstance(item, (Mapping, set, frozenset)):
                return True
            if not isinstance(item, Iterable):
                return False
            _require_length(item, i, kind)
            values = list(item)
            if values:
                return any(isinstance(value, str) for value in values)
    return None


def _is_list(sequence):
    """Return True if an object has items and a length; a generator, for example, has no length."""
    return isinstance(sequence, Iterable) and isinstance(sequence, Sized)


def is_empty(sequence: Any) -> bool:
    """Return True if a list or table has no rows."""
    shape = getattr(sequence, "shape", None)
    if shape is None:
        return isinstance(sequence, Sized) and len(sequence) == 0
    return tuple(shape[:1]) == (0,)


def _tables(X):
    """Return the tables of X, with None in place of tables without rows, whose columns are free."""
    return [None if is_empty(table) else table for table in X]


def _starts(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _stacked(X, kind, names):
    """Stack the tables X; return all rows as one table, and the start of each sequence.

    `names` are the names of the columns of the tables, or None. The values are not checked. If all
    tables are empty, the result has no columns.
    """
    parts: list[Any] = []
    start = _starts([_n_rows(sequence) for sequence in X])
    first = int(np.searchsorted(start, 0, side="right")) - 1
    for i, sequence in enumerate(X):
        if is_empty(sequence):
            continue
        refuse_unclear_table(sequence, f"{kind.whole} {i} of X")
        part = sequence if issparse(sequence) or is_frame(sequence) else np.asarray(sequence)
        if len(part.shape) != 2:
            raise ValueError(
                f"{kind.whole} {i} of X should have the shape (n_{kind.part}s, n_features), "
                f"got an array of shape {part.shape}"
            )
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"{kind.whole} {i} of X has {part.shape[1]} features, but {kind.whole} {first} has "
                f"{parts[0].shape[1]}"
            )
        parts.append(part)
    return stacked_tables(parts, names) if parts else np.empty((0, 0)), start


def _n_rows(sequence):
    shape = getattr(sequence, "shape", None)
    return len(sequence) if not shape else shape[0]


def _checked(rows, start, kind):
    """Return the rows of all positions as floats; raise a ValueError if they are not finite."""
    try:
        return check_array(
            rows, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name="X"
        )
    except ValueError:
        values = rows.data if issparse(rows) else np.asarray(rows)
        if (text := first_text(values)) is not None:
            row, column = text
            number = np.searchsorted(start, row, side="right") - 1
            name = repr(rows.columns[column]) if is_frame(rows) else column
            word = repr(str(values[text]))
            raise ValueError(
                f"{kind.whole} {number} of X holds the text {word} in feature {name} of "
                f"{kind.part} {row - start[number]}. Encode texts as numbers, or pass a dict of "
                f"features for each {kind.part}, such as {{'word': {word}}}, or a list of strings"
            ) from None
        if values.dtype == object:
            values = np.array([_as_nan(value) for value in values.flat]).reshape(values.shape)
        finite = values.dtype.kind not in "fc" or np.isfinite(values)
        if np.all(finite):  # another error
            raise
        place = np.argwhere(~finite)[0, 0]
        row = np.searchsorted(rows.indptr, place, side="right") - 1 if issparse(rows) else place
        column = rows.indices[place] if issparse(rows) else np.argwhere(~finite)[0, 1]
        number = np.searchsorted(start, row, side="right") - 1
        raise ValueError(
            f"{kind.whole} {number} of X contains NaN or infinity, in feature {column} of "
            f"{kind.part} {row - start[number]}; the features should be finite numbers"
        ) from None


def refuse_unclear_table(table: Any, place: str) -> None:
    """Raise an error if a table has masked entries, or holds dates or times.

    A cast to float would read hidden values, and turn dates into numbers that depend on their unit.
    The error refers to the table as `place`.
    """
    if np.ma.is_masked(table):
        raise ValueError(f"{place} has masked entries, whose hidden values would be used")
    if hold_dates(table):
        raise TypeError(f"{place} holds dates or times; convert them to numbers with a unit")


def first_text(values: np.ndarray) -> tuple[int, ...] | None:
    """Return the row and column of the first text in a table that is not a number, or None."""
    if values.dtype.kind not in "USO" or values.ndim != 2:
        return None
    for place, value in np.ndenumerate(values):
        if isinstance(value, (str, bytes)) and not is_number(value):
            return place
    return None


def _as_nan(value):
    """Return NaN for a missing value, the value if it is a float, and 0 for any other object."""
    if is_missing(value):
        return np.nan
    return value if isinstance(value, (float, np.floating)) else 0.0


def positions(X: Any) -> tuple[Any, np.ndarray]:
    """Return all positions as one matrix or one list, and the start of each sequence."""
    X = list_of(X, "X", "sequences")
    if not _holds_items(X, SEQUENCE):
        return _stacked(X, SEQUENCE, require_same_columns(_tables(X), SEQUENCE.whole))
    start = _starts([len(sequence) for sequence in X])
    return [item for sequence in X for item in sequence], start


# ------------------------------------------------------------------------------------- labels


def flat_labels(y: Any, start: np.ndarray, name: str = "y", kind: Structure = SEQUENCE) -> list:
    """Return the labels of all positions as one list, with None for missing labels.

    None in place of a sequence means that all labels of the sequence are missing. A ValueError is
    raised if the number of sequences, or the length of a sequence, differs from X. `start` (n + 1,)
    contains the first position of each sequence of X. Error messages refer to `y` as `name`.
    """
    if isinstance(y, np.ndarray) and y.ndim == 2:
        y = list(y)
    y = list_of(y, name, f"labels of {kind.whole}s")
    lengths = np.diff(start)
    if len(y) != len(lengths):
        raise ValueError(f"{name} has {len(y)} {kind.whole}s, but X has {len(lengths)}")
    flat = []
    for i, (labels, length) in enumerate(zip(y, lengths)):
        if labels is None:
            flat.extend([None] * length)
            continue
        labels = label_list(labels, f"{kind.whole} {i} of {name}", kind.part)
        if len(labels) != length:
            raise ValueError(
                f"{kind.whole} {i} of {name} has {len(labels)} labels, but {kind.whole} {i} of X "
                f"has {length} {kind.part}s"
            )
        flat.extend(labels)
    return flat


def item_weights(sample_weight: Any, start: np.ndarray, kind: Structure) -> np.ndarray | None:
    """Return the weights (T,) of the items of all rows; None if `sample_weight` weights rows.

    Weights of items are a list with the weights of the items of each row. A ValueError is raised if
    they are negative, not numbers, all 0, or have a wrong shape.
    """
    if not isinstance(sample_weight, Iterable) or isinstance(sample_weight, (str, bytes, Mapping)):
        return None
    if isinstance(sample_weight, Iterator) or is_frame(sample_weight) or issparse(sample_weight):
        return None
    if not any(isinstance(part, (list, tuple)) or np.ndim(part) for part in sample_weight):
        return None
    lengths = np.diff(start)
    if len(sample_weight) != len(lengths):
        raise ValueError(
            f"sample_weight has {len(sample_weight)} {kind.whole}s, but X has {len(lengths)}"
        )
    parts = []
    for i, (given, length) in enumerate(zip(sample_weight, lengths.tolist())):
        wanted = f"{kind.whole} {i} of sample_weight should hold a number for each {kind.part}"
        try:
            if given is None or np.ma.is_masked(given):
                raise TypeError("it has missing or masked weights; use a weight of 0")
            part = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{wanted}: {error}") from error
        if part.shape != (length,):
            raise ValueError(f"{wanted}, ({length},); got the shape {part.shape}")
        parts.append(part)
    weight = np.concatenate(parts)
    return check_sample_weight(weight, weight)


def split_rows(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Split values (T, ...) into an object array with the values of each sequence."""
    parts = np.empty(len(start) - 1, object)
    for c, (begin, end) in enumerate(pairwise(start)):
        parts[c] = values[begin:end]
    return parts


def flatten(parts: Iterable) -> list:
    """Return the items of all `parts` as one list."""
    return list(chain.from_iterable(parts))
