"""Read a data file, check its arrays, and make the Bunch that a loader returns."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skcrbm.datasets._files import ENV_VARIABLE, fetch, find_data_home, save
from skcrbm.datasets._specs import Spec, array_name
from skcrbm.exceptions import DataFileError
from skcrbm.utils.warnings import warn_user

# Largest number of bytes per entry of an array in a file. If the header of an array gives a larger
# number, an error is raised before the array is read.
_MAX_ITEM_BYTES = 16


@contextmanager
def _one_error(path):
    """Turn every error about a damaged or malicious file into a `DataFileError` with its path.

    A damaged file can cause many kinds of errors, because zipfile, zlib, lzma, the parser of array
    headers and the operating system each raise their own errors.
    """
    try:
        yield
    except (FileNotFoundError, DataFileError):
        raise
    except Exception as error:
        reason = str(error) or "no reason given"
        raise DataFileError(
            f"{path} cannot be read as an .npz file of plain arrays: {reason} "
            f"({type(error).__name__})"
        ) from error


@lru_cache(maxsize=64)
def _file_sha256(path, mtime_ns, size):
    """Return the checksum of a file; a cached checksum is used if `mtime_ns` and `size` agree."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_arrays(spec, path):
    """Read from an .npz file the arrays that a `Spec` names, and "origin"; ignore other arrays."""
    largest = _MAX_ITEM_BYTES * spec.n_rows * max(spec.n_features, spec.n_labels or 1)
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        found = set(archive.namelist())
        for name in (*spec.array_names, "origin"):
            member = f"{name}.npy"
            if member not in found:
                continue
            size = archive.getinfo(member).file_size
            if (
                size > largest
            ):  # check before reading, because a small file may expand to a huge array
                raise DataFileError(
                    f"{path} should hold an array {name} of at most {largest} bytes, not of {size}"
                )
            with archive.open(member) as stream:
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
                if stream.read(1):  # also verifies the checksum
                    raise DataFileError(f"{path} has additional bytes after the array {name}")
    return arrays


