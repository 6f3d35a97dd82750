"""Probabilities with which a sampler draws given states, and shares of valid samples.

A learned model defines two distributions. In the Gibbs distribution, a state has the probability
``exp(score) / Z``. In the distribution of the sampler that was used in training, a state has the
probability with which this sampler draws it. This module computes the second probability.
"""

import itertools

import numpy as np
from scipy.special import expit

from skcrbm.inference import Gibbs, SumProduct, infer, sample

#: Log-probabilities are raised to this, because a sampler may exclude a state altogether.
FLOOR = -100.0
#: Largest number of updates of a single state's probability for the distribution of a Gibbs chain.
MAX_UPDATES = 1.2e9
#: Number of chains from which the probabilities of rows are estimated.
N_CHAINS = 100_000


def chain_log_probs(energy, method, rows):
    """Return the log-probabilities (N,) with which chained belief propagation draws rows (N, n).

    The chain of the option object `method` runs once for each row, and each variable is then
    clamped to its value in the row, in place of a value that is drawn.
    """
    rows = np.asarray(rows).astype(float)
    # Messages visit variables in turn, as in the chain.
    energy = energy.with_states().rows(np.zeros(len(rows), int))
    held, found, before = np.full(rows.shape, np.nan), np.zeros(len(rows)), None
    for i in range(energy.n_variables):
        warm = before is not None and method.warm_iter is not None
        n_iter = method.warm_iter if warm else method.max_iter
        passing = SumProduct(max_iter=n_iter, tol=0, damping=method.damping)
        start = before if warm else None
        before = infer(
            energy, passing, clamp=held, init=start, returns="marginals", return_state=True
        )
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(before.marginals, float)[:, i])
        found += np.take_along_axis(logs, rows[:, [i]].astype(int), axis=1)[:, 0]
        held[:, i] = rows[:, i]
    return found


def belief_log_probs(energy, method, rows):
    """Return the log-probabilities (N,) of rows if variables are drawn from their beliefs alone."""
    p = np.asarray(infer(energy, method, returns="marginals").marginals, float)[0]
    with np.errstate(divide="ignore"):
        return np.where(np.asarray(rows) > 0.5, np.log(p), np.log1p(-p)).sum(axis=1)


def scores_of_all_states(energy):
    """Return the scores of all states, an array with an axis of length 2 for each variable."""
    n = energy.n_variables
    score = np.zeros((2,) * n)
    for i, field in enumerate(np.ravel(energy.field)):
        score += np.array([0.0, field]).reshape([2 if k == i else 1 for k in range(n)])
    for factors in energy.tables:
        size = factors.variables.shape[1]
        for variables, table in zip(factors.variables, factors.log_potentials):
            table = table.astype(float).reshape((2,) * size).transpose(np.argsort(variables))
            score += table.reshape([2 if k in variables else 1 for k in range(n)])
    return score


def gibbs_log_probs(energy, n_sweeps, rows):
    """Return the log-probabilities (N,) of rows after `n_sweeps` sweeps from coin flips, or None.

    The distribution of all states is updated as the chain is, so that it is exact. None if the
    model has too many variables for this.
    """
    n = energy.n_variables
    if n > 24 or 2.0**n * n * n_sweeps > MAX_UPDATES:
        return None
    score = scores_of_all_states(energy)
    p = np.full_like(score, 0.5**n)
    places = [[(slice(None),) * i + (value,) for value in (0, 1)] for i in range(n)]
    odds = [expit(score[places[i][1]] - score[places[i][0]]) for i in range(n)] if n < 20 else None
    for _, i in itertools.product(range(n_sweeps), order_of_updates(energy)):
        off, on = places[i]
        both = p[off] + p[on]
        share = odds[i] if odds else expit(score[on] - score[off])
        p[on], p[off] = both * share, both * (1 - share)
    with np.errstate(divide="ignore"):
        return np.log(p[tuple(np.asarray(rows).astype(int).T)])


def order_of_updates(energy):
    """Return the variables in the order in which a Gibbs sweep updates them."""
    variables = np.arange(energy.n_variables)
    return [int(i) for block in energy.sampling_blocks for i in variables[block]]


def estimated_gibbs_log_probs(energy, n_sweeps, rows, seed, n_chains=N_CHAINS):
    """Estimate the log-probabilities (N,) of rows after `n_sweeps` Gibbs sweeps from coin flips.

    `n_chains` chains run for all sweeps but the last. The probability of a row is the mean, over
    their states, of the probability that the last sweep turns the state into the row. Means over
    2000 rows of the models to be learned, up to 31 variables, vary by .02 nats with the seed.
    """
    n = energy.n_variables
    if n_sweeps == 1:
        states = np.random.RandomState(seed).randint(2, size=(n_chains, n))
    else:
        method = Gibbs(burn_in=n_sweeps - 2, n_chains=n_chains)
        states = sample(energy, method, n_samples=n_chains, random_state=seed)[0]
    codes, counts = np.unique(_codes(states), return_counts=True)
    rows, index = np.unique(np.asarray(rows).astype(int), axis=0, return_inverse=True)
    with np.errstate(divide="ignore"):
        logs = np.log([last_sweep(energy, codes, counts / n_chains, row) for row in rows])
    return logs[index.ravel()]


def _codes(states):
    """Return the states of 0/1 variables (N, n) as integers; bit i is variable i."""
    return np.asarray(states).astype(np.int64) @ (1 << np.arange(np.shape(states)[1]))


def last_sweep(energy, codes, probabilities, row):
    """Return the probability that a Gibbs sweep from a random state ends in a row (n,).

    `codes` are the possible states before the sweep, as integers of which bit i is variable i, and
    `probabilities` their probabilities. After the sweep has set variable i to its value in the row,
    states that differ in variable i alone are equal, so that their probabilities are added.
    """
    for i in order_of_updates(energy):
        log_odds = np.full(len(codes), float(np.ravel(energy.field)[i]))
        for factors in energy.tables:
            for variables, table in zip(factors.variables, factors.log_potentials):
                if i in variables:
                    place = np.zeros(len(codes), np.int64)
                    for j in variables:
                        place = 2 * place + (0 if j == i else codes >> j & 1)
                    step = 1 << (len(variables) - 1 - list(variables).index(i))
                    log_odds += table[place + step].astype(float) - table[place]
        probabilities = probabilities * expit(log_odds if row[i] else -log_odds)
        codes, inverse = np.unique(codes & ~(1 << i) | int(row[i]) << i, return_inverse=True)
        probabilities = np.bincount(inverse, probabilities)
    return float(probabilities[0])


def precision_and_recall(drawn, valid):
    """Return the share of valid states in `drawn`, and the share of `valid` that was drawn."""
    known = {row.tobytes() for row in valid.astype(np.int8)}
    seen = [row.tobytes() for row in drawn.astype(np.int8)]
    return np.mean([row in known for row in seen]), len(known.intersection(seen)) / len(known)
