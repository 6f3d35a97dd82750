"""Decide whether rounding errors could hide differences that matter to a search."""

from __future__ import annotations

import numpy as np

# A rounding error of a score may be ignored up to NATS or, if all terms of a model are large, up
# to _SHARE times the smallest term.
NATS, _SHARE = 1e-6, 1e-3
# A term of a size below this share of the sum of all sizes may itself be a rounding error.
_NOISE = 4 * float(np.finfo(np.float64).eps)


def resolution(sizes: np.ndarray) -> float:
    """Return the largest rounding error with which a state may be called the best.

    Scores of different states usually differ by more than a thousandth of the smallest term. See
    `tolerance` for `sizes`; terms that may be rounding errors of others do not count.
    """
    least = np.min(sizes, initial=np.inf, where=sizes > _NOISE * np.sum(sizes))
    return _SHARE * float(least)


def tolerance(sizes: np.ndarray) -> float:
    """Return the largest rounding error of a score that a search may ignore.

    `sizes` are the sizes of the terms of the score: by how much each term can change it. Terms of
    size 0 have no effect.
    """
    least = np.min(sizes, initial=np.inf, where=sizes > 0)
    return max(NATS, _SHARE * float(least)) if least < np.inf else NATS
