"""Speed of message passing.

Measures ten iterations on restricted Boltzmann machines in a single thread: the compiled kernels of
skcrbm in float32 against the matrix form of Ping and Ihler (2017) in NumPy, float64, and, if
PyTorch is installed, against log-domain belief propagation in PyTorch, float32, eager and compiled.
Every number comes from the same run, and the programs take turns, so that a busy machine slows all.
The limits of the machine are measured, too: vector divisions per second, and the bandwidth of the
L2 cache and of the memory.

Run it as ``python -m examples.speed.benchmark_inference``; ``--quick`` repeats less.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer

N_ITER = 10
METHODS = ("sum_product", "mixed_product", "max_product", "mean_field", "tree_reweighted")


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _message(odds, on, off, simplified):
    """Compute equations 13 and 14: messages M as probabilities, and as log-odds."""
    ratio = (odds * on + off) / (on + off)
    if simplified:  # sigma(log x) = x / (1 + x), and its log-odds are log x
        return ratio / (1 + ratio), np.log(ratio)
    message = _sigmoid(np.log(ratio))
    return message, np.log(message / (1 - message))


def matrix_sum_product(weights, visible_bias, hidden_bias, n_iter, simplified=False):
    """Run sum-product on an RBM in the matrix form of Ping and Ihler (2017), section 5.2.

    Both message matrices are kept as (V, H), so that no step walks through memory
    across the rows, and visible units send first; otherwise the equations are as printed, with
    full-size temporaries.

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
    tau_v = _sigmoid(visible_bias)
    column = tau_v[:, None]
    up, log_odds = _message(odds, column, 1 - column, simplified)  # visible -> hidden, M^hv'
    tau_h = _sigmoid(hidden_bias + log_odds.sum(0))
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


def torch_sum_product(compiled):
    """Run log-domain belief propagation on a batch in PyTorch; None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    softplus = torch.nn.functional.softplus

    def iterate(w, b, c, theta_h, up):
        x = theta_h[:, None, :] - up
        down = softplus(w + x) - softplus(x)
        theta_v = b + down.sum(2)
        y = theta_v[:, :, None] - down
        up = softplus(w + y) - softplus(y)
        return theta_v, c + up.sum(1), up

    step = torch.compile(iterate) if compiled else iterate

    def run(energy):
        w, b, c = (torch.from_numpy(a) for a in (energy.weights, *energy.fields))
        with torch.no_grad():
            up = softplus(w + b[:, :, None]) - softplus(b[:, :, None])
            theta_h = c + up.sum(1)
            for _ in range(N_ITER):
                theta_v, theta_h, up = step(w, b, c, theta_h, up)
        return torch.sigmoid(torch.cat([theta_v, theta_h], 1)).numpy()

    return run


def random_rbm(n_visible, n_hidden, n_models, seed=0):
    """Draw a batch of RBMs with weights N(0, 0.1^2) and biases N(0, 1), float32."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((n_visible, n_hidden), dtype=np.float32)
    weights *= 0.1
    return RBMEnergy(
        weights,
        rng.normal(0, 1, (n_models, n_visible)).astype(np.float32),
        rng.normal(0, 1, (n_models, n_hidden)).astype(np.float32),
    )


def run_skcrbm(energy, returns=("marginals",), n_jobs=1):
    """Run ten iterations; with tol=0 no model stops earlier."""
    return infer(energy, "sum_product", max_iter=N_ITER, tol=0, returns=returns, n_jobs=n_jobs)


def run_matrix(energy, simplified):
    """Run ten iterations of the matrix form on each model, in float64."""
    weights, b, c = (a.astype(np.float64) for a in (energy.weights, *energy.fields))
    return np.array(
        [
            np.concatenate(matrix_sum_product(weights, b[n], c[n], N_ITER, simplified)[:2])
            for n in range(energy.n_models)
        ]
    )


def median_times(sides, n_repeats):
    """Return the median seconds of several functions, which take turns of at least 0.1 s."""
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
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@numba.njit(error_model="numpy")
def _divide(x, y, repeats):
    for _ in range(repeats):
        for j in range(x.shape[0]):
            x[j] = y[j] / x[j]


@numba.njit
def _stream(x, y, repeats):
    """Read two arrays and write a third, as a sweep over couplings and messages does."""
    for _ in range(repeats):
        for j in range(x.shape[0]):
            y[j] = x[j] + y[j]


