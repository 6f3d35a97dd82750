"""Find the folder of the data files, and fetch missing files from OpenML."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml

from skcrbm.datasets._specs import Spec
from skcrbm.exceptions import DataFileError
from skcrbm.utils.warnings import warn_user

ENV_VARIABLE = "SKCRBM_DATA"


def user_cache() -> Path:
    """Return the folder in which this platform keeps the caches of a user."""
    if sys.platform == "win32":
        variable, default = "LOCALAPPDATA", Path("AppData", "Local")
    elif sys.platform == "darwin":
        variable, default = None, Path("Library", "Caches")
    else:
        variable, default = "XDG_CACHE_HOME", Path(".cache")
    value = os.environ.get(variable) if variable else None
    return Path(value) if value else Path.home() / default


def find_data_home(data_home: str | os.PathLike | None = None) -> tuple[Path, str]:
    """Return the folder of the data files, and how it was chosen, as a text for error messages."""
    named = os.environ.get(ENV_VARIABLE)
    try:
        if data_home is not None:
            return Path(data_home).expanduser(), "argument data_home"
        if named:
            return Path(named).expanduser(), f"environment variable {ENV_VARIABLE}"
        return user_cache() / "skcrbm", "user cache folder"
    except (RuntimeError, TypeError) as error:  # no such user, no home, no path
        folder = named or "the user cache folder" if data_home is None else data_home
        raise DataFileError(
            f"{folder!r} is not the path of a folder with data files: {error}. Name a folder by "
            f"data_home or by the environment variable {ENV_VARIABLE}."
        ) from error


def fetch(spec: Spec, path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of `spec` from OpenML; `path` is used only in the error message."""
    # Use the pandas parser if pandas is installed, because it needs much less memory for images.
    parser = "pandas" if find_spec("pandas") else "liac-arff"
    try:
        bunch = fetch_openml(data_id=spec.openml_id, as_frame=False, parser=parser, cache=False)
        return _to_arrays(spec, bunch)
    except Exception as error:  # network, server and parser errors
        raise OSError(
            f"{spec.title}: {path.name} is not in {path.parent}, and fetching OpenML data set "
            f"{spec.openml_id} failed ({type(error).__name__}: {error}). Try again with a network "
            f"connection, or put {path.name} into that folder, or name the folder that holds it "
            f"with data_home or the environment variable {ENV_VARIABLE}."
        ) from error


def _to_arrays(spec, bunch):
    """Split the arrays from OpenML into the arrays of a data file of this package."""
    x, y = np.asarray(bunch.data), _labels(spec, np.asarray(bunch.target))
    if x.shape != (spec.n_rows, spec.n_features):
        raise ValueError(f"data has the shape {x.shape}, not {(spec.n_rows, spec.n_features)}")
    if len(y) != spec.n_rows:
        raise ValueError(f"target has {len(y)} rows, not {spec.n_rows}")
    if spec.image_order is not None:
        pixels = x.astype(np.uint8)
        if not np.array_equal(pixels, x):
            raise ValueError("pixels should be integers in 0..255")
        x = pixels
    else:
        x = x.astype(np.float32)
    arrays = {"origin": np.array(f"OpenML data set {spec.openml_id}")}
    start = 0
    for part, n_rows in spec.rows.items():
        arrays[f"X_{part}"] = x[start : start + n_rows]
        arrays[f"{spec.y_key}_{part}"] = y[start : start + n_rows]
        start += n_rows
    if spec.n_labels is not None:
        arrays["feature_names"] = np.array(bunch.feature_names, dtype=str)
        arrays["label_names"] = np.array(bunch.target_names, dtype=str)
    return arrays


def _labels(spec, target):
    if spec.n_labels is None:
        return target.astype(np.int64)
    text = np.char.upper(target.astype(str))
    if not np.isin(text, ("TRUE", "FALSE")).all():
        raise ValueError(f"labels should be TRUE or FALSE, found {np.unique(text)[:5].tolist()}")
    return (text == "TRUE").astype(np.uint8)


def save(arrays: dict[str, Any], path: Path) -> None:
    """Write the arrays to `path` in one step; warn if the folder is not writable."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=path.stem, suffix=".tmp", delete=False
        ) as stream:
            temporary = stream.name
            np.savez_compressed(stream, **arrays)
        os.replace(temporary, path)
    except OSError as error:
        warn_user(
            f"{path} could not be written ({error}); the data will be fetched again next time."
        )
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
