"""Sum-product belief propagation."""

from typing import ClassVar

from skcrbm.inference.methods._message_passing import MessagePassing


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
