"""Time and memory of structured models: grids of growing size, and chains beside crfsuite.

The first table is for a call of `predict_proba` or `predict` of a `GraphCRF` with two classes on a
square grid, with at most ten iterations, and of `predict` of a `GridCRF`. The second table is for
fits to CoNLL-2000 with the features of `examples.studies.chunking`; crfsuite gets the same lists of
strings. Each row is a process of its own: seconds of the processor in the call, memory of the
process before the call, and the largest memory during the call.

    python -m examples.speed.growth_of_graphs grids    # 2 GB of memory, half a minute
    python -m examples.speed.growth_of_graphs chains     # needs SKCRBM_DATA and python-crfsuite
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from examples.studies import chunking
from skcrbm import ChainCRF, Graph, GraphCRF, GridCRF
from skcrbm.inference import SumProduct

METHODS = {
    "GraphCRF, sum_product": "predict_proba",
    "GraphCRF, max_product": "predict",
    "GridCRF": "predict",
}
# Largest number of nodes of the grids of each program.
MOST_NODES = {"GraphCRF, sum_product": 10**6, "GraphCRF, max_product": 10**6, "GridCRF": 10**7}


def image(side, rng):
    """Return a square image with two classes: blocks of 8 x 8 pixels, and noise."""
    blocks = rng.integers(0, 2, (side // 8 + 1,) * 2)
    labels = blocks.repeat(8, axis=0).repeat(8, axis=1)[:side, :side]
    return labels + rng.normal(size=labels.shape), labels


def grid(side, rng):
    """Return the graph of an image, and its labels."""
    pixels, labels = image(side, rng)
    number = np.arange(side * side).reshape(side, side)
    right = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return Graph(pixels.reshape(-1, 1), np.concatenate([right, down])), labels.ravel()


def memory():
    """Return the memory of the process now, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def measured(call):
    """Return processor seconds of a call, MB before it, and the largest MB of the process."""
    before, started = memory(), time.process_time()
    call()
    seconds = time.process_time() - started
    return seconds, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def predict_grid(method, n_nodes):
    """Measure a prediction for a grid of about `n_nodes` nodes."""
    rng = np.random.default_rng(0)
    make, model = image, GridCRF(alpha=0.01, max_iter=5, n_jobs=1)
    if method != "GridCRF":
        make, model = grid, GraphCRF(
            alpha=0.01, learning="pseudo_likelihood", inference=SumProduct(max_iter=10), n_jobs=1
        )  # fmt: skip
    small, labels = make(24, rng)
    model.fit([small], [labels])
    predict = getattr(model, METHODS[method])
    predict([small])  # compiles the kernels
    large, labels = make(round(n_nodes**0.5), rng)
    return *measured(lambda: predict([large])), labels.size


def fit_chain(name, max_iter):
    """Measure a fit of `ChainCRF` or crfsuite to all sentences."""
    words, tags, y = chunking.read("train")
    X = [chunking.features(*sentence) for sentence in zip(words, tags)]
    models = {
        "ChainCRF": ChainCRF(alpha=2 / len(X), max_iter=max_iter, n_jobs=1),
        "crfsuite": chunking.Crfsuite(max_iter),
    }
    if name == "ChainCRF":
        ChainCRF(alpha=1, max_iter=2).fit(X[:20], y[:20])  # compiles the kernels
    return *measured(lambda: models[name].fit(X, y)), sum(map(len, X))


def main():
    """Start a process for each row, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("grids", "chains", "row"))
    parser.add_argument("row", nargs="*", help="internal: the row of a process of its own")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**k for k in (4, 5, 6, 7)])
    parser.add_argument("--max-iter", type=int, default=20, help="iterations of a fit of chains")
    options = parser.parse_args()
    if options.table == "row":
        name, size = options.row[0], int(options.row[1])
        print(*(predict_grid if name in METHODS else fit_chain)(name, size))
        return
    unit = "node" if options.table == "grids" else "position"
    print(f"| program | {unit}s | seconds | microseconds a {unit} | MB before | MB at most "
          f"| bytes a {unit} |\n|---|---|---|---|---|---|---|")  # fmt: skip
    if options.table == "grids":
        rows = [(method, n) for method in METHODS for n in options.nodes if n <= MOST_NODES[method]]
    else:
        rows = [(name, options.max_iter) for name in ("ChainCRF", "crfsuite")]
    for name, size in rows:
        command = sys.executable, "-m", "examples.speed.growth_of_graphs", "row", name, str(size)
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        seconds, before, most, n = map(float, found)
        print(
            f"| {name} | {n:.0f} | {seconds:.2f} | {seconds / n * 1e6:.2f} | {before:.0f} | "
            f"{most:.0f} | {(most - before) / n * 1e6:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
