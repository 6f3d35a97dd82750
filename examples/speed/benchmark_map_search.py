"""The score that "map_search" finds on competition files, beside published and best known scores.

Reads the MAP files of the UAI competition in the folder that SKCRBM_DATA names, searches each of
them for 1, 5 and 20 seconds on one thread, and prints a Markdown table of log10 scores. A bold
score is proven to be the best. On a busy machine, --processor-time makes the limits count processor
time. With --toulbar2, a column beside each limit has the score of toulbar2 with the same limit of
processor time (`pip install pytoulbar2`).

    python -m examples.speed.benchmark_map_search
    python -m examples.speed.benchmark_map_search --seconds 1 --names Grids_18 wcsp_15
    python -m examples.speed.benchmark_map_search --seconds 5 --processor-time --toulbar2
"""

import argparse
import json
import math
import os
import time
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np

from skcrbm.energies import FactorGraphEnergy, read_uai_evidence
from skcrbm.inference import MapSearch, infer

_LOG10 = math.log(10.0)


def read(path):
    """Return the energy of a file and its evidence."""
    energy = FactorGraphEnergy.from_uai(path)
    evidence = read_uai_evidence(Path(f"{path}.evid"), energy.state_counts)
    return energy, evidence[0]


def search(path, seconds, processor_time=False):
    """Return the log10 score that "map_search" finds, and whether it is proven."""
    energy, evidence = read(path)
    method = MapSearch(time_limit=seconds, max_nodes=None, random_state=0)
    clock = mock.patch.object(time, "monotonic", time.process_time)
    with clock if processor_time else nullcontext():
        found = infer(energy, method, clamp=evidence)
    return energy.score(found.assignment)[0] / _LOG10, bool(found.converged[0])


def toulbar2_score(path, seconds):
    """Return the log10 score that toulbar2 finds with its default settings, or -inf.

    Costs are rounded to 6 decimals, and an entry of weight 0 costs 1e7.
    """
    import pytoulbar2

    energy, evidence = read(path)
    model = pytoulbar2.CFN(1e7, 6)
    for v, k in enumerate(energy.state_counts):
        model.AddVariable(f"x{v}", range(k))
        own = energy.log_fields()[0, v, :k].copy()
        if np.isfinite(evidence[v]):
            own[np.arange(k) != evidence[v]] = -np.inf
        model.AddFunction([v], costs(own))
    for group in energy.tables:
        for scope, table in zip(group.variables, group.log_potentials, strict=True):
            model.AddFunction([int(v) for v in scope], costs(table.astype(float).ravel()))
    model.CFN.timer(int(seconds))
    found = model.Solve()
    state = found[0] if found else list(model.CFN.solution())
    if len(state) != energy.n_variables:
        return -math.inf
    return energy.score(np.array([state]))[0] / _LOG10


def costs(logs):
    """Return log-weights as costs: the largest is 0, and weight 0 costs 1e7."""
    return np.where(logs > -np.inf, logs.max() - logs, 1e7).tolist()


def main():
    """Search all files and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 5.0, 20.0])
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--toulbar2", action="store_true")
    options = parser.parse_args()
    folder = Path(os.environ["SKCRBM_DATA"]) / "uai"
    known = json.loads((folder / "exact.json").read_text())
    search(folder / "MAP" / "Grids_26.uai", 0.01)  # compiles the kernels
    heads = []
    for seconds in options.seconds:
        heads += [f"{seconds:g} s"] + [f"toulbar2, {seconds:g} s"] * options.toulbar2
    print("| file | published | best known |", " | ".join(heads), "|")
    print("|---|---|---|" + "---|" * len(heads))
    for path in sorted((folder / "MAP").glob("*.uai")):
        name = path.stem
        if options.names and name not in options.names:
            continue
        cells = []
        for seconds in options.seconds:
            score, proven = search(path, seconds, options.processor_time)
            cells.append(f"**{score:.4f}**" if proven else f"{score:.4f}")
            if options.toulbar2:
                cells.append(f"{toulbar2_score(path, seconds):.4f}")
        facts = known[f"MAP/{name}"]
        best = facts["optimum_log10"] or facts.get("best_known_log10") or facts["published_log10"]
        published = facts["published_log10"]
        row = [name, f"{published:.4f}", f"{best:.4f}", *cells]
        print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
