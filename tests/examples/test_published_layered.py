"""Figures about layered models in the prose of their page, against the results."""

import itertools
import math

import numpy as np
import pytest

from examples._harness import Rows
from examples.papers import layered_tables
from tests.reference.pages import DOC, found_in


def accuracies(table, row, column):
    """Return the accuracies of a cell with all images, for each seed."""
    cells = Rows(DOC / "layered_tables.csv").read().values()
    place = (str(table), row, column, "60000")
    return [
        float(cell["accuracy"])
        for cell in cells
        if (cell["table"], cell["row"], cell["column"], cell["n_train"]) == place
    ]


def accuracy(*place):
    """Return the mean accuracy of a cell as the prose writes it: .985."""
    values = accuracies(*place)
    return f"{sum(values) / len(values):.3f}".removeprefix("0")


def span(*places):
    """Return the least and the greatest of the means of several cells."""
    values = sorted(accuracy(*place) for place in places)
    return [values[0], values[-1]]


GRIDS = ("conv", "local")


def network_distances():
    """Return how far networks with hidden pixels are behind layered models and the paper."""
    published = {cell[:3]: cell[6] for cell in layered_tables.cells()}
    behind, short = {}, {}
    for table, net, visible, name in itertools.product(
        (7, 8), GRIDS, (0.3, 0.7), ("NN(sigmoid)", "NN(relu)")
    ):
        place = table, f"{net} ({visible})"
        found = np.mean(accuracies(*place, name))
        behind.setdefault(place, []).append(accuracies(*place, "LGM")[0] - found)
        short.setdefault(table if visible > 0.5 else 0, []).append(
            published[*place, f"{name}, smoothed labels"] - found
        )
    least = behind.pop((7, "conv (0.7)"))
    assert min(least) > 0
    others = [value for values in behind.values() for value in values]
    texts = [
        f"{math.ceil(1000 * max(least)) / 1000:.3f}",
        f"{min(others):.2f}",
        f"{max(others):.2f}",
    ]
    texts += [f"{choose(short[table]):.3f}" for table in (7, 8, 0) for choose in (min, max)]
    return [text.removeprefix("0") for text in texts]


# A phrase of doc/layered.md with groups for figures, and a function that returns the figures.
LAYERED_CLAIMS = [
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
        r"elsewhere\. .*? by (\S+) to (\S+) with 70% of the pixels of MNIST, by (\S+) to (\S+) "
        r"with 70% of Fashion-MNIST, and by (\S+) to (\S+) with 30%\. The",
        network_distances,
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
    assert list(found.groups()) == figures()
