"""Models with parameters: parameters and inputs X -> energy, moments -> gradient.

Each model has the methods that a learning rule calls (see `Objective` in `skcrbm.learning`). In
models of a distribution without inputs, X has no columns and one energy stands for all rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skcrbm.energies._factor_graph import FactorGraphEnergy
from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._rbm import RBMEnergy
from skcrbm.energies._sparse_ising import SparseIsingEnergy
from skcrbm.utils.columns import linear_fields


class CRBMParams(NamedTuple):
    """Parameters of a conditional RBM, in the notation of Ping and Ihler (2017), eq. 3."""

    weights: Any  # ndarray W (V, H)
    visible_coef: Any  # ndarray U (V, D)
    hidden_coef: Any  # ndarray S (H, D)
    visible_intercept: Any  # ndarray b (V,)
    hidden_intercept: Any  # ndarray c (H,)


class ConditionalRBM(NamedTuple):
    """``p(v, h | x) ∝ exp(v' W h + v' U x + h' S x + v' b + h' c)``."""

    params: CRBMParams
    energy_type: type[RBMEnergy] = RBMEnergy  # or `OneHotRBMEnergy`

    def energy(self, X: Any) -> RBMEnergy:
        """Return the energy of (v, h) given each row of X (N, D), dense or CSR.

        Raises
        ------
        ValueError
            If X times the coefficients overflows.
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

    def gradient(self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]) -> CRBMParams:
        """Map differences of moments to differences of parameters by the chain rule.

        Parameters
        ----------
        X : ndarray or CSR matrix (N, D)
            Inputs.
        unary : ndarray (N, V + H)
            Weighted differences of unary moments of each row.
        statistics : tuple of ndarray ((V, H),)
            Differences of the weighted sums of the statistics of the couplings.
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
    """Return ``moments' X`` (n_units, D) for dense or sparse X."""
    if issparse(X):
        return np.ascontiguousarray((X.T @ moments).T)
    return moments.T @ X


class TableParams(NamedTuple):
    """Parameters of a Markov random field."""

    log_potentials: Any  # ndarray (K,): learned entries of the tables


class TableModel(NamedTuple):
    """A factor graph whose tables are learned; weights of 0 and fields stay as they are."""

    params: TableParams
    base: FactorGraphEnergy  # one model
    learned: np.ndarray  # int (K,): positions of the learned (finite) entries

    @classmethod
    def from_energy(cls, base: FactorGraphEnergy) -> TableModel:
        """Return the model that starts from the tables of an energy."""
        learned = np.flatnonzero(np.isfinite(base.log_potentials))
        return cls(TableParams(base.log_potentials[learned]), base, learned)

    def energy(self, X: Any) -> FactorGraphEnergy:
        """Return the energy of one model."""
        flat = self.base.log_potentials.copy()
        flat[self.learned] = self.params.log_potentials
        return self.base.with_log_potentials(flat)

    def gradient(
        self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]
    ) -> TableParams:
        """Map differences of moments to differences of parameters; see `ConditionalRBM.gradient`.

        The gradient of an entry is the difference of its probability.
        """
        return TableParams(statistics[0][self.learned])


class IsingParams(NamedTuple):
    """Parameters of an Ising model with centred variables.

    The score is ``sum_i field_i y_i + sum_ik coupling_ik (y_i - c_i) (y_k - c_k)``. If the means
    are near the centre c, a step of a coupling leaves them as they are.
    """

    coupling: Any  # ndarray (E,)
    field: Any  # ndarray (L,)


def _ising_gradient(unary, pairs, edges, center):
    """Return the gradient from differences of 0/1 moments, where y is 2 u - 1."""
    means = 2 * unary.sum(axis=0)
    i, k = edges.T
    coupling = 4 * pairs - (1 + center[k]) * means[i] - (1 + center[i]) * means[k]
    return IsingParams(coupling, means)


class DenseIsingModel(NamedTuple):
    """An Ising model of all pairs."""

    params: IsingParams  # couplings in the order of `edges`
    edges: np.ndarray  # int (L (L - 1) / 2, 2): all pairs i < k, sorted
    center: np.ndarray  # c (L,), near the means of the data

    def energy(self, X: Any) -> IsingEnergy:
        """Return the energy of one model."""
        coupling, field = self.params
        matrix = np.zeros((len(field), len(field)), field.dtype)
        i, k = self.edges.T
        matrix[i, k] = matrix[k, i] = coupling
        return IsingEnergy(matrix, field - matrix @ self.center)

    def gradient(
        self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]
    ) -> IsingParams:
        """Map differences of moments to parameters; see `ConditionalRBM.gradient`."""
        i, k = self.edges.T
        return _ising_gradient(unary, statistics[0][i, k], self.edges, self.center)


class SparseIsingModel(NamedTuple):
    """An Ising model of the edges of a graph."""

    params: IsingParams
    base: SparseIsingEnergy  # one model with the graph
    center: np.ndarray  # c (L,), near the means of the data

    @property
    def edges(self) -> np.ndarray:
        """Pairs i < k (E, 2)."""
        return self.base.edges

    def energy(self, X: Any) -> SparseIsingEnergy:
        """Return the energy of one model."""
        coupling, field = self.params
        energy = self.base.with_edge_coupling(coupling)
        return energy.with_fields((field - energy.coupling @ self.center)[None])

    def gradient(
        self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]
    ) -> IsingParams:
        """Map differences of moments to parameters; see `ConditionalRBM.gradient`."""
        return _ising_gradient(unary, statistics[0], self.edges, self.center)


class RBMParams(NamedTuple):
    """Parameters of a restricted Boltzmann machine."""

    weights: Any  # ndarray (V, H)
    visible_intercept: Any  # ndarray (V,)
    hidden_intercept: Any  # ndarray (H,)


class RBMModel(NamedTuple):
    """A restricted Boltzmann machine, a `ConditionalRBM` without columns of X."""

    params: RBMParams

    def energy(self, X: Any) -> RBMEnergy:
        """Return the energy of one model."""
        return RBMEnergy(*self.params)

    def gradient(self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]) -> RBMParams:
        """Map differences of moments to parameters; see `ConditionalRBM.gradient`."""
        total = unary.sum(axis=0)
        n_visible = len(self.params.visible_intercept)
        return RBMParams(statistics[0], total[:n_visible], total[n_visible:])
