"""Convert features to states of the input nodes, by thresholds (hard clamping)."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.utils.options import Options, options_constraint


class HardClamping(Options):
    """Convert each feature to a state, by comparing its value with thresholds.

    The state is the number of thresholds that are less than or equal to the value, so that k - 1
    thresholds give k states.

    Parameters
    ----------
    thresholds : float or array-like, default=0.5
        A single threshold, or several thresholds in increasing order, which are used for all
        features.

    Examples
    --------
    >>> from skcrbm import LayeredGMClassifier
    >>> from skcrbm.layers import HardClamping
    >>> model = LayeredGMClassifier(clamping=HardClamping(thresholds=(0.25, 0.5, 0.75)))
    """

    name = "hard"
    _parameter_constraints: ClassVar = {"thresholds": [Real, "array-like"]}

    def __init__(self, thresholds: float | ArrayLike = 0.5):
        self.thresholds = thresholds

    def cuts(self) -> np.ndarray:
        """Return the thresholds as an array (n_states - 1,).

        Raises
        ------
        ValueError
            If the thresholds are not finite numbers in increasing order.
        """
        wrong = f"thresholds must be a number or a sequence of numbers, got {self.thresholds!r}"
        try:
            cuts = np.asarray(self.thresholds, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(wrong) from error
        cuts = np.atleast_1d(cuts)
        if cuts.ndim != 1 or not len(cuts) or not np.isfinite(cuts).all():
            raise ValueError(wrong)
        if (np.diff(cuts) <= 0).any():
            raise ValueError(f"thresholds must increase, got {self.thresholds!r}")
        return cuts


def clamping_cuts(clamping: str | HardClamping) -> np.ndarray | None:
    """Return the thresholds of the hyperparameter `clamping`, or None for "soft"."""
    if isinstance(clamping, str):
        return None if clamping == "soft" else HardClamping().cuts()
    return clamping.cuts()


def clamping_constraint() -> list:
    """Return the constraint of the hyperparameter `clamping`: a name or a `HardClamping`."""
    return options_constraint(("soft", "hard"), HardClamping, "HardClamping(thresholds=0.5)")
