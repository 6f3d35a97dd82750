"""Exact answers on competition files: log Z and marginals beside the published ones, and the time.

Reads the networks and the evidence of the UAI competitions in the folders MAR, PR and BAYES of the
folder that SKCRBM_DATA names, asks "exact" for log Z and all marginals, and prints a Markdown
table. If elimination is refused, the row has the answers of "sum_product" instead, with damping
("damped") if it does not converge without. The column "table" has the number of entries of the
largest table as a power of two. The times are processor times of one thread, of the first call for
a file (the very first call of "sum_product" also compiles) and of a second call. The differences of
log10 Z are to exact.json if it has the value, and to the published number otherwise, which has six
digits. With --pyagrum, a column has the time of pyAgrum's Shafer-Shenoy inference for the marginals
(`pip install pyagrum`).

    python -m examples.speed.benchmark_network_files
    python -m examples.speed.benchmark_network_files --pyagrum --names DBN_11 Promedus_24
"""

import argparse
import json
import math
import os
import re
import time
import warnings
from pathlib import Path

import numpy as np

from skcrbm.energies import FactorGraphEnergy, read_uai_evidence, read_uai_solution
from skcrbm.inference import Exact, SumProduct, infer

ASKED = ("marginals", "log_partition")
# Methods in the order in which they are tried.
METHODS = {
    "exact": Exact(),
    "sum_product": SumProduct(),
    "damped": SumProduct(damping=0.5, max_iter=1000),
}
_LOG10 = math.log(10.0)


def read(path):
    """Return the energy of a file, its evidence (n,), and the processor time of both."""
    start = time.process_time()
    energy = FactorGraphEnergy.from_uai(path)
    evidence = read_uai_evidence(f"{path}.evid", energy.state_counts)[0]
    return energy, evidence, time.process_time() - start


def answers(energy, evidence):
    """Return the answers, the processor time, and the name of the method.

    "sum_product" answers if "exact" refuses, with damping if it does not converge without. The
    answers are None if "sum_product" refuses, too.
    """
    for name, method in METHODS.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a log Z that is no answer has its own name below
            try:
                found = infer(energy, method, clamp=evidence, returns=ASKED)
            except ValueError:
                continue
        if found.converged.all() or name == "damped":
            name += "" if found.converged.all() else ", not converged"
            return found, time.process_time() - start, name
    return None, 0.0, "refused"


def marginals_of(energy, found):
    """Return the probabilities of all states of each variable, as a list of arrays (k,)."""
    if found.marginals.ndim == 3:
        return [p[:k] for p, k in zip(found.marginals[0], energy.state_counts, strict=True)]
    return [np.array([1 - p, p]) for p in found.marginals[0]]


def largest_error(left, right):
    """Return the largest difference of two lists of marginals."""
    return max(float(np.abs(p - q).max()) for p, q in zip(left, right, strict=True))


def largest_table(energy, evidence):
    """Return log2 of the number of entries of the largest table, as a text."""
    try:
        infer(energy, Exact(max_entries=1), clamp=evidence, returns="log_partition")
    except ValueError as error:
        text = re.search(r"table of (at least )?(more than )?(2\^)?([\d,]+) entries", str(error))
        if text:
            number = int(text[4].replace(",", ""))
            least = ">= " if text[1] else ""
            return f"{least}{number if text[3] else round(math.log2(number), 1)}"
    return "0"


def by_pyagrum(energy, evidence):
    """Return the marginals of Shafer-Shenoy inference in pyAgrum, and its processor time."""
    import pyagrum

    pyagrum.setNumberOfThreads(1)
    model = pyagrum.MarkovRandomField()
    for v, k in enumerate(energy.state_counts):
        model.add(pyagrum.LabelizedVariable(f"x{v}", "", int(k)))
    factors = {}
    for v, k in enumerate(energy.state_counts):
        factors[v,] = np.exp(energy.log_fields()[0, v, :k])
    for group in energy.tables:
        for scope, logs in zip(group.variables, group.log_potentials, strict=True):
            counts = [energy.state_counts[v] for v in scope]
            order = np.argsort(scope)
            table = np.exp(logs.astype(float)).reshape(counts).transpose(order)
            key = tuple(int(scope[i]) for i in order)
            factors[key] = factors.get(key, 1.0) * table
    for scope, table in factors.items():
        factor = model.addFactor([f"x{v}" for v in scope])
        # The first variable of a tensor varies fastest.
        factor.fillWith(table.ravel(order="F").tolist())
    inference = pyagrum.ShaferShenoyMRFInference(model)
    inference.setEvidence({f"x{v}": int(evidence[v]) for v in np.flatnonzero(~np.isnan(evidence))})
    start = time.process_time()
    inference.makeInference()
    found = [inference.posterior(f"x{v}").toarray() for v in range(energy.n_variables)]
    return found, time.process_time() - start


def row(path, facts, pyagrum):
    """Return the cells of a file."""
    energy, evidence, to_read = read(path)
    table = largest_table(energy, evidence)
    found, first, method = answers(energy, evidence)
    cells = [
        f"{path.parent.name}/{path.stem}", str(energy.n_variables), str(max(energy.state_counts)),
        f"{1e3 * to_read:.0f}", table, method,
    ]  # fmt: skip
    if found is None:
        return [*cells, *[""] * (7 if pyagrum else 5)]
    seconds = first if first > 5 else answers(energy, evidence)[1]
    log_z, target = found.log_partition[0] / _LOG10, facts.get("exact_log10")
    if target is None:
        target = facts.get("published_PR")
    here = marginals_of(energy, found)
    error = "" if target is None else f"{abs(log_z - target):.1e}"
    solution = Path(f"{path}.MAR")
    apart = ""
    if solution.exists():
        given = read_uai_solution(solution, energy.state_counts)[1]
        apart = f"{largest_error(here, [p[0] for p in given]):.1e}"
    cells += [f"{log_z:.5f}", error, apart, f"{1e3 * first:.1f}", f"{1e3 * seconds:.1f}"]
    if pyagrum:
        if method != "exact":
            return [*cells, "", ""]
        theirs, spent = by_pyagrum(energy, evidence)
        cells += [f"{1e3 * spent:.1f}", f"{largest_error(here, theirs):.1e}"]
    return cells


def main():
    """Read all files and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", help="names of files; default: all files")
    parser.add_argument("--pyagrum", action="store_true")
    options = parser.parse_args()
    folder = Path(os.environ["SKCRBM_DATA"]) / "uai"
    known = json.loads((folder / "exact.json").read_text())
    heads = ["file", "variables", "states", "read (ms)", "table", "method", "log10 Z"]
    heads += ["difference", "marginals", "first (ms)", "again (ms)"]
    heads += ["pyAgrum (ms)", "difference"] * options.pyagrum
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    paths = [p for task in ("MAR", "PR", "BAYES") for p in sorted((folder / task).glob("*.uai"))]
    for path in paths:
        if options.names and path.stem not in options.names:
            continue
        facts = known.get(f"{path.parent.name}/{path.stem}", {})
        print(f"| {' | '.join(row(path, facts, options.pyagrum))} |", flush=True)


if __name__ == "__main__":
    main()
