"""Compute the log-weights of linear chains of classes from parameters and features.

A sequence of n positions has the features x_1, ..., x_n. In a chain model, the classes y_1, ...,
y_n of the positions have the log-weight

``first[y_1] + last[y_n] + sum_t (coef x_t + intercept)[y_t] + sum_t transition[y_(t-1), y_t]``.

Two further terms are optional: products of x_t with coefficients of the pair (y_(t-1), y_t), and a
weight for each triple of neighbouring classes. A chain with weights of triples has order 2.
Sequences of different lengths are stored one after the other, without padding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse

from skcrbm.energies.chain import ChainEnergies, SecondOrderEnergies
from skcrbm.kernels.chains import Packed, add_feature_sums, add_features

# Columns and outputs that occur together are found in a table of bools if the table takes at most
# this number of bytes per stored entry of X. The rows of X are visited in steps of _ROWS_PER_STEP.
_BYTES_PER_ENTRY, _ROWS_PER_STEP = 4, 4096


class ChainParams(NamedTuple):
    """Parameters of a chain model with K classes."""

    coef: Any  # coefficients of the features, in the form of `Columns`
    intercept: Any  # (K,) intercept of each class
    transition: Any  # (K, K); row: class of a position, column: class of the next position
    first: Any  # (K,) scores of the first class of a sequence
    last: Any  # (K,) scores of the last class of a sequence
    pair_coef: Any  # coefficients of the features for pairs of classes; empty if not used
    triple: Any  # (K, K, K) log-weights of three neighbouring classes; empty in first-order chains


class DenseColumns(NamedTuple):
    """Layout of coefficients as a matrix (D, K), with an entry for each feature and output."""

    n_features: int
    n_outputs: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of coefficients."""
        return self.n_features, self.n_outputs

    def products(self, X: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return the products (T, K) of the rows of X with the coefficients."""
        return X.astype(coef.dtype, copy=False) @ coef

    def add_sums(self, X: np.ndarray, values: np.ndarray, gradient: np.ndarray) -> None:
        """Add the products ``X.T @ values``, with `values` (T, K), to `gradient` (D, K)."""
        gradient += X.astype(gradient.dtype, copy=False).T @ values

    def matrix(self, coef: np.ndarray) -> np.ndarray:
        """Return the coefficients as an array (K, D)."""
        return coef.T.copy()


class PackedColumns(NamedTuple):
    """Coefficients of sparse features, stored only for chosen pairs of a column and an output.

    `packed` determines for which outputs each column of X has a coefficient (see
    `kernels/chains.py`).
    """

    packed: Packed
    n_outputs: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of coefficients."""
        return (len(self.packed.labels),)

    @classmethod
    def all(cls, n_features: int, n_outputs: int) -> PackedColumns:
        """Return the layout with a coefficient for each pair of a column and an output."""
        first = np.arange(n_features + 1) * n_outputs
        labels = np.tile(np.arange(n_outputs, dtype=np.int32), n_features)
        return cls(_packed(first, labels, n_outputs), n_outputs)

    @classmethod
    def observed(cls, X: Any, outputs: np.ndarray, n_outputs: int) -> PackedColumns:
        """Return the layout with a coefficient for each column and output that occur together.

        `X` is a CSR matrix (T, D), and `outputs` (T,) holds the output of each row. A column and an
        output occur together if the column is not 0 in some row with this output. The output -1
        means that the output of a row is unknown; such a row counts for every output.
        """
        if X.shape[1] * n_outputs <= _BYTES_PER_ENTRY * X.nnz:
            first, labels = _observed_in_table(X, outputs, n_outputs)
        else:
            first, labels = _observed_by_product(X, outputs, n_outputs)
        return cls(_packed(first, labels, n_outputs), n_outputs)

    def products(self, X: Any, coef: np.ndarray) -> np.ndarray:
        """Return the products (T, K) of the rows of the CSR matrix X with the coefficients."""
        scores = np.zeros((X.shape[0], self.n_outputs))
        add_features(*csr_arrays(X), self.packed, coef, self._rows(), scores)
        return scores

    def add_sums(self, X: Any, values: np.ndarray, gradient: np.ndarray) -> None:
        """Add the stored entries of ``X.T @ values``, with `values` (T, K), to `gradient`."""
        add_feature_sums(*csr_arrays(X), self.packed, values, self._rows(), gradient)

    def matrix(self, coef: np.ndarray) -> csr_matrix:
        """Return the coefficients as a CSR matrix (K, D)."""
        shape = len(self.packed.dense), self.n_outputs
        return csr_matrix((coef, self.packed.labels, self.packed.first), shape).T.tocsr()

    def _rows(self):
        return np.zeros((self.packed.dense.max(initial=-1) + 1, self.n_outputs))


def _observed_in_table(X, outputs, n_outputs):
    """Return the first position of each column, and the outputs that occur together with it.

    The function fills a table of bools with a row for each column of X, which takes little memory
    if X has few columns or few outputs.
    """
    table = np.zeros((X.shape[1], n_outputs), bool)
    for begin in range(0, X.shape[0], _ROWS_PER_STEP):
        stop = min(begin + _ROWS_PER_STEP, X.shape[0])
        entries = slice(X.indptr[begin], X.indptr[stop])
        of_entry = np.repeat(outputs[begin:stop], np.diff(X.indptr[begin : stop + 1]))
        columns, known = X.indices[entries], of_entry >= 0
        table[columns[known], of_entry[known]] = True
        table[columns[~known]] = True
    first = np.concatenate([[0], np.cumsum(np.count_nonzero(table, axis=1))])
    return first.astype(np.int64), np.nonzero(table)[1].astype(np.int32)


def _observed_by_product(X, outputs, n_outputs):
    """Return the same arrays as `_observed_in_table`, by a product of sparse matrices."""
    known = outputs >= 0
    rows, columns = np.flatnonzero(known), outputs[known]
    unknown = np.flatnonzero(~known)
    rows = np.concatenate([rows, np.repeat(unknown, n_outputs)])
    columns = np.concatenate([columns, np.tile(np.arange(n_outputs), len(unknown))])
    shape = len(outputs), n_outputs
    indicator = csr_matrix((np.ones(len(rows), np.int32), (rows, columns)), shape)
    present = csr_matrix((np.ones(len(X.data), np.int32), X.indices, X.indptr), X.shape)
    both = (present.T @ indicator).tocsr()
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32)


