"""X and y as users have them, and as they should not: all kinds, drawn at random."""

import numpy as np
import pandas as pd
from scipy import sparse


def pick(rng, options):
    """One of a list."""
    return options[rng.integers(len(options))]


def laid_out(rng, array):
    """The same numbers in another memory layout."""
    wide = np.zeros((array.shape[0], 2 * array.shape[1]), array.dtype)
    wide[:, ::2] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    return pick(rng, [array, np.asfortranarray(array), wide[:, ::2], array[::-1], frozen])


def plain_features(rng, n_rows, n_columns):
    """Numbers (N, D) of many scales, some columns constant or the same."""
    X = rng.normal(size=(n_rows, n_columns))
    if rng.random() < 0.2:
        X = rng.integers(0, 2, size=X.shape).astype(float)
    X *= 10.0 ** pick(rng, [0, 0, 0, -3, 3, -12, 12, -160, 160, -310, 300])
    if n_columns and rng.random() < 0.15:
        X[:, 0] = pick(rng, [0.0, 1.0, -7.5, 1e12])
    if n_columns > 1 and rng.random() < 0.1:
        X[:, 1] = X[:, 0]
    return X


def _frame(rng, X):
    if rng.random() < 0.5:
        return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    X = np.clip(X, -1e38, 1e38)
    return pd.DataFrame({f"x{i}": column.astype(np.float32) for i, column in enumerate(X.T)})


GOOD_FEATURES = {
    "array": laid_out,
    "float32": lambda rng, X: laid_out(rng, np.clip(X, -1e38, 1e38).astype(np.float32)),
    "float16": lambda rng, X: np.clip(X, -1e4, 1e4).astype(np.float16),
    "big-endian": lambda rng, X: X.astype(">f8"),
    "longdouble": lambda rng, X: X.astype(np.longdouble),
    "int8": lambda rng, X: np.clip(np.nan_to_num(3 * X), -100, 100).astype(np.int8),
    "uint64": lambda rng, X: np.clip(np.nan_to_num(np.abs(3 * X)), 0, 1e15).astype(np.uint64),
    "bool": lambda rng, X: X > 0,
    "object": lambda rng, X: X.astype(object),
    "list": lambda rng, X: X.tolist(),
    "csr": lambda rng, X: sparse.csr_matrix(np.where(X > 0, X, 0)),
    "csc": lambda rng, X: sparse.csc_matrix(np.where(X > 0, X, 0)),
    "coo": lambda rng, X: sparse.coo_array(np.where(X > 0, X, 0)),
    "frame": _frame,
}


def _with(value):
    def change(rng, X):
        X = X.copy()
        if X.size:
            X[rng.integers(X.shape[0]), rng.integers(X.shape[1])] = value
        return X

    return change


BAD_FEATURES = {
    "nan": _with(np.nan),
    "inf": _with(-np.inf),
    "dates": lambda rng, X: np.zeros(X.shape, "datetime64[s]"),
    "strings": lambda rng, X: np.full(X.shape, "a"),
    "complex": lambda rng, X: X + 1j,
    "vector": lambda rng, X: X.ravel(),
    "cube": lambda rng, X: X[None],
    "none": lambda rng, X: None,
    "no columns": lambda rng, X: X[:, :0],
    "no rows": lambda rng, X: X[:0],
    "one column more": lambda rng, X: np.hstack([X, X[:, :1]]),
    "ragged": lambda rng, X: [[1.0], [1.0, 2.0]],
    "dict": lambda rng, X: {"a": 1},
    "scalar": lambda rng, X: 1.0,
}


def features(rng, X, badly):
    """X in some form, and the name of the form."""
    name = pick(rng, list(BAD_FEATURES if badly else GOOD_FEATURES))
    return (BAD_FEATURES if badly else GOOD_FEATURES)[name](rng, X), name


def indicator(rng, n_rows, n_labels):
    """0/1 labels (N, L), at times constant."""
    Y = (rng.random((n_rows, n_labels)) < pick(rng, [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])).astype(int)
    if rng.random() < 0.2:
        Y[:, rng.integers(n_labels)] = rng.integers(2)
    return Y


def _missing(rng, Y):
    return np.where(rng.random(Y.shape) < pick(rng, [0.1, 0.5, 0.9]), np.nan, Y)


GOOD_LABELS = {
    "array": laid_out,
    "int8": lambda rng, Y: Y.astype(np.int8),
    "uint8": lambda rng, Y: Y.astype(np.uint8),
    "bool": lambda rng, Y: laid_out(rng, Y.astype(bool)),
    "float32": lambda rng, Y: Y.astype(np.float32),
    "nan": _missing,
    "nan frame": lambda rng, Y: pd.DataFrame(_missing(rng, Y)),
    "frame": lambda rng, Y: pd.DataFrame(Y),
    "object": lambda rng, Y: Y.astype(object),
    "list": lambda rng, Y: Y.tolist(),
    "csr": lambda rng, Y: sparse.csr_matrix(Y),
    "Int64": lambda rng, Y: pd.DataFrame(Y).astype("Int64"),
}

