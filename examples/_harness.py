"""Run long programs of many cells: store finished cells, and never run them again.

A cell is a unit of work, such as one fit. A program yields its cells in the order in which they
run: pairs of a key and a function without arguments that does the work. `run_missing` runs the
cells that are not in the store yet. The store is a CSV file with a row for each cell (`Rows`) or a
folder with a file of arrays for each cell (`Arrays`). A store is first written to a temporary file,
which then replaces the old store. So a program can be stopped at any time and restarted: a cell is
either finished or missing. Cells of a quick run are marked, so that they never mix with cells of a
full run.

``--jobs N`` runs N cells at a time, each in a process with a single thread. ``--seconds S`` stops
the program after S seconds; cells that are running at that time stay missing.
"""

import argparse
import contextlib
import csv
import multiprocessing
import multiprocessing.connection
import os
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

OUTPUT = Path(__file__).parent / "output"


@contextlib.contextmanager
def replacing(path, mode="w"):
    """Open a new file for writing, which takes the place of `path` once it is complete.

    If the body fails or is interrupted, `path` does not change.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # only the owner may read temporary files
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _refuse_mixture(path, quick):
    """Exit, because a store of quick runs was given to a full run, or the other way round."""
    kinds = ("a quick run", "a full run") if quick else ("a full run", "a quick run")
    raise SystemExit(
        f"--results {path} holds cells of {kinds[1]}; {kinds[0]} needs another file or folder"
    )


class Rows:
    """Finished cells in a CSV file, a row each; the column "key" names the cell.

    Parameters
    ----------
    path : Path
    quick : bool, default=False
        Whether the cells belong to a quick run. The column "quick_run" of the file marks them;
        `read` leaves it out. Reading cells of the other kind exits the program.
    """

    def __init__(self, path, quick=False):
        self.path = Path(path)
        self.quick = quick

    def __contains__(self, key):
        return key in self.read()

    def read(self):
        """Return the finished rows by key: dicts of text, in the order in which they finished.

        A file that was not written by `add` may end in the middle of a row; such a row, with
        fewer fields than the header or without the end of its line, is left out.
        """
        if not self.path.exists():
            return {}
        with self.path.open(newline="", encoding="utf-8") as file:
            lines = file.readlines()
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
        rows = csv.DictReader(lines)
        rows = [row for row in rows if None not in row and None not in row.values()]
        for row in rows:
            if bool(row.pop("quick_run", "")) != self.quick:
                _refuse_mixture(self.path, self.quick)
        return {row["key"]: row for row in rows}

    def add(self, key, row):
        """Add the row of a finished cell; columns that only some rows have are empty in others."""
        # Read again: another process may have finished other cells in the meantime.
        rows = self.read()
        rows[key] = {"key": key, **row}
        if self.quick:
            rows = {key: {**row, "quick_run": "yes"} for key, row in rows.items()}
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        with replacing(self.path) as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows.values())


class Arrays:
    """Finished cells in a folder, a compressed NumPy file of arrays each.

    Parameters
    ----------
    folder : Path
    quick : bool, default=False
        Whether the cells belong to a quick run. An empty file "quick_run" in the folder marks them.
        If the folder holds cells of the other kind, the program exits.
    """

    def __init__(self, folder, quick=False):
        self.folder = Path(folder)
        self.quick = quick
        mark = self.folder / "quick_run"
        if any(self.folder.glob("*.npz")) and mark.exists() != quick:
            _refuse_mixture(self.folder, quick)

    def __contains__(self, key):
        return self.path(key).exists()

    def path(self, key):
        """Return the file of a cell."""
        return self.folder / f"{key.replace(' ', '_')}.npz"

    def add(self, key, arrays):
        """Write the arrays of a finished cell."""
        if self.quick:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "quick_run").touch()
        with replacing(self.path(key), "wb") as file:
            np.savez_compressed(file, **arrays)


def chosen_cells(cells, only=(), order=None):
    """Return the cells that `only` and `order` choose, as pairs in a list; see `run_missing`.

    The program exits if they choose no cell.
    """
    known = dict(cells)
    if order is not None:
        unknown = [key for key in order if key not in known]
        if unknown:
            raise SystemExit(f"--cells: no cell has the keys {unknown}; --list prints all keys")
        known = {key: known[key] for key in order}
    if only and all(word in known for word in only):
        return [(key, work) for key, work in known.items() if key in only]
    chosen = [(key, work) for key, work in known.items() if all(word in key for word in only)]
    if only and not chosen:
        words = " ".join(f'"{word}"' for word in only)
        raise SystemExit(
            f"--only {words}: no cell has a key with all of these words; the keys are\n  "
            + "\n  ".join(known)
        )
    return chosen


def run_missing(cells, store, only=(), listed=False, jobs=1, seconds=None, order=None):
    """Run the cells that are not in the store, in their order.

    Parameters
    ----------
    cells : iterable of (str, callable)
        Key of each cell, and a function that returns its result for the store.
    store : Rows or Arrays
    only : sequence of str
        Skip cells whose key does not contain all of these words. If all words are whole keys, run
        the cells with these keys alone.
    listed : bool
        Print the keys and their states, and run nothing.
    jobs : int
        Number of cells that run at the same time. If it is above 1, each cell runs in a process of
        its own, which this process forks.
    seconds : float or None
        Stop after this time. Cells that have not finished stay missing.
    order : sequence of str or None
        Keys of the cells to run, in this order. None: all cells, in the order of the program.

    Raises
    ------
    SystemExit
        If `order` has a key that no cell has, or if `only` matches no cell.
    RuntimeError
        If `jobs` or `seconds` is given and cells have failed; the other cells are finished.
    """
    missing = []
    for key, work in chosen_cells(cells, only, order):
        finished = key in store
        if listed:
            print(f"{'finished' if finished else 'missing'}: {key}")
        elif not finished and (jobs > 1 or seconds is not None):
            missing.append((key, work))
        elif not finished:
            print(key, flush=True)
            _keep(store, key, work())
    if missing:
        failed = run_in_processes(
            missing, lambda key, result: _keep(store, key, result, key), jobs, seconds
        )
        if failed:
            raise RuntimeError(f"{len(failed)} cells failed: {'; '.join(failed)}")


def _keep(store, key, result, prefix=""):
    """Add the result of a cell to the store, and print it if it is a row."""
    store.add(key, result)
    if isinstance(store, Rows):
        shown = ", ".join(f"{k} {v}" for k, v in result.items())
        print(f"{prefix or ' '} {shown}", flush=True)


def run_in_processes(cells, finish, jobs, seconds=None):
    """Run cells in forked processes, `jobs` at a time; return a list of the keys that failed.

    Parameters
    ----------
    cells : sequence of (str, callable)
    finish : callable
        Called in this process with the key and the result of each finished cell.
    jobs : int
    seconds : float or None
        Kill the cells that still run after this time, and start no further cells.

    Raises
    ------
    RuntimeError
        If the operating system cannot fork processes.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise RuntimeError(
            "--jobs and --seconds need an operating system that forks processes, such as Linux; "
            "run the program without them"
        )
    context = multiprocessing.get_context("fork")
    end = np.inf if seconds is None else time.monotonic() + seconds
    waiting, running, failed = list(cells), {}, []
    try:
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < end:
                key, work = waiting.pop(0)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_send_result, args=(work, sender))
                process.start()
                sender.close()
                running[receiver] = key, process
            left = end - time.monotonic()
            if left <= 0:
                print(f"time is up; {len(waiting) + len(running)} cells are missing", flush=True)
                break
            for receiver in multiprocessing.connection.wait(list(running), min(left, 3600.0)):
                key, process = running.pop(receiver)
                try:
                    error, result = receiver.recv()
                except EOFError:
                    error, result = "the process ended without a result", None
                process.join()
                if error:
                    failed.append(key)
                    print(f"{key} failed: {error}", flush=True)
                else:
                    finish(key, result)
    finally:
        for _, process in running.values():
            process.kill()
        for _, process in running.values():
            process.join()
    return failed


