"""How often each MAP method finds the best state of a small dense RBM.

Fifty random RBMs of 12 + 12 units with weights N(0, 1) and biases N(0, 1); the best joint
state, and the best visible state with the hidden units summed out, are found by
enumeration. Prints a Markdown table: models solved, mean gap of the score, share of
converged models, milliseconds a model.

    python -m examples.speed.benchmark_map
"""

import argparse
import time

import numpy as np

from skcrbm.energies import RBMEnergy
from skcrbm.inference import ICM, Exact, MaxProduct, MixedProduct, infer


def random_models(n_models, bias_scale, seed=0):
    """Draw dense RBMs of 12 + 12 units."""
    rng = np.random.default_rng(seed)
    return [
        RBMEnergy(
            rng.normal(0, 1, (12, 12)),
            bias_scale * rng.normal(0, 1, 12),
            bias_scale * rng.normal(0, 1, 12),
        )
        for _ in range(n_models)
    ]


def score(energy, query, assignment):
    """Return the score that the query maximises."""
    if query == "map":
        return energy.score(assignment)[0]
    return energy.log_weight(assignment[:, : energy.n_visible])[0]


def main():
    """Solve, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=50)
    n_models = parser.parse_args().models
    methods = [
        (label, query, cls(**options, **extra, random_state=0))
        for cls, query, variants in (
            (MaxProduct, "map", ({}, {"damping": 0.5})),
            (ICM, "map", ({},)),
            (MixedProduct, "marginal_map", ({}, {"damping": 0.5})),
        )
        for options in variants
        for extra in ({}, {"n_restarts": 10}, {"n_restarts": 50})
        for label in [", ".join([cls.name, *(f"{k}={v}" for k, v in (options | extra).items())])]
    ]
    methods += [(f"exact ({query})", query, Exact()) for query in ("map", "marginal_map")]
    for _, query, method in methods:
        infer(random_models(1, 1.0)[0], method, returns=query)  # compile
    for bias_scale in (1.0, 0.0):
        models = random_models(n_models, bias_scale)
        best = {
            query: [score(e, query, infer(e, Exact(), returns=query).assignment) for e in models]
            for query in ("map", "marginal_map")
        }
        print(f"\nBiases {'N(0, 1)' if bias_scale else '0'}:\n")
        print(f"| method | query | solved of {n_models} | mean gap | converged | ms |")
        print("|---|---|---|---|---|---|")
        for label, query, method in methods:
            start = time.perf_counter()
            results = [infer(e, method, returns=query) for e in models]
            each = (time.perf_counter() - start) / n_models * 1e3
            found = [score(e, query, r.assignment) for e, r in zip(models, results, strict=True)]
            gap = np.array(best[query]) - found
            converged = np.mean([r.converged[0] for r in results])
            solved = int((gap < 1e-9).sum())
            mean_gap = max(0.0, gap.mean())
            print(
                f"| {label} | {query} | {solved} | {mean_gap:.3f} | {converged:.2f} | {each:.2f} |"
            )


if __name__ == "__main__":
    main()
