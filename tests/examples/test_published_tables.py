"""The tables of the pages, and figures in their prose, against the results of the programs."""

import csv
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

from examples._harness import Rows
from examples.papers import (
    bp_chain_tables,
    crbm_figures,
    crbm_tables,
    layered_tables,
    pmp_tables,
)
from examples.studies import (
    inference_in_learning,
    learning_rules,
    margin_settings,
    persistent_messages,
    rule_settings,
)

DOC = Path(__file__).parents[2] / "doc"
COLUMNS = "HAPRF"


def found_in(page, phrase):
    """Return the match of a phrase with figures in a page, whose lines may be broken anywhere."""
    found = re.search(phrase, " ".join((DOC / page).read_text().split()))
    assert found, "the phrase has changed: adapt this test"
    return found


def results():
    """Return the rows of the results by (data set, row of its table)."""
    with open(DOC / "lmbm_tables.csv", newline="") as file:
        rows = {row.pop("key"): row for row in csv.DictReader(file)}
    split = {}
    for key, row in rows.items():
        name = re.match(r"mediamill\d+, sample of 2000 rows|[a-z0-9]+", key).group()
        split[name, key[len(name) + 2 :]] = row
    return split


def tables():
    """Yield the data set, the name and the cells of each row of the tables that was run."""
    name = None
    for line in (DOC / "lmbm_tables.md").read_text().splitlines():
        if line.startswith("### "):
            name = line[4:].lower()
        elif line.startswith("| ") and not line.startswith("| |"):
            row, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            if not cells[0].startswith("not run"):
                yield name, row, cells


# The report of "lmbm_tables" reads the data sets; `test_tables_are_the_results` compares its table.
REPORTS = {
    "bp_chain_tables": bp_chain_tables.report,
    "crbm_tables": crbm_tables.markdown,
    "inference_in_learning": inference_in_learning.report,
    "layered_tables": layered_tables.markdown,
    "learning_rules_multilabel": learning_rules.markdown,
    "margin_settings": margin_settings.markdown,
    "persistent_messages": persistent_messages.markdown,
    "pmp_tables": pmp_tables.report,
    "rule_settings": rule_settings.markdown,
}


@pytest.mark.parametrize("name", [*REPORTS, "crbm_figures"])
def test_the_table_of_a_page_is_made_from_its_results(name, tmp_path):
    done = Rows(DOC / f"{name}.csv").read()
    if name == "crbm_figures":
        text = crbm_figures.report(tmp_path / "picture.png", done)
    else:
        text = REPORTS[name](done)
    assert (DOC / f"{name}.md").read_text() == text


def test_tables_are_the_results():
    found = results()
    shown = {(name, row): cells for name, row, cells in tables()}
    assert shown.keys() == found.keys()
    assert len(shown) > 40
    for key, cells in shown.items():
        row = found[key]
        assert [c.split(" ")[0] for c in cells[:5]] == [f"{float(row[k]):.3f}" for k in COLUMNS], (
            key
        )
        assert [cells[5], cells[6].split(" ")[0], cells[7]] == [
            row["chosen"], row["fit"], row["predict"],
        ], key  # fmt: skip


