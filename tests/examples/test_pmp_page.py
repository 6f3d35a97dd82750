"""Figures in the prose about perturb-and-max-product, against the results of its program."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from examples._harness import Rows

DOC = Path(__file__).parents[2] / "doc"
PERSISTENT = "recovery erdos-renyi 200 persistent"
ROWS = Rows(DOC / "pmp_tables.csv").read()


def sampled(cell, column, sweeps, seeds="0", digits=2):
    """Return the mean score of the seeds of a cell, sampled with a number of sweeps, as text."""
    cells = [ROWS[f"{cell} seed={seed}"] for seed in seeds.split(",")]
    places = [row["sweeps"].split().index(str(sweeps)) for row in cells]
    values = [float(row[column].split()[k]) for row, k in zip(cells, places)]
    return prose_number(np.mean(values), digits)


def prose_number(value, digits):
    """Return a number as the prose writes it: .177, but -0.52 and 1.20 with their digits."""
    return f"{value:.{digits}f}".removeprefix("0")


def zeros(learner, rate, column="log_mmd", sweeps=25, seeds="40,41", **options):
    cell = f"zeros 16 {learner}-25 rate={rate} plain"
    return sampled(cell, column, sweeps, seeds, **options)


def mnist(learner, sweeps, column="log_mmd"):
    return sampled(f"mnist {learner}-25 plain epochs=1", column, sweeps, "0")


def coins(data, column):
    row = ROWS[f"{data} reference independent with the data's means"]
    return f"{float(row[column]):.2f}"


def recovery(rows, n_sweeps, column="log_mmd", learners=("pmp", "gibbs reset")):
    """Return the figures of a seed on the Erdos-Renyi graph, number of sweeps by number."""
    return [
        sampled(f"recovery erdos-renyi 200 {learner}-{n} {rows}", column, n)
        for learner in learners
        for n in n_sweeps
    ]


def likelihoods(learner):
    """Return the mean exact log-likelihood, and the errors of its means by AIS."""
    cells = [ROWS[f"likelihood {learner} seed={seed}"] for seed in range(3)]
    exact = np.mean([float(row["log_likelihood"]) for row in cells])
    annealed = [[float(text) for text in row["log_likelihood_ais"].split()] for row in cells]
    return exact, np.abs(np.mean(annealed, axis=0) - exact)


def likelihood_figures():
    """Return the figures of the paragraph about appendix B.4."""
    learners = ("pmp", "gibbs reset", "gibbs pcd")
    exact, errors = zip(*map(likelihoods, learners))
    largest = [math.ceil(100 * error) / 100 for error in np.max(errors, axis=0)[[0, -1]]]
    scores = {
        name: np.mean(
            [
                [float(text) for text in ROWS[f"likelihood {name} seed={seed}"]["log_mmd"].split()]
                for seed in range(3)
            ],
            axis=0,
        )
        for name in learners
    }
    own = [scores[name][0] for name in learners]
    return [
        *(prose_number(value, 2) for value in largest),
        *(f"{value:.2f}" for value in (*exact, *own, *scores["pmp"][1:])),
    ]


def deconvolution(n_images, damping):
    """Return rows of experiment 6."""
    words = f"deconvolution images={n_images} ", f" damping={damping} "
    return [row for key, row in ROWS.items() if all(word in key for word in words)]


def deconvolution_figures():
    """Return the figures of the paragraph about pixels and places."""
    rows = [row for n in (30, 100) for damping in (0.5, 0.8) for row in deconvolution(n, damping)]
    wrong = [100 - float(row["explained"]) for row in rows]
    off = [100 - float(row["all_off"]) for row in rows]
    extra = [
        [100 * int(row["places"]) / int(row["places_true"]) - 100 for row in deconvolution(n, 0.5)]
        for n in (30, 100)
    ]
    seed = [ROWS[f"deconvolution images=30 sweeps={n} damping=0.8 seed=4"] for n in (50, 500)]
    ends = [f"{choose(part):.0f}" for part in (wrong, off, *extra) for choose in (min, max)]
    return [*ends, *(row["places"] for row in seed), seed[0]["places_true"]]


def chain_figures():
    """Return the figures of the paragraph about Gibbs with gradients in experiment 6."""
    name = "deconvolution gwg{} images=30 sweeps={} cost={} seed={}".format
    held = [
        [float(ROWS[name(f" {known} known", 1, 460, seed)]["explained"]) for seed in range(3)]
        for known in ("shapes", "places")
    ]
    free = [ROWS[name("", 5, 460, seed)] for seed in range(3)]
    known = [
        min(float(ROWS[name(f" {part} known", 5, 5, seed)]["explained"]) for seed in range(3))
        for part in ("shapes", "places")
    ]
    seeds = [ROWS[name("", 5, 5, seed)] for seed in range(3)]
    assert all(int(row["places"]) > 2 * int(row["places_true"]) for row in seeds)
    by_maxima = ROWS["deconvolution images=30 sweeps=50 damping=0.5 seed=0"]
    return [
        *(f"{choose(part):.0f}" for part in held for choose in (min, max)),
        *(
            f"{choose(float(row[column]) for row in free):.0f}"
            for column in ("explained", "all_off")
            for choose in (min, max)
        ),
        f"{known[0]:.1f}",
        f"{known[1]:.0f}",
        *(f"{choose(float(row['explained']) for row in seeds):.1f}" for choose in (min, max)),
        f"{float(seeds[0]['explained']):.1f}",
        *(seeds[0][column] for column in ("places", "places_true")),
        f"{float(by_maxima['explained']):.1f}",
        by_maxima["places"],
    ]


# A phrase of doc/perturb_and_max_product.md, and a function that returns the figures.
MEAN_CLAIMS = [
    (
        r"After five epochs perturb-and-max-product has (\S+) with 25 sweeps and (\S+) with 100, "
        r"restarted chains (\S+) and (\S+), .*? persistent chains (\S+) and (\S+)\. So .*? fall "
        r"from (\S+) to (\S+), and at a bandwidth of \.05 it has (\S+) after five epochs and (\S+) "
        r"after the first\.",
        lambda: [
            *(
                sampled(f"mnist {learner}-25 plain epochs=5", "log_mmd", sweeps, "0")
                for learner in ("pmp", "gibbs reset", "gibbs pcd")
                for sweeps in (25, 100)
            ),
            *(
                sampled(f"mnist pmp-25 plain epochs={epochs}", column, 25, "0", digits=digits)
                for column, digits, several in (
                    ("covariance_error", 3, (1, 5)), ("log_mmd_05", 2, (5, 1)),
                )
                for epochs in several
            ),
        ],
    ),
    (
        r"handwritten twos scores (\S+) \(log MMD, .*? against (\S+) with Gibbs .*? "
        r"outlines of zeros scores (\S+) against (\S+), for",
        lambda: [
            sampled("twos pmp-100 plain", "log_mmd", 100, "0,1", 1),
            sampled("twos gibbs reset-100 plain", "log_mmd", 100, "0,1,2", 1),
            *(zeros(learner, 0.001, digits=1) for learner in ("pmp", "gibbs reset")),
        ],
    ),
    (
        r"a mean log MMD of (\S+), Gibbs with gradients (\S+) and restarted Gibbs chains (\S+)\. "
        r".*? the means are (\S+) and (\S+), and one seed has (\S+) and (\S+)\. .*? at a bandwidth "
        r"of \.05 \((\S+) and (\S+)\) and in the covariances \((\S+) and (\S+)\), .*? place of 25 "
        r"its log MMD is (\S+), and perturb-and-max-product still has (\S+) \(step .*? they have "
        r"(\S+) and (\S+) with the step of \.00025, and (\S+) and (\S+) with \.001\.",
        lambda: [
            *(zeros(learner, 0.001) for learner in ("pmp", "gwg reset", "gibbs reset")),
            *(
                zeros(learner, 0.00025, column, 50, seeds, digits=digits)
                for column, seeds, digits in (
                    ("log_mmd", "40,41", 2), ("log_mmd", "40", 2), ("log_mmd_05", "40,41", 2),
                    ("covariance_error", "40,41", 3),
                )
                for learner in ("pmp", "gwg reset")
            ),
            *(zeros(learner, 0.001, sweeps=100) for learner in ("gibbs reset", "pmp")),
            *(
                zeros("gibbs pcd", rate, sweeps=100, seeds=seed)
                for rate, seeds in ((0.00025, "41 40"), (0.001, "40 41"))
                for seed in seeds.split()
            ),
        ],
    ),
    (
        r"has a log MMD of (\S+) \(two seeds; published -5\.36\), restarted Gibbs chains have "
        r"(\S+) \(-4\.18\), PCD-100 (\S+) \(-2\.70\) and PCD-1 (\S+) \(-2\.88\), .*? falls to "
        r"(\S+)\. .*? have (\S+), ahead of .*? have (\S+), and perturb-and-max-product (\S+)\. \*",
        lambda: [
            sampled("twos pmp-100 plain", "log_mmd", 100, "0,1"),
            *(
                sampled(f"twos gibbs {learner} plain", "log_mmd", sweeps, "0,1,2")
                for learner, sweeps in (
                    ("reset-100", 100), ("pcd-100", 100), ("pcd-1", 100), ("reset-100", 500)
                )
            ),
            *(coins("twos", column) for column in ("log_mmd", "log_mmd_05")),
            sampled("twos pmp-100 plain", "log_mmd_05", 100, "0,1"),
        ],
    ),
    (
        r"has a log MMD of (\S+) with 25 sweeps of sampling and (\S+) with 100, .*? have (\S+) "
        r"and (\S+), and persistent chains (\S+) and (\S+)\. But .*? have (\S+), so .*? coins have "
        r"(\S+) and perturb-and-max-product (\S+) and (\S+)\. It",
        lambda: [
            *(
                mnist(learner, sweeps)
                for learner in ("pmp", "gibbs reset", "gibbs pcd")
                for sweeps in (25, 100)
            ),
            *(coins("mnist", column) for column in ("log_mmd", "log_mmd_05")),
            *(mnist("pmp", sweeps, "log_mmd_05") for sweeps in (25, 100)),
        ],
    ),
    (
        r"printed steps and 10, 25, 50 and 100 sweeps perturb-and-max-product has a log MMD of "
        r"(\S+), (\S+), (\S+) and (\S+) and the Gibbs chains have (\S+), (\S+), (\S+) and (\S+), "
        r"so .*? sweeps: (\S+), (\S+), (\S+) and (\S+) against (\S+), (\S+), (\S+) and (\S+)\. "
        r"The estimator has (\S+), (\S+), (\S+) and (\S+), and its Gibbs chains have (\S+), (\S+), "
        r"(\S+) and (\S+)\. The",
        lambda: [
            *recovery("printed", (10, 25, 50, 100)),
            *recovery("printed", (10, 25, 50, 100), "log_mmd_05"),
            *recovery("plain", (10, 25, 50, 100)),
        ],
    ),
    (
        r"with five updates, it has (\S+) and a log RMSE of (\S+)\. But it takes (\S+) seconds, "
        r"where Gibbs chains take (\S+) and Gibbs with gradients (\S+)\. \*",
        lambda: [
            f"{float(ROWS[f'{PERSISTENT} {learner} updates=5 seed=0'][column]):.{digits}f}"
            for learner, column, digits in (
                ("pmp", "log_mmd", 2), ("pmp", "log_rmse", 2), ("pmp", "seconds", 0),
                ("gibbs pcd", "seconds", 0), ("gwg pcd", "seconds", 0),
            )
        ],
    ),
    (
        r"its means differ by at most (\S+) from .*? 1000 steps by at most (\S+)\. But .*? It is "
        r"(\S+) for perturb-and-max-product, (\S+) for restarted and (\S+) for .*? samples is "
        r"(\S+), (\S+) and (\S+)\. Gibbs .*? have (\S+), and (\S+) after 1000",
        likelihood_figures,
    ),
    (
        r"(\d+) to (\d+)% of the pixels stay unexplained \(all pixels off: (\d+) to (\d+)%\).*? "
        r"images have (\d+) to (\d+)% more places than are true, and samples of 100 images have "
        r"(\d+) to (\d+)% more\..*? \((\d+) and (\d+) places where (\d+) are true\)",
        deconvolution_figures,
    ),
    (
        r"After a sweep, (\d+) to (\d+)% and (\d+) to (\d+)% of the pixels are explained, .*? "
        r"knowledge (\d+) to (\d+)% after five .*? shape at all \((\d+) to (\d+)%\)\. .*? they "
        r"explain at least (\S+)% and (\S+)% of .*? they explain (\S+) to (\S+)%, by more .*? seed "
        r"0, (\S+)% are explained by (\d+) places where (\d+) are true: .*? explains (\S+)% "
        r"of these images with (\d+) places after 50",
        chain_figures,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("phrase", "figures"), MEAN_CLAIMS)
def test_prose_is_the_results(phrase, figures):
    page = " ".join((DOC / "perturb_and_max_product.md").read_text().split())
    found = re.search(phrase, page)
    assert found, "the phrase has changed: adapt this test"
    assert list(found.groups()) == figures()
