"""How small sets of label vectors become: joint models, mixtures and temperatures beside chains.

Further candidates are four CRBMClassifiers with more hidden units, which differ in their seeds, the
blend of the stack with its label-set trees, and the label sets of a forest, smoothed by flips of
single labels.

Yeast, random splits into 1,500 training rows and 917 other rows. Each model is fitted to the
training rows. The other rows are split at random into a half that calibrates and a half that is
covered, many times for each fit; all models see the same splits. The weights of the mixtures and
the temperatures have the largest likelihood of training rows out of fold, so no choice uses the
rows that are covered. "mass" and "probability" are the rules of `ConformalLabelSets`. Prints a
Markdown table with the mean coverage, the mean size of the sets, and the sizes divided by the size
of the sets of the chains with the same rule. With ``--equal`` the parts and all their subsets are
mixed with equal weights, and nothing is fitted out of fold.

    python -m examples.studies.label_set_search [--fits 4] [--splits 25] [--jobs 2]
    python -m examples.studies.label_set_search --fits 1 --equal --parts stack units flips
"""

import argparse
import time
from functools import partial
from itertools import combinations

import numpy as np
from joblib import Parallel, delayed
from scipy import special  # processes of joblib cannot load a single ufunc
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from examples.studies.label_set_sizes import Chains
from skcrbm import CRBMClassifier
from skcrbm.calibration._conformal import conformal_quantile
from skcrbm.datasets import load_yeast
from skcrbm.ensemble import BlendedLabelSets, make_stacked
from skcrbm.pipeline import make_pipeline
from skcrbm.targets.label_sets import all_label_vectors

TEMPERATURES = np.array([0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4])
FLIPS = np.array([0.001, 0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2])
JOINT, STACK = "CRBMClassifier()", "make_stacked(n_estimators=100)"
# Models that a mixture may contain, by a short name for the command line.
PARTS = {
    "joint": JOINT,
    "kernel": "CRBMClassifier() on a kernel",
    "stack": STACK,
    "units": "four CRBMClassifier(n_hidden=10)",
    "flips": "label sets of a forest, with flips",
}
CHAINS = "ten classifier chains, C=0.1"


class FlippedLabelSets(ClassifierMixin, BaseEstimator):
    """Label sets seen in training, by a random forest, of which each label may be flipped.

    The probability of a label vector is a mixture over the seen sets, with the weights that a
    forest on the label sets gives them, in which each label differs from the set with the same
    probability. This probability has the largest likelihood of the training rows out of bag.

    Parameters
    ----------
    n_estimators : int
    random_state : int
    """

    def __init__(self, n_estimators=300, random_state=0):
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X, Y):
        """Fit the forest, and find the probability of a flip."""
        self.classes_ = np.arange(Y.shape[1])
        self.sets_, index = np.unique(Y, axis=0, return_inverse=True)
        options = {"oob_score": True, "min_samples_leaf": 2, "random_state": self.random_state}
        self.forest_ = RandomForestClassifier(self.n_estimators, **options).fit(X, index.ravel())
        weight = np.nan_to_num(self.forest_.oob_decision_function_)
        distance = (self.sets_[:, None] != Y[None]).sum(axis=2).T
        n_labels = Y.shape[1]
        fits = [
            np.log((weight * f**distance * (1 - f) ** (n_labels - distance)).sum(axis=1) + 1e-300)
            for f in FLIPS
        ]
        self.flip_ = FLIPS[np.sum(fits, axis=1).argmax()]
        return self

    def score_label_sets(self, X, label_sets):
        """Return log p(y | x), (n, K)."""
        distance = (self.sets_[:, None] != np.asarray(label_sets)[None]).sum(axis=2)
        n_labels = self.sets_.shape[1]
        flips = self.flip_**distance * (1 - self.flip_) ** (n_labels - distance)
        return np.log(self.forest_.predict_proba(X) @ flips)


class Average(ClassifierMixin, BaseEstimator):
    """Mixture, with equal weights, of classifiers that differ in their seed.

    Parameters
    ----------
    classifier : estimator
    n_seeds : int
    """

    def __init__(self, classifier, n_seeds=4):
        self.classifier = classifier
        self.n_seeds = n_seeds

    def fit(self, X, Y):
        """Fit the classifiers."""
        first = self.classifier.random_state
        self.classes_ = np.arange(Y.shape[1])
        self.classifiers_ = [
            clone(self.classifier).set_params(random_state=first + k).fit(X, Y)
            for k in range(self.n_seeds)
        ]
        return self

    def score_label_sets(self, X, label_sets):
        """Return log p(y | x), (n, K), under the mixture."""
        log_p = [model.score_label_sets(X, label_sets) for model in self.classifiers_]
        return special.logsumexp(log_p, axis=0) - np.log(self.n_seeds)


