"""Files of factor graphs: UAI networks, evidence, queries and solutions; libDAI networks."""

import gzip
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skcrbm.energies import (
    FactorGraphEnergy,
    read_uai_evidence,
    read_uai_query,
    read_uai_solution,
    write_uai_evidence,
    write_uai_query,
    write_uai_solution,
)
from skcrbm.formats.libdai import read_libdai, write_libdai
from skcrbm.formats.uai import Network, read_network, write_uai

nan = np.nan
STATES = [2, 2, 3]

# A constant, a variable with a single state, and a scope that is not in order.
NETWORK = """BAYES
3
2 1 3
4
0
2 2 0
1 1
2 0 2

1
2.5
6
0.1 0.9 .25 75e-2
1 0
1 1
6 1 2 3
4 5 6
"""
LIBDAI = """# a comment
2

2
7 4
2 3
# entries
4
0 0.5
5 6
3 1e1
1 2

1
9
1
1
0 3
"""


def same_network(a, b):
    assert a.kind == b.kind
    np.testing.assert_array_equal(a.n_states, b.n_states)
    for left, right in ((a.scopes, b.scopes), (a.tables, b.tables)):
        assert all(map(np.array_equal, left, right))
        assert len(left) == len(right)


# -------------------------------------------------------------------- networks


def test_network_of_every_form():
    network = read_network(NETWORK)
    assert network.kind == "BAYES"
    assert network.n_states.dtype == np.int64
    assert network.n_states.tolist() == [2, 1, 3]
    assert [scope.tolist() for scope in network.scopes] == [[], [2, 0], [1], [0, 2]]
    assert [table.shape for table in network.tables] == [(), (3, 2), (1,), (2, 3)]
    assert network.tables[0] == 2.5
    assert network.tables[1][1, 1] == 0.75  # the first variable is the slowest
    assert network.tables[3].tolist() == [[1, 2, 3], [4, 5, 6]]
    same_network(read_network(write_uai(network)), network)
    same_network(read_network(NETWORK.replace("\n", "\r\n").replace("BAYES", "Bayes")), network)


def test_libdai_network_of_every_form():
    network, labels = read_libdai(LIBDAI)
    assert labels.tolist() == [4, 7, 9]
    assert network.kind == "MARKOV"
    assert network.n_states.tolist() == [3, 2, 1]
    assert [scope.tolist() for scope in network.scopes] == [[1, 0], [2]]
    # Entry e is the state (e % 2, e // 2): the first variable is the fastest.
    assert network.tables[0].tolist() == [[0.5, 0, 0], [2, 10, 6]]
    again, labels = read_libdai(write_libdai(network))
    same_network(again, network)
    assert labels.tolist() == [0, 1, 2]


def test_libdai_text_keeps_variables_without_tables():
    network = read_network("MARKOV 3 2 4 2 1 1 0 2 5 6")
    again, labels = read_libdai(write_libdai(network))
    assert labels.tolist() == [0, 1, 2]
    assert again.n_states.tolist() == [2, 4, 2]
    assert [table.tolist() for table in again.tables] == [[5, 6], [1, 1, 1, 1], [1, 1]]


@st.composite
def networks(draw):
    states = draw(st.lists(st.integers(1, 4), max_size=5))
    weight = st.floats(0, allow_infinity=False)
    scopes, tables = [], []
    for _ in range(draw(st.integers(0, 4))):
        scope = draw(st.permutations(range(len(states))))[: draw(st.integers(0, 3))]
        shape = tuple(states[i] for i in scope)
        size = math.prod(shape)
        flat = draw(st.lists(weight, min_size=size, max_size=size))
        scopes.append(np.array(scope, np.int64))
        tables.append(np.array(flat, np.float64).reshape(shape))
    kind = draw(st.sampled_from(["MARKOV", "BAYES"]))
    return Network(kind, np.array(states, np.int64), scopes, tables)


