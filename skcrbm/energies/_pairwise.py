"""What energies of pairs declare besides: evidence folded into the fields."""

from abc import abstractmethod

from skcrbm.energies._base import BaseEnergy


class PairwiseEnergy(BaseEnergy):
    """A batch of models whose couplings are products of two variables.

    What a held variable says to a free one is then a shift of its field, so that solvers need
    not know of values, only of which variables are left out.
    """

    @property
    def is_pairwise(self):
        """True."""
        return True

    @abstractmethod
    def fold_evidence(self):
        """Fields of the free variables, with the pull of the held ones in them.

        Returns
        -------
        fields : tuple of ndarray
            As `fields`, 0 where a variable is held: with `free` at hand it is to be left out.
        offset : ndarray (N,), float64
            Score of the held variables among themselves, to be added to log Z.
        """

    @abstractmethod
    def held_pairs(self, values, free):
        """Return the expected statistics of the pairs with a held variable, as products.

        Parameters
        ----------
        values, free : ndarray (N, n_variables)
            The held values, 0 where free; the marginals, 0 where held.

        Returns
        -------
        tuple of (left, right)
            Each stands for the products ``left[:, :, None] * right[:, None, :]``, which are
            to be added; of a sparse energy for those edge by edge, ``left * right``.
        """

    def add_held_pairs(self, statistics, values, free, weight):
        """Add the pairs with a held variable, plain products of means, to statistics.

        Parameters
        ----------
        statistics : tuple of ndarray
            Of `statistic_shapes`, or with a leading axis N; changed.
        values, free : ndarray (N, n_variables)
            As of `held_pairs`.
        weight : ndarray (N,) or None
            To sum over the models; None: statistics of each.
        """
        (pairs,) = statistics
        for left, right in self.held_pairs(values, free):
            if weight is None:
                pairs += left[:, :, None] * right[:, None, :]
            else:
                pairs += (weight[:, None] * left).T @ right
