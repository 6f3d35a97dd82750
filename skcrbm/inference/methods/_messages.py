"""Options of message passing and mean field."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference.base import IterativeMethod


class MessagePassing(IterativeMethod):
    """Base of the methods that pass messages for marginals."""

    answers: ClassVar = frozenset({"marginals", "statistics", "log_partition"})
    accepts: ClassVar = frozenset({"init", "return_trace", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "damping": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(self, max_iter=None, tol=None, damping=0.0):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping


class StateMessagePassing(IterativeMethod):
    """Base of the methods that pass messages for a state."""

    accepts: ClassVar = frozenset({"init", "return_trace", "return_state"})
    _parameter_constraints: ClassVar = {
        **MessagePassing._parameter_constraints,
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=None, tol=None, damping=0.0, n_restarts=1, random_state=None):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping
        self.n_restarts = n_restarts
        self.random_state = random_state

    @property
    def draws(self):
        """Whether there are random starts."""
        return self.n_restarts > 1


class SumProduct(MessagePassing):
    """Loopy belief propagation (Ping and Ihler 2017, Algorithm 1).

    One iteration sends all messages hidden -> visible from the current hidden beliefs,
    then all messages visible -> hidden. Before the first one, other than in the paper, visible
    units send what their fields alone say (damped, a share of it): in a conditional model x
    bears on them, and hidden units that spoke first would lead them astray. Exact on trees.
    Log Z is the Bethe approximation, neither an upper nor a lower bound. Pairwise beliefs agree
    with the reported visible marginals after any number of iterations, with the hidden ones at
    convergence. On an `IsingEnergy` the labels take turns: each reads its messages and
    sends to all others; pairwise beliefs always agree with the marginals.

    On a `FactorGraphEnergy` or `SparseIsingEnergy` all messages are sent at once, from the
    beliefs of the iteration before; OR and AND take time in proportion to their inputs. Entry
    probabilities are those of the factors' beliefs, which agree with the marginals at
    convergence. A model whose messages or factors show that no state is possible is reported as
    not converged.

    Messages are kept as odds, one division per edge and iteration, while products of
    them fit the dtype (max|W| < 40 in float32, 200 in float64), and as log-odds beyond
    that and with a damping other than 0.5: an iteration then takes three to six times as
    long. Both give the same numbers.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old log messages visible -> hidden that is kept. Same fixed points;
        helps convergence on strong couplings.

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

    All edges of the complete bipartite graph appear in a random spanning tree with
    ``rho = (V + H - 1) / (V H)``. At convergence log Z is an upper bound; the beliefs are
    those of a concave problem, so there is one fixed point. Exact on trees with V = 1 or
    H = 1, where it is sum-product.

    On an `IsingEnergy`, the labels take turns, and an edge appears as often as in uniform
    spanning trees of the graph of non-zero couplings: ``rho = 2 / L`` on the complete graph,
    1 on trees, where it is exact, and in general the effective resistance of the edge.

    On a `FactorGraphEnergy` or `SparseIsingEnergy` all messages are sent at once, and often need
    a damping of 0.5. A factor appears as often as in acyclic sets of factors, to which one is
    added if all its variables lie in different components: uniform spanning trees again where
    no factor has more than two variables, up to 1500 variables, and greedy sets in random order
    otherwise. The bound holds with tables of any size.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
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


class MeanField(IterativeMethod):
    """Fully factorised approximation ``q(v, h) = prod_i q(v_i) prod_j q(h_j)``.

    One iteration updates all hidden beliefs, ``tau_h = sigma(c + W' tau_v)``, then all
    visible ones, ``tau_v = sigma(b + W tau_h)``, which start at ``sigma(b)``. Log Z is a lower
    bound, which no iteration decreases; pairwise beliefs are products. The labels of an
    `IsingEnergy` are updated one after the other, ``tau_i = sigma(2 f_i + 2 S_i (2 tau - 1))``,
    and so are the variables of a `FactorGraphEnergy`; one whose beliefs give what is impossible
    a probability of 0.001 has not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more. None: 1e-3 in
        training, 1e-6 in `infer`.

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

    def __init__(self, max_iter=None, tol=None):
        self.max_iter = max_iter
        self.tol = tol


class MaxProduct(StateMessagePassing):
    """Joint MAP ``argmax p(v, h)`` by max-product belief propagation.

    Messages and schedule as sum-product, with ``relu`` in place of the softplus (Ping and
    Ihler 2017, section 3.3). Exact on trees. At the start and after each iteration the visible
    units take the side of their beliefs and the hidden ones their conditional mode; of all these
    states the best one is returned, so that an oscillating run is not wasted. On a
    `FactorGraphEnergy` or `SparseIsingEnergy` all messages are sent at once, from the beliefs of
    the iteration before, and all variables take the sides of their beliefs; a model whose state
    is impossible is reported as not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old messages visible -> hidden that is kept. 0.5 finds better states
        on strong couplings.
    n_restarts : int, default=1
        Number of runs: the first starts from the biases, the others from random beliefs.
        Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Draws the random starts.

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
    Ihler 2013; Ping and Ihler 2017, section 3.3). On an RBM this is synchronous coordinate
    ascent on -F(v): not exact even on trees, and a cycle of states is reported as not
    converged. Of all states visited the best one is returned, with the mode of p(h | v)
    beside it.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float or None, default=None
        A model stops when no belief changes by more, as a probability. None: 1e-3 in
        training, 1e-6 in `infer`.
    damping : float in [0, 1), default=0.0
        Share of the old messages visible -> hidden that is kept. Breaks cycles.
    n_restarts : int, default=1
        Number of runs: the first starts from the biases, the others from random beliefs.
        Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Draws the random starts.

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
