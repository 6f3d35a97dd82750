"""Gibbs sweeps and simulated annealing of large sparse Ising models, beside dwave-samplers.

Two models: a random graph of 10^5 variables and 3 x 10^5 edges with N(0, 1) couplings, and a square
lattice of 1000 x 1000 variables with couplings of -1 and +1. Prints the milliseconds of a Gibbs
sweep at beta 1, and the scores that annealing reaches, with its time, for three seeds: with the
default range of beta of each package, and with the same range for both. Everything runs on a single
thread. Without dwave-samplers, its rows are left out. Its times are
the times of sampling that it reports, without the conversion of the model and of the states; the
times of skcrbm are the times of whole calls. Both are wall-clock times, measured in turn.

    python -m examples.speed.benchmark_annealing
    python -m examples.speed.benchmark_annealing --size 100 --sweeps 100
"""

import argparse
import time

import numpy as np

from skcrbm.energies import SparseIsingEnergy
from skcrbm.inference import SimulatedAnnealing, infer, sample

try:
    import dimod
    from dwave.samplers import SimulatedAnnealingSampler
except ImportError:
    dimod = None


def random_graph(n_variables, seed=0):
    """Make a model of three edges per variable with N(0, 1) couplings."""
    rng = np.random.default_rng(seed)
    n_edges = 3 * n_variables
    pairs = np.sort(rng.integers(n_variables, size=(n_edges + n_edges // 10, 2)), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    pairs = rng.permutation(pairs)[:n_edges]
    weights = rng.standard_normal(len(pairs))
    return SparseIsingEnergy.from_edges(pairs, weights, np.zeros(n_variables))


def lattice(side, seed=0):
    """Make a square lattice with couplings of -1 and +1."""
    place = np.arange(side * side).reshape(side, side)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    pairs = np.concatenate([across, down])
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], len(pairs))
    return SparseIsingEnergy.from_edges(pairs, signs, np.zeros(side * side))


def as_bqm(energy):
    """Return the model in dimod's form, which minimises the energy."""
    i, k = energy.edges.T
    return dimod.BinaryQuadraticModel.from_numpy_vectors(
        -energy.field[0], (i, k, -energy.edge_coupling), 0.0, dimod.SPIN
    )


def seconds_of(function):
    """Return the result of a call and its time."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def dwave(bqm, n_sweeps, seed, **options):
    """Return the score that dwave-samplers reaches, and the time of its sampling."""
    found = SimulatedAnnealingSampler().sample(
        bqm, num_reads=1, num_sweeps=n_sweeps, seed=seed, **options
    )
    return -found.first.energy, found.info["timing"]["sampling_ns"] / 1e9


def compare_sweeps(energy, bqm, n_sweeps, n_runs):
    """Print the milliseconds of a Gibbs sweep of one chain, and of eight chains per chain."""
    times = {"skcrbm, 1 chain": [], "skcrbm, 8 chains": [], "dwave-samplers, 1 read": []}
    for _ in range(n_runs):
        for label, chains in (("skcrbm, 1 chain", 1), ("skcrbm, 8 chains", 8)):
            _, seconds = seconds_of(
                lambda chains=chains: sample(
                    energy, n_samples=chains, burn_in=n_sweeps - 1, random_state=0, n_jobs=1
                )
            )
            times[label].append(1e3 * seconds / n_sweeps / chains)
        if bqm is not None:
            options = {"proposal_acceptance_criteria": "Gibbs", "beta_range": (1.0, 1.0)}
            times["dwave-samplers, 1 read"].append(
                1e3 * dwave(bqm, n_sweeps, 0, **options)[1] / n_sweeps
            )
    print("\n| Gibbs sweeps | ms per sweep, least | median |\n|---|---|---|")
    for label, values in times.items():
        if values:
            print(f"| {label} | {min(values):.2f} | {np.median(values):.2f} |")


def compare_annealing(energy, bqm, n_sweeps, beta_range):
    """Print the scores of annealing for three seeds, by default and with the same betas."""
    print("\n| annealing | seed | sweeps | seconds | score |\n|---|---|---|---|---|")
    for seed in range(3):
        for betas in (None, beta_range):
            label = "" if betas is None else f", betas {betas[0]} to {betas[1]}"
            if bqm is not None:
                score, seconds = dwave(bqm, n_sweeps, seed, beta_range=betas)
                print(
                    f"| dwave-samplers{label} | {seed} | {n_sweeps} | {seconds:.2f} | {score:.1f} |"
                )
            method = SimulatedAnnealing(n_sweeps, beta_range=betas, random_state=seed)
            result, seconds = seconds_of(lambda method=method: infer(energy, method, n_jobs=1))
            score = energy.score(result.assignment)[0]
            print(f"| skcrbm{label} | {seed} | {n_sweeps} | {seconds:.2f} | {score:.1f} |")


def main():
    """Compare both models and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000, help="side of the lattice")
    parser.add_argument("--sweeps", type=int, default=1000, help="sweeps on the random graph")
    parser.add_argument("--runs", type=int, default=5, help="runs of each Gibbs sampler")
    options = parser.parse_args()
    small = random_graph(100)
    for call in (sample, lambda energy: infer(energy, "simulated_annealing")):
        call(small)  # compile
    if dimod is None:
        print("dwave-samplers is not installed: its rows are left out.")
    models = (
        ("random graph", random_graph(options.size**2 // 10), options.sweeps, (0.3, 3.0)),
        ("lattice", lattice(options.size), max(1, options.sweeps // 5), (0.5, 2.5)),
    )
    for name, energy, n_sweeps, beta_range in models:
        bqm = None if dimod is None else as_bqm(energy)
        print(f"\n{name}: {energy.n_variables} variables, {len(energy.edges)} edges")
        compare_sweeps(energy, bqm, 100, options.runs)
        compare_annealing(energy, bqm, n_sweeps, beta_range)


if __name__ == "__main__":
    main()
