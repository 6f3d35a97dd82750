"""Layered graphical models with parameters, which map input features to an energy.

A model first encodes the features as states of the input nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skcrbm.energies._layered import LayeredEnergy
from skcrbm.energies.layered_structure import LayeredParams, LayeredStructure
from skcrbm.layers.layers import Layer
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.row_sparse import columns_used

# A feature that is NaN in some rows is treated as a binary input node, so its observed values
# should be in [0, 1]. They may be outside by up to _OVERSHOOT, because the rows of a prediction may
# be noisy or scaled by the range of the training rows. Values further outside are probably on
# another scale, so a ValueError is raised.
_OVERSHOOT = 0.5
# If input nodes have at least this number of states, the indicators of the states are stored as a
# CSR matrix. Nearly all indicators are 0, so a sparse matrix takes less time and memory.
_SPARSE_STATES = 8
# Unary score of a state that an output node lacks. The probability of the state rounds to 0,
# because state 0 has the score 0. The score is finite, because differences of beliefs must not be
# NaN.
_IMPOSSIBLE = -1e4
# `InputCode.mean` encodes this number of rows at a time, to limit the memory.
_MEAN_ROWS = 1000


class InputCode(NamedTuple):
    """Encoding of features as states of the input nodes.

    If `thresholds` is None (soft clamping), a feature is the mean of a binary node. Otherwise the
    state of a node is the number of thresholds that are at most the value of the feature.
    """

    thresholds: np.ndarray | None  # (n_states - 1,): increasing thresholds on features
    free: np.ndarray  # bool (D,): True for features that are NaN (not observed) in some row
    # bool (D,): True for features that may be NaN in new rows. With soft clamping, these are the
    # features whose values were in [0, 1] in training.
    can_miss: np.ndarray

    @property
    def n_states(self) -> int:
        """Number of states of an input node."""
        return 2 if self.thresholds is None else len(self.thresholds) + 1

    @classmethod
    def from_training(cls, X, thresholds: np.ndarray | None) -> InputCode:
        """Return the encoding for a new fit on X."""
        free = _missing_columns(X)
        can_miss = np.ones(X.shape[1], bool)
        if thresholds is None:
            can_miss = _unit_interval_columns(X)
            _check_unit_interval(free, can_miss)
        return cls(thresholds, free, can_miss)

    def with_rows(self, X) -> InputCode:
        """Return the encoding for a warm start on X, from a model with the present encoding."""
        code = self.for_rows(X)
        if code.thresholds is not None:
            return code
        return code._replace(can_miss=code.can_miss & _unit_interval_columns(X))

    def for_rows(self, X) -> InputCode:
        """Return the encoding for the X of a prediction.

        X may contain NaN even in columns that had no NaN in fit. A ValueError is raised for a NaN
        in a column for which `can_miss` is False.
        """
        missing = _missing_columns(X)
        bad = np.flatnonzero(missing & ~self.can_miss)
        if len(bad):
            raise ValueError(
                f"feature {bad[0]} is NaN, but its values in fit were outside [0, 1]. Only "
                "features with values in [0, 1] may be NaN; scale X with MinMaxScaler before fit"
            )
        nodes = missing | self.free
        if self.thresholds is None and nodes.any():
            _check_unit_interval(nodes, _unit_interval_columns(X))
        return self._replace(free=nodes)

    def mean(self, X, weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of each input state, over rows in which the node is observed."""
        total: Any = 0.0
        mass: Any = 0.0
        for rows in row_chunks(X.shape[0], _MEAN_ROWS):
            means, missing = self.encode(X[rows])
            total = total + np.asarray(means.T @ weight[rows]).ravel()
            observed = np.ones(means.shape[0]) if missing is None else ~missing.T
            mass = mass + np.broadcast_to(observed @ weight[rows], X.shape[1])
        mass = np.repeat(mass, self.n_states - 1)
        return np.divide(total, mass, out=np.full(len(total), 1 / self.n_states), where=mass > 0)

    def encode(self, X) -> tuple[Any, np.ndarray | None]:
        """Return the means of the input states, and a mask of missing features.

        The means are an ndarray or CSR matrix (N, D (n_states - 1)), with an entry for each state
        other than 0. They are 0 for features that are not observed. The mask is a bool array (N, D)
        that is True for features that are not observed, or None if all features are observed.
        """
        some_free = self.free.any()
        if sparse.issparse(X):
            if self.thresholds is None and not (some_free and np.isnan(X.data).any()):
                return X, None
            X = X.toarray()
        missing = np.isnan(X) if some_free else None
        if missing is not None and not missing.any():
            missing = None
        if self.thresholds is None:
            return X if missing is None else np.where(missing, X.dtype.type(0), X), missing
        state = np.searchsorted(self.thresholds, X, side="right")
        if missing is not None:
            state[missing] = 0
        if self.n_states >= _SPARSE_STATES:
            return _indicators(state, self.n_states, X.dtype), missing
        means = state[:, :, None] == np.arange(1, self.n_states)
        return means.reshape(len(X), -1).astype(X.dtype), missing


