"""Speed of training layered graphical models, in a single thread.

Measures milliseconds per batch of 20 images, forward and backward, for the nets of the
demonstration at several numbers of iterations; an epoch of ``Dense(100)`` in turns with an epoch of
scikit-learn's MLPClassifier with the same hidden size and batch; and, with many grey levels, a
batch if Adam moves only the weights that it reads, and if it moves all of them.

    python -m examples.speed.benchmark_layered
    python -m examples.speed.benchmark_layered --only levels
"""

import argparse
import time
import warnings
from unittest import mock

import numpy as np
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from skcrbm import LayeredGMClassifier
from skcrbm.datasets import load_fashion_mnist, load_mnist
from skcrbm.inference import TruncatedInference
from skcrbm.inference.layered.network import LayeredInput
from skcrbm.layers import Conv2d, Dense, HardClamping, Local2d
from skcrbm.learning import Adam, Backpropagation
from skcrbm.learning.data import Batch, Clock

GRID = {"input_shape": (28, 28)}
NETS = {
    "dense, 10 nodes of 11 states": {"layers": (Dense(10, 11),)},
    "dense, 100 binary nodes": {"layers": (Dense(100),)},
    "local": {"layers": (Local2d(7, 5, 2, padding=1), Local2d(17, 5, 2), Dense(10, 11)), **GRID},
    "conv": {"layers": (Conv2d(7, 5, 2, padding=1), Conv2d(17, 5, 2), Dense(10, 11)), **GRID},
}
# Hard clamping: grey levels, dense net, and number of timed batches if all weights are moved.
LEVELS = (
    (32, "F", Dense(100), 100),
    (32, "N", Dense(500), 50),
    (32, "L", Dense(100, 6), 50),
    (256, "F", Dense(100), 50),
    (256, "N", Dense(800), 10),
    (256, "L", Dense(100, 9), 10),
)
# Number of weights from which on steps move only the rows that are read.
LIMIT = "skcrbm.inference.layered.network.ROW_SPARSE_WEIGHTS"
# Milliseconds per training batch of the paper's PyTorch code at T = 5, a single core.
PUBLISHED_CODE = {"dense, 10 nodes of 11 states": 32, "conv": 1140}


def trace_bytes(structure, n_iter, itemsize=4):
    """Return the bytes of the messages and beliefs of an example over all iterations."""
    hidden = structure.connections[1:]
    message = sum(
        (c.n_tables if c.dense else len(c.left)) * (c.n_left_states + c.n_right_states - 2)
        for c in hidden
    )
    belief = sum(n * (s - 1) for n, s in zip(structure.n_nodes[1:], structure.n_states[1:]))
    return itemsize * (n_iter * message + (n_iter + 1) * belief)


