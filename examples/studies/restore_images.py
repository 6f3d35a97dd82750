"""Restore corrupted digits: flipped pixels, and a hidden patch.

Conditional RBMs with 100 hidden units learn to predict all clean pixels of MNIST digits from the
corrupted pixels, by maximum likelihood with belief propagation. The control is a logistic
regression per pixel. Both models remove noise, because noise is local. The pixels that fill a patch
must agree with each other, for which a model needs hidden units. Prints the errors and writes a
picture with rows clean / corrupted / logistic regression / CRBM for each task. About four minutes.

    python -m examples.studies.restore_images
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np

from examples._harness import OUTPUT
from skcrbm import CRBMClassifier
from skcrbm.datasets import flip_pixels, load_mnist, occlude_patch
from skcrbm.inference import SumProduct
from skcrbm.learning import SGD

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TASKS = {
    "10% of the pixels flipped": lambda X, seed: flip_pixels(X, 0.1, random_state=seed),
    "a patch of 8 x 8 hidden": lambda X, seed: occlude_patch(X, 8, random_state=seed),
}


def restore(clean, n_hidden, max_iter, corrupt):
    """Train on corrupted copies of the training images; restore the test images."""
    train, test = clean
    X, X_test = corrupt(train, 0), corrupt(test, 1)
    model = CRBMClassifier(
        n_hidden=n_hidden,
        inference=SumProduct(max_iter=50, tol=0.01) if n_hidden else "exact",
        solver=SGD(learning_rate=0.05, batch_size=20, average=True),
        alpha=0.0,
        max_iter=max_iter,
        early_stopping=False,
        n_jobs=2,
        random_state=0,
    )
    start = time.perf_counter()
    model.fit(X, train)
    seconds = time.perf_counter() - start
    return X_test, model.predict(X_test), seconds


def main():
    """Train, print the errors, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-train", type=int, default=5000)
    parser.add_argument("--n-hidden", type=int, default=100)
    parser.add_argument("--max-iter", type=int, default=12, help="epochs")
    parser.add_argument("--output", type=Path, default=OUTPUT / "restored.png")
    arguments = parser.parse_args()
    pixels = (load_mnist().data > 127).astype(np.float32)
    clean = pixels[: arguments.n_train], pixels[60000:62000]
    rows, titles = [], []
    for task, corrupt in TASKS.items():
        print(task)
        rows.append(clean[1])
        titles.append("clean")
        for name, n_hidden in (("logistic", 0), ("CRBM", arguments.n_hidden)):
            X, found, seconds = restore(clean, n_hidden, arguments.max_iter, corrupt)
            if name == "logistic":
                rows.append(X)
                titles.append("corrupted")
            rows.append(found)
            titles.append(name)
            wrong, changed = found != clean[1], clean[1] != X
            print(
                f"  {name:8s} {100 * wrong.mean():.2f} % of all pixels wrong, "
                f"{100 * wrong[changed].mean():.2f} % of the changed ones, {seconds:.0f} s",
                flush=True,
            )
    draw(arguments.output, rows, titles)


def draw(path, rows, titles, n_images=12):
    """Draw a row of images per array; wrong pixels of a restored image are red."""
    figure, axes = plt.subplots(len(rows), n_images, figsize=(n_images * 0.75, len(rows) * 0.8))
    clean = None
    for axis_row, images, title in zip(axes, rows, titles):
        clean = images if title == "clean" else clean
        for axis, image, truth in zip(axis_row, images, clean):
            picture = np.repeat(1 - image.reshape(28, 28, 1), 3, axis=2).astype(float)
            if title in ("logistic", "CRBM"):
                wrong = (image != truth).reshape(28, 28)
                picture[wrong] = (0.85, 0.1, 0.1)
            axis.imshow(picture)
            axis.set_xticks([])
            axis.set_yticks([])
        axis_row[0].set_ylabel(title, fontsize=8)
    figure.tight_layout(pad=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"Picture: {path}")


if __name__ == "__main__":
    main()