def _has_origin(path):
    """Return True if the file holds the array "origin", which marks files converted by users."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "origin.npy" in archive.namelist()


def _check_sum(spec, path):
    if spec.sha256 is None:
        return
    stat = path.stat()
    found = _file_sha256(str(path), stat.st_mtime_ns, stat.st_size)
    if found != spec.sha256 and not _has_origin(path):
        raise DataFileError(
            f"{path} is not the expected file: its sha256 should be {spec.sha256}, but it is "
            f"{found}. Replace the file. If you converted it yourself, add a string array "
            "'origin' that says where the data come from."
        )


def _missing(spec, path, chosen_by):
    message = (
        f"{spec.title}: {spec.filename} was not found in {path.parent} ({chosen_by}). Get the data "
        f"from {spec.where}. Then put the file there, or name its folder with data_home or the "
        f"environment variable {ENV_VARIABLE}. It must hold the arrays "
        f"{', '.join(spec.array_names)}."
    )
    if spec.sha256 is not None:
        message += " A file that you converted yourself also needs a string array 'origin' that "
        message += "says where it comes from."
    if spec.openml_id is not None:
        message += " With download_if_missing=True it is fetched from OpenML."
    return FileNotFoundError(f"{message} {spec.hint}".rstrip())


def _exact(array, dtype, title):
    if array.dtype.kind not in "biuf":
        raise DataFileError(f"{title} should hold real numbers, not {array.dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        cast = np.ascontiguousarray(array, dtype=dtype)
    if np.issubdtype(dtype, np.integer) and not np.array_equal(cast, array):
        raise DataFileError(f"{title} should hold integers in the range of {np.dtype(dtype).name}")
    return cast


def _check_names(spec, arrays, source):
    """Check the arrays of names and the array "origin", and convert bytes to strings."""
    for name in {"feature_names", "label_names", "class_names", "origin"} & set(arrays):
        if arrays[name].dtype.kind == "S":
            try:
                arrays[name] = np.char.decode(arrays[name], "utf-8")
            except UnicodeDecodeError as error:
                raise DataFileError(f"{source}: {name} should be text in UTF-8: {error}") from error
    first, last = spec.class_range
    lengths = {
        "feature_names": spec.n_features,
        "label_names": spec.n_labels,
        "class_names": last - first + 1,
    }
    for name, length in lengths.items():
        if name in spec.array_names:
            names = arrays[name]
            if names.dtype.kind != "U" or names.shape != (length,):
                raise DataFileError(
                    f"{source}: {name} should hold {length} strings, but has the type "
                    f"{names.dtype} and the shape {names.shape}"
                )
    origin = arrays.get("origin")
    if origin is not None and (origin.dtype.kind != "U" or origin.size != 1):
        raise DataFileError(f"{source}: origin should be one string")


def _checked_parts(spec, arrays, source):
    """Check the arrays of all parts, and return the data and the target, each as a single array."""
    missing = sorted(set(spec.array_names) - set(arrays))
    if missing:
        raise DataFileError(f"{source} should hold the arrays {missing}")
    x_dtype = np.float32 if spec.image_order is None else np.uint8
    y_width = () if spec.n_labels is None else (spec.n_labels,)
    xs, ys = [], []
    for part, n_rows in spec.rows.items():
        x = arrays[array_name("X", part)]
        x = x.reshape(len(x), -1) if x.ndim > 2 else x
        y = arrays[array_name(spec.y_key, part)]
        of_part = f" of the {part} part" if part else ""
        for name, array, shape in (
            ("X", x, (n_rows, spec.n_features)),
            ("y", y, (n_rows, *y_width)),
        ):
            if array.shape != shape:
                raise DataFileError(
                    f"{source}: {name}{of_part} should have the shape {shape}, but has "
                    f"{array.shape}"
                )
        xs.append(_exact(x, x_dtype, f"{source}: X{of_part}"))
        ys.append(_exact(y, np.int64, f"{source}: y{of_part}"))
    data, target = np.concatenate(xs), np.concatenate(ys)
    low, high = (0, 1) if spec.n_labels is not None else spec.class_range
    if target.min() < low or target.max() > high:
        raise DataFileError(f"{source}: y should hold integers from {low} to {high}")
    if not np.isfinite(data).all():
        raise DataFileError(f"{source}: X should hold finite numbers")
    _check_names(spec, arrays, source)
    return data, target


def _provenance(spec, target, origin):
    """Describe the origin of the rows and their order; warn if the labels are unexpected."""
    if origin is None:
        return "File: " + (
            "no checksum is known, only the shapes were checked."
            if spec.sha256 is None
            else f"sha256 {spec.sha256}, checked."
        )
    text = f"File: made from {origin}; shapes checked, features not compared. "
    if spec.openml_id is not None:
        text += "The split is by position: "
        text += "OpenML's row order is assumed, not verified, to be train, then test. "
    if spec.labels_sha256 is None:
        return text + "No reference labels are known."
    found = hashlib.sha256(target.astype(np.uint8).tobytes()).hexdigest()
    if found == spec.labels_sha256:
        return text + "The labels agree, row by row, with the published split."
    warn_user(
        f"The labels of {spec.title} from {origin} differ from the published split: the train "
        "and test parts are not the published parts, so results on them are not comparable."
    )
    return text + "The labels DIFFER from the published split: this is another split."


def _describe(spec, provenance):
    return (
        f"{spec.title}\n\n{spec.contents}\n\n{spec.n_rows} rows, {spec.n_features} features. "
        f"Published split: {spec.split}\n\nCitation: {spec.citation}\n\nLicence: {spec.licence}\n\n"
        f"{provenance}\n"
    )


def _frames(bunch, spec):
    """Turn the arrays of a Bunch into pandas objects, and add `frame`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas") from error
    if spec.image_order is None:
        columns = bunch.feature_names
    else:
        height, width = bunch.image_shape
        places = np.arange(height * width).reshape(bunch.image_shape, order=spec.image_order)
        columns = [""] * places.size
        for (row, column), place in np.ndenumerate(places):
            columns[place] = f"pixel_{row}_{column}"
    bunch.data = pd.DataFrame(bunch.data, columns=columns, copy=False)
    if spec.n_labels is None:
        bunch.target = pd.Series(bunch.target, name="class")
    else:
        bunch.target = pd.DataFrame(bunch.target, columns=bunch.label_names, copy=False)
    bunch.frame = pd.concat([bunch.data, bunch.target], axis=1)
    start = 0
    for part, n_rows in spec.rows.items():
        if part:
            rows = slice(start, start + n_rows)
            bunch[f"X_{part}"], bunch[f"y_{part}"] = bunch.data.iloc[rows], bunch.target.iloc[rows]
            start += n_rows


