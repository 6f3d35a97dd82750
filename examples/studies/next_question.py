"""Ask for labels one after the other: the most informative, the least certain, or random labels.

The strategy "expected_f1" asks for the label whose answer raises the expected F1 score most.

The last strategy, "entropy, independent", is the control: the same marginals given x, but an answer
changes the probabilities of no other label.

Fits a CRBMClassifier with default settings to the training rows. For each test row it then asks for
one label after the other, learns the true answer, and updates the distribution of the other labels.
Prints a Markdown table with the number of known labels, the log loss of the whole label vector,
-log p(y | x, known labels), and the F1 score of the rows, if the other labels are predicted by
their marginals.

    python -m examples.studies.next_question [--set yeast] [--questions 5] [--rows 300]
"""

import argparse

import numpy as np
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from examples.studies.label_set_sizes import load
from skcrbm import CRBMClassifier
from skcrbm.annotation import suggest_labels
from skcrbm.targets.wrapped import inner_method

OURS = ("mutual_information", "entropy", "expected_f1")
STRATEGIES = (*OURS, "random", "entropy, independent")


def ask(model, X, known, strategy, proba, rng):
    """Return rows and labels of the next questions, a label for each row."""
    if strategy in OURS:
        found = suggest_labels(model, X, known, strategy=strategy)
        return found.rows, found.labels
    gain = rng.random_sample(known.shape) if strategy == "random" else -np.abs(proba - 0.5)
    return np.arange(len(known)), np.where(np.isnan(known), gain, -1).argmax(axis=1)


def independent_loss(proba, y, known):
    """Return the mean of -log p over the rows, of the labels that are not known."""
    p = np.where(y == 1, proba, 1 - proba)
    return -np.where(np.isnan(known), np.log(p), 0.0).sum(axis=1).mean()


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--set", default="yeast")
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--rows", type=int, default=300, help="number of test rows")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = load(arguments.set, arguments.data_home)
    X, y = data.X_test[: arguments.rows], data.y_test[: arguments.rows]
    model = make_pipeline(StandardScaler(), CRBMClassifier(random_state=arguments.seed))
    model.fit(data.X_train, data.y_train)
    score, proba = inner_method(model, "score_samples"), inner_method(model, "predict_proba")
    print(f"| {arguments.set}: known labels | strategy | log loss | F1 |\n|---|---|---|---|")
    for strategy in STRATEGIES:
        rng = np.random.RandomState(arguments.seed)
        known, first = np.full(y.shape, np.nan), proba(X)
        for asked in range(arguments.questions + 1):
            if strategy == "entropy, independent":
                given = np.where(np.isnan(known), first, known)
                loss = independent_loss(first, y, known)
            else:
                given, loss = proba(X, y_known=known), -score(X, y, y_known=known).mean()
            found = (given >= 0.5).astype(int)
            f1 = f1_score(y, found, average="samples", zero_division=0)
            print(f"| {asked} | {strategy} | {loss:.2f} | {f1:.3f} |", flush=True)
            rows, labels = ask(model, X, known, strategy, first, rng)
            known[rows, labels] = y[rows, labels]


if __name__ == "__main__":
    main()
