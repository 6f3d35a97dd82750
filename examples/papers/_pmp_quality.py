"""How like the data samples are: the scores of Lazaro-Gredilla et al. (2021), and more."""

import time

import numpy as np

from skcrbm.inference import Gibbs, GibbsWithGradients, PerturbAndMaxProduct, sample
from skcrbm.metrics import covariance_error, log_mmd

COLUMNS = ("log_mmd", "log_mmd_05", "covariance_error", "worst_mean")


class ResetGibbs(Gibbs):
    """Gibbs chains that begin at coin flips in every step of training."""

    accepts = frozenset({"state"})


class ResetGibbsWithGradients(GibbsWithGradients):
    """The same of Gibbs with gradients."""

    accepts = frozenset({"state"})


#: How the estimators learn by each method, with `n` sweeps a step.
LEARNERS = {
    "pmp": lambda n: {"learning": "pmp", "sampler": PerturbAndMaxProduct(max_iter=n)},
    "gibbs reset": lambda n: {"learning": "pmp", "sampler": ResetGibbs(burn_in=n - 1)},
    "gibbs pcd": lambda n: {"learning": "pcd", "n_gibbs_steps": n},
    "gwg reset": lambda n: {"learning": "pmp", "sampler": ResetGibbsWithGradients(burn_in=n - 1)},
}


def draw(energy, learner, n_sweeps, n_samples, seed):
    """Visible states of a learned model by the sampler that it was learned with.

    Chains begin at coin flips; each gives one sample.
    """
    if learner == "pmp":
        method = PerturbAndMaxProduct(max_iter=n_sweeps)
    else:
        kind = GibbsWithGradients if learner.startswith("gwg") else Gibbs
        method = kind(burn_in=n_sweeps - 1, n_chains=n_samples)
    states = sample(energy, method, n_samples=n_samples, random_state=seed)[0]
    return states[:, : energy.n_visible]


def compare(data, states):
    """Scores of samples against data, in the order of `COLUMNS`."""
    return (
        log_mmd(data, states),
        log_mmd(data, states, bandwidth=0.05),
        covariance_error(data, states),
        float(np.abs(data.mean(axis=0) - states.mean(axis=0)).max()),
    )


def scores_of_model(energy, learner, data, sweeps, seed):
    """Columns of a row: scores at each number of sweeps, in one text each, and their seconds."""
    started = time.process_time()
    found = [compare(data, draw(energy, learner, n, len(data), seed + 1)) for n in sweeps]
    return {
        "sweeps": " ".join(map(str, sweeps)),
        **texts(found),
        "seconds_sampling": f"{time.process_time() - started:.1f}",
    }


def texts(found):
    """Columns of scores, the scores of several comparisons in one text."""
    return {
        name: " ".join(f"{value:.3f}" for value in values)
        for name, values in zip(COLUMNS, zip(*found, strict=True), strict=True)
    }


def reference(X, n_rows, name):
    """Columns of a row to read the scores by.

    Parameters
    ----------
    X : ndarray (N, D)
        All data.
    n_rows : int
        Rows that samples are compared with, and samples; of two halves no more than there are.
    name : {"other half of the data", "independent with the data's means", "fair coins"}

    Returns
    -------
    dict
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
