"""Binary images restored with default settings: errors and time of `ImageCRBM()`.

Uses digits of scikit-learn (8 x 8) and, at half the resolution (14 x 14), MNIST, Fashion-MNIST and
Caltech silhouettes, with 10% of the pixels flipped or a patch of three sevenths of the side
painted over. Prints a Markdown table with the seconds of a single core. About five minutes.

    python -m examples.studies.image_settings
"""

import time

import numpy as np
from sklearn.datasets import load_digits

from skcrbm import CRBMClassifier, ImageCRBM
from skcrbm.datasets import (
    flip_pixels,
    load_caltech101_silhouettes,
    load_fashion_mnist,
    load_mnist,
    occlude_patch,
)

N_TEST = 400
DATA = {  # images, grey value above which a pixel is on, training images
    "digits": (lambda: load_digits().images, 7, 1300),
    "MNIST": (lambda: load_mnist().X_train, 127, 1500),
    "Fashion-MNIST": (lambda: load_fashion_mnist().X_train, 100, 1500),
    "silhouettes": (lambda: 1 - load_caltech101_silhouettes().X_train, 0.49, 1500),
}
TASKS = {
    "flipped": lambda images, seed: flip_pixels(images, 0.1, random_state=seed),
    "patch": lambda images, seed: occlude_patch(images, random_state=seed),
}
MODELS = {
    "`ImageCRBM()`": ImageCRBM(random_state=0),
    "`CRBMClassifier()`": CRBMClassifier(random_state=0),
    "`CRBMClassifier(n_hidden=0)`": CRBMClassifier(n_hidden=0, random_state=0),
}


def binary_images(name):
    """Return training images and test images of 0 and 1."""
    load, threshold, n_train = DATA[name]
    images = load()
    if name != "digits":
        images = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    images = (images > threshold).astype(np.float32)
    images = images[np.random.RandomState(11).permutation(len(images))]
    return images[-n_train:], images[:N_TEST]


def main():
    """Restore the images and print the table."""
    print("| images | task | model | % wrong | % wrong of those changed | log loss | s |")
    print("|---|---|---|---|---|---|---|")
    for name in DATA:
        for task, corrupt in TASKS.items():
            clean, clean_test = binary_images(name)
            X, X_test = corrupt(clean, 2), corrupt(clean_test, 3)
            X, X_test, y, y_test = (a.reshape(len(a), -1) for a in (X, X_test, clean, clean_test))
            for kind, model in MODELS.items():
                if name != "digits" and kind == "`CRBMClassifier()`":
                    continue  # takes minutes
                start = time.process_time()
                model.fit(X, y)
                seconds = time.process_time() - start
                proba = np.clip(model.predict_proba(X_test), 1e-6, 1 - 1e-6)
                wrong = (proba >= 0.5) != y_test
                changed = 100 * wrong[X_test != y_test].mean()
                loss = -np.log(np.where(y_test == 1, proba, 1 - proba)).mean()
                cells = f"{100 * wrong.mean():.2f} | {changed:.1f} | {loss:.3f} | {seconds:.1f}"
                print(f"| {name} | {task} | {kind} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
