"""Small layered models for the tests."""

import numpy as np

from skcrbm.energies import LayeredStructure
from skcrbm.energies.layered_model import InputCode, LayeredModel
from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.layers import Conv2d, Dense, Local2d

NETS = {
    "none": ((), (4,), 1, 3),
    "dense": ((Dense(3, 3), Dense(2)), (4,), 1, 3),
    "labels": ((Dense(3), Dense(2, 3)), (3,), 2, 2),
    "local": ((Local2d(3, 2, 1), Local2d(2, 2, 1, padding=1)), (3, 3), 1, 3),
    "conv": ((Conv2d(3, 2, 1, 2), Conv2d(2, 2, 1)), (3, 3), 1, 3),
    "skips": ((Dense(3, 3), Dense(2), Dense(2)), (3,), 2, 2),
}
#: Pairs of layers that are connected in addition.
SKIPS = {"skips": ((0, 2), (1, 3), (2, 4), (0, 4))}
# Small enough to enumerate, with loops.
TINY = {
    "dense": ((Dense(3, 3), Dense(2)), (2,), 1, 3),
    "labels": ((Dense(3), Dense(2, 3)), (2,), 2, 2),
    "local": ((Local2d(2, 2, 1, padding=1), Local2d(3, 2, 1)), (1, 2), 1, 2),
    "conv": ((Conv2d(2, 1, 1, 2), Conv2d(2, 2, 1, padding=1)), (1, 2), 1, 2),
    "skips": ((Dense(2, 3), Dense(2), Dense(1)), (2,), 1, 2),
}


def make_model(name, seed=0, scale=1.0, free=False, dtype=np.float64, thresholds=None, tiny=False):
    layers, shape, n_outputs, n_states = (TINY if tiny else NETS)[name]
    n_features = int(np.prod(shape))
    code = InputCode(thresholds, np.full(n_features, free), np.ones(n_features, bool))
    structure = LayeredStructure(
        layers, shape, code.n_states, n_outputs, n_states, SKIPS.get(name, ())
    )
    rng = np.random.RandomState(seed)
    sizes = (
        structure.connections[0].n_weights,
        sum(c.n_weights for c in structure.connections[1:]),
        structure.unary_slices[-1].stop,
    )
    params = LayeredParams(*(scale * rng.normal(size=s).astype(dtype) for s in sizes))
    return LayeredModel(params, structure, code)
