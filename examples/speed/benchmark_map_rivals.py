"""Compare "map_search" with cheaper methods on twenty-two families of random models.

Every method gets the same processor time on one thread: "simulated_annealing" gets as many sweeps
and "icm" as many restarts as the time allows, and the better of "max_product" without and with
damping counts. Prints a Markdown table of scores. The score of a rival is bold if it is above the
score of "map_search" by more than rounding.

    python -m examples.speed.benchmark_map_rivals
    python -m examples.speed.benchmark_map_rivals --seconds .3 --size .3 --names tree stereo
"""

import argparse
import time
import warnings
from unittest import mock

import numpy as np

from examples.speed.map_families import FAMILIES
from skcrbm.inference import ICM, MapSearch, MaxProduct, SimulatedAnnealing, infer


def timed(energy, method):
    """Return the score of the state that a method finds, and the processor time it takes."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = infer(energy, method, returns="map")
    return float(energy.score(found.assignment)[0]), time.process_time() - begun


def repeated(energy, seconds, make, first):
    """Return the score of a method whose amount of work, from `first` on, fills the time."""
    score, spent = timed(energy, make(first))
    count = int(first * (seconds - spent) / max(spent, 1e-4))
    return max(score, timed(energy, make(count))[0]) if count > first else score


def rival_scores(energy, seconds):
    """Return the scores of the rivals, by name."""
    return {
        "simulated_annealing": repeated(
            energy, seconds, lambda n: SimulatedAnnealing(n_sweeps=n, random_state=0), 10
        ),
        "icm": repeated(energy, seconds, lambda n: ICM(n_restarts=n, random_state=0), 1),
        "max_product": max(
            timed(energy, method)[0] for method in (MaxProduct(), MaxProduct(damping=0.5))
        ),
    }


def search_score(energy, seconds, seed=0):
    """Return the score of "map_search" within a limit of processor time."""
    with mock.patch.object(time, "monotonic", time.process_time):
        return timed(energy, MapSearch(time_limit=seconds, random_state=seed))[0]


def is_behind(score, rival):
    """Return True if the score of a rival is higher by more than rounding."""
    return rival > score + 1e-6 * (1.0 + abs(rival))


def main():
    """Search all families and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    options = parser.parse_args()
    print("| family | map_search | simulated_annealing | icm | max_product |")
    print("|---|---|---|---|---|")
    behind = 0
    for name in options.names:
        energy = FAMILIES[name](np.random.default_rng(options.seed), options.size)
        rival_scores(energy, 0.0)  # compiles the kernels
        search_score(energy, 0.01)
        score = search_score(energy, options.seconds)
        cells = [f"{score:.4f}"]
        for rival in rival_scores(energy, options.seconds).values():
            behind += is_behind(score, rival)
            cells.append(f"**{rival:.4f}**" if is_behind(score, rival) else f"{rival:.4f}")
        print("|", " | ".join([name, *cells]), "|", flush=True)
    print(f"\nmap_search is behind in {behind} of {3 * len(options.names)} comparisons.")


if __name__ == "__main__":
    main()
