"""Messages that change and cancel in a belief have not converged."""

import numpy as np
import pytest
from reference.integer_scores import IntegerScores

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, SparseIsingEnergy
from skcrbm.inference import infer

# A star: the centre, 0, has no field, and its neighbours say opposite things.
STAR = SparseIsingEnergy.from_edges([[0, 1], [0, 2]], [2.0, -2.0], [0.0, 1.0, 1.0])
# The opposite fields reach the neighbours of the centre in the same iteration, the second.
LATE = SparseIsingEnergy.from_edges(
    [[0, 1], [0, 2], [1, 3], [2, 4]], [2.0, -2.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]
)


@pytest.mark.parametrize("damping", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
@pytest.mark.parametrize("energy", [STAR, LATE], ids=["star", "late"])
@pytest.mark.parametrize("form", ["sparse", "graph", "dense"])
def test_messages_that_cancel(energy, form, method, damping):
    if form == "graph":
        energy = FactorGraphEnergy.from_energy(energy)
    if form == "dense":
        energy = IsingEnergy(energy.coupling.toarray(), energy.field)
    found = infer(energy, method, returns=("marginals", "log_partition"), damping=damping)
    expected = IntegerScores(energy, 0)
    assert found.converged.all()
    np.testing.assert_allclose(found.marginals[0], expected.marginals(), atol=1e-4)
    np.testing.assert_allclose(found.log_partition[0], expected.log_z, atol=1e-4)


@pytest.mark.parametrize("damping", [0.3, 0.5])
@pytest.mark.parametrize("method", ["sum_product", "tree_reweighted"])
def test_damped_messages_that_always_cancel(method, damping):
    """Nothing comes back from held neighbours: beliefs stand still from the start."""
    energy = SparseIsingEnergy.from_edges([[0, 1], [0, 2]], [10.0, -10.0], [-0.2, 1.0, 1.0])
    energy = FactorGraphEnergy.from_energy(energy.condition([np.nan, 1, 1]))
    found = infer(energy, method, returns="log_partition", damping=damping)
    assert found.converged.all()
    assert found.n_iter[0] > 5
    np.testing.assert_allclose(found.log_partition[0], IntegerScores(energy, 0).log_z, atol=1e-2)
