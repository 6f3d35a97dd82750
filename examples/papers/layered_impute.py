"""Fill in partially observed images with a layered graphical model.

After Shen et al. (2019), figures 7 and 8: a local net sees 30% and 70% of the pixels of
Fashion-MNIST and 70% of the pixels of MNIST. The unobserved pixels are nodes of the model, so
their beliefs come with the prediction. Writes two pictures, of reduced size: 4000 training
images instead of all images as in the paper.

    python -m examples.papers.layered_impute
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from examples._harness import OUTPUT
from skcrbm import LayeredGMClassifier
from skcrbm.datasets import load_fashion_mnist, load_mnist
from skcrbm.layers import Dense, Local2d
from skcrbm.learning import Adam, Backpropagation

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def hide(X, visible, seed):
    """Observe each pixel with probability `visible`; put NaN elsewhere."""
    hidden = np.random.RandomState(seed).random_sample(X.shape) >= visible
    return np.where(hidden, np.float32(np.nan), X)


def fit(data, visible, arguments):
    """Fit on partially observed images; return the model and images to show."""
    X = (data.X_train[: arguments.n_train] / 255).astype(np.float32)
    X_test = (data.X_test[:500] / 255).astype(np.float32)
    model = LayeredGMClassifier(
        layers=(Local2d(7, 5, 2, padding=1), Local2d(17, 5, 2), Dense(10, 11)),
        input_shape=(28, 28),
        learning=Backpropagation(label_smoothing=0.1),
        solver=Adam(batch_size=20),
        max_iter=arguments.max_iter,
        early_stopping=False,
        random_state=0,
        verbose=1,
    ).fit(hide(X, visible, 1), data.y_train[: arguments.n_train])
    holes = hide(X_test, visible, 2)
    accuracy = model.score(holes, data.y_test[:500])
    print(f"{visible:.0%} visible: accuracy {accuracy:.3f} on 500 test images", flush=True)
    return model, X_test, holes


def show(axis, image, cmap="gray_r"):
    """Draw an image, with unobserved pixels in blue."""
    colors = plt.get_cmap(cmap).copy()
    colors.set_bad("#9ecae1")
    axis.imshow(np.ma.masked_invalid(image.reshape(28, 28)), cmap=colors, vmin=0, vmax=1)
    axis.set_xticks([])
    axis.set_yticks([])


def save(figure, path, name, arguments):
    """Write a picture whose title gives the size of the run."""
    figure.suptitle(
        f"{name}, reduced size: {arguments.n_train} training images of 60000, "
        f"{arguments.max_iter} epochs",
        fontsize=10,
    )
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def figure_7(path, arguments):
    """Draw Fashion-MNIST with 30% and 70% of the pixels: original, seen, and filled in."""
    data = load_fashion_mnist()
    rows = []
    for visible in (0.3, 0.7):
        model, X, holes = fit(data, visible, arguments)
        filled = model.impute(holes)
        missing = np.isnan(holes)
        guess = np.broadcast_to(np.nanmean(holes, axis=0), X.shape)
        for name, values in (("beliefs", filled), ("mean of the pixel", guess)):
            print(
                f"  error of unobserved pixels, {name}: "
                f"{np.sqrt(np.mean((values - X)[missing] ** 2)):.3f}"
            )
        rows += [(f"{visible:.0%} seen", holes), ("filled in", filled)]
    shown = [int(np.flatnonzero(data.y_test[:500] == c)[0]) for c in range(10)]
    figure, axes = plt.subplots(5, 10, figsize=(9, 5.1))
    for row, (title, images) in zip(axes, [("original", X), *rows]):
        for axis, k in zip(row, shown):
            show(axis, images[k])
        row[0].set_ylabel(title, fontsize=9)
    save(figure, path, "Fashion-MNIST", arguments)


def figure_8(path, arguments):
    """Draw an ambiguous digit with 70% of the pixels: seen, filled in, probabilities."""
    data = load_mnist()
    model, X, holes = fit(data, 0.7, arguments)
    proba = model.predict_proba(holes)
    two = np.sort(proba, axis=1)[:, -2:]
    k = int(np.argmin((two[:, 1] - two[:, 0]) + (two.sum(1) < 0.7)))
    figure, axes = plt.subplots(1, 4, figsize=(8, 2.4), width_ratios=(1, 1, 1, 1.7))
    images = (X[k], holes[k], model.impute(holes[k : k + 1])[0])
    titles = (f"original, a {data.y_test[k]}", "70% seen", "filled in")
    for axis, image, title in zip(axes, images, titles):
        show(axis, image)
        axis.set_title(title, fontsize=9)
    axes[3].bar(np.arange(10), proba[k], color="0.4")
    axes[3].set_xticks(np.arange(10))
    axes[3].set_title("P(class | seen pixels)", fontsize=9)
    save(figure, path, "MNIST", arguments)


def main():
    """Fit the three models and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--n-train", type=int, default=4000)
    parser.add_argument("--max-iter", type=int, default=8)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    figure_7(arguments.output / "layered_impute_fashion.png", arguments)
    figure_8(arguments.output / "layered_impute_digit.png", arguments)


if __name__ == "__main__":
    main()
