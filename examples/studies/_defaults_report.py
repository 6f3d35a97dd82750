"""Scores of each test row, intervals and tables for the fits of `defaults_benchmark.py`."""

import csv

import numpy as np

from examples._harness import replacing
from skcrbm.decoding import decode_label_sets, decode_marginals

N_BOOTSTRAP = 2000
METRICS = ("log loss", "log-likelihood", "subset", "Jaccard", "F1", "Hamming")
DECODED = ("subset", "Jaccard", "F1", "Hamming")
LOWER_IS_BETTER = {"log loss", "Hamming"}
# The marginals of a joint model, decoded as the baselines' marginals: a row of its own.
INDEPENDENT = {"CRBM": "CRBM, independent"}
# Our methods, and the methods that they are compared with.
COMPARED = {
    "CRBM": (
        "logistic regression",
        "logistic regression, 0-1 kept",
        "random forest",
        "label-powerset trees",
        "frequencies",
        "CRBM, independent",
        "CRBM raw",
    ),
    "LMBM": ("linear SVM", "linear SVM, 0-1 kept", "LMBM raw"),
}

# --- scores of rows -----------------------------------------------------------------------------


def votes_of_trees(fit):
    """Return P(y_i = 1 | x) of trees; an additional tree that votes 0.5 keeps it off 0 and 1."""
    votes = fit["votes"] if "votes" in fit else fit["sets_proba"] @ fit["sets"].astype(float)
    return (fit["n_trees"] * votes + 0.5) / (fit["n_trees"] + 1)


def on_or_best(values, threshold, allow_empty):
    """Return labels above a threshold; if no row may be empty, at least the largest label."""
    labels = (values >= threshold).astype(int)
    if not allow_empty:
        labels[np.arange(len(labels)), values.argmax(axis=1)] = 1
    return labels


def labels_of(fit, independent=False):
    """Return labels for each metric by its decoder, and marginals if there are any.

    If no training row is empty, no prediction is empty, except for Hamming loss, which would not
    gain. Jaccard and F1 are 1 if no label is true and no label is predicted.
    """
    allow_empty = bool(fit["has_empty"])
    if "labels" in fit:
        return dict.fromkeys(DECODED, fit["labels"]), None
    if "margins" in fit:
        labels = dict.fromkeys(DECODED, on_or_best(fit["margins"], 0, allow_empty))
        return {**labels, "Hamming": on_or_best(fit["margins"], 0, True)}, None
    p = fit["marginals"] if "marginals" in fit else votes_of_trees(fit)
    labels = {"Hamming": on_or_best(p, 0.5, True)}
    expected = {"Jaccard": "jaccard", "F1": "f1"}
    if "sets" in fit:
        sets, weight = fit["sets"], fit["sets_proba"]
        labels["subset"] = sets[weight.argmax(axis=1)]
        for name, metric in expected.items():
            labels[name] = decode_label_sets(sets, weight, metric, allow_empty=allow_empty)
    elif "labels subset" in fit and not independent:
        labels.update({name: fit[f"labels {name}"] for name in ("subset", "Jaccard", "F1")})
    else:
        labels["subset"] = on_or_best(p, 0.5, allow_empty)
        for name, metric in expected.items():
            labels[name] = decode_marginals(p, metric, allow_empty=allow_empty)
    return labels, p


def score_labels(metric, Y, labels):
    """Return the score of each row (n,); an empty prediction for an empty row is perfect."""
    both, wrong = (labels & Y).sum(axis=1), (labels != Y).sum(axis=1)
    if metric == "Hamming":
        return wrong / Y.shape[1]
    if metric == "subset":
        return (wrong == 0).astype(float)
    weight = 2 if metric == "F1" else 1
    return np.where(wrong == 0, 1.0, weight * both / np.maximum(weight * both + wrong, 1))


