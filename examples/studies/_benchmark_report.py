"""Tables, intervals and a picture of the fits of `multilabel_benchmark.py`."""

import csv

import matplotlib
import numpy as np

from examples._harness import Arrays, replacing
from examples.studies._benchmark_methods import CONTROLS, METHODS, OURS, RIVALS
from examples.studies._defaults_report import (
    LOWER_IS_BETTER,
    METRICS,
    Fits,
    best_of,
    list_table,
    summary_table,
    verdict,
)

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CHOSEN = {"ours, chosen": OURS, "rival, chosen": RIVALS}
DRAWN = ("subset", "Jaccard", "F1", "log loss")
COLORS = {"ours": "#2060b0", "on the same columns": "#d07000", "others": "0.45"}


def choose(fits, validation):
    """Add, for each split and metric, our method and the rival that are best in validation.

    Returns
    -------
    chosen : dict
        (data, name in CHOSEN, metric) -> the methods, an entry for each split.
    """
    chosen = {}
    for data in fits.data_names:
        for name, methods in CHOSEN.items():
            for seed in fits.seeds:
                key = data, name, seed
                able = [
                    m
                    for m in methods
                    if (data, m, seed) in fits.scores and (data, m, seed) in validation.scores
                ]
                if len(able) < len(methods):
                    continue  # choose no method until all are finished
                fits.scores[key], fits.rows[key] = {}, fits.rows[data, able[0], seed]
                for metric in METRICS:
                    means = {m: validation.scores[data, m, seed].get(metric) for m in able}
                    means = {m: v.mean() for m, v in means.items() if v is not None}
                    best = best_of(metric, means)
                    fits.scores[key][metric] = fits.scores[data, best, seed][metric]
                    chosen.setdefault((data, name, metric), []).append(best)
    return chosen


def data_table(fits, data):
    """Yield the lines of a table: the mean over splits of each metric by method."""
    methods = [m for m in METHODS if fits.seeds_of(data, m)]
    yield "| method | " + " | ".join(METRICS) + " | fit s |"
    yield "|---" * (len(METRICS) + 2) + "|"
    means = {
        metric: {m: v for m in methods if (v := fits.mean(data, m, metric)) is not None}
        for metric in METRICS
    }
    for method in methods:
        entries = []
        for metric, values in means.items():
            entry = f"{values[method]:.3f}" if method in values else "–"
            best = method in values and method == best_of(metric, values)
            entries.append(f"**{entry}**" if best else entry)
        seconds = [fits.facts[data, method, s]["fit_seconds"] for s in fits.seeds_of(data, method)]
        name = f"*{method}*" if method in OURS else method
        yield f"| {name} | " + " | ".join(entries) + f" | {np.mean(seconds):.1f} |"


def chosen_table(fits, chosen):
    """Yield the lines of a table: the methods chosen by validation, on the test rows."""
    yield "| data | metric | ours | score | rival | score | gain [95%] | |"
    yield "|---" * 8 + "|"
    for data in fits.data_names:
        gains = fits.gains(data, *CHOSEN, over_seeds=True)
        for metric, (gain, low, high) in gains.items():
            entries = []
            for name in CHOSEN:
                methods = chosen[data, name, metric]
                entries += [
                    ", ".join(dict.fromkeys(methods)),
                    f"{fits.mean(data, name, metric):.3f}",
                ]
            yield (
                f"| {data} | {metric} | " + " | ".join(entries) + f" | {gain:+.3f} "
                f"[{low:+.3f}, {high:+.3f}] | {verdict(low, high)} |"
            )


