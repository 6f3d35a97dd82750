"""NamedTuples that group the arguments of kernels.

Passing a NamedTuple takes about 2 microseconds longer than passing its fields as separate
arguments. Kernels read the fields before their inner loops. In the shapes of arrays, N is the
number of models; row n of an array belongs to model n. RBMs have V visible and H hidden units, and
Ising models have L labels. Factor graphs have n variables, F factors and E edges; an edge is a pair
of a factor and one of its variables.
"""

from typing import NamedTuple

import numpy as np


class RBMRows(NamedTuple):
    """RBMs that share their couplings, and the messages from which inference starts."""

    visible_bias: np.ndarray  # (N, V) biases of the visible units
    hidden_bias: np.ndarray  # (N, H) biases of the hidden units
    free: np.ndarray  # (N, V + H) bool, False for clamped units, which are left out
    weight: np.ndarray  # (N,) weight of each model in the sum of the statistics
    start: np.ndarray  # (N or 0, V, H) messages of an earlier run, in the form that the kernel uses


class OddsCouplings(NamedTuple):
    """Couplings of an RBM, and the bounds that keep products of messages finite."""

    weights: np.ndarray  # (V, H) couplings
    odds: np.ndarray  # (V, H) exp(weights)
    norm: np.ndarray  # (V,) float64, upper bound of the sum of |weights| in each row
    # (V,) uintp, number of successive columns such that their |weights| in the row add up to at
    # most `limit`
    piece: np.ndarray
    # (V,) float64, upper bound of the |weights| of each row; must be below limit / 2
    step: np.ndarray
    limit: float  # largest |log| of a product that the dtype holds safely
    floor: float  # probabilities below this number are negligible: they change no message


class RBMOptions(NamedTuple):
    """Options of message passing on RBMs: initial messages, stopping rule and damping."""

    # True to begin with an iteration in which the belief of a visible unit is its bias alone
    cold: bool
    # True to start from `RBMRows.start` or, if it is empty, from messages computed from the beliefs
    warm: bool
    max_iter: int
    tol: float  # largest change of a probability that counts as no change
    slack: float  # float64, largest change of a log-odds that counts as no change
    # share of the old message in the new message from visible to hidden units; dtype of the model
    damping: float
    want_log_partition: bool
    want_statistics: bool
    bounds: bool  # True if log Z is the tree-reweighted upper bound


class RBMAnswers(NamedTuple):
    """Arrays that message passing on RBMs fills in."""

    # (N, V + H) log-odds of the beliefs. Input: the beliefs to start from. Output: the final
    # beliefs, 0 for clamped units.
    log_odds: np.ndarray
    n_iter: np.ndarray  # (N,) number of iterations
    converged: np.ndarray  # (N,) bool, True for models that have converged
    log_partition: np.ndarray  # (N,) log Z
    pairwise: np.ndarray  # (V, H) output, to which weighted sums of P(v_i = 1, h_j = 1) are added
    trace: np.ndarray  # (N, max_iter or 0) residual of each iteration
    # (N,) float64, score of the best state found so far, updated if this run finds a better state
    score: np.ndarray
    state: np.ndarray  # (N, V) int8, best state visited, by max-product and mixed-product
    kept: np.ndarray  # (N or 0, V, H) last messages, in the form that the kernel uses


class IsingOptions(NamedTuple):
    """Stopping rule of message passing on Ising models."""

    max_iter: int
    tol: float  # largest change of a probability that counts as no change
    slack: float  # float64, largest change of a log-odds that counts as no change


class IsingAnswers(NamedTuple):
    """Arrays that message passing on Ising models fills in."""

    # (N, L) log-odds of the beliefs. Input: the beliefs to start from. Output: the final beliefs, 0
    # for clamped labels.
    log_odds: np.ndarray
    n_iter: np.ndarray  # (N,) number of iterations
    converged: np.ndarray  # (N,) bool, True for models that have converged
    trace: np.ndarray  # (N, max_iter or 0) residual of each iteration