def score_rows(fit, independent=False):
    """Return every score of every test row, an array (n,) each.

    Parameters
    ----------
    fit : dict of arrays
        As `_defaults_methods.fit` returns it.
    independent : bool
        Read a joint model by its marginals alone.
    """
    Y = fit["truth"]
    labels, p = labels_of(fit, independent)
    scores = {}
    if p is not None:
        tiny = np.finfo(float).eps
        p = np.clip(p, tiny, 1 - tiny)
        log_p = np.log(np.where(Y == 1, p, 1 - p))
        scores["log loss"] = -log_p.mean(axis=1)
        if "log_likelihood" in fit and not independent:
            scores["log-likelihood"] = fit["log_likelihood"]
        elif "sets" not in fit:  # trees give no probability to sets that were not seen
            scores["log-likelihood"] = log_p.sum(axis=1)
    for metric, predicted in labels.items():
        scores[metric] = score_labels(metric, Y, predicted)
    return scores


# --- tables ---------------------------------------------------------------------------------------


class Fits:
    """Scores of all finished fits.

    Parameters
    ----------
    fits, scores : Arrays
        Stores of the fits, and of the scores of their rows.
    data_names, methods : iterable of str
    seeds : iterable of int
    compared : dict
        Our methods, and the methods that each is compared with.
    independent : dict
        Joint models whose marginals get a row of their own, and the name of this row.
    """

    def __init__(
        self, fits, scores, data_names, methods, seeds, compared=COMPARED, independent=INDEPENDENT
    ):
        self.rows, self.scores, self.facts = {}, {}, {}
        self.compared, self.independent = compared, independent
        self.data_names, self.seeds = list(data_names), list(seeds)
        self.methods = []
        for method in methods:
            self.methods += [method, independent[method]] if method in independent else [method]
        for data in self.data_names:
            for method in methods:
                for seed in self.seeds:
                    self._read(fits, scores, data, method, seed)

    def _read(self, fits, scores, data, method, seed):
        key = f"{data}__{method}__seed {seed}"
        if key not in fits:
            return
        with np.load(fits.path(key)) as file:
            fit = dict(file)
        for name in (method, self.independent.get(method)):
            if name is None:
                continue
            score_key = f"{data}__{name}__seed {seed}"
            path = scores.path(score_key)
            if not path.exists() or path.stat().st_mtime < fits.path(key).stat().st_mtime:
                scores.add(score_key, score_rows(fit, independent=name != method))
            with np.load(path) as file:
                self.scores[data, name, seed] = dict(file)
            self.rows[data, name, seed] = fit["rows"]
        small = {name: values.item() for name, values in fit.items() if values.ndim == 0}
        small["n_test"] = len(fit["truth"])
        self.facts[data, method, seed] = small

    def seeds_of(self, data, *methods):
        """Return the seeds for which all methods are finished."""
        return [s for s in self.seeds if all((data, m, s) in self.scores for m in methods)]

    def mean(self, data, method, metric):
        """Return the mean over rows, then over seeds, or None without finished fits."""
        seeds = self.seeds_of(data, method)
        values = [self.scores[data, method, s].get(metric) for s in seeds]
        return np.mean([v.mean() for v in values]) if values and values[0] is not None else None

    def gains(self, data, ours, rival, over_seeds=False):
        """Map each metric to (gain, low, high): the gain of our method with its 95% interval.

        A paired bootstrap over the rows of the data set; a row that is a test row of several
        splits is drawn with all of them. With `over_seeds` the splits are drawn as well.
        """
        seeds = self.seeds_of(data, ours, rival)
        if not seeds:
            return {}
        scores = self.scores[data, ours, seeds[0]], self.scores[data, rival, seeds[0]]
        metrics = [m for m in METRICS if all(m in found for found in scores)]
        n = 1 + max(self.rows[data, ours, s].max() for s in seeds)
        total, count = np.zeros((len(seeds), n, len(metrics))), np.zeros((len(seeds), n))
        for place, s in enumerate(seeds):
            rows = self.rows[data, ours, s]
            assert np.array_equal(rows, self.rows[data, rival, s]), (data, s)
            mine, theirs = (self.scores[data, m, s] for m in (ours, rival))
            for k, metric in enumerate(metrics):
                sign = -1 if metric in LOWER_IS_BETTER else 1
                total[place, rows, k] = sign * (mine[metric] - theirs[metric])
            count[place, rows] = 1
        drawn = count.any(axis=0)
        total, count = total[:, drawn], count[:, drawn]
        n, rng = drawn.sum(), np.random.default_rng(0)
        draws = rng.multinomial(n, np.full(n, 1 / n), N_BOOTSTRAP)
        splits = np.ones((N_BOOTSTRAP, len(seeds)))
        if over_seeds:
            splits = rng.multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), N_BOOTSTRAP)
        sums = np.einsum(
            "bs,bsk->bk", splits, np.einsum("bn,snk->bsk", draws, total, optimize=True)
        )
        counts = (splits * (draws @ count.T)).sum(axis=1)
        low, high = np.percentile(sums / counts[:, None], [2.5, 97.5], axis=0)
        gain = total.sum(axis=(0, 1)) / count.sum()
        return {m: (gain[k], low[k], high[k]) for k, m in enumerate(metrics)}

    def comparisons(self, over_seeds=False):
        """Return rows (ours, rival, data, metric, our score, its score, gain, low, high)."""
        return [
            (ours, rival, data, metric, *(self.mean(data, m, metric) for m in (ours, rival)), *gain)
            for ours, rivals in self.compared.items()
            for rival in rivals
            for data in self.data_names
            for metric, gain in self.gains(data, ours, rival, over_seeds).items()
        ]


