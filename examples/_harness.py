"""Long programs of many cells: finished cells are kept, and never run again.

A program yields its cells in the order in which they run: pairs of a key and a function without
arguments that does the work. `run_missing` runs the cells that are not in the store yet. The store
is a CSV file with a row for each cell (`Rows`) or a folder with a file of arrays for each cell
(`Arrays`). A store is written to a file beside it that then takes its place, so a program can be
stopped at any time and restarted: a cell is either finished or missing.
"""

import argparse
import contextlib
import csv
import os
import tempfile
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


class Rows:
    """Finished cells in a CSV file, a row each; the column "key" names the cell.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path):
        self.path = Path(path)

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
        return {row["key"]: row for row in rows if None not in row and None not in row.values()}

    def add(self, key, row):
        """Add the row of a finished cell; columns that only some rows have are empty in others."""
        # Read again: another process may have finished other cells in the meantime.
        rows = self.read()
        rows[key] = {"key": key, **row}
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
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    def __contains__(self, key):
        return self.path(key).exists()

    def path(self, key):
        """Return the file of a cell."""
        return self.folder / f"{key.replace(' ', '_')}.npz"

    def add(self, key, arrays):
        """Write the arrays of a finished cell."""
        with replacing(self.path(key), "wb") as file:
            np.savez_compressed(file, **arrays)


def run_missing(cells, store, only=(), listed=False):
    """Run the cells that are not in the store, in their order.

    Parameters
    ----------
    cells : iterable of (str, callable)
        Key of each cell, and a function that returns its result for the store.
    store : Rows or Arrays
    only : sequence of str
        Skip cells whose key does not contain all of these.
    listed : bool
        Print the keys and their states, and run nothing.
    """
    for key, work in cells:
        if not all(word in key for word in only):
            continue
        finished = key in store
        if listed:
            print(f"{'finished' if finished else 'missing'}: {key}")
        elif not finished:
            print(key, flush=True)
            result = work()
            store.add(key, result)
            if isinstance(store, Rows):
                print("  " + ", ".join(f"{k} {v}" for k, v in result.items()), flush=True)


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
    parser.add_argument("--only", nargs="*", default=[], help="words that a cell's key contains")
    parser.add_argument("--list", action="store_true", help="print the cells and run none")
    parser.add_argument("--no-run", action="store_true", help="only report what is finished")
    parser.add_argument("--quick", action="store_true", help=quick)
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


def run_tables(arguments, cells, report):
    """Run the missing cells of a program whose results are rows; print and write its tables.

    Parameters
    ----------
    arguments : Namespace
        Result of `make_parser`.
    cells : iterable of (str, callable)
    report : callable
        Returns the Markdown text of the finished rows by key; it is written beside them.

    Returns
    -------
    dict
        The finished rows by key.
    """
    rows = Rows(results_path(arguments, ".csv"))
    if not arguments.no_run:
        run_missing(cells, rows, arguments.only, arguments.list)
    done = rows.read()
    if not arguments.list:
        text = report(done)
        with replacing(rows.path.with_suffix(".md")) as file:
            file.write(text)
        print(text)
    return done
