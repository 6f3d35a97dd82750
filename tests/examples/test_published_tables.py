"""The tables of the pages, and figures in their prose, against the results of the programs."""

import csv
import math
import re

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
from tests.reference.pages import DOC, found_in

COLUMNS = "HAPRF"


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
        r"On Scene the linear program lowers A of LMBM from (\S+) to (\S+) and on Yeast from (\S+) "
        r"to (\S+)\. In more",
        [
            (name, row, "A")
            for name in ("scene", "yeast")
            for row in ("LMBM", "LMBM, linear program")
        ],
    ),
    (
        r"On Scene the linear program then lowers A from (\S+) to (\S+), but has the better H "
        r"\((\S+) for (\S+)\), P \((\S+) for (\S+)\) and F \((\S+) for (\S+)\)\. On",
        [
            *(("scene", row, "A") for row in ("LMBMr", "LMBMr, linear program")),
            *(
                ("scene", row, column)
                for column in "HPF"
                for row in ("LMBMr, linear program", "LMBMr")
            ),
        ],
    ),
    *(
        (
            r"On Yeast both have the same A of (\S+) and F of (\S+), and H is (?:\S+ for )?"
            + pattern,
            [("yeast", row, column) for column in "AFH"],
        )
        for row, pattern in (
            ("LMBMr, linear program", r"(\S+) for \S+, because"),
            ("LMBMr", r"(\S+), because"),
        )
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


def test_prose_about_the_searches_of_the_structural_svm():
    phrase = (
        r"linear program is within (\S+) of A with the exact search, and A with ICM within (\S+)\."
    )
    found = found_in("lmbm.md", phrase)
    rows = results()
    expected = []
    for search in ("linear program", "ICM"):
        apart = [
            abs(float(rows[name, f"SSVM, {search}"]["A"]) - float(rows[name, "SSVM, exact"]["A"]))
            for name in ("scene", "yeast")
        ]
        expected.append(f"{math.ceil(1000 * max(apart) - 1e-9) / 1000:.3f}")
    assert list(found.groups()) == expected
    for name in ("scene", "yeast"):
        for machine in ("LMBM", "LMBMr"):
            relaxed = rows[name, f"{machine}, linear program"]["A"]
            assert round(float(rows[name, machine]["A"]), 3) >= round(float(relaxed), 3)


def test_prose_about_defaults_on_images_is_the_results():
    found = found_in(
        "default_settings.md", r"ahead of `MSSVMCRBM` in patches and, by (\S+)%, in noise at 28"
    )
    done = Rows(DOC / "margin_settings.csv").read()
    wrong = {
        task: [float(done[f"{task}, {name}"]["all"]) for name in margin_settings.MODELS]
        for task in margin_settings.TASKS
    }
    assert all(margin < none for none, _, margin in wrong.values())
    ahead = {task: margin - hidden for task, (_, hidden, margin) in wrong.items()}
    assert found.groups() == (f"{ahead['noise, 28 x 28']:.2f}",)
    assert ahead["patches, 14 x 14"] > 0 > ahead["noise, 14 x 14"]


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
    "Gibbs, 100 updates from coin flips": "gibbs 100 updates",
    'persistent Gibbs chains ("pcd")': "pcd",
    'independent beliefs ("bp")': "bp",
}


def test_prose_about_sequences():
    """Precision and recall of own samples, and by exact samples, of the learners in the prose."""
    rows = list(Rows(DOC / "bp_chain_tables.csv").read().values())
    found = found_in(
        "factor_graphs.md",
        r"slightly ahead \(precision and recall of (\S+) and (\S+), and (\S+) and (\S+) for the "
        r"chain as printed\)\. With 31 variables the chain has (\S+) and (\S+) as printed and "
        r"(\S+) and (\S+) with 5 iterations, \"cd\" (\S+) and (\S+), and Gibbs chains that begin "
        r"at coin flips in training (\S+) and (\S+)\. By exact samples the chain as printed then "
        r"has (\S+) and (\S+), \"cd\" (\S+) and (\S+), and Gibbs chains from coin flips (\S+) and "
        r"(\S+)\.",
    )
    chain, gibbs, random = "bp_chain cold 20", "cd 100 updates", "gibbs 100 updates"
    expected = []
    for n, prefix, learners in (
        ("7", "own_", (gibbs, chain)),
        ("31", "own_", (chain, "bp_chain warm 5", gibbs, random)),
        ("31", "", (chain, gibbs, random)),
    ):
        for learner in learners:
            cell = [
                r for r in rows if (r["kind"], r["n"], r["learner"]) == ("sequences", n, learner)
            ]
            assert len(cell) == 3
            for name in ("precision", "recall"):
                mean = sum(float(row[prefix + name]) for row in cell) / 3
                expected.append(f"{mean:.2f}".removeprefix("0"))
    assert list(found.groups()) == expected


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