# A phrase of doc/lmbm.md with groups for figures, and the figures: (data set, row, column).
CLAIMS = [
    (
        r"lifts Scene's LMBMr from A (\S+), F (\S+) to (\S+), (\S+)\. A transformation",
        [("scene", row, k) for row in ("LMBMr", 'LMBMr, decode="map"') for k in "AF"],
    ),
    (
        r"lifts it to (\S+), (\S+); on Yeast the features do not help the machine \(A (\S+), "
        r"for (\S+) without\)",
        [
            *(("scene", "Nystroem + LMBMr", k) for k in "AF"),
            *(("yeast", row, "A") for row in ("Nystroem + LMBMr", "LMBMr")),
        ],
    ),
    (
        r"LMBM with eta = 1 is far better than printed \(A (\S+) for",
        [("yeast", "LMBM", "A")],
    ),
    (
        r"reproduces the Yeast row: H (\S+) for .*?, A (\S+) for .*?, F (\S+) for .*? P and R "
        r"are (\S+) and (\S+),",
        [("yeast", "MLSVM, one set against one", k) for k in "HAFPR"],
    ),
    (
        r"with the largest C chosen, A is (\S+) \(exact\), (\S+) \(linear program\) and (\S+) "
        r"\(ICM\)",
        [("yeast", f"SSVM, {search}", "A") for search in ("exact", "linear program", "ICM")],
    ),
    (
        r"a kernel SVM over the label sets has A (\S+) on Scene and (\S+) on Yeast, a chain of "
        r"kernel SVMs (\S+) and (\S+),",
        [
            (name, row, "A")
            for row in ("kernel SVM over label sets", "classifier chain, kernel SVM")
            for name in ("scene", "yeast")
        ],
    ),
    (
        r"lowers A of LMBM from (\S+) to (\S+) and A of LMBMr, with C and eta searched again, from "
        r"(\S+) to (\S+); on Yeast it lowers A of LMBM from (\S+) to (\S+)\. In more",
        [
            (name, row, "A")
            for name, machine in (("scene", "LMBM"), ("scene", "LMBMr"), ("yeast", "LMBM"))
            for row in (machine, f"{machine}, linear program")
        ],
    ),
    (
        r"On Yeast LMBMr has A (\S+) with both, because",
        [("yeast", "LMBMr", "A")],
    ),
    (
        r"On Yeast LMBMr has A (\S+) with both, because",
        [("yeast", "LMBMr, linear program", "A")],
    ),
    (
        r"per label, kernel SVMs have the better H \((\S+) for (\S+); (\S+) for (\S+)\)",
        [
            ("scene", "kernel SVM per label", "H"),
            ("scene", "Nystroem + LMBMr", "H"),
            ("yeast", "kernel SVM per label", "H"),
            ("yeast", "LMBMr", "H"),
        ],
    ),
]


@pytest.mark.parametrize(("phrase", "places"), CLAIMS)
def test_prose_is_the_results(phrase, places):
    found = found_in("lmbm.md", phrase)
    rows = results()
    expected = [f"{float(rows[name, row][column]):.3f}" for name, row, column in places]
    assert list(found.groups()) == expected


# --- perturb-and-max-product ----------------------------------------------------------------


def digits_scores(kind, learner, rule, column):
    """Return the scores of the seeds, with 50 sweeps, of a learner of the small digits."""
    rows = Rows(DOC / "pmp_tables.csv").read()
    cells = [rows[f"digits {kind} {learner} {rule} seed={seed}"] for seed in range(3)]
    return [float(row[column].split()[row["sweeps"].split().index("50")]) for row in cells]


def test_prose_about_the_seeds_of_small_digits():
    phrase = (
        r"of the last step is (\S+), (\S+) and (\S+), and of the averages (\S+), (\S+) and (\S+), "
        r"while the seeds of a single learner differ by (\S+) to (\S+)\. .*? the means are (\S+), "
        r"(\S+) and (\S+), and each seed .*? the same log MMD, (\S+), (\S+) and (\S+)\. .*? their "
        r"means are (\S+), (\S+) and (\S+), again"
    )
    found = found_in("perturb_and_max_product.md", phrase)
    learners = ("pmp", "gibbs reset", "gibbs pcd")
    last, averages = (
        [digits_scores("ising", learner, rule, "log_mmd") for learner in learners]
        for rule in ("plain", "average")
    )
    rbm = [digits_scores("rbm", learner, "plain", "log_mmd_05") for learner in learners]
    wide, narrow = (
        [digits_scores("rbm", learner, "average", column) for learner in learners]
        for column in ("log_mmd", "log_mmd_05")
    )
    means = [f"{sum(seeds) / 3:.2f}" for seeds in (*last, *averages)]
    spread = [max(seeds) - min(seeds) for seeds in (*last, *averages)]
    apart = [f"{value:.1f}".lstrip("0") for value in (min(spread), max(spread))]
    of_rbm = [f"{sum(seeds) / 3:.2f}" for seeds in (*rbm, *wide, *narrow)]
    assert list(found.groups()) == [*means, *apart, *of_rbm]
    assert max(rbm[0]) < min(rbm[1] + rbm[2])
    assert max(narrow[0]) < min(narrow[1] + narrow[2])


