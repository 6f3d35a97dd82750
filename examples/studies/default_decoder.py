"""The price of a default: label sets of `CRBMClassifier()` by four rules on eleven data sets.

Fits a CRBMClassifier with default settings on the published split of each data set (70 % of the
rows if there is none), and predicts the test rows by each rule. Prints a Markdown table for each
metric, and the means over the data sets, including the mean rank of each rule.

    python -m examples.studies.default_decoder [--sets emotions Scene] [--jobs 2]
"""

import argparse

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler

from examples.studies._defaults_methods import DATA, split
from skcrbm import CRBMClassifier
from skcrbm.metrics import masked_score

RULES = ("marginal", "label_set", "expected_jaccard", "expected_f1")
METRICS = {
    "Hamming loss": "neg_hamming_loss",
    "subset accuracy": "accuracy",
    "Jaccard index": "jaccard_samples",
    "F1": "f1_samples",
    "micro-F1": "f1_micro",
    "macro-F1": "f1_macro",
}


def scores_of(name, seed):
    """Return the scores (rules, metrics) on the test rows, and the number of labels."""
    X, Y, train, test = split(name, seed)
    scaler = StandardScaler().fit(X[train])
    model = CRBMClassifier(random_state=0).fit(scaler.transform(X[train]), Y[train])
    inputs = scaler.transform(X[test])
    scores = np.empty((len(RULES), len(METRICS)))
    for r, rule in enumerate(RULES):
        labels = model.set_params(decode=rule).predict(inputs)
        scores[r] = [masked_score(m, Y[test], y_pred=labels) for m in METRICS.values()]
    scores[:, 0] *= -1
    return scores, Y.shape[1]


def table(title, scores, lower_is_better):
    """Print the scores (sets, rules) of a metric, by name of the set, with the best in bold."""
    print(f"\n| {title} | " + " | ".join(f'"{rule}"' for rule in RULES) + " |")
    print("|---|" + "---|" * len(RULES))
    for name, row in scores.items():
        best = min(row) if lower_is_better else max(row)
        cells = [f"**{v:.3f}**" if f"{v:.3f}" == f"{best:.3f}" else f"{v:.3f}" for v in row]
        print(f"| {name} | " + " | ".join(cells) + " |")
    values = np.array(list(scores.values()))
    print("| mean | " + " | ".join(f"{v:.3f}" for v in values.mean(axis=0)) + " |")
    ranks = rankdata(values if lower_is_better else -values, axis=1).mean(axis=0)
    print("| mean rank | " + " | ".join(f"{v:.1f}" for v in ranks) + " |", flush=True)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(DATA))
    parser.add_argument("--jobs", type=int, default=1, help="data sets at the same time")
    parser.add_argument("--seed", type=int, default=0, help="split; 0 is the published split")
    arguments = parser.parse_args()
    found = Parallel(n_jobs=arguments.jobs)(
        delayed(scores_of)(name, arguments.seed) for name in arguments.sets
    )
    titles = [
        f"{name} ({n_labels})" for name, (_, n_labels) in zip(arguments.sets, found, strict=True)
    ]
    for m, metric in enumerate(METRICS):
        scores = {title: s[:, m] for title, (s, _) in zip(titles, found, strict=True)}
        table(metric, scores, metric == "Hamming loss")


if __name__ == "__main__":
    main()
