"""Figures about rules of conditional RBMs in the prose of their page, against the results."""

import itertools

import pytest

from examples._harness import Rows
from examples.papers import crbm_tables
from tests.reference.pages import DOC, found_in

DIGITS = ("noisy MNIST 10%", "noisy MNIST 20%", "occluded MNIST 8x8", "occluded MNIST 12x12")
SILHOUETTES = ("noisy Caltech 20%", "occluded Caltech 12x12")
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
    (
        r"\*\*Mean field\*\* is level with belief propagation on silhouettes \((\S+)% for "
        r"(\S+)%, (\S+)% for (\S+)%\)",
        2,
        [(task, method, "all") for task in SILHOUETTES for method in ("MLE-MF", "MLE-BP")],
    ),
    (
        r"as MLE-BP on noise \((\S+)% for (\S+)%, (\S+)% for (\S+)%, on silhouettes (\S+)% for "
        r"(\S+)%\) and, as published, behind logistic regression in patches of digits \((\S+)% for "
        r"(\S+)%, (\S+)% for (\S+)%\)",
        2,
        [
            *(
                (task, method, "all")
                for task in (*DIGITS[:2], "noisy Caltech 20%")
                for method in ("CD-10", "MLE-BP")
            ),
            *((task, method, "all") for task in DIGITS[2:] for method in ("CD-10", "LR")),
        ],
    ),
    (
        r"digits with noise \((\S+)% for (\S+)% of all pixels, (\S+)% for (\S+)%\) and in patches "
        r"of 8 x 8 \((\S+)% for (\S+)%\) and 12 x 12 \((\S+)% for (\S+)%\)\. It",
        2,
        [(task, method, "all") for task in DIGITS for method in ("LSSVM", "MSSVM")],
    ),
    (
        r"\((\S+)% for 1\.93%, (\S+)% for 4\.01%, (\S+)% for 1\.81%\), restores more of the "
        r"changed pixels, and is behind in patches of 12 x 12 \((\S+)% for 3\.98%\)",
        2,
        [(task, "CD-1", "all") for task in DIGITS],
    ),
]

# Rows at full size that were made while hidden units began inference.
EARLIER = {
    "MLE-BP": DIGITS[1:],
    "MLE-BP + L2": (*DIGITS, SILHOUETTES[1]),
    "MSSVM": (DIGITS[0], DIGITS[3], SILHOUETTES[1]),
    "LSSVM": SILHOUETTES,
    "CD-10": SILHOUETTES[1:],
    "CD-PercLoss": SILHOUETTES[1:],
}


def test_prose_about_rows_of_the_earlier_version_is_the_results():
    phrase = (
        r"The other (\d+) rows come .*? took (\S+) hours on digits and (\S+) hours on silhouettes\."
    )
    found = found_in("learning_rules.md", phrase)
    rows = Rows(DOC / "crbm_tables.csv").read()
    hours = [
        sum(
            float(rows[f"{task}, {method}, full"]["seconds"]) / 3600
            for method, earlier in EARLIER.items()
            for task in earlier
            if task in tasks
        )
        for tasks in (DIGITS, SILHOUETTES)
    ]
    n_rows = sum(len(tasks) for tasks in EARLIER.values())
    assert list(found.groups()) == [str(n_rows), *(f"{value:.1f}" for value in hours)]


def test_prose_about_noisy_silhouettes_is_the_results():
    phrase = (
        r"than in the paper \(by (\S+) and (\S+)\), and more .*? \(by (\S+) and (\S+)\)\. The small"
    )
    found = found_in("learning_rules.md", phrase)
    rows = Rows(DOC / "crbm_tables.csv").read()
    position = list(crbm_tables.TASKS).index(SILHOUETTES[0])
    expected = []
    for part, column in enumerate(("all", "changed")):
        for method in ("MLE-BP", "MSSVM"):
            printed = crbm_tables.PUBLISHED[method].split()[position].split("/")[part]
            value = float(rows[f"{SILHOUETTES[0]}, {method}, full"][column]) - float(printed)
            assert (value < 0) == (column == "all")
            expected.append(f"{abs(value):.2f}".removeprefix("0"))
    assert list(found.groups()) == expected


def wrong_pixels(size):
    """Return the share of wrong pixels of all, in %, by task and rule, without our own rule."""
    found = {}
    for row in Rows(DOC / "crbm_tables.csv").read().values():
        if row["size"] == size and row["method"] != crbm_tables.OWN:
            found.setdefault(row["task"], {})[row["method"]] = float(row["all"])
    return found


def pairs_in_published_order(size):
    """Return the number of pairs of rules of a task in the published order, and of all pairs."""
    kept = n_pairs = 0
    for position, task in enumerate(crbm_tables.TASKS):
        found = wrong_pixels(size)[task]
        for first, second in itertools.combinations(found, 2):
            published = [
                float(crbm_tables.PUBLISHED[rule].split()[position].split("/")[0])
                for rule in (first, second)
            ]
            kept += (published[0] - published[1]) * (found[first] - found[second]) > 0
            n_pairs += 1
    return kept, n_pairs


