"""Phrase chunking of CoNLL-2000 by a chain CRF, beside models without edges and beside crfsuite.

Every model gets the same features: the words and the part-of-speech tags at distances of up to two,
pairs of neighbouring words, and pairs and triples of tags. Prints a Markdown table with a row per
model: F1 of whole chunks, share of right tokens, and processor seconds of training and prediction,
which include the conversion of the features. The row of crfsuite needs python-crfsuite.

    python -m examples.studies.chunking                     # about ten minutes
    python -m examples.studies.chunking --sentences 1000
    python -m examples.studies.chunking --sentences 1000 --learners    # learning rules of ChainCRF
    python -m examples.studies.chunking --predictions    # times of predictions, about a minute

The data file conll2000.npz must lie in the folder that SKCRBM_DATA names.
"""

import argparse
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skcrbm import ChainCRF
from skcrbm.learning import Adam

# c2 of crfsuite and the penalty of all models: c2 |w|^2 is added to the sum of the losses.
_C2 = 1.0


def read(part, n_sentences=None):
    """Return lists of words, tags and chunk labels of the sentences of "train" or "test"."""
    with np.load(Path(os.environ["SKCRBM_DATA"]) / "conll2000.npz") as data:
        vocabulary = np.array(bytes(data["word_vocab_utf8"]).decode().split("\n"))
        columns = (
            vocabulary[data[f"{part}_word"]],
            data["pos_names"][data[f"{part}_pos"]],
            data["chunk_names"][data[f"{part}_chunk"]],
        )
        offsets = data[f"{part}_offsets"][: None if n_sentences is None else n_sentences + 1]
    return [[column[a:b].tolist() for a, b in pairwise(offsets)] for column in columns]


def features(words, tags):
    """Return a list of strings for each position of a sentence."""
    n = len(words)
    w = ["<s>", "<s>", *words, "</s>", "</s>"]
    p = ["<s>", "<s>", *tags, "</s>", "</s>"]
    items = []
    for t in range(2, n + 2):
        item = [f"w[{k}]={w[t + k]}" for k in range(-2, 3)]
        item += [f"w[{k}]|w[{k + 1}]={w[t + k]}|{w[t + k + 1]}" for k in (-1, 0)]
        item += [f"p[{k}]={p[t + k]}" for k in range(-2, 3)]
        item += [f"p[{k}]|p[{k + 1}]={p[t + k]}|{p[t + k + 1]}" for k in range(-2, 2)]
        item += [
            f"p[{k}]|p[{k + 1}]|p[{k + 2}]={p[t + k]}|{p[t + k + 1]}|{p[t + k + 2]}"
            for k in range(-2, 1)
        ]
        items.append(["bias", *item])
    return items


def named_features(words, tags):
    """Return the same features as dicts, with a key for each kind of feature."""
    pairs = ([item.partition("=") for item in items] for items in features(words, tags))
    return [{sys.intern(name): value or "1" for name, _, value in item} for item in pairs]


def chunks(labels):
    """Return the set of chunks (first position, last position, type) of BIO labels."""
    found, first, kind = set(), None, None
    for t, label in enumerate([*labels, "O"]):
        prefix, _, name = label.partition("-")
        if first is not None and (prefix != "I" or name != kind):
            found.add((first, t - 1, kind))
            first = None
        if prefix == "B" or (prefix == "I" and first is None):
            first, kind = t, name
    return found


def scores(predicted, true):
    """Return the F1 of chunks and the share of right tokens."""
    right = found = existing = same = total = 0
    for guess, labels in zip(predicted, true):
        a, b = chunks(guess), chunks(labels)
        right, found, existing = right + len(a & b), found + len(a), existing + len(b)
        same += sum(x == y for x, y in zip(guess, labels))
        total += len(labels)
    return 2 * right / (found + existing), same / total


class Crfsuite:
    """crfsuite with the same interface, so that it can be timed in the same way."""

    def __init__(self, max_iter):
        self.max_iter = max_iter

    def fit(self, X, y):
        """Train from lists of strings; the model is written to a file, as crfsuite does."""
        import pycrfsuite

        trainer = pycrfsuite.Trainer(verbose=False)
        for items, labels in zip(X, y):
            trainer.append(items, labels)
        trainer.set_params({"c1": 0.0, "c2": _C2, "max_iterations": self.max_iter})
        folder = tempfile.TemporaryDirectory()
        trainer.train(f"{folder.name}/model")
        self.n_iter_ = len(trainer.logparser.iterations)
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(f"{folder.name}/model")
        return self

    def predict(self, X):
        """Return lists of labels."""
        return [self.tagger.tag(items) for items in X]


