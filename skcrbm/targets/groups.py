"""Groups of rows: the argument `groups`, which names the group of each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.targets.codes import is_missing, kind_of, label_array
from skcrbm.utils.validation import check_order, count_rows, filled_with_nan


def check_groups(groups: Any, X: Any) -> np.ndarray:
    """Return the groups (N,) of the N rows of X as an array of strings, numbers or other objects.

    A ValueError is raised if `groups` has another shape or index than X, if it names no group for a
    row (None, NaN or pandas' NA), or if it mixes strings and numbers.
    """
    n_rows = count_rows(X)
    check_order(X=X, groups=groups)
    found = label_array(filled_with_nan(groups), "groups")
    if found.shape != (n_rows,):
        raise ValueError(
            f"groups must have the shape ({n_rows},), with a group for each row; got {found.shape}"
        )
    values = found.tolist()
    missing = [row for row, group in enumerate(values) if is_missing(group)]
    if missing:
        raise ValueError(
            f"groups names no group for row {missing[0]} ({values[missing[0]]!r}); leave out the "
            "rows without a group, or give them a group of their own"
        )
    kinds = {kind_of(group) for group in values}
    if len(kinds) > 1:
        shown = ", ".join(sorted({repr(group) for group in values}, key=len)[:4])
        raise ValueError(
            f"groups mixes values of different types: {shown}; use strings only, or numbers only"
        )
    return np.array(values) if found.dtype == object and kinds == {str} else found