def models(seed, n_features):
    """Return the models that are fitted, by name."""
    joint = partial(CRBMClassifier, random_state=seed)
    kernel = Nystroem(gamma=1 / n_features, n_components=500, random_state=seed)
    return {
        JOINT: make_pipeline(StandardScaler(), joint()),
        PARTS["kernel"]: make_pipeline(StandardScaler(), kernel, joint()),
        STACK: make_stacked(n_estimators=100, compare=False, random_state=seed),
        PARTS["units"]: make_pipeline(StandardScaler(), Average(joint(n_hidden=10))),
        PARTS["flips"]: FlippedLabelSets(random_state=seed),
        CHAINS: make_pipeline(StandardScaler(), Chains()),
        "ten classifier chains, C=1": make_pipeline(StandardScaler(), Chains(C=1.0)),
    }


def table(model, X, vectors):
    """Return the log-probabilities (n, 2^L) of all label vectors, normalised."""
    return normalised(np.asarray(model.score_label_sets(X, vectors), np.float64))


def normalised(log_p):
    """Return log-probabilities (n, K) whose probabilities add up to 1 in each row."""
    return (log_p - special.logsumexp(log_p, axis=1, keepdims=True)).astype(np.float32)


def independent(proba, vectors):
    """Return the log-probabilities (n, K) of vectors of independent labels."""
    odds = np.log(proba) - np.log1p(-proba)
    return normalised(odds @ vectors.T + special.log_expit(-odds).sum(axis=1, keepdims=True))


def of_rows(log_p, place):
    """Return the entries (n,) of a table at the places of the true vectors."""
    return log_p[np.arange(len(place)), place].astype(np.float64)


def weights_of(own):
    """Return the weights (m,) of the mixture with the largest likelihood; `own` is (m, n)."""
    weight = np.full(len(own), 1 / len(own))
    for _ in range(300):
        share = np.log(weight)[:, None] + own
        weight = np.exp(share - special.logsumexp(share, axis=0)).mean(axis=1)
    return weight


def mixed(tables, weight):
    """Return the table of a mixture."""
    total = np.zeros(tables[0].shape, np.float32)
    for log_p, w in zip(tables, weight, strict=True):
        total += w * np.exp(log_p)
    return np.log(np.maximum(total, np.finfo(np.float32).tiny))


def subsets(parts):
    """Return the subsets of at least two parts, the smallest first."""
    return [some for size in range(2, len(parts) + 1) for some in combinations(parts, size)]


def tempered_losses(log_p, place):
    """Return the log-likelihood of the true vectors for each temperature."""
    return [
        (of_rows(log_p, place) / t - special.logsumexp(log_p / np.float32(t), axis=1)).sum()
        for t in TEMPERATURES
    ]


def evaluate(log_p, place, confidence, n_splits, seed):
    """Return for both rules the mean coverage and the mean and median size over the splits."""
    own = of_rows(log_p, place)
    ordered = np.sort(-log_p.astype(np.float64), axis=1)
    above = np.cumsum(np.exp(-ordered), axis=1) - np.exp(-ordered)
    rank = np.array([np.searchsorted(row, -p - 1e-9) for row, p in zip(ordered, own, strict=True)])
    keys = {
        "mass": (above[np.arange(len(rank)), rank], above),
        "probability": (-own, ordered),
    }
    rng, found = np.random.RandomState(seed), {rule: [] for rule in keys}
    for _ in range(n_splits):
        order = rng.permutation(len(own))
        first, second = np.array_split(order, 2)
        for rule, (score, sizes) in keys.items():
            least = conformal_quantile(score[first], np.ones(len(first)), confidence, "")
            size = [np.searchsorted(sizes[i], least + 1e-9, side="right") for i in second]
            covered = (score[second] <= least + 1e-9).mean()
            found[rule].append((covered, np.mean(size), np.median(size)))
    return found


