"""Read ARFF files of multi-label data, as Mulan, MEKA, Weka and OpenML write them.

The parser of the lines is liac-arff, which scikit-learn ships for `sklearn.datasets.fetch_openml`.
This module finds the label columns and turns the values into arrays.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from skcrbm.datasets._tables import (
    as_result,
    check_option_types,
    dropped_names,
    existing_file,
    integer_unless_missing,
    label_number,
    label_positions,
    naming_the_file,
    repeated,
)
from skcrbm.exceptions import DataFileError
from skcrbm.utils.sklearn_private import arff
from skcrbm.utils.warnings import warn_user

_KEYWORD = re.compile(r"^\s*(@\w+)\s+")
_MEKA = re.compile(r"(?:^|\s)-C\s+(-?\d+)")  # number of labels in the relation name
_QUOTED = re.compile(r"""\"(?:\\.|[^"\\])*\"|'(?:\\.|[^'\\])*'""")
_ATTRIBUTE_OF_VALUE = re.compile(r"(?:^\s*\{|,)\s*(\d+)\s")  # in a sparse row
# Weight of a row, as Weka writes it: in braces at the end of the row.
_WEIGHT = re.compile(r"\s*\S.*[,\s]\s*(\{\s*[0-9.eE+-]+\s*\})\s*$")
_PROBLEMS = {
    "BadRelationFormat": "the @relation line needs a single name, in quotes if it has spaces",
    "BadAttributeFormat": "the @attribute line needs a name and a type",
    "BadAttributeType": "the type of the attribute is not numeric, real, integer, string or a list "
    "of values in braces",
    "BadAttributeName": "the name of the attribute was used before",
    "BadNumericalValue": "a numeric attribute has a value that is not a number",
}


class _Lines:
    """Iterates over the lines of an open ARFF file, and counts them."""

    def __init__(self, stream):
        self.stream = stream
        self.number = 0
        self.text = ""
        self.in_header = True

    def __iter__(self) -> Iterator[str]:
        for line in self.stream:
            self.number += 1
            self.text = line
            if self.in_header:
                line = line.lstrip("\ufeff")
                # liac-arff expects a space after a keyword; Weka also writes tabs.
                line = _KEYWORD.sub(r"\1 ", line)
                self.in_header = not line.strip().lower().startswith("@data")
            elif line.lstrip().startswith("{"):
                _require_single_values(line)
            yield line


def _require_single_values(line):
    """Raise a ValueError if a sparse row has two values of an attribute.

    The check is necessary, because liac-arff keeps the last value.
    """
    found = _ATTRIBUTE_OF_VALUE.findall(_QUOTED.sub("''", line))
    if len(set(map(int, found))) < len(found):
        twice = repeated(map(int, found))
        raise ValueError(
            f"the row has several values of attribute {twice[0]}, counted from 0; it should have "
            "one value of each attribute at most"
        )


class ArffTable(NamedTuple):
    """Contents of an ARFF file, with the features as numbers."""

    data: Any  # ndarray or CSR array (n, D)
    target: np.ndarray  # (n, L), NaN if missing
    feature_names: list
    label_names: list