def _indicators(state, n_states, dtype):
    """Return the indicators of the states 1, 2, ... of each node as a CSR matrix."""
    row, node = np.nonzero(state)
    column = node * (n_states - 1) + state[row, node] - 1
    first = np.concatenate([[0], np.cumsum(np.count_nonzero(state, axis=1))])
    shape = len(state), state.shape[1] * (n_states - 1)
    return sparse.csr_matrix((np.ones(len(column), dtype), column, first), shape=shape)


def _missing_columns(X):
    """Return a bool array (D,), True for columns of X (N, D), dense or CSR, that contain NaN."""
    if not sparse.issparse(X):
        return np.isnan(X).any(axis=0)
    columns = np.zeros(X.shape[1], bool)
    columns[X.indices[np.isnan(X.data)]] = True
    return columns


def _unit_interval_columns(X):
    """Return a mask (D,) of the columns of X whose observed values are approximately in [0, 1].

    X (N, D) is an ndarray or CSR matrix. Values may be below 0 or above 1 by up to `_OVERSHOOT`.
    """
    farthest = 0.5 + _OVERSHOOT
    if not sparse.issparse(X):
        return ~(abs(X - 0.5) > farthest).any(axis=0)
    columns = np.ones(X.shape[1], bool)
    columns[X.indices[abs(X.data - 0.5) > farthest]] = False
    return columns


def _check_unit_interval(nodes, inside):
    """Raise a ValueError if a feature that is treated as a binary node has values outside [0, 1].

    `nodes` (D,) is True for features that are binary nodes, and `inside` (D,) is True for features
    whose values are in [0, 1].
    """
    bad = np.flatnonzero(nodes & ~inside)
    if len(bad):
        raise ValueError(
            f"feature {bad[0]} is NaN in some rows. The observed values of such a feature must be "
            "in [0, 1], because it is treated as a binary node; scale X with MinMaxScaler"
        )


class FittedLayer(NamedTuple):
    """A layer with its parameters.

    Scores are negative energies. Scores that involve state 0 are 0 and not stored.

    Attributes
    ----------
    layer : Dense, Local2d or Conv2d
        Description of the layer.
    unary : ndarray (n_nodes, n_states - 1)
        Unary scores of the states of each node. If the columns of y have different numbers of
        classes, all output nodes have entries for the largest number, and the entries of the
        classes that an output lacks are 0.
    pairwise : ndarray
        Pairwise scores with the layer below. The shape is (n_below, n_nodes, states_below - 1,
        n_states - 1) if the layer is `Dense`, else (n_tables, states_below - 1, n_states - 1).
    """

    layer: Layer
    unary: np.ndarray
    pairwise: np.ndarray


