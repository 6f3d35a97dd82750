"""Experiments 3 and 5 and appendix B.3 of Lazaro-Gredilla et al. (2021): learning from samples."""

import time
from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from examples.papers._pmp_quality import (
    LEARNERS,
    compare,
    reference,
    scores_of_model,
    texts,
)
from skcrbm.datasets import digit_contours, load_mnist
from skcrbm.density import RBM, IsingModel
from skcrbm.inference import PerturbAndMaxProduct, sample
from skcrbm.inference.random_numbers import logistic_noise, random_key

#: Rows that scores are read by.
REFERENCES = ("other half of the data", "independent with the data's means", "fair coins")
#: Of the images that make a small one, 14 x 14 before contours are taken.
_SMALL_SIDE = 14


def small_digits():
    """0/1 images of 8 x 8 pixels, float32 (1797, 64)."""
    return (load_digits().data > 7.5).astype(np.float32)


@cache
def mnist_digits(label):
    """0/1 training images of one digit, or of all (None), float32 (n, 784)."""
    data = load_mnist()
    pixels = data.data[:60000] > 127
    if label is not None:
        pixels = pixels[data.target[:60000].astype(int) == label]
    return pixels.astype(np.float32)


@cache
def contours(side):
    """Outlines of the MNIST zeros, (5923, side ** 2); side 30, or 16 of images at half size."""
    images = mnist_digits(0).reshape(-1, 28, 28)
    if side == _SMALL_SIDE + 2:
        blocks = images.reshape(-1, _SMALL_SIDE, 2, _SMALL_SIDE, 2)
        images = (blocks.mean(axis=(2, 4)) >= 0.5).astype(np.float32)
    return digit_contours(images).reshape(len(images), -1).astype(np.float32)


def fit_ising(X, learner, n_sweeps, seed, *, n_steps, rate, n_chains=100, **options):
    """Fit an Ising model of all pairs by full-batch steps; it and its processor seconds."""
    model = IsingModel(
        **LEARNERS[learner](n_sweeps),
        n_chains=n_chains,
        learning_rate_init=rate,
        max_iter=n_steps,
        n_iter_no_change=n_steps,
        n_jobs=1,
        random_state=seed,
        **options,
    )
    started = time.process_time()
    model.fit(X)
    return model, time.process_time() - started