def verdict(low, high):
    """Return "better", "worse" or ""."""
    return "better" if low > 0 else "worse" if high < 0 else ""


def best_of(metric, values):
    """Return the name of the best score in a dict."""
    return (min if metric in LOWER_IS_BETTER else max)(values, key=values.get)


def metric_table(fits, metric):
    """Yield the lines of a table: data sets by methods, the mean over seeds."""
    methods = [
        m for m in fits.methods if any(fits.mean(d, m, metric) is not None for d in fits.data_names)
    ]
    yield "| data | " + " | ".join(methods) + " |"
    yield "|---" * (len(methods) + 1) + "|"
    for data in fits.data_names:
        means = {m: fits.mean(data, m, metric) for m in methods}
        means = {m: value for m, value in means.items() if value is not None}
        if not means:
            continue
        best = best_of(metric, means)
        digits = 2 if metric == "log-likelihood" else 4 if metric in LOWER_IS_BETTER else 3
        entries = []
        for method in methods:
            entry = f"{means[method]:.{digits}f}" if method in means else "–"
            entries.append(f"**{entry}**" if method == best else entry)
        yield f"| {data} | " + " | ".join(entries) + " |"


def published_table(fits):
    """Yield the lines of a table of our scores on the published split."""
    yield "| data | " + " | ".join(METRICS) + " |"
    yield "|---" * (len(METRICS) + 1) + "|"
    for data in fits.data_names:
        scores = fits.scores.get((data, "CRBM", 0))
        if scores:
            yield f"| {data} | " + " | ".join(f"{scores[m].mean():.3f}" for m in METRICS) + " |"


def seconds_table(fits):
    """Yield the lines of a table of the mean processor seconds of a fit."""
    methods = [m for m in fits.methods if m not in fits.independent.values()]
    yield "| data | " + " | ".join(methods) + " |"
    yield "|---" * (len(methods) + 1) + "|"
    for data in fits.data_names:
        entries = []
        for method in methods:
            seconds = [fits.facts[data, method, s]["fit_seconds"] for s in
                       fits.seeds_of(data, method)]  # fmt: skip
            entries.append(f"{np.mean(seconds):.2f}" if seconds else "–")
        yield f"| {data} | " + " | ".join(entries) + " |"


