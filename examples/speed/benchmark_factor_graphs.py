"""Message passing on factor graphs: the cost of a message, compared with NumPy.

The models have 400 tables of three (and of two, and six) variables out of 200, with N(0, 1)
log-potentials and fields. The program measures processor time per message factor -> variable,
iteration and model, in a single thread, of `infer(energy, "sum_product")` and of the same messages
as NumPy arrays in logs, in turns. It also measures the growth with factors, models and iterations,
the cost of a single model, and a lattice of 100 x 100 as a `SparseIsingEnergy`, per undirected
edge. Last, it compares a sample by chained belief propagation with a run of 20 iterations for each
variable. Prints Markdown tables.

    python -m examples.speed.benchmark_factor_graphs
"""

import argparse
import time

import numpy as np

from skcrbm.datasets import make_random_factor_graph
from skcrbm.energies import FactorGraphEnergy, SparseIsingEnergy, TableFactors
from skcrbm.inference import BPChain, MaxProduct, SumProduct, infer, sample


def random_graph(arity, n_models, n_factors=400, n_variables=200):
    """Draw tables with the same number of variables."""
    rng = np.random.default_rng(0)
    scopes = np.array([rng.choice(n_variables, arity, replace=False) for _ in range(n_factors)])
    tables = TableFactors(scopes, rng.normal(size=(n_factors, 2**arity)))
    return FactorGraphEnergy([tables], rng.normal(size=(n_models, n_variables)))


def lattice(side, n_models, dtype=np.float64):
    """Draw an Ising model with couplings N(0, 0.3^2) on a square lattice."""
    rng = np.random.default_rng(0)
    site = np.arange(side * side).reshape(side, side)
    right = np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], axis=1)
    down = np.stack([site[:-1].ravel(), site[1:].ravel()], axis=1)
    edges = np.concatenate([right, down])
    weights = rng.normal(0, 0.3, len(edges)).astype(dtype)
    field = rng.normal(0, 1, (n_models, side * side)).astype(dtype)
    return SparseIsingEnergy.from_edges(edges, weights, field)


def numpy_messages(energy, n_iter):
    """Run sum-product in logs on arrays (N, F, k), all messages at once; return log-odds."""
    (group,) = energy.tables
    n_factors, k = group.variables.shape
    table = group.log_potentials.reshape(1, n_factors, *(2,) * k)
    message = np.zeros((energy.n_models, n_factors, k))
    belief = energy.field
    edge = np.arange(energy.n_models)[:, None] * energy.n_variables + group.variables.ravel()
    for _ in range(n_iter):
        cavity = belief[:, group.variables] - message
        pairs = np.stack([-np.logaddexp(0, cavity), -np.logaddexp(0, -cavity)], axis=-1)
        joint = table
        for j in range(k):
            shape = [energy.n_models, n_factors, *(1,) * k]
            shape[2 + j] = 2
            joint = joint + pairs[:, :, j].reshape(shape)
        high = joint.max(axis=tuple(range(2, 2 + k)), keepdims=True)
        weight = np.exp(joint - high)
        for j in range(k):
            axes = tuple(2 + i for i in range(k) if i != j)
            both = np.log(weight.sum(axis=axes)) - pairs[:, :, j]
            message[:, :, j] = both[..., 1] - both[..., 0]
        total = np.bincount(edge.ravel(), message.ravel(), energy.field.size)
        belief = energy.field + total.reshape(energy.field.shape)
    return belief


def seconds(run, few, many, repeats):
    """Return the processor time of an iteration: the least over repeats, without set-up."""
    times = {few: [], many: []}
    for _ in range(repeats):
        for n_iter in (few, many):
            start = time.process_time()
            run(n_iter)
            times[n_iter].append(time.process_time() - start)
    return (min(times[many]) - min(times[few])) / (many - few)


def ours(energy, kind=SumProduct):
    """Run a number of iterations without a test of convergence."""

    def run(n_iter):
        infer(energy, kind(max_iter=n_iter, tol=0), n_jobs=1)

    return run


