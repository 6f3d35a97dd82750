"""Figures about random tables and 3-SAT in the guide, against the results of the program."""

import numpy as np
import pytest

from examples._harness import Rows
from examples.papers.bp_chain_tables import LEARNERS, SIZES, differences, stopped_name
from tests.reference.pages import DOC, found_in

CHAIN, GIBBS, RANDOM = "bp_chain cold 20", "cd 100 updates", "gibbs 100 updates"


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
    return f"{round(value, digits) + 0.0:.{digits}f}".removeprefix("0")  # no negative zero


def leads(rows, sizes, column, other, learner=CHAIN):
    """Return how far a learner, the chain, is ahead of another learner, for each experiment."""
    return [-np.concatenate(losses(rows[kind], sizes, column, learner, other)) for kind in rows]


def test_number_of_instances(rows):
    sizes = complete(rows)
    found = found_in(
        "factor_graphs.md",
        r"ten instances of each size up to (\d+) variables; with 31 variables there are (\w+) "
        r"random tables and (\w+) 3-SAT problems\. Sequences",
    )
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    assert sizes == list(range(10, int(found[1]) + 1, 3))
    assert [found[2], found[3]] == [words[instances(rows[kind], 31)] for kind in rows]


def test_the_chain_and_gibbs_chains(rows):
    sizes = complete(rows)
    found = found_in(
        "factor_graphs.md",
        r"by own samples the chain is (\S+) to (\S+) nats behind exact learning on random tables "
        r"and (\S+) to (\S+) on 3-SAT, and \"cd\" (\S+) to (\S+) and (\S+) to (\S+) \(medians of "
        r"the sizes\)\. The chain is ahead of \"cd\" in (\d+) of (\d+) random tables and in (\d+) "
        r"of (\d+) 3-SAT problems\. From 22 variables on the chain is (\S+) and (\S+) nats ahead "
        r"on average\. With fewer variables it is (\S+) and (\S+) nats behind: .*? loses up to "
        r"(\d) nats, while on 3-SAT it is behind in (\d+) of (\d+)\.",
    )
    expected = [
        text(value)
        for learner in (CHAIN, GIBBS)
        for span in spans_of_medians(rows, sizes, "own_fresh", learner)
        for value in span
    ]
    for lead in leads(rows, sizes, "own_fresh", GIBBS):
        assert len(lead) == 10 * len(sizes)
        expected += [str((lead > 0).sum()), str(len(lead))]
    large, small = ([n for n in sizes if (n >= 22) == is_large] for is_large in (True, False))
    means = [lead.mean() for n in (large, small) for lead in leads(rows, n, "own_fresh", GIBBS)]
    assert [mean > 0 for mean in means] == [True, True, False, False]
    expected += [text(abs(mean)) for mean in means]
    expected.append(f"{np.max(losses(rows['mrf'], small, 'own_fresh', CHAIN)):.0f}")
    lead = leads(rows, small, "own_fresh", GIBBS)[1]
    expected += [str((lead < 0).sum()), str(len(lead))]
    assert list(found.groups()) == expected


def test_chains_from_coin_flips(rows):
    sizes = complete(rows)
    found = found_in(
        "factor_graphs.md",
        r"By the parameters, the chain is then (\S+) nats ahead on random tables and (\S+) on "
        r"3-SAT, on average, and ahead in (\d+) and (\d+) of (\d+) problems\. In decimal "
        r"logarithms it is (\S+) ahead on 3-SAT, where the paper has \.5\. By own samples these "
        r"Gibbs chains are (\S+) to (\S+) and (\S+) to (\S+) nats behind exact learning \(medians "
        r"of the sizes\), and on average (\S+) and (\S+) nats ahead of the chain, which is ahead "
        r"in (\d+) and (\d+) problems\.",
    )
    lead = leads(rows, sizes, "fresh", RANDOM)
    expected = [*(text(v.mean()) for v in lead), *(str((v > 0).sum()) for v in lead)]
    expected += [str(len(lead[0])), text(lead[1].mean() / np.log(10))]
    for span in spans_of_medians(rows, sizes, "own_fresh", RANDOM):
        expected += [text(value) for value in span]
    lead = leads(rows, sizes, "own_fresh", RANDOM)
    expected += [*(text(-v.mean()) for v in lead), *(str((v > 0).sum()) for v in lead)]
    assert list(found.groups()) == expected


def test_fewer_steps_of_independent_draws(rows):
    found = found_in(
        "factor_graphs.md",
        r"by a median of (\S+) nats after 50 steps, (\S+) after 200 and (\S+) after 1000, by the "
        r"training rows and the parameters; the means are (\S+), (\S+) and (\S+), because",
    )
    small = [row for row in rows["sat"] if row["n"] == "10"]
    medians, means = [], []
    for steps in (50, 200, 1000):
        chain, beliefs = (stopped_name(learner, steps) for learner in (CHAIN, "bp"))
        lead = differences(small, 10, "train", chain, beliefs)
        assert len(lead) == 10
        medians.append(text(np.median(lead)))
        means.append(text(lead.mean(), 2 if steps == 50 else 1))
    assert list(found.groups()) == medians + means


def test_persistent_chains_and_few_iterations(rows):
    found = found_in(
        "factor_graphs.md",
        r"On random tables and 3-SAT they are (\S+) and (\S+) nats ahead of the chain by own "
        r"samples, on average \(medians (\S+) and (\S+)\)\. .*? On random tables and 3-SAT it is "
        r"(\S+) and (\S+) nats behind the printed schedule by own samples, on average",
    )
    ahead = [-lead for lead in leads(rows, complete(rows), "own_fresh", "pcd")]
    behind = leads(rows, complete(rows), "own_fresh", "bp_chain warm 5")
    expected = [*(text(v.mean()) for v in ahead), *(text(np.median(v), 3) for v in ahead)]
    assert list(found.groups()) == expected + [text(v.mean()) for v in behind]


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
        r"tables, (\S+) on 3-SAT\), .*? behind \"cd\" in (\d+) of (\d+) problems by the "
        r"parameters and in (\d+) by own samples, and behind Gibbs chains from coin flips in (\d+) "
        r"and (\d+)\.",
    )
    each = [np.concatenate(losses(rows[kind], sizes, "fresh", "bp")) for kind in rows]
    assert min(values.min() for values in each) == pytest.approx(0, abs=0.01)
    expected = [f"{max(v.max() for v in each):.0f}", *(text(np.median(v), 1) for v in each)]
    for other in (GIBBS, RANDOM):
        for column in ("fresh", "own_fresh"):
            behind = np.concatenate(leads(rows, sizes, column, other, "bp")) < 0
            expected.append(str(behind.sum()))
    expected.insert(4, str(len(behind)))
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
