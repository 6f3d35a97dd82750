"""What method="auto" chooses on competition files, and its errors beside those of single methods.

Reads the networks and the evidence of the UAI competitions in the folders MAR, PR and BAYES of the
folder that SKCRBM_DATA names, and prints two Markdown tables. The first table has the marginals:
the method that "auto" chose, the status, the processor time, and the mean error of the marginals of
free variables (the largest error over the states of a variable), for "auto" and for single methods
with enough iterations. "exact" is the reference where it is possible, otherwise the published
marginals are. The second table has log10 Z alone: its distance to the exact or published value, for
"auto", for "sum_product" with damping, and for the bounds. The last row of each table has the mean
over the files for which "auto" does not choose "exact".

    python -m examples.studies.auto_inference
    python -m examples.studies.auto_inference --names Grids_15 linkage_16
"""

import argparse
import json
import math
import os
import time
import warnings
from pathlib import Path

import numpy as np

from examples.speed.benchmark_network_files import marginals_of, read
from skcrbm.energies import read_uai_solution
from skcrbm.inference import Gibbs, MeanField, SumProduct, TreeReweighted, infer

_LOG10 = math.log(10.0)
SINGLE = {
    "sum_product": SumProduct(max_iter=1000),
    "damped": SumProduct(damping=0.5, max_iter=1000),
    "tree_reweighted": TreeReweighted(max_iter=300),
    "mean_field": MeanField(max_iter=300),
    "gibbs": Gibbs(n_chains=20, burn_in=200, random_state=0),
}
LOG_Z = {name: SINGLE[name] for name in ("damped", "tree_reweighted", "mean_field")}


def answer(energy, method, returns):
    """Return the result of a method and its processor time, or None if the method refuses."""
    options = {"random_state": 0} if method == "auto" else {}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table has the errors
        try:
            result = infer(energy, method, returns=returns, estimate_error=False, **options)
        except ValueError:
            return None, 0.0
    return result, time.process_time() - start


def mean_error(energy, found, exact):
    """Return the mean error of the marginals of the free variables."""
    errors = [np.abs(p - q).max() for p, q in zip(found, exact, strict=True)]
    return float(np.mean(np.array(errors)[energy.free[0]]))


def row_of_marginals(path, energy, evidence):
    """Return the cells of a file, and the errors by method; None without exact marginals."""
    given = energy.condition(evidence)
    auto, seconds = answer(given, "auto", "marginals")
    solution = Path(f"{path}.MAR")
    if auto.status == "exact":
        exact = marginals_of(energy, auto)
    elif solution.exists():
        exact = [p[0] for p in read_uai_solution(solution, energy.state_counts)[1]]
    else:
        return None
    errors = {"auto": mean_error(given, marginals_of(energy, auto), exact)}
    for name, method in SINGLE.items():
        found, _ = answer(given, method, "marginals")
        if found is not None:
            errors[name] = mean_error(given, marginals_of(energy, found), exact)
    return [auto.method, auto.status, f"{seconds:.1f}"], errors


def row_of_log_z(energy, evidence, target):
    """Return the cells of a file, and the distances of log10 Z by method."""
    given = energy.condition(evidence)
    auto, seconds = answer(given, "auto", "log_partition")
    errors = {"auto": float(auto.log_partition[0] / _LOG10 - target)}
    for name, method in LOG_Z.items():
        found, _ = answer(given, method, "log_partition")
        if found is not None:
            errors[name] = float(found.log_partition[0] / _LOG10 - target)
    return [auto.method, auto.status, f"{seconds:.1f}"], errors


def table(title, names, rows):
    """Print a table row by row, and the mean absolute errors over the files without "exact"."""
    print(f"\n{title}\n")
    heads = ["file", "method", "status", "s", *names]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    hard = []
    for name, cells, errors in rows:
        numbers = [f"{errors[key]:.4f}" if key in errors else "" for key in names]
        print(f"| {' | '.join([name, *cells, *numbers])} |", flush=True)
        if cells[1] != "exact":
            hard.append(errors)
    if hard:
        means = [np.mean(np.abs([e[key] for e in hard if key in e] or [np.nan])) for key in names]
        print(f"| mean without exact | | | | {' | '.join(f'{m:.4f}' for m in means)} |")


def rows_of_marginals(paths):
    """Yield the name, cells and errors of each file with known marginals."""
    for path in paths:
        energy, evidence, _ = read(path)
        row = row_of_marginals(path, energy, evidence)
        if row is not None:
            yield (f"{path.parent.name}/{path.stem}", *row)


def rows_of_log_z(paths, known):
    """Yield the name, cells and distances of each file with a known log Z."""
    for path in paths:
        name = f"{path.parent.name}/{path.stem}"
        facts = known.get(name, {})
        target = facts.get("exact_log10")
        target = facts.get("published_PR") if target is None else target
        if target is not None:
            energy, evidence, _ = read(path)
            yield (name, *row_of_log_z(energy, evidence, target))


def main():
    """Read all files and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", help="names of files; default: all files")
    options = parser.parse_args()
    folder = Path(os.environ["SKCRBM_DATA"]) / "uai"
    known = json.loads((folder / "exact.json").read_text())
    paths = [p for task in ("MAR", "PR", "BAYES") for p in sorted((folder / task).glob("*.uai"))]
    paths = [p for p in paths if not options.names or p.stem in options.names]
    table("Mean errors of marginals", ["auto", *SINGLE], rows_of_marginals(paths))
    table("Distances of log10 Z", ["auto", *LOG_Z], rows_of_log_z(paths, known))


if __name__ == "__main__":
    main()
