"""Mixed-product belief propagation."""

from typing import ClassVar

from skcrbm.inference.methods._message_passing import StateMessagePassing


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