@given(networks())
def test_networks_there_and_back(network):
    same_network(read_network(write_uai(network)), network)
    again, labels = read_libdai(write_libdai(network))
    assert labels.tolist() == list(range(len(network.n_states)))
    m = len(network.scopes)
    assert all((table == 1).all() for table in again.tables[m:])
    found = Network(network.kind, again.n_states, again.scopes[:m], again.tables[:m])
    same_network(found, network)


# -------------------------------------------------------------------- evidence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", [[nan, nan, nan]]),
        ("0\n", [[nan, nan, nan]]),
        ("2 0 1 2 0", [[1, nan, 0]]),
        ("2\n0 1 2 2\n", [[1, nan, 2]]),
        ("1 2 2", [[nan, nan, 2]]),
        ("1\n2 2", [[nan, nan, 2]]),
        ("1\n2 0 1 2 2 ", [[1, nan, 2]]),
        ("1 2 0 1 2 2 ", [[1, nan, 2]]),
        ("1\n0", [[nan, nan, nan]]),
        ("1\n2 0 1\n2 2 ", [[1, nan, 2]]),
        ("2\n1 1 0\n2 0 1 2 2\n", [[nan, 0, nan], [1, nan, 2]]),
        ("2 1 1 0 2 0 1 2 2", [[nan, 0, nan], [1, nan, 2]]),
        ("3\r\n0\r\n0\r\n3 0 1 1 1 2 1", [[nan] * 3, [nan] * 3, [1, 1, 1]]),
        # Both readings fit the number of words, and the lines decide.
        ("2 0 1\n2 0", [[1, nan, 0]]),
        ("2\n0 1\n2 0", [[1, nan, 0]]),
        ("2\n0\n1 2 0", [[nan, nan, nan], [nan, nan, 0]]),
        ("\n2\n\n0\n\n1 2 0\n", [[nan, nan, nan], [nan, nan, 0]]),
    ],
)
def test_evidence_of_every_form(text, expected):
    np.testing.assert_array_equal(read_uai_evidence(text, STATES), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends before its first word, but the number of clamped variables was expected"),
        ("2 0 1 2", r"ends after word 4 \(line 1\), but a clamped variable and its state"),
        ("1\n2 0 1 2", r"ends after word 5 \(line 2\), but a clamped variable and its state"),
        ("2\n1 0 1", r"ends after word 4 \(line 2\), but the number of clamped variables"),
        ("0 1", r"must end after the last state, but has '1' as word 2 \(line 1\)"),
        ("1 0 1 5", r"must end after the last state"),
        ("-1", r"an integer from 0 to 3, as word 1 \(line 1\), got '-1'"),
        ("4 0 0 1 0 2 0 0 0", r"an integer from 0 to 3, as word 1"),
        ("9" * 40, r"an integer from 0 to 3, as word 1 \(line 1\), got '9{30}\.\.\.'"),
        ("1 0.0 1", r"a clamped variable, an integer from 0 to 2, as word 2 .* got '0\.0'"),
        ("1 3 0", r"a clamped variable, an integer from 0 to 2, as word 2"),
        ("1 2 3", r"the state of variable 2, an integer from 0 to 2, as word 3 .* got '3'"),
        ("1 2 -1", r"the state of a variable, an integer at least 0, as word 3"),
        ("1 2 " + "9" * 30, r"the state of variable 2, an integer from 0 to 2, as word 3"),
        ("2 1 0 1 0", r"a clamped variable that occurs only once, as word 4"),
        ("evidence.evid", r"as word 1 .* got 'evidence.evid' \(no file has this name, either\)"),
    ],
)
def test_bad_evidence(text, message):
    with pytest.raises(ValueError, match=message):
        read_uai_evidence(text, STATES)


samples = st.lists(
    st.tuples(*[st.sampled_from([nan, *range(k)]) for k in STATES]), min_size=1, max_size=5
)


@given(samples)
def test_evidence_there_and_back(rows):
    found = read_uai_evidence(write_uai_evidence(rows), STATES)
    np.testing.assert_array_equal(found, rows)
    if len(rows) == 1:
        assert write_uai_evidence(rows[0]) == write_uai_evidence(rows)
    task, found = read_uai_solution(write_uai_solution("MMAP", rows), STATES)
    assert task == "MMAP"
    np.testing.assert_array_equal(found, rows)


