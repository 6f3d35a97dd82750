"""Base class of pairwise energies, in which evidence is equivalent to a change of the fields."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skcrbm.energies.base import BaseEnergy

# If the couplings (i, k) and (k, i) differ by at most this number times the machine epsilon times
# the largest entry, they are averaged. A larger difference raises a ValueError.
_ROUNDING = 16


class PairwiseEnergy(BaseEnergy):
    """A batch of models whose couplings multiply products of two variables.

    A clamped variable shifts the fields of the free variables. After this shift, solvers leave out
    the clamped variables and do not need their values.
    """

    @property
    def is_pairwise(self) -> bool:
        """True, because all terms depend on one or two variables."""
        return True

    @abstractmethod
    def fold_evidence(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Add the effect of clamped variables to the fields of free variables, and to an offset.

        Returns
        -------
        fields : tuple of ndarray
            Arrays with the shapes of `fields`, which are 0 for clamped variables.
        offset : ndarray (N,), float64
            Sum of the terms of the score that depend only on clamped variables. The caller adds it
            to log Z.
        """

    @abstractmethod
    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return arrays whose products are expected statistics of pairs with a clamped variable.

        Parameters
        ----------
        values : ndarray (N, n_variables)
            Values of the clamped variables, 0 for free variables.
        free : ndarray (N, n_variables)
            Marginals of the free variables, 0 for clamped variables.

        Returns
        -------
        tuple of (left, right)
            The statistics are the sum of ``left[:, :, None] * right[:, None, :]`` over the tuple.
            For a sparse energy they are the sum of ``left * right``, with an entry for each edge.
        """

    def add_held_pairs(
        self,
        statistics: tuple[np.ndarray, ...],
        values: np.ndarray,
        free: np.ndarray,
        weight: np.ndarray | None,
    ) -> None:
        """Add the statistics of pairs with a clamped variable to `statistics`, in place.

        Parameters
        ----------
        statistics : tuple of ndarray
            Arrays with the shapes in `statistic_shapes`, or with an additional first axis N.
        values, free : ndarray (N, n_variables)
            See `held_pairs`.
        weight : ndarray (N,) or None
            Weights of the models in a sum over the models, or None if `statistics` holds the
            statistics of each model.
        """
        (pairs,) = statistics
        for left, right in self.held_pairs(values, free):
            if weight is None:
                pairs += left[:, :, None] * right[:, None, :]
            else:
                pairs += (weight[:, None] * left).T @ right


def symmetric_values(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Return the coupling of each pair i < k, given the entries (i, k) and (k, i) of a matrix.

    Entries that differ only by rounding are averaged. If the matrix is not symmetric, a ValueError
    is raised that recommends a conversion.
    """
    if np.array_equal(upper, lower):
        return upper
    for name, other in (("an upper", lower), ("a lower", upper)):
        if not other.any():
            raise ValueError(
                f"coupling must be symmetric, got {name} triangle. If the triangle holds the "
                "coupling of each pair, pass coupling + coupling.T"
            )
    largest = max(np.abs(upper).max(), np.abs(lower).max())
    if np.abs(upper - lower).max() <= _ROUNDING * np.finfo(upper.dtype).eps * largest:
        return (upper + lower) / 2
    raise ValueError(
        "coupling must be symmetric. Pass (coupling + coupling.T) / 2 for the score "
        "y' coupling y / 2, or coupling + coupling.T for the score y' coupling y"
    )
