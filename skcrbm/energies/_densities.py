"""Models of a distribution without inputs: parameters -> one energy, moments -> gradient.

Each has the methods that a learning rule asks of a model, see `skcrbm.learning.Objective`; `X` has
no columns, and the single energy stands for all rows.
"""

from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._rbm import RBMEnergy


class TableParams(NamedTuple):
    """Parameters of a Markov random field.

    Attributes
    ----------
    log_potentials : ndarray (K,)
        Of the table entries that are learned.
    """

    log_potentials: np.ndarray


class TableModel(NamedTuple):
    """A factor graph whose tables are learned; weights of zero and fields stay as they are.

    Attributes
    ----------
    params : TableParams
    base : FactorGraphEnergy
        One model.
    learned : ndarray of int (K,)
        Places of the entries that are learned, the finite ones.
    """

    params: TableParams
    base: Any
    learned: np.ndarray

    @classmethod
    def of(cls, base):
        """Return the model that starts from the tables of an energy."""
        learned = np.flatnonzero(np.isfinite(base.log_potentials))
        return cls(TableParams(base.log_potentials[learned]), base, learned)

    def energy(self, X):
        """Return the `FactorGraphEnergy` of one model."""
        flat = self.base.log_potentials.copy()
        flat[self.learned] = self.params.log_potentials
        return self.base.with_log_potentials(flat)

    def gradient(self, X, unary, statistics):
        """Map moment differences to parameters: that of an entry is that of its probability.

        Parameters
        ----------
        X : ndarray (N, 0)
        unary : ndarray (M, n)
            Differences of unary moments.
        statistics : tuple of ndarray
            Differences of the weighted sums of the statistics.

        Returns
        -------
        TableParams
        """
        return TableParams(statistics[0][self.learned])


class IsingParams(NamedTuple):
    """Parameters of an Ising model.

    Attributes
    ----------
    coupling : ndarray (E,)
        Of each edge.
    field : ndarray (L,)
        Of centred variables, ``sum_i field_i y_i + sum_ik coupling_ik (y_i - c_i) (y_k - c_k)``:
        a step of a coupling then leaves the means alone, where they are near the centre c.
    """

    coupling: np.ndarray
    field: np.ndarray


def _ising_gradient(unary, pairs, edges, center):
    """Gradient of an Ising model, of differences of 0/1 moments, as -1/+1 is 2 u - 1."""
    means = 2 * unary.sum(axis=0)
    i, k = edges.T
    coupling = 4 * pairs - (1 + center[k]) * means[i] - (1 + center[i]) * means[k]
    return IsingParams(coupling, means)


class DenseIsingModel(NamedTuple):
    """An Ising model of all pairs.

    Attributes
    ----------
    params : IsingParams
        Couplings in the order of `edges`.
    edges : ndarray of int (L (L - 1) / 2, 2)
        All pairs i < k, sorted.
    center : ndarray (L,)
        c, near the means of the data.
    """

    params: IsingParams
    edges: np.ndarray
    center: np.ndarray

    def energy(self, X):
        """Return the `IsingEnergy` of one model."""
        coupling, field = self.params
        matrix = np.zeros((len(field), len(field)), field.dtype)
        i, k = self.edges.T
        matrix[i, k] = matrix[k, i] = coupling
        return IsingEnergy(matrix, field - matrix @ self.center)

    def gradient(self, X, unary, statistics):
        """Map moment differences to parameters; see `TableModel.gradient`."""
        i, k = self.edges.T
        return _ising_gradient(unary, statistics[0][i, k], self.edges, self.center)


class SparseIsingModel(NamedTuple):
    """An Ising model of the edges of a graph.

    Attributes
    ----------
    params : IsingParams
    base : SparseIsingEnergy
        One model, for its graph.
    center : ndarray (L,)
        c, near the means of the data.
    """

    params: IsingParams
    base: Any
    center: np.ndarray

    @property
    def edges(self):
        """Pairs i < k (E, 2)."""
        return self.base.edges

    def energy(self, X):
        """Return the `SparseIsingEnergy` of one model."""
        coupling, field = self.params
        energy = self.base.with_edge_coupling(coupling)
        return energy.with_fields((field - energy.coupling @ self.center)[None])

    def gradient(self, X, unary, statistics):
        """Map moment differences to parameters; see `TableModel.gradient`."""
        return _ising_gradient(unary, statistics[0], self.edges, self.center)


class RBMParams(NamedTuple):
    """Parameters of a restricted Boltzmann machine.

    Attributes
    ----------
    weights : ndarray (V, H)
    visible_intercept : ndarray (V,)
    hidden_intercept : ndarray (H,)
    """

    weights: np.ndarray
    visible_intercept: np.ndarray
    hidden_intercept: np.ndarray


class RBMModel(NamedTuple):
    """A restricted Boltzmann machine; with columns of X it would be a `ConditionalRBM`.

    Attributes
    ----------
    params : RBMParams
    """

    params: RBMParams

    def energy(self, X):
        """Return the `RBMEnergy` of one model."""
        return RBMEnergy(*self.params)

    def gradient(self, X, unary, statistics):
        """Map moment differences to parameters; see `TableModel.gradient`."""
        total = unary.sum(axis=0)
        n_visible = len(self.params.visible_intercept)
        return RBMParams(statistics[0], total[:n_visible], total[n_visible:])
