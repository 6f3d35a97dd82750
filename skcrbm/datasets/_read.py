"""The one reading path of all loaders: file -> checked arrays -> Bunch."""

import hashlib
import zipfile
import zlib
from functools import lru_cache

import numpy as np
from sklearn.utils import Bunch

from skcrbm.datasets._openml import fetch, save
from skcrbm.datasets._paths import ENV_VARIABLE, find_data_home
from skcrbm.datasets._specs import array_name
from skcrbm.utils.warnings import warn_user

# What numpy.load raises, depending on what is wrong with a file.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    AttributeError,
    TypeError,
    zipfile.BadZipFile,
    zlib.error,
)


@lru_cache(maxsize=64)
def _file_sha256(path, mtime_ns, size):
    """Return the checksum of a file; `mtime_ns` and `size` only key the cache."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_arrays(path):
    try:
        with np.load(path) as content:
            return {name: content[name] for name in content.files}
    except _UNREADABLE as error:
        raise OSError(f"{path} cannot be read as an .npz file of plain arrays: {error}") from error


def _has_origin(path):
    """Tell whether the file says that it is a conversion, not the reference file."""
    try:
        with np.load(path) as content:
            return "origin" in content.files
    except _UNREADABLE:
        return False  # unreadable: the caller then reports the checksum


def _check_sum(spec, path):
    if spec.sha256 is None:
        return
    stat = path.stat()
    found = _file_sha256(str(path), stat.st_mtime_ns, stat.st_size)
    if found != spec.sha256 and not _has_origin(path):
        raise OSError(
            f"{path} is not the expected file: its sha256 should be {spec.sha256}, but it is "
            f"{found}. Replace it; a file that you converted yourself must hold a string array "
            "'origin' that says where it comes from."
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


def _exact(array, dtype, what):
    with np.errstate(invalid="ignore"):
        cast = np.ascontiguousarray(array, dtype=dtype)
    if np.issubdtype(dtype, np.integer) and not np.array_equal(cast, array):
        raise ValueError(f"{what} should hold integers in the range of {np.dtype(dtype).name}")
    return cast


def _checked_parts(spec, arrays, source):
    """Return data and target of all parts, stacked, after checking shapes and values."""
    missing = sorted(set(spec.array_names) - set(arrays))
    if missing:
        raise ValueError(f"{source} should hold the arrays {missing}")
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
                raise ValueError(
                    f"{source}: {name}{of_part} should have the shape {shape}, but has "
                    f"{array.shape}"
                )
        xs.append(_exact(x, x_dtype, f"{source}: X{of_part}"))
        ys.append(_exact(y, np.int64, f"{source}: y{of_part}"))
    data, target = np.concatenate(xs), np.concatenate(ys)
    low, high = (0, 1) if spec.n_labels is not None else spec.class_range
    if target.min() < low or target.max() > high:
        raise ValueError(f"{source}: y should be in {low}..{high}")
    if not np.isfinite(data).all():
        raise ValueError(f"{source}: X should be finite")
    return data, target


def _provenance(spec, target, origin):
    """Say in words, and warn where needed, what is known of the rows and their order."""
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
        return text + "The labels agree, row by row, with those of the published split."
    warn_user(
        f"The labels of {spec.title} from {origin} differ from those of the published split, row "
        "by row: train and test are not the published parts, and results are not comparable."
    )
    return text + "The labels DIFFER from those of the published split: it is not this one."


def _describe(spec, provenance):
    return (
        f"{spec.title}\n\n{spec.contents}\n\n{spec.n_rows} rows, {spec.n_features} features. "
        f"Published split: {spec.split}\n\nCitation: {spec.citation}\n\nLicence: {spec.licence}\n\n"
        f"{provenance}\n"
    )


def load(spec, *, data_home, download_if_missing=False, return_X_y=False):
    """Read the data set of one spec; the public loaders describe the arguments."""
    folder, chosen_by = find_data_home(data_home)
    path = folder / spec.filename
    present = path.is_file()
    if present:
        _check_sum(spec, path)
        arrays, source = _read_arrays(path), str(path)
    elif spec.openml_id is not None and download_if_missing:
        arrays, source = fetch(spec, path), f"OpenML data set {spec.openml_id}"
    else:
        raise _missing(spec, path, chosen_by)
    data, target = _checked_parts(spec, arrays, source)
    if not present:
        save(arrays, path)

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
    origin = str(arrays["origin"]) if "origin" in arrays else None
    bunch.DESCR = _describe(spec, _provenance(spec, target, origin))
    bunch.filename = str(path)
    if return_X_y and "" in spec.rows:
        return data, target
    if return_X_y:
        return bunch.X_train, bunch.X_test, bunch.y_train, bunch.y_test
    return bunch