def test_evidence_that_cannot_be_written():
    for bad in ([0.5], [-1], [np.inf], [[[0]]], np.zeros((0, 3))):
        with pytest.raises(ValueError, match="evidence must hold nonnegative integers"):
            write_uai_evidence(bad)
    with pytest.raises(ValueError, match="evidence must be a real array"):
        write_uai_evidence(["a"])


def test_n_states_is_checked():
    for bad in ([2, 0], [2.0, 3.0], 3, [[2, 2]], [[2], [2, 2]]):
        with pytest.raises(ValueError, match=r"n_states must be (integers|at least 1)"):
            read_uai_evidence("0", bad)
    assert read_uai_evidence("0", []).shape == (1, 0)


# --------------------------------------------------------------------- queries


def test_queries():
    query = read_uai_query("2 2\n0", STATES)
    assert query.dtype == np.int64
    assert query.tolist() == [2, 0]
    assert read_uai_query(write_uai_query(query), STATES).tolist() == [2, 0]
    assert read_uai_query(write_uai_query([]), STATES).tolist() == []
    for text, message in [
        ("2 0", r"ends after word 2 \(line 1\), but a query variable was expected"),
        ("1 0 1", "must end after the last query variable, but has '1' as word 3"),
        ("1 3", "a query variable, an integer from 0 to 2, as word 2"),
        ("2 1 1", "a query variable that occurs only once, as word 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_uai_query(text, STATES)
    for bad in ([0, 0], [-1], [0.5], [[0]], 1):
        with pytest.raises(ValueError, match="variables must be distinct nonnegative integers"):
            write_uai_query(bad)


# ------------------------------------------------------------------- solutions


@pytest.mark.parametrize(
    ("text", "task", "expected"),
    [
        ("PR\n-0.25\n", "PR", [-0.25]),
        ("PR -inf", "PR", [-np.inf]),
        ("PR\n1\n-0.25\n", "PR", [-0.25]),
        ("PR\n2\n-0.25\n3", "PR", [-0.25, 3]),
        ("pr\n7\n-BEGIN-\n1\n8", "PR", [8]),
        ("MAP\n3 1 0 2", "MAP", [[1, 0, 2]]),
        ("MPE\n3\n1 0 2", "MPE", [[1, 0, 2]]),
        ("MAP\n1\n3 1 0 2", "MAP", [[1, 0, 2]]),
        ("MAP\n2\n3 1 0 2 3 0 0 0", "MAP", [[1, 0, 2], [0, 0, 0]]),
        ("MAP\n-BEGIN-\n3 0 0 0\n-BEGIN-\n3 1 0 2", "MAP", [[1, 0, 2]]),
        ("MMAP\n2 0 1 2 2", "MMAP", [[1, nan, 2]]),
        ("MMAP\n1\n2 0 1 2 2", "MMAP", [[1, nan, 2]]),
        ("MMAP\n2\n0\n1 2 0", "MMAP", [[nan, nan, nan], [nan, nan, 0]]),
        ("MMAP\n1 0 0\n-BEGIN-\n2\n0\n1 2 0", "MMAP", [[nan, nan, nan], [nan, nan, 0]]),
    ],
)
def test_solutions_of_every_form(text, task, expected):
    name, value = read_uai_solution(text, STATES)
    assert name == task
    np.testing.assert_array_equal(value, expected)
    name, again = read_uai_solution(write_uai_solution(task, value), STATES)
    assert name == task
    np.testing.assert_array_equal(again, value)


@pytest.mark.parametrize("head", ["MAR\n", "MAR\n1\n", "MAR 1 ", "MAR x\n-BEGIN-\n"])
def test_marginals(head):
    text = "3 2 0.25 0.75 2 0 1 3 .2 .3 .5"
    task, value = read_uai_solution(head + text, STATES)
    assert task == "MAR"
    assert [m.tolist() for m in value] == [[[0.25, 0.75]], [[0, 1]], [[0.2, 0.3, 0.5]]]
    _, value = read_uai_solution(f"MAR\n2\n{text}\n{text}", STATES)
    assert [m.shape for m in value] == [(2, 2), (2, 2), (2, 3)]
    assert value[2][1].tolist() == [0.2, 0.3, 0.5]
    written = write_uai_solution("MAR", value)
    assert written.splitlines()[1] == "2"
    _, again = read_uai_solution(written, STATES)
    for left, right in zip(value, again, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("text", ["MAP\n1\n1 0", "MAP\n1 0", "MAP\n1\n0", "MAP 1 1 0"])
def test_states_of_a_single_variable(text):
    assert read_uai_solution(text, [2])[1].tolist() == [[0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends before its first word, but 'PR' or 'MAR' or 'MAP' or 'MPE' or 'MMAP' was"),
        ("MAX 3", "must have 'PR' or .* as word 1"),
        ("PR", r"ends after word 1 \(line 1\), but log10 of the partition function"),
        ("PR\n-BEGIN-\n", r"ends after word 2 \(line 2\), but log10"),
        ("PR nan", "log10 of the partition function, a finite number or -inf, as word 2"),
        ("PR inf", "a finite number or -inf"),
        ("PR 1.5 2", "must end after the last solution, but has '2' as word 3"),
        ("PR\n2\n1.5", r"ends after word 3 \(line 3\), but log10"),
        ("PR\n0\n1.5", r"the number of samples, an integer at least 1, as word 2 \(line 2\)"),
        ("MAP\n2 1 0", "have 3, the number of variables, as word 2"),
        ("MAP\n3 1 0", r"ends after word 4 \(line 2\), but the state of a variable"),
        ("MAP\n1\n3 1", r"ends after word 4 \(line 3\), but the state of a variable"),
        ("MAP\n3 1 0 2 2", "must end after the last solution"),
        ("MAP\n3 1 0 3", r"the state of variable 2, an integer from 0 to 2, as word 5 \(line 2\)"),
        ("MAP\n3 1 0 1.0", "the state of a variable, an integer at least 0, as word 5"),
        ("MAR\n3 2 .5 .5 3 0 1 0 2 0 1", "have 2, the number of states of variable 1, as word 6"),
        ("MAR\n3 2 .5 .5 2 0 1 3 .2 .3", r"ends after word 11 .* a marginal of variable 2"),
        ("MAR\n3 2 .5 1.5 2 0 1 3 .2 .3 .5", "a marginal of variable 0, a number from 0 to 1"),
        ("MAR\n3 2 .5 .6 2 0 1 3 .2 .3 .5", "variable 0 with a sum of 1 as word 4"),
        ("MAR\n3 2 .5 nan 2 0 1 3 .2 .3 .5", "a marginal of variable 0"),
        ("MMAP\n2 0 1", r"ends after word 4 \(line 2\), but a clamped variable and its state"),
    ],
)
def test_bad_solutions(text, message):
    with pytest.raises(ValueError, match=message):
        read_uai_solution(text, STATES)


@pytest.mark.parametrize(
    ("task", "value", "message"),
    [
        ("MAX", 1, "task must be one of 'PR'"),
        ("PR", nan, "value of the task 'PR' must hold log10"),
        ("PR", np.inf, "value of the task 'PR' must hold log10"),
        ("PR", [], "value of the task 'PR' must hold log10"),
        ("PR", "x", "value must be a real array"),
        ("MAP", [0.5], "value of the task 'MAP' or 'MPE' must hold states"),
        ("MAP", [-1], "must hold states"),
        ("MPE", [nan], "must hold states"),
        ("MAP", [[[0]]], "must hold states"),
        ("MAR", [[0.5, 0.6]], r"value\[0\] of the task 'MAR' must hold probabilities that sum"),
        ("MAR", [[1], [-0.5, 1.5]], r"value\[1\] of the task 'MAR' must hold probabilities from"),
        ("MAR", [[[1], [1]], [[1]]], r"value\[1\] of the task 'MAR' must have shape"),
        ("MAR", [[]], r"value\[0\] of the task 'MAR' must have shape"),
        ("MAR", 3, "value of the task 'MAR' must be a sequence"),
        ("MMAP", [0.5], "value must hold nonnegative integers"),
    ],
)
def test_solutions_that_cannot_be_written(task, value, message):
    with pytest.raises(ValueError, match=message):
        write_uai_solution(task, value)


# ------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("BAYES", "MARKO", r"'MARKOV' or 'BAYES' as word 1 \(line 1\), got 'MARKO'"),
        ("BAYES\n3", "BAYES\n-3", "the number of variables, an integer at least 0, as word 2"),
        ("2 1 3", "2 0 3", r"the number of states .* from 1 to \d+, as word 4 \(line 3\)"),
        ("2 1 3", "2 1000000000000 3", "the number of states of a variable, an integer from 1"),
        ("2 2 0", "4 2 0", "the number of variables of table 1, an integer from 0 to 3, as word 8"),
        ("2 2 0", "2 0 0", "a variable of table 1 that occurs only once, as word 10"),
        ("2 2 0", "2 2 3", "a variable of table 1, an integer from 0 to 2, as word 10"),
        ("\n6\n", "\n5\n", r"have 6, the number of weights of table 1, as word 18 \(line 12\)"),
        ("\n6\n", "\n6.0\n", "have 6, the number of weights of table 1, .* got '6.0'"),
        ("75e-2", "75e", r"a weight, a finite number of at least 0, as word 22 \(line 13\)"),
        ("75e-2", "-75e-2", "a weight, a finite number of at least 0, as word 22"),
        ("75e-2", "nan", "a weight, a finite number of at least 0, as word 22"),
        ("75e-2", "1e999", "a weight, a finite number of at least 0, as word 22"),
        ("75e-2", "0x1", "a weight, a finite number of at least 0, as word 22"),
        ("75e-2", "7_5", "a number or a name in ASCII as word 22"),
        ("75e-2", "٣", "a number or a name in ASCII as word 22"),
        ("4 5 6\n", "4 5", r"ends after word 32 \(line 17\), but a weight of table 3 was"),
        ("4 5 6\n", "4 5 6 7", "must end after the last table, but has '7' as word 34"),
    ],
)
def test_bad_networks(old, new, message):
    assert NETWORK.count(old) == 1
    with pytest.raises(ValueError, match=f"^UAI text .*{message}"):
        read_network(NETWORK.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("comment\n2", "comment\n3", r"ends after word 21 .* the number of variables of table 2"),
        ("7 4\n", "7 7\n", r"of a variable of table 0 that occurs only once, as word 4 \(line 5\)"),
        ("7 4\n", "7 -4\n", "the label of a variable of table 0, an integer from 0"),
        ("1\n9\n", "1\n4\n", "have 3, the number of states of variable 4 so far, as word 18"),
        ("\n4\n0", "\n7\n0", "the number of weights .* that are not 0, an integer from 0 to 6"),
        ("5 6\n", "6 6\n", "the number of an entry of table 0, an integer from 0 to 5, as word 10"),
        ("5 6\n", "0 6\n", "the number of an entry of table 0 that occurs only once, as word 10"),
        ("5 6\n", "5 -6\n", "a weight of table 0, a finite number of at least 0, as word 11"),
        ("5 6\n", "5 6 # six\n", "as word 12"),
        ("0 3\n", "0", r"ends after word 20 .*, but a weight of table 1 was"),
        ("0 3\n", "0 3 4", "must end after the last table, but has '4' as word 22"),
    ],
)
def test_bad_libdai_networks(old, new, message):
    assert LIBDAI.count(old) == 1
    with pytest.raises(ValueError, match=f"^libDAI text .*{message}"):
        read_libdai(LIBDAI.replace(old, new))


