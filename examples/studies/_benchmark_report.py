"""What `multilabel_benchmark.py` makes of its fits: scores, intervals, tables, a picture."""

import csv

import numpy as np
from scipy.special import xlogy

from examples.studies._benchmark_picture import draw

N_BOOTSTRAP = 2000
LOWER_IS_BETTER = {"Hamming", "log loss"}
# Metric -> the decoders meant for it, the first that a method has.
DECODERS = {
    "Hamming": ("hinge", "labels", "marginal"),
    "subset": ("hinge", "labels", "label_set", "marginal"),
    "Jaccard": ("hinge", "labels", "threshold", "expected_jaccard"),
    "F1": ("hinge", "labels", "threshold", "expected_f1"),
    "micro-F1": ("hinge", "labels", "threshold", "expected_jaccard"),
    "macro-F1": ("hinge", "labels", "threshold", "expected_f1"),
    "log loss": ("marginals",),
}


def divide(numerator, denominator):
    """Return the quotient, and 0 where the denominator is 0, as scikit-learn has it."""
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
    return np.divide(numerator, denominator, out=np.zeros(shape), where=denominator != 0)


def resampled_scores(Y, labels, weights):
    """Every score of 0/1 labels under each of the row weights (B, n), which sum to 1."""
    on, true = labels == 1, Y == 1
    both, wrong = (on & true).astype(float), (on != true).astype(float)
    n_both, n_wrong = both.sum(axis=1), wrong.sum(axis=1)
    tp, errors = weights @ both, weights @ wrong
    return {
        "Hamming": weights @ wrong.mean(axis=1),
        "subset": weights @ (n_wrong == 0),
        "Jaccard": weights @ divide(n_both, n_both + n_wrong),
        "F1": weights @ divide(2 * n_both, 2 * n_both + n_wrong),
        "micro-F1": divide(2 * tp.sum(axis=1), 2 * tp.sum(axis=1) + errors.sum(axis=1)),
        "macro-F1": divide(2 * tp, 2 * tp + errors).mean(axis=1),
    }


def resampled_log_loss(Y, p, weights):
    """Log loss of marginals per label; as scikit-learn's, of probabilities kept off 0 and 1."""
    tiny = np.finfo(p.dtype).eps
    p = np.clip(p, tiny, 1 - tiny)
    return {"log loss": -weights @ (xlogy(Y, p) + xlogy(1 - Y, 1 - p)).mean(axis=1)}


class Cell:
    """One fitted method on one data set.

    Attributes
    ----------
    fit_seconds : float
    seconds : dict
        Decoder -> processor seconds of prediction.
    scores : dict
        (metric, decoder) -> the score, and those of the bootstrap samples (B + 1,).
    """

    def __init__(self, path, weights):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        Y = arrays["truth"]
        self.fit_seconds = float(arrays["fit_seconds"])
        self.seconds, self.scores = {}, {}
        for name, labels in arrays.items():
            kind, _, decoder = name.partition(" ")
            if kind == "labels":
                self.seconds[decoder] = float(arrays[f"seconds {decoder}"])
                for metric, values in resampled_scores(Y, labels, weights(len(Y))).items():
                    self.scores[metric, decoder] = values
        if "marginals" in arrays:
            p = arrays["marginals"]
            for metric, values in resampled_log_loss(Y, p, weights(len(Y))).items():
                self.scores[metric, "marginals"] = values

    def meant(self, metric):
        """Scores (B + 1,) by the decoder that is meant for the metric, or None."""
        for decoder in DECODERS[metric]:
            if (metric, decoder) in self.scores:
                return self.scores[metric, decoder]
        return None


