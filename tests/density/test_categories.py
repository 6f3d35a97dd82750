"""`MarkovRandomField` on columns of categories."""

import pickle

import numpy as np
import pytest
from reference.categorical import Enumerated, random_graph

from skcrbm.density import MarkovRandomField
from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import Gibbs, sample
from skcrbm.learning import PersistentContrastiveDivergence

SCOPES = [(0, 1), (1, 2)]
NAMES = [np.array(["no", "yes"]), np.array([10, 20, 30]), np.array(["blue", "green", "red"])]


def true_energy():
    return random_graph(0, (2, 3, 3), SCOPES, n_models=1)


def table_rows(n=4000):
    """Draw rows of categories from a chain of three variables, and their states."""
    states = sample(true_energy(), n_samples=n, random_state=0)[0].astype(int)
    columns = [names[states[:, i]].astype(object) for i, names in enumerate(NAMES)]
    return np.column_stack(columns), states


def model(factors="pairwise", **options):
    options = {"categories": "auto", "max_iter": 150, "random_state": 0, **options}
    return MarkovRandomField(factors, **options)


@pytest.mark.parametrize("factors", ["pairwise", SCOPES])
def test_learned_distribution(factors):
    """The fitted model has the entry probabilities of the data."""
    X, states = table_rows()
    rule = PersistentContrastiveDivergence(n_chains=500)
    fitted = model(factors, learning=rule).fit(X)
    for found, names in zip(fitted.categories_, NAMES, strict=True):
        assert found.tolist() == names.tolist()
    assert fitted.energy_.n_states.tolist() == [2, 3, 3]
    learned = Enumerated(fitted.energy_)
    share = fitted.energy_.statistics(states)
    np.testing.assert_allclose(learned.entries, share, atol=0.03)
    truth = Enumerated(true_energy())
    np.testing.assert_allclose(learned.probability, truth.probability, atol=0.03)


def test_samples_are_categories():
    X, _ = table_rows(500)
    fitted = model(SCOPES, max_iter=5).fit(X)
    drawn = fitted.sample(200, random_state=0, given=["yes", None, np.nan])
    assert drawn.shape == (200, 3)
    assert (drawn[:, 0] == "yes").all()
    assert set(drawn[:, 1]) == {10, 20, 30}
    assert set(drawn[:, 2]) == {"blue", "green", "red"}
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.sample(5, random_state=0), fitted.sample(5, random_state=0))
    with pytest.raises(ValueError, match="given has the value 'maybe' in column 0"):
        fitted.sample(1, given=["maybe", None, None])


def test_marginals_of_missing_entries():
    X, _ = table_rows(300)
    method = Gibbs(max_iter=2000, n_chains=20, random_state=0)
    fitted = model(SCOPES, max_iter=20, inference=method).fit(X)
    found = fitted.marginals([["yes", None, "red"], [np.nan, 20, None]])
    assert found.shape == (2, 3, 3)
    for row, held in zip(found, ([1, np.nan, 2], [np.nan, 1, np.nan]), strict=True):
        exact = Enumerated(fitted.energy_.condition(held)).marginals
        np.testing.assert_allclose(row, exact, atol=0.015)


def test_states_of_an_energy():
    """An energy of several states needs no categories: columns hold its states."""
    energy = true_energy()
    _, states = table_rows(300)
    options = {"max_iter": 3, "random_state": 0}
    fitted = MarkovRandomField(energy, **options).fit(states)
    assert fitted.sample(4, random_state=0).dtype == np.int64
    with pytest.raises(ValueError, match="X has the value 3 in column 1"):
        MarkovRandomField(energy).fit(np.where(states == 2, 3, states))
    with pytest.raises(
        ValueError, match=r"as many states as the columns have categories, \[2, 3, 3\]"
    ):
        MarkovRandomField(FactorGraphEnergy([], np.zeros((1, 3, 4))), categories=NAMES).fit(
            table_rows(50)[0]
        )


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        ("all", "categories must be None, 'auto' or a list"),
        (NAMES[:2], "it has 2 lists, and X has 3 columns"),
        ([*NAMES[:2], ["red", "red"]], "the list of column 2 must hold at least one value, each"),
        ([*NAMES[:2], ["red", "blue"]], "X has the value 'green' in column 2"),
    ],
)
def test_bad_categories(categories, message):
    with pytest.raises(ValueError, match=message):
        model(categories=categories).fit(table_rows(50)[0])


def test_two_categories_are_the_binary_model():
    """The same tables as for 0/1 columns, whatever the categories are."""
    rng = np.random.default_rng(0)
    bits = rng.integers(2, size=(200, 4))
    plain = MarkovRandomField(max_iter=10, random_state=0).fit(bits)
    words = np.array(["a", "b"])[bits]
    named = model(max_iter=10).fit(words)
    assert type(named.energy_) is FactorGraphEnergy
    difference = np.diff(named.log_potentials_[:8].reshape(4, 2)) - np.diff(
        plain.log_potentials_[:8].reshape(4, 2)
    )
    assert np.abs(difference).max() < 0.05
    assert plain.categories_ is None
    assert set(named.sample(20, random_state=0).ravel()) <= {"a", "b"}


def test_maximum_likelihood_by_elimination():
    """The exact gradient ends where the model has the entry probabilities of the data."""
    X, states = table_rows(1000)
    fitted = model(SCOPES, learning="mle", max_iter=400, alpha=0.0).fit(X)
    share = fitted.energy_.statistics(states)
    np.testing.assert_allclose(Enumerated(fitted.energy_).entries, share, atol=0.01)
    right = Enumerated(fitted.energy_)
    log_p = dict(zip(map(tuple, right.states), right.scores - right.log_z, strict=True))
    expected = [log_p[tuple(state)] for state in states[:20]]
    np.testing.assert_allclose(fitted.score_samples(X[:20]), expected)
    X[:5, 1] = None  # the rows of X are summed over the missing value
    for row, state in zip(X[:5], states[:5], strict=True):
        terms = [log_p[state[0], k, state[2]] for k in range(3)]
        np.testing.assert_allclose(fitted.score_samples(row[None]), np.logaddexp.reduce(terms))
