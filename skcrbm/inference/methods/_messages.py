"""Message passing and mean field: options, and the state from which a later call continues."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval

from skcrbm.inference.base import IterativeMethod, Query
from skcrbm.utils.validation import kernel_array

# A log-odds may change by this many times the tolerance of the probabilities. This holds back only
# beliefs beyond 0.999, whose log-odds the probabilities do not show.
_SLACK_PER_TOL = 1000.0
# Rounding error of a sum of messages, in eps of the largest value that the sum can take.
_SLACK_ROUNDING = 32.0


class MessagePassing(IterativeMethod):
    """Base class of the methods that pass messages for marginals."""

    answers: ClassVar = frozenset({"marginals", "statistics", "log_partition"})
    accepts: ClassVar = frozenset({"init", "return_trace", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "damping": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(self, max_iter: int | None = None, tol: float | None = None, damping: float = 0.0):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping


class StateMessagePassing(IterativeMethod):
    """Base class of the methods that pass messages for a state."""

    accepts: ClassVar = frozenset({"init", "return_trace", "return_state"})
    _parameter_constraints: ClassVar = {
        **MessagePassing._parameter_constraints,
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_iter: int | None = None,
        tol: float | None = None,
        damping: float = 0.0,
        n_restarts: int = 1,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping
        self.n_restarts = n_restarts
        self.random_state = random_state

    @property
    def is_random(self) -> bool:
        """Whether there are random starts."""
        return self.n_restarts > 1


class SumProduct(MessagePassing):
    """Loopy belief propagation (Ping and Ihler 2017, Algorithm 1).

    One iteration sends all messages hidden -> visible from the current hidden beliefs,
    then all messages visible -> hidden. Before the first iteration, unlike in the paper, the
    visible units send messages that follow from their fields alone, damped as all others: in a
    conditional model the input x acts on the visible units, so their messages carry more
    information than hidden messages would. Exact on trees. Log Z is the Bethe approximation,
    neither an upper nor a lower bound. Pairwise beliefs agree with the visible marginals after any
    number of iterations, and with the hidden marginals at convergence. In an `IsingEnergy` the
    labels take turns: each label reads its messages and sends to all others; pairwise beliefs
    always agree with the marginals.

    In a `FactorGraphEnergy` or `SparseIsingEnergy` all messages are sent at once, from the
    beliefs of the previous iteration; OR and AND factors take time in proportion to their inputs.
    A table whose variables are all in another table is first added to it, because messages between
    the two would go in a circle.
    Entry probabilities come from the beliefs of the factors, which agree with the marginals at
    convergence. If variables have more than two states, they are visited in turn, forward and
    backward, which takes fewer iterations; on trees two are enough. A model whose messages or
    factors show that no state is possible is reported as not converged.

    Messages are kept as odds, at one division for each edge and iteration, if products of
    them fit the dtype (max|W| < 40 in float32, 200 in float64) and damping is 0 or 0.5. Otherwise
    they are kept as log-odds, and an iteration takes three to six times as long. Both give the
    same numbers.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log messages visible -> hidden that is kept. The fixed points stay the
        same; damping helps convergence if couplings are strong.

    References
    ----------
    Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
    prediction. AISTATS.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import SumProduct, infer
    >>> energy = RBMEnergy([[1.0], [-2.0]], [0.0, 0.0], [0.5])
    >>> infer(energy, SumProduct(max_iter=30), returns=("marginals",)).marginals.round(3)
    array([[0.647, 0.258, 0.635]])
    """

    name: ClassVar = "sum_product"


class TreeReweighted(MessagePassing):
    """Tree-reweighted belief propagation (Wainwright, Jaakkola and Willsky 2005).

    In an RBM each edge of the complete bipartite graph appears in a random spanning tree with
    probability ``rho = (V + H - 1) / (V H)``. At convergence log Z is an upper bound; the beliefs
    solve a concave problem, so there is one fixed point. Exact on trees with V = 1 or
    H = 1, where it equals sum-product.

    In an `IsingEnergy` the labels take turns, and an edge appears as often as in uniform
    spanning trees of the graph of non-zero couplings: ``rho = 2 / L`` on the complete graph,
    1 on trees, where the method is exact, and in general the effective resistance of the edge.

    In a `FactorGraphEnergy` or `SparseIsingEnergy` all messages are sent at once, which often
    needs a damping of 0.5. A factor appears as often as in random acyclic sets of factors, to which
    a factor is added if all its variables lie in different components. These are uniform spanning
    trees if no factor has more than two variables and there are at most 1500 variables, otherwise
    greedy sets in random order. The bound holds with tables of any size.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log messages visible -> hidden that is kept.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import TreeReweighted, infer
    >>> energy = RBMEnergy([[1.0, 2.0], [-2.0, 1.0]], [0.0, 0.0], [0.5, 0.5])
    >>> bound = infer(energy, TreeReweighted(), returns="log_partition").log_partition
    >>> exact = infer(energy, "exact", returns="log_partition").log_partition
    >>> bool(bound >= exact)
    True
    """

    name: ClassVar = "tree_reweighted"


class MaxProduct(StateMessagePassing):
    """Joint MAP ``argmax p(v, h)`` by max-product belief propagation.

    Messages and schedule are the same as in sum-product, with ``relu`` in place of the softplus
    (Ping and Ihler 2017, section 3.3). Exact on trees. At the start and after each iteration the
    visible units take the values that their beliefs prefer, and the hidden units their
    conditional mode.
    The best of all these states is returned, so that a run that oscillates is not wasted.

    In a `FactorGraphEnergy` or `SparseIsingEnergy` all messages are sent at once, from the beliefs
    of the previous iteration, and all variables take the values that their beliefs prefer. If two
    values of a variable are equally good, variables are decided one after the other, each given
    the variables before it, which is exact on trees. On graphs with circles the state is at least
    as good as the states that coordinate ascent ("icm") finds from it and from the fields. A model
    has not converged if its state is impossible, which `infer` warns of, or if coordinate ascent
    improves the state. Converged messages on a graph with circles do not prove that a state is the
    best.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old messages visible -> hidden that is kept. 0.5 finds better states
        if couplings are strong.
    n_restarts : int, default=1
        Number of runs. The first run starts from the biases, the others from random beliefs.
        Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Seed of the random starts.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import MaxProduct, infer
    >>> energy = RBMEnergy([[2.0], [-3.0]], [-1.0, 1.0], [0.5])
    >>> infer(energy, MaxProduct(damping=0.5)).assignment
    array([[1, 0, 1]], dtype=int8)
    """

    name: ClassVar = "max_product"
    answers: ClassVar = frozenset({"map"})
    default_returns: ClassVar = ("map",)


class MixedProduct(StateMessagePassing):
    """Marginal MAP ``argmax_v sum_h p(v, h)`` by mixed-product belief propagation.

    Hidden units send sum-product messages, visible units the state that they prefer (Liu and
    Ihler 2013; Ping and Ihler 2017, section 3.3). In an RBM this is synchronous coordinate
    ascent on -F(v). It is not exact even on trees, and a cycle of states is reported as not
    converged. Of all states visited the best is returned, together with the mode of p(h | v).

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log messages visible -> hidden that is kept. Damping breaks cycles.
    n_restarts : int, default=1
        Number of runs. The first run starts from the biases, the others from random beliefs.
        Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Seed of the random starts.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import MixedProduct, infer
    >>> energy = RBMEnergy([[2.0], [-3.0]], [-1.0, 1.0], [0.5])
    >>> infer(energy, MixedProduct(n_restarts=2, random_state=0)).assignment
    array([[1, 0, 1]], dtype=int8)
    """

    name: ClassVar = "mixed_product"
    answers: ClassVar = frozenset({"marginal_map"})
    default_returns: ClassVar = ("marginal_map",)


class MeanField(IterativeMethod):
    """Fully factorised approximation ``q(v, h) = prod_i q(v_i) prod_j q(h_j)``.

    One iteration updates all hidden beliefs, ``tau_h = sigma(c + W' tau_v)``, then all
    visible beliefs, ``tau_v = sigma(b + W tau_h)``, which start at ``sigma(b)``. Log Z is a lower
    bound, which no iteration decreases; pairwise beliefs are products. The labels of an
    `IsingEnergy` are updated one after the other, ``tau_i = sigma(2 f_i + 2 S_i (2 tau - 1))``,
    and so are the variables of a `FactorGraphEnergy`. A factor graph whose beliefs give impossible
    states a probability of 0.001 has not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more. None: 1e-3 in training, 1e-6 in `infer`.

    Examples
    --------
    >>> from skcrbm.inference import MeanField, infer
    >>> from skcrbm.energies import RBMEnergy
    >>> energy = RBMEnergy([[1.0]], [0.0], [0.0])
    >>> infer(energy, MeanField(max_iter=50)).converged
    array([ True])
    """

    name: ClassVar = "mean_field"
    answers: ClassVar = frozenset({"marginals", "statistics", "log_partition"})
    accepts: ClassVar = frozenset({"init", "return_trace", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(self, max_iter: int | None = None, tol: float | None = None):
        self.max_iter = max_iter
        self.tol = tol


class Beliefs(NamedTuple):
    """State of a method that continues from its beliefs alone, such as mean field."""

    # (N, n_variables).
    log_odds: np.ndarray


class Messages(NamedTuple):
    """State of a method that continues from messages: messages and beliefs of a batch of models."""

    # Name of the method that sent the messages.
    method: str
    # (N, V, H) visible -> hidden; (N, L, L) with k -> i in values[n, i, k]; (N, E) factor ->
    # variable.
    values: np.ndarray
    # (N, n_variables): beliefs, finite; 0 for clamped variables.
    log_odds: np.ndarray
    # Whether the messages are log-odds rather than odds.
    in_logs: bool

    def values_for(self, rows: Any, in_logs: bool, dtype: np.dtype) -> np.ndarray:
        """Return the messages of some models in the form that a kernel takes."""
        values = self.values[rows]
        if self.in_logs and not in_logs:
            with np.errstate(over="ignore"):  # kernels keep messages below their couplings
                values = np.exp(values)
        elif in_logs and not self.in_logs:
            values = np.log(values)
        with np.errstate(over="ignore"):
            return kernel_array(values, dtype)


def earlier_messages(
    query: Query, method: str, shape: tuple[int, ...], width: int
) -> Messages | None:
    """Return the messages that a query continues from, None if no messages fit.

    `method` is the name of the method, `shape` the shape of its messages and `width` the number of
    variables. A ValueError is raised if the query has only a state, and this does not fit.
    """
    if query.start is None:
        return None
    state = query.start.state
    if (
        isinstance(state, Messages)
        and state.method == method
        and state.values.shape == shape
        and state.log_odds.shape == (shape[0], width)
    ):
        return state
    if query.start.log_odds is None:
        raise ValueError(
            f"init has a state and no log_odds, and the state does not hold messages of shape "
            f"{shape} of {method!r}"
        )
    return None


def convergence_slack(tol: float, norm: float, dtype: np.dtype) -> float:
    """Return the largest change of a belief log-odds at which a model has converged.

    `tol` is the largest change of a belief as a probability, and `norm` the largest absolute
    log-odds that the messages to a unit can add up to.
    """
    return _SLACK_PER_TOL * tol + _SLACK_ROUNDING * float(np.finfo(dtype).eps) * norm