def weighted(X, Y, seed, parts, tables, blend):
    """Return the table of the mixture, and of models at the best temperature, by name.

    The weights and the temperatures have the largest likelihood of the rows of X out of fold.
    """
    vectors = all_label_vectors(Y.shape[1])
    place = Y @ (1 << np.arange(Y.shape[1])[::-1])
    folds = list(KFold(5, shuffle=True, random_state=seed).split(X))
    inside = {name: [] for name in (*parts, CHAINS)}
    for inner, outer in folds:
        fresh = models(seed, X.shape[1])
        for name, found in inside.items():
            fresh[name].fit(X[inner], Y[inner])
            found.append(table(fresh[name], X[outer], vectors))
    places = [place[outer] for _, outer in folds]
    own = [np.concatenate(list(map(of_rows, inside[name], places))) for name in parts]
    weight = weights_of(np.array(own))
    found = {blend: mixed([tables[name] for name in parts], weight)}
    inside[blend] = [mixed(list(of_fold), weight) for of_fold in zip(*(inside[n] for n in parts))]
    chosen = {}
    for name, log_p in inside.items():
        losses = sum(np.array(tempered_losses(*pair)) for pair in zip(log_p, places))
        chosen[name] = TEMPERATURES[losses.argmax()]
        if chosen[name] != 1:
            tempered = (tables | found)[name] / np.float32(chosen[name])
            found[f"{name}, with a temperature"] = normalised(tempered)
    print(f"fit {seed}: weights {weight.round(2)}, temperatures {chosen}", flush=True)
    return found


def fit_and_evaluate(X, Y, seed, parts, equal, confidence, n_splits):
    """Fit all models to a random split, and return their figures.

    The keys of the figures are the name of a model and a rule, or "log-likelihood". `parts` are the
    names of the models in the mixture, which has equal weights if `equal` is True.
    """
    start, results = time.process_time(), {}
    order = np.random.RandomState(100 + seed).permutation(len(X))
    train, test = order[:1500], order[1500:]
    vectors = all_label_vectors(Y.shape[1])
    bits = 1 << np.arange(Y.shape[1])[::-1]
    place = Y[test] @ bits
    tables, candidates = {}, models(seed, X.shape[1])
    candidates["BlendedLabelSets() of the stack"] = BlendedLabelSets(candidates[STACK])
    for name, model in candidates.items():
        if name in PARTS.values() and name not in (*parts, JOINT):
            continue
        model.fit(X[train], Y[train])
        tables[name] = table(model, X[test], vectors)
    proba = np.clip(candidates[JOINT].predict_proba(X[test]), 1e-9, 1 - 1e-9)
    tables["marginals of CRBMClassifier(), independent"] = independent(proba, vectors)
    if equal:
        for some in subsets(parts):
            title = f"mixture of {', '.join(some)}, equal weights"
            weight = np.full(len(some), 1 / len(some))
            tables[title] = mixed([tables[name] for name in some], weight)
    else:
        blend = f"mixture of {', '.join(parts)}"
        tables |= weighted(X[train], Y[train], seed, parts, tables, blend)
    for name, log_p in tables.items():
        found = evaluate(log_p, place, confidence, n_splits, seed)
        for rule, rows in found.items():
            results[name, rule] = rows
        results[name, "log-likelihood"] = [of_rows(log_p, place).mean()]
    print(f"fit {seed}: {time.process_time() - start:.0f} processor seconds", flush=True)
    return results


def show(results):
    """Print the table."""
    print("\n| model | log-likelihood | rule | covered | mean size | of the chains |")
    print("|---|---|---|---|---|---|")
    for (name, rule), rows in results.items():
        if rule == "log-likelihood":
            continue
        covered, mean, _ = np.mean(rows, axis=0)
        chains = np.mean(results[CHAINS, rule], axis=0)[1]
        likelihood = np.mean(results[name, "log-likelihood"])
        print(
            f"| {name} | {likelihood:.2f} | {rule} | {covered:.3f} | {mean:.0f} | "
            f"{mean / chains:.2f} |",
            flush=True,
        )


def main():
    """Print the table after each fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--fits", type=int, default=4)
    parser.add_argument("--splits", type=int, default=25, help="calibrations for each fit")
    parser.add_argument("--jobs", type=int, default=1, help="fits at the same time")
    parser.add_argument("--confidence", type=float, default=0.9)
    parser.add_argument(
        "--parts", nargs="*", default=["joint", "kernel", "stack"], choices=list(PARTS)
    )
    parser.add_argument(
        "--equal", action="store_true", help="equal weights, for all subsets of the parts"
    )
    arguments = parser.parse_args()
    figures = arguments.equal, arguments.confidence, arguments.splits
    parts = [PARTS[name] for name in arguments.parts]
    data = load_yeast(data_home=arguments.data_home)
    X = np.vstack([data.X_train, data.X_test])
    Y = np.vstack([data.y_train, data.y_test]).astype(np.int64)
    results = {}
    run = Parallel(n_jobs=arguments.jobs, return_as="generator")
    fits = (
        delayed(fit_and_evaluate)(X, Y, seed, parts, *figures) for seed in range(arguments.fits)
    )
    for found in run(fits):
        for key, rows in found.items():
            results.setdefault(key, []).extend(rows)
        show(results)


if __name__ == "__main__":
    main()