class LayeredModel(NamedTuple):
    """A layered graphical model of outputs given inputs."""

    params: LayeredParams
    structure: LayeredStructure
    code: InputCode

    def encode(self, X) -> tuple[Any, np.ndarray | None]:
        """Return the result of `InputCode.encode`, with means in the dtype of the parameters."""
        means, missing = self.code.encode(X)
        if means.dtype != self.dtype:
            with np.errstate(over="ignore"):
                means = means.astype(self.dtype)
            if not np.isfinite(means.data if sparse.issparse(means) else means).all():
                raise ValueError(
                    f"X holds numbers that are too large for {self.dtype}, the dtype of X in fit"
                )
        return means, missing

    def weights_read(self, X) -> LayeredParams | None:
        """Find the rows of the input weight matrix that affect the scores of the given X.

        The result is a `LayeredParams`, whose first field holds the indices of these weight rows.
        The result is None if all weight rows may be needed. This is the case if the means of the
        inputs are a dense array, the first layer is not dense, or some inputs are not observed.
        """
        if not self.structure.connections[0].dense:
            return None
        means, missing = self.code.encode(X)
        if missing is not None or not sparse.issparse(means):
            return None
        return LayeredParams(columns_used(means), None, None)

    @property
    def has_free_inputs(self) -> bool:
        """True if some input nodes may be unobserved."""
        return bool(self.code.free.any())

    @property
    def dtype(self) -> np.dtype:
        """Floating dtype of all parameters."""
        return self.params.unaries.dtype

    def layer_unaries(self) -> list[np.ndarray]:
        """Return the unary scores (n_nodes, n_states - 1) of each layer.

        States that an output node lacks have the score `_IMPOSSIBLE`.
        """
        unaries = self.structure.unaries(self.params)
        if self.structure.possible is not None:
            possible = self.structure.possible[:, 1:]
            unaries[-1] = np.where(possible, unaries[-1], self.dtype.type(_IMPOSSIBLE))
        return unaries

    def connection_weights(self) -> list[np.ndarray]:
        """Return the flat pairwise scores of each connection."""
        return self.structure.weights(self.params)

    def energy(self, X) -> LayeredEnergy:
        """Return the energies of outputs and hidden nodes given the rows of X (N, D).

        X is an ndarray or CSR matrix. A ValueError is raised if X contains NaN, because missing
        inputs would be variables, and a `LayeredEnergy` has no variables for inputs.
        """
        if np.isnan(X.data if sparse.issparse(X) else X).any():
            raise ValueError(
                "X must not contain NaN here, because a LayeredEnergy has no variables for inputs "
                "that are not observed"
            )
        means, _ = self.encode(X)
        slices = self.structure.unit_slices
        weights = self.connection_weights()
        unaries = np.empty(max(part.stop for part in slices[1:]), self.dtype)
        for part, scores in zip(slices[1:], self.layer_unaries()[1:], strict=True):
            unaries[part] = scores.ravel()
        field = np.repeat(unaries[None], means.shape[0], axis=0)
        for connection, flat in zip(self.structure.connections, weights, strict=True):
            if connection.source == 0:
                product = safe_sparse_dot(means, connection.matrix(flat), dense_output=True)
                field[:, slices[connection.target]] += product
        inner = [weights[c] for c in self.structure.inner]
        return LayeredEnergy(self.structure, inner, field, unaries)

    def skip_weights(self) -> dict[tuple[int, int], np.ndarray]:
        """Return a dict with the pairwise scores of each skip connection of two layers (a, b).

        The key is (a, b). The scores are (n_left, n_right, l - 1, k - 1), for n_left nodes with l
        states in layer a, and n_right nodes with k states in layer b.
        """
        found = {}
        for connection, flat in zip(self.structure.connections, self.connection_weights()):
            if connection.target > connection.source + 1:
                sizes = connection.n_left, connection.n_right
                pairwise = connection.tables(flat)
                pairwise = pairwise.reshape(*sizes, *pairwise.shape[1:])
                found[connection.source, connection.target] = pairwise
        return found

    def fitted_layers(self) -> list[FittedLayer]:
        """Return the `FittedLayer` of each hidden layer and of the output layer."""
        layers = []
        for connection, flat, unary in zip(
            self.structure.connections,
            self.connection_weights(),
            self.structure.unaries(self.params)[1:],
        ):
            pairwise = connection.tables(flat)
            if connection.dense:
                sizes = connection.n_left, connection.n_right
                pairwise = pairwise.reshape(*sizes, *pairwise.shape[1:])
            layers.append(FittedLayer(connection.layer, unary, pairwise))
        return layers
