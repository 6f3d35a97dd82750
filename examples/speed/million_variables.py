"""Time and memory of a lattice of a million variables: messages, samples and annealing.

The model is a square lattice with N(0, 0.3^2) couplings and fields, as a `SparseIsingEnergy`. Each
method runs first on a small model, so that compilation is not counted. Prints the processor time
and the largest memory of the process. Start the program once for each method, because the largest
memory counts everything that ran before.

    python -m examples.speed.million_variables sum_product
    python -m examples.speed.million_variables gibbs --side 300
"""

import argparse
import resource
import time

import numpy as np

from skcrbm.energies import SparseIsingEnergy
from skcrbm.inference import Gibbs, SimulatedAnnealing, SumProduct, infer

METHODS = {
    "sum_product": (SumProduct(), "marginals"),
    "gibbs": (Gibbs(random_state=0), "samples"),
    "simulated_annealing": (SimulatedAnnealing(n_sweeps=200, random_state=0), "map"),
}


def lattice(side):
    """Draw a square lattice."""
    rng = np.random.default_rng(0)
    site = np.arange(side * side).reshape(side, side)
    right = np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], axis=1)
    down = np.stack([site[:-1].ravel(), site[1:].ravel()], axis=1)
    pairs = np.concatenate([right, down])
    weights = rng.normal(scale=0.3, size=len(pairs))
    return SparseIsingEnergy.from_edges(pairs, weights, rng.normal(scale=0.3, size=side * side))


def main():
    """Run a method, and print its time and memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--side", type=int, default=1000, help="side of the lattice")
    options = parser.parse_args()
    method, answer = METHODS[options.method]
    energy = lattice(options.side)
    infer(lattice(4), method, returns=answer)
    start = time.process_time()
    found = infer(energy, method, returns=answer)
    spent = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{options.method}: {energy.n_variables} variables, {found.n_iter[0]} iterations, "
        f"{spent:.1f} s, {peak:.2f} GB"
    )


if __name__ == "__main__":
    main()