def choices_table(fits):
    """Yield the lines of a table of the choices of the CRBM, and its prediction time."""
    yield "| data | alpha | hidden units | ms a row: marginals | subset | Jaccard | F1 |"
    yield "|---" * 7 + "|"
    for data in fits.data_names:
        facts = [fits.facts[data, "CRBM", s] for s in fits.seeds_of(data, "CRBM")]
        if not facts:
            continue
        entries = []
        for name in ("alpha_", "n_hidden_"):
            values = [f"{f[name]:.3g}" for f in facts if name in f]
            entries.append(", ".join(values) or "–")
        for name in ("marginals", "subset", "Jaccard", "F1"):
            each = np.median([f[f"seconds {name}"] / f["n_test"] for f in facts])
            entries.append(f"{1e3 * each:.2f}")
        yield f"| {data} | " + " | ".join(entries) + " |"


def summary_table(comparisons, compared=COMPARED):
    """Yield the lines of a table: sets on which ours is better, level, worse."""
    yield "| | against | " + " | ".join(METRICS) + " |"
    yield "|---" * (len(METRICS) + 2) + "|"
    for ours, rivals in compared.items():
        for rival in rivals:
            entries = []
            for metric in METRICS:
                verdicts = [
                    verdict(*found[-2:])
                    for found in comparisons
                    if (*found[:2], found[3]) == (ours, rival, metric)
                ]
                counts = [verdicts.count(word) for word in ("better", "", "worse")]
                entries.append(" / ".join(map(str, counts)) if verdicts else "–")
            yield f"| {ours} | {rival} | " + " | ".join(entries) + " |"


def list_table(comparisons, word):
    """Yield the lines of a table of all comparisons with a verdict."""
    yield "| | against | data | metric | ours | theirs | gain [95%] |"
    yield "|---" * 7 + "|"
    for ours, rival, data, metric, mine, theirs, gain, low, high in comparisons:
        if verdict(low, high) == word:
            yield (
                f"| {ours} | {rival} | {data} | {metric} | {mine:.4f} | {theirs:.4f} | "
                f"{gain:+.4f} [{low:+.4f}, {high:+.4f}] |"
            )


def markdown(fits, comparisons):
    """Return the text of all tables."""
    lines = ["## Better / level / worse", "", *summary_table(comparisons), ""]
    lines += ["## Where ours is worse", "", *list_table(comparisons, "worse"), ""]
    for metric in METRICS:
        lines += [f"## {metric[0].upper() + metric[1:]}", "", *metric_table(fits, metric), ""]
    lines += ["## The CRBM on the published split", "", *published_table(fits), ""]
    lines += ["## Processor seconds of a fit", "", *seconds_table(fits), ""]
    lines += ["## Chosen by the CRBM", "", *choices_table(fits), ""]
    seeds = {len(fits.seeds_of(d, m)) for d in fits.data_names for m in fits.methods}
    if len(seeds) > 1:
        lines += [f"Fits of between {min(seeds)} and {max(seeds)} seeds are finished.", ""]
    return "\n".join(lines)


def write(fits, stem):
    """Write STEM.md, STEM.csv (means) and STEM_gains.csv (comparisons)."""
    comparisons = fits.comparisons()
    text = markdown(fits, comparisons)
    with replacing(stem.with_suffix(".md")) as file:
        file.write(text)
    with replacing(stem.with_suffix(".csv")) as file:
        writer = csv.writer(file)
        writer.writerow(["data", "method", "metric", "seeds", "mean", "seed_0"])
        for data in fits.data_names:
            for method in fits.methods:
                seeds = fits.seeds_of(data, method)
                for metric in METRICS:
                    mean = fits.mean(data, method, metric)
                    if mean is None:
                        continue
                    first = fits.scores.get((data, method, 0), {}).get(metric)
                    first = "" if first is None else f"{first.mean():.5f}"
                    writer.writerow([data, method, metric, len(seeds), f"{mean:.5f}", first])
    with replacing(stem.with_name(f"{stem.name}_gains.csv")) as file:
        writer = csv.writer(file)
        writer.writerow(
            ["ours", "rival", "data", "metric", "score", "rival_score", "gain", "low", "high"]
        )
        for found in comparisons:
            writer.writerow([*found[:4], *(f"{number:.5f}" for number in found[4:])])
    return text
