"""What known labels tell about the others: Yeast, none to three quarters of them given.

A joint model predicts the remaining labels given those that are known (`y_known`); the same
model without hidden units, one logistic regression per label, cannot learn from them.
Prints accuracy and log loss of the labels left, and writes a picture: log loss of the
unknown labels against the share of labels that are known, and the correlations of the
labels of one test row before and after two of its labels are known.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.datasets import load_yeast
from skcrbm.metrics import masked_score

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

SHARES = (0.0, 0.25, 0.5, 0.75)


def loss_of_the_rest(model, X, Y, share, seed=0):
    """Accuracy and log loss of the labels that are not given."""
    given = np.random.RandomState(seed).random_sample(Y.shape) < share
    proba = model.predict_proba(X, y_known=np.where(given, Y, np.nan))
    rest = np.where(given, np.nan, Y)
    found = (proba >= 0.5).astype(int)
    return (
        1 + masked_score("neg_hamming_loss", rest, y_pred=found),
        -masked_score("neg_log_loss", rest, y_score=proba),
    )


def correlations(model, x, known):
    """Correlations of the labels of one row, 0 for those that are certain."""
    pairs = model.predict_pairwise_proba(x, y_known=known)[0]
    mean = np.diagonal(pairs)
    scale = np.sqrt(mean * (1 - mean))
    scale = np.outer(scale, scale)
    covariance = pairs - np.outer(mean, mean)
    return np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-6)


def draw(curves, before, after, path):
    """One picture of three panels."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    for name, values in curves.items():
        axes[0].plot(SHARES, [loss for _, loss in values], marker="o", label=name)
    axes[0].set(xlabel="share of labels known", ylabel="log loss of the others")
    axes[0].legend(frameon=False)
    for ax, matrix, title in ((axes[1], before, "nothing known"), (axes[2], after, "two known")):
        matrix = matrix - np.diag(np.diagonal(matrix))
        image = ax.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set(title=f"label correlations, {title}", xlabel="label", ylabel="label")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes[1:])
    figure.savefig(path, dpi=110)


def main():
    """Fit two models, print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--output", default="examples/output/known_labels.png")
    arguments = parser.parse_args()
    data = load_yeast(data_home=arguments.data_home)
    scaler = StandardScaler().fit(data.X_train)
    X, X_test = scaler.transform(data.X_train), scaler.transform(data.X_test)
    Y, Y_test = data.y_train, data.y_test
    curves = {}
    print(
        "| model | labels known | accuracy on the rest | log loss on the rest |\n|---|---|---|---|"
    )
    for name, n_hidden in (("CRBM", 8), ("without hidden units", 0)):
        options = {"max_iter": arguments.max_iter, "random_state": 0}
        model = CRBMClassifier(n_hidden=n_hidden, **options).fit(X, Y)
        curves[name] = [loss_of_the_rest(model, X_test, Y_test, share) for share in SHARES]
        for share, (accuracy, loss) in zip(SHARES, curves[name], strict=True):
            print(f"| {name} | {share:.0%} | {accuracy:.3f} | {loss:.3f} |", flush=True)
        if n_hidden:
            known = np.full((1, Y.shape[1]), np.nan)
            before = correlations(model, X_test[:1], None)
            known[0, :2] = Y_test[0, :2]
            after = correlations(model, X_test[:1], known)
    path = Path(arguments.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(curves, before, after, path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
