"""Compare the estimated errors of marginals with their errors, on models with loops.

Run ``python -m examples.studies.estimated_errors`` for 240 random models: dense Ising models of 17
labels, lattices of 12 x 12 labels and of 8 x 8 variables with three states, and tables of three
variables. Their graphs are so wide that the errors are estimated; for narrow graphs the estimates
are the errors. With ``--files FOLDER`` it also reads the files of a folder in the format of the UAI
competitions (``name.uai``, with the marginals in ``name.uai.MAR`` or small enough for "exact").
Models on which messages do not converge, with and without damping, are left out. The program prints
the numbers of models, and of models with a warning, by the size of the error.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    TableFactors,
    read_uai_evidence,
    read_uai_solution,
)
from skcrbm.exceptions import InaccurateInferenceWarning
from skcrbm.inference import SumProduct, infer

METHODS = SumProduct(), SumProduct(damping=0.5, max_iter=500)
LIMITS = 0.035, 0.1


def lattice(side):
    """Return the edges (E, 2) between the neighbours of a square lattice."""
    place = np.arange(side**2).reshape(side, side)
    pairs = (place[:, :-1], place[:, 1:]), (place[:-1], place[1:])
    return np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in pairs])


def random_model(rng, kind):
    """Return a random model of one of four kinds."""
    scale = rng.choice([0.1, 0.3, 0.6, 1.0, 1.5])
    if kind == 0:
        coupling = np.triu(rng.normal(0, scale / 2, (17, 17)), 1)
        return IsingEnergy(coupling + coupling.T, rng.normal(0, 0.5, (1, 17)))
    if kind == 1:
        edges = lattice(12)
        weights = np.abs(rng.normal(0, scale, len(edges)))
        return IsingEnergy.from_edges(edges, weights, rng.normal(0, 0.2, (1, 144)))
    if kind == 2:
        edges = lattice(8)
        tables = TableFactors(edges, rng.normal(0, scale, (len(edges), 3, 3)))
        return FactorGraphEnergy([tables], rng.normal(0, 0.3, (1, 64, 3)))
    scopes = [rng.choice(45, 3, replace=False) for _ in range(60)]
    tables = TableFactors(scopes, rng.normal(0, 1.5 * scale, (60, 2, 2, 2)))
    return FactorGraphEnergy([tables], rng.normal(0, 0.3, (1, 45)))


def converged_result(energy):
    """Return the answer of the first method whose messages converge, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateInferenceWarning)
        for method in METHODS:
            result = infer(energy, method, estimate_error=True)
            if result.converged[0]:
                return result
    return None


def error_and_estimate(energy, exact=None):
    """Return the largest error of a marginal and its estimate, or None without convergence."""
    result = converged_result(energy)
    if result is None:
        return None
    exact = infer(energy, "exact", max_entries=2**26).marginals[0] if exact is None else exact
    return np.abs(result.marginals[0] - exact).max(), result.estimated_error[0]


def of_files(folder):
    """Yield the error and the estimate of each file of a folder."""
    for path in sorted(Path(folder).rglob("*.uai")):
        energy = FactorGraphEnergy.from_uai(path)
        n_states = energy.state_counts
        evidence = read_uai_evidence(path.with_suffix(".uai.evid"), n_states)
        energy = energy.condition(evidence)
        solution = path.with_suffix(".uai.MAR")
        exact = None
        if solution.exists():
            _, parts = read_uai_solution(solution, n_states)
            if energy.binary:
                exact = np.array([part[0, 1] for part in parts])
            else:
                exact = np.zeros((len(parts), n_states.max()))
                for row, part in zip(exact, parts, strict=True):
                    row[: part.shape[1]] = part[0]
        try:
            found = error_and_estimate(energy, exact)
        except ValueError:  # no exact marginals
            continue
        if found is not None:
            print(f"{path.name:28} error {found[0]:.3f}, estimate {found[1]:.3f}")
            yield found


def print_table(name, pairs):
    """Print how many models have a warning, by the size of the error."""
    error, estimate = np.array(list(pairs)).T
    bins = np.digitize(error, LIMITS)
    words = f"below {LIMITS[0]}", f"{LIMITS[0]} to {LIMITS[1]}", f"above {LIMITS[1]}"
    for k, size in enumerate(words):
        chosen = bins == k
        warned = (estimate[chosen] >= LIMITS[0]).sum()
        print(f"| {name} | {size} | {chosen.sum()} | {warned} |")


def main():
    """Read the command line, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", help="folder of model files")
    parser.add_argument("--models", type=int, default=240)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    found = (error_and_estimate(random_model(rng, n % 4)) for n in range(options.models))
    pairs = [pair for pair in found if pair is not None]
    files = [] if options.files is None else list(of_files(options.files))
    print("| models | largest error of a marginal | number | with a warning |\n|---|---|---|---|")
    print_table("random", pairs)
    if files:
        print_table("files", files)


if __name__ == "__main__":
    main()
