"""Parameters that are learned with chained belief propagation belong to the chain."""

import warnings

import numpy as np
import pytest

from skcrbm.density import MarkovRandomField
from skcrbm.energies import SparseIsingEnergy
from skcrbm.inference import BPChain, infer, sample
from skcrbm.learning import BPChainLearning
from skcrbm.metrics import covariance_error


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_learned_with_a_chain_belong_to_the_chain():
    """On a loop of strong couplings the chain with its parameters resembles the data."""
    ring = [[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]]
    truth = SparseIsingEnergy.from_edges(ring, 1.0, [0.5, 0, 0, -0.5])
    X = sample(truth, "exact", n_samples=4000, random_state=0)[0].astype(float)
    chain = BPChain(max_iter=20, warm_iter=5)
    rule = BPChainLearning(chain, n_samples=2000)
    model = MarkovRandomField(factors=ring, learning=rule, max_iter=300, random_state=0).fit(X)
    drawn = model.sample(50_000, random_state=1)
    own = sample(model.energy_, chain, n_samples=50_000, random_state=1)[0]
    np.testing.assert_array_equal(drawn, own)
    assert covariance_error(X, drawn) < 0.012
    with pytest.warns(UserWarning, match="by chained belief propagation resemble the data"):
        found = model.score_samples(X[:3])
    np.testing.assert_allclose(
        found,
        model.energy_.log_weight_of_sets(X[:3])[0]
        - infer(model.energy_, "exact", returns="log_partition").log_partition,
        atol=1e-4,
    )
    for weightless in (BPChainLearning(chain, weighted=True), BPChainLearning("exact")):
        other = MarkovRandomField(
            factors=ring, learning=weightless, max_iter=3, random_state=0
        ).fit(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            other.score_samples(X[:3])
