"""A large margin Boltzmann machine with cliques of labels as the network of these cliques.

Weights of cliques have the penalty eta where those of a network have 1: they are learned times
the square root of it.
"""

from itertools import combinations

import numpy as np
from scipy import sparse

from skcrbm.learning._clique_margins import CliqueFeatures, CliqueProblem


def clique_problem(problem):
    """Return a `LargeMarginProblem` with cliques as a `CliqueProblem`."""
    n_rows, n_labels = problem.signs.shape
    cliques = [*combinations(range(n_labels), 2), *problem.cliques]
    mixing = np.sqrt(problem.spread) * sparse.identity(len(cliques), format="csr")
    return CliqueProblem(
        CliqueFeatures.of(cliques, mixing, np.ones(n_labels, bool)),
        problem.signs,
        problem.limit,
        problem.margin,
        np.zeros(len(cliques)),
        sparse.hstack([sparse.csr_matrix(problem.X), np.ones((n_rows, 1))], "csr", np.float64),
        "X, C or 1 / pairwise_penalty",
    )


def label_weights(problem, fitted):
    """Return A (L, D), b (L,), S (L, L) and the weights (J,) of larger cliques of a `CliqueFit`."""
    n_labels = problem.signs.shape[1]
    weights = np.sqrt(problem.spread) * fitted.weight
    pairwise = np.zeros((n_labels, n_labels))
    first, second = np.triu_indices(n_labels, 1)
    pairwise[first, second] = pairwise[second, first] = weights[: len(first)]
    coef = np.ascontiguousarray(fitted.input_weight[:, :-1])
    return coef, fitted.input_weight[:, -1].copy(), pairwise, weights[len(first) :]
