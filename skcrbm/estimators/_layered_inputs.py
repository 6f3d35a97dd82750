"""The gate for the features of layered models: states, thresholds, what may be missing."""

import numpy as np
from scipy import sparse

from skcrbm.energies._layered import InputCode
from skcrbm.utils._parallel import row_chunks

# How far an observed value of a binary node may lie outside [0, 1]: scaled by the range of
# other rows, or noisy, a value overshoots; what is not even near is on another scale.
_OVERSHOOT = 0.5


def check_thresholds(clamping, thresholds):
    """Thresholds of hard clamping as an array, None for soft clamping."""
    if clamping == "soft":
        if thresholds is not None:
            raise ValueError("thresholds are for clamping='hard'; with 'soft' leave None")
        return None
    wrong = f"thresholds must be a number or a sequence of numbers, got {thresholds!r}"
    try:
        cuts = np.asarray(0.5 if thresholds is None else thresholds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(wrong) from error
    cuts = np.atleast_1d(cuts)
    if cuts.ndim != 1 or not len(cuts) or not np.isfinite(cuts).all():
        raise ValueError(wrong)
    if (np.diff(cuts) <= 0).any():
        raise ValueError(f"thresholds must increase, got {thresholds!r}")
    return cuts


def first_code(X, thresholds):
    """Input code of a first fit."""
    free = _missing_columns(X)
    can_miss = np.ones(X.shape[1], bool)
    if thresholds is None:
        can_miss = _unit_interval_columns(X)
        _check_unit_interval(free, can_miss)
    return InputCode(thresholds, free, can_miss)


def next_code(X, code):
    """Input code of a fit that goes on from that with `code`."""
    code = code_for(X, code)
    if code.thresholds is not None:
        return code
    return code._replace(can_miss=code.can_miss & _unit_interval_columns(X))


def code_for(X, code):
    """Input code for other rows, more columns of which may be missing."""
    missing = _missing_columns(X)
    bad = np.flatnonzero(missing & ~code.can_miss)
    if len(bad):
        raise ValueError(
            f"feature {bad[0]} is NaN, but it was outside [0, 1] in fit and so is no binary "
            "node; scale X with MinMaxScaler before fit to allow for missing values"
        )
    nodes = missing | code.free
    if code.thresholds is None and nodes.any():
        _check_unit_interval(nodes, _unit_interval_columns(X))
    return code._replace(free=nodes)


def input_mean(X, weight, code):
    """Weighted mean of each input state over the rows where it is observed."""
    total = mass = 0.0
    for rows in row_chunks(X.shape[0], 1000):
        means, missing = code.encode(X[rows])
        total = total + np.asarray(means.T @ weight[rows]).ravel()
        observed = np.ones(means.shape[0]) if missing is None else ~missing.T
        mass = mass + np.broadcast_to(observed @ weight[rows], X.shape[1])
    mass = np.repeat(mass, code.n_states - 1)
    return np.divide(total, mass, out=np.full(len(total), 1 / code.n_states), where=mass > 0)


def _missing_columns(X):
    """Columns of X (N, D), dense or CSR, that hold a NaN."""
    if not sparse.issparse(X):
        return np.isnan(X).any(axis=0)
    columns = np.zeros(X.shape[1], bool)
    columns[X.indices[np.isnan(X.data)]] = True
    return columns


def _unit_interval_columns(X):
    """Columns of X (N, D), dense or CSR, whose observed values lie in [0, 1], or overshoot."""
    farthest = 0.5 + _OVERSHOOT
    if not sparse.issparse(X):
        return ~(abs(X - 0.5) > farthest).any(axis=0)
    columns = np.ones(X.shape[1], bool)
    columns[X.indices[abs(X.data - 0.5) > farthest]] = False
    return columns


def _check_unit_interval(nodes, inside):
    """Refuse binary nodes whose observed values are not probabilities."""
    bad = np.flatnonzero(nodes & ~inside)
    if len(bad):
        raise ValueError(
            f"feature {bad[0]} is NaN in some rows, which makes it a binary node: its observed "
            "values must lie in [0, 1]; scale X with MinMaxScaler"
        )
