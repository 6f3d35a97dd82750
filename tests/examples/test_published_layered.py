"""Figures about layered models in the prose of their page, against the results."""

import itertools
import math

import numpy as np
import pytest

from examples._harness import Rows
from examples.papers import layered_tables
from tests.reference.pages import DOC, found_in


def accuracies(table, row, column, n_train=60000):
    """Return the accuracies of a cell, for each seed."""
    cells = Rows(DOC / "layered_tables.csv").read().values()
    place = (str(table), row, column, str(n_train))
    return [
        float(cell["accuracy"])
        for cell in cells
        if (cell["table"], cell["row"], cell["column"], cell["n_train"]) == place
    ]


def accuracy(*place):
    """Return the mean accuracy of a cell as the prose writes it: .985."""
    values = accuracies(*place)
    return f"{np.mean(values):.3f}".removeprefix("0")


def span(*places):
    """Return the least and the greatest of the means of several cells."""
    values = sorted(accuracy(*place) for place in places)
    return [values[0], values[-1]]


GRIDS = ("conv", "local")


def networks_behind(suffix=""):
    """Return how far networks with hidden pixels are behind the layered models, by net."""
    behind = {}
    for table, net, visible, name in itertools.product(
        (7, 8), GRIDS, (0.3, 0.7), ("NN(sigmoid)", "NN(relu)")
    ):
        place = table, f"{net} ({visible})"
        found = np.mean(accuracies(*place, f"{name}{suffix}"))
        behind.setdefault(place, []).append(accuracies(*place, "LGM")[0] - found)
    return behind


def distances_with_plain_labels():
    """Return the figures of the prose about networks with plain labels."""
    behind = networks_behind()
    least = behind.pop((7, "conv (0.7)"))
    assert min(least) > 0
    others = [value for values in behind.values() for value in values]
    return [
        f"{math.ceil(1000 * max(least)) / 1000:.3f}",
        f"{min(others):.2f}",
        f"{max(others):.2f}",
    ]


def distances_with_smoothed_labels():
    """Return the figures of the prose about networks with smoothed labels."""
    behind = networks_behind(", smoothed labels")
    ahead, near = behind.pop((7, "conv (0.7)")), behind.pop((7, "local (0.7)"))
    assert max(ahead) < 0 < min(near)
    others = [value for values in behind.values() for value in values]
    assert len(others) == 12
    place = 7, "conv (0.7)"
    names = ("NN(sigmoid), smoothed labels", "NN(relu), smoothed labels", "LGM")
    texts = [accuracy(*place, name) for name in names]
    texts += [f"{choose(part):.3f}" for part in (near, others) for choose in (min, max)]
    short = {}
    for table, row, column, _, _, _, published in layered_tables.cells():
        if column.endswith("smoothed labels"):
            found = np.mean(accuracies(table, row, column))
            short.setdefault(table if "0.7" in row else 0, []).append(published - found)
    texts += [f"{choose(short[table]):.3f}" for table in (7, 8, 0) for choose in (min, max)]
    return texts