def _packed(first, labels, n_outputs):
    """Return a `Packed` in which each column of X with many coefficients has a dense row."""
    many = np.diff(first) > max(2, n_outputs // 4)
    dense = np.where(many, np.cumsum(many) - 1, -1).astype(np.int32)
    return Packed(first, labels, dense)


def csr_arrays(X):
    """Return the arrays of a CSR matrix in the types for which the kernels are compiled."""
    X = X if issparse(X) else csr_matrix(X)
    data = X.data.astype(np.float64, copy=False)
    return data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)


Columns = DenseColumns | PackedColumns
AnyChains = ChainEnergies | SecondOrderEnergies


class ChainModel(NamedTuple):
    """A chain model, which turns rows of features into log-weights.

    It also turns gradients of log-weights into gradients of parameters.

    `forbidden` has three arrays that are added to the log-weights: for pairs (K, K), first states
    (K,) and last states (K,). An entry is -inf if the pair or state is forbidden, else 0.
    """

    params: ChainParams
    columns: Columns
    pair_columns: Columns | None
    forbidden: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.params.intercept)

    @property
    def order(self) -> int:
        """Order of the chain: 2 if three neighbouring classes have a weight, else 1."""
        return 2 if self.params.triple.size else 1

    @property
    def n_states(self) -> int:
        """Number of states of a position: K, or K^2 pairs of classes in second-order chains."""
        return self.n_classes**self.order

    @property
    def n_entries(self) -> int:
        """Number of entries per position in the largest array of log-weights."""
        return self.n_states if self.pair_columns is None else self.n_classes**2

    def energies(self, X: Any, start: np.ndarray) -> AnyChains:
        """Return the log-weights of several chains; see `first_order` for the arguments."""
        found = self.first_order(X, start)
        return self._second_order(found) if self.order == 2 else found

    def _second_order(self, found):
        """Convert chains of first order to chains of second order.

        A state is then the pair of the previous class and the present class, so that the
        log-weights of pairs of classes become scores of states.
        """
        k, (start, single, pairs, first, last) = self.n_classes, found
        scores = np.repeat(single[:, None, :], k, axis=1)
        inner = inner_positions(start)
        scores[inner] += pairs if len(pairs) == 1 else pairs[inner]
        # No class precedes the first position, so its state is a pair with the arbitrary first
        # class 0. The next state then adds a weight of the triple (0, first class, second class),
        # which is subtracted here.
        scores[_second_positions(start)] -= self.params.triple[0]
        begin = np.full((k, k), -np.inf)
        begin[0] = first
        return SecondOrderEnergies(
            start, scores.reshape(-1, k * k), self.params.triple, begin.ravel(), np.tile(last, k)
        )

    def first_order(self, X: Any, start: np.ndarray) -> ChainEnergies:
        """Return the log-weights of several chains, without the weights of triples of classes.

        Chain c has the rows ``start[c]`` to ``start[c + 1] - 1`` of X (T, D), the features of the
        positions of all chains.
        """
        p = self.params
        scores = self.columns.products(X, p.coef)
        scores += p.intercept
        transition = p.transition + self.forbidden[0]
        if self.pair_columns is None:
            pairs = transition[None]
        else:
            pairs = self.pair_columns.products(X, p.pair_coef)
            pairs = pairs.reshape(-1, *transition.shape)
            pairs += transition
            # Repeat a single matrix, because kernels would apply a single matrix to all positions.
            if len(pairs) == 1:
                pairs = np.repeat(pairs, 2, axis=0)
        return ChainEnergies(
            start, scores, pairs, p.first + self.forbidden[1], p.last + self.forbidden[2]
        )

    def add_gradient(self, batch: Any, states, pairs, total: ChainParams) -> None:
        """Convert a gradient for log-weights to a gradient for parameters; add it to `total`.

        `batch` is a `SequenceBatch`. `states` (T, K) is the gradient with respect to the scores.
        `pairs` is the gradient with respect to the log-weights of pairs, of the shape (1, K, K) if
        all positions share them, else (T, K, K). In second-order chains, `states` is (T, K * K) and
        `pairs` is the gradient with respect to the weights of three classes (K, K, K).
        """
        X, start = batch.X, batch.start
        if self.order == 2:
            k = self.n_classes
            both = states.reshape(-1, k, k)
            total.triple[...] += pairs
            total.triple[0] -= both[_second_positions(start)].sum(axis=0)
            states = both.sum(axis=1)
            pairs = np.zeros(both.shape)
            inner = inner_positions(start)
            pairs[inner] = both[inner]
        self.columns.add_sums(X, states, total.coef)
        if self.pair_columns is not None:
            flat = pairs[: X.shape[0]].reshape(X.shape[0], -1)
            self.pair_columns.add_sums(X, flat, total.pair_coef)
        total.intercept[...] += states.sum(0)
        total.transition[...] += pairs.sum(0)
        total.first[...] += states[start[:-1]].sum(0)
        total.last[...] += states[start[1:] - 1].sum(0)


def inner_positions(start: np.ndarray) -> np.ndarray:
    """Return the indices of all positions that are not the first of their chain."""
    inner = np.ones(start[-1], bool)
    inner[start[:-1]] = False
    return np.flatnonzero(inner)


def _second_positions(start):
    """Return the index of the second position of each chain that has two or more positions."""
    return start[:-1][np.diff(start) > 1] + 1


def columns_for(X: Any, outputs: np.ndarray, n_outputs: int, features: str) -> Columns:
    """Return the layout of coefficients for a matrix of features, dense or CSR.

    If X is a CSR matrix and `features` is "observed", only columns and outputs that occur together
    get a coefficient (see `PackedColumns.observed`). If `features` is "all", each column gets a
    coefficient for each output.
    """
    if not issparse(X):
        return DenseColumns(X.shape[1], n_outputs)
    if features == "all":
        return PackedColumns.all(X.shape[1], n_outputs)
    return PackedColumns.observed(X, outputs, n_outputs)
