"""Trace calls of the public API: how many functions and files a reader has to follow.

Run `python -m tests.trace_calls` in the root of the repository for the table of all estimators,
with names such as `CRBMClassifier.fit` for some calls, with `--files` for the files of each call,
and with `--jumps` for the climbs and hops.

Each call runs twice, and the second run is traced, so that neither imports nor compiled kernels
nor caches count. Counted are

- functions: functions and comprehensions of skcrbm that run,
- files: files of skcrbm that hold them,
- depth: the largest number of functions of skcrbm that wait for each other,
- climbs: pairs (caller, callee) where the caller's folder may be imported by the callee's folder,
  by `MAY_IMPORT` of `tests/test_architecture.py`: a call from a lower folder into a higher folder,
- hops: pairs (caller, callee) in two files whose `self` is the same object.

The caller is the nearest function of skcrbm on the stack: functions of scikit-learn, joblib and
Numba between two functions of skcrbm are passed over.
"""

import argparse
import os
import sys
import warnings
from collections import defaultdict
from typing import NamedTuple

import numpy as np

import skcrbm
from tests.test_architecture import MAY_IMPORT

ROOT = os.path.dirname(skcrbm.__file__) + os.sep
COUNTS = ("functions", "files", "depth", "climbs", "hops")


class Trace(NamedTuple):
    """The functions (file, name) that a call runs, and its climbs and hops (caller, callee)."""

    functions: set
    climbs: set
    hops: set
    depths: list

    @property
    def files(self):
        return sorted({file for file, _ in self.functions})

    @property
    def counts(self):
        return {
            "functions": len(self.functions),
            "files": len(self.files),
            "depth": max(self.depths, default=0),
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
    return frame.f_code.co_filename.startswith(ROOT)


def caller_of(frame):
    """The nearest frame of skcrbm above `frame`, or None."""
    frame = frame.f_back
    while frame is not None and not is_ours(frame):
        frame = frame.f_back
    return frame


def depth_of(frame):
    depth = 0
    while frame is not None:
        depth += is_ours(frame)
        frame = frame.f_back
    return depth


def self_of(frame):
    code = frame.f_code
    if "self" in code.co_varnames[: code.co_argcount]:
        return frame.f_locals.get("self")
    return None


def part_of(file):
    return file.split(os.sep)[0].removesuffix(".py")


def trace(call):
    """Return the `Trace` of `call()`."""
    found = Trace(set(), set(), set(), [])

    def profile(frame, event, _):
        if event != "call" or not is_ours(frame):
            return
        callee = place(frame)
        found.functions.add(callee)
        above = caller_of(frame)
        found.depths.append(depth_of(frame))
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


def examples():
    """Return {name of an estimator: (estimator, X, y)}; y is None for densities."""
    from sklearn.datasets import make_multilabel_classification
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import MultiOutputClassifier
    from sklearn.preprocessing import StandardScaler

    from skcrbm import (
        MSSVMCRBM,
        ChainCRF,
        CRBMClassifier,
        DecodedClassifier,
        Graph,
        GraphCRF,
        GridCRF,
        ImageCRBM,
        LabelGraphCRF,
        LayeredGMClassifier,
        LMBMClassifier,
        SSVMClassifier,
    )
    from skcrbm.calibration import CalibratedMarginals, ConformalLabelSets, ConformalRiskControl
    from skcrbm.constraints import Constrained, Implies
    from skcrbm.density import RBM, IsingModel, LargeMarginMarkovNetwork, MarkovRandomField
    from skcrbm.ensemble import BlendedLabelSets, OutOfBagLogOdds, make_stacked
    from skcrbm.pipeline import Pipeline, SequenceTransformer

    rng = np.random.default_rng(0)
    X, Y = make_multilabel_classification(150, random_state=0)
    images = (rng.random((30, 8, 8)) < 0.5).astype(float)
    sequences = [rng.normal(size=(n, 2)) for n in (3, 4, 5) * 5]
    tags = [(x[:, 0] > 0).astype(int) for x in sequences]
    path = [[0, 1], [1, 2], [2, 3]]
    nodes = [rng.normal(size=(4, 2)) for _ in range(20)]
    columns = np.column_stack([Y[:, 0].astype(object), X[:, 0] > X[:, 1]])
    logistic = MultiOutputClassifier(LogisticRegression())
    trees = ExtraTreesClassifier(5, bootstrap=True, random_state=0)
    settings = {"max_iter": 3, "random_state": 0}
    crbm = CRBMClassifier(alpha=0.1, random_state=0)
    return {
        "CRBMClassifier": (CRBMClassifier(random_state=0), X, Y),
        "MSSVMCRBM": (MSSVMCRBM(**settings), X, Y),
        "ImageCRBM": (ImageCRBM(n_hidden=4, **settings), images, images),
        "LayeredGMClassifier": (LayeredGMClassifier(**settings), X, Y),
        "LMBMClassifier": (LMBMClassifier(random_state=0), X, Y),
        "SSVMClassifier": (SSVMClassifier(**settings), X, Y),
        "ChainCRF": (ChainCRF(**settings), sequences, tags),
        "GraphCRF": (
            GraphCRF(**settings),
            [Graph(x, path) for x in nodes],
            [(x[:, 0] > 0).astype(int) for x in nodes],
        ),
        "GridCRF": (GridCRF(random_state=0), images, images),
        "LabelGraphCRF": (LabelGraphCRF(**settings), X, columns),
        "DecodedClassifier": (DecodedClassifier(crbm, decode="expected_f1"), X, Y),
        "Constrained": (Constrained(logistic, [Implies(0, 1)]), X, np.maximum(Y, Y[:, :1])),
        "CalibratedMarginals": (CalibratedMarginals(logistic), X, Y),
        "ConformalLabelSets": (ConformalLabelSets(crbm, confidence=0.8), X, Y),
        "ConformalRiskControl": (ConformalRiskControl(crbm, risk=0.2), X, Y),
        "BlendedLabelSets": (
            BlendedLabelSets(make_stacked(n_estimators=5, compare=False, random_state=0)),
            X,
            Y,
        ),
        "OutOfBagLogOdds": (OutOfBagLogOdds(trees, random_state=0), X, Y),
        "Pipeline": (Pipeline([("scale", StandardScaler()), ("crbm", crbm)]), X, Y),
        "SequenceTransformer": (SequenceTransformer(StandardScaler()), sequences, tags),
        "MarkovRandomField": (MarkovRandomField(random_state=0), Y, None),
        "IsingModel": (IsingModel(random_state=0), Y, None),
        "RBM": (RBM(n_hidden=2, max_iter=3, random_state=0), Y, None),
        "LargeMarginMarkovNetwork": (LargeMarginMarkovNetwork(random_state=0), Y, None),
    }


def traces(names=()):
    """Yield the name and the `Trace` of each call, or of the named calls only."""
    for name, (estimator, X, y) in examples().items():
        calls = {f"{name}.fit": lambda: estimator.fit(X, y)}  # noqa: B023
        if hasattr(estimator, "predict") and y is not None:
            calls[f"{name}.predict"] = lambda: estimator.predict(X)  # noqa: B023
        if names and not set(names) & set(calls):
            continue
        for call, run in calls.items():
            run()
            found = trace(run)
            if not names or call in names:
                yield call, found


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
    parser.add_argument("names", nargs="*", help="some calls, e.g. CRBMClassifier.fit")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--jumps", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'call':32s}", *(f"{count:>9s}" for count in COUNTS))
    for name, found in traces(options.names):
        print(f"{name:32s}", *(f"{found.counts[count]:9d}" for count in COUNTS))
        if options.files:
            show_files(found)
        if options.jumps:
            show_jumps(found)


if __name__ == "__main__":
    main()