def median_ms(function, repeats):
    """Return the median time of a call, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - start))
    return np.median(times)


def batches(X, y, repeats):
    """Print the table of milliseconds per batch."""
    rows = Batch(X[:20], np.eye(10, dtype=np.float32)[y[:20]], np.ones(20), np.arange(20))
    print(
        "| net | T | forward ms | backward ms | step of Adam and the rest ms | batch ms | "
        "times faster | trace kB per image |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, net in NETS.items():
        for n_iter in (1, 3, 5, 10):
            if n_iter <= len(net["layers"]):
                continue  # refused: the output would not see the image
            model = LayeredGMClassifier(
                **net,
                inference=TruncatedInference(n_iter=n_iter),
                solver=Adam(batch_size=20),
                max_iter=1,
                early_stopping=False,
                random_state=0,
            )
            # Parameters as after some training, not at their start.
            model.fit(X[:2000], y[:2000])
            objective = Backpropagation().layered(TruncatedInference(n_iter=n_iter))
            fitted = model._model

            def forward(objective=objective, fitted=fitted):
                objective.loss(fitted, rows)

            def both(objective=objective, fitted=fitted):
                objective.step(fitted, rows, Clock(0, 0), None)

            ahead, total = median_ms(forward, repeats), median_ms(both, repeats)
            start = time.perf_counter()
            model.fit(X[:1000], y[:1000])
            batch = 1e3 * (time.perf_counter() - start) / 50
            faster = ""
            if n_iter == 5 and name in PUBLISHED_CODE:
                faster = f"{PUBLISHED_CODE[name] / batch:.0f}"
            size = trace_bytes(fitted.structure, n_iter) / 1024
            print(
                f"| {name} | {n_iter} | {ahead:.2f} | {total - ahead:.2f} | {batch - total:.2f} "
                f"| {batch:.2f} | {faster} | {size:.0f} |",
                flush=True,
            )


def linearity(X, y, repeats):
    """Print the cost of all messages at each T, also of messages that miss the output."""
    print(
        "\n| net, all messages | T = 1: forward / backward ms | T = 3 | T = 5 | T = 10 | ms per "
        "iteration, least squares | largest deviation |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, net in NETS.items():
        n_iter = len(net["layers"]) + 1
        model = (
            LayeredGMClassifier(
                **net,
                inference=TruncatedInference(n_iter=n_iter),
                max_iter=1,
                early_stopping=False,
                random_state=0,
            )
            .fit(X[:2000], y[:2000])
            ._model
        )
        cells, totals, counts = [], [], np.array([1, 3, 5, 10])
        for t in counts:
            network = TruncatedInference(n_iter=int(t)).network(model)
            inputs = LayeredInput(X[:20], alike=False)  # each row has its own first iteration
            trace = network.run(inputs, complete=True, keep=True)
            d = np.ones_like(trace.beliefs[-1][-1])
            ahead = median_ms(
                lambda network=network, inputs=inputs: network.run(
                    inputs, complete=True, keep=True
                ),
                repeats,
            )
            back = median_ms(
                lambda network=network, trace=trace, d=d: network.gradient(trace, d), repeats
            )
            cells.append(f"{ahead:.2f} / {back:.2f}")
            totals.append(ahead + back)
        slope, start = np.polyfit(counts, totals, 1)
        off = np.max(np.abs(totals - slope * counts - start) / totals[-1])
        print(f"| {name} | {' | '.join(cells)} | {slope:.2f} | {off:.1%} of T = 10 |", flush=True)


def epochs(X, y, turns):
    """Print the table of epochs beside MLPClassifier."""
    layered = LayeredGMClassifier(
        solver=Adam(batch_size=20), max_iter=1, early_stopping=False, random_state=0
    )
    network = MLPClassifier((100,), batch_size=20, max_iter=1, random_state=0)
    layered.fit(X[:500], y[:500])
    seconds = {"LayeredGMClassifier": [], "MLPClassifier": []}
    for _ in range(turns):
        for model in (layered, network):
            start = time.perf_counter()
            model.fit(X, y)
            seconds[type(model).__name__].append(time.perf_counter() - start)
    medians = {name: np.median(values) for name, values in seconds.items()}
    print(f"\n| Dense(100), {len(X)} images, batch 20 | seconds an epoch |\n|---|---|")
    for name, value in medians.items():
        print(f"| {name}, T = 5 |" if name[0] == "L" else f"| {name} |", f"{value:.2f} |")
    print(f"| ratio | {medians['LayeredGMClassifier'] / medians['MLPClassifier']:.2f} |")


def levels(turns):
    """Print the table of batches if many grey levels make large matrices of weights."""
    data = load_fashion_mnist()
    X, y = (data.X_train / 255).astype(np.float32), data.y_train
    print("\n| levels, net | weights | all moved, ms a batch | only rows read | times faster |")
    print("|---|---|---|---|---|")
    for n_levels, name, layer, n_batches in LEVELS:
        model = LayeredGMClassifier(
            layers=(layer,),
            clamping=HardClamping(np.arange(1, n_levels) / n_levels),
            solver=Adam(batch_size=20),
            max_iter=1,
            early_stopping=False,
            random_state=0,
        )
        found = []
        for _ in range(turns):
            for limit, n in ((10**12, n_batches), (0, 200)):
                with mock.patch(LIMIT, limit):
                    found.append(ms_of_a_batch(model, X, y, n))
        everything, read = np.array(found).reshape(turns, 2).T
        n_weights = model.layers_[0].pairwise.size
        print(
            f"| {n_levels}, {name} | {n_weights / 1e6:.1f} million | {np.median(everything):.1f} "
            f"| {np.median(read):.1f} | {np.median(everything / read):.1f} |",
            flush=True,
        )


def ms_of_a_batch(model, X, y, n):
    """Return milliseconds of processor time of a batch: a fit of n batches minus a fit of ten."""
    seconds = []
    for n_batches in (10, 10 + n):
        start = time.process_time()
        model.fit(X[: 20 * n_batches], y[: 20 * n_batches])
        seconds.append(time.process_time() - start)
    return 1e3 * (seconds[1] - seconds[0]) / n


def main():
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--n-images", type=int, default=48000)
    parser.add_argument("--only", choices=["batches", "linearity", "epochs", "levels"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load_mnist()
    X = (data.X_train[: arguments.n_images] / 255).astype(np.float32)
    y = data.y_train[: arguments.n_images]
    with threadpool_limits(1, "blas"):
        for name, table in {
            "batches": lambda: batches(X, y, arguments.repeats),
            "linearity": lambda: linearity(X, y, arguments.repeats),
            "epochs": lambda: epochs(X, y, arguments.turns),
            "levels": lambda: levels(arguments.turns),
        }.items():
            if arguments.only in (None, name):
                table()


if __name__ == "__main__":
    main()
