"""Scores that compare samples with data: the scores of Lazaro-Gredilla et al. (2021), and more."""

import time

import numpy as np

from skcrbm.inference import (
    MPLP,
    Gibbs,
    GibbsWithGradients,
    PerturbAndMAP,
    PerturbAndMaxProduct,
    sample,
)
from skcrbm.learning import PersistentContrastiveDivergence, PMPLearning
from skcrbm.metrics import covariance_error, log_mmd

COLUMNS = ("log_mmd", "log_mmd_05", "covariance_error", "worst_mean")


class ResetGibbs(Gibbs):
    """Gibbs chains that begin at coin flips in every step of training."""

    accepts = frozenset({"state"})


class ResetGibbsWithGradients(GibbsWithGradients):
    """Gibbs chains with gradients that begin at coin flips in every step of training."""

    accepts = frozenset({"state"})


_SAMPLERS = {
    "pmp": lambda n_sweeps: PerturbAndMaxProduct(max_iter=n_sweeps),
    "mplp": lambda n_sweeps: PerturbAndMAP(MPLP(max_iter=n_sweeps)),
    "lp": lambda n_sweeps: PerturbAndMAP("linear_program"),  # it has no sweeps
}
_CHAINS = {"gibbs reset": ResetGibbs, "gwg reset": ResetGibbsWithGradients}


def learning_rule(learner, n_sweeps, n_states):
    """Return the learning rule of a learner with its number of sweeps and states per step."""
    if learner == "gibbs pcd":
        return PersistentContrastiveDivergence(n_steps=n_sweeps, n_chains=n_states)
    if learner in _CHAINS:  # a chain for each state, which is drawn after the last sweep
        sampler = _CHAINS[learner](burn_in=n_sweeps - 1, n_chains=n_states)
    else:
        sampler = _SAMPLERS[learner](n_sweeps)
    return PMPLearning(sampler, n_samples=n_states)


def draw(energy, learner, n_sweeps, n_samples, seed):
    """Draw visible states of a learned model by the sampler that it was learned with.

    Each chain begins at coin flips and gives a single sample.
    """
    if learner in ("pmp", "mplp", "lp"):
        method = _SAMPLERS[learner](n_sweeps)
    else:
        kind = GibbsWithGradients if learner.startswith("gwg") else Gibbs
        method = kind(burn_in=n_sweeps - 1, n_chains=n_samples)
    states = sample(energy, method, n_samples=n_samples, random_state=seed)[0]
    return states[:, : energy.n_visible]


def compare(data, states):
    """Return the scores of samples against data, in the order of `COLUMNS`."""
    return (
        log_mmd(data, states),
        log_mmd(data, states, bandwidth=0.05),
        covariance_error(data, states),
        float(np.abs(data.mean(axis=0) - states.mean(axis=0)).max()),
    )


def scores_of_model(energy, learner, data, sweeps, seed):
    """Return columns of a row: a text with the scores at each number of sweeps, and the seconds."""
    started = time.process_time()
    found = [compare(data, draw(energy, learner, n, len(data), seed + 1)) for n in sweeps]
    return {
        "sweeps": " ".join(map(str, sweeps)),
        **texts(found),
        "seconds_sampling": f"{time.process_time() - started:.1f}",
    }


def texts(found):
    """Return columns of scores; a text joins the scores of several comparisons."""
    return {
        name: " ".join(f"{value:.3f}" for value in values)
        for name, values in zip(COLUMNS, zip(*found, strict=True), strict=True)
    }


def reference(X, n_rows, name):
    """Return the scores of samples that do not come from a model, for comparison.

    Parameters
    ----------
    X : ndarray (N, D)
        All data.
    n_rows : int
        Number of samples, and of rows that they are compared with; at most half of the data if
        the samples are the other half.
    name : {"other half of the data", "independent with the data's means", "fair coins"}
    """
    rng = np.random.RandomState(0)
    data = X[:n_rows]
    if name == "other half of the data":
        order = rng.permutation(len(X))
        half = min(n_rows, len(X) // 2)
        return texts([compare(X[order[:half]], X[order[half : 2 * half]])])
    mean = 0.5 if name == "fair coins" else X.mean(axis=0)
    coins = rng.uniform(size=(n_rows, X.shape[1])) < mean
    return texts([compare(data, coins.astype(np.float32))])
