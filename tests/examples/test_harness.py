"""Long programs may be stopped anywhere and go on where they were."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from examples._harness import (
    OUTPUT,
    Arrays,
    Rows,
    make_parser,
    replacing,
    results_path,
    run_missing,
    run_tables,
)

ROOT = Path(__file__).parents[2]


def cells(ran, names=("b", "a", "c"), fails=()):
    """Cells that note that they ran."""

    def work(name):
        ran.append(name)
        if name in fails:
            raise KeyboardInterrupt
        return {"name": name, "value": f"{ord(name[0])}"}

    for name in names:
        yield f"cell {name}", partial(work, name)


def test_runs_what_is_missing_in_the_order_of_the_program(tmp_path):
    rows, ran = Rows(tmp_path / "new" / "rows.csv"), []
    rows.add("cell a", {"name": "a", "value": "kept"})
    run_missing(cells(ran), rows)
    assert ran == ["b", "c"]
    done = Rows(rows.path).read()
    assert list(done) == ["cell a", "cell b", "cell c"]
    assert done["cell a"]["value"] == "kept"
    assert done["cell b"] == {"key": "cell b", "name": "b", "value": "98"}
    run_missing(cells(ran), rows)
    assert ran == ["b", "c"]


def test_an_interrupted_cell_is_run_again(tmp_path):
    rows, ran = Rows(tmp_path / "rows.csv"), []
    with pytest.raises(KeyboardInterrupt):
        run_missing(cells(ran, fails=("a",)), rows)
    assert list(rows.read()) == ["cell b"]
    run_missing(cells(ran), rows)
    assert ran == ["b", "a", "a", "c"]
    assert list(rows.read()) == ["cell b", "cell a", "cell c"]


@pytest.mark.parametrize("cut", range(1, 40))
def test_half_a_row_is_not_taken_for_a_finished_cell(tmp_path, cut):
    """If a file is cut at any place, its rows are read whole or not at all."""
    rows = Rows(tmp_path / "rows.csv")
    whole = [{"text": 'commas, and "quotes"', "value": "1.25"}, {"text": "", "value": "12.5"}]
    for k, row in enumerate(whole):
        rows.add(f"cell {k}", row)
    content = rows.path.read_bytes()
    rows.path.write_bytes(content[:-cut])
    for k, row in enumerate(whole):
        found = rows.read().get(f"cell {k}")
        assert found in (None, {"key": f"cell {k}", **row})
    assert "cell 1" not in rows
    rows.add("cell 1", whole[1])  # and the file is whole again
    assert rows.read()["cell 1"] == {"key": "cell 1", **whole[1]}


def test_rows_may_differ_in_their_columns(tmp_path):
    rows = Rows(tmp_path / "rows.csv")
    rows.add("one", {"a": 1})
    rows.add("two", {"b": 2})
    assert rows.read() == {
        "one": {"key": "one", "a": "1", "b": ""},
        "two": {"key": "two", "a": "", "b": "2"},
    }


def test_two_programs_may_share_a_file(tmp_path):
    first, second = Rows(tmp_path / "rows.csv"), Rows(tmp_path / "rows.csv")
    first.add("one", {"a": 1})
    second.add("two", {"a": 2})
    first.add("three", {"a": 3})
    assert list(first.read()) == ["one", "two", "three"]


def test_a_file_is_replaced_when_it_is_complete_and_left_alone_else(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as file:  # noqa: PT012
        file.write("half of the n")
        file.flush()
        raise RuntimeError
    assert path.read_text() == "old"
    with replacing(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_killed_program_goes_on(tmp_path):
    """A program that is killed repeatedly while it writes loses no cell and damages no cell."""
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from examples._harness import Rows, run_missing
rows = Rows(Path({str(tmp_path)!r}) / "rows.csv")
work = lambda k: {{"k": k, "text": str(k) * 2000}}
run_missing(((f"cell {{k}}", lambda k=k: work(k)) for k in range(100000)), rows)
"""
    finished = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        for line in process.stdout:
            if line.strip() == f"cell {finished + 10}".encode():
                break
        time.sleep(0.003)
        process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        process.communicate()
        rows = Rows(tmp_path / "rows.csv").read()
        assert len(rows) >= finished + 10
        assert list(rows) == [f"cell {k}" for k in range(len(rows))]
        assert all(row["text"] == row["k"] * 2000 for row in rows.values())
        finished = len(rows)


def test_arrays_are_files_of_a_folder(tmp_path):
    store, calls = Arrays(tmp_path / "fits"), []

    def work():
        calls.append(1)
        return {"labels of x": np.arange(3), "seconds": 1.5}

    for _ in range(2):
        run_missing([("some data__a method", work)], store)
    assert len(calls) == 1
    (path,) = store.folder.iterdir()
    assert path.name == "some_data__a_method.npz"
    with np.load(path) as arrays:
        np.testing.assert_array_equal(arrays["labels of x"], np.arange(3))
        assert arrays["seconds"] == 1.5


