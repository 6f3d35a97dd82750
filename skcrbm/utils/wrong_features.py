"""Error messages about features X that are text, infinite, missing or of one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def one_dimension_text(shape: tuple[int, ...]) -> str:
    """Return the message about an X with one dimension; it shows no entries of X."""
    return (
        f"Expected 2D array, got 1D array instead: X has the shape {shape}. Reshape your data: "
        "X.reshape(-1, 1) if X holds one feature of all rows, or X.reshape(1, -1) if X is a single "
        "row"
    )


def text_advice(X: Any, name: str) -> str | None:
    """Return advice for an X with texts, which names the columns, or None if X has no text.

    `name` is the name of the estimator for the code in the message.
    """
    if not hasattr(X, "columns"):
        X = np.asarray(X)
    if len(X.shape) not in (1, 2):
        return None
    if len(X.shape) == 1:
        if not _holds_text(np.asarray(X)):
            return None
        return (
            "X holds texts. Turn them into numbers with a vectoriser in front of the model, as in "
            f"make_pipeline(TfidfVectorizer(), {name}()), and pass the texts to the pipeline"
        )
    if hasattr(X, "columns"):
        places = [column for column in X.columns if _holds_text(np.asarray(X[column]))]
    else:
        places = [i for i in range(X.shape[1]) if _holds_text(X[:, i])]
    if not places:
        return None
    shown = ", ".join(map(repr, places[:5])) + (", ..." if len(places) > 5 else "")
    return (
        f"X holds text in the column{'s' * (len(places) > 1)} {shown}. Encode categories in front "
        "of the model, as in make_pipeline(make_column_transformer((OneHotEncoder(), "
        f'[{shown}]), remainder="passthrough"), {name}()); texts of several words need '
        "TfidfVectorizer in place of OneHotEncoder"
    )


def _holds_text(column):
    """Return True if an array holds a text that is not a number."""
    if column.dtype.kind not in "USOT":
        return False
    return any(isinstance(v, (str, bytes)) and not is_number(v) for v in column.flat)


def is_number(text: Any) -> bool:
    """Return True if `float` reads a text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def place_of_wrong(X: Any, infinite: bool) -> str:
    """Return the first place of infinity or NaN in X, as in " in column 'age' (row 3)".

    The text is empty if there is no such place, or X is no matrix of numbers.
    """
    try:
        if sparse.issparse(X):
            X = X.tocoo()
            wrong = np.isinf(X.data) if infinite else np.isnan(X.data)
            if not wrong.any():
                return ""
            row, column = min(zip(X.row[wrong].tolist(), X.col[wrong].tolist()))
        else:
            values = np.asarray(X, np.float64)
            wrong = np.isinf(values) if infinite else np.isnan(values)
            row, column = np.argwhere(wrong)[0].tolist()
    except (IndexError, OverflowError, TypeError, ValueError):
        return ""
    names = getattr(X, "columns", None)
    return f" in column {column if names is None else repr(names[column])} (row {row})"
