"""Options of message passing and mean field, and the states that they return."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skcrbm.inference.base import IterativeMethod, Query
from skcrbm.utils.sklearn_private import Interval
from skcrbm.utils.validation import kernel_array

# A model has converged only if no log-odds changes by more than _SLACK_PER_TOL times `tol`, the
# tolerance for probabilities. This condition matters only for beliefs above 0.999 (or below 0.001),
# whose log-odds may still change when their probabilities no longer change.
_SLACK_PER_TOL = 1000.0
# A change of a sum of messages counts as a rounding error if it is at most this number times eps
# times the largest possible value of the sum.
_SLACK_ROUNDING = 32.0


class MessagePassing(IterativeMethod):
    """Base class of the message passing methods that compute marginals."""

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
    """Base class of the message passing methods that search for the best state."""

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
        """Whether answers depend on `random_state`: True if there are random restarts."""
        return self.n_restarts > 1


class SumProduct(MessagePassing):
    """Sum-product (loopy) belief propagation (Ping and Ihler 2017, Algorithm 1).

    The method is exact on trees. On other graphs marginals are approximate, and log Z is the Bethe
    approximation, which is neither an upper nor a lower bound.

    In an `RBMEnergy` an iteration sends all messages hidden -> visible from the current hidden
    beliefs, then all messages visible -> hidden. Unlike in the paper, the visible units send
    messages before the first iteration, computed from their fields alone and damped like all
    messages. The reason is that the input x of a conditional model acts on the visible units, so
    that messages from visible units carry more information than messages from hidden units.
    Pairwise beliefs agree with the visible marginals after any number of iterations, and with the
    hidden marginals at convergence.

    In an `IsingEnergy` with few labels, or with couplings between many pairs, the labels are
    visited in turn: each label reads the messages to it, and sends messages to all other labels.
    Pairwise beliefs always agree with the marginals.

    In a `FactorGraphEnergy`, and an `IsingEnergy` with many labels and few couplings, the variables
    are visited in turn, forward and backward; two iterations are enough on trees. A table whose
    variables are all in another table is first added to the other table, because messages between
    the two tables would form a cycle. An OR or AND factor with many inputs becomes a chain of small
    tables, so that its time is proportional to the number of its inputs. It is joined with tables
    that share two or more of its variables, if the joint tables are small. The statistics
    (probabilities of table entries) are the beliefs of the factors, which agree with the marginals
    at convergence. If messages or factors show that a model has no possible state, the model is
    reported as not converged.

    In RBMs and in Ising models with a matrix of couplings, messages are stored as odds if their
    products fit the dtype (max|W| < 40 in float32, 200 in float64) and damping is 0 or 0.5, which
    takes one division for each edge and iteration. Otherwise messages are stored as log-odds, and
    an iteration takes three to six times as long. Both ways give the same numbers, up to rounding.
    In factor graphs, messages are float64 weights, or logarithms if the weights could underflow.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        Largest change of a belief, as a probability, at which a model has converged and stops.
        None: 1e-3 in training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log-messages in the new log-messages (in an RBM, only in the messages
        visible -> hidden). Damping does not change the fixed points. It helps convergence if
        couplings are strong.

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
    pairs_without_coupling: ClassVar = "paths"


