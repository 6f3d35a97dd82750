"""Energies of pairs, which fold their evidence into the fields."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skcrbm.energies.base import BaseEnergy

# Difference of two entries of a matrix that rounding may cause, in eps of the largest entry.
_ROUNDING = 16


class PairwiseEnergy(BaseEnergy):
    """A batch of models whose couplings are products of two variables.

    A held variable shifts the fields of free variables, so solvers need to know which variables are
    held, but not their values.
    """

    @property
    def is_pairwise(self) -> bool:
        """True."""
        return True

    @abstractmethod
    def fold_evidence(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Return the fields of the free variables, with the pull of held variables added.

        Returns
        -------
        fields : tuple of ndarray
            Arrays as in `fields`, 0 where a variable is held. Solvers leave out the variables that
            are not `free`.
        offset : ndarray (N,), float64
            Score of the held variables among themselves, to add to log Z.
        """

    @abstractmethod
    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return the expected statistics of the pairs with a held variable, as factors.

        Parameters
        ----------
        values : ndarray (N, n_variables)
            Values of the held variables, 0 where free.
        free : ndarray (N, n_variables)
            Marginals of the free variables, 0 where held.

        Returns
        -------
        tuple of (left, right)
            Add up the products ``left[:, :, None] * right[:, None, :]``. A sparse energy has
            factors edge by edge, ``left * right``.
        """

    def add_held_pairs(
        self,
        statistics: tuple[np.ndarray, ...],
        values: np.ndarray,
        free: np.ndarray,
        weight: np.ndarray | None,
    ) -> None:
        """Add the pairs with a held variable to statistics, in place.

        Parameters
        ----------
        statistics : tuple of ndarray
            Arrays of the shapes in `statistic_shapes`, or with a leading axis N.
        values, free : ndarray (N, n_variables)
            As in `held_pairs`.
        weight : ndarray (N,) or None
            Weights of a sum over the models; None keeps the statistics of each model.
        """
        (pairs,) = statistics
        for left, right in self.held_pairs(values, free):
            if weight is None:
                pairs += left[:, :, None] * right[:, None, :]
            else:
                pairs += (weight[:, None] * left).T @ right


def symmetric_values(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Return the coupling of each pair i < k from the entries (i, k) and (k, i) of a matrix.

    Average entries that differ by rounding. A ValueError says how to make the matrix symmetric.
    """
    if np.array_equal(upper, lower):
        return upper
    for name, other in (("an upper", lower), ("a lower", upper)):
        if not other.any():
            raise ValueError(
                f"coupling must be symmetric, got {name} triangle; coupling + coupling.T is the "
                "matrix in which each pair has its entry of the triangle as coupling"
            )
    largest = max(np.abs(upper).max(), np.abs(lower).max())
    if np.abs(upper - lower).max() <= _ROUNDING * np.finfo(upper.dtype).eps * largest:
        return (upper + lower) / 2
    raise ValueError(
        "coupling must be symmetric; (coupling + coupling.T) / 2 gives the model of the score "
        "y' coupling y / 2, and coupling + coupling.T the model of y' coupling y"
    )
