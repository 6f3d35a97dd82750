"""Sum-product belief propagation."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm._kernels._scalar import SUM
from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference._base import IterativeMethod
from skcrbm.inference._ising_iterate import pass_messages_ising
from skcrbm.inference._message_passing import pass_messages


class SumProduct(IterativeMethod):
    """Loopy belief propagation (Ping and Ihler 2017, Algorithm 1).

    One iteration sends all messages hidden -> visible from the current hidden beliefs,
    then all messages visible -> hidden. Exact on trees. Log Z is the Bethe
    approximation, neither an upper nor a lower bound. Pairwise beliefs agree with the
    reported visible marginals after any number of iterations, with the hidden ones at
    convergence. On an `IsingEnergy` the labels take turns: each reads its messages and
    sends to all others; pairwise beliefs always agree with the marginals.

    Messages are kept as odds, one division per edge and iteration, while products of
    them fit the dtype (max|W| < 40 in float32, 200 in float64), and as log-odds beyond
    that and with damping. Both give the same numbers.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float, default=1e-3
        A model stops when no belief changes by more, as a probability.
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
    answers: ClassVar = frozenset({"marginals", "pairwise", "log_partition"})
    accepts: ClassVar = frozenset({"init", "return_trace"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm", IsingEnergy: "_solve_ising"}
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(self, max_iter=None, tol=1e-3, damping=0.0):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping

    def _solve_rbm(self, energy, query):
        warm = query.start is not None
        fields, _ = pass_messages(
            energy,
            query,
            SUM,
            max_iter=self.iterations,
            tol=self.tol,
            damping=self.damping,
            start=query.start.log_odds if warm else None,
            warm=warm,
        )
        return fields

    def _solve_ising(self, energy, query):
        return pass_messages_ising(
            energy, query, max_iter=self.iterations, tol=self.tol, damping=self.damping
        )