def machine_limits():
    """Print float32 divisions per second and the bandwidth of cache and memory."""
    x, y = np.full(2048, 1.5, np.float32), np.full(2048, 2.5, np.float32)
    _divide(x, y, 1)
    seconds = min(_timed(lambda: _divide(x, y, 1000)) for _ in range(20))
    print(f"- vector divisions, float32: {2048 * 1000 / seconds / 1e9:.2f} G/s, ", end="")
    print(f"{seconds / 2048e3 * 1e9:.2f} ns each")
    for label, size in (("512 KiB, in the L2 cache", 2**16), ("256 MiB", 2**25)):
        x, y = np.ones(size, np.float32), np.ones(size, np.float32)
        repeats = max(1, 2**25 // size)
        _stream(x, y, 1)
        seconds = min(_timed(lambda x=x, y=y, r=repeats: _stream(x, y, r)) for _ in range(10))
        print(f"- read 8, write 4 bytes ({label}): {12 * size * repeats / seconds / 1e9:.1f} GB/s")
    print()


def _timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def run_method(energy, method):
    """Run ten iterations of a message passing method."""
    return infer(energy, method, max_iter=N_ITER, tol=0)


def growth(n_repeats):
    """Print the cost over three decades of edges x iterations x models, and its exponent."""
    cases = [(300, 100, 10, 4), (300, 100, 100, 4), (784, 256, 20, 10), (784, 256, 10, 64)]
    cases += [(1000, 500, 50, 12), (784, 256, 10, 640)]
    print("| V x H, iterations, models | edges x iterations x models | seconds | ns each |")
    print("|---|---|---|---|")
    work, seconds = [], []
    for v, h, n_iter, n in cases:
        energy = random_rbm(v, h, n)
        sides = [lambda e=energy, t=n_iter: infer(e, "sum_product", max_iter=t, tol=0, n_jobs=1)]
        seconds += median_times(sides, n_repeats)
        work.append(v * h * n_iter * n)
        each = seconds[-1] / work[-1] * 1e9
        print(f"| {v} x {h}, {n_iter}, {n} | {work[-1]:.3g} | {seconds[-1]:.4g} | {each:.3g} |")
    slope = np.polyfit(np.log(work), np.log(seconds), 1)[0]
    print(f"\nExponent: {slope:.3f} (1 is linear); a call costs some 0.2 ms besides.\n")


_MEMORY = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from examples.speed.benchmark_inference import random_rbm
from skcrbm.inference import infer
infer(random_rbm(4, 4, 1), "sum_product")
energy = random_rbm(10000, 2000, 1)
def memory(line):
    status = Path("/proc/self/status").read_text()
    return int(status.split(line + ":")[1].split()[0]) / 1024
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
infer(energy, "sum_product", tol=1e-3, max_iter=100)
print(before, memory("VmHWM"))
"""


def large_model():
    """Run 10000 x 2000 units to convergence in a new process: seconds and peak memory."""
    energy = random_rbm(10000, 2000, 1)
    start = time.perf_counter()
    result = infer(energy, "sum_product", tol=1e-3, max_iter=100)
    seconds = time.perf_counter() - start
    print(
        f"10000 x 2000, weights N(0, 0.1^2), tol 1e-3: {seconds:.2f} s, {result.n_iter[0]} "
        f"iterations, converged: {bool(result.converged[0])}."
    )
    if not Path("/proc/self/clear_refs").exists():
        return
    script = _MEMORY.format(folder=str(Path(__file__).parents[2]))
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    before, peak = map(float, answer.stdout.split())
    matrix = energy.weights.nbytes / 2**20
    print(
        f"A matrix takes {matrix:.0f} MiB; the call needed {peak - before:.0f} MiB at its peak, "
        f"that is {(peak - before) / matrix:.2f} matrices besides the couplings."
    )


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
    machine_limits()

    print("| model | program | seconds | ns per edge, iteration and model | times faster |")
    print("|---|---|---|---|---|")

    def row(label, what, seconds, energy, faster):
        edges = energy.n_visible * energy.n_hidden * energy.n_models * N_ITER
        print(f"| {label} | {what} | {seconds:.4g} | {seconds / edges * 1e9:.3g} | {faster} |")

    compared = {"eager": torch_sum_product(False), "compiled": torch_sum_product(True)}
    for n_visible, n_hidden, n_models in ((1000, 500, 1), (784, 256, 4 if quick else 20)):
        energy = random_rbm(n_visible, n_hidden, n_models)
        label = f"{n_visible} x {n_hidden}, {n_models} bias pair{'s' * (n_models > 1)}"
        sides = {
            "NumPy float64, as printed": lambda e=energy: run_matrix(e, simplified=False),
            "NumPy float64, simplified": lambda e=energy: run_matrix(e, simplified=True),
            "skcrbm float32, marginals": lambda e=energy: run_skcrbm(e),
            "and pairwise beliefs and log Z": lambda e=energy: run_skcrbm(e, all_returns),
        }
        for name, run in compared.items():
            if run is not None:
                run(energy)  # compile
                sides[f"PyTorch float32, log domain, {name}"] = lambda e=energy, r=run: r(e)
        with threadpool_limits(1):
            seconds = median_times(list(sides.values()), n_repeats)
            error = np.abs(run_skcrbm(energy).marginals - run_matrix(energy, False)).max()
        for what, spent in zip(sides, seconds, strict=True):
            row(label, what, spent, energy, f"{seconds[0] / spent:.1f}")
        print(f"| {label} | largest difference of a marginal: {error:.1e} | | | |")

    for n_models in (20, 32 if quick else 160):  # a batch in training, and a batch in prediction
        energy = random_rbm(784, 256, n_models)
        with threadpool_limits(1):
            one, two = median_times(
                [
                    lambda e=energy: run_skcrbm(e),
                    lambda e=energy: run_skcrbm(e, n_jobs=2),
                ],
                n_repeats,
            )
        label = f"784 x 256, {n_models} bias pairs"
        row(label, "skcrbm float32, n_jobs=1", one, energy, "")
        row(label, "skcrbm float32, n_jobs=2", two, energy, f"{one / two:.2f} times n_jobs=1")

    print("\nAll methods, ns per edge, iteration and model, float32, one thread:\n")
    print(f"| model | {' | '.join(METHODS)} |")
    print("|---|" + "---|" * len(METHODS))
    for n_visible, n_hidden, n_models in ((400, 256, 10), (784, 256, 10), (1000, 500, 4)):
        energy = random_rbm(n_visible, n_hidden, n_models)
        for method in METHODS:
            run_method(energy, method)
        sides = [lambda e=energy, m=method: run_method(e, m) for method in METHODS]
        with threadpool_limits(1):
            seconds = median_times(sides, n_repeats)
        edges = n_visible * n_hidden * n_models * N_ITER
        cells = " | ".join(f"{t / edges * 1e9:.3g}" for t in seconds)
        print(f"| {n_visible} x {n_hidden}, {n_models} bias pairs | {cells} |")
    print()
    growth(n_repeats)
    large_model()


if __name__ == "__main__":
    main()
