"""Compare the scores of settings, such as penalties, so that rounding errors do not decide."""

from __future__ import annotations

import numpy as np

from skcrbm.utils.limits import SCORE_NOISE


def is_better(score: float, reference: float) -> bool:
    """Return True if `score` is larger than `reference` by more than rounding errors.

    A NaN is never better. In a tie the reference is kept, so a search tries the simpler setting
    first.
    """
    if np.isinf(reference):
        return bool(score > reference)
    return bool(score - reference > SCORE_NOISE * max(1.0, abs(reference)))
