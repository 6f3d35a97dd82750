"""Speed of belief propagation.

Sum-product on restricted Boltzmann machines, ten iterations, on one thread: the
compiled kernels of skcrbm in float32 against the matrix form of Ping and Ihler (2017)
in NumPy, float64. Prints one Markdown table; every number comes from the same run, and
the two sides take turns, so that a busy machine slows both.

Run it as ``python examples/benchmark_inference.py``; ``--quick`` repeats less.
"""

import argparse
import os
import platform
import time
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer

N_ITER = 10


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _message(odds, on, off, simplified):
    """Equations 13 and 14: messages M as probabilities, and as log-odds."""
    ratio = (odds * on + off) / (on + off)
    if simplified:  # sigma(log x) = x / (1 + x), and its log-odds are log x
        return ratio / (1 + ratio), np.log(ratio)
    message = _sigmoid(np.log(ratio))
    return message, np.log(message / (1 - message))


def matrix_sum_product(weights, visible_bias, hidden_bias, n_iter, simplified=False):
    """Sum-product on one RBM in the matrix form of Ping and Ihler (2017), section 5.2.

    Both message matrices are kept as (V, H), so that no step walks through memory
    across the rows; otherwise the equations are as printed, with full-size temporaries.

    Parameters
    ----------
    weights, visible_bias, hidden_bias : ndarray (V, H), (V,), (H,)
    n_iter : int
    simplified : bool
        Leave out the logarithms and exponentials that cancel on paper.

    Returns
    -------
    tau_v, tau_h : ndarray (V,), (H,)
        P(v_i = 1), P(h_j = 1).
    pairwise : callable
        Returns equation 18, P(v_i = 1, h_j = 1), with the messages hidden -> visible of
        the final beliefs.
    """
    odds = np.exp(weights)
    up = np.full(weights.shape, 0.5)  # visible -> hidden, M^hv transposed
    tau_v, tau_h = _sigmoid(visible_bias), _sigmoid(hidden_bias)
    for _ in range(n_iter):
        down, log_odds = _message(odds, (1 - up) * tau_h, up * (1 - tau_h), simplified)  # (13)
        tau_v = _sigmoid(visible_bias + log_odds.sum(1))  # (16)
        column = tau_v[:, None]
        up, log_odds = _message(odds, (1 - down) * column, down * (1 - column), simplified)  # (14)
        tau_h = _sigmoid(hidden_bias + log_odds.sum(0))  # (17)

    def pairwise():
        down, _ = _message(odds, (1 - up) * tau_h, up * (1 - tau_h), simplified)
        v = tau_v[:, None]
        both = odds * v * tau_h * (1 - down) * (1 - up)
        only_hidden = (1 - v) * tau_h * down * (1 - up)
        only_visible = v * (1 - tau_h) * (1 - down) * up
        none = (1 - v) * (1 - tau_h) * down * up
        return both / (both + only_hidden + only_visible + none)  # (18)

    return tau_v, tau_h, pairwise


def random_rbm(n_visible, n_hidden, n_models, seed=0):
    """Draw a batch of RBMs with weights N(0, 0.1^2) and biases N(0, 1), float32."""
    rng = np.random.default_rng(seed)
    return RBMEnergy(
        rng.normal(0, 0.1, (n_visible, n_hidden)).astype(np.float32),
        rng.normal(0, 1, (n_models, n_visible)).astype(np.float32),
        rng.normal(0, 1, (n_models, n_hidden)).astype(np.float32),
    )


def run_skcrbm(energy, returns=("marginals",), n_jobs=1):
    """Ten iterations; with tol=0 no model stops earlier."""
    return infer(energy, "sum_product", max_iter=N_ITER, tol=0, returns=returns, n_jobs=n_jobs)


def run_matrix(energy, simplified):
    """Ten iterations of the matrix form on each model, in float64."""
    weights, b, c = (a.astype(np.float64) for a in (energy.weights, *energy.fields))
    return np.array(
        [
            np.concatenate(matrix_sum_product(weights, b[n], c[n], N_ITER, simplified)[:2])
            for n in range(energy.n_models)
        ]
    )


def median_times(sides, n_repeats):
    """Median seconds of each of several functions, which take turns of at least 0.1 s."""
    times = [[] for _ in sides]
    for _ in range(n_repeats):
        for k, side in enumerate(sides):
            spent = 0.0
            while spent < 0.1:
                start = time.perf_counter()
                side()
                times[k].append(time.perf_counter() - start)
                spent += times[k][-1]
    return [float(np.median(t)) for t in times]


def cpu_model():
    """Name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats and models")
    quick = parser.parse_args().quick
    n_repeats = 3 if quick else 9
    all_returns = ("marginals", "pairwise", "log_partition")

    print(f"{cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}, ", end="")
    print(f"NumPy {np.__version__}, Numba {numba.__version__}; median over {n_repeats} turns\n")
    run_skcrbm(random_rbm(4, 4, 2), all_returns)  # compile, or load from the cache

    print("| model | what | seconds | ns per edge, iteration and model | times faster |")
    print("|---|---|---|---|---|")

    def row(label, what, seconds, energy, faster):
        edges = energy.n_visible * energy.n_hidden * energy.n_models * N_ITER
        print(f"| {label} | {what} | {seconds:.4g} | {seconds / edges * 1e9:.3g} | {faster} |")

    for n_visible, n_hidden, n_models in ((1000, 500, 1), (784, 256, 4 if quick else 20)):
        energy = random_rbm(n_visible, n_hidden, n_models)
        label = f"{n_visible} x {n_hidden}, {n_models} bias pair{'s' * (n_models > 1)}"
        with threadpool_limits(1):
            matrix, simplified, ours, everything = median_times(
                [
                    lambda energy=energy: run_matrix(energy, simplified=False),
                    lambda energy=energy: run_matrix(energy, simplified=True),
                    lambda energy=energy: run_skcrbm(energy),
                    lambda energy=energy: run_skcrbm(energy, all_returns),
                ],
                n_repeats,
            )
            error = np.abs(run_skcrbm(energy).marginals - run_matrix(energy, False)).max()
        row(label, "NumPy float64, as printed", matrix, energy, "1")
        row(label, "NumPy float64, simplified", simplified, energy, f"{matrix / simplified:.2f}")
        row(label, "skcrbm float32, marginals", ours, energy, f"**{matrix / ours:.1f}**")
        added = f"{matrix / everything:.1f} ({100 * (everything / ours - 1):+.0f} % time)"
        row(label, "and pairwise beliefs and log Z", everything, energy, added)
        print(f"| {label} | largest difference of a marginal: {error:.1e} | | | |")

    energy = random_rbm(784, 256, 32 if quick else 160)
    with threadpool_limits(1):
        one, two = median_times(
            [lambda: run_skcrbm(energy), lambda: run_skcrbm(energy, n_jobs=2)], n_repeats
        )
    label = f"784 x 256, {energy.n_models} bias pairs"
    row(label, "skcrbm float32, n_jobs=1", one, energy, "")
    row(label, "skcrbm float32, n_jobs=2", two, energy, f"{one / two:.2f} times n_jobs=1")


if __name__ == "__main__":
    main()
