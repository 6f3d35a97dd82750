"""NamedTuples of arguments that several kernels take.

A call with a NamedTuple takes about 2 microseconds more; kernels unpack it before their inner
loops. N is the number of models; each model is a row of the arrays.
"""

from typing import NamedTuple

import numpy as np


class RBMRows(NamedTuple):
    """RBMs that share their couplings, and the messages from which inference starts."""

    visible_bias: np.ndarray  # (N, V)
    hidden_bias: np.ndarray  # (N, H)
    free: np.ndarray  # (N, V + H) bool, False for held units, which are left out
    weight: np.ndarray  # (N,) weight of each model in the sum of the statistics
    start: np.ndarray  # (N or 0, V, H) messages of an earlier run, in the form of the kernel


class OddsCouplings(NamedTuple):
    """Couplings of an RBM, and the bounds that keep products of messages finite."""

    weights: np.ndarray  # (V, H)
    odds: np.ndarray  # (V, H) exp(weights)
    norm: np.ndarray  # (V,) float64, at least the sum of |weights| over each row
    piece: np.ndarray  # (V,) uintp, length of row pieces over which that sum is at most `limit`
    step: np.ndarray  # (V,) float64, at least the largest |weight| of a row; below limit / 2
    limit: float  # largest |log| of a product that the dtype holds safely
    floor: float  # a probability too small to matter in any message


class RBMOptions(NamedTuple):
    """Options of message passing on RBMs: start, stopping rule and requested answers."""

    cold: bool  # iteration 0: visible units send first, from their biases alone
    warm: bool  # start from `RBMRows.start` or, if it is empty, from messages that fit the beliefs
    max_iter: int
    tol: float  # largest change of a probability at convergence
    slack: float  # float64, largest change of a log-odds at convergence
    damping: float  # share of the old messages visible -> hidden, in the dtype of the model
    want_log_partition: bool
    want_statistics: bool


class RBMAnswers(NamedTuple):
    """Arrays that message passing on RBMs fills in."""

    log_odds: np.ndarray  # (N, V + H) in: beliefs to start from; out: beliefs, 0 if held
    n_iter: np.ndarray  # (N,)
    converged: np.ndarray  # (N,)
    log_partition: np.ndarray  # (N,)
    pairwise: np.ndarray  # (V, H) weighted sums of P(v_i = 1, h_j = 1) are added to it
    trace: np.ndarray  # (N, max_iter or 0) residuals
    score: np.ndarray  # (N,) float64; in: a score to beat; out: score of the best state visited
    state: np.ndarray  # (N, V) int8, best state visited, by max-product and mixed-product
    kept: np.ndarray  # (N or 0, V, H) last messages, in the form of the kernel


class IsingOptions(NamedTuple):
    """Options of iterations on Ising models: the stopping rule and the requested answers."""

    max_iter: int
    tol: float  # largest change of a probability at convergence
    slack: float  # float64, largest change of a log-odds at convergence
    want_log_partition: bool
    want_statistics: bool


class IsingAnswers(NamedTuple):
    """Arrays that iterations on Ising models fill in."""

    log_odds: np.ndarray  # (N, L) in: beliefs to start from; out: beliefs, 0 if held
    n_iter: np.ndarray  # (N,)
    converged: np.ndarray  # (N,)
    log_partition: np.ndarray  # (N,) log Z for scores f'(y + 1) / 2 + y'Sy / 2 of free labels
    pairwise: np.ndarray  # (L, L) weighted sums of P(both labels on) are added to it
    trace: np.ndarray  # (N, max_iter or 0) residuals


class FactorGraph(NamedTuple):
    """Factors of a graph as flat arrays: first the tables, then the OR and then the AND factors."""

    variables: np.ndarray  # (E,) int64; the last variable of OR and AND is its output
    edge_start: np.ndarray  # (F + 1,) int64: factor f has edges edge_start[f]:edge_start[f + 1]
    weight: np.ndarray  # (n_entries,) float64 entries of the tables, to the power 1 / rho
    logs: np.ndarray  # (n_entries,) logarithms of `weight`
    table_start: np.ndarray  # (n_tables + 1,) place of the first entry of each table
    n_tables: int
    negated: np.ndarray  # (F,) bool, True for AND, which is an OR of negated variables
    rho: np.ndarray  # (F,) float64 weights of the messages, 1 unless tree-reweighted


