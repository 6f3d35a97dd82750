"""Learning of chains from sampled labels, held against the exact gradient."""

import numpy as np
import pytest

from skcrbm import ChainCRF
from skcrbm.inference import PerturbAndMaxProduct
from skcrbm.inference.random_numbers import random_key
from skcrbm.learning import (
    Adam,
    BPChainLearning,
    ContrastiveDivergence,
    PersistentContrastiveDivergence,
    PMPLearning,
)
from skcrbm.learning.chain_model import ChainParams
from skcrbm.learning.chains import MISSING, ChainLikelihood
from skcrbm.learning.data import Clock

RULES = {
    "cd": ContrastiveDivergence(n_steps=40, n_chains=6),
    "pcd": PersistentContrastiveDivergence(n_steps=15, n_chains=6),
    "bp_chain": BPChainLearning(n_samples=20),
    "weighted": BPChainLearning(n_samples=20, weighted=True),
    "exact": BPChainLearning("exact", n_samples=20),
    "pmp": PMPLearning("gibbs", n_samples=20),
}


def sequences(n_classes=3, lengths=(4, 1, 2, 3), missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in lengths]
    y = [rng.integers(0, n_classes, n).tolist() for n in lengths]
    y[0] = [*range(n_classes), 0, 0][:4]
    if missing:
        y[0][1] = y[0][2] = y[3][0] = None
    return X, y


def problem(rule, missing=False, **options):
    """Return a model with random parameters, a batch, and the objective of a learning rule."""
    X, y = sequences(missing=missing)
    estimator = ChainCRF(learning=rule, random_state=0, **options)
    batch = estimator._training_sequences(X, y, np.array([1.0, 2.0, 0.5, 1.0]), False)
    model, objective = estimator._problem(batch, False)
    rng = np.random.default_rng(1)
    params = ChainParams(*(rng.normal(0, 0.6, part.shape) for part in model.params))
    return model._replace(params=params), batch, objective


def sampled_gradients(objective, model, batch, n_steps):
    key, found, state = random_key(0), [], objective.start(len(batch))
    for step in range(n_steps):
        result, state = objective.step(model, batch, Clock(0, step, key), state)
        found.append(np.concatenate([part.ravel() for part in result.gradient]))
    return np.array(found)


@pytest.mark.parametrize(
    ("name", "missing", "options"),
    [
        ("cd", False, {}),
        ("pcd", True, {"transition_features": True}),
        pytest.param("bp_chain", False, {"transition_features": True}, marks=pytest.mark.deep),
        pytest.param("weighted", False, {}, marks=pytest.mark.deep),
        ("exact", True, {}),
        pytest.param(
            "pmp", False, {"forbidden": [(0, 2), (None, 1), (1, None)]}, marks=pytest.mark.deep
        ),
    ],
)
def test_the_mean_gradient_is_the_gradient_of_the_likelihood(name, missing, options):
    if options.get("forbidden"):  # parameters of 0, and labels that are allowed
        X, _ = sequences()
        estimator = ChainCRF(learning=RULES[name], random_state=0, **options)
        y = [[2, 1, 1, 0], [2], [2, 2], [2, 0, 0]]
        batch = estimator._training_sequences(X, y, None, False)
        model, objective = estimator._problem(batch, False)
    else:
        model, batch, objective = problem(RULES[name], missing, **options)
    likelihood = ChainLikelihood(objective.trained)
    step, _ = likelihood.step(model, batch, Clock(0, 0), None)
    expected = np.concatenate([part.ravel() for part in step.gradient])
    found = sampled_gradients(objective, model, batch, 150)
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - expected) <= 5 * error + 1e-9).all()
    assert error.max() < 0.2  # the bound is narrow enough to detect an error of one count


def test_perturbed_maxima_are_close_to_the_likelihood():
    """Perturb-and-max-product draws from a distribution that differs a little from the model."""
    model, batch, objective = problem(PMPLearning(n_samples=20))
    step, _ = ChainLikelihood(objective.trained).step(model, batch, Clock(0, 0), None)
    expected = np.concatenate([part.ravel() for part in step.gradient])
    found = sampled_gradients(objective, model, batch, 60).mean(axis=0)
    assert np.abs(found - expected).max() < 0.3 < np.abs(expected).max()