def _send_result(work, sender):
    """Work in a forked process; send a pair: the error as text or "", and the result."""
    try:
        answer = "", work()
    except Exception:
        answer = traceback.format_exc(), None
    sender.send(answer)
    sender.close()


def _positive(text):
    """Return the number in a text; the parser shows an error unless it is above 0."""
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text}")
    return number


def _positive_int(text):
    """Return the integer in a text; the parser shows an error unless it is at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def make_parser(doc, name, quick):
    """Return a parser with the options that all long programs have.

    Parameters
    ----------
    doc : str
        Docstring of the program.
    name : str
        Name of its results.
    quick : str
        Description of ``--quick``.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(name=name)
    parser.add_argument(
        "--results",
        type=Path,
        help=f"where finished cells are kept; default: {name} in examples/output, "
        f"and {name}_quick of a quick run",
    )
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="words that a cell's key contains, or whole keys of cells",
    )
    parser.add_argument(
        "--cells", type=Path, help="file with the keys of the cells to run, in this order"
    )
    parser.add_argument("--list", action="store_true", help="print the cells and run none")
    parser.add_argument("--no-run", action="store_true", help="only report what is finished")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--jobs",
        type=_positive_int,
        default=1,
        help="number of cells that run at a time, in processes",
    )
    parser.add_argument(
        "--seconds", type=_positive, help="stop after this time; unfinished cells stay missing"
    )
    return parser