def markdown(fits, chosen, comparisons):
    """Return the text of all tables."""
    lines = ["## Chosen by validation", "", *chosen_table(fits, chosen), ""]
    lines += ["## Better / level / worse than the control", ""]
    lines += [*summary_table(comparisons, CONTROLS), ""]
    lines += ["## Where ours is worse than its control", ""]
    lines += [*list_table(comparisons, "worse"), ""]
    for data in fits.data_names:
        n = sorted({len(fits.seeds_of(data, m)) for m in METHODS} - {0})
        if n:
            splits = f"{n[0]}" if len(n) == 1 else f"{n[0]} to {n[-1]}"
            lines += [f"## {data}", "", f"{splits} splits.", "", *data_table(fits, data), ""]
    return "\n".join(lines)


def draw(fits, path):
    """Draw mean and range over splits of each method, a row of panels for each data set."""
    names = [d for d in fits.data_names if any(fits.seeds_of(d, m) for m in METHODS)]
    if not names:
        return
    methods = [m for m in METHODS if any(fits.seeds_of(d, m) for d in names)][::-1]
    same = {rival for rivals in CONTROLS.values() for rival in rivals if "logistic" in rival}
    figure, axes = plt.subplots(
        len(names),
        len(DRAWN),
        figsize=(3 * len(DRAWN) + 2.6, len(names) * (0.21 * len(methods) + 0.5) + 0.5),
        squeeze=False,
        sharey=True,
    )
    for line, data in zip(axes, names, strict=True):
        for axis, metric in zip(line, DRAWN, strict=True):
            for place, method in enumerate(methods):
                kind = "on the same columns" if method in same else "others"
                kind = "ours" if method in OURS else kind
                seeds = fits.seeds_of(data, method)
                values = [fits.scores[data, method, s].get(metric) for s in seeds]
                if values and values[0] is not None:
                    means = [v.mean() for v in values]
                    axis.plot([min(means), max(means)], [place] * 2, color=COLORS[kind], lw=1.2)
                    axis.plot(np.mean(means), place, "o", color=COLORS[kind], ms=5)
            axis.grid(axis="x", alpha=0.3)
            axis.set_title(f"{data}: {metric}", fontsize=10)
            if metric in LOWER_IS_BETTER:
                axis.invert_xaxis()
        line[0].set_yticks(range(len(methods)), methods, fontsize=8)
        line[0].set_ylim(-0.7, len(methods) - 0.3)
    handles = [plt.Line2D([], [], marker="o", color=c, label=k) for k, c in COLORS.items()]
    figure.legend(handles=handles, loc="lower center", ncols=len(COLORS), fontsize=9)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write(fits, folder, data_names, seeds):
    """Write tables, CSV files and the picture into a folder; return the tables.

    Parameters
    ----------
    fits : dict of Arrays
        Fits of the parts "test" and "validation".
    folder : Path
    data_names : list of str
    seeds : iterable of int
    """
    read = {
        part: Fits(
            store, Arrays(folder / f"{part}_scores"), data_names, METHODS, seeds, CONTROLS, {}
        )
        for part, store in fits.items()
    }
    found = read["test"]
    chosen = choose(found, read["validation"])
    comparisons = found.comparisons(over_seeds=True)
    text = markdown(found, chosen, comparisons)
    with replacing(folder / "multilabel_benchmark.md") as file:
        file.write(text)
    with replacing(folder / "multilabel_benchmark.csv") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "method", "ours", "metric", "splits", "mean"])
        for data in data_names:
            for method in (*METHODS, *CHOSEN):
                for metric in METRICS:
                    n, mean = len(found.seeds_of(data, method)), found.mean(data, method, metric)
                    if mean is not None:
                        ours = int(method in OURS or method == "ours, chosen")
                        writer.writerow([data, method, ours, metric, n, f"{mean:.5f}"])
    with replacing(folder / "multilabel_benchmark_gains.csv") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["ours", "rival", "data", "metric", "score", "rival_score", "gain", "low", "high"]
        )
        for row in comparisons:
            writer.writerow([*row[:4], *(f"{number:.5f}" for number in row[4:])])
    draw(found, folder / "multilabel_benchmark.png")
    return text