HUGE = 10**12


def numbers(n):
    """The numbers from 0 to n - 1 as a text."""
    return " ".join(map(str, range(n)))


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_network(f"MARKOV {HUGE} 2"),
        lambda: read_network(f"MARKOV 1 2 {HUGE} 1 0"),
        lambda: read_network(f"MARKOV 40 {'2 ' * 40}1 40 {numbers(40)} {2**40} 1"),
        lambda: read_network(f"MARKOV 30 {'9 ' * 30}1 30 {numbers(30)} {9**30} 1"),
        lambda: read_libdai(f"{HUGE}\n1 0"),
        lambda: read_libdai("1\n2\n0 1\n1000000 1000000\n1\n5 1"),
        lambda: read_libdai("20\n" + "2\n0 1\n5000 5000\n1\n5 1\n" * 20),
        lambda: read_libdai(f"1\n1\n0\n{HUGE}\n0"),
        lambda: read_uai_evidence(f"{HUGE}\n0\n0", STATES),
        lambda: read_uai_evidence("10000\n" + "0\n" * 10000, [2] * 10000),
        lambda: read_uai_solution(f"MAP\n{HUGE}\n3 0 0 0", STATES),
        lambda: read_uai_query(f"{HUGE} 1", STATES),
    ],
)
def test_huge_counts_are_refused_before_allocation(read):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"word \d+ \(line \d+\)"):
            read()
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