def correlated(n, seed):
    """Sequences whose labels rarely change, with one noisy feature."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(4, 9, n):
        labels = [int(rng.integers(2))]
        while len(labels) < length:
            labels.append(labels[-1] ^ int(rng.random() < 0.1))
        y.append(np.array(labels))
        X.append(y[-1][:, None] + rng.normal(size=(length, 1)))
    return X, y


@pytest.mark.parametrize(
    "learning",
    [
        "cd",
        "pcd",
        pytest.param("pmp", marks=pytest.mark.deep),
        pytest.param(BPChainLearning("exact", 10), marks=pytest.mark.deep),
    ],
)
def test_rules_approach_maximum_likelihood(learning):
    X, y = correlated(60, 0)
    new, truth = correlated(100, 1)
    best = ChainCRF(alpha=0.01).fit(X, y)
    plain = ChainCRF(alpha=0.01, max_iter=1).fit(X, y).score_samples(new, truth).mean()
    solver = Adam(learning_rate=0.05)
    model = ChainCRF(alpha=0.01, learning=learning, solver=solver, max_iter=20, random_state=0)
    first = model.fit(X, y).score_samples(new, truth).mean()
    top = best.score_samples(new, truth).mean()
    assert first > top - 0.15 * (top - plain)
    assert abs(model.score(new, truth) - best.score(new, truth)) < 0.03
    again = model.set_params(n_jobs=2).fit(X, y)
    assert again.score_samples(new, truth).mean() == first  # the same bits with more threads


def test_chains_of_pcd_continue_and_labels_may_be_missing():
    X, y = correlated(30, 0)
    y = [[None if t == 1 else int(label) for t, label in enumerate(part)] for part in y]
    model = ChainCRF(alpha=0.1, learning="pcd", random_state=0, max_iter=3, warm_start=True)
    model.fit(X, y)
    before = [chains.copy() for chains in model._progress.state]
    assert [chains.shape[1] for chains in before] == [len(x) for x in X]
    model.fit(X, y)
    assert any((a != b).any() for a, b in zip(before, model._progress.state))
    weight = np.r_[0.0, 0.0, np.ones(28)]
    options = {"alpha": 0.1, "learning": "pcd", "random_state": 0, "max_iter": 2}
    kept = ChainCRF(**options).fit(X, y, weight)
    same = ChainCRF(**options).fit(X[2:], y[2:])
    np.testing.assert_array_equal(kept.coef_, same.coef_)
    stream = ChainCRF(alpha=0.1, learning="pcd", random_state=0)
    stream.partial_fit(X[:10], y[:10], classes=[0, 1]).partial_fit(X[10:20], y[10:20])
    auto = ChainCRF(learning="cd", random_state=0, max_iter=2).fit(X, y)
    assert auto.alpha_ == ChainCRF(random_state=0, max_iter=2).fit(X, y).alpha_


def test_missing_labels_begin_at_a_possible_path():
    """Markov chains begin at labels that `forbidden` allows."""
    X, y = sequences()
    y = [[0, None, None, 1], [0], [0, 0], [1, None, 1]]
    model = ChainCRF(learning="cd", forbidden=[(0, 1)], max_iter=1)
    with pytest.raises(ValueError, match="sequence 0 of y has a transition that `forbidden`"):
        ChainCRF(learning="cd", forbidden=[(0, 1)]).fit(X[2:3], [[0, 1]])
    y[0][3], y[3] = 0, [1, None, 0]
    batch = model._training_sequences(X, y, None, False)
    fitted = model.fit(X, y)
    assert (batch.path == MISSING).sum() == 3
    assert np.isneginf(fitted.transition_[0, 1])
    assert np.isfinite(fitted.score_samples(X, y)).all()


def test_errors_name_the_cause():
    X, y = correlated(6, 0)
    with pytest.raises(ValueError, match="stochastic solver such as 'adam'"):
        ChainCRF(learning="cd", solver="lbfgs").fit(X, y)
    with pytest.raises(ValueError, match="order=2 needs learning='mle' or 'max_margin'; got"):
        ChainCRF(learning="bp_chain", order=2).fit(X, y)
    with pytest.raises(ValueError, match="persistence=0"):
        ChainCRF(learning=PMPLearning(PerturbAndMaxProduct(persistence=0.5))).fit(X, y)