class GraphSums(NamedTuple):
    """Log Z and statistics: options of their computation, and arrays for the results."""

    weight: np.ndarray  # (N,) weight of each model in the sum of the statistics
    want_log_partition: bool
    want_statistics: bool
    each: bool  # True for the statistics of each model, False for their sum over the models
    # (N,) output; kernels that process several models at once, as SIMD lanes, add log Z to it
    log_partition: np.ndarray
    statistics: np.ndarray  # (1 or N, n_entries) output, to which kernels add the statistics


# 0 and 1 as unsigned integers. The kernels for categorical factor graphs use unsigned integers
# as array indices, because Numba tests signed indices for negative values, which costs time in
# inner loops.
ZERO, ONE = np.uintp(0), np.uintp(1)
# Kinds of factors. PAIR: a table of two variables. POTTS: a table of two variables with one value
# on the diagonal and another value off the diagonal. TABLE: a table of any number of variables. OR
# and AND have no table; message passing replaces them by tables. The kind of an edge is the kind of
# its factor. OR and AND come last, so that a single comparison recognises both.
PAIR, POTTS, TABLE, OR, AND = 0, 1, 2, 3, 4


class CategoricalModels(NamedTuple):
    """N models that share a factor graph and differ in fields and evidence.

    S is the total number of states of all variables, and M the total number of entries of all
    messages in one direction.
    """

    held: np.ndarray  # (N, n) bool, True for clamped variables
    own: np.ndarray  # (N, S) float64 weight (or log-weight) that the fields give to each state
    message: np.ndarray  # (N, M) messages from factors to variables, read and overwritten
    sent: np.ndarray  # (N, M) messages from variables to factors, output only


class CategoricalOptions(NamedTuple):
    """Options of message passing on categorical graphs."""

    max_iter: int
    tol: float  # largest change of a probability that counts as no change
    slack: float  # largest change of a log-odds that counts as no change
    damping: float  # share of the old log-messages that is kept
    kind: int  # SUM or MAX
    # True if messages are exact after two sweeps, as in a forest without damping, so that they need
    # no test of convergence
    two_sweeps: bool = False


class CategoricalAnswers(NamedTuple):
    """Arrays that message passing on categorical graphs fills in."""

    n_iter: np.ndarray  # (N,) number of iterations
    converged: np.ndarray  # (N,) bool, True for models that have converged
    good: np.ndarray  # (N,) False if weights underflowed or all states of a variable are impossible
    trace: np.ndarray  # (N, max_iter or 0) residual of each iteration
    belief: np.ndarray  # (N, S) probabilities or log-probabilities


class CategoricalGraph(NamedTuple):
    """A factor graph whose variables may have any number of states.

    An edge joins a variable and a factor. The n variables have E edges, sorted by variable. In an
    array of messages, each edge has an entry for each state of its variable. All tables together
    have T entries. Index arrays are of type uintp.
    """

    state_start: np.ndarray  # (n + 1,): first state of variable v in arrays of all states
    edge_start: np.ndarray  # (n + 1,): first edge of variable v
    message_start: np.ndarray  # (E + 1,): first entry of edge e in arrays of messages
    kind: np.ndarray  # (E,) int8: PAIR, POTTS or TABLE
    slot: np.ndarray  # (E,): axis of the edge's variable in the table of its factor
    scope: np.ndarray  # (E,): index of the factor's first edge in `scopes`
    arity: np.ndarray  # (E,): number of variables of the factor
    # (E,): index of the factor's first entry in `tables`. A Potts table has two entries: the value
    # off the diagonal, then the value on the diagonal.
    table: np.ndarray
    place: np.ndarray  # (E,): index of the table's first entry in the statistics
    scopes: np.ndarray  # (E,): edges of each factor, in the order of the axes of its table
    tables: np.ndarray  # (T,) float64 weights or log-weights in C order
    weights: np.ndarray  # (T or 0,) exponentials of `tables`, for sums of kernels of log-weights
    order: np.ndarray  # (n,): variables in the order in which a forward sweep visits them


