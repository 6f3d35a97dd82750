"""Experiment 4 of Lazaro-Gredilla et al. (2021): the couplings of an Ising model from samples."""

import time
from functools import cache
from pathlib import Path

import numpy as np
from numba import njit

from examples._harness import replacing
from examples.papers._pmp_learning import fit_ising, row_of
from examples.papers._pmp_quality import draw, scores_of_model
from skcrbm.datasets import make_ising_lattice, make_random_ising
from skcrbm.energies import IsingEnergy
from skcrbm.inference import Gibbs, PerturbAndMaxProduct, sample
from skcrbm.kernels.ising_gradients import ising_gradients

#: Number of persistent chains; samples of PMP per step and their sweeps, for u single updates.
N_CHAINS = 256
PERTURBED = {
    "lattice": lambda u: (int(4.5 * u**0.5), 10),
    "erdos-renyi": lambda u: (int(10 * u**0.5), 40),
}
_RATE, _L1 = 0.001, 0.01
#: Folder in which training rows are kept, or None.
FOLDER: Path | None = None


def ising_truth(kind, side):
    """Return the model of experiment 4: a lattice, or an Erdos-Renyi graph of average degree 4."""
    if kind == "lattice":
        return make_ising_lattice((side, side), -0.2)
    return make_random_ising(side, mean_degree=4, random_state=0)


@cache
def ising_data(kind, side, n_sweeps, seed=0):
    """Return 2000 training rows and 2000 other rows of a model of experiment 4, by Gibbs chains.

    The rows are kept in `FOLDER` if it is a path.
    """
    path = FOLDER and FOLDER / f"ising_{kind}_{side}_{n_sweeps}_{seed}.npz"
    if path and path.exists():
        with np.load(path) as arrays:
            rows = arrays["rows"]
    else:
        method = Gibbs(burn_in=n_sweeps - 1, n_chains=4000)
        rows = sample(ising_truth(kind, side), method, n_samples=4000, random_state=seed)[0]
        if path:
            with replacing(path, "wb") as file:
                np.savez_compressed(file, rows=rows)
    rows = rows.astype(np.float32)
    return rows[:2000], rows[2000:]


def recovery(kind, side, learner, n_sweeps, seed, n_data_sweeps, average):
    """Run experiment 4: learn the couplings of an Ising model from its samples.

    W of the paper counts every pair twice, so it is half of a coupling: a step of W corresponds to
    two steps of the coupling.
    """
    X, other = ising_data(kind, side, n_data_sweeps)
    model, seconds = fit_ising(
        X,
        learner,
        n_sweeps,
        seed,
        n_steps=1000,
        rate=0.002,
        n_states=20,
        alpha_l1=0.01,
        average=average,
    )
    row = row_of(model, learner, other, seed, seconds, (n_sweeps,), len(other))
    return {**row, **errors(model.coupling_, kind, side)}


def recovery_printed(kind, side, learner, n_sweeps, seed, n_data_sweeps, begin, centred):
    """Run experiment 4 by the steps that the paper prints, without the estimator.

    The units are the units of the paper. L1 is the subgradient of W alone. The paper begins at 0
    (`begin` "zeros") and does not centre the variables; `begin` "data" starts the biases at the
    half log-odds of the data, and `centred` takes moments of variables minus the means of the data,
    as the estimator does.
    """
    X, other = ising_data(kind, side, n_data_sweeps)
    rng, n = np.random.RandomState(seed), X.shape[1]
    mean = (2.0 * X - 1).mean(axis=0)
    centre = mean if centred else np.zeros(n)
    params = np.zeros((n + 1, n))
    if begin == "data":
        params[-1] = np.arctanh(np.clip(mean, -0.999, 0.999))

    def energy_of(params):
        # With centred variables the score is (x - m)'W(x - m) + b'x.
        field = params[-1] - 2 * params[:-1] @ centre
        return IsingEnergy((2 * params[:-1]).astype(np.float32), field.astype(np.float32))

    def states(params):
        drawn = draw(energy_of(params), learner, n_sweeps, 20, rng.randint(2**31))
        return 2.0 * drawn - 1

    started = time.process_time()
    params = _ascend(params, 2.0 * X - 1, centre, states, 1000)
    seconds = time.process_time() - started
    energy = energy_of(params)
    return {
        "learner": learner,
        "seed": seed,
        "seconds": f"{seconds:.1f}",
        **scores_of_model(energy, learner, other, (n_sweeps,), seed),
        **errors(2 * params[:-1], kind, side),
    }