class Tokens:
    """Logistic regression on single positions: the control without edges."""

    def fit(self, X, y):
        """Train on all positions as rows."""
        items = [dict.fromkeys(item, 1) for sequence in X for item in sequence]
        labels = [label for sequence in y for label in sequence]
        # crfsuite's penalty of c2 |w|^2 beside a sum of losses is C = 1 / (2 c2).
        self.model = make_pipeline(
            DictVectorizer(), LogisticRegression(C=1 / (2 * _C2), max_iter=300, tol=1e-3)
        ).fit(items, labels)
        return self

    def predict(self, X):
        """Return lists of labels."""
        flat = self.model.predict([dict.fromkeys(item, 1) for s in X for item in s]).tolist()
        return [[flat.pop() for _ in s][::-1] for s in reversed(X)][::-1]


def models(n_sentences, max_iter):
    """Return the models by the name of their row."""
    alpha = 2 * _C2 / n_sentences
    rows = {
        "logistic regression, no edges": Tokens(),
        "ChainCRF(alpha=c2)": ChainCRF(alpha=alpha, max_iter=max_iter),
        "ChainCRF(alpha=c2, order=2)": ChainCRF(alpha=alpha, max_iter=max_iter, order=2),
        "ChainCRF(), penalty searched": ChainCRF(max_iter=max_iter, random_state=0),
        'ChainCRF(learning="pseudo_likelihood")': ChainCRF(
            alpha=alpha, max_iter=max_iter, learning="pseudo_likelihood"
        ),
        'ChainCRF(learning="max_margin"), penalty searched': ChainCRF(
            max_iter=max_iter, learning="max_margin", random_state=0
        ),
    }
    try:
        import pycrfsuite  # noqa: F401
    except ImportError:
        print("python-crfsuite is not installed: its row is left out")
    else:
        rows["crfsuite"] = Crfsuite(max_iter)
    return rows


def learners(n_sentences, max_iter):
    """Return `ChainCRF` with each learning rule, all with the same penalty, by the name of the row.

    Adam makes at most 20 epochs.
    """
    options = {"alpha": 2 * _C2 / n_sentences, "random_state": 0}
    rules = {
        "maximum likelihood": "mle",
        "pseudo-likelihood": "pseudo_likelihood",
        "max margin": "max_margin",
    }
    found = {
        name: ChainCRF(max_iter=max_iter, learning=rule, **options) for name, rule in rules.items()
    }
    adam = {"solver": Adam(learning_rate=0.05), "max_iter": min(max_iter, 20)}
    return {**found, "maximum likelihood by Adam": ChainCRF(**adam, **options)}


def compare_predictions(X, y, X_test, n_repeats=9):
    """Print the processor seconds of predictions of `ChainCRF` and crfsuite, measured in turn.

    The weights do not matter, so both models are trained for five iterations. The names of the
    features are new strings in each measurement.
    """
    print("| input | ChainCRF, s | crfsuite, s | ratio |\n|---|---|---|---|")
    for kind, items_of in (("strings", features), ("dicts", named_features)):
        train, test = ([items_of(*sentence) for sentence in part] for part in (X, X_test))
        rivals = ChainCRF(alpha=2 * _C2 / len(X), max_iter=5).fit(train, y), Crfsuite(5)
        rivals[1].fit(train, y)
        seconds = np.empty((n_repeats, 2))
        for repeat in range(n_repeats):
            for column, model in enumerate(rivals):
                test = [items_of(*sentence) for sentence in X_test]
                started = time.process_time()
                model.predict(test)
                seconds[repeat, column] = time.process_time() - started
        ours, theirs = np.median(seconds, axis=0)
        ratio = np.median(seconds[:, 1] / seconds[:, 0])
        print(f"| {kind} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} |", flush=True)


def main(arguments=None):
    """Fit all models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, help="number of training sentences")
    parser.add_argument("--max-iter", type=int, default=300)
    parser.add_argument("--learners", action="store_true", help="compare learning rules instead")
    parser.add_argument("--predictions", action="store_true", help="compare times of predictions")
    parser.add_argument("--only", default="", help="part of the name of a row")
    options = parser.parse_args(arguments)
    if options.predictions:
        words, tags, y = read("train", options.sentences or 1000)
        compare_predictions(list(zip(words, tags)), y, list(zip(*read("test")[:2])))
        return
    words, tags, y = read("train", options.sentences)
    X = [features(*sentence) for sentence in zip(words, tags)]
    words, tags, y_test = read("test")
    X_test = [features(*sentence) for sentence in zip(words, tags)]
    print("| model | F1 of chunks | tokens right | fit, s | predict, s | iterations |")
    print("|---|---|---|---|---|---|")
    rows = learners if options.learners else models
    for name, model in rows(len(X), options.max_iter).items():
        if options.only not in name:
            continue
        started = time.process_time()
        model.fit(X, y)
        fitted = time.process_time()
        predicted = model.predict(X_test)
        seconds = fitted - started, time.process_time() - fitted
        f1, right = scores([list(labels) for labels in predicted], y_test)
        n_iter = getattr(model, "n_iter_", "")
        print(
            f"| {name} | {f1:.4f} | {right:.4f} | {seconds[0]:.1f} | {seconds[1]:.2f} | {n_iter} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
