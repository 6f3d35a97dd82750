"""Experiments 3 and 5 and appendix B.3 of Lazaro-Gredilla et al. (2021): learning from samples."""

import time
from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from examples.papers._pmp_pictures import digit_contours
from examples.papers._pmp_quality import (
    compare,
    learning_rule,
    reference,
    scores_of_model,
    texts,
)
from skcrbm.datasets import load_mnist
from skcrbm.density import RBM, IsingModel
from skcrbm.inference import PerturbAndMaxProduct, sample
from skcrbm.inference.random_numbers import logistic_noise, random_key
from skcrbm.learning import SGD, Adam, LossPlateau, PMPLearning

#: Rows of samples that do not come from a model.
REFERENCES = ("other half of the data", "independent with the data's means", "fair coins")
#: Side of the small images before contours are taken.
_SMALL_SIDE = 14


def small_digits():
    """Return 0/1 images of 8 x 8 pixels, float32 (1797, 64)."""
    return (load_digits().data > 7.5).astype(np.float32)


@cache
def mnist_digits(label):
    """Return 0/1 training images of a digit, or of all digits (None), float32 (n, 784)."""
    data = load_mnist()
    pixels = data.data[:60000] > 127
    if label is not None:
        pixels = pixels[data.target[:60000].astype(int) == label]
    return pixels.astype(np.float32)


@cache
def contours(side):
    """Return outlines of the MNIST zeros, (5923, side ** 2); side 30, or 16 at half size."""
    images = mnist_digits(0).reshape(-1, 28, 28)
    if side == _SMALL_SIDE + 2:
        blocks = images.reshape(-1, _SMALL_SIDE, 2, _SMALL_SIDE, 2)
        images = (blocks.mean(axis=(2, 4)) >= 0.5).astype(np.float32)
    return digit_contours(images).reshape(len(images), -1).astype(np.float32)


def fit_ising(X, learner, n_sweeps, seed, *, n_steps, rate, average, n_states=100, alpha_l1=0.0):
    """Fit an Ising model of all pairs by full-batch steps; return it and its processor seconds."""
    model = IsingModel(
        learning=learning_rule(learner, n_sweeps, n_states),
        solver=Adam(learning_rate=rate, average=average),
        max_iter=n_steps,
        alpha_l1=alpha_l1,
        early_stopping=LossPlateau(n_iter_no_change=n_steps),
        n_jobs=1,
        random_state=seed,
    )
    started = time.process_time()
    model.fit(X)
    return model, time.process_time() - started


