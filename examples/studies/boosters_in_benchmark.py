"""LightGBM and CatBoost on the data sets, splits and scores of `multilabel_benchmark.py`.

LightGBM is fitted for each label, CatBoost to all labels at once, both with their default settings
(CatBoost with 100 trees). "Own" labels are those with a probability of at least 1/2. "Our rules"
choose labels from the same probabilities by the rule that is made for each metric. Finished fits
are kept in the output folder, so that the program can be stopped and restarted. The fits of the
benchmark itself, if they are in ``--benchmark``, are compared with the boosters by the paired
bootstrap of the benchmark.

Writes a CSV file with the means over the splits, and prints a Markdown table for each data set: the
methods of ours and the others that the benchmark chose by validation (from
doc/multilabel_benchmark.csv), and the boosters. The two packages are not installed with skcrbm:
`pip install lightgbm catboost`.

    python -m examples.studies.boosters_in_benchmark [--only Yeast LightGBM] [--no-run]
"""

import csv
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import label_ranking_average_precision_score
from threadpoolctl import threadpool_limits

from examples._harness import OUTPUT, Arrays, make_parser, replacing, results_path, run_missing
from examples.studies._benchmark_methods import METHODS, rows_of
from examples.studies._defaults_methods import OWN_DECODERS, SEEDS, timed
from examples.studies._defaults_report import LOWER_IS_BETTER, METRICS, Fits, verdict
from examples.studies.boosters import boosters
from skcrbm import DecodedClassifier
from skcrbm.utils.classifiers import label_marginals

DATA_NAMES = ("emotions", "birds", "pairs", "groups", "Scene", "Yeast")
BOOSTERS = ("LightGBM", "CatBoost")
TITLES = [f"{name}, {labels}" for name in BOOSTERS for labels in ("own", "our rules")]
OURS = "CRBM on forests"
PUBLISHED = Path(__file__).parents[2] / "doc" / "multilabel_benchmark.csv"
CHOSEN = {"ours, chosen": "ours", "rival, chosen": "others"}


def fit(data, name, seed, quick):
    """Fit a booster; return its predictions for the test rows by its own labels and by our rules.

    The result has the keys "own" and "our rules", and the arrays of the benchmark as values.
    """
    X, Y, X_test, Y_test, rows = rows_of(data, seed, "test", quick)
    model = boosters(seed, 10 if quick else 100)[name]
    _, seconds = timed(lambda: model.fit(X, Y))
    proba = label_marginals(model.predict_proba(X_test), getattr(model, "classes_", None))
    facts = {
        "fit_seconds": seconds,
        "truth": Y_test.astype(np.int8),
        "rows": rows,
        "has_empty": bool((Y.sum(axis=1) == 0).any()),
        "marginals": proba,
    }
    own, ours = (proba >= 0.5).astype(np.int8), {}
    for metric, rule in OWN_DECODERS.items():
        decoded = DecodedClassifier(FrozenEstimator(model), decode=rule).fit(X, Y)
        ours[f"labels {metric}"] = decoded.predict(X_test).astype(np.int8)
    return {
        "own": {**facts, **dict.fromkeys(ours, own)},
        "our rules": {**facts, **ours},
    }


class Both:
    """Store of the two results of each fit, with a key for each."""

    def __init__(self, store):
        self.store = store

    def __contains__(self, key):
        return all(part in self.store for part in self._keys(key))

    def _keys(self, key):
        data, name, seed = key.split("__")
        return [f"{data}__{name}, {labels}__{seed}" for labels in ("own", "our rules")]

    def add(self, key, found):
        """Write both results."""
        for part, arrays in zip(self._keys(key), found.values(), strict=True):
            self.store.add(part, arrays)


def cells(quick):
    """Yield the key of every fit and its function; LightGBM comes first."""
    for name in BOOSTERS:
        for data in DATA_NAMES:
            for seed in SEEDS:
                yield f"{data}__{name}__seed {seed}", partial(fit, data, name, seed, quick)


def published():
    """Return the means of the methods that the benchmark chose by validation."""
    with PUBLISHED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(r["data"], r["method"], r["metric"]): float(r["mean"]) for r in rows}


def ranking(store, data, title, seeds):
    """Return the mean label ranking average precision over the splits."""
    found = []
    for seed in seeds:
        with np.load(store.path(f"{data}__{title}__seed {seed}")) as file:
            found.append(label_ranking_average_precision_score(file["truth"], file["marginals"]))
    return np.mean(found)


