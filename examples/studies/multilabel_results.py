"""Scene and Yeast: the CRBM beside scikit-learn's usual multi-label classifiers.

Default settings on standardised inputs, the published train/test splits. Prints one
Markdown table per data set; the rows that beat the CRBM stay in it.

    python -m examples.studies.multilabel_results
"""

import argparse
import time

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from examples._multilabel import LabelPowerset, marginals
from skcrbm import CRBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.metrics import masked_score

METRICS = {
    "Hamming": ("neg_hamming_loss", -1, False),
    "Jaccard": ("jaccard_samples", 1, False),
    "F1": ("f1_samples", 1, False),
    "micro-F1": ("f1_micro", 1, False),
    "subset": ("accuracy", 1, False),
    "log loss": ("neg_log_loss", -1, True),
}


def logistic_regression():
    """Logistic regression, C by 5-fold cross-validation of the log loss."""
    grid = list(np.logspace(-4, 0, 9))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)  # Scene's rows come in blocks
    return LogisticRegressionCV(Cs=grid, scoring="neg_log_loss", cv=folds, max_iter=1000)


def main():
    """Fit everything, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3, help="fits of the CRBM to average")
    arguments = parser.parse_args()

    for load in (load_scene, load_yeast):
        data = load(data_home=arguments.data_home)
        split = data.X_train, data.X_test, data.y_train, data.y_test
        print(f"\n{load.__name__.removeprefix('load_').capitalize()}\n")
        print("| model | " + " | ".join(METRICS) + " | fit s | predict s |")
        print("|---|" + "---|" * (len(METRICS) + 2))
        forest = ExtraTreesClassifier(500, random_state=0, n_jobs=arguments.n_jobs)
        chain = ClassifierChain(logistic_regression(), order="random", random_state=0)
        report(
            "logistic regression per label", [MultiOutputClassifier(logistic_regression())], split
        )
        report("classifier chain of these", [chain], split)
        report("label-powerset extra trees (500)", [LabelPowerset(forest)], split)
        crbm = [
            CRBMClassifier(random_state=seed, n_jobs=arguments.n_jobs)
            for seed in range(arguments.seeds)
        ]
        report('CRBM, decode="marginal"', crbm, split)
        report('CRBM, decode="label_set"', crbm, split, decode="label_set")


def report(name, models, split, decode=None):
    """Print a table row: mean over the models, fitted unless `decode` re-reads them."""
    X, X_test, Y, Y_test = split
    rows = []
    for model in models:
        if decode is None:
            model.pipeline = make_pipeline(StandardScaler(), model)
            start = time.perf_counter()
            model.pipeline.fit(X, Y)
            model.seconds = time.perf_counter() - start
        else:
            model.set_params(decode=decode)
        start = time.perf_counter()
        prediction = model.pipeline.predict(X_test)
        predict_seconds = time.perf_counter() - start
        probability = np.clip(marginals(model.pipeline, X_test), 0, 1)
        scores = [
            sign
            * masked_score(
                scorer,
                Y_test,
                y_pred=None if is_probability else prediction,
                y_score=probability if is_probability else None,
            )
            for scorer, sign, is_probability in METRICS.values()
        ]
        rows.append([*scores, model.seconds, predict_seconds])
    mean = np.mean(rows, axis=0)
    cells = [f"{value:.3f}" for value in mean[:-2]] + [f"{mean[-2]:.1f}", f"{mean[-1]:.2f}"]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
