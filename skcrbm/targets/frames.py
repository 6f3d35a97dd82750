"""Convert predictions to data frames and series of pandas or polars, or to sparse matrices."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from skcrbm.targets.names import ranked_index
from skcrbm.utils.sklearn_private import check_pandas_support

_CONTAINERS = ("default", "pandas", "polars", "sparse")


def check_container(container: Any) -> None:
    """Raise an error if `container` is unknown, or its library is not installed."""
    if container not in _CONTAINERS:
        raise ValueError(
            f"container must be 'default', 'pandas', 'polars' or 'sparse', got {container!r}"
        )
    if container == "pandas":
        check_pandas_support("set_label_output('pandas')")
    elif container == "polars" and importlib.util.find_spec("polars") is None:
        raise ImportError("set_label_output('polars') requires polars")


def label_frame(values: np.ndarray, index: Any, names: Any, container: str) -> Any:
    """Return values (N, L) as a data frame with a column for each label.

    If `names` is None, the column names are numbers (in polars, numbers as strings).
    """
    if container == "polars":
        import polars as pl

        columns = range(values.shape[1]) if names is None else names
        return pl.DataFrame(values, schema=[str(name) for name in columns], orient="row")
    import pandas as pd

    # pd.Index turns a list of tuples into a MultiIndex.
    return pd.DataFrame(values, index, columns=None if names is None else pd.Index(list(names)))


def named_series(values: np.ndarray, index: Any, name: Any, container: str) -> Any:
    """Return values (N,) as a pandas or polars series; polars ignores `index`."""
    if container == "polars":
        import polars as pl

        values = values if values.dtype.kind in "biuf" else values.tolist()
        return pl.Series("" if name is None else str(name), values)
    import pandas as pd

    return pd.Series(values, index, name=name)


def sparse_labels(labels: Any) -> Any:
    """Return labels (N, L) as a CSR matrix; if `labels` is a tuple, convert only its first item.

    A ValueError is raised if the labels are classes that are no numbers, such as strings.
    """
    if isinstance(labels, tuple):
        return (sparse_labels(labels[0]), *labels[1:])
    if np.asarray(labels).dtype.kind not in "biuf":
        raise ValueError(
            'set_label_output("sparse") needs labels of 0 and 1 or other numbers, but the columns '
            'of y hold classes that are no numbers; use "default", "pandas" or "polars"'
        )
    return csr_matrix(labels)


def framed_top(top: Any, targets: Any, container: str, X: Any) -> Any:
    """Return the `TopLabelSets` of X in the container of predictions.

    In data frames or series, there are k rows for each row of X.
    """
    if container in ("default", "sparse"):
        return top
    (n_rows, k), index = top.proba.shape, None
    if container == "pandas":
        index = ranked_index(X.index if hasattr(X, "iloc") else range(n_rows), k)
    labels = top.labels.reshape(n_rows * k, *top.labels.shape[2:])
    proba = named_series(top.proba.ravel(), index, "proba", container)
    return top._replace(labels=targets.framed(labels, index, container), proba=proba)
