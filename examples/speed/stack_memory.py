"""Memory of the forests of `make_stacked`, and of the whole stack, on generated data.

Each case runs in a process of its own, because the peak of a process never falls. Prints a Markdown
table: peak of the resident memory, size of the pickled forests, and processor seconds. The default
number of trees takes some ten processor minutes; with 20 trees it is a tenth.

    python -m examples.speed.stack_memory --trees 20
    python -m examples.speed.stack_memory --trees 20 --full-trees
"""

import argparse
import multiprocessing
import pickle
import resource
import time
import warnings

import numpy as np

from skcrbm.ensemble import _out_of_bag, make_stacked

# Name: rows, labels, noise, and labels that are on in a row before the thresholds are raised.
CASES = {
    "20,000 rows, 30 labels": (20_000, 30, 0.3, 2.5),
    "5,000 rows, 150 labels": (5_000, 150, 0.4, 4.0),
}


def make_data(n, n_labels, noise, n_on):
    """Draw columns, and labels that depend on each other through eight factors."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 30)).astype(np.float32)
    factors = np.tanh(X[:, :20] @ rng.standard_normal((20, 8)))
    field = 1.2 * factors @ rng.standard_normal((8, n_labels))
    threshold = 1.15 * np.quantile(field, 1 - n_on / n_labels, axis=0)
    return X, (field + noise * rng.logistic(size=field.shape) > threshold).astype(int)


def measure(case, trees, full_trees, whole):
    """Return the cells of a row of the table."""
    warnings.simplefilter("ignore")
    if full_trees:
        _out_of_bag.compact = lambda forest: forest
    X, Y = make_data(*CASES[case])
    stacked = make_stacked(n_estimators=trees, compare=False, n_jobs=2, random_state=0)
    start = time.process_time()
    model = stacked.fit(X, Y) if whole else stacked[0]
    if not whole:
        model.fit_transform(X, Y)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = len(pickle.dumps(model)) / 2**20
    return [len(np.unique(Y, axis=0)), trees, f"{peak:.0f}", f"{size:.0f}", f"{seconds:.0f}"]


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument(
        "--full-trees", action="store_true", help="trees as scikit-learn makes them"
    )
    parser.add_argument("--whole", action="store_true", help="fit the model on the log-odds, too")
    arguments = parser.parse_args()
    print("| data | label sets | trees | peak, MB | pickle, MB | processor s |")
    print("|---|---|---|---|---|---|")
    context = multiprocessing.get_context("spawn")
    for case in CASES:
        with context.Pool(1) as pool:
            options = case, arguments.trees, arguments.full_trees, arguments.whole
            cells = pool.apply(measure, options)
        print(f"| {case} | " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