def chained(energy, n_samples, repeats, **options):
    """Return the processor time in ms of a sample by chained belief propagation."""
    method, times = BPChain(random_state=0, **options), []
    sample(energy, method, n_jobs=1)
    for _ in range(repeats):
        start = time.process_time()
        sample(energy, method, n_samples=n_samples, n_jobs=1)
        times.append(time.process_time() - start)
    return 1e3 * min(times) / n_samples


def print_chains(repeats):
    """Compare chained samples with n runs of a model, with and without calls of `infer`."""
    print("\n| variables | samples | ms a sample | cold | n runs | n runs, iterations alone |")
    print("|---|---|---|---|---|---|")
    for n in (10, 22, 31):
        energy = make_random_factor_graph(n, random_state=0)
        run = ours(energy)
        alone = 2e4 * n * seconds(run, 100, 600, repeats)
        calls = n * 1e3 * (seconds(lambda t, r=run: [r(20) for _ in range(t)], 0, 10, repeats))
        for n_samples in (64, 640, 6400):
            warm = chained(energy, n_samples, repeats)
            cold = chained(energy, n_samples, 1, warm_iter=None)
            print(f"| {n} | {n_samples} | {warm:.3f} | {cold:.3f} | {calls:.1f} | {alone:.2f} |")


def main():
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats

    print("| tables of | models | ns a message | max-product | NumPy, logs | ratio |")
    print("|---|---|---|---|---|---|")
    for arity in (2, 3, 6):
        for n_models in (64, 16, 1):
            energy = random_graph(arity, n_models)
            same = infer(energy, SumProduct(max_iter=3, tol=0)).log_odds
            np.testing.assert_allclose(same, numpy_messages(energy, 3), atol=1e-8)
            size = 1e9 / (n_models * 400 * arity)
            few, many = (20, 120) if n_models > 1 else (100, 600)
            ns = size * seconds(ours(energy), few, many, repeats)
            best = size * seconds(ours(energy, MaxProduct), few, many, repeats)
            plain = size * seconds(lambda t, e=energy: numpy_messages(e, t), 1, 3, repeats)
            print(
                f"| {arity} | {n_models} | {ns:.1f} | {best:.1f} | {plain:.0f} | {plain / ns:.1f} |"
            )

    print("\n| what doubles | ns a message before | after |\n|---|---|---|")
    for what, small, large in (
        ("factors", (3, 64, 200), (3, 64, 400)),
        ("models", (3, 64, 400), (3, 128, 400)),
    ):
        cost = []
        for arity, n_models, n_factors in (small, large):
            run = ours(random_graph(arity, n_models, n_factors))
            cost.append(1e9 / (n_models * n_factors * arity) * seconds(run, 20, 120, repeats))
        print(f"| {what} | {cost[0]:.1f} | {cost[1]:.1f} |")
    run, cost = ours(random_graph(3, 64)), []
    for few, many in ((20, 120), (120, 320)):
        cost.append(1e9 / (64 * 1200) * seconds(run, few, many, repeats))
    print(f"| iterations | {cost[0]:.1f} | {cost[1]:.1f} |")

    print("\n| lattice | dtype | models | ns an edge, sum | max |\n|---|---|---|---|---|")
    for side in (30, 100):
        for dtype in (np.float64, np.float32):
            for n_models in (64, 1):
                energy = lattice(side, n_models, dtype)
                size = 1e9 / (n_models * len(energy.edges))
                few, many = (2, 12) if n_models > 1 else (5, 105)
                cost = [
                    size * seconds(ours(energy, kind), few, many, repeats)
                    for kind in (SumProduct, MaxProduct)
                ]
                print(
                    f"| {side} x {side} | {np.dtype(dtype).name} | {n_models} | {cost[0]:.2f} | "
                    f"{cost[1]:.2f} |"
                )
    print_chains(repeats)


if __name__ == "__main__":
    main()
