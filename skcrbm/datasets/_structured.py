"""Generate multi-label data from a known joint distribution."""

from __future__ import annotations

from itertools import product
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from skcrbm.utils.parallel import row_chunks

_MAX_LABELS = 12  # all 2^12 label vectors are enumerated
_ROWS = 256  # number of rows whose probabilities are computed together


def make_structured_labels(
    n_samples: int = 1000,
    n_features: int = 20,
    n_labels: int = 8,
    *,
    structure: str = "pairs",
    strength: float = 1.0,
    n_informative: int = 5,
    random_state: int | np.random.RandomState | None = None,
    return_distribution: bool = False,
) -> tuple[np.ndarray, ...]:
    """Draw multi-label data whose joint distribution p(y | x) is known.

    The inputs are standard normal. Each label i has a field f_i(x), which is linear in a few
    inputs. In addition, the labels depend on each other in one of two ways:

    - "pairs": neighbours on a ring are coupled,
      ``p(y | x) ∝ exp(sum_i f_i(x) y_i + strength sum_i s_i y_i y_{i+1})``,
      where each y_i and each s_i is -1 or +1;
    - "groups": hidden causes j, one for every three labels, raise some labels and lower others,
      ``p(y | x) ∝ prod_j (1 + exp(c_j + 2 strength sum_i w_ij y_i)) exp(sum_i f_i(x) y_i)``,
      where each y_i is -1 or +1, each w_ij is -1, 0 or +1, and c_j is the bias of the cause.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=20
        Number of inputs.
    n_labels : int, default=8
        Number of labels, from 3 to 12, because all label vectors are enumerated.
    structure : {"pairs", "groups"}, default="pairs"
        Form of the dependence between labels.
    strength : float, default=1.0
        Strength of the dependence. If it is 0, the labels are independent given x.
    n_informative : int, default=5
        Number of inputs in the field of each label.
    random_state : int, RandomState or None, default=None
        Seed of the model and the rows. The model is drawn first, so that an int gives the same
        model for any number of rows.
    return_distribution : bool, default=False
        True to return p(y | x) too.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Inputs.
    y : ndarray of shape (n_samples, n_labels)
        0/1 labels.
    label_sets : ndarray of shape (2 ** n_labels, n_labels)
        All 0/1 label vectors; only with ``return_distribution=True``.
    proba : ndarray of shape (n_samples, 2 ** n_labels)
        Probabilities of the label vectors given each row; only with ``return_distribution=True``.
        ``proba @ label_sets`` are the marginals. No classifier can predict better on average than a
        classifier that knows these probabilities.

    Raises
    ------
    ValueError
        If `structure` is unknown or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, y, sets, proba = make_structured_labels(
    ...     200, structure="groups", random_state=0, return_distribution=True
    ... )
    >>> y.shape, proba.shape
    ((200, 8), (200, 256))
    >>> best = sets[proba.argmax(axis=1)]
    >>> bool(np.mean((best == y).all(axis=1)) > 0.2)
    True
    """
    if structure not in ("pairs", "groups"):
        raise ValueError(f"structure must be 'pairs' or 'groups', got {structure!r}")
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples must be a positive integer, got {n_samples!r}")
    if not isinstance(n_labels, Integral) or not 3 <= n_labels <= _MAX_LABELS:
        raise ValueError(f"n_labels must be from 3 to {_MAX_LABELS}, got {n_labels!r}")
    if not isinstance(n_informative, Integral) or not 1 <= n_informative <= n_features:
        raise ValueError(
            f"n_informative must be from 1 to n_features={n_features}, got {n_informative!r}"
        )
    if not isinstance(strength, Real) or not np.isfinite(strength):
        raise ValueError(f"strength must be a finite number, got {strength!r}")
    rng = check_random_state(random_state)
    coef = np.zeros((n_labels, n_features))
    for row in coef:
        used = rng.permutation(n_features)[:n_informative]
        row[used] = rng.normal(size=n_informative) / np.sqrt(n_informative)
    intercept = rng.uniform(-0.8, 0.2, size=n_labels)
    sets = np.array(list(product([0, 1], repeat=n_labels)))
    dependence = _pairs if structure == "pairs" else _groups
    log_weight = dependence(2.0 * sets - 1, strength, rng)

    seed = rng.randint(np.iinfo(np.int32).max)
    X = np.random.RandomState(seed).normal(size=(n_samples, n_features))
    uniform = np.random.RandomState(seed + 1).random_sample(n_samples)
    y = np.empty((n_samples, n_labels), np.int64)
    proba = np.empty((n_samples, len(sets)) if return_distribution else (0, 0))
    for rows in row_chunks(n_samples, _ROWS):
        score = (X[rows] @ coef.T + intercept) @ (2.0 * sets - 1).T + log_weight
        p = np.exp(score - score.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        below = p.cumsum(axis=1) < uniform[rows, None]
        y[rows] = sets[np.minimum(below.sum(axis=1), len(sets) - 1)]
        if return_distribution:
            proba[rows] = p
    return (X, y, sets, proba) if return_distribution else (X, y)


def _pairs(signs, strength, rng):
    """Return the log-weights (K,) of K label vectors in which neighbours on a ring are coupled.

    `signs` (K, L) holds the vectors of L labels, -1 or +1.
    """
    coupling = strength * rng.choice([-1.0, 1.0], size=signs.shape[1])
    return (signs * np.roll(signs, -1, axis=1)) @ coupling


def _groups(signs, strength, rng):
    """Return the log-weights (K,) of K label vectors that hidden causes raise or lower.

    `signs` (K, L) holds the vectors of L labels, -1 or +1. Each hidden cause is 0 or 1, and the
    weights are summed over both values.
    """
    n_labels = signs.shape[1]
    n_causes = max(1, n_labels // 3)
    pattern = rng.choice([-1.0, 0.0, 1.0], size=(n_labels, n_causes), p=[0.3, 0.3, 0.4])
    bias = -strength * np.abs(pattern).sum(axis=0)
    return np.logaddexp(0.0, bias + 2 * strength * signs @ pattern).sum(axis=1)