def test_prose_about_the_order_of_rules_is_the_results():
    full = wrong_pixels("full")
    more = [round(100 * (full[t]["CD-10"] / full[t]["MLE-BP"] - 1)) for t in full]
    of_task = dict(zip(full, more))
    found = found_in(
        "learning_rules.md", r"it has (\d+) to (\d+)% more .*? but (\d+) and (\d+)% more"
    )
    others = [of_task[task] for task in (*DIGITS[:2], *SILHOUETTES)]
    expected = [min(others), max(others), of_task[DIGITS[2]], of_task[DIGITS[3]]]
    assert [int(text) for text in found.groups()] == expected
    found = found_in(
        "learning_rules.md",
        r"ahead of MLE-BP in patches of 12 x 12 by (\S+), and mean field on noisy silhouettes by "
        r"(\S+):",
    )
    large, noisy = full[DIGITS[3]], full[SILHOUETTES[0]]
    ahead = (large["MLE-BP"] - large["LSSVM"], noisy["MLE-BP"] - noisy["MLE-MF"])
    assert list(found.groups()) == [f"{value:.3f}" for value in ahead]
    found = found_in("learning_rules.md", r"places, (\d+) of (\d+) pairs")
    kept, n_pairs = pairs_in_published_order("full")
    assert [int(text) for text in found.groups()] == [n_pairs - kept, n_pairs]
    found = found_in("learning_rules.md", r"too, (\d+) of (\d+) pairs are in the order")
    assert tuple(int(text) for text in found.groups()) == pairs_in_published_order("reduced")


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


# Phrases of doc/learning_rules.md about other settings on small images, and the figures: (setting,
# column of the results, number of digits), all of the same task.
_CHANGED = ("marginal_changed", 1)
SETTINGS_CLAIMS = [
    (
        "occluded MNIST 8x8",
        r"epochs: (\S+)% at a rate of 0\.15, (\S+)% at 0\.05, (\S+)% at 0\.02 and (\S+)% at 0\.005 "
        r".*? (\S+)% are left wrong with batches of 10 images, (\S+)% with 20, (\S+)% with 40, "
        r"(\S+)% with 80 and (\S+)% with 160\. .*? batches of 20 leave (\S+)% wrong at a rate of "
        r"0\.15, and batches of 10 leave (\S+)% \(of all pixels (\S+)% and (\S+)%\); with the "
        r"printed settings at 0\.05 they leave (\S+)% and (\S+)%\. At",
        [
            *(
                (name, *_CHANGED)
                for name in ("MSSVM", *(f"MSSVM, rate {r}" for r in (0.05, 0.02, 0.005)))
            ),
            ("MSSVM, batch 10", *_CHANGED),
            ("MSSVM", *_CHANGED),
            *((f"MSSVM, batch {n}", *_CHANGED) for n in (40, 80, 160)),
            *((f"MSSVM{n}, 50 epochs", *_CHANGED) for n in ("", ", batch 10")),
            *((f"MSSVM{n}, 50 epochs", "marginal_all", 2) for n in ("", ", batch 10")),
            *((f"MSSVM, printed, rate 0.05{n}, 50 epochs", *_CHANGED) for n in ("", ", batch 10")),
        ],
    ),
    (
        "noisy MNIST 10%",
        r"the state has (\S+)%, (\S+)%, (\S+)% and (\S+)% wrong at rates of 0\.005, 0\.01, 0\.02 "
        r"and 0\.05, and (\S+)% and (\S+)% at 0\.15 and 0\.5\. At 0\.05 batches of 10 leave (\S+)% "
        r"wrong, and batches of 160 (\S+)%\. With 200 epochs at 0\.005 the (\d+)th is the best, at "
        r"(\S+)%\.",
        [
            *((f"rate {r}", "marginal_map_all", 2) for r in (0.005, 0.01, 0.02, 0.05, 0.15, 0.5)),
            *((f"batch {n}, rate 0.05", "marginal_map_all", 2) for n in (10, 160)),
            ("200 epochs, rate 0.005", "marginal_map_epoch", 0),
            ("200 epochs, rate 0.005", "marginal_map_all", 2),
        ],
    ),
]


@pytest.mark.parametrize(("task", "phrase", "places"), SETTINGS_CLAIMS)
def test_prose_about_settings_is_the_results(task, phrase, places):
    found = found_in("learning_rules.md", phrase)
    rows = Rows(DOC / "rule_settings.csv").read()
    expected = [
        f"{float(rows[f'{task}, {name}'][column]):.{digits}f}" for name, column, digits in places
    ]
    assert list(found.groups()) == expected
    if task == "noisy MNIST 10%":
        regression = float(rows[f"{task}, LR"]["marginal_all"])
        settings = {name for name, _, _ in places}
        assert all(float(rows[f"{task}, {n}"]["marginal_map_all"]) > regression for n in settings)