def test_only_takes_cells_with_all_the_words(tmp_path, capsys):
    rows, ran = Rows(tmp_path / "rows.csv"), []
    rows.add("cell a", {"name": "a"})
    run_missing(cells(ran), rows, only=["cell", "a"])
    run_missing(cells(ran), rows, listed=True)
    assert ran == []
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["missing: cell b", "finished: cell a", "missing: cell c"]
    run_missing(cells(ran), rows, only=["c", "b"])
    assert ran == ["b"]


def test_only_takes_whole_keys_alone(tmp_path):
    rows, ran = Rows(tmp_path / "rows.csv"), []
    run_missing(cells(ran, ("b", "bc", "c")), rows, only=["cell bc"])
    run_missing(cells(ran, ("b", "bc", "c")), rows, only=["cell c", "cell b"])
    assert ran == ["bc", "b", "c"]


def run(tmp_path, ran, *options, report=lambda rows: f"{list(rows)}"):
    """Run a program whose results are in the folder."""
    parser = make_parser("What it does.", "name", "less")
    arguments = parser.parse_args(["--results", str(tmp_path / "new" / "rows.csv"), *options])
    return run_tables(arguments, cells(ran), report)


def test_only_that_matches_no_cell_lists_the_keys(tmp_path):
    ran = []
    for options in (["--only", "nosuch"], ["--only", "a", "c,"], ["--list", "--only", "x"]):
        with pytest.raises(SystemExit, match="no cell has a key with all of these words") as error:
            run(tmp_path, ran, *options)
        assert all(f"\n  cell {name}" in str(error.value) for name in "bac")
    assert ran == []
    assert not list(tmp_path.iterdir())


def test_quick_and_full_runs_do_not_share_results(tmp_path):
    for first, second in ((["--quick"], []), ([], ["--quick"])):
        folder, ran = tmp_path / f"first{len(first)}", []
        done = run(folder, ran, *first, "--only", "b")
        assert done == {"cell b": {"key": "cell b", "name": "b", "value": "98"}}
        files = {path: path.read_bytes() for path in (folder / "new").iterdir()}
        for more in ([], ["--no-run"], ["--list"]):
            with pytest.raises(SystemExit, match=r"rows.csv holds cells of a (quick|full) run; a"):
                run(folder, ran, *second, *more)
        assert files == {path: path.read_bytes() for path in (folder / "new").iterdir()}
        assert ran == ["b"]
        run(folder, ran, *first)
        assert ran == ["b", "a", "c"]


def test_the_file_of_a_full_run_has_no_mark(tmp_path):
    rows = Rows(tmp_path / "rows.csv")
    rows.add("cell", {"a": 1})
    assert rows.path.read_text() == "key,a\ncell,1\n"


def test_quick_and_full_arrays_do_not_share_a_folder(tmp_path):
    for quick in (False, True):
        folder = tmp_path / str(quick)
        Arrays(folder, quick).add("cell", {"a": np.zeros(1)})
        assert "cell" in Arrays(folder, quick)
        with pytest.raises(SystemExit, match="holds cells of a"):
            Arrays(folder, not quick)


def test_no_run_does_not_overwrite_the_page_of_another_program(tmp_path):
    ran = []
    with pytest.raises(SystemExit, match=r"rows\.csv holds no cell of this program"):
        run(tmp_path, ran, "--no-run")
    assert not list(tmp_path.iterdir())
    rows = Rows(tmp_path / "new" / "rows.csv")
    rows.add("of another program", {"b": 2})
    page = rows.path.with_suffix(".md")
    page.write_text("another page")
    with pytest.raises(SystemExit, match=r"rows\.csv holds no cell of this program"):
        run(tmp_path, ran, "--no-run")
    assert page.read_text() == "another page"


@pytest.mark.parametrize("options", [["--jobs", "0"], ["--seconds", "-5"], ["--seconds", "nan"]])
def test_wrong_numbers_are_refused(options, capsys):
    with pytest.raises(SystemExit):
        make_parser("What it does.", "name", "less").parse_args(options)
    assert f"argument {options[0]}: must be" in capsys.readouterr().err


def test_options(tmp_path, capsys):
    parser = make_parser("What it does.", "name", "less")
    arguments = parser.parse_args(["--results", str(tmp_path / "rows.csv"), "--only", "b"])
    ran = []
    done = run_tables(arguments, cells(ran), lambda rows: f"{len(rows)} rows\n")
    assert ran == ["b"]
    assert list(done) == ["cell b"]
    assert (tmp_path / "rows.md").read_text() == "1 rows\n"
    arguments.no_run, arguments.only = True, []
    run_tables(arguments, cells(ran), lambda rows: f"{list(rows)}")
    assert ran == ["b"]
    assert (tmp_path / "rows.md").read_text() == "['cell b']"
    assert "['cell b']" in capsys.readouterr().out