def check_subset(subset: str, parts: list[str], return_X_y: bool) -> None:
    """Raise a ValueError if `subset` is unknown, or names a part although a Bunch is returned."""
    if not isinstance(subset, str) or subset not in ("all", *parts):
        raise ValueError(f"subset must be one of {['all', *parts]}, got {subset!r}")
    if subset != "all" and not return_X_y:
        raise ValueError("subset needs return_X_y=True: a Bunch has all parts, such as X_train")


def load(
    spec: Spec,
    data_home: str | os.PathLike | None,
    return_X_y: bool,
    as_frame: bool,
    subset: str,
    download_if_missing: bool = False,
    read_instead: Callable[[Path], tuple[Path, dict[str, Any]] | None] | None = None,
) -> Bunch | tuple:
    """Read the data set that a `Spec` describes; the public loaders explain the arguments.

    If the file of the spec is missing, the function `read_instead` looks for other files in the
    folder, and returns a path and arrays, or None.
    """
    check_subset(subset, [part for part in spec.rows if part], return_X_y)
    folder, chosen_by = find_data_home(data_home)
    path = folder / spec.filename
    with _one_error(path):
        if "\0" in str(path):
            raise DataFileError(f"{str(path)!r} has a null character")
        if folder.exists() and not folder.is_dir():
            raise DataFileError(f"{folder} ({chosen_by}) is not a folder")
        present = path.is_file()
        if path.exists() and not present:
            raise DataFileError(f"{path} is not a file")
    if present:
        with _one_error(path):
            _check_sum(spec, path)
            arrays = _read_arrays(spec, path)
            data, target = _checked_parts(spec, arrays, str(path))
    elif spec.openml_id is not None and download_if_missing:
        arrays = fetch(spec, path)
        data, target = _checked_parts(spec, arrays, f"OpenML data set {spec.openml_id}")
        save(arrays, path)
    else:
        found = None if read_instead is None else read_instead(folder)
        if found is None:
            raise _missing(spec, path, chosen_by)
        path, arrays = found
        data, target = _checked_parts(spec, arrays, str(path))

    bunch = Bunch(data=data, target=target)
    start = 0
    for part, n_rows in spec.rows.items():
        if part:
            bunch[f"X_{part}"] = data[start : start + n_rows]
            bunch[f"y_{part}"] = target[start : start + n_rows]
            start += n_rows
    if spec.image_order is None:
        bunch.feature_names = arrays["feature_names"].astype(str).tolist()
        bunch.label_names = arrays["label_names"].astype(str).tolist()
    else:
        names = spec.classes or arrays["class_names"].astype(str)
        bunch.class_names = [str(name) for name in names]
        bunch.image_shape = (28, 28)
        bunch.image_order = spec.image_order
    origin = arrays["origin"].item() if "origin" in arrays else None
    bunch.DESCR = _describe(spec, _provenance(spec, target, origin))
    bunch.filename = str(path)
    if as_frame:
        _frames(bunch, spec)
    if not return_X_y:
        return bunch
    if subset == "all":
        return bunch.data, bunch.target
    return bunch[f"X_{subset}"], bunch[f"y_{subset}"]
