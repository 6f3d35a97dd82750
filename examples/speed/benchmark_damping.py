"""Speed of damped, tree-reweighted and strong message passing.

Measures twenty iterations on restricted Boltzmann machines in a single thread: nanoseconds of
processor time per edge and iteration, the least of several turns. Couplings are N(0, 0.1^2), or so
strong that messages are kept as logarithms.

    python -m examples.speed.benchmark_damping [--quick] [package folder ...]

With several folders that each hold a version of skcrbm, the versions take turns, and the table says
how many times as fast as the first version the last version is.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from examples.speed.benchmark_inference import cpu_model
from skcrbm.energies import RBMEnergy
from skcrbm.inference import MixedProduct, SumProduct, TreeReweighted, infer

SHAPES = ((784, 64), (784, 256), (50, 20))
N_ITER = 20
# Total number of edges of all models of a call.
_EDGES = 200_000
# Standard deviation of couplings, some of which exceed the range of the odds.
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
    """Return the least nanoseconds of processor time per edge, iteration and model."""
    infer(energy.rows(slice(1)), method, returns=returns)  # compile
    best = np.inf
    for _ in range(n_repeats):
        start = time.process_time()
        infer(energy, method, returns=returns, max_iter=N_ITER, tol=0, n_jobs=1)
        best = min(best, time.process_time() - start)
    return best / (N_ITER * energy.n_models * energy.weights.size) * 1e9


SIZES = [(shape, dtype) for dtype in (np.float32, np.float64) for shape in SHAPES]


def row(name, n_repeats):
    """Return the nanoseconds of a method at all sizes."""
    method, returns, strong = METHODS[name]
    return [
        ns_per_edge(
            random_rbm(*shape, _STRONG[dtype] if strong else 0.1, dtype), method, returns, n_repeats
        )
        for shape, dtype in SIZES
    ]


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import skcrbm
sys.path.pop(0)
from examples.speed.benchmark_damping import row
print(json.dumps(row(sys.argv[2], int(sys.argv[3]))))
"""


def row_of(package, name, n_repeats):
    """Measure the same with another version of the library, in its own process."""
    run = subprocess.run(
        [sys.executable, "-c", CHILD, package, name, str(n_repeats)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", help="folders that hold a version of skcrbm each")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    arguments = parser.parse_args()
    n_repeats = 2 if arguments.quick else 9
    print(f"{cpu_model()}; ns of processor time per edge and iteration, least of {n_repeats}\n")
    sizes = [f"{v} x {h}, {np.dtype(d)}" for (v, h), d in SIZES]
    print(f"| method | {' | '.join(sizes)} |")
    print("|---|" + "---|" * len(sizes))
    for name in METHODS:
        if arguments.packages:
            turns = [[row_of(p, name, 1) for p in arguments.packages] for _ in range(n_repeats)]
            best = np.min(turns, axis=0)
            texts = [f"{old:.2f} to {new:.2f}: {old / new:.1f}" for old, new in best[[0, -1]].T]
        else:
            texts = [f"{ns:.2f}" for ns in row(name, n_repeats)]
        print(f"| {name} | {' | '.join(texts)} |", flush=True)


if __name__ == "__main__":
    main()