BAD_LABELS = {
    "signs": lambda rng, Y: 2 * Y - 1,
    "twos": lambda rng, Y: 2 * Y,
    "strings": lambda rng, Y: Y.astype(str),
    "inf": lambda rng, Y: np.where(Y, np.inf, 0),
    "all nan": lambda rng, Y: np.full(Y.shape, np.nan),
    "complex": lambda rng, Y: Y + 0j,
    "dates": lambda rng, Y: Y.astype("datetime64[s]"),
    "cube": lambda rng, Y: Y[None],
    "short": lambda rng, Y: Y[:-1],
    "none": lambda rng, Y: None,
    "no labels": lambda rng, Y: Y[:, :0],
    "ragged": lambda rng, Y: [[0], [0, 1]],
    "scalar": lambda rng, Y: 1,
}

CLASS_VALUES = [
    lambda k: np.arange(k),
    lambda k: np.arange(k) - 2,
    lambda k: np.arange(k).astype(np.uint8) + np.uint8(250),
    lambda k: (np.arange(k) - 128).astype(np.int8),
    lambda k: np.array([2**63, 2**64 - 1, 0, 5, 6, 7], np.uint64)[:k],
    lambda k: np.array([-(2**63), 2**63 - 1, 0, 5, 6, 7])[:k],
    lambda k: 2**53 + np.arange(k),
    lambda k: np.arange(k).astype(np.float32),
    lambda k: np.array([-1e300, 1e300, 0, 1, 2, 3])[:k],
    lambda k: np.array(["no", "yes", "", "ä", "d" * 50, "e"])[:k],
    lambda k: np.array(["no", "yes", "", "ä", "d", "e"], object)[:k],
    lambda k: np.array([b"no", b"yes", b"a", b"b", b"c", b"d"])[:k],
    lambda k: np.arange(k) > 0,
    lambda k: np.arange(k).astype(object),
]

CLASS_FORMS = [
    lambda y: y,
    lambda y: y,
    lambda y: y[:, None],
    lambda y: y.tolist(),
    lambda y: pd.Series(y),
    lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
    lambda y: pd.Series(y).astype("category"),
    lambda y: pd.DataFrame({"y": y}),
    lambda y: np.repeat(y, 2)[::2],
    lambda y: pd.Series(y).convert_dtypes(),
]

BAD_CLASSES = {
    "continuous": lambda y: np.linspace(0, 1, len(y)) + 0.1234,
    "nan": lambda y: np.where(np.arange(len(y)) == 0, np.nan, 1.0),
    "none": lambda y: np.array([None] * len(y), object),
    "mixed": lambda y: np.array([0, "a"] * len(y), object)[: len(y)],
    "short": lambda y: y[:-1],
    "long": lambda y: np.repeat(y, 2),
    "dates": lambda y: np.arange(len(y)).astype("datetime64[s]"),
    "complex": lambda y: np.arange(len(y)) + 1j,
    "lists": lambda y: [[1], [1, 2]],
    "empty": lambda y: y[:0],
}


def targets(rng, n_rows, badly):
    """A y for classifiers, and the name of its form."""
    if rng.random() < 0.6:
        Y = indicator(rng, n_rows, int(pick(rng, [2, 2, 3, 4, 6])))
        name = pick(rng, list(BAD_LABELS if badly else GOOD_LABELS))
        return (BAD_LABELS if badly else GOOD_LABELS)[name](rng, Y), f"labels, {name}"
    n_classes = int(pick(rng, [1, 2, 2, 3, 4, 6]))
    values = pick(rng, CLASS_VALUES)(n_classes)
    y = values[rng.integers(len(values), size=n_rows)]
    if badly:
        name = pick(rng, list(BAD_CLASSES))
        return BAD_CLASSES[name](y), f"classes, {name}"
    return pick(rng, CLASS_FORMS)(y), f"classes, {values.dtype}"


def weights(rng, n_rows):
    """A sample_weight, sometimes invalid."""
    if rng.random() < 0.7:
        return None
    good = rng.integers(0, 4, size=n_rows)
    bad = pick(rng, [-good - 1.0, np.full(n_rows, np.nan), good[:-1], "heavy", np.zeros(n_rows)])
    return pick(rng, [good, good.tolist(), pd.Series(good), 2.0, 1e-300 * good, 1e200 * good, bad])
