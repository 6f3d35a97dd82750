"""Experiments 1 and 2 of Lazaro-Gredilla et al. (2021): models whose answers are known exactly."""

import time
from itertools import product

import numpy as np

from skcrbm.datasets import make_ising_lattice, make_random_ising
from skcrbm.density import IsingModel
from skcrbm.energies import IsingEnergy
from skcrbm.inference import PerturbAndMaxProduct, infer, sample
from skcrbm.inference.random_numbers import logistic_noise, random_key
from skcrbm.learning import Adam, LossPlateau

SIDES = (5, 10, 15)
#: Log Z of cyclic lattices of these sides with couplings of -0.2, by transfer matrices.
LATTICE_LOG_Z = {5: 18.35759, 10: 73.45310, 15: 165.26943}
#: Methods that bound the maximum from above.
BOUNDS = {"mplp": {"max_iter": 50_000, "tol": 1e-6}, "linear_program": {}}
_STATES = np.array(list(product((0, 1), repeat=4)))
_PAIRS = np.triu_indices(4, 1)


def equal_couplings(theta):
    """Return an Ising model of four variables in which theta couples all pairs."""
    return IsingEnergy(theta * (1.0 - np.eye(4)), np.zeros((1, 4)))


def probabilities(energy):
    """Return the probabilities of the 16 states under the Gibbs distribution."""
    score = energy.rows(np.zeros(16, int)).score(_STATES)
    weight = np.exp(score - score.max())
    return weight / weight.sum()


def shares(states):
    """Return the shares of the 16 states among samples (K, 4), half a sample added to each."""
    counts = np.bincount(states @ [8, 4, 2, 1], minlength=16) + 0.5
    return counts / counts.sum()


def divergence(p, q):
    """Return KL(p || q) in nats."""
    return float(p @ (np.log(p) - np.log(q)))


def pmp_shares(energy, seed):
    """Return the shares of the 16 states among 10,000 samples by perturb-and-max-product."""
    states = sample(energy, PerturbAndMaxProduct(), n_samples=10_000, random_state=seed)[0]
    return shares(states)


def learn_shared_coupling(mean, seed):
    """Learn the coupling that all pairs share by Adam, 200 steps of 0.01 from 0, as in the paper.

    Parameters
    ----------
    mean : float
        Target for the mean of the sum of ``y_i y_k`` over the pairs.
    seed : int
    """
    theta, first, second = 0.0, 0.0, 0.0
    for step in range(1, 201):
        y = (
            2.0
            * sample(
                equal_couplings(theta),
                PerturbAndMaxProduct(),
                n_samples=100,
                random_state=1000 * seed + step,
            )[0].astype(float)
            - 1
        )
        slope = mean - (y.T @ y / len(y))[_PAIRS].sum()
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        theta += 0.01 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return theta


def four_variables(seed):
    """Run experiment 1: PMP learns a model in which all couplings are 0.5."""
    truth = equal_couplings(0.5)
    p = probabilities(truth)
    y = 2.0 * _STATES - 1
    mean = float(((y[:, _PAIRS[0]] * y[:, _PAIRS[1]]).sum(axis=1) * p).sum())
    started = time.process_time()
    theta = learn_shared_coupling(mean, seed)
    seconds = time.process_time() - started
    found = equal_couplings(theta)
    # Six couplings and four fields, from samples.
    rows = _STATES[np.random.RandomState(seed).choice(16, size=10_000, p=p)]
    free = IsingModel(
        learning="pmp",
        solver=Adam(learning_rate=0.01),
        max_iter=200,
        early_stopping=LossPlateau(n_iter_no_change=200),
        n_jobs=1,
        random_state=seed,
    ).fit(rows)
    couplings = free.coupling_[_PAIRS]
    return {
        "seed": seed,
        "theta": f"{theta:.4f}",
        "kl_gibbs": f"{divergence(p, probabilities(found)):.5f}",
        "kl_pmp": f"{divergence(p, pmp_shares(found, seed)):.5f}",
        "kl_pmp_truth": f"{divergence(p, pmp_shares(truth, seed)):.5f}",
        "kl_pmp_to_gibbs": f"{divergence(pmp_shares(found, seed), p):.5f}",
        "free_mean": f"{couplings.mean():.4f}",
        "free_min": f"{couplings.min():.4f}",
        "free_max": f"{couplings.max():.4f}",
        "kl_free": f"{divergence(p, pmp_shares(free.energy_, seed)):.5f}",
        "seconds": f"{seconds:.1f}",
    }


