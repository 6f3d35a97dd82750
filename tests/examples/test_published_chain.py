"""Figures about random tables and 3-SAT in the guide, against the results of the program."""

import numpy as np
import pytest

from examples._harness import Rows
from examples.papers.bp_chain_tables import LEARNERS, SIZES, differences
from tests.reference.pages import DOC, found_in

CHAIN, GIBBS = "bp_chain cold 20", "cd 100 updates"


@pytest.fixture(scope="module")
def rows():
    """Rows of the random problems, by experiment."""
    found = Rows(DOC / "bp_chain_tables.csv").read().values()
    return {kind: [r for r in found if r["kind"] == kind] for kind in ("mrf", "sat")}


def instances(rows, n):
    """Return the number of instances of a size that all learners have."""
    has = [
        {r["instance"] for r in rows if r["learner"] == k and int(r["n"]) == n} for k in LEARNERS
    ]
    return len(set.intersection(*has))


def complete(rows):
    """Return the sizes with ten instances of all learners."""
    return [n for n in SIZES["mrf"] if min(instances(rows[kind], n) for kind in rows) == 10]


def losses(rows, sizes, column, learner, other="mle"):
    """Return how far a learner is behind another learner, for each instance of some sizes."""
    return [-differences(rows, n, column, learner, other) for n in sizes]


def spans_of_medians(rows, sizes, column, learner):
    """Return the least and the greatest median loss of the sizes, for each experiment."""
    medians = [[np.median(v) for v in losses(rows[k], sizes, column, learner)] for k in rows]
    return [(min(values), max(values)) for values in medians]


def text(value, digits=2):
    return f"{value:.{digits}f}".removeprefix("0")


def test_number_of_instances(rows):
    sizes = complete(rows)
    found = found_in(
        "factor_graphs.md",
        r"ten instances of each size up to (\d+) variables; with 28 variables there are (\w+) "
        r"random tables and (\w+) 3-SAT problems\.",
    )
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    assert sizes == list(range(10, int(found[1]) + 1, 3))
    assert [found[2], found[3]] == [words[instances(rows[kind], 28)] for kind in rows]
    assert instances(rows["mrf"], 31) == instances(rows["sat"], 31) == 0


def test_the_chain_and_gibbs_chains(rows):
    sizes = complete(rows)
    found = found_in(
        "factor_graphs.md",
        r"own samples the chain is (\S+) to (\S+) nats behind exact learning on random tables and "
        r"(\S+) to (\S+) on 3-SAT, and \"cd\" (\S+) to (\S+) and (\S+) to (\S+)\. The chain is "
        r"ahead of \"cd\" in (\d+) of (\d+) random tables and in (\d+) of (\d+) 3-SAT problems, "
        r"and with 22 and 25 variables in (\d+) of (\d+) and in (\d+) of (\d+), by (\S+) and (\S+) "
        r"nats on average\. With fewer variables it is (\S+) and (\S+) nats behind on average",
    )
    expected = [
        text(value)
        for learner in (CHAIN, GIBBS)
        for span in spans_of_medians(rows, sizes, "own_fresh", learner)
        for value in span
    ]
    large, small, means = (22, 25), tuple(n for n in sizes if n < 22), []
    for some in (sizes, large, small):
        for kind in rows:
            lead = -np.concatenate(losses(rows[kind], some, "own_fresh", CHAIN, GIBBS))
            assert len(lead) == 10 * len(some)
            if some != small:
                expected += [str((lead > 0).sum()), str(len(lead))]
            if some != sizes:
                means.append(lead.mean())
    assert min(means[:2]) > 0 > max(means[2:])
    worst = max(v.max() for kind in rows for v in losses(rows[kind], small, "own_fresh", CHAIN))
    assert round(worst) == 5
    expected += [text(abs(mean)) for mean in means]
    assert [value.rstrip(",") for value in found.groups()] == expected


def test_the_distributions_of_the_parameters(rows):
    sizes = complete(rows)
    found = found_in(
        "factor_graphs.md",
        r"\"cd\" is at most (\S+) nats behind exact learning, and the chain (\S+) to (\S+) on "
        r"random tables and (\S+) to (\S+) on 3-SAT",
    )
    chain, gibbs = (spans_of_medians(rows, sizes, "fresh", name) for name in (CHAIN, GIBBS))
    worst = max(high for _, high in gibbs)
    expected = [text(value) for value in (worst, *(v for span in chain for v in span))]
    assert [value.rstrip(".,;") for value in found.groups()] == expected


def test_independent_draws(rows):
    sizes = complete(rows)
    found = found_in(
        "factor_graphs.md",
        r"their losses lie between 0 and (\d+) nats by the parameters \(medians: (\S+) on random "
        r"tables, (\S+) on 3-SAT\), .*? behind \"cd\" in all (\d+) problems by the parameters, and "
        r"in (\d+) by own samples",
    )
    each = [np.concatenate(losses(rows[kind], sizes, "fresh", "bp")) for kind in rows]
    assert min(values.min() for values in each) == pytest.approx(0, abs=0.01)
    expected = [f"{max(v.max() for v in each):.0f}", *(text(np.median(v), 1) for v in each)]
    for column in ("fresh", "own_fresh"):
        behind = np.concatenate(
            [v for kind in rows for v in losses(rows[kind], sizes, column, "bp", GIBBS)]
        )
        if column == "fresh":
            assert (behind > 0).all()
        expected.append(str((behind > 0).sum()))
    assert list(found.groups()) == expected


def test_weights_of_the_chain(rows):
    found = found_in(
        "factor_graphs.md",
        r"at a share of \.8 or more, the median loss is (\S+) nats on random tables and (\S+) on "
        r"3-SAT, and the mean (\S+) and (\S+),",
    )
    medians, means = [], []
    for kind in rows:
        exact = {(r["n"], r["instance"]): r for r in rows[kind] if r["learner"] == "mle"}
        values = [
            float(exact[r["n"], r["instance"]]["fresh"]) - float(r["fresh"])
            for r in rows[kind]
            if r["learner"] == "weighted_bp_chain"
            and float(r["share"]) >= 0.8
            and int(r["n"]) in complete(rows)
        ]
        assert len(values) > 20
        medians.append(text(np.median(values), 3))
        means.append(text(np.mean(values)))
    assert list(found.groups()) == medians + means