class CategoricalWork(NamedTuple):
    """Scratch arrays of kernels. Each thread has its own arrays.

    T is the size of the largest table, and K the largest number of states of a variable.
    """

    table: np.ndarray  # (T,) intermediate table
    other: np.ndarray  # (T,) second intermediate table
    entries: np.ndarray  # (T,) entries of a table, multiplied by messages
    new: np.ndarray  # (K,) entries of a message
    behind: np.ndarray  # (K,) product or sum of the messages from the variable's later factors
    old: np.ndarray  # (K,) old message
    # (largest number of variables of a table,) uintp: state of each variable at a table entry
    digits: np.ndarray


class Buckets(NamedTuple):
    """Tables of a factor graph, and the tables that variable elimination makes from them.

    A bucket is the table of an eliminated variable and of the neighbours that the variable has when
    it is eliminated. The B buckets are in the order of elimination. A link joins a bucket to
    another table, whose variables are among the variables of the bucket: to the log-weights of its
    own variable, to a factor, or to the message of another bucket. There are n variables and L
    links, and integers are int64.
    """

    counts: np.ndarray  # (n,) number of states of each variable
    scope_start: np.ndarray  # (B + 1,): bucket i has scopes[scope_start[i]:scope_start[i + 1]]
    scopes: np.ndarray  # variables of the buckets; neighbours are in the order of elimination
    sizes: np.ndarray  # number of states of each variable in `scopes`
    entry_start: np.ndarray  # (B + 1,): first entry of each bucket in arrays of all entries
    message_start: np.ndarray  # (B + 1,): first entry of the message of each bucket
    parent: np.ndarray  # (B,): bucket that receives the message, -1 if there is no such bucket
    link_start: np.ndarray  # (B + 1,): bucket i has the links link_start[i]:link_start[i + 1]
    kind: np.ndarray  # (L,) kind of the other table: `FIELD`, `SHARED`, `OWN` or `MESSAGE`
    place: np.ndarray  # (L,) first entry of the other table in the array of its kind
    length: np.ndarray  # (L,) number of entries of the other table
    # (L + 1,): link l has the strides steps[step_start[l]:step_start[l + 1]]
    step_start: np.ndarray
    # stride of each variable of the bucket in the other table, 0 if it lacks the variable
    steps: np.ndarray
    tables: np.ndarray  # (T,) float64 log-weights of all factors in C order


# Kinds of tables to which a bucket is linked: the log-weights of its variable; a factor whose table
# all models share; a factor whose table each model has on its own, because variables of the factor
# are held at states; and the message of a bucket.
FIELD, SHARED, OWN, MESSAGE = 0, 1, 2, 3


class EliminationWork(NamedTuple):
    """Scratch arrays of an elimination of R models; see `Buckets`.

    L is the number of entries of the largest bucket.
    """

    # messages of all buckets, and then the factors of kind `OWN`; the last axis holds the models
    message: np.ndarray
    belief: np.ndarray  # (L * R,), log-probabilities of a bucket
    power: np.ndarray  # (L * R,), their exponentials
    part: np.ndarray  # (L * R,)
    total: np.ndarray  # (L * R,)
    digits: np.ndarray  # (number of axes of the largest bucket,) int64, state of each axis


def enumeration_work(k, m, n_states):
    """Return scratch arrays of `enumerate_states` for k enumerated units, m others and S states."""
    n_low = n_states.bit_length() - 1
    return (
        np.empty(n_low + m), np.empty(n_states), np.empty((1, n_states)), np.empty((1, n_states)),
        np.empty((2, k + m)), np.empty((2, k + m)), np.empty((2, 1)),
    )  # fmt: skip
