"""Labels that a search has found, with bounds; hinge losses of labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np


class FoundLabels(NamedTuple):
    """Labels found for N rows, their values, and lower bounds of the best possible values.

    The value is the hinge loss or the negated score of labels, so lower values are better.
    """

    # int8 (N, L): labels as 0 and 1.
    labels: np.ndarray
    # Value (N,) of the labels.
    value: np.ndarray
    # Lower bound (N,) of the value of any labels of the row. It equals `value` if the labels are
    # proven to be optimal, and is -inf if no bound is known.
    lower: np.ndarray
    # Number (N,) of visited nodes of a search tree, or of sweeps over the labels.
    n_iter: np.ndarray
    # True (N,) if the search was completed.
    converged: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Upper bound (N,) of the difference between `value` and the best possible value.

        It is inf if `lower` is -inf.
        """
        return np.maximum(self.value - self.lower, 0.0)

    def fields(self, returns: Iterable[str]) -> dict[str, Any]:
        """Return the found labels as fields of an `InferenceResult`.

        `value` must be the negated score.
        """
        fields = {
            "assignment": self.labels,
            "n_iter": self.n_iter,
            "converged": self.converged,
        }
        if "map_bound" in returns:
            fields["map_bound"], fields["gap"] = 0.0 - self.lower, self.gap
        return fields


def hinge_losses_and_scores(
    signs: np.ndarray, fields: np.ndarray, coupling: np.ndarray, margin: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the hinge losses (N,) and the scores (N,) of labels (N, L) in {-1, +1}."""
    pull = signs @ coupling
    loss = np.maximum(margin - signs * (fields + pull), 0.0).sum(axis=1)
    return loss, (signs * (fields + 0.5 * pull)).sum(axis=1)