def place(metric, ours, theirs):
    """Return "first", "draw" or "behind" for our score beside the best of their scores.

    Scores that are equal after rounding to two decimals, or three for losses, are a draw.
    """
    digits = 3 if metric in LOWER_IS_BETTER else 2
    best = (min if metric in LOWER_IS_BETTER else max)(theirs)
    sign = -1 if metric in LOWER_IS_BETTER else 1
    gain = round(sign * (ours - best), digits)
    return "first" if gain > 0 else "behind" if gain < 0 else "draw"


def table(found, store, means, data):
    """Yield the lines of the table of a data set."""
    titles = [t for t in TITLES if found.seeds_of(data, t)]
    yield f"| {data} | " + " | ".join([*METRICS, "LRAP", "s"]) + " |"
    yield "|---" * (len(METRICS) + 3) + "|"
    for method, shown in CHOSEN.items():
        entries = [f"{means[data, method, m]:.3f}" for m in METRICS]
        yield f"| {shown} | " + " | ".join(entries) + " | | |"
    for title in titles:
        seeds = found.seeds_of(data, title)
        entries = [f"{found.mean(data, title, m):.3f}" for m in METRICS]
        entries.append(f"{ranking(store, data, title, seeds):.3f}")
        seconds = np.mean([found.facts[data, title, s]["fit_seconds"] for s in seeds])
        yield f"| {title} | " + " | ".join(entries) + f" | {seconds:.0f} |"
    places = []
    for metric in METRICS:
        theirs = [found.mean(data, title, metric) for title in titles]
        theirs.append(means[data, "rival, chosen", metric])
        places.append(place(metric, means[data, "ours, chosen", metric], theirs))
    yield "| place of ours | " + " | ".join(places) + " | | |"


def gains(found, store, benchmark):
    """Yield the lines of a table: gains of a joint model over the boosters, with intervals."""
    yield f"| data | metric | {OURS} | booster | score | gain [95%] | |"
    yield "|---" * 7 + "|"
    for data in DATA_NAMES:
        for title in TITLES[1::2]:
            for metric, (gain, low, high) in found.gains(data, OURS, title, True).items():
                mine, theirs = (found.mean(data, m, metric) for m in (OURS, title))
                yield (
                    f"| {data} | {metric} | {mine:.3f} | {title} | {theirs:.3f} | {gain:+.3f} "
                    f"[{low:+.3f}, {high:+.3f}] | {verdict(low, high)} |"
                )


class Together:
    """The fits of two stores, read as one store."""

    def __init__(self, *stores):
        self.stores = stores

    def __contains__(self, key):
        return any(key in store for store in self.stores)

    def path(self, key):
        """Return the path of the file of a fit."""
        return next(store for store in self.stores if key in store).path(key)


def write(store, benchmark, folder):
    """Write the CSV file with the means; return the text of the tables."""
    fits, scores = Together(store, benchmark), Arrays(folder / "scores")
    names = [*TITLES, *METHODS]
    found = Fits(fits, scores, DATA_NAMES, names, SEEDS, compared={}, independent={})
    with replacing(folder / "boosters_in_benchmark.csv") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "method", "metric", "splits", "mean"])
        for data in DATA_NAMES:
            for title in TITLES:
                for metric in METRICS if found.seeds_of(data, title) else ():
                    n, mean = len(found.seeds_of(data, title)), found.mean(data, title, metric)
                    writer.writerow([data, title, metric, n, f"{mean:.5f}"])
    lines, means = [], published()
    for data in DATA_NAMES:
        if any(found.seeds_of(data, t) for t in TITLES):
            lines += [*table(found, store, means, data), ""]
    return "\n".join([*lines, *gains(found, store, benchmark)])


def main():
    """Run the fits that are not finished; print the tables."""
    parser = make_parser(__doc__, "boosters_in_benchmark", "200 rows of each set, few trees")
    parser.add_argument(
        "--benchmark",
        type=Path,
        default=OUTPUT / "multilabel_benchmark" / "test",
        help="folder of the fits of the benchmark",
    )
    arguments = parser.parse_args()
    folder = results_path(arguments)
    store = Arrays(folder / "fits", arguments.quick)
    if not arguments.no_run:
        warnings.filterwarnings("ignore")
        with threadpool_limits(1):
            run_missing(cells(arguments.quick), Both(store), arguments.only, arguments.list)
    if not arguments.list:
        print(write(store, Arrays(arguments.benchmark), folder))


if __name__ == "__main__":
    main()