class Report:
    """Tables and picture of all cells in a folder.

    Parameters
    ----------
    folder : Path
    data_names, methods : list of str
    ours : set of str
        Methods to hold against the best of the others.
    truth : str
        Name of the method that knows the distribution: nobody's rival.
    """

    def __init__(self, folder, data_names, methods, ours, truth):
        self.data_names, self.methods, self.ours, self.truth = data_names, methods, ours, truth
        self._weights = {}
        self.cells = {}
        for data in data_names:
            for method in methods:
                path = folder / f"{data}__{method}.npz".replace(" ", "_")
                if path.exists():
                    self.cells[data, method] = Cell(path, self.weights)

    def weights(self, n):
        """Row weights (B + 1, n): equal ones, then bootstrap samples; the same for all."""
        if n not in self._weights:
            draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), N_BOOTSTRAP)
            self._weights[n] = np.vstack([np.ones(n), draws]) / n
        return self._weights[n]

    def of(self, data):
        """Map the methods to their cells of a data set."""
        return {m: self.cells[data, m] for m in self.methods if (data, m) in self.cells}

    def best(self, data, metric, ours):
        """Return (method, decoder, scores) of the best, of our methods or of the rivals."""
        sign = -1 if metric in LOWER_IS_BETTER else 1
        able = [
            (sign * values[0], method, decoder, values)
            for method, cell in self.of(data).items()
            for (name, decoder), values in cell.scores.items()
            if name == metric and method != self.truth and (method in self.ours) == ours
        ]
        return max(able, key=lambda entry: entry[0])[1:] if able else None

    def gain(self, metric, mine, theirs):
        """Gain over other scores, positive if better, and its 95% interval."""
        sign = -1 if metric in LOWER_IS_BETTER else 1
        difference = sign * (mine - theirs)
        return difference[0], *np.percentile(difference[1:], [2.5, 97.5])

    def write(self, stem):
        """Write STEM.csv, STEM.md and STEM.png."""
        with stem.with_suffix(".csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(
                ["data", "method", "ours", "decoder", "metric", "score", "best_rival",
                 "rival_decoder", "rival_score", "gain", "gain_low", "gain_high",
                 "fit_seconds", "predict_seconds"]
            )  # fmt: skip
            writer.writerows(self.csv_rows())
        stem.with_suffix(".md").write_text("\n".join(self.markdown()) + "\n", encoding="utf-8")
        if self.cells:
            draw(stem.with_suffix(".csv"), stem.with_suffix(".png"), DECODERS, self.truth)

    def csv_rows(self):
        """Every score of every decoder of every method."""
        for data in self.data_names:
            for method, cell in self.of(data).items():
                for (metric, decoder), values in cell.scores.items():
                    row = [data, method, int(method in self.ours), decoder, metric]
                    row.append(f"{values[0]:.5f}")
                    rival = self.best(data, metric, ours=False)
                    if method in self.ours and rival:
                        name, its_decoder, theirs = rival
                        gain = self.gain(metric, values, theirs)
                        row += [name, its_decoder, f"{theirs[0]:.5f}"]
                        row += [f"{number:.5f}" for number in gain]
                    else:
                        row += [""] * 6
                    seconds = cell.seconds.get(decoder)
                    row.append(f"{cell.fit_seconds:.2f}")
                    row.append("" if seconds is None else f"{seconds:.3f}")
                    yield row

    def markdown(self):
        """Yield the lines of all tables."""
        for data in filter(self.of, self.data_names):
            yield from (f"## {data}", "", *self.table(data), "")
        yield from ("## Our best against the best rival", "")
        yield "| data | metric | ours | score | best rival | score | gain [95%] | |"
        yield "|---|---|---|---|---|---|---|---|"
        for data in filter(self.of, self.data_names):
            for metric in DECODERS:
                ours, rival = (self.best(data, metric, ours=which) for which in (True, False))
                if ours and rival:
                    gain, low, high = self.gain(metric, ours[2], rival[2])
                    verdict = "better" if low > 0 else "worse" if high < 0 else ""
                    yield (
                        f"| {data} | {metric} | {ours[0]}, {ours[1]} | {ours[2][0]:.3f} | "
                        f"{rival[0]}, {rival[1]} | {rival[2][0]:.3f} | "
                        f"{gain:+.3f} [{low:+.3f}, {high:+.3f}] | {verdict} |"
                    )

    def table(self, data):
        """Yield a row for each method, each metric by the decoder meant for it."""
        yield "| method | " + " | ".join(DECODERS) + " | fit s | predict s |"
        yield "|---" * (len(DECODERS) + 3) + "|"
        best = {}
        for metric in DECODERS:
            sign = -1 if metric in LOWER_IS_BETTER else 1
            scores = {m: c.meant(metric) for m, c in self.of(data).items() if m != self.truth}
            scores = {m: sign * s[0] for m, s in scores.items() if s is not None}
            best[metric] = max(scores, key=scores.get, default=None)
        for method, cell in self.of(data).items():
            entries = []
            for metric in DECODERS:
                values = cell.meant(metric)
                if values is None:
                    entries.append("–")
                    continue
                entry = f"{values[0]:.3f}"
                entry = f"**{entry}**" if best[metric] == method else entry
                rival = self.best(data, metric, ours=False)
                if method in self.ours and rival:
                    _, low, high = self.gain(metric, values, rival[2])
                    entry += " +" if low > 0 else " −" if high < 0 else ""
                entries.append(entry)
            name = f"*{method}*" if method in self.ours or method == self.truth else method
            predict = np.median(list(cell.seconds.values()))  # over the decoders
            seconds = [f"{cell.fit_seconds:.1f}", f"{predict:.2f}"]
            seconds = ["–", "–"] if method == self.truth else seconds
            yield f"| {name} | " + " | ".join(entries + seconds) + " |"
