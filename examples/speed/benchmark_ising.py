"""Inference on pairwise label machines: errors and times of every method.

Random Ising models with 14 labels, couplings N(0, scale^2) and fields N(0, 1): mean error
of the marginals, of P(y_i = +1, y_k = +1) and of log Z against enumeration, share of
converged models and time per model, marginals only, in a single thread. Then times on 101 labels,
for which enumeration is impossible. Prints Markdown tables.

    python -m examples.speed.benchmark_ising
"""

import argparse
import time

import numpy as np

from skcrbm.energies import IsingEnergy
from skcrbm.inference import available_methods, infer

RETURNS = ("marginals", "pairwise", "log_partition")


def random_models(n_labels, n_models, scale):
    """Draw models that share couplings N(0, scale^2), with fields N(0, 1)."""
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(0, scale, (n_labels, n_labels)), 1)
    return IsingEnergy(coupling + coupling.T, rng.normal(size=(n_models, n_labels)))


def answer(energy, method, **options):
    """Call `infer` in a single thread, with a tolerance if the method has one."""
    if method != "exact":
        options["tol"] = 1e-4
    return infer(energy, method, n_jobs=1, **options)


def microseconds(energy, method):
    """Return the time per model for the marginals, the best of three."""
    answer(energy.rows([0]), method)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        answer(energy, method)
        times.append(time.perf_counter() - start)
    return 1e6 * min(times) / energy.n_models


def main():
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=500, help="of 14 labels")
    n_models = parser.parse_args().models
    print("| couplings | method | marginals | pairs | log Z | converged | us per model |")
    print("|---|---|---|---|---|---|---|")
    for scale in (0.1, 0.3, 1.0):
        energy = random_models(14, n_models, scale)
        everything = {"returns": RETURNS, "pairwise": "per_example"}
        exact = answer(energy, "exact", **everything)
        for method in available_methods(energy, RETURNS):
            result = answer(energy, method, **everything)
            errors = [np.abs(result.marginals - exact.marginals).mean()]
            errors.append(np.abs(result.pairwise - exact.pairwise).mean())
            errors.append((result.log_partition - exact.log_partition).mean())
            columns = f"{errors[0]:.4f} | {errors[1]:.4f} | {errors[2]:+.3f}"
            share, duration = result.converged.mean(), microseconds(energy, method)
            print(f"| {scale} | {method} | {columns} | {share:.2f} | {duration:.0f} |")
    print("\n| labels | method | iterations | converged | us per model |")
    print("|---|---|---|---|---|")
    energy = random_models(101, 200, 0.1)
    for method in available_methods(energy, RETURNS):
        if method != "exact":
            result = answer(energy, method)
            numbers = f"{result.n_iter.mean():.0f} | {result.converged.mean():.2f}"
            print(f"| 101 | {method} | {numbers} | {microseconds(energy, method):.0f} |")


if __name__ == "__main__":
    main()
