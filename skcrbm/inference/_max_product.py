"""Max-product belief propagation."""

from typing import ClassVar

from skcrbm._kernels._scalar import MAX
from skcrbm.inference._message_passing import StateMessagePassing


class MaxProduct(StateMessagePassing):
    """Joint MAP ``argmax p(v, h)`` by max-product belief propagation.

    Messages and schedule as sum-product, with ``relu`` in place of the softplus (Ping and
    Ihler 2017, section 3.3). Exact on trees. After each iteration the visible units take
    the side of their beliefs and the hidden ones their best reply; of all these states
    the best one is returned, so that an oscillating run is not wasted.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float, default=1e-3
        A model stops when no belief changes by more, as a probability.
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
    _kind: ClassVar = MAX
