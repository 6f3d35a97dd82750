"""Models with parameters: parameters and inputs X -> energy, moments -> gradient.

Each model has the methods that a learning rule calls (see `Objective` in `skcrbm.learning`). In
models of a distribution without inputs, X has no columns and one energy stands for all rows.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._rbm import RBMEnergy
from skcrbm.utils.columns import linear_fields


class CRBMParams(NamedTuple):
    """Parameters of a conditional RBM, in the notation of Ping and Ihler (2017), eq. 3.

    Attributes
    ----------
    weights : ndarray (V, H), W
    visible_coef : ndarray (V, D), U
    hidden_coef : ndarray (H, D), S
    visible_intercept : ndarray (V,), b
    hidden_intercept : ndarray (H,), c
    """

    weights: np.ndarray
    visible_coef: np.ndarray
    hidden_coef: np.ndarray
    visible_intercept: np.ndarray
    hidden_intercept: np.ndarray


class ConditionalRBM(NamedTuple):
    """``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)``.

    Attributes
    ----------
    params : CRBMParams
    energy_type : type
        `RBMEnergy` or `OneHotRBMEnergy`, the model of (v, h) given x.
    """

    params: CRBMParams
    energy_type: type = RBMEnergy

    def energy(self, X):
        """Energy of (v, h) given each row of X (N, D), dense or CSR.

        Raises
        ------
        ValueError
            If X is too large for the coefficients.
        """
        p = self.params
        with np.errstate(over="ignore", invalid="ignore"):
            visible = linear_fields(X, p.visible_coef, p.visible_intercept)
            hidden = linear_fields(X, p.hidden_coef, p.hidden_intercept)
        try:
            return self.energy_type(p.weights, visible, hidden)
        except ValueError:
            if np.isfinite(visible).all() and np.isfinite(hidden).all():
                raise
            raise ValueError(
                "X times the coefficients is too large a number; scale the columns of X"
            ) from None

    def gradient(self, X, unary, statistics):
        """Map moment differences to parameters by the chain rule.

        Parameters
        ----------
        X : ndarray or CSR matrix (N, D)
        unary : ndarray (N, V + H)
            Weighted differences of unary moments, row by row.
        statistics : tuple of ndarray
            Differences of the weighted sums of the couplings' statistics: ((V, H),).

        Returns
        -------
        CRBMParams
        """
        (pairwise,) = statistics
        n_visible = len(pairwise)
        coef, intercept = _left_product(unary, X), unary.sum(axis=0)
        return CRBMParams(
            pairwise,
            coef[:n_visible],
            coef[n_visible:],
            intercept[:n_visible],
            intercept[n_visible:],
        )


def _left_product(moments, X):
    """Moments' X, (n_units, D), for dense or sparse X."""
    if issparse(X):
        return np.ascontiguousarray((X.T @ moments).T)
    return moments.T @ X


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
