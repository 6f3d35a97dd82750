"""Helpers for reading the files of users: find label columns, check names, make results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from skcrbm.exceptions import DataFileError

_MEANING = {"0": 0.0, "false": 0.0, "no": 0.0, "1": 1.0, "true": 1.0, "yes": 1.0}


def existing_file(path: Any) -> Path:
    """Return the path of a file; raise an error that names the path if there is no such file."""
    try:
        path = Path(path).expanduser()
        if path.is_file():
            return path
        is_folder = path.exists()
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        raise DataFileError(f"path={path!r} is not the path of a file: {error}") from error
    if is_folder:
        raise DataFileError(f"{path} is not a file")
    raise FileNotFoundError(f"{path} was not found")


@contextmanager
def naming_the_file(path: Path, encoding: str | None = None):
    """Turn errors about the contents of a file into a `DataFileError` that names the file."""
    try:
        yield
    except DataFileError:
        raise
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{path} is not text in the encoding {encoding!r} ({error}); pass another encoding, "
            "such as encoding='latin-1'"
        ) from error
    except (ValueError, OverflowError, OSError) as error:
        raise DataFileError(f"{path} cannot be read: {error}") from error


def label_number(value: Any) -> float | None:
    """Return 0.0 or 1.0 for a label value such as "1", "no" or True, and None for other values."""
    found = _MEANING.get(str(value).strip().lower())
    if found is None:
        try:
            number = float(value)
        except (TypeError, ValueError):
            return None
        found = number if number in (0.0, 1.0) else None
    return found


def label_positions(labels: Any, names: Sequence[str], path: Path) -> list[int]:
    """Return the indices of the label columns.

    `labels` is n for the first n columns, -n for the last n columns, or a list of names.
    """
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        if not 0 < abs(labels) < len(names):
            raise ValueError(
                f"labels={labels} does not fit the {len(names)} columns of {path}: pass n for the "
                "first n columns, or -n for the last n columns"
            )
        columns = range(len(names))
        return list(columns[:labels] if labels > 0 else columns[labels:])
    wanted = _name_list("labels", labels)
    if not wanted:
        raise ValueError("`labels` must contain the name of at least one column")
    _check_known("labels", wanted, names, path)
    require_distinct_labels(wanted)
    place = {name: column for column, name in enumerate(names)}
    return [place[name] for name in wanted]


def require_distinct_labels(names: Sequence[str]) -> None:
    """Raise a ValueError if the argument `labels` has a name twice."""
    twice = repeated(names)
    if twice:
        raise ValueError(f"`labels` has the name of a column twice: {twice}")


def repeated(values: Iterable[Any]) -> list[Any]:
    """Return the values that occur more than once, in increasing order."""
    return sorted(value for value, count in Counter(values).items() if count > 1)


def dropped_names(drop: Any, names: Collection[str], path: Path) -> list[str]:
    """Return the names of the columns to leave out, which must be columns of the file."""
    found = _name_list("drop", drop)
    _check_known("drop", found, names, path)
    return found


def _name_list(argument, value):
    if isinstance(value, (str, bytes)) or not np.iterable(value):
        raise ValueError(f"{argument} must be a list of column names, got {value!r}")
    return [str(name) for name in value]


def _check_known(argument, wanted, names, path):
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(
            f"`{argument}` has names that are not columns of {path}: {unknown[:5]}; the file has "
            f"{list(names)[:10]}{' and others' if len(names) > 10 else ''}"
        )


def integer_unless_missing(target: np.ndarray) -> np.ndarray:
    """Return labels as int64, or as float64 if NaN marks missing labels."""
    return target if np.isnan(target).any() else target.astype(np.int64)


def check_option_types(**options: Any) -> None:
    """Raise a ValueError, with the name of the argument, if a value is not True or False."""
    for name, value in options.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def as_bunch(
    data: Any,
    target: np.ndarray,
    feature_names: list[str],
    label_names: list[str],
    filename: str | os.PathLike,
    as_frame: bool,
    description: str = "",
) -> Bunch:
    """Return the Bunch that the readers of users' files return."""
    n_missing = int(np.isnan(target).sum()) if target.dtype.kind == "f" else 0
    text = (
        f"{description or Path(filename).name}\n\n{data.shape[0]} rows, {data.shape[1]} features, "
        f"{target.shape[1]} labels; {np.nansum(target) / max(1, len(target)):.3f} labels a row on "
        f"average, {n_missing} missing labels.\n"
    )
    bunch = Bunch(
        data=data,
        target=target,
        feature_names=feature_names,
        label_names=label_names,
        DESCR=text,
        filename=str(filename),
    )
    if as_frame:
        to_frames(bunch)
    return bunch


def as_result(*args: Any, return_X_y: bool) -> Bunch | tuple:
    """Return the result of `as_bunch`, or its data and target if `return_X_y`."""
    bunch = as_bunch(*args)
    return (bunch.data, bunch.target) if return_X_y else bunch


def to_frames(bunch: Bunch) -> None:
    """Turn `data` and `target` of a Bunch into data frames, and join them as `frame`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas") from error
    if sparse.issparse(bunch.data):
        bunch.data = pd.DataFrame.sparse.from_spmatrix(bunch.data, columns=bunch.feature_names)
    elif not isinstance(bunch.data, pd.DataFrame):
        bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names, copy=False)
    bunch.target = pd.DataFrame(bunch.target, columns=bunch.label_names, index=bunch.data.index)
    bunch.frame = pd.concat([bunch.data, bunch.target], axis=1)
