"""Handwritten words by a chain CRF, beside a model without edges and beside crfsuite.

The classic data set of handwritten letters has words of binary pixel images. This program makes a
similar task from public data: words of newspaper text, in a secret alphabet of handwritten digits.
The letters a to j are the digits 0 to 9, k to t the same digits mirrored at the diagonal, and u to
z the digits 0 to 5 upside down, so that some letters look almost alike, such as a, k and u. Images
have 16 x 8 black and white pixels. Training and test words differ, and so do their images.

Features are the black pixels of an image and, in the second half of the table, the pairs of black
pixels that touch (8 neighbours).

Prints a Markdown table with a row per model: share of right letters and words, and processor
seconds of training and prediction with the iterations. The rows of crfsuite need python-crfsuite.

    python -m examples.studies.handwritten_words               # about five minutes
    python -m examples.studies.handwritten_words --words 200

The data files conll2000.npz and mnist.npz must lie in the folder that SKCRBM_DATA names.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from examples.studies.chunking import Crfsuite, Tokens, read
from skcrbm import ChainCRF

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# The gray value from which a pixel of the reduced image is black.
_BLACK = 96
_TEST_WORDS = 1000
# Factor of the penalty |w|^2 beside the sum of the losses, the same for all models: 1.0, as in
# `chunking`. The rows with a searched penalty do not use it.
_C2 = 1.0


def words_of(part, rng, n_words):
    """Return different words of the text in random order."""
    sentences = read(part)[0]
    found = {word.lower() for words in sentences for word in words}
    found = sorted(word for word in found if len(word) > 2 and set(word) <= set(_LETTERS))
    return [found[i] for i in rng.permutation(len(found))[:n_words]]


def small(images):
    """Return images (n, 28, 28) as black and white images (n, 16, 8), without the margins."""
    inner = images[:, 2:26, 6:22].astype(float)  # 24 x 16 pixels
    wide = inner.reshape(len(images), 24, 8, 2).mean(axis=3)
    rows = np.repeat(wide, 2, axis=1).reshape(len(images), 16, 3, 8).mean(axis=2)
    return rows >= _BLACK


def write(words, images, digits, rng):
    """Return an image (n_letters, 16, 8) for each word; an image occurs again only if needed."""
    pools = [rng.permutation(np.flatnonzero(digits == d)) for d in range(10)]
    used = [0] * 10
    found = []
    for word in words:
        rows = []
        for letter in word:
            form, digit = divmod(_LETTERS.index(letter), 10)
            image = images[pools[digit][used[digit] % len(pools[digit])]]
            used[digit] += 1
            rows.append((image, image.T, image[::-1, ::-1])[form])
        found.append(small(np.array(rows)))
    return found


def pixels(images, with_pairs):
    """Return 0/1 features (n, 128), or (n, 570) with the pairs of black pixels that touch."""
    flat = [images.reshape(len(images), -1)]
    if with_pairs:
        flat += [
            (images[:, :, :-1] & images[:, :, 1:]).reshape(len(images), -1),
            (images[:, :-1] & images[:, 1:]).reshape(len(images), -1),
            (images[:, :-1, :-1] & images[:, 1:, 1:]).reshape(len(images), -1),
            (images[:, :-1, 1:] & images[:, 1:, :-1]).reshape(len(images), -1),
        ]
    return np.hstack(flat)


def strings(features):
    """Return the features of a word as lists of names, as crfsuite takes them."""
    return [["bias", *map(str, np.flatnonzero(row))] for row in features]


def models(n_words, max_iter):
    """Return the models by the name of their row, and whether they take lists of names."""
    alpha = 2 * _C2 / n_words
    rows = {
        "logistic regression, no edges": (Tokens(), True),
        "ChainCRF(alpha=c2)": (ChainCRF(alpha=alpha, max_iter=max_iter), False),
        "ChainCRF(), penalty searched": (ChainCRF(max_iter=max_iter, random_state=0), False),
        "ChainCRF(order=2), penalty searched": (
            ChainCRF(order=2, max_iter=max_iter, random_state=0),
            False,
        ),
    }
    try:
        import pycrfsuite  # noqa: F401
    except ImportError:
        print("python-crfsuite is not installed: its rows are left out")
    else:
        rows["crfsuite"] = (Crfsuite(max_iter), True)
    return rows


def data(n_words):
    """Return images and labels of the training and the test words."""
    rng = np.random.RandomState(0)
    with np.load(Path(os.environ["SKCRBM_DATA"]) / "mnist.npz") as mnist:
        parts = [(mnist[f"X_{p}"], mnist[f"y_{p}"]) for p in ("train", "test")]
    text = words_of("train", rng, n_words + _TEST_WORDS)
    train, test = text[:n_words], text[n_words:]
    return [
        (write(words, *part, rng), [list(word) for word in words])
        for words, part in zip((train, test), parts)
    ]


def main(arguments=None):
    """Fit all models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=600, help="number of training words")
    parser.add_argument("--max-iter", type=int, default=300)
    parser.add_argument("--only", default="", help="part of the name of a row")
    options = parser.parse_args(arguments)
    (images, y), (test_images, y_test) = data(options.words)
    print("| features | model | letters right | words right | fit, s | predict, s | iterations |")
    print("|---|---|---|---|---|---|---|")
    for with_pairs in (False, True):
        rows = [[pixels(word, with_pairs) for word in part] for part in (images, test_images)]
        sparse = [[csr_matrix(word, dtype=np.float64) for word in part] for part in rows]
        named = [[strings(word) for word in part] for part in rows]
        for name, (model, takes_names) in models(len(y), options.max_iter).items():
            if options.only not in name:
                continue
            X, X_test = named if takes_names else sparse
            started = time.process_time()
            model.fit(X, y)
            fitted = time.process_time()
            predicted = [list(word) for word in model.predict(X_test)]
            seconds = fitted - started, time.process_time() - fitted
            letters = [a == b for p, t in zip(predicted, y_test) for a, b in zip(p, t)]
            whole = [p == t for p, t in zip(predicted, y_test)]
            kind = "pixels and pairs" if with_pairs else "pixels"
            print(
                f"| {kind} | {name} | {np.mean(letters):.3f} | {np.mean(whole):.3f} | "
                f"{seconds[0]:.1f} | {seconds[1]:.2f} | {getattr(model, 'n_iter_', '')} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