def results_path(arguments, suffix=""):
    """Return the path of the finished cells; quick runs and full runs have different paths.

    Parameters
    ----------
    arguments : Namespace
        Result of `make_parser`.
    suffix : str
        Suffix of the file, or "" for a folder.
    """
    name = arguments.name + ("_quick" if arguments.quick else "")
    return arguments.results or OUTPUT / f"{name}{suffix}"


def rows_of(arguments):
    """Return the store of a program whose results are rows."""
    return Rows(results_path(arguments, ".csv"), arguments.quick)


def run_tables(arguments, cells, report, first=()):
    """Run the missing cells of a program whose results are rows; print and write its tables.

    Parameters
    ----------
    arguments : Namespace
        Result of `make_parser`.
    cells : iterable of (str, callable)
    report : callable
        Returns the Markdown text of the finished rows by key; it is written beside them.
    first : sequence of callable
        Small calls that compile all kernels. With several jobs they run before the cells: each in
        a process, which fills the cache of kernels, and then all in this process, so that the
        processes of the cells inherit the kernels. Their time counts for ``--seconds``.

    Returns
    -------
    dict
        The finished rows by key.

    Raises
    ------
    SystemExit
        If the results belong to a quick run and this run is full, or the other way round; if
        ``--only`` matches no cell; or if nothing is to be run and the results hold no cell of this
        program. No file is written then.
    """
    rows = rows_of(arguments)
    order = arguments.cells
    if order is not None:
        if not order.is_file():
            raise SystemExit(f"--cells {order}: there is no such file")
        order = order.read_text(encoding="utf-8").splitlines()
    cells = list(cells)
    chosen = chosen_cells(cells, arguments.only, order)
    done = rows.read()
    if arguments.no_run and not any(key in done for key, _ in cells):
        raise SystemExit(
            f"--no-run: {rows.path} holds no cell of this program with these options; no page is "
            "written"
        )
    if not arguments.no_run:
        began = time.monotonic()
        if arguments.jobs > 1 and not arguments.list:
            named = [(f"first call {k}", work) for k, work in enumerate(first)]
            run_in_processes(named, lambda key, result: None, arguments.jobs, arguments.seconds)
            for work in first:
                work()
            print(f"kernels are compiled after {time.monotonic() - began:.0f} s", flush=True)
        left = arguments.seconds
        if left is not None:
            left = max(0.0, left - (time.monotonic() - began))
        run_missing(chosen, rows, (), arguments.list, arguments.jobs, left)
        done = rows.read()
    if not arguments.list:
        text = report(done)
        with replacing(rows.path.with_suffix(".md")) as file:
            file.write(text)
        print(text)
    return done
