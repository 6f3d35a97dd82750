"""Graphs over labels: LabelGraphCRF beside CRBMClassifier, LMBMClassifier and regressions.

The data are Emotions, Scene and Yeast with their published splits. All models have their default
parameters, with which they search their penalty. The control is LabelGraphCRF without edges: a
logistic regression per label with the same penalty. Prints a Markdown table with the mean
log-likelihood of a test row (the weights of LMBMClassifier are trained for a margin, so that its
likelihood is low), the scores of several decoders of the same fit (subset accuracy and Hamming loss
by "map", Jaccard and F1 by the largest expected Jaccard index and F1), and the processor seconds of
the second of two fits, and of the predictions by "map". A second table has outputs with classes:
each row of the digits of scikit-learn, in 4 x 4 coarse pixels, hides the four pixels in the middle;
the outputs are their grey levels (four classes each) and the digit.

    python -m examples.studies.label_graphs
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

from skcrbm import CRBMClassifier, LabelGraphCRF, LMBMClassifier
from skcrbm.datasets import load_mulan, load_scene, load_yeast
from skcrbm.metrics import masked_score

METRICS = {
    "subset": ("accuracy", 1, "map"),
    "Hamming": ("neg_hamming_loss", -1, "marginal"),
    "Jaccard": ("jaccard_samples", 1, "expected_jaccard"),
    "F1": ("f1_samples", 1, "expected_f1"),
}
MODELS = {
    "`LabelGraphCRF()`": LabelGraphCRF(),
    '`LabelGraphCRF(graph="tree")`': LabelGraphCRF(graph="tree"),
    '`LabelGraphCRF(graph="full", learning="pseudo_likelihood")`': LabelGraphCRF(
        graph="full", learning="pseudo_likelihood"
    ),
    "`LabelGraphCRF(graph=[])`": LabelGraphCRF(graph=[]),
    "`CRBMClassifier()`": CRBMClassifier(random_state=0),
    "`LMBMClassifier()`": LMBMClassifier(random_state=0),
}


def fitted(model, X, Y):
    """Return the model after two fits, and the processor seconds of the second."""
    model.fit(X, Y)
    start = time.process_time()
    model.fit(X, Y)
    return time.process_time() - start


def row_of(model, X, X_test, Y, Y_test):
    """Return the cells of a row of the table."""
    seconds = fitted(model, X, Y)
    scores = [model.score_samples(X_test, Y_test).mean()]
    for name, sign, decoder in METRICS.values():
        if isinstance(model, CRBMClassifier) and decoder == "map":
            decoder = "marginal_map"
        start = time.process_time()
        labels = model.set_params(decode=decoder).predict(X_test)
        if name == "accuracy":
            predicting = time.process_time() - start
        scores.append(sign * masked_score(name, Y_test, y_pred=labels))
    return [*(f"{score:.3f}" for score in scores), f"{seconds:.1f}", f"{predicting:.2f}"]


def print_table(header, rows):
    """Print a Markdown table."""
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for cells in rows:
        print(f"| {' | '.join(cells)} |", flush=True)


def labels(data_home, step):
    """Compare the models on data sets with 0/1 labels."""
    sets = {
        "Emotions": load_mulan("emotions", data_home=data_home),
        "Scene": load_scene(data_home=data_home),
        "Yeast": load_yeast(data_home=data_home),
    }
    header = ["data", "model", "log p", *METRICS, "fit, s", "predict, s"]

    def rows():
        for name, data in sets.items():
            X, X_test = (np.asarray(part, float) for part in (data.X_train, data.X_test))
            for title, model in MODELS.items():
                cells = row_of(model, X[::step], X_test, data.y_train[::step], data.y_test)
                yield [name, title, *cells]

    print_table(header, rows())


def digits(step):
    """Compare models on outputs with classes: coarse pixels of digits, and the digit."""
    images, digit = load_digits(return_X_y=True)
    coarse = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    hidden = [5, 6, 9, 10]  # the middle of the image
    X = np.delete(coarse, hidden, axis=1) / 16
    y = np.column_stack([np.digitize(coarse[:, hidden], [4, 8, 12]), digit])
    order = np.random.RandomState(0).permutation(len(y))
    train, test = order[:1000:step], order[1000:]
    known = np.full((len(test), y.shape[1]), np.nan)
    known[:, -1] = y[test, -1]
    models = {
        "`LabelGraphCRF()`": LabelGraphCRF(decode="map"),
        '`LabelGraphCRF(graph="tree")`': LabelGraphCRF(graph="tree", decode="map"),
        "`LabelGraphCRF(graph=[])`": LabelGraphCRF(graph=[], decode="map"),
        "`MultiOutputClassifier(LogisticRegression())`": MultiOutputClassifier(
            LogisticRegression(max_iter=1000)
        ),
        "`RandomForestClassifier()`": RandomForestClassifier(random_state=0),
    }

    def rows():
        for title, model in models.items():
            seconds = fitted(model, X[train], y[train])
            right = model.predict(X[test]) == y[test]
            cells = [f"{right.all(axis=1).mean():.3f}", f"{right.mean():.3f}"]
            if isinstance(model, LabelGraphCRF):
                given = model.predict(X[test], y_known=known) == y[test]
                cells.append(f"{given[:, :-1].mean():.3f}")
                cells.append(f"{model.score_samples(X[test], y[test]).mean():.3f}")
            else:
                cells += ["", ""]
            yield [title, *cells, f"{seconds:.1f}"]

    columns = ["all outputs right", "outputs right", "pixels right, digit known", "log p", "fit, s"]
    print_table(["model", *columns], rows())


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--quick", action="store_true", help="every eighth row")
    arguments = parser.parse_args()
    step = 8 if arguments.quick else 1
    labels(arguments.data_home, step)
    digits(step)


if __name__ == "__main__":
    main()