class TreeReweighted(MessagePassing):
    """Tree-reweighted belief propagation (Wainwright, Jaakkola and Willsky 2005).

    The messages of each edge are weighted by its appearance probability rho, the probability that
    a random spanning tree contains the edge. The beliefs solve a concave problem, so that the fixed
    point is unique. The returned log Z is an upper bound after any number of iterations, up to
    rounding. On trees rho is 1, and the method is exact and equals sum-product.

    In an RBM the graph is the complete bipartite graph, and ``rho = (V + H - 1) / (V H)`` for each
    edge.

    In the other energies the variables are visited in turn: in a forest from the leaves to the
    roots and back, otherwise by ascending index. Random acyclic sets of factors take the place of
    spanning trees: a factor can be added to a set if all its variables are in different components.
    The sets are uniform spanning trees if no factor has more than two variables and there are at
    most 1500 variables. Then rho is the effective resistance of the pair: ``2 / L`` on the complete
    graph of L variables, 1 on trees. Otherwise factors are added greedily in random order. The
    bound is valid for tables of any size. An OR or AND is first replaced by a chain of small
    tables.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        Largest change of a belief, as a probability, at which a model has converged and stops.
        None: 1e-3 in training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log-messages in the new log-messages (in an RBM, only in the messages
        visible -> hidden).

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
    pairs_without_coupling: ClassVar = "paths"


class MaxProduct(StateMessagePassing):
    """Joint MAP ``argmax p(v, h)`` by max-product belief propagation.

    The method is exact on trees. Messages and schedule are the same as in `SumProduct`, but with
    ``relu`` in place of the softplus (Ping and Ihler 2017, section 3.3). At the start and after
    each iteration the visible units take the values that their beliefs prefer, and the hidden units
    take their best values given the visible units. The best of all these states is returned, so a
    run is useful even if its messages oscillate.

    In a `FactorGraphEnergy` or `IsingEnergy` the variables are visited in turn, forward and
    backward. After some of the iterations and at the end, the values of the variables are chosen
    one after the other, each given the values chosen before, which is exact on trees. On graphs
    with cycles, coordinate ascent is run from these states and from the best state under the fields
    alone, and the best state is returned. A model has converged only if its messages have
    converged, and its state has the largest max-marginal of each variable and of each factor.
    Converged messages on a graph with cycles do not prove that a state is the best.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        Largest change of a belief, as a probability, at which a model has converged and stops.
        None: 1e-3 in training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old messages in the new messages (in an RBM, only in the messages visible ->
        hidden). A damping of 0.5 finds better states if couplings are strong.
    n_restarts : int, default=1
        Number of runs. The first run starts from the biases, the other runs from random beliefs.
        Each model keeps its best state.
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

    Hidden units send sum-product messages, and visible units send the state that they prefer (Liu
    and Ihler 2013; Ping and Ihler 2017, section 3.3). In an RBM this is coordinate ascent on the
    negative free energy -F(v) that updates all visible units at once. The method is not exact even
    on trees. If the states of a model repeat in a cycle, the model is reported as not converged.
    The best visible state of all iterations is returned, together with the mode of p(h | v).

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        Largest change of a belief, as a probability, at which a model has converged and stops.
        None: 1e-3 in training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log-messages in the new log-messages visible -> hidden. Damping breaks
        cycles in which the same states repeat.
    n_restarts : int, default=1
        Number of runs. The first run starts from the biases, the other runs from random beliefs.
        Each model keeps its best state.
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
    """Mean field: a fully factorised approximation ``q(v, h) = prod_i q(v_i) prod_j q(h_j)``.

    The returned log Z is a lower bound, which no iteration decreases. Pairwise beliefs are products
    of marginals. In an RBM an iteration updates all hidden beliefs,
    ``tau_h = sigma(c + W' tau_v)``, then all visible beliefs, ``tau_v = sigma(b + W tau_h)``;
    visible beliefs start at ``sigma(b)``. The labels of an `IsingEnergy` are updated one after the
    other, ``tau_i = sigma(2 f_i + 2 S_i (2 tau - 1))``, and so are the variables of a
    `FactorGraphEnergy`. If the beliefs of a factor graph give impossible states a probability of
    0.001 or more, the model is reported as not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Largest number of iterations. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        Largest change of a belief, as a probability, at which a model has converged and stops.
        None: 1e-3 in training, 1e-6 in `infer`.

    Examples
    --------
    >>> from skcrbm.inference import MeanField, infer
    >>> from skcrbm.energies import RBMEnergy
    >>> energy = RBMEnergy([[1.0]], [0.0], [0.0])
    >>> infer(energy, MeanField(max_iter=50)).converged
    array([ True])
    """

    name: ClassVar = "mean_field"
    pairs_without_coupling: ClassVar = "products"
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
    """State from which a method such as mean field continues: only the beliefs."""

    # Log-odds (N, n_variables) of the beliefs.
    log_odds: np.ndarray


class Messages(NamedTuple):
    """State of a message passing method: the messages and beliefs of a batch of models."""

    # Name of the method that sent the messages.
    method: str
    # The messages. RBMs: (N, V, H), visible -> hidden. Ising models: (N, L, L), where
    # values[n, i, k] is the message k -> i. Factor graphs: (N, E), factor -> variable.
    values: np.ndarray
    # Finite log-odds (N, n_variables) of the beliefs; 0 for clamped variables.
    log_odds: np.ndarray
    # True if the messages are log-odds, False if they are odds.
    in_logs: bool

    def values_for(self, rows: Any, in_logs: bool, dtype: np.dtype) -> np.ndarray:
        """Return the messages of the models `rows` as an array of `dtype`, for a kernel.

        The messages are log-odds if `in_logs`, else odds.
        """
        values = self.values[rows]
        if self.in_logs and not in_logs:
            # An overflow to inf is harmless, because the kernels clip each message to a finite
            # bound that depends on its coupling.
            with np.errstate(over="ignore"):
                values = np.exp(values)
        elif in_logs and not self.in_logs:
            values = np.log(values)
        with np.errstate(over="ignore"):
            return kernel_array(values, dtype)


def earlier_messages(
    query: Query, method: str, shape: tuple[int, ...], width: int
) -> Messages | None:
    """Return the messages from which a query continues, or None if it has no suitable messages.

    Messages are suitable if they were sent by the method with the name `method`, have the shape
    `shape` and belong to `width` variables. A ValueError is raised if `init` has neither suitable
    messages nor beliefs.
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
            f"init has no log_odds, and its state does not contain messages of {method!r} with "
            f"shape {shape}"
        )
    return None


def convergence_slack(tol: float, norm: float, dtype: np.dtype) -> float:
    """Return the largest change of the log-odds of a belief at which a model has converged.

    `tol` is the largest change of a belief as a probability. `norm` is the largest sum of absolute
    log-messages to a unit, which determines the rounding error.
    """
    return _SLACK_PER_TOL * tol + _SLACK_ROUNDING * float(np.finfo(dtype).eps) * norm
