"""Decide whether rounding errors could hide differences that matter to a search."""

from __future__ import annotations

import numpy as np

# A rounding error of a score may be ignored up to NATS or, if all terms of a model are large, up
# to _SHARE times the smallest term.
NATS, _SHARE = 1e-6, 1e-3


def tolerance(sizes: np.ndarray) -> float:
    """Return the largest rounding error of a score that a search may ignore.

    `sizes` are the sizes of the terms of the score: by how much each term can change it. Terms of
    size 0 have no effect.
    """
    least = np.min(sizes, initial=np.inf, where=sizes > 0)
    return max(NATS, _SHARE * float(least)) if least < np.inf else NATS