# A phrase of doc/perturb_and_max_product.md, and the figures: (cell, column, digits).
SAMPLED_CLAIMS = [
    (
        r"the linear program have a log MMD of (\S+), (\S+) and (\S+), which .*? took (\S+), "
        r"(\S+) and (\S+) seconds",
        [
            (f"digits ising {learner} steps=100 plain seed=0", column, digits)
            for column, digits in (("log_mmd", 2), ("seconds", 1))
            for learner in ("pmp", "mplp", "lp")
        ],
    ),
    (
        r"With 25 updates the slope of the edges is (\S+) and log RMSE (\S+), but samples have a "
        r"log MMD of only (\S+)\. With",
        [
            ("recovery erdos-renyi 200 persistent gibbs pcd updates=25 seed=0", column, 2)
            for column in ("edges", "log_rmse", "log_mmd")
        ],
    ),
    (
        r"it has (\S+) places where (\S+) are true\. .*? by far the lowest log-prior, (\S+) where",
        [
            ("deconvolution images=100 sweeps=1000 damping=0.8 seed=2", column, 0)
            for column in ("places", "places_true", "prior")
        ],
    ),
]


@pytest.mark.parametrize(("phrase", "places"), SAMPLED_CLAIMS)
def test_prose_about_samples_is_the_results(phrase, places):
    found = found_in("perturb_and_max_product.md", phrase)
    rows = Rows(DOC / "pmp_tables.csv").read()
    expected = []
    for key, column, digits in places:
        row = rows[key]
        values, sweeps = row[column].split(), row["sweeps"].split()
        value = values[sweeps.index("50")] if len(values) > 1 else values[0]
        expected.append(f"{float(value):.{digits}f}")
    assert list(found.groups()) == expected


# --- chained belief propagation -------------------------------------------------------------

SEQUENCE_ROWS = {
    'exact gradient ("mle")': "mle",
    "chain, 20 iterations per variable from scratch (as printed)": "bp_chain cold 20",
    "chain, 5 iterations from the messages before": "bp_chain warm 5",
    "chain, weighted": "weighted_bp_chain",
    'Gibbs, 100 updates from the data ("cd")': "cd 100 updates",
    'persistent Gibbs chains ("pcd")': "pcd",
    'independent beliefs ("bp")': "bp",
}


def test_the_table_of_sequences_in_the_guide():
    """Means of three seeds with 23 variables, by the learner's own samples and by exact samples."""
    rows = Rows(DOC / "bp_chain_tables.csv").read().values()
    lines = (DOC / "factor_graphs.md").read_text().splitlines()
    for text, learner in SEQUENCE_ROWS.items():
        cell = [
            row
            for row in rows
            if (row["kind"], row["n"], row["learner"]) == ("sequences", "23", learner)
        ]
        assert len(cell) == 3
        mean = {
            name: sum(float(row[name]) for row in cell) / 3
            for name in ("own_precision", "own_recall", "precision", "recall", "seconds")
        }
        shares = [f"{mean[name]:.2f}".removeprefix("0") for name in list(mean)[:4]]
        own, exact = ", ".join(shares[:2]), ", ".join(shares[2:])
        assert f"| {text} | {own} | {exact} | {mean['seconds']:.0f} |" in lines


# --- layered models -------------------------------------------------------------------------


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


# --- conditional RBMs -----------------------------------------------------------------------

