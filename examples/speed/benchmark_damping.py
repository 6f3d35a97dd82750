"""Speed of damped, tree-reweighted and strong message passing.

Inference on restricted Boltzmann machines, twenty iterations, on one thread: nanoseconds of
processor time per edge and iteration, the least of several turns. Couplings are N(0, 0.1^2), or
so strong that messages are kept as logarithms.

Run it as ``python -m examples.speed.benchmark_damping``; ``--quick`` repeats less.
"""

import argparse
import time

import numpy as np

from examples.speed.benchmark_inference import cpu_model
from skcrbm.energies import RBMEnergy
from skcrbm.inference import MixedProduct, SumProduct, TreeReweighted, infer

SHAPES = ((784, 64), (784, 256), (50, 20))
N_ITER = 20
# Edges of all models of a call together.
_EDGES = 200_000
# Standard deviation of couplings of which some are beyond the range of the odds.
_STRONG = {np.float32: 25.0, np.float64: 100.0}
METHODS = {
    "sum_product": (SumProduct(), "marginals", False),
    "sum_product, damping=0.5": (SumProduct(damping=0.5), "marginals", False),
    "sum_product, damping=0.3": (SumProduct(damping=0.3), "marginals", False),
    "sum_product, strong couplings": (SumProduct(), "marginals", True),
    "mixed_product": (MixedProduct(), "marginal_map", False),
    "mixed_product, damping=0.5": (MixedProduct(damping=0.5), "marginal_map", False),
    "mixed_product, damping=0.3": (MixedProduct(damping=0.3), "marginal_map", False),
    "tree_reweighted": (TreeReweighted(), "marginals", False),
}


def random_rbm(n_visible, n_hidden, scale, dtype):
    """Draw a batch of RBMs with weights N(0, scale^2) and biases N(0, 1)."""
    rng = np.random.default_rng(0)
    n_models = max(2, _EDGES // (n_visible * n_hidden))
    weights = rng.normal(0, scale, (n_visible, n_hidden))
    b, c = rng.normal(size=(n_models, n_visible)), rng.normal(size=(n_models, n_hidden))
    return RBMEnergy(weights.astype(dtype), b.astype(dtype), c.astype(dtype))


def ns_per_edge(energy, method, returns, n_repeats):
    """Least nanoseconds of processor time per edge, iteration and model."""
    infer(energy.rows(slice(1)), method, returns=returns)  # compile
    best = np.inf
    for _ in range(n_repeats):
        start = time.process_time()
        infer(energy, method, returns=returns, max_iter=N_ITER, tol=0, n_jobs=1)
        best = min(best, time.process_time() - start)
    return best / (N_ITER * energy.n_models * energy.weights.size) * 1e9


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    n_repeats = 2 if parser.parse_args().quick else 9
    print(f"{cpu_model()}; ns of processor time per edge and iteration, least of {n_repeats}\n")
    sizes = [f"{v} x {h}, {d}" for d in ("float32", "float64") for v, h in SHAPES]
    print(f"| method | {' | '.join(sizes)} |")
    print("|---|" + "---|" * len(sizes))
    for name, (method, returns, strong) in METHODS.items():
        cells = []
        for dtype in (np.float32, np.float64):
            for shape in SHAPES:
                energy = random_rbm(*shape, _STRONG[dtype] if strong else 0.1, dtype)
                cells.append(f"{ns_per_edge(energy, method, returns, n_repeats):.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
