"""Density models learned by perturb-and-max-product: small digits, and four variables."""

import numpy as np
import pytest
from reference.states import all_states
from sklearn.datasets import load_digits

from skcrbm.density import RBM, IsingModel, MarkovRandomField
from skcrbm.energies import IsingEnergy
from skcrbm.inference import PerturbAndMaxProduct, sample
from skcrbm.learning import Adam, PMPLearning
from skcrbm.metrics import covariance_error, log_mmd

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def digits():
    return (load_digits().data > 7).astype(float)


@pytest.mark.deep
def test_ising_model_of_digits(digits):
    sampler = PerturbAndMaxProduct(25)
    model = IsingModel(learning=PMPLearning(sampler), random_state=0).fit(digits)
    drawn = model.sample(len(digits), random_state=1)
    assert covariance_error(digits, drawn) < 0.2  # of independent columns .73
    assert np.abs(drawn.mean(axis=0) - digits.mean(axis=0)).max() < 0.07
    assert log_mmd(digits, drawn) < -7.4
    # Drawn with the sampler that the model was learned with.
    own = sample(model.energy_, sampler, n_samples=5, random_state=1)[0]
    np.testing.assert_array_equal(model.sample(5, random_state=1), own)
    model.set_params(inference="sum_product")
    with pytest.warns(UserWarning, match="of the Gibbs distribution with these"):
        model.score_samples(digits[:2])


@pytest.mark.deep
def test_rbm_of_digits(digits):
    model = RBM(
        n_hidden=64, learning=PMPLearning(PerturbAndMaxProduct(20)), max_iter=12,
        solver=Adam(learning_rate=0.01), random_state=0,
    ).fit(digits)  # fmt: skip
    drawn = model.sample(len(digits), random_state=1)
    assert covariance_error(digits, drawn) < 0.45  # measured: .34
    assert log_mmd(digits, drawn) < -5.2


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("make", [IsingModel, MarkovRandomField])
def test_four_variables(make):
    """The data have couplings of .5; the sampler has the same statistics at about .336."""
    coupling = 0.5 * (np.ones((4, 4)) - np.eye(4))
    data = sample(IsingEnergy(coupling, np.zeros(4)), "exact", n_samples=20000, random_state=0)[0]
    model = make(learning="pmp", random_state=0).fit(data)
    if make is IsingModel:
        assert 0.29 < model.coupling_[np.triu_indices(4, 1)].mean() < 0.38
    states = all_states(4)
    signs = 2 * states - 1
    p = np.exp(0.5 * np.einsum("si,ij,sj->s", signs, coupling, signs))
    p /= p.sum()
    drawn = model.sample(10000, random_state=1)
    q = (np.bincount(drawn @ [8, 4, 2, 1], minlength=16) + 0.5) / (len(drawn) + 8)
    assert p @ np.log(p / q) < 0.01


@pytest.mark.parametrize("persistence", [0.0, 0.9])
def test_messages_of_other_noise_are_not_gone_on_from(persistence):
    """Each step draws as `sample` does later, unless the noise goes on, too."""

    class Seen(PerturbAndMaxProduct):
        starts = []

        def solve(self, energy, query):
            self.starts.append(query.start)
            return super().solve(energy, query)

    X = np.random.RandomState(0).randint(2, size=(20, 3))
    sampler = Seen(5, persistence=persistence)
    IsingModel(learning=PMPLearning(sampler), max_iter=3, random_state=0).fit(X)
    later = [start is not None for start in Seen.starts[-3:]]
    assert later == ([False] * 3 if persistence == 0 else [False, True, True])