DIGITS = ("noisy MNIST 10%", "noisy MNIST 20%", "occluded MNIST 8x8", "occluded MNIST 12x12")
# A phrase of doc/learning_rules.md with groups for figures at full size, the number of their
# digits, and the figures: (task, method, column).
CRBM_CLAIMS = [
    (
        r"\((\S+)% for 3\.12% of 12 x 12, (\S+)% for 4\.55% on silhouettes\)",
        2,
        [(task, "MLE-BP", "all") for task in ("occluded MNIST 12x12", "occluded Caltech 12x12")],
    ),
    (
        r"\((\S+) / (\S+), published 1\.688 / 10\.718; (\S+) / (\S+), published 5\.445 / 10\.731\)",
        3,
        [
            (task, "MLE-BP", column)
            for task in ("noisy MNIST 10%", "noisy Caltech 20%")
            for column in ("all", "changed")
        ],
    ),
    (
        r"to (\S+)% / (\S+)% \(published 1\.69% / 10\.72%\), with 20% noise for 46, to (\S+)% / "
        r"(\S+)% \(3\.69% / 10\.41%\), and noisy silhouettes reach (\S+)% / (\S+)% \(5",
        2,
        [
            (task, "MLE-BP + L2", column)
            for task in (*DIGITS[:2], "noisy Caltech 20%")
            for column in ("all", "changed")
        ],
    ),
    (
        r"tasks of digits, by 1 to 3% \((\S+)%, (\S+)%, (\S+)% and (\S+)%, for (\S+)%, (\S+)%, "
        r"(\S+)% and (\S+)% of MLE-BP\)",
        2,
        [(task, method, "all") for method in ("MSSVM", "MLE-BP") for task in DIGITS],
    ),
    (
        r"level with logistic regression on digits \((\S+)% for (\S+)% and (\S+)% for (\S+)% in "
        r"noise, (\S+)% for (\S+)% and (\S+)% for (\S+)% in patches\)",
        2,
        [(task, method, "all") for task in DIGITS for method in ("CD-PercLoss", "LR")],
    ),
]


@pytest.mark.parametrize(("phrase", "digits", "places"), CRBM_CLAIMS)
def test_prose_about_images_is_the_results(phrase, digits, places):
    found = found_in("learning_rules.md", phrase)
    rows = Rows(DOC / "crbm_tables.csv").read()
    expected = [float(rows[f"{task}, {method}, full"][column]) for task, method, column in places]
    assert list(found.groups()) == [f"{value:.{digits}f}" for value in expected]


def test_prose_about_settings_on_silhouettes_is_the_results():
    phrase = (
        r"MLE-BP leaves (\S+)% / (\S+)% wrong at a rate of 0\.15, (\S+)% / (\S+)% at 0\.05, and "
        r"(\S+)% / (\S+)% with .*? best epoch is the (\d+)th\. MSSVM leaves (\S+)% / (\S+)% "
        r"wrong at 0\.15, and (\S+)% / (\S+)% with"
    )
    found = found_in("learning_rules.md", phrase)
    rows = Rows(DOC / "rule_settings.csv").read()
    expected = []
    for name in ("MLE-BP", "MLE-BP, rate 0.05", "MLE-BP, printed, rate 0.05", "MSSVM",
                 "MSSVM, printed, rate 0.05, 50 epochs"):  # fmt: skip
        row = rows[f"noisy Caltech 20%, {name}"]
        expected += [f"{float(row['marginal_all']):.2f}", f"{float(row['marginal_changed']):.1f}"]
    longer = rows["noisy Caltech 20%, MLE-BP, printed, rate 0.05, 50 epochs"]
    expected.insert(6, longer["marginal_epoch"])
    assert list(found.groups()) == expected
    assert float(longer["marginal_all"]) == float(
        rows["noisy Caltech 20%, MLE-BP, printed, rate 0.05"]["marginal_all"]
    )
