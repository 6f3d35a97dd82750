"""An RBM without inputs: one distribution for all rows, as small as a model can be."""

from typing import NamedTuple

import numpy as np

from skcrbm.energies import RBMEnergy
from skcrbm.learning.data import ArraySource


class DensityParams(NamedTuple):
    weights: np.ndarray
    visible_bias: np.ndarray
    hidden_bias: np.ndarray


class DensityRBM(NamedTuple):
    params: DensityParams

    def energy(self, X):
        return RBMEnergy(*self.params)

    def gradient(self, X, unary, statistics):
        total = unary.sum(axis=0)
        n_visible = len(self.params.visible_bias)
        return DensityParams(statistics[0], total[:n_visible], total[n_visible:])


def density_problem(n=12, n_visible=4, n_hidden=2, seed=0, scale=0.7, missing=False):
    """A model, and rows with uneven weights as a source."""
    rng = np.random.default_rng(seed)
    shapes = ((n_visible, n_hidden), (n_visible,), (n_hidden,))
    params = DensityParams(*(scale * rng.normal(size=shape) for shape in shapes))
    visible = (rng.random((n, n_visible)) < rng.random(n_visible)).astype(float)
    if missing:
        visible[rng.random(visible.shape) < 0.3] = np.nan
    source = ArraySource(np.zeros((n, 0)), visible, rng.uniform(0.5, 2.0, n))
    return DensityRBM(params), source