def fit_rbm(X, rule, seed, *, n_hidden, n_steps, solver):
    """Fit an RBM by a learning rule; return it and its processor seconds."""
    n_epochs = -(-n_steps // (len(X) // solver.batch_size))
    model = RBM(
        n_hidden,
        learning=rule,
        solver=solver,
        max_iter=n_epochs,
        early_stopping=LossPlateau(n_iter_no_change=n_epochs),
        n_jobs=1,
        random_state=seed,
    )
    started = time.process_time()
    model.fit(X)
    return model, time.process_time() - started


def row_of(model, learner, X, seed, seconds, sweeps, n_rows):
    """Return the row of a fitted model: scores against the first rows of X."""
    scores = scores_of_model(model.energy_, learner, X[:n_rows], sweeps, seed)
    return {"learner": learner, "seed": seed, "seconds": f"{seconds:.1f}", **scores}


def try_learner(learner):
    """Fit an Ising model and an RBM of few small digits in two steps, to compile the kernels."""
    X = small_digits()[:100]
    model, _ = fit_ising(X, learner, 2, 0, n_steps=2, rate=0.01, average=False)
    scores_of_model(model.energy_, learner, X, (2,), 0)
    if not learner.startswith("gwg"):
        solver = Adam(learning_rate=0.01, batch_size=50)
        rule = learning_rule(learner, 2, 50)
        model, _ = fit_rbm(X, rule, 0, n_hidden=8, n_steps=2, solver=solver)
        scores_of_model(model.energy_, learner, X, (2,), 0)


def _sweeps_of(learner, sweeps):
    """Return the numbers of sweeps with which samples of a learned model are drawn."""
    return sweeps[1:2] if learner == "lp" else sweeps


def digits_ising(learner, seed, average, n_steps=500):
    """Fit an Ising model of the 8 x 8 digits; return its row."""
    X = small_digits()
    model, seconds = fit_ising(X, learner, 50, seed, n_steps=n_steps, rate=0.01, average=average)
    return row_of(model, learner, X, seed, seconds, _sweeps_of(learner, (10, 50, 100)), len(X))


def digits_sweeps(n_sweeps, damping):
    """Fit the RBM of `digits_rbm` by PMP with other sweeps and damping; return its row."""
    X = small_digits()
    sampler = PerturbAndMaxProduct(max_iter=n_sweeps, damping=damping)
    rule, solver = PMPLearning(sampler, n_samples=100), Adam(learning_rate=0.01, batch_size=100)
    model, seconds = fit_rbm(X, rule, 0, n_hidden=64, n_steps=600, solver=solver)
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
    """Do the same as `digits_sweeps`, with the best state after 1, 2, .. sweeps as the sample.

    The sampler draws the same noise each time, so all these states belong to the same run.
    """
    X = small_digits()
    sampler = PerturbAndMaxProduct(max_iter=n_sweeps, damping=damping)
    rule, solver = PMPLearning(sampler, n_samples=100), Adam(learning_rate=0.01, batch_size=100)
    model, seconds = fit_rbm(X, rule, 0, n_hidden=64, n_steps=600, solver=solver)
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
    """Fit an RBM of 64 hidden units to the 8 x 8 digits, 600 steps; return its row."""
    X = small_digits()
    rule = learning_rule(learner, 50, 100)
    solver = Adam(learning_rate=0.01, batch_size=100, average=average)
    model, seconds = fit_rbm(X, rule, seed, n_hidden=64, n_steps=600, solver=solver)
    return row_of(model, learner, X, seed, seconds, _sweeps_of(learner, (10, 50, 100)), len(X))


def zeros(learner, n_sweeps, seed, side, rate, average, n_steps=1000):
    """Run experiment 3: contours of the zeros.

    A coupling in -1/+1 units is a quarter of the coupling in 0/1 units, so the step of the paper
    is 0.00025.
    """
    X = contours(side)
    steps = {"n_steps": n_steps, "rate": rate, "average": average}
    model, seconds = fit_ising(X, learner, n_sweeps, seed, **steps)
    sweeps = (5, 10, 25, 50, 100)
    if learner in ("mplp", "lp"):  # a sample takes 10 to 100 ms, so draw only with 25 sweeps
        sweeps = sweeps[2:3]
    return row_of(model, learner, X, seed, seconds, sweeps, len(X))


def twos(learner, n_sweeps, seed, average, n_steps=1000):
    """Run appendix B.3: an RBM of 250 hidden units on 5000 twos, by default 1000 steps of Adam."""
    X = mnist_digits(2)[:5000]
    rule = learning_rule(learner, n_sweeps, 50)
    solver = Adam(learning_rate=0.01, batch_size=50, average=average)
    model, seconds = fit_rbm(X, rule, seed, n_hidden=250, n_steps=n_steps, solver=solver)
    sweeps = (25, 100, 500) if learner.startswith("gibbs") else (25, 50, 100, 200)
    if learner == "mplp":
        sweeps = (25,)
    return row_of(model, learner, X, seed, seconds, sweeps, 1000)


def mnist_rbm(learner, n_sweeps, seed, n_epochs, average):
    """Run experiment 5: an RBM of 500 hidden units on all digits, plain gradient steps."""
    X = mnist_digits(None)
    rule = learning_rule(learner, n_sweeps, 100)
    solver = SGD(learning_rate=0.01, batch_size=100, average=average)
    model, seconds = fit_rbm(X, rule, seed, n_hidden=500, n_steps=600 * n_epochs, solver=solver)
    return row_of(model, learner, X, seed, seconds, (25, 100), 5000)


def reference_row(data, n_rows, name):
    """Return the row of samples that do not come from a model.

    Parameters
    ----------
    data : callable
        Returns the rows, or training rows and other rows of a model of experiment 4.
    n_rows : int
        Number of samples.
    name : str
        An entry of `REFERENCES`.
    """
    X = data()
    if isinstance(X, tuple):
        X = np.concatenate(X)
    return {"learner": name, "seed": 0, "sweeps": "", **reference(X, n_rows, name)}
