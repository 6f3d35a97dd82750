"""Trace calls of the public API: how many functions and files a reader has to follow.

Run `python -m tests.trace_calls` in the root of the repository for the table, with `--files` for
the files of each call, with `--jumps` for the climbs and hops, and with a name such as `crbm_fit`
for one call (the calls before it run as well, as modules and kernels load once per process).

A call is traced in a fresh process, after the calls above it in the table. Counted are

- functions: functions, comprehensions and modules of skcrbm that run, except modules that hold
  nothing but a docstring: there is no code to follow,
- files: files of skcrbm that hold them,
- climbs: pairs (caller, callee) where the caller's folder may be imported by the callee's folder,
  by `MAY_IMPORT` of `tests/test_architecture.py`: a call from a lower folder into a higher folder,
- hops: pairs (caller, callee) in two files whose `self` is the same object.

The caller is the nearest function of skcrbm on the stack: functions of scikit-learn, joblib and
Numba between two functions of skcrbm are passed over, as is the compiler of kernels, which runs
only if a kernel is not in the cache yet.
"""

import argparse
import os
import sys
import warnings
from collections import defaultdict
from typing import NamedTuple

import numpy as np
from sklearn.datasets import make_multilabel_classification

import skcrbm
from tests.test_architecture import MAY_IMPORT

ROOT = os.path.dirname(skcrbm.__file__) + os.sep
COMPILER = os.path.join(ROOT, "kernels", "compiler.py")
N_ROWS = 150
N_ROWS_PREDICT = 100  # few enough for the kernels that `fit` has compiled


class Trace(NamedTuple):
    """The functions (file, name) that a call runs, and its climbs and hops (caller, callee)."""

    functions: set
    climbs: set
    hops: set

    @property
    def files(self):
        return sorted({file for file, _ in self.functions})

    @property
    def counts(self):
        return {
            "functions": len(self.functions),
            "files": len(self.files),
            "climbs": len(self.climbs),
            "hops": len(self.hops),
        }


def parts_below(part):
    """The parts of the package that `part` may import, directly or through others."""
    below, waiting = set(), [part]
    while waiting:
        new = MAY_IMPORT[waiting.pop()] - below
        below |= new
        waiting += new
    return below


BELOW = {part: parts_below(part) for part in MAY_IMPORT}


def place(frame):
    """The file and the function of a frame."""
    return frame.f_code.co_filename[len(ROOT) :], frame.f_code.co_qualname


def is_ours(frame):
    file = frame.f_code.co_filename
    return file.startswith(ROOT) and file != COMPILER


def holds_code(frame):
    """Return False for a module that holds nothing but a docstring."""
    code = frame.f_code
    return code.co_name != "<module>" or not set(code.co_names) <= {"__doc__"}


def caller_of(frame):
    """The nearest frame of skcrbm above `frame`, or None."""
    frame = frame.f_back
    while frame is not None and not is_ours(frame):
        frame = frame.f_back
    return frame


def self_of(frame):
    code = frame.f_code
    if "self" in code.co_varnames[: code.co_argcount]:
        return frame.f_locals.get("self")
    return None


def part_of(file):
    return file.split(os.sep)[0].removesuffix(".py")


def trace(call):
    """Return the `Trace` of `call()`."""
    found = Trace(set(), set(), set())

    def profile(frame, event, _):
        if event != "call" or not is_ours(frame) or not holds_code(frame):
            return
        callee = place(frame)
        found.functions.add(callee)
        above = caller_of(frame)
        if above is None:
            return
        caller = place(above)
        if part_of(caller[0]) in BELOW[part_of(callee[0])]:
            found.climbs.add((caller, callee))
        owner = self_of(frame)
        if owner is not None and caller[0] != callee[0] and self_of(above) is owner:
            found.hops.add((caller, callee))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def traces(last=None):
    """Yield the name and the `Trace` of each call, up to the call named `last`."""
    from skcrbm import CRBMClassifier, LMBMClassifier
    from skcrbm.density import MarkovRandomField
    from skcrbm.energies import IsingEnergy
    from skcrbm.inference import infer

    X, y = make_multilabel_classification(N_ROWS, random_state=0)
    crbm = CRBMClassifier(random_state=0)
    ising = IsingEnergy(np.ones((4, 4)) - np.eye(4), np.zeros((2, 4)))
    calls = {
        "crbm_fit": lambda: crbm.fit(X, y),
        "crbm_predict": lambda: crbm.predict(X[:N_ROWS_PREDICT]),
        "mrf_fit": lambda: MarkovRandomField(random_state=0).fit(y),
        "lmbm_fit": lambda: LMBMClassifier(random_state=0).fit(X, y),
        "infer": lambda: infer(ising, "sum_product"),
    }
    for name, call in calls.items():
        yield name, trace(call)
        if name == last:
            return


def show_files(found):
    functions = defaultdict(lambda: defaultdict(list))
    for file, name in sorted(found.functions):
        functions[os.path.dirname(file)][os.path.basename(file)].append(name)
    for folder, files in functions.items():
        counts = " ".join(f"{file}:{len(names)}" for file, names in files.items())
        print(f"    {folder or '.'} ({len(files)}): {counts}")


def show_jumps(found):
    for kind in ("climbs", "hops"):
        for (file, name), (to_file, to_name) in sorted(getattr(found, kind)):
            print(f"    {kind[:-1]}: {file} {name} -> {to_file} {to_name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", help="one call, e.g. crbm_fit")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--jumps", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'call':14s} functions files climbs hops")
    for name, found in traces(options.name):
        if options.name not in (None, name):
            continue
        counts = found.counts
        print(
            f"{name:14s} {counts['functions']:9d} {counts['files']:5d} "
            f"{counts['climbs']:6d} {counts['hops']:4d}"
        )
        if options.files:
            show_files(found)
        if options.jumps:
            show_jumps(found)


if __name__ == "__main__":
    main()