def fit_rbm(X, learner, n_sweeps, seed, *, n_hidden, n_steps, rate, batch_size, **options):
    """Fit an RBM with as many states of the model as rows in a step; it and its seconds."""
    n_epochs = -(-n_steps // (len(X) // batch_size))
    model = RBM(
        n_hidden,
        **{**LEARNERS[learner](n_sweeps), "n_chains": batch_size, **options},
        batch_size=batch_size,
        learning_rate_init=rate,
        max_iter=n_epochs,
        n_iter_no_change=n_epochs,
        n_jobs=1,
        random_state=seed,
    )
    started = time.process_time()
    model.fit(X)
    return model, time.process_time() - started


def row_of(model, learner, X, seed, seconds, sweeps, n_rows):
    """Row of a fitted model: scores against the first rows of X."""
    scores = scores_of_model(model.energy_, learner, X[:n_rows], sweeps, seed)
    return {"learner": learner, "seed": seed, "seconds": f"{seconds:.1f}", **scores}


def digits_ising(learner, seed, average):
    """Ising model of the 8 x 8 digits."""
    X = small_digits()
    model, seconds = fit_ising(X, learner, 50, seed, n_steps=500, rate=0.01, average=average)
    return row_of(model, learner, X, seed, seconds, (10, 50, 100), len(X))


def digits_sweeps(n_sweeps, damping):
    """RBM of 64 hidden units learned by PMP with other sweeps and damping; as `digits_rbm`."""
    X = small_digits()
    sampler = PerturbAndMaxProduct(max_iter=n_sweeps, damping=damping)
    model, seconds = fit_rbm(
        X, "pmp", n_sweeps, 0, n_hidden=64, n_steps=600, rate=0.01, batch_size=100, sampler=sampler
    )
    states = sample(model.energy_, sampler, n_samples=len(X), random_state=1)[0, :, :64]
    return {
        "learner": "pmp",
        "seed": 0,
        "sweeps": n_sweeps,
        "damping": damping,
        **texts([compare(X, states)]),
        "seconds": f"{seconds:.1f}",
    }


def digits_best(n_sweeps, damping):
    """As `digits_sweeps`; a sample is the best of the states after 1, 2, .. sweeps, not the last.

    The noise is that of the sampler, so that all these states are of one run.
    """
    X = small_digits()
    sampler = PerturbAndMaxProduct(max_iter=n_sweeps, damping=damping)
    model, seconds = fit_rbm(
        X, "pmp", n_sweeps, 0, n_hidden=64, n_steps=600, rate=0.01, batch_size=100, sampler=sampler
    )
    noise = logistic_noise(random_key(1), np.arange(len(X)), 0, 128)
    energy = model.energy_.rows(np.zeros(len(X), int))
    best, states, last = np.full(len(X), -np.inf), None, None
    for k in range(1, n_sweeps + 1):
        method = PerturbAndMaxProduct(max_iter=k, damping=damping)
        last = sample(model.energy_, method, n_samples=len(X), random_state=1)[0]
        score = energy.score(last) + (noise * last).sum(axis=1)
        better = score > best
        best = np.where(better, score, best)
        states = last if states is None else np.where(better[:, None], last, states)
    found = [compare(X, part[:, :64]) for part in (last, states)]
    row = {"learner": "pmp", "seed": 0, "sweeps": n_sweeps, "damping": damping, **texts(found)}
    return {**row, "seconds": f"{seconds:.1f}"}


def digits_rbm(learner, seed, average):
    """RBM of 64 hidden units on the 8 x 8 digits, 600 steps."""
    X = small_digits()
    model, seconds = fit_rbm(
        X, learner, 50, seed, n_hidden=64, n_steps=600, rate=0.01, batch_size=100, average=average
    )
    return row_of(model, learner, X, seed, seconds, (10, 50, 100), len(X))


def zeros(learner, n_sweeps, seed, side, rate, average):
    """Experiment 3: contours of the zeros.

    A coupling of -1/+1 units is a quarter of one of 0/1 units, so 0.00025 is the paper's step.
    """
    X = contours(side)
    model, seconds = fit_ising(X, learner, n_sweeps, seed, n_steps=1000, rate=rate, average=average)
    return row_of(model, learner, X, seed, seconds, (5, 10, 25, 50, 100), len(X))


def twos(learner, n_sweeps, seed, average):
    """Appendix B.3: an RBM of 250 hidden units on 5000 twos, 1000 steps of Adam."""
    X = mnist_digits(2)[:5000]
    model, seconds = fit_rbm(
        X, learner, n_sweeps, seed, n_hidden=250, n_steps=1000, rate=0.01, batch_size=50,
        average=average,
    )  # fmt: skip
    sweeps = (25, 100, 500) if learner.startswith("gibbs") else (25, 50, 100, 200)
    return row_of(model, learner, X, seed, seconds, sweeps, 1000)


def mnist_rbm(learner, n_sweeps, seed, n_epochs, average):
    """Experiment 5: an RBM of 500 hidden units on all digits, plain gradient steps."""
    X = mnist_digits(None)
    model, seconds = fit_rbm(
        X, learner, n_sweeps, seed, n_hidden=500, n_steps=600 * n_epochs, rate=0.01,
        batch_size=100, solver="sgd", average=average,
    )  # fmt: skip
    return row_of(model, learner, X, seed, seconds, (25, 100), 5000)


def reference_row(data, n_rows, name):
    """Row that scores are read by.

    Parameters
    ----------
    data : callable
        Returns the rows, or training rows and others of a model of experiment 4.
    n_rows : int
        Samples that scores are of.
    name : str
        One of `REFERENCES`.
    """
    X = data()
    if isinstance(X, tuple):
        X = np.concatenate(X)
    return {"learner": name, "seed": 0, "sweeps": "", **reference(X, n_rows, name)}
