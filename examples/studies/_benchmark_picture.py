"""The picture of `multilabel_benchmark.py`, from its CSV file: a line for each method.

python -m examples.studies._benchmark_picture doc/multilabel_benchmark.csv
"""

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

PANELS = {
    "subset": "subset accuracy",
    "Jaccard": "Jaccard index",
    "log loss": "log loss, less is better",
    "seconds": "seconds of the fit",
}
LESS_IS_BETTER = {"log loss"}
OURS, RIVAL = "#2060b0", "#d06010"


def read(path, decoders):
    """Scores of a CSV file, each by the decoder that is meant for the metric.

    Returns
    -------
    dict
        (data, panel, method) -> score.
    list of str
        Data sets, in the order of the file.
    dict
        Method -> whether it is ours, in the order of the file.
    """
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores, ranks = {}, {}
    for row in rows:
        data, method, metric = row["data"], row["method"], row["metric"]
        scores[data, "seconds", method] = max(float(row["fit_seconds"]), 0.05)
        if row["decoder"] not in decoders[metric]:
            continue
        rank = decoders[metric].index(row["decoder"])
        if rank <= ranks.get((data, metric, method), rank):
            ranks[data, metric, method] = rank
            scores[data, metric, method] = float(row["score"])
    methods = {row["method"]: row["ours"] == "1" for row in rows}
    return scores, list(dict.fromkeys(row["data"] for row in rows)), methods


def draw(path, picture, decoders, truth):
    """Draw three metrics and the time of fitting, a column for each data set.

    Parameters
    ----------
    path, picture : Path
        The CSV file, and where the picture goes.
    decoders : dict
        Metric -> the decoders meant for it; the first that a method has counts.
    truth : str
        The method that knows the distribution: a dotted line.
    """
    scores, names, methods = read(path, decoders)
    # Ours first; within both, as in the file.
    order = sorted((m for m in methods if m != truth), key=lambda m: not methods[m])
    place = {method: k for k, method in enumerate(order)}
    figure, axes = plt.subplots(
        len(PANELS),
        len(names),
        figsize=(2.2 + 1.9 * len(names), len(PANELS) * (0.7 + 0.155 * len(order))),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    for axis_row, (metric, title) in zip(axes, PANELS.items(), strict=True):
        for axis, data in zip(axis_row, names, strict=True):
            found = {m: scores[data, metric, m] for m in order if (data, metric, m) in scores}
            _draw_panel(axis, found, methods, place, metric)
            if metric != "seconds" and (data, metric, truth) in scores:
                axis.axvline(scores[data, metric, truth], color="0.4", lw=1.2, ls=":")
            axis.set_title(data, fontsize=10)
        axis_row[len(names) // 2].set_xlabel(title, fontsize=10, fontweight="bold")
        axis_row[0].set_yticks(range(len(order)), order, fontsize=8)
        for label, method in zip(axis_row[0].get_yticklabels(), order, strict=True):
            label.set_color(OURS if methods[method] else "black")
    if order:
        axes[0, 0].set_ylim(len(order) - 0.5, -0.5)
    figure.savefig(picture, dpi=150)
    plt.close(figure)


def _draw_panel(axis, found, methods, place, metric):
    """One metric on one data set: a dot for each method, the best of both sides filled."""
    axis.grid(axis="y", alpha=0.25)
    axis.tick_params(axis="x", labelsize=8)
    axis.tick_params(axis="y", length=0)
    if metric == "seconds":
        axis.set_xscale("log")
    elif found:
        # Who is far off the others sits on the edge of the panel.
        low, high = np.percentile(list(found.values()), [15, 85])
        room = 0.9 * (high - low) + 1e-3
        low, high = max(low - room, min(found.values())), min(high + room, max(found.values()))
        found = {m: float(np.clip(value, low, high)) for m, value in found.items()}
        margin = 0.06 * (high - low) + 1e-4
        limits = low - margin, high + margin
        axis.set_xlim(limits[::-1] if metric in LESS_IS_BETTER else limits)
        axis.xaxis.set_major_locator(plt.MaxNLocator(3))
    for ours in (True, False):
        side = {m: value for m, value in found.items() if methods[m] == ours}
        if not side:
            continue
        color = OURS if ours else RIVAL
        ends = min if metric in ("seconds", *LESS_IS_BETTER) else max
        best = ends(side, key=side.get)
        for method, value in side.items():
            filled = color if method == best and metric != "seconds" else "white"
            axis.plot(value, place[method], "o", ms=6, mfc=filled, mec=color, mew=1.3)
        if metric != "seconds":
            axis.axvline(side[best], color=color, lw=0.8, alpha=0.6, zorder=0)


def main():
    """Draw again what a CSV file says, beside it."""
    from examples.studies._benchmark_report import DECODERS
    from examples.studies.multilabel_benchmark import TRUTH

    path = Path(sys.argv[1])
    draw(path, path.with_suffix(".png"), DECODERS, TRUTH)


if __name__ == "__main__":
    main()
