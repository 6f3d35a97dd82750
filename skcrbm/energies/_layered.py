"""Layered graphical models: the inputs, and the model of the outputs given them."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skcrbm.energies._input_code import InputCode
from skcrbm.energies._layered_energy import LayeredEnergy
from skcrbm.energies._layered_structure import LayeredParams, LayeredStructure
from skcrbm.utils.row_sparse import columns_used


class FittedLayer(NamedTuple):
    """A layer with its parameters, scores being minus energies; state 0 is the reference.

    Attributes
    ----------
    layer : Layer
    unary : ndarray (n_nodes, n_states - 1)
    pairwise : ndarray
        Scores with the layer below: (n_below, n_nodes, states_below - 1, n_states - 1) for
        `Dense`, (n_tables, states_below - 1, n_states - 1) otherwise.
    """

    layer: Any
    unary: np.ndarray
    pairwise: np.ndarray


class LayeredModel(NamedTuple):
    """A layered graphical model of the outputs given the inputs.

    Attributes
    ----------
    params : LayeredParams
    structure : LayeredStructure
    code : InputCode
    """

    params: LayeredParams
    structure: LayeredStructure
    code: InputCode

    def encode(self, X):
        """`InputCode.encode` in the dtype of the parameters, whatever that of X."""
        means, missing = self.code.encode(X)
        if means.dtype != self.dtype:
            with np.errstate(over="ignore"):
                means = means.astype(self.dtype)
            if not np.isfinite(means.data if sparse.issparse(means) else means).all():
                raise ValueError(f"X holds numbers too large for {self.dtype}, as fit had them")
        return means, missing

    def weights_read(self, X):
        """Which rows of the input's matrix of weights the scores given X depend on.

        Returns
        -------
        LayeredParams of (ndarray of int, None, None), or None
            None stands for all: where the inputs are an array, a layer is not dense, or inputs
            are not observed, so that their nodes send messages.
        """
        if not self.structure.connections[0].dense:
            return None
        means, missing = self.code.encode(X)
        if missing is not None or not sparse.issparse(means):
            return None
        return LayeredParams(columns_used(means), None, None)

    @property
    def dtype(self):
        """The floating dtype of all parameters."""
        return self.params.unaries.dtype

    def layer_unaries(self):
        """Unary scores per layer, (n_nodes, n_states - 1)."""
        return self.structure.unaries(self.params)

    def connection_weights(self):
        """Pairwise scores per connection, flat."""
        return self.structure.weights(self.params)

    def energy(self, X):
        """Energy of outputs and hidden nodes given each row of X (N, D), dense or CSR.

        Raises
        ------
        ValueError
            If X holds a NaN: an input that is not observed is a variable, which a
            `LayeredEnergy` lacks.
        """
        if np.isnan(X.data if sparse.issparse(X) else X).any():
            raise ValueError(
                "X must not hold NaN here: inputs that are not observed are nodes of their own, "
                "which a LayeredEnergy lacks"
            )
        means, _ = self.encode(X)
        slices = self.structure.unit_slices
        weights = self.connection_weights()
        unaries = np.empty(max(part.stop for part in slices[1:]), self.dtype)
        for part, scores in zip(slices[1:], self.layer_unaries()[1:], strict=True):
            unaries[part] = scores.ravel()
        field = np.repeat(unaries[None], means.shape[0], axis=0)
        matrix = self.structure.connections[0].matrix(weights[0])
        field[:, slices[1]] += safe_sparse_dot(means, matrix, dense_output=True)
        return LayeredEnergy(self.structure, weights[1:], field, unaries)

    def fitted_layers(self):
        """Return the `FittedLayer` of each hidden layer and of the output layer."""
        layers = []
        for connection, flat, unary in zip(
            self.structure.connections,
            self.connection_weights(),
            self.layer_unaries()[1:],
        ):
            pairwise = connection.tables(flat)
            if connection.dense:
                sizes = connection.n_left, connection.n_right
                pairwise = pairwise.reshape(*sizes, *pairwise.shape[1:])
            layers.append(FittedLayer(connection.layer, unary, pairwise))
        return layers