def read_arff(
    path: str | os.PathLike,
    labels: int | Sequence[str] | str | os.PathLike | None = None,
    *,
    drop: Sequence[str] = (),
    dtype: Any = np.float64,
    encoding: str = "utf-8",
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Bunch | tuple:
    """Read multi-label data from an ARFF file, dense or sparse.

    Mulan, MEKA, Weka and OpenML use this format. The argument `labels`, or the file itself, says
    which columns are labels.

    Parameters
    ----------
    path : str or path-like
        ARFF file.
    labels : int, list of str, str or path-like, default=None
        Label columns: n for the first n columns, -n for the last n columns, a list of their names,
        or the path of an XML file as Mulan writes it. None takes the number after ``-C`` in the
        ``@relation`` line, which MEKA writes. If that line has no ``-C``, None takes the XML file
        of the same name in the same folder, such as ``emotions.xml`` for ``emotions.arff`` and
        ``emotions-train.arff``.
    drop : list of str, default=()
        Names of columns to leave out, such as an identifier of the row.
    dtype : {numpy.float32, numpy.float64}, default=numpy.float64
        Type of the features.
    encoding : str, default="utf-8"
        Encoding of the text, for example "latin-1" for old files.
    return_X_y : bool, default=False
        True to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        True to return `data` and `target` as data frames of pandas with names of columns. The Bunch
        then also has `frame`, a data frame with the columns of both.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` of shape (n_samples, n_features), an array, or a CSR array if the rows of the file
        are sparse; `target` of shape (n_samples, n_labels), int64 0/1 labels, or float64 with NaN
        if labels are missing; `feature_names`, `label_names`, `DESCR` and `filename`.
    (data, target) : tuple
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        If the file or the XML file is missing.
    DataFileError
        If a file is damaged. The message names the file and the line.
    ValueError
        If the file does not say which columns are labels, or `labels` or `drop` does not fit the
        file.

    See Also
    --------
    load_mulan : Read a set with its published split from ARFF files in ``data_home``.
    read_csv, read_svmlight : Readers of other formats.

    Notes
    -----
    - A question mark is a missing value: NaN in `data` and in `target`.
    - A label is 0, 1, false, true, no or yes.
    - A nominal feature whose values are all numbers, such as ``{0,1}``, becomes a column of these
      numbers. A nominal feature with two other values becomes a single column, "name=value", that
      is 1 for the second value. A nominal feature with more values becomes a column per value.
    - In a sparse row, an attribute that is not mentioned has the value 0 or, if it is nominal, its
      first value. For example, the nominal attribute ``{1,0}`` is 1 if it is not mentioned.
    - Text attributes are left out with a warning, unless `drop` names them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skcrbm.datasets import read_arff
    >>> text = '''@relation 'songs: -C 2'
    ... @attribute calm {0,1}
    ... @attribute 'sad, or lonely' {0,1}
    ... @attribute tempo numeric
    ... @attribute key {minor,major}
    ... @data
    ... 1,0,92.5,major
    ... 0,?,140,minor
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "songs.arff")
    ...     size = path.write_text(text)
    ...     songs = read_arff(path)
    >>> songs.feature_names, songs.label_names
    (['tempo', 'key=major'], ['calm', 'sad, or lonely'])
    >>> songs.data
    array([[ 92.5,   1. ],
           [140. ,   0. ]])
    >>> songs.target
    array([[ 1.,  0.],
           [ 0., nan]])
    """
    check_option_types(return_X_y=return_X_y, as_frame=as_frame)
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    path = existing_file(path)
    table = parse_arff(path, labels, drop=drop, dtype=dtype, encoding=encoding)
    target = integer_unless_missing(table.target)
    return as_result(
        table.data,
        target,
        table.feature_names,
        table.label_names,
        path,
        as_frame,
        return_X_y=return_X_y,
    )


def parse_arff(
    path: Path, labels: Any = None, *, drop: Any = (), dtype: Any, encoding: str = "utf-8"
) -> ArffTable:
    """Return the contents of an ARFF file; `labels` is as in `read_arff`."""
    is_sparse = _has_sparse_rows(path, encoding)
    with open(path, encoding=encoding) as stream:
        lines = _Lines(stream)
        with _naming_the_line(path, lines, encoding):
            decoded = arff.ArffDecoder().decode(
                lines, return_type=arff.LOD_GEN if is_sparse else arff.DENSE_GEN
            )
        names = [name for name, _ in decoded["attributes"]]
        of_labels = _find_labels(path, labels, names, decoded["relation"])
        columns = _Columns(path, decoded["attributes"], of_labels, drop)
        if not columns.feature_names:
            raise DataFileError(f"{path} has no feature: all of its columns are labels or dropped")
        fill = _sparse_table if is_sparse else _dense_table
        with _naming_the_line(path, lines, encoding):
            return fill(columns, decoded["data"], dtype)


@contextmanager
def _naming_the_line(path, lines, encoding):
    """Turn errors about the contents into a `DataFileError` that names the file and the line."""
    with naming_the_file(path, encoding):
        try:
            yield
        except (DataFileError, UnicodeDecodeError):
            raise
        except arff.ArffException as error:
            reason = _reason(lines, error)
            raise DataFileError(f"{path}, line {lines.number}: {reason}") from error
        except (ValueError, TypeError, OverflowError, IndexError) as error:
            raise DataFileError(f"{path}, line {lines.number}: {error}") from error


def _reason(lines, error):
    """Describe the problem of a line that liac-arff cannot parse."""
    kind = type(error).__name__
    if kind in _PROBLEMS:
        return _PROBLEMS[kind]
    if kind == "BadDataFormat":
        return "the row lacks the value of an attribute, or has a value of an unknown attribute"
    if kind == "BadNominalValue":
        value = str(error.message).partition("Data value ")[2].rpartition(" not found")[0]
        return f"the value {value!r} is not in the list of values of its attribute"
    if lines.in_header:
        return "the header must hold @relation, then the @attribute lines, then @data"
    weight = _WEIGHT.match(_QUOTED.sub("''", lines.text))
    if weight:
        return (
            f"the row ends with a weight in braces, {weight[1]}, but read_arff reads no weights; "
            "remove the weights from the file, and pass them to fit as sample_weight"
        )
    return (
        "the row cannot be parsed: quotes or braces do not match, or the file mixes sparse and "
        "dense rows"
    )


def _has_sparse_rows(path, encoding):
    """Return True if the first row of the data is sparse."""
    with open(path, encoding=encoding) as stream:
        lines = _Lines(stream)
        with _naming_the_line(path, lines, encoding):
            for line in lines:
                row = line.strip()
                if not lines.in_header and row and not row.lower().startswith(("@data", "%")):
                    return row.startswith("{")
    return False


def _find_labels(path, labels, names, relation):
    """Return the indices of the label columns; `labels` is as in `read_arff`."""
    if labels is None:
        meka = _MEKA.search(relation)
        labels = int(meka[1]) if meka else _xml_beside(path)
    if not isinstance(labels, (str, os.PathLike)):
        return label_positions(labels, names, path)
    found = read_label_xml(existing_file(labels))
    label_positions(found, names, path)
    return [column for column, name in enumerate(names) if name in set(found)]


def _xml_beside(path):
    """Return the path of the XML file that holds the label names of an ARFF file."""
    stem = re.sub(r"[-_](train|test)$", "", path.stem, flags=re.IGNORECASE)
    for name in dict.fromkeys([path.stem, stem]):
        found = path.with_name(f"{name}.xml")
        if found.is_file():
            return found
    raise ValueError(
        f"{path} does not say which of its columns are labels: it has no '-C n' in its "
        f"@relation line, and there is no {stem}.xml in the same folder. Pass labels: n for the "
        "first n columns, -n for the last n columns, a list of names, or the path of an XML "
        "file"
    )


def read_label_xml(path: Path) -> list[str]:
    """Return the label names in an XML file of Mulan, including nested labels."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DataFileError(f"{path} is not an XML file of labels: {error}") from error
    names = [e.get("name") for e in root.iter() if e.tag.rpartition("}")[2] == "label"]
    if not names or None in names:
        raise DataFileError(f'{path} should hold elements <label name="...">')
    return [str(name) for name in names]


class _Columns:
    """Maps the attributes of a file, and their values, to columns of the arrays."""

    def __init__(self, path, attributes, of_labels, drop):
        self.path = path
        names = [name for name, _ in attributes]
        dropped = set(dropped_names(drop, names, path))
        self.n_attributes = len(attributes)
        self.label_names = [names[column] for column in of_labels]
        self.labels = {column: place for place, column in enumerate(of_labels)}
        self.label_values = {}
        self.features = {}  # maps an attribute to (first column, {value: number} or None)
        self.feature_names = []
        self.wide = {}  # maps a nominal feature with a column per value to {value: column}
        texts = []
        for column, (name, kind) in enumerate(attributes):
            if column in self.labels:
                self.label_values[column] = kind if isinstance(kind, list) else ["0"]
            elif name in dropped:
                continue
            elif kind == "STRING":
                texts.append(name)
            elif isinstance(kind, list):
                self._add_nominal(column, name, [str(value) for value in kind])
            else:
                self.features[column] = len(self.feature_names), None
                self.feature_names.append(name)
        twice = repeated(self.feature_names)
        if twice:
            raise DataFileError(f"{path} has several columns of the name {twice[0]!r}")
        if texts:
            warn_user(
                f"{path}: the text attributes {texts[:5]} are not read; pass drop={texts[:5]} "
                "to avoid this warning"
            )

    def _add_nominal(self, column, name, values):
        twice = repeated(values)
        if twice:
            raise DataFileError(
                f"{self.path}: the attribute {name!r} lists the value {twice[0]!r} twice"
            )
        first = len(self.feature_names)
        try:
            self.features[column] = first, {value: float(value) for value in values}
            self.feature_names.append(name)
        except ValueError:
            if len(values) == 2:
                self.features[column] = first, {values[0]: 0.0, values[1]: 1.0}
                self.feature_names.append(f"{name}={values[1]}")
            else:
                self.wide[column] = {value: first + k for k, value in enumerate(values)}
                self.feature_names += [f"{name}={value}" for value in values]

    def entries(self, column, value):
        """Yield pairs (column of the array, number) that encode the value of a feature."""
        if column in self.wide:
            places = self.wide[column]
            if value is None:
                yield from ((place, np.nan) for place in places.values())
            else:
                yield places[value], 1.0
        elif column in self.features:
            place, numbers = self.features[column]
            if value is None:
                yield place, np.nan
            else:
                yield place, float(value) if numbers is None else numbers[value]

    def label(self, column, value):
        """Return 0 or 1 for the value of a label, or NaN if the value is missing."""
        if value is None:
            return np.nan
        number = label_number(value)
        if number is None:
            raise ValueError(
                f"label {self.label_names[self.labels[column]]!r} has the value {str(value)!r}; a "
                "label is 0, 1, false, true, no, yes, or ? if it is missing"
            )
        return number


def _dense_table(columns, rows, dtype):
    """Return the table of a file with dense rows, as dense arrays."""
    data, target = [], []
    for row in rows:
        x = np.zeros(len(columns.feature_names), dtype)
        y = np.empty(len(columns.labels))
        for column, value in enumerate(row):
            if column in columns.labels:
                y[columns.labels[column]] = columns.label(column, value)
            else:
                for place, number in columns.entries(column, value):
                    x[place] = number
        data.append(x)
        target.append(y)
    _check_any(columns.path, data)
    return ArffTable(np.array(data), np.array(target), columns.feature_names, columns.label_names)


def _sparse_table(columns, rows, dtype):
    """Return the table of a file with sparse rows: features as CSR, labels as a dense array."""
    # An attribute that a row does not mention has its first value, which may stand for a number
    # other than 0.
    first_label = np.array(
        [columns.label(column, values[0]) for column, values in columns.label_values.items()]
    )
    place_of = columns.labels
    default_y = np.empty(len(place_of))
    for number, column in zip(first_label, columns.label_values, strict=True):
        default_y[place_of[column]] = number
    default_x = {}
    for column, (_, numbers) in columns.features.items():
        if numbers is not None and next(iter(numbers.values())) != 0:
            default_x[column] = next(iter(numbers))
    for column, places in columns.wide.items():
        default_x[column] = next(iter(places))
    values, indices, indptr, target = array("d"), array("q"), array("q", [0]), []
    for row in rows:
        if row and max(row) >= columns.n_attributes:
            raise ValueError(
                f"row has attribute {max(row)}, but only {columns.n_attributes} are declared"
            )
        y = default_y.copy()
        entries = []
        for column, value in (default_x | row).items():
            if column in place_of:
                y[place_of[column]] = columns.label(column, value)
            else:
                entries += columns.entries(column, value)
        for place, number in sorted(entries):
            if number != 0:
                indices.append(place)
                values.append(number)
        indptr.append(len(indices))
        target.append(y)
    _check_any(columns.path, target)
    shape = len(target), len(columns.feature_names)
    parts = np.array(values, dtype), np.array(indices, np.int32), np.array(indptr, np.int32)
    data = sparse.csr_array(parts, shape=shape)
    return ArffTable(data, np.array(target), columns.feature_names, columns.label_names)


def _check_any(path, rows):
    if not rows:
        raise DataFileError(f"{path} has no rows after @data")
