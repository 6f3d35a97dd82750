"""Fetching a missing file from OpenML."""

import os
import tempfile
from importlib.util import find_spec

import numpy as np
from sklearn.datasets import fetch_openml

from skcrbm.datasets._paths import ENV_VARIABLE
from skcrbm.utils.warnings import warn_user


def _labels(spec, target):
    if spec.n_labels is None:
        return target.astype(np.int64)
    text = np.char.upper(target.astype(str))
    if not np.isin(text, ("TRUE", "FALSE")).all():
        raise ValueError(f"labels should be TRUE or FALSE, found {np.unique(text)[:5].tolist()}")
    return (text == "TRUE").astype(np.uint8)


def _to_arrays(spec, bunch):
    """Cut what OpenML sent into the arrays of our own file format."""
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


def fetch(spec, path):
    """Return the arrays of `spec` from OpenML; `path` only serves the error message."""
    # The pandas parser is much lighter on the images, but pandas is not a dependency.
    parser = "pandas" if find_spec("pandas") else "liac-arff"
    try:
        bunch = fetch_openml(data_id=spec.openml_id, as_frame=False, parser=parser, cache=False)
        return _to_arrays(spec, bunch)
    except Exception as error:  # network, server, parser: all leave the user in the same place
        raise OSError(
            f"{spec.title}: {path.name} is not in {path.parent}, and fetching OpenML data set "
            f"{spec.openml_id} failed ({type(error).__name__}: {error}). Try again with a network "
            f"connection, or put {path.name} into that folder, or name the folder that holds it "
            f"with data_home or the environment variable {ENV_VARIABLE}."
        ) from error


def save(arrays, path):
    """Write the arrays to `path` in one step; warn if the folder takes no file."""
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
