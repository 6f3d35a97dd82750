"""A large margin Markov network compared with maximum likelihood and pseudo-likelihood.

The truths are random models of eight binary variables, small enough for exact inference: pairs,
cliques of up to three, and a ground Markov logic network whose formulas share weights. Every method
has the true cliques. Its penalty is the best of a grid on 200 further rows: by log-likelihood for
the Kullback-Leibler divergence, and by accuracy for the accuracy. The accuracy is the share of
right values among the missing entries of new rows, half of whose entries are left out. Prints a
table.

    python -m examples.studies.large_margin_density
"""

import argparse
import itertools
import time
import warnings

import numpy as np
from scipy.optimize import minimize

from skcrbm.density import LargeMarginMarkovNetwork, MarkovRandomField, from_clauses
from skcrbm.energies.cliques import clique_energy
from skcrbm.inference import infer

N_VARIABLES, N_VALIDATION, N_TEST = 8, 200, 1000
STATES = np.array(list(itertools.product((0.0, 1.0), repeat=N_VARIABLES)))
PENALTIES = (
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
    1.0,
)  # per row: 1 / C of all rows, divided by their number
ORDER = {"pairs": 2, "threes": 3}


def random_model(kind, rng):
    """Return cliques, the groups that share weights, and weights."""
    if kind == "formulas":  # x_i implies x_{i + 1}, x_i or not x_{i + 2} or x_{i + 5}, units
        n = N_VARIABLES
        clauses = [(-(i + 1), (i + 1) % n + 1) for i in range(n)]
        clauses += [(i + 1, -((i + 2) % n + 1), (i + 5) % n + 1) for i in range(n)]
        clauses += [(i + 1,) for i in range(n)]
        found = from_clauses(clauses, 2 * rng.normal(size=3), formulas=np.repeat([0, 1, 2], n))
        return found.cliques, found.ties.toarray(), found.weights
    sizes = range(1, ORDER[kind] + 1)
    cliques = [c for k in sizes for c in itertools.combinations(range(N_VARIABLES), k)]
    few = [c for c in cliques if len(c) == 1 or rng.random() < 0.4]
    return few, np.eye(len(few)), rng.normal(size=len(few)) * 0.6


def features(cliques, X):
    """Return products (N, J) of -1/+1 values."""
    return np.column_stack([(2 * X[:, list(c)] - 1).prod(axis=1) for c in cliques])


def pseudo_likelihood(cliques, ties, X, penalty):
    """Return the weights of cliques with the largest pseudo-likelihood."""
    touches = np.array([[i in c for c in cliques] for i in range(N_VARIABLES)])
    terms = np.vstack([(features(cliques, X) * on) @ ties for on in touches])

    def objective(w):
        margins = terms @ w
        slope = -2 / (1 + np.exp(2 * margins))
        value = np.logaddexp(0, -2 * margins).sum() + 0.5 * penalty * w @ w
        return value, terms.T @ slope + penalty * w

    return ties @ minimize(objective, np.zeros(ties.shape[1]), jac=True, method="L-BFGS-B").x


def filled_by_map(energy, holes):
    """Fill in missing entries of rows by the best values under an energy."""
    rows = energy.rows(np.zeros(len(holes), int))
    return infer(rows, "exact", clamp=holes, returns="map").assignment


def fits(method, cliques, ties, X):
    """Yield energies, and functions that fill in gaps, for the penalties of a method."""
    for penalty in np.array(PENALTIES) * len(X):
        if method == "pseudo-likelihood":
            energy = clique_energy(
                cliques, pseudo_likelihood(cliques, ties, X, penalty), N_VARIABLES
            )
        elif method == "maximum likelihood":
            model = MarkovRandomField(cliques, learning="mle", alpha=penalty / len(X), max_iter=200)
            energy = model.fit(X).energy_
        else:
            l1 = 0.03 * len(X) / penalty if "L1" in method else 0.0
            model = LargeMarginMarkovNetwork(
                cliques, ties=ties, C=1 / penalty, alpha_l1=l1, random_state=0
            ).fit(X)
            energy = model.energy_
            if "hinge" in method:
                yield energy, model.impute
                continue
        yield energy, lambda holes, energy=energy: filled_by_map(energy, holes)


def log_probabilities(energy):
    """Return the log-probability of all states."""
    scores = energy.rows(np.zeros(len(STATES), int)).score(STATES)
    return scores - np.logaddexp.reduce(scores)


def with_gaps(X, rng):
    """Return rows with half of their entries removed."""
    return np.where(rng.random(X.shape) < 0.5, np.nan, X)


def measure(method, cliques, ties, truth, train, validation, test, rng):
    """Return divergence, accuracy and seconds of a fit."""
    holes, test_holes = with_gaps(validation, rng), with_gaps(test, rng)
    codes = validation.astype(int) @ (2 ** np.arange(N_VARIABLES)[::-1])
    begin, likelihoods, divergences, rights, accuracies = time.perf_counter(), [], [], [], []
    found = list(fits(method, cliques, ties, train))
    seconds = (time.perf_counter() - begin) / len(found)
    for energy, fill in found:
        log_p = log_probabilities(energy)
        likelihoods.append(log_p[codes].mean())
        divergences.append(np.exp(truth) @ (truth - log_p))
        rights.append((fill(holes) == validation)[np.isnan(holes)].mean())
        accuracies.append((fill(test_holes) == test)[np.isnan(test_holes)].mean())
    return divergences[np.argmax(likelihoods)], accuracies[np.argmax(rights)], seconds


METHODS = (
    "maximum likelihood",
    "pseudo-likelihood",
    "large margin, MAP",
    "large margin, hinge rule",
    "large margin with L1, MAP",
)


def main():
    """Compare the methods and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=5, help="of each kind")
    n_models = parser.parse_args().models
    warnings.simplefilter("ignore")
    print("| model | rows | method | KL divergence | accuracy | seconds |")
    print("|---|---|---|---|---|---|")
    for kind in (*ORDER, "formulas"):
        for n_rows in (100, 1000):
            results = {method: [] for method in ("truth", *METHODS)}
            for seed in range(n_models):
                rng = np.random.default_rng(seed)
                cliques, ties, weights = random_model(kind, rng)
                energy = clique_energy(cliques, weights, N_VARIABLES)
                truth = log_probabilities(energy)
                drawn = rng.choice(len(STATES), n_rows + N_VALIDATION + N_TEST, p=np.exp(truth))
                parts = np.split(STATES[drawn], [n_rows, n_rows + N_VALIDATION])
                holes = with_gaps(parts[2], np.random.default_rng(seed))
                right = filled_by_map(energy, holes) == parts[2]
                results["truth"].append((0.0, right[np.isnan(holes)].mean(), 0.0))
                for method in METHODS:
                    results[method].append(
                        measure(method, cliques, ties, truth, *parts, np.random.default_rng(seed))
                    )
            for method, found in results.items():
                kl, accuracy, seconds = np.mean(found, axis=0)
                print(
                    f"| {kind} | {n_rows} | {method} | {kl:.3f} | {accuracy:.3f} | {seconds:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