# A phrase of doc/layered.md with groups for figures, and a function that returns the figures.
LAYERED_CLAIMS = [
    (
        r"the test accuracy is (\S+) with the parallel and (\S+) with the sequential mean field on "
        r"the convolutional net, (\S+) and (\S+) on the local net, and (\S+) and (\S+) on the "
        r"dense net\. With all images the dense net has (\S+) and (\S+)\. The",
        lambda: [
            accuracy(4, rule, *cell)
            for cell in (("conv", 6000), ("local", 6000), ("dense", 6000), ("dense",))
            for rule in ("MF", "SeqMF")
        ],
    ),
    (
        r"By contrastive divergence it has (\S+) \(\.938\) and (\S+) \(\.936\), and the "
        r"convolutional net (\S+) twice",
        lambda: [accuracy(4, *c) for c in (("CD1", "dense"), ("CD10", "dense"), ("CD1", "conv"))],
    ),
    (
        r"Neural networks of scikit-learn with a dense layer, the control, have (\S+) and (\S+) "
        r"\(\.970 and \.973\), and (\S+) and (\S+) on",
        lambda: [
            accuracy(table, *place)
            for table, places in (
                (4, (("NN(sigmoid)", "dense"), ("NN(relu)", "dense"))),
                (6, (("dense", "NN(sigmoid)"), ("dense", "NN(relu)"))),
            )
            for place in places
        ],
    ),
    (
        r"Sum-product has (\S+) to (\S+) \(\.968 to \.979\), mean field (\S+) \(\.968\) and "
        r"(\S+) \(\.976\), tree-reweighted (\S+) to (\S+) \(",
        lambda: [
            *span(*((4, f"{s}LBP", net) for s in ("Par", "Seq") for net in GRIDS)),
            *(accuracy(4, "MF", net) for net in GRIDS),
            *span(*((4, f"{s}TRW", net) for s in ("Par", "Seq") for net in GRIDS)),
        ],
    ),
    (
        r"too: MNIST (\S+) \(\.978\) and (\S+) \(\.952\) .*? Fashion-MNIST (\S+) \(\.862\) and "
        r"(\S+) \(\.828\) there and (\S+) \(\.830\) .*? MNIST has (\S+) \(\.984\) and (\S+) "
        r"\(\.956\), Fashion-MNIST with 70% (\S+) \(\.882\)",
        lambda: [
            accuracy(table, f"{net} ({visible})", "LGM")
            for table, net, visible in (
                (7, "conv", 0.7), (7, "conv", 0.3), (8, "conv", 0.7), (8, "conv", 0.3),
                (8, "local", 0.3), (7, "local", 0.7), (7, "local", 0.3), (8, "local", 0.7),
            )
        ],
    ),
    (
        r"Three fits of the dense net by messages have (\S+) to (\S+), so",
        lambda: [
            f"{choose(accuracies(4, 'SeqLBP', 'dense')):.3f}".removeprefix("0")
            for choose in (min, max)
        ],
    ),
    (
        r"the convolutional network has (\S+) \(sigmoid; paper \.984\) and (\S+) \(ReLU; \.982\), "
        r"the local network (\S+) \(sigmoid; \.983\) and (\S+) \(ReLU; \.984\), .*? with sigmoid "
        r"have (\S+) \(conv; \.889\) and (\S+) \(local; \.894\), with ReLU (\S+) \(conv; \.894\) "
        r"and (\S+) \(local; \.894\), and the layered models (\S+) and (\S+)\. Two",
        lambda: [
            *(accuracy(4, f"NN({n})", net) for net in GRIDS for n in ("sigmoid", "relu")),
            *(
                accuracy(6, net, column)
                for column in ("NN(sigmoid)", "NN(relu)", "soft")
                for net in GRIDS
            ),
        ],
    ),
    (
        r"behind the layered models in all 16 cells: by less than (\S+) on .*? by (\S+) to (\S+) "
        r"elsewhere\. The",
        distances_with_plain_labels,
    ),
    (
        r"ahead of the layered model \((\S+) with sigmoid and (\S+) with ReLU, against (\S+)\)\. "
        r".*? by (\S+) to (\S+) on the local net of MNIST with 70%, and by (\S+) to (\S+) in the "
        r"other 12 cells\. .*? by (\S+) to (\S+) with 70% of the pixels of MNIST, by (\S+) to "
        r"(\S+) with 70% of Fashion-MNIST, and by (\S+) to (\S+) with 30%\. -",
        distances_with_smoothed_labels,
    ),
    (
        r"on the convolutional net of MNIST they have (\S+) \(\.986\) with 70% of the pixels and "
        r"(\S+) \(\.956\) with 30%, on the local net (\S+) \(\.952\) with 30%, and on the "
        r"convolutional net of Fashion-MNIST (\S+) \(\.878\) with 70% and (\S+) \(\.830\) with "
        r"30%\. .*? it has (\S+) on",
        lambda: [
            *(
                accuracy(table, row, "NN(relu), smoothed labels, redrawn")
                for table, row in (
                    (7, "conv (0.7)"), (7, "conv (0.3)"), (7, "local (0.3)"), (8, "conv (0.7)"),
                    (8, "conv (0.3)"),
                )
            ),
            accuracy(7, "local (0.3)", "redrawn"),
        ],
    ),
    (
        r'\("redrawn"\), .*? MNIST (\S+) and (\S+), Fashion-MNIST (\S+) \(a single',
        lambda: [
            accuracy(table, f"local ({visible})", "redrawn")
            for table, visible in ((7, 0.7), (7, 0.3), (8, 0.7))
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("phrase", "figures"), LAYERED_CLAIMS)
def test_prose_about_layered_models_is_the_results(phrase, figures):
    found = found_in("layered.md", phrase)
    assert list(found.groups()) == [text.removeprefix("0") for text in figures()]