class GraphOptions(NamedTuple):
    """Options of message passing on factor graphs."""

    max_iter: int
    tol: float  # largest change of a probability at convergence
    slack: float  # largest change of a belief's log-odds, or largest factor of its odds
    damping: float  # share of the old log messages; 0 or 1/2 if messages are odds
    want_state: bool  # keep the best state met during the iterations


class GraphAnswers(NamedTuple):
    """Arrays that message passing on factor graphs fills in, with a row for each model."""

    n_iter: np.ndarray  # (N,)
    converged: np.ndarray  # (N,) a model with contradictory factors or evidence never converges
    trace: np.ndarray  # (N, max_iter or 0) residuals
    score: np.ndarray  # (N,) score of the best state met
    state: np.ndarray  # (N, n) int8, best state met
    log_odds: np.ndarray  # (N, n) beliefs


class GraphSums(NamedTuple):
    """Request and arrays for log Z and statistics, which are computed from the final messages."""

    weight: np.ndarray  # (N,) weight of each model in the sum of the statistics
    want_log_partition: bool
    want_statistics: bool
    each: bool  # True for the statistics of each model, False for their sum
    log_partition: np.ndarray  # (N,) output; kernels with lanes add to it
    statistics: np.ndarray  # (1 or N, n_entries) output, added to


# 0 and 1 as unsigned integers. The kernels of categorical graphs index arrays by unsigned integers,
# because Numba tests signed indices for negative values, which costs time in inner loops.
ZERO, ONE = np.uintp(0), np.uintp(1)
# Kinds of edges, by the table of the factor.
PAIR, POTTS, TABLE = 0, 1, 2


class CategoricalModels(NamedTuple):
    """N models on a graph of S states in all, with messages of M numbers in all."""

    held: np.ndarray  # (N, n) bool
    own: np.ndarray  # (N, S) float64 (log-)weight that the fields alone give to each state
    message: np.ndarray  # (N, M) from factors to variables, read and overwritten
    sent: np.ndarray  # (N, M) from variables to factors, output only


class CategoricalOptions(NamedTuple):
    """Options of message passing."""

    max_iter: int
    tol: float  # largest change of a probability at convergence
    slack: float  # largest change of a log-odds at convergence
    damping: float  # share of the old log-messages that is kept
    kind: int  # SUM or MAX


class CategoricalAnswers(NamedTuple):
    """Arrays that message passing fills in."""

    n_iter: np.ndarray  # (N,)
    converged: np.ndarray  # (N,)
    good: np.ndarray  # (N,) False if terms were lost or all states of a variable are impossible
    trace: np.ndarray  # (N, max_iter or 0) residuals
    belief: np.ndarray  # (N, S) probabilities, or logarithms of them


class CategoricalGraph(NamedTuple):
    """A graph of variables with any number of states; positions are of uintp.

    An edge joins a variable and a factor. Edges are sorted by variable, and each has a number for
    each state of its variable in arrays of messages.
    """

    state_start: np.ndarray  # (n + 1,): states of variable v in arrays of all states
    edge_start: np.ndarray  # (n + 1,): edges of variable v
    message_start: np.ndarray  # (E + 1,): numbers of edge e in arrays of messages
    kind: np.ndarray  # (E,) int8: PAIR, POTTS or TABLE
    slot: np.ndarray  # (E,): axis of the table
    scope: np.ndarray  # (E,): position in `scopes` of the first edge of the factor
    arity: np.ndarray  # (E,)
    table: np.ndarray  # (E,): position in `tables` of the first entry, of POTTS (other, equal)
    place: np.ndarray  # (E,): position of the table's first entry in the statistics
    scopes: np.ndarray  # (E,): edges of each factor in the order of its axes
    tables: np.ndarray  # (T,) float64 entries in C order, the largest of each table is 1
    order: np.ndarray  # (n,): order in which a forward sweep visits the variables


class CategoricalWork(NamedTuple):
    """Arrays for intermediate results, one set for each thread."""

    table: np.ndarray  # (size of the largest table,)
    other: np.ndarray  # the same
    entries: np.ndarray  # the same
    new: np.ndarray  # (K,) numbers of a message
    behind: np.ndarray  # (K,)
    old: np.ndarray  # (K,)
    digits: np.ndarray  # (most variables of a table,) uintp: states of an entry
