"""Couplings of pairs of variables, stored as a matrix or as a list of edges.

An `IsingEnergy` has one of the two classes, which have the same members: linear algebra of the
couplings, and sums of products of variables. In all arguments y holds states of -1/+1.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy import sparse

from skcrbm.energies._sparse_graph import Neighbours, SparseGraph
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import as_float_array, own_array

# If the couplings (i, k) and (k, i) differ by at most this number times the machine epsilon times
# the largest entry, they are averaged. A larger difference raises a ValueError.
_ROUNDING = 16


class MatrixCouplings(Versioned):
    """Couplings as a symmetric matrix (L, L) with a zero diagonal, for dense models."""

    _warns_of_version = False
    _saved = ("matrix",)
    is_sparse = False

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix

    @classmethod
    def of(cls, coupling: Any) -> MatrixCouplings:
        """Check a matrix of couplings; see `IsingEnergy`."""
        coupling = as_float_array(coupling, "coupling", "(L, L)")
        _check_square(coupling)
        if np.diagonal(coupling).any():
            raise ValueError(
                "coupling must have a zero diagonal, because y_i y_i = 1 is a constant"
            )
        if not np.array_equal(coupling, coupling.T):
            pairs = np.triu_indices(len(coupling), 1)
            values, coupling = symmetric_values(coupling[pairs], coupling.T[pairs]), coupling.copy()
            coupling[pairs] = coupling.T[pairs] = values
        return cls(coupling)

    @property
    def values(self) -> np.ndarray:
        """The array of couplings that is stored: the matrix (L, L)."""
        return self.matrix

    def with_values(self, values: np.ndarray) -> Self:
        """Return couplings with another array of the same shape as `values`."""
        return type(self)(values)

    @property
    def n_variables(self) -> int:
        """Number of variables L."""
        return len(self.matrix)

    @property
    def n_pairs(self) -> int:
        """Number of pairs with a coupling that is not 0."""
        return int(np.count_nonzero(self.matrix)) // 2

    @property
    def graph(self) -> SparseGraph:
        """Graph with an edge for each nonzero coupling. It is made in each call."""
        edges = np.column_stack(np.nonzero(np.triu(self.matrix, 1)))
        return SparseGraph(edges, self.n_variables)

    @property
    def edge_values(self) -> np.ndarray:
        """Coupling (E,) of each edge of the graph."""
        upper = np.triu(self.matrix, 1)
        return upper[np.nonzero(upper)]

    @property
    def neighbours(self) -> Neighbours:
        """The edges in both directions. The arrays are made in each call."""
        i, k = np.nonzero(self.matrix)
        place = np.zeros(self.matrix.shape, np.int64)
        place[i, k] = np.arange(len(i))
        start = np.searchsorted(i, np.arange(self.n_variables + 1)).astype(np.int64)
        reverse, upper = place[k, i], i < k
        edge = np.empty(len(i), np.int64)
        edge[upper] = np.arange(len(i) // 2)
        edge[~upper] = edge[reverse[~upper]]
        return Neighbours(start, k.astype(np.int64, copy=False), edge, reverse)

    def with_edge_values(self, weights: np.ndarray) -> Self:
        """Return couplings with other values (E,) on the same edges."""
        matrix = np.zeros_like(self.matrix)
        i, k = self.graph.edges.T
        matrix[i, k] = matrix[k, i] = weights
        return type(self)(matrix)

    def lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return CSR arrays: first entry of each variable, neighbours, couplings in float64."""
        i, k = np.nonzero(self.matrix)
        start = np.searchsorted(i, np.arange(self.n_variables + 1)).astype(np.int64)
        return start, k.astype(np.int64, copy=False), self.matrix[i, k].astype(np.float64)

    def as_sparse(self) -> EdgeCouplings:
        """Return the nonzero couplings as a list of edges."""
        i, k = np.nonzero(np.triu(self.matrix, 1))
        return EdgeCouplings(
            SparseGraph(np.column_stack([i, k]), self.n_variables), self.matrix[i, k]
        )

    def as_matrix(self) -> np.ndarray:
        """Return the couplings as a matrix (L, L)."""
        return self.matrix

    def strengths(self) -> np.ndarray:
        """Return the sum (L,), float64, of the absolute couplings of each variable."""
        return np.abs(self.matrix).sum(axis=0, dtype=np.float64)

    def pull(self, y: np.ndarray, variables: Any = None) -> np.ndarray:
        """Return the sum (..., B) of ``s_ik y_k`` over the neighbours k of each variable i.

        `y` (..., L) holds states, and `variables` selects B variables i, by default all of them.
        """
        if variables is None:
            return y @ self.matrix.astype(y.dtype, copy=False)
        return y @ self.matrix[:, variables].astype(y.dtype)

    def pull_of_rows(self, y: np.ndarray) -> np.ndarray:
        """Return `pull` of states y (N, L), in float64.

        The rounding of a row does not depend on the other rows, unlike in a BLAS product.
        """
        return np.einsum("nl,lk->nk", y, self.matrix.astype(np.float64))

    def scores(self, y: np.ndarray) -> np.ndarray:
        """Return the sum (K,) of the scores of all pairs, for each of K states y (K, L)."""
        return 0.5 * (self.pull(y) * y).sum(1)

    @property
    def statistic_shape(self) -> tuple[int, ...]:
        """Shape (L, L) of the sums of products of two variables."""
        return self.matrix.shape

    def sum_products(self, means: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the weighted sum (L, L) of outer products ``u u'`` of the rows u of `means`."""
        weighted = weight[:, None].astype(means.dtype) * means
        pairs = weighted.T @ means
        pairs = (pairs + pairs.T) / 2  # removes asymmetry that is due to rounding
        np.fill_diagonal(pairs, weighted.sum(axis=0))
        return pairs

    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return arrays (N, L) whose outer products are the statistics of clamped pairs."""
        return ((values, values + free), (free, values))

    def expected_score(self, means: np.ndarray, products: np.ndarray) -> float:
        """Return the mean of the scores of all pairs, given the moments of the 0/1 variables."""
        y = 2 * means.astype(np.float64) - 1
        # With u = (y + 1) / 2, the mean of y_i y_k is 4 <u_i u_k> - 2 <u_i> - 2 <u_k> + 1. The sum
        # over all pairs, multiplied by the couplings, simplifies to the next expression.
        pairs = 2 * np.vdot(self.matrix, products) - self.matrix.sum(axis=0) @ y
        return float(pairs - 0.5 * self.matrix.sum())


class EdgeCouplings(Versioned):
    """Couplings of the edges of a graph, for sparse models. Energies may share the graph."""

    _warns_of_version = False
    _saved = ("graph", "edge_values")
    is_sparse = True

    def __init__(self, graph: SparseGraph, edge_values: np.ndarray):
        self.graph, self.edge_values = graph, edge_values

    @classmethod
    def of(cls, coupling: Any) -> EdgeCouplings:
        """Check a sparse or dense matrix of couplings; see `IsingEnergy`."""
        if not sparse.issparse(coupling):
            coupling = as_float_array(coupling, "coupling", "(L, L)")
        _check_square(coupling)
        entries = sparse.coo_array(coupling)
        entries.sum_duplicates()
        values = as_float_array(entries.data, "coupling", "(E,)")
        row, column = (np.asarray(part, np.int64) for part in (entries.row, entries.col))
        if values[row == column].any():
            raise ValueError(
                "coupling must have a zero diagonal, because y_i y_i = 1 is a constant"
            )
        off = row != column
        ends = np.sort(np.column_stack([row, column])[off], axis=1)
        edges, which = np.unique(ends, axis=0, return_inverse=True)
        weights = np.zeros((len(edges), 2), values.dtype)
        weights[which.ravel(), (row < column)[off].astype(int)] = values[off]
        weights = symmetric_values(weights[:, 1], weights[:, 0])
        return cls(SparseGraph(edges.reshape(-1, 2), coupling.shape[0]), weights)

    @property
    def values(self) -> np.ndarray:
        """The array of couplings that is stored: a coupling for each edge (E,)."""
        return self.edge_values

    def with_values(self, values: np.ndarray) -> Self:
        """Return couplings with another array of the same shape as `values`."""
        return type(self)(self.graph, values)

    @property
    def n_variables(self) -> int:
        """Number of variables L."""
        return self.graph.n_variables

    @property
    def n_pairs(self) -> int:
        """Number of edges."""
        return len(self.edge_values)

    @property
    def matrix(self) -> sparse.csr_array:
        """Couplings as a symmetric CSR array (L, L), which is made in each call."""
        there = self.graph.neighbours
        shape = self.n_variables, self.n_variables
        values = self.edge_values[there.edge]
        return sparse.csr_array((values, there.variables, there.start), shape=shape)

    @property
    def neighbours(self) -> Neighbours:
        """The edges in both directions."""
        return self.graph.neighbours

    def with_edge_values(self, weights: np.ndarray) -> Self:
        """Return couplings with other values (E,) on the same edges."""
        return self.with_values(weights)

    def lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return CSR arrays: first entry of each variable, neighbours, couplings in float64."""
        there = self.graph.neighbours
        return there.start, there.variables, self.edge_values[there.edge].astype(np.float64)

    def as_sparse(self) -> EdgeCouplings:
        """Return these couplings."""
        return self

    def as_matrix(self) -> np.ndarray:
        """Return the couplings as a matrix (L, L)."""
        matrix = np.zeros((self.n_variables, self.n_variables), self.edge_values.dtype)
        i, k = self.graph.edges.T
        matrix[i, k] = matrix[k, i] = self.edge_values
        return matrix

    def strengths(self) -> np.ndarray:
        """Return the sum (L,), float64, of the absolute couplings of each variable."""
        size = np.repeat(np.abs(self.edge_values).astype(np.float64), 2)
        return np.bincount(self.graph.edges.ravel(), size, self.n_variables)

    def pull(self, y: np.ndarray, variables: Any = None) -> np.ndarray:
        """Return the sum (..., B) of ``s_ik y_k`` over the neighbours k of each variable i.

        `y` (..., L) holds states, and `variables` selects B variables i, by default all of them.
        """
        coupling: Any = self.matrix.astype(y.dtype)
        if variables is not None:
            coupling = coupling[np.arange(self.n_variables)[variables]]
        flat = y.reshape(math.prod(y.shape[:-1]), self.n_variables)
        found = np.ascontiguousarray((coupling @ flat.T).T)
        return found.reshape(*y.shape[:-1], coupling.shape[0])

    def pull_of_rows(self, y: np.ndarray) -> np.ndarray:
        """Return `pull` of states y (N, L) in float64; a row does not depend on the others."""
        return self.pull(y.astype(np.float64))

    def scores(self, y: np.ndarray) -> np.ndarray:
        """Return the sum (K,) of the scores of all edges, for each of K states y (K, L)."""
        total = np.empty(len(y))
        weights = self.edge_values.astype(np.float64)
        i, k = self.graph.edges.T
        for rows in self._blocks(len(y)):
            total[rows] = ((y[rows][:, i] * y[rows][:, k]) * weights).sum(axis=1)
        return total

    def _blocks(self, n):
        return row_chunks(n, max(1, BLOCK_ENTRIES // max(1, len(self.edge_values))))

    @property
    def statistic_shape(self) -> tuple[int, ...]:
        """Shape (E,) of the sums of products of two variables."""
        return self.edge_values.shape

    def sum_products(self, means: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the weighted sum (E,) of the products of both variables of each edge."""
        i, k = self.graph.edges.T
        total = np.zeros(len(self.edge_values))
        for rows in self._blocks(len(means)):
            total += np.asarray(weight[rows], np.float64) @ (means[rows][:, i] * means[rows][:, k])
        return total.astype(means.dtype)

    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return arrays (N, E) whose products are the statistics of clamped edges."""
        i, k = self.graph.edges.T
        return ((values[:, i], values[:, k] + free[:, k]), (free[:, i], values[:, k]))

    def expected_score(self, means: np.ndarray, products: np.ndarray) -> float:
        """Return the mean of the scores of all edges, given the moments of the 0/1 variables."""
        i, k = self.graph.edges.T
        y_products = 4 * products - 2 * (means[i] + means[k]) + 1
        return float(self.edge_values.astype(np.float64) @ y_products)


def couplings_of(coupling: Any) -> MatrixCouplings | EdgeCouplings:
    """Check couplings: a sparse matrix becomes a list of edges, an array stays a matrix."""
    kind = EdgeCouplings if sparse.issparse(coupling) else MatrixCouplings
    return kind.of(coupling)


def with_own_values(
    pairs: MatrixCouplings | EdgeCouplings, dtype: np.dtype
) -> MatrixCouplings | EdgeCouplings:
    """Return couplings with a copy of the values in a dtype, in the layout that kernels take."""
    return pairs.with_values(own_array(pairs.values, dtype))


def _check_square(coupling):
    if coupling.ndim != 2 or coupling.shape[0] != coupling.shape[1]:
        raise ValueError(f"coupling must have shape (L, L), got {coupling.shape}")


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
