"""A single fit, many decoders: which rule suits which metric on Yeast and Scene.

Fits a CRBMClassifier with default settings per data set, on standardised inputs and the published
train/test split. All decoders read the same fitted model; the thresholds come from five more fits,
each without a fifth of the training rows. No training row is empty, so no rule predicts the empty
vector. Prints a Markdown table per data set, with the best figure of each column in bold, and the
figures that do not depend on the decoder: the log loss of the marginals and the mean of log p(y |
x) over the test rows.

    python -m examples.studies.choosing_a_decoder
"""

import argparse
import time

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.decoding import apply_thresholds, decode_marginals, decode_samples, fit_thresholds
from skcrbm.metrics import marginal_log_loss, masked_score
from skcrbm.model_selection import MultilabelStratifiedKFold

METRICS = {
    "Hamming": ("neg_hamming_loss", -1),
    "subset": ("accuracy", 1),
    "Jaccard": ("jaccard_samples", 1),
    "F1": ("f1_samples", 1),
    "micro-F1": ("f1_micro", 1),
    "macro-F1": ("f1_macro", 1),
}
RULES = ("marginal", "label_set", "marginal_map", "expected_jaccard", "expected_f1")


def decoders(model, X, Y, seed):
    """Yield names and functions of test inputs, all for the same fitted model."""
    for rule in RULES:
        yield f'decode="{rule}"', lambda X, r=rule: model.set_params(decode=r).predict(X)
    for metric in ("jaccard", "f1"):

        def from_samples(X, metric=metric):
            drawn = model.sample(X, 200, random_state=seed)
            return decode_samples(drawn, metric, allow_empty=model.allow_empty_)

        yield f'200 samples, "{metric}"', from_samples
    for metric in ("jaccard", "f1"):
        yield (
            f'marginals as if independent, "{metric}"',
            lambda X, m=metric: decode_marginals(
                model.predict_proba(X), m, allow_empty=model.allow_empty_
            ),
        )
    folds = MultilabelStratifiedKFold(5, shuffle=True, random_state=seed)
    unseen = cross_val_predict(clone(model), X, Y, cv=folds, method="predict_proba")
    for metric in ("f1_samples", "f1_micro", "f1_macro"):
        thresholds = fit_thresholds(Y, unseen, metric, allow_empty=model.allow_empty_)
        yield (
            f'threshold for "{metric}"',
            lambda X, t=thresholds: apply_thresholds(
                model.predict_proba(X), t, allow_empty=model.allow_empty_
            ),
        )


def table(data, seed):
    """Fit once and decode by every rule; return rows of name, scores and seconds, and losses."""
    scaler = StandardScaler().fit(data.X_train)
    X, X_test = scaler.transform(data.X_train), scaler.transform(data.X_test)
    model = CRBMClassifier(random_state=seed).fit(X, data.y_train)
    rows = []
    for name, decode in decoders(model, X, data.y_train, seed):
        decode(X_test[:2])  # compile
        start = time.perf_counter()
        found = decode(X_test)
        seconds = time.perf_counter() - start
        scores = [
            sign * masked_score(score, data.y_test, y_pred=found)
            for score, sign in METRICS.values()
        ]
        rows.append((name, scores, seconds))
    log_loss = marginal_log_loss(data.y_test, model.predict_proba(X_test))
    return rows, log_loss, model.score_samples(X_test, data.y_test).mean()


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for load in (load_yeast, load_scene):
        rows, log_loss, log_likelihood = table(load(data_home=arguments.data_home), arguments.seed)
        best = np.max([scores for _, scores, _ in rows], axis=0)
        best[0] = np.min([scores[0] for _, scores, _ in rows])
        print(f"\n{load.__name__.removeprefix('load_').capitalize()}\n")
        print("| decoder | " + " | ".join(METRICS) + " | predict s |")
        print("|---|" + "---|" * (len(METRICS) + 1))
        for name, scores, seconds in rows:
            cells = [
                f"**{value:.3f}**" if f"{value:.3f}" == f"{top:.3f}" else f"{value:.3f}"
                for value, top in zip(scores, best, strict=True)
            ]
            print(f"| {name} | " + " | ".join([*cells, f"{seconds:.2f}"]) + " |", flush=True)
        print(
            f"\nLog loss of the marginals {log_loss:.3f}, log p(y | x) {log_likelihood:.3f} a row."
        )


if __name__ == "__main__":
    main()