def test_a_quick_run_has_results_of_its_own():
    parser = make_parser("What it does.", "name", "less")
    assert results_path(parser.parse_args([]), ".csv") == OUTPUT / "name.csv"
    assert results_path(parser.parse_args(["--quick"]), ".csv") == OUTPUT / "name_quick.csv"
    assert results_path(parser.parse_args(["--quick"])) == OUTPUT / "name_quick"


@pytest.mark.parametrize(
    "name",
    [
        "crbm_tables",
        "lmbm_tables",
        "layered_tables",
        "learning_rules_multilabel",
        "persistent_messages",
        "rule_settings",
        "inference_in_learning",
        "bp_chain_tables",
        "pmp_tables",
    ],
)
def test_published_results_are_read(name):
    """The programs read the published results beside the guide as finished."""
    path = ROOT / "doc" / f"{name}.csv"
    rows = Rows(path).read()
    lines = path.read_text().splitlines()
    assert len(rows) == len(lines) - 1 > 10
    for key, row in rows.items():
        assert key == row["key"]
        assert len(row) == len(lines[0].split(","))


# --- several cells at a time ----------------------------------------------------------------

forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked"
)


@forks
def test_cells_in_processes(tmp_path):
    """All missing cells finish, each in a process of its own, whatever their order in time."""
    rows = Rows(tmp_path / "rows.csv")
    rows.add("cell 0", {"value": "kept"})

    def work(k):
        time.sleep(0.02 * (5 - k))
        return {"value": k * k, "process": os.getpid()}

    cells = [(f"cell {k}", partial(work, k)) for k in range(5)]
    run_missing(cells, rows, jobs=3)
    done = rows.read()
    assert {key: row["value"] for key, row in done.items()} == {
        "cell 0": "kept", "cell 1": "1", "cell 2": "4", "cell 3": "9", "cell 4": "16"
    }  # fmt: skip
    processes = {row["process"] for row in done.values()} - {""}
    assert len(processes) == 4
    assert str(os.getpid()) not in processes


@forks
def test_a_failed_cell_is_named_and_the_others_finish(tmp_path, capsys):
    rows = Rows(tmp_path / "rows.csv")

    def work(k):
        if k == 1:
            raise ValueError("this one fails")
        if k == 2:
            os._exit(1)
        return {"value": k}

    cells = [(f"cell {k}", partial(work, k)) for k in range(4)]
    with pytest.raises(RuntimeError, match="2 cells failed: cell 1; cell 2"):
        run_missing(cells, rows, jobs=1, seconds=60)
    assert list(rows.read()) == ["cell 0", "cell 3"]
    assert "this one fails" in capsys.readouterr().out


@forks
def test_the_time_limit_keeps_finished_cells_and_kills_the_others(tmp_path):
    rows = Rows(tmp_path / "rows.csv")
    cells = [("quick", lambda: {"value": 1}), ("long", partial(time.sleep, 600)),
             ("later", lambda: {"value": 2})]  # fmt: skip
    started, before = time.monotonic(), set(multiprocessing.active_children())
    run_missing(cells, rows, jobs=1, seconds=2)
    assert time.monotonic() - started < 60
    assert list(rows.read()) == ["quick"]
    assert set(multiprocessing.active_children()) <= before  # other tests keep workers of joblib


def test_cells_of_a_file_run_in_its_order(tmp_path):
    rows, ran = Rows(tmp_path / "rows.csv"), []
    (tmp_path / "cells").write_text("cell c\ncell b\n")
    parser = make_parser("What it does.", "name", "less")
    arguments = ["--results", str(rows.path), "--cells", str(tmp_path / "cells")]
    run_tables(parser.parse_args(arguments), cells(ran), lambda rows: "")
    assert ran == ["c", "b"]
    with pytest.raises(SystemExit, match="cell x"):
        run_missing(cells(ran), rows, order=["cell a", "cell x"])
    arguments[-1] += "_nowhere"
    with pytest.raises(SystemExit, match="cells_nowhere: there is no such file"):
        run_tables(parser.parse_args(arguments), cells(ran), lambda rows: "")
    assert ran == ["c", "b"]


@forks
def test_first_calls_run_before_the_processes_of_the_cells(tmp_path):
    """Objects that the first calls make in the program are inherited by the cells."""
    made = []
    parser = make_parser("What it does.", "name", "less")
    arguments = parser.parse_args(["--results", str(tmp_path / "rows.csv"), "--jobs", "2"])
    done = run_tables(
        arguments,
        [(f"cell {k}", lambda: {"made": len(made)}) for k in range(3)],
        lambda rows: "",
        [partial(made.append, 1), partial(made.append, 2)],
    )
    assert [row["made"] for row in done.values()] == ["2"] * 3
