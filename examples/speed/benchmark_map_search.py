"""The score that "map_search" finds on competition files, beside published and best known scores.

Reads the MAP files of the UAI competition in the folder that SKCRBM_DATA names, searches each of
them for 1, 5 and 20 seconds on one thread, and prints a Markdown table of log10 scores. A bold
score is proven to be the best.

    python -m examples.speed.benchmark_map_search
    python -m examples.speed.benchmark_map_search --seconds 1 --names Grids_18 wcsp_15
"""

import argparse
import json
import math
import os
import time
from pathlib import Path

from skcrbm.energies import FactorGraphEnergy, read_uai_evidence
from skcrbm.inference import MapSearch, infer

_LOG10 = math.log(10.0)


def read(path):
    """Return the energy of a file and its evidence."""
    energy = FactorGraphEnergy.from_uai(path)
    evidence = read_uai_evidence(Path(f"{path}.evid"), energy.state_counts)
    return energy, evidence[0]


def search(path, seconds):
    """Return the log10 score that "map_search" finds, whether it is proven, and seconds."""
    energy, evidence = read(path)
    started = time.perf_counter()
    method = MapSearch(time_limit=seconds, max_nodes=None, random_state=0)
    found = infer(energy, method, clamp=evidence)
    spent = time.perf_counter() - started
    return energy.score(found.assignment)[0] / _LOG10, bool(found.converged[0]), spent


def main():
    """Search all files and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 5.0, 20.0])
    parser.add_argument("--names", nargs="+")
    options = parser.parse_args()
    folder = Path(os.environ["SKCRBM_DATA"]) / "uai"
    known = json.loads((folder / "exact.json").read_text())
    search(folder / "MAP" / "Grids_26.uai", 0.01)  # compiles the kernels
    heads = [f"{s:g} s" for s in options.seconds]
    print("| file | published | best known |", " | ".join(heads), "|")
    print("|---|---|---|" + "---|" * len(heads))
    for path in sorted((folder / "MAP").glob("*.uai")):
        name = path.stem
        if options.names and name not in options.names:
            continue
        cells = []
        for seconds in options.seconds:
            score, proven, _ = search(path, seconds)
            cells.append(f"**{score:.4f}**" if proven else f"{score:.4f}")
        facts = known[f"MAP/{name}"]
        best = facts["optimum_log10"] or facts.get("best_known_log10") or facts["published_log10"]
        published = facts["published_log10"]
        row = [name, f"{published:.4f}", f"{best:.4f}", *cells]
        print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