ODD_WORDS = ["-1", "1e999", "nan", "inf", "2.5", "9" * 30, "9" * 5000, "٣", "x", "MARKOV", "0x1"]
ODD_WORDS += ["1_0", "+1", "1e-400", "\x00", "0", "1", "2", "3", "7", "65536", str(HUGE), "\n"]
ODD_WORDS += ["-BEGIN-", "#", "\ud800", "\x1c"]
VALID = {
    "network": (NETWORK, read_network, write_uai),
    "libdai": (LIBDAI, lambda text: read_libdai(text)[0], write_libdai),
    "list": ("2 0 1 2 2", lambda text: read_uai_evidence(text, STATES), write_uai_evidence),
    "samples": (
        "3\n0\n1 2 0\n2 0 1 1 1",
        lambda text: read_uai_evidence(text, STATES),
        write_uai_evidence,
    ),
    "query": ("2 0 2", lambda text: read_uai_query(text, STATES), write_uai_query),
}
SOLUTIONS = {
    "PR": "PR\n2\n-0.25\n3",
    "MAR": "MAR\n2\n3 2 .2 .8 2 0 1 3 .2 .3 .5\n3 2 .1 .9 2 1 0 3 .2 .3 .5",
    "MAP": "MAP\n2\n3 1 0 2\n3 0 0 0",
    "MMAP": "MMAP\n1 0 0\n-BEGIN-\n2\n0\n1 2 0",
}
VALID |= {
    name: (text, lambda text: read_uai_solution(text, STATES), lambda v: write_uai_solution(*v))
    for name, text in SOLUTIONS.items()
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", VALID)
def test_damaged_text_is_read_or_refused(name):
    """Whatever is read can be written, and is read again as the same; all else is refused."""
    text, read, write = VALID[name]
    rng = np.random.default_rng(0)
    n_read = 0
    for _ in range(2000):
        words = text.replace("\n", " \n ").split(" ")
        for _ in range(rng.integers(1, 4)):
            i, j = rng.integers(len(words), size=2)
            change = rng.integers(5)
            if change == 0:
                words[i] = str(rng.choice(ODD_WORDS))
            elif change == 1:
                del words[i]
            elif change == 2:
                words[i], words[j] = words[j], words[i]
            elif change == 3:
                words[i:i] = words[j : j + 3]
            else:
                del words[i:]
            words = words or [""]
        damaged = " ".join(words)
        try:
            value = read(damaged)
        except ValueError as error:
            message = str(error)
            assert message.startswith(("UAI ", "libDAI text ")), message
            assert "(line " in message or "ends before its first word" in message
            assert (
                "expected" in message
                or "must have" in message
                or "must end" in message
                or "limit" in message
            )
            continue
        n_read += 1
        assert write(read(write(value))) == write(value)
    assert 0 < n_read < 1900


def test_positions_name_the_line():
    text = NETWORK.replace("75e-2", "x")
    number = [line.split()[-1:] for line in text.splitlines()].index(["x"]) + 1
    place = text.split().index("x") + 1
    for changed in (text, text.replace("\n", "\r\n"), text.replace("\n", "\r")):
        with pytest.raises(ValueError, match=rf"as word {place} \(line {number}\)"):
            read_network(changed)


# ----------------------------------------------------------------------- files


def test_paths_and_text(tmp_path, monkeypatch):
    plain, packed, marked = (tmp_path / f"network{end}" for end in (".uai", ".uai.gz", ".bom"))
    plain.write_text(NETWORK, encoding="utf-8")
    with gzip.open(packed, "wt", encoding="utf-8") as file:
        file.write(NETWORK)
    marked.write_text(NETWORK, encoding="utf-8-sig")
    for source in (plain, str(plain), packed, str(packed), marked, "\ufeff" + NETWORK):
        same_network(read_network(source), read_network(NETWORK))
    monkeypatch.chdir(tmp_path)
    same_network(read_network("network.uai"), read_network(NETWORK))
    with pytest.raises(FileNotFoundError):
        read_network(tmp_path / "other.uai")
    with pytest.raises(ValueError, match=r"got 'other\.uai' \(no file has this name, either\)"):
        read_network("other.uai")
    (tmp_path / "0").write_text("1 0 1")
    assert read_uai_evidence("0", [2]).tolist() == [[1]]  # the name of a file is a path
    for bad in (b"0", 0, None):
        with pytest.raises(ValueError, match="UAI evidence must be a str or a path"):
            read_uai_evidence(bad, [2])


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "network.uai"
    path.write_text(NETWORK, encoding="utf-16")
    with pytest.raises(ValueError, match=r"^UAI text in .*network\.uai must have"):
        read_network(path)
    path.write_bytes(np.random.default_rng(0).bytes(1000))
    with pytest.raises(ValueError, match=r"^UAI text in .*network\.uai must have"):
        read_network(path)
    whole = gzip.compress(NETWORK.encode())
    for damaged in (whole[:-12], whole[:20] + b"\xff" * 20 + whole[40:], whole + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^UAI text in .*network\.uai is a damaged gzip file"):
            read_network(path)


def test_a_file_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("skcrbm.formats.words.MAX_FILE_BYTES", 20)
    path = tmp_path / "network.gz"
    path.write_bytes(gzip.compress(NETWORK.encode()))
    with pytest.raises(ValueError, match="is larger than the limit of 20 bytes"):
        read_network(path)


def test_an_energy_from_a_file(tmp_path):
    path = tmp_path / "model.uai"
    path.write_text("BAYES 2 2 2 2 1 0 2 0 1 2 .25 .75 4 .5 .5 1 0")
    energy = FactorGraphEnergy.from_uai(path)
    assert np.exp(energy.score([[1, 0], [1, 1], [0, 1]])) == pytest.approx([0.75, 0, 0.125])
    text = "MARKOV 2 2 3 3 0 1 1 2 0 1 1 2.5 3 1 2 3 6 1 2 3 4 5 0"
    energy = FactorGraphEnergy.from_uai(text)
    assert np.exp(energy.score([[0, 2], [1, 0], [1, 2]])) == pytest.approx([22.5, 10, 0])
    again = FactorGraphEnergy.from_uai(energy.to_uai())
    states = [[a, b] for a in (0, 1) for b in (0, 1, 2)]
    assert again.log_weight_of_sets(states) == pytest.approx(energy.log_weight_of_sets(states))
    with pytest.raises(ValueError, match="table 0 is the constant 0"):
        FactorGraphEnergy.from_uai("MARKOV 1 2 1 0 1 0")


def test_an_energy_of_libdai():
    energy = FactorGraphEnergy.from_fg(
        write_libdai(read_network("MARKOV 2 2 3 1 2 0 1 6 1 2 3 4 5 6"))
    )
    assert energy.n_states.tolist() == [2, 3]
    assert np.exp(energy.score([[1, 0]])) == pytest.approx([4.0])
