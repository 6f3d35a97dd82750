"""Max-product belief propagation."""

from typing import ClassVar

from skcrbm.inference.methods._message_passing import StateMessagePassing


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
