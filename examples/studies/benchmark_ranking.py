"""Two further scores of the fits of `multilabel_benchmark.py`: the ranking and the macro-F1.

Reads the finished fits of the part "test" of the benchmark and prints a Markdown table for each
score, with the means over the splits that are finished for all methods: the label ranking average
precision (LRAP) of the marginals, and the macro-F1 of the labels that have the largest expected F1
in each row. A label that is neither true nor predicted in a split does not count in the macro-F1.

    python -m examples.studies.multilabel_benchmark --part test
    python -m examples.studies.benchmark_ranking
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score, label_ranking_average_precision_score

from examples._harness import OUTPUT, Arrays
from examples.studies._benchmark_methods import METHODS, OURS
from examples.studies._defaults_methods import SEEDS
from examples.studies._defaults_report import labels_of
from examples.studies.multilabel_benchmark import DATA_NAMES

SCORES = ("LRAP", "macro-F1")


def scores_of(fit):
    """Return both scores of a fit, or None without marginals."""
    labels, marginals = labels_of(fit)
    if marginals is None:
        return None
    truth, predicted = fit["truth"], labels["F1"]
    counted = (truth | predicted).any(axis=0)
    macro = f1_score(truth[:, counted], predicted[:, counted], average="macro", zero_division=0)
    return label_ranking_average_precision_score(truth, marginals), macro


def read(store, data_names=DATA_NAMES, methods=METHODS, seeds=SEEDS):
    """Return the mean scores and the number of splits, by data set and method.

    A split of a data set counts if all methods that have a finished fit are finished in it.
    """
    found = {}
    for data in data_names:
        keys = {m: [f"{data}__{m}__seed {seed}" for seed in seeds] for m in methods}
        keys = {m: some for m, some in keys.items() if any(key in store for key in some)}
        finished = [all(key in store for key in some) for some in zip(*keys.values(), strict=True)]
        for method, some in keys.items():
            scores = []
            for key in np.array(some)[finished]:
                with np.load(store.path(key)) as file:
                    scores.append(scores_of(dict(file)))
            if scores and None not in scores:
                found[data, method] = np.mean(scores, axis=0), len(scores)
    return found


def table(found, place):
    """Yield the lines of the table of a score: methods by data sets, the best score in bold."""
    names = list(dict.fromkeys(data for data, _ in found))
    n = {data: count for (data, _), (_, count) in found.items()}
    yield f"| {SCORES[place]} | " + " | ".join(f"{d} ({n[d]} splits)" for d in names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    best = {d: max(scores[place] for (e, _), (scores, _) in found.items() if e == d) for d in names}
    for method in dict.fromkeys(method for _, method in found):
        cells = []
        for data in names:
            entry = found.get((data, method))
            text = f"{entry[0][place]:.3f}" if entry else "–"
            cells.append(f"**{text}**" if entry and entry[0][place] == best[data] else text)
        yield f"| {f'*{method}*' if method in OURS else method} | " + " | ".join(cells) + " |"


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--fits", type=Path, default=OUTPUT / "multilabel_benchmark" / "test", help="their folder"
    )
    parser.add_argument("--sets", nargs="*", default=DATA_NAMES)
    arguments = parser.parse_args()
    found = read(Arrays(arguments.fits), arguments.sets)
    for place in range(len(SCORES)):
        print("", *table(found, place), sep="\n")


if __name__ == "__main__":
    main()