def perturbed(energy, n, seed):
    """Add the noise of a sampler to the fields of a model, and maximise with this noise.

    Returns
    -------
    noisy : energy of n models
    states : ndarray (n, L)
        States of perturb-and-max-product, 200 sweeps.
    seconds : float
    """
    started = time.process_time()
    states = sample(energy, PerturbAndMaxProduct(max_iter=200), n_samples=n, random_state=seed)[0]
    seconds = time.process_time() - started
    noise = logistic_noise(random_key(seed), np.arange(n), 0, energy.n_variables)
    return energy.with_fields(energy.field + noise / 2), states, seconds


def mean_and_error(values):
    """Return the mean and its standard error as texts."""
    values = np.asarray(values)
    return f"{values.mean():.3f}", f"{values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def lattice_log_z(side, n_perturbations, n_bounds, seed=0):
    """Run experiment 2 on a lattice: mean perturbed maxima minus log Z."""
    energy, log_z = make_ising_lattice((side, side), -0.2), LATTICE_LOG_Z[side]
    if side <= 5:
        exact = infer(energy, "exact", returns="log_partition").log_partition[0]
        if abs(exact - log_z) > 1e-4:
            raise AssertionError(f"log Z is {exact}, not {log_z}")
    started = time.process_time()
    found = infer(
        energy,
        PerturbAndMaxProduct(max_iter=200),
        returns="log_partition",
        n_samples=n_perturbations,
        random_state=seed,
    )
    row = {
        "side": side,
        "n_perturbations": n_perturbations,
        "log_z": f"{log_z:.4f}",
        "pmp": f"{found.log_partition[0] - log_z:.3f}",
        "pmp_error": f"{found.standard_error[0]:.3f}",
        "pmp_seconds": f"{time.process_time() - started:.1f}",
    }
    # All methods that maximise get the same noise, so that only the method differs.
    noisy, states, _ = perturbed(energy, n_bounds, seed)
    pmp = noisy.score(states) - log_z
    row["pmp_same"], row["pmp_same_error"] = mean_and_error(pmp)
    row["n_bounds"] = n_bounds
    row |= bounds(noisy, log_z, pmp)
    return row


def bounds(noisy, log_z, reached):
    """Return mean upper bounds of the perturbed maxima minus log Z, and their seconds."""
    row = {}
    for name, options in BOUNDS.items():
        started = time.process_time()
        found = infer(noisy, name, returns=("map", "map_bound"), **options)
        row[f"{name}_seconds"] = f"{time.process_time() - started:.1f}"
        upper = found.map_bound - log_z
        row[name], row[f"{name}_error"] = mean_and_error(upper)
        row[f"{name}_state"], _ = mean_and_error(noisy.score(found.assignment) - log_z)
        if (upper < reached - 1e-6 * abs(log_z)).any():
            raise AssertionError(f"{name} is below a score that was reached")
    return row


def random_log_z(n_variables, n_models, n_perturbations, seed=0):
    """Run experiment 2 on random Ising models: means over models of maxima minus log Z."""
    rng = np.random.RandomState(seed)
    names = ("pmp", "exact", "mplp", "linear_program")
    values = {name: [] for name in names}
    seconds = dict.fromkeys(names, 0.0)
    for _ in range(n_models):
        energy = make_random_ising(n_variables, random_state=rng)
        log_z = infer(energy, "exact", returns="log_partition").log_partition[0]
        noisy, states, spent = perturbed(energy, n_perturbations, rng.randint(2**31))
        seconds["pmp"] += spent
        values["pmp"].append(noisy.score(states).mean() - log_z)
        best = noisy.score(infer(noisy, "exact", returns=("map",)).assignment)
        values["exact"].append(best.mean() - log_z)
        for name, options in BOUNDS.items():
            started = time.process_time()
            upper = infer(noisy, name, returns=("map", "map_bound"), **options).map_bound
            seconds[name] += time.process_time() - started
            if (upper < best - 1e-6 * np.abs(best)).any():
                raise AssertionError(f"the bound of {name} is below the maximum")
            values[name].append(upper.mean() - log_z)
    row = {"side": n_variables, "n_perturbations": n_perturbations * n_models}
    for name in names:
        row[name], row[f"{name}_error"] = mean_and_error(values[name])
        row[f"{name}_seconds"] = f"{seconds[name]:.1f}"
    return row
