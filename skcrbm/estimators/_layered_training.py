"""One fit of a layered model."""

from dataclasses import dataclass

import numpy as np

from skcrbm.energies._layered import InputCode, LayeredModel, LayeredParams, LayeredStructure
from skcrbm.estimators._training import Training


@dataclass(kw_only=True)
class LayeredTraining(Training):
    """A fit of a layered model.

    Attributes
    ----------
    structure : LayeredStructure
    code : InputCode
    """

    structure: LayeredStructure
    code: InputCode

    def model(self, params):
        """Return the layered model with these parameters."""
        return LayeredModel(params, self.structure, self.code)

    def score(self, model, held_out, number):
        """Return minus the mean loss of held-out rows."""
        return -self.objective.loss(model, held_out) / held_out.weight.sum()

    def rates(self, rate):
        """Learning rate of each parameter array: all the same."""
        return LayeredParams(rate, rate, rate)

    def initial_params(self, input_mean):
        """Draw the pairwise scores; unary scores of inputs are their mean's log-odds.

        Parameters
        ----------
        input_mean : ndarray (D (l - 1),)
            Mean of each state of each input node, over the rows where it is observed.
        """
        weights = []
        for connection in self.structure.connections:
            into, out_of = connection.mean_degrees
            scale = np.sqrt(2.0 / (into + out_of))
            weights.append(self.rng.normal(scale=scale, size=connection.n_weights))
        unaries = [
            np.zeros((n, s - 1)) for n, s in zip(self.structure.n_nodes, self.structure.n_states)
        ]
        p = np.clip(input_mean.reshape(unaries[0].shape), 0.005, 0.995)
        unaries[0][:] = np.log(p) - np.log(np.maximum(1 - p.sum(axis=1, keepdims=True), 0.005))
        params = self.structure.params(unaries, weights)
        return LayeredParams(*(p.astype(self.visible.dtype) for p in params))
