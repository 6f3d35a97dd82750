"""Read multi-label data of users from files in svmlight and CSV format."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from sklearn.datasets import load_svmlight_file
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
    require_distinct_labels,
)
from skcrbm.exceptions import DataFileError
from skcrbm.utils.wrong_features import is_number

# Largest index of a feature that SciPy's sparse matrices take here.
_LARGEST_INDEX = np.iinfo(np.int32).max


def read_svmlight(
    path: str | os.PathLike,
    labels: int | Sequence[str] | None = None,
    *,
    first_label: int = 0,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    dtype: Any = np.float64,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Bunch | tuple:
    r"""Read multi-label data from a file in svmlight (libsvm) format.

    Each line describes a row: first the label numbers, separated by commas, then ``index:value``
    for each feature. The file is read by scikit-learn's ``load_svmlight_file``, and the label
    numbers become an array of 0 and 1. The first line may be "n_samples n_features n_labels", as in
    the extreme classification repository.

    Parameters
    ----------
    path : str or path-like
        Text file.
    labels : int or list of str, default=None
        Number of labels, or their names in the order of their numbers. None takes the number from
        the first line of the file or, if this line holds no sizes, makes a label of each number
        that occurs. Pass `labels` if the training file and the test file may contain different
        labels.
    first_label : int, default=0
        Number of the first label, 0 or 1 in most files.
    n_features : int, default=None
        Number of features. None takes the number from the first line of the file or, if this line
        holds no sizes, the largest index. Pass the number when you read a test file.
    zero_based : bool or "auto", default="auto"
        True if the first feature has the index 0, False if it has the index 1. "auto" takes 0 if
        the index 0 occurs, or if the number of features is known. Otherwise it takes 1.
    dtype : {numpy.float32, numpy.float64}, default=numpy.float64
        Type of the features.
    return_X_y : bool, default=False
        True to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        True to return `data` and `target` as data frames of pandas with names of columns.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data`, a CSR matrix of shape (n_samples, n_features); `target` of shape
        (n_samples, n_labels), int64 0/1 labels; `feature_names` ("feature_0" and so on),
        `label_names`, `DESCR` and `filename`.
    (data, target) : tuple
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    DataFileError
        If the file is damaged, or holds a label that `labels` does not include.
    ValueError
        If an argument is invalid.

    See Also
    --------
    read_arff, read_csv : Readers of other formats.

    Notes
    -----
    The format cannot mark a label as missing. A line without labels starts with a feature. A row
    with neither labels nor features is an empty line, which scikit-learn skips. If the first line
    gives the number of rows, a skipped row raises an error.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skcrbm.datasets import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tags.txt")
    ...     size = path.write_text("0,2 1:0.5 3:1\n2 2:1.5\n 1:0.25\n")
    ...     tags = read_svmlight(path, ["python", "r", "statistics"])
    >>> tags.target
    array([[1, 0, 1],
           [0, 0, 1],
           [0, 0, 0]])
    >>> tags.data.toarray()
    array([[0.5 , 0.  , 1.  ],
           [0.  , 1.5 , 0.  ],
           [0.25, 0.  , 0.  ]])
    """
    check_option_types(return_X_y=return_X_y, as_frame=as_frame)
    if not isinstance(first_label, (int, np.integer)):
        raise ValueError(f"first_label must be an integer, got {first_label!r}")
    names = _label_names(labels)
    path = existing_file(path)
    with naming_the_file(path, "utf-8"), open(path, "rb") as stream:
        declared = _declared_sizes(stream)
        try:
            X, rows = load_svmlight_file(
                stream,
                multilabel=True,
                n_features=declared[1] if n_features is None and declared else n_features,
                zero_based=cast(Any, zero_based),
                dtype=dtype,
            )
            _require_valid_labels(rows, names)
        except (OverflowError, ValueError):
            _require_valid_lines(path, stream)
            raise
    if declared is not None:
        if X.shape[0] != declared[0]:
            raise DataFileError(
                f"{path} should hold {declared[0]} rows according to its first line, but holds "
                f"{X.shape[0]}"
            )
        if names is None:
            names = _label_names(declared[2])
    if names is None:
        found = sorted({int(number) for row in rows for number in row})
        if not found:
            raise DataFileError(f"{path} contains no label; pass the number of labels as labels=")
        place, names = {number: k for k, number in enumerate(found)}, [str(n) for n in found]
    else:
        place = {first_label + k: k for k in range(len(names))}
    target = np.zeros((X.shape[0], len(names)), np.int64)
    for k, row in enumerate(rows):
        for number in row:
            if int(number) not in place:
                raise DataFileError(
                    f"{path}: row {k + 1} has the label {int(number)}, but {len(names)} labels are "
                    f"numbered from {first_label} to {first_label + len(names) - 1}; change labels "
                    "or first_label"
                )
            target[k, place[int(number)]] = 1
    features = [f"feature_{k}" for k in range(X.shape[1])]
    return as_result(X, target, features, names, path, as_frame, return_X_y=return_X_y)


def _label_names(labels: Any) -> list[str] | None:
    """Return the label names; `labels` is the number of labels, a list of names, or None."""
    if labels is None:
        return None
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        if labels < 1:
            raise ValueError(f"labels must be at least 1, got {labels}")
        return [f"label_{k}" for k in range(labels)]
    names = []
    if not isinstance(labels, (str, bytes)) and np.iterable(labels):
        names = [str(name) for name in labels]
    if not names:
        raise ValueError(f"labels must be a number or a list of names, got {labels!r}")
    require_distinct_labels(names)
    return names


def _declared_sizes(stream):
    """Return the numbers of rows, features and labels if the first line holds them, else None.

    If the result is None, the stream is set back to its beginning.
    """
    words = stream.readline(200).split()
    if len(words) == 3 and all(word.isdigit() for word in words):
        return tuple(int(word) for word in words)
    stream.seek(0)
    return None


def _require_valid_labels(rows, names):
    """Raise a ValueError if label numbers are fractions, occur twice in a row, or are negative.

    If the labels have names, numbers may be negative. `_require_valid_lines` explains the error.
    """
    for row in rows:
        if len(set(row)) < len(row) or not all(number.is_integer() for number in row):
            raise ValueError("a label number is not an integer, or occurs twice in a row")
        if names is None and any(number < 0 for number in row):
            raise ValueError(
                "a label number is negative. If the file holds the classes -1 and 1 in place of "
                "label numbers, read it with sklearn.datasets.load_svmlight_file"
            )


def _require_valid_lines(path, stream):
    """Raise a `DataFileError` that names the first line that scikit-learn cannot read.

    `stream` is the open file. scikit-learn's own errors do not name the line.
    """
    stream.seek(0)
    declared = _declared_sizes(stream)
    for number, line in enumerate(stream, 1 if declared is None else 2):
        problem = _problem_of(line.partition(b"#")[0].decode("utf-8", "replace").split())
        if problem:
            raise DataFileError(f"{path}, line {number}: {problem}")


def _problem_of(words):
    """Return what is wrong with the words of a line of an svmlight file, or None."""
    if words and ":" not in words[0]:
        labels = words[0].split(",")
        for label in labels:
            if not is_number(label):
                return (
                    f"{label!r} in {words[0]!r} is not a label number; labels are numbers with "
                    "commas between them and without spaces, such as 0,2"
                )
            if not float(label).is_integer():
                return f"the label number {label} is not an integer"
        if len({float(label) for label in labels}) < len(labels):
            return f"a label occurs twice in {words[0]!r}"
        words = words[1:]
    if words and words[0].startswith("qid:"):
        words = words[1:]
    last = -1
    for word in words:
        index, colon, value = word.partition(":")
        if not colon or not index.isdecimal() or not is_number(value):
            return (
                f"{word!r} is not a feature; a feature is index:value, such as 3:0.5, where index "
                "is an integer of at least 0 and value is a number"
            )
        if int(index) > _LARGEST_INDEX:
            return f"the index {index} is larger than {_LARGEST_INDEX}"
        if int(index) <= last:
            return (
                f"the index {index} follows the index {last}; the indices of a row should "
                "increase, and each index should occur once"
            )
        last = int(index)
    return None


def read_csv(
    path: str | os.PathLike,
    labels: int | Sequence[str],
    *,
    drop: Sequence[str] = (),
    sep: str = ",",
    dtype: Any = np.float64,
    encoding: str = "utf-8",
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Bunch | tuple:
    r"""Read multi-label data from a CSV file with a header and a column per label.

    The file is read by ``pandas.read_csv``, so pandas must be installed.

    Parameters
    ----------
    path : str or path-like
        Text file. Its first line holds the names of the columns.
    labels : list of str or int
        Names of the label columns, or n for the first n columns, or -n for the last n columns.
    drop : list of str, default=()
        Names of columns to leave out, such as an identifier of the row.
    sep : str, default=","
        Separator of the columns, for example ";" or a tab.
    dtype : {numpy.float32, numpy.float64}, default=numpy.float64
        Type of the features, unless ``as_frame=True``.
    encoding : str, default="utf-8"
        Encoding of the text.
    return_X_y : bool, default=False
        True to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        True to return `data` and `target` as data frames. Columns of text are then kept, for
        example for scikit-learn's OneHotEncoder or TfidfVectorizer.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` of shape (n_samples, n_features), NaN if a value is missing; `target` of shape
        (n_samples, n_labels), int64 0/1 labels, or float64 with NaN if labels are missing;
        `feature_names`, `label_names`, `DESCR` and `filename`.
    (data, target) : tuple
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    DataFileError
        If the file is damaged, a label is neither 0, 1, false, true, no, yes nor missing, or a
        feature is text.
    ValueError
        If `labels` or `drop` does not fit the file.
    ImportError
        If pandas is not installed.

    See Also
    --------
    read_arff, read_svmlight : Readers of other formats.

    Notes
    -----
    An empty field, "?" and the texts that pandas takes for missing values, such as "NA", are
    missing values.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skcrbm.datasets import read_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "photos.csv")
    ...     size = path.write_text("file,width,beach,town\na.png,64,yes,no\nb.png,32,no,\n")
    ...     photos = read_csv(path, ["beach", "town"], drop=["file"])
    >>> photos.feature_names, photos.data.tolist()
    (['width'], [[64.0], [32.0]])
    >>> photos.target
    array([[ 1.,  0.],
           [ 0., nan]])
    """
    check_option_types(return_X_y=return_X_y, as_frame=as_frame)
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("read_csv needs pandas") from error
    path = existing_file(path)
    if not isinstance(sep, str) or len(sep) != 1:
        raise ValueError(f"sep must be a single character, got {sep!r}")
    with naming_the_file(path, encoding):
        names, lines = _check_fields(path, sep, encoding)
        table = pd.read_csv(path, sep=sep, encoding=encoding, na_values=["?"], index_col=False)
    table.columns = names
    of_labels = [names[column] for column in label_positions(labels, names, path)]
    dropped = dropped_names(drop, names, path)
    target = np.column_stack([_label_column(table[name], path, lines) for name in of_labels])
    table = table.drop(columns=[*of_labels, *(set(dropped) - set(of_labels))])
    if not len(table.columns):
        raise DataFileError(f"{path} has no feature: all of its columns are labels or dropped")
    data = table if as_frame else _numbers(table, path, dtype)
    return as_result(
        data,
        integer_unless_missing(target),
        list(table.columns),
        of_labels,
        path,
        as_frame,
        return_X_y=return_X_y,
    )


def _check_fields(path, sep, encoding):
    """Check the fields of a CSV file; return the column names and the line numbers of the rows.

    The check is necessary, because pandas does not raise an error if fields are wrong: it renames
    columns of the same name, fills short rows with missing values, and cuts long rows. A row may
    extend over several lines; its line number is the number of its last line.
    """
    with open(path, encoding=encoding.replace("utf-8", "utf-8-sig"), newline="") as stream:
        rows = csv.reader(stream, delimiter=sep)
        names = next((row for row in rows if row), [])
        twice = repeated(names)
        if twice:
            raise DataFileError(
                f"{path}, line {rows.line_num}: several columns have the same name: {twice[:5]}"
            )
        lines = []
        try:
            for row in rows:
                if row:
                    lines.append(rows.line_num)
                    if len(row) != len(names):
                        raise DataFileError(
                            f"{path}, line {rows.line_num}: the row has {len(row)} fields, but the "
                            f"header has {len(names)} with sep={sep!r}"
                        )
        except csv.Error as error:
            raise DataFileError(f"{path}, line {rows.line_num}: {error}") from error
    if not lines:
        raise DataFileError(f"{path} has no rows after the header")
    return names, lines


def _label_column(column, path, lines):
    """Return a label column (n,) as 0 and 1, with NaN for missing labels."""
    missing = column.isna().to_numpy()
    number_of = {value: label_number(value) for value in column[~missing].unique()}
    for row, value in enumerate(column):
        if not missing[row] and number_of[value] is None:
            raise DataFileError(
                f"{path}, line {lines[row]}: label {column.name!r} has the value {str(value)!r}; a "
                "label is 0, 1, false, true, no, yes, or empty if it is missing"
            )
    return column.map(number_of).to_numpy(np.float64)


def _numbers(table, path, dtype):
    """Return the features as an array; raise a `DataFileError` if a column holds text."""
    texts = [name for name in table.columns if not _is_numeric(table[name])]
    if texts:
        raise DataFileError(
            f"{path}: the columns {texts[:5]} hold text. Leave them out with drop={texts[:5]}, or "
            "pass as_frame=True and encode them, for example with scikit-learn's OneHotEncoder"
        )
    return table.to_numpy(dtype=dtype, na_value=np.nan)


def _is_numeric(column):
    return column.dtype.kind in "biuf"
