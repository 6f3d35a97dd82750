"""Times of Gibbs with gradients as ratios to Gibbs sweeps.

A sweep of either sampler has as many steps as there are variables. Each row is ns of processor time
per variable and chain, the least of several turns in which both samplers run one after the other.
Prints a Markdown table.

    python -m examples.speed.benchmark_gibbs
"""

import argparse
import time

import numpy as np

from skcrbm.datasets import make_ising_lattice
from skcrbm.energies import IsingEnergy
from skcrbm.inference import Gibbs, GibbsWithGradients, sample


def dense_model(n):
    """Return an Ising model in which all pairs have couplings N(0, 1 / n)."""
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(0, 1 / np.sqrt(n), (n, n)), 1)
    return IsingEnergy(coupling + coupling.T, rng.normal(0, 0.3, (1, n)))


def seconds(method, energy, n_chains, n_sweeps):
    """Return the processor time of a number of sweeps, which exclude the start of the chains."""
    times = []
    for burn_in in (0, n_sweeps):
        options = method(burn_in=burn_in, n_chains=n_chains, random_state=0)
        started = time.process_time()
        sample(energy, options, n_samples=n_chains, n_jobs=1)
        times.append(time.process_time() - started)
    return times[1] - times[0]


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="turns of each pair")
    n_turns = parser.parse_args().turns
    models = {
        "lattice of 10 x 10": (make_ising_lattice((10, 10), 0.3), 2000),
        "lattice of 30 x 30": (make_ising_lattice((30, 30), 0.3), 200),
        "all pairs of 20": (dense_model(20), 10000),
        "all pairs of 100": (dense_model(100), 1000),
        "all pairs of 400": (dense_model(400), 100),
        "all pairs of 900": (dense_model(900), 25),
    }
    print(
        "| model | chains | gibbs, ns | gibbs_with_gradients, ns | ratio |\n|---|---|---|---|---|"
    )
    for name, (energy, n_sweeps) in models.items():
        for n_chains in (10, 100):
            times = []
            count = max(2, n_sweeps * 10 // n_chains)
            for turn in range(n_turns + 1):
                pair = [
                    seconds(method, energy, n_chains, count)
                    for method in (Gibbs, GibbsWithGradients)
                ]
                if turn:  # the first turn may compile code
                    times.append(pair)
            own = np.min(times, axis=0) * 1e9 / (count * n_chains * energy.n_visible)
            print(f"| {name} | {n_chains} | {own[0]:.1f} | {own[1]:.1f} | {own[1] / own[0]:.1f} |")


if __name__ == "__main__":
    main()
