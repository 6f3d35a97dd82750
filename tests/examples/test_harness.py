"""Long programs may be stopped anywhere and go on where they were."""

import multiprocessing
import os
import time
from functools import partial

import numpy as np
import pytest

from examples._harness import (
    Arrays,
    Rows,
    make_parser,
    replacing,
    run_missing,
    run_tables,
)


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


def run(tmp_path, ran, *options, report=lambda rows: f"{list(rows)}"):
    """Run a program whose results are in the folder."""
    parser = make_parser("What it does.", "name", "less")
    arguments = parser.parse_args(["--results", str(tmp_path / "new" / "rows.csv"), *options])
    return run_tables(arguments, cells(ran), report)


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