def _ascend(params, y, centre, states, n_steps):
    """Take steps of Adam from moments of data y (N, n) of -1/+1 and of states; return parameters.

    `params` (n + 1, n) holds the symmetric W and, in its last row, b. `states` draws from the
    parameters.
    """

    def moments(rows):
        apart = rows - centre
        return np.vstack([apart.T @ apart / len(rows), rows.mean(axis=0)])

    target = moments(y)
    first, second = np.zeros_like(params), np.zeros_like(params)
    for step in range(1, n_steps + 1):
        slope = target - moments(states(params))
        slope[:-1] -= _L1 * np.sign(params[:-1])
        np.fill_diagonal(slope, 0)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        scale = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        params = params + _RATE * first / (1 - 0.9**step) / scale
    return params


def errors(coupling, kind, side):
    """Return the errors of learned couplings (n, n) against the truth, halved as W is."""
    truth = ising_truth(kind, side).coupling.toarray() / 2
    found = coupling / 2
    return {
        "log_rmse": f"{0.5 * np.log(np.mean((found - truth) ** 2)):.3f}",
        "log_rmse_zero": f"{0.5 * np.log(np.mean(truth**2)):.3f}",
        "edges": f"{(found * truth).sum() / (truth**2).sum():.3f}",
    }


@njit(cache=True)
def _update_one_by_one(coupling, field, which, u, state):
    """Draw single variables of each chain in turn, given the other variables.

    coupling (n, n), field (n,), which (R, T) of int, u (R, T), state (R, n) of -1/+1, changed.
    """
    for r in range(len(state)):
        for t in range(which.shape[1]):
            i = which[r, t]
            h = field[i]
            for k in range(len(field)):
                h += coupling[i, k] * state[r, k]
            state[r, i] = 1.0 if u[r, t] * (1 + np.exp(-2 * h)) < 1 else -1.0


class Chains:
    """Persistent chains with `n_updates` single updates per step, random or by gradients."""

    def __init__(self, learner, n, n_updates):
        self.gradients = learner.startswith("gwg")
        self.n_updates = n_updates
        self.start = np.arange(n + 1) * (n - 1)
        self.others = np.array([[k for k in range(n) if k != i] for i in range(n)])
        self.state = None

    def __call__(self, coupling, field, rng):
        """Continue the chains and return their states (R, n) of -1/+1."""
        shape = N_CHAINS, len(field)
        if self.state is None:
            self.state = 2.0 * (rng.uniform(size=shape) < 0.5) - 1
        if self.gradients:
            log_odds = 2 * (field + self.state @ coupling)
            on = self.state > 0
            u = rng.uniform(size=(N_CHAINS, 2 * self.n_updates))
            ising_gradients(
                self.start, self.others.ravel(),
                np.take_along_axis(coupling, self.others, axis=1).ravel(),
                np.ones(shape, bool), u, 500.0, on, log_odds,
            )  # fmt: skip
            self.state = 2.0 * on - 1
        else:
            which = rng.randint(len(field), size=(N_CHAINS, self.n_updates))
            _update_one_by_one(coupling, field, which, rng.uniform(size=which.shape), self.state)
        return self.state


class Perturbed:
    """Samples by PMP, in the number that the paper uses for `n_updates`."""

    def __init__(self, kind, n_updates):
        self.n_samples, n_sweeps = PERTURBED[kind](n_updates)
        self.method = PerturbAndMaxProduct(max_iter=n_sweeps)

    def __call__(self, coupling, field, rng):
        """Return states (K, n) of -1/+1."""
        energy = IsingEnergy(coupling.astype(np.float32), field.astype(np.float32))
        seed = rng.randint(2**31)
        states = sample(energy, self.method, n_samples=self.n_samples, random_state=seed)[0]
        return 2.0 * states - 1


def recovery_persistent(kind, side, learner, n_updates, n_data_sweeps, n_steps, seed=0):
    """Run experiment 4 with less than a sweep of persistent chains per step.

    The units are the units of the paper. All methods sample with 50 sweeps in the end.
    """
    X, other = ising_data(kind, side, n_data_sweeps)
    rng, n = np.random.RandomState(seed), X.shape[1]
    draws = Perturbed(kind, n_updates) if learner == "pmp" else Chains(learner, n, n_updates)
    started = time.process_time()
    params = _ascend(
        np.zeros((n + 1, n)),
        2.0 * X - 1,
        np.zeros(n),
        lambda params: draws(2 * params[:-1], params[-1], rng),
        n_steps,
    )
    seconds = time.process_time() - started
    energy = IsingEnergy((2 * params[:-1]).astype(np.float32), params[-1].astype(np.float32))
    return {
        "learner": learner,
        "seed": seed,
        "seconds": f"{seconds:.1f}",
        **scores_of_model(energy, learner, other, (50,), seed),
        **errors(2 * params[:-1], kind, side),
    }
