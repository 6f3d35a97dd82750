"""Best labels of Ising models by enumeration, for the hinge loss and for the score."""

from itertools import product

import numpy as np


def random_model(seed, n_labels=None, n_rows=8):
    """Fields, couplings and margin of every strength; every fourth in whole numbers, with ties."""
    rng = np.random.default_rng(seed)
    n_labels = n_labels or rng.integers(1, 10)
    S = rng.normal(size=(n_labels, n_labels)) * rng.choice([0.05, 0.3, 1, 3])
    S = np.triu(S * (rng.random(S.shape) < rng.choice([0.3, 1])), 1)
    fields = rng.normal(size=(n_rows, n_labels)) * rng.choice([0.0, 0.3, 1, 3])
    if seed % 4 == 0:
        fields, S = np.round(fields), np.round(S)
    return fields, S + S.T, rng.choice([0.3, 1.0, 5.0])


def random_evidence(seed, shape):
    """0/1 for about 40 % of the labels, NaN elsewhere; row 0 is all NaN, row 1 all 1."""
    rng = np.random.default_rng(seed)
    known = np.where(rng.random(shape) < 0.4, rng.integers(0, 2, shape), np.nan)
    known[0] = np.nan
    known[1] = 1
    return known


def losses_and_scores(states, field, S, margin):
    """Hinge loss and score of each state (K, L) in {-1, +1} of one row, by loops."""
    losses, scores = [], []
    for y in states:
        pull = [sum(S[i, k] * y[k] for k in range(len(y))) for i in range(len(y))]
        losses.append(sum(max(margin - y[i] * (field[i] + pull[i]), 0) for i in range(len(y))))
        scores.append(sum(y[i] * (field[i] + 0.5 * pull[i]) for i in range(len(y))))
    return np.array(losses), np.array(scores)


def enumerate_labels(field, S, margin=None, known=None):
    """0/1 labels of the least loss, or of the highest score without a margin, and that value.

    Ties of the loss are broken by the highest score, then by the order of the states.
    """
    states = np.array(list(product([-1.0, 1.0], repeat=len(field))))
    if known is not None:
        states = states[(np.isnan(known) | (known == (states > 0))).all(axis=1)]
    pull = states @ S
    score = (states * (field + 0.5 * pull)).sum(axis=1)
    value = -score
    if margin is not None:
        value = np.maximum(margin - states * (field + pull), 0.0).sum(axis=1)
        score = np.where(value <= value.min() + 1e-10, score, -np.inf)
    best = np.flatnonzero(score >= score.max() - 1e-10)[0]
    return states[best] > 0, value[best]
