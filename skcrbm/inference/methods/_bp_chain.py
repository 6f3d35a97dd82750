"""Samples by belief propagation, one variable after the other."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.inference._base import InferenceMethod


class BPChain(InferenceMethod):
    """Samples by chained belief propagation (Ding and Xue 2020).

    Variable after variable is drawn from its sum-product belief given those drawn before, which
    are held at their values from then on. Messages go on from one variable to the next. Of an
    `RBMEnergy` the visible units are drawn in this way, then all hidden ones at once from
    p(h | v).

    Samples are independent, and their distribution q is that of the model where beliefs are exact:
    on graphs without loops, given enough iterations. Elsewhere q is near it at best; but q(x) of
    what is drawn is known ("sample_log_prob"; the same for the same state, apart from rounding),
    so that ``exp(score(x) - log q(x))`` is an unbiased estimate of Z. "log_partition" is the
    logarithm of its mean over `n_samples` samples, with `standard_error`, by the delta method, and
    `effective_sample_size`, between 1 and the number of samples: a small one means that few
    samples carry the estimate, and that its standard error is too small.

    Where tables hold weights of zero, and with ORs and ANDs, beliefs may allow what is not
    possible: then a state of weight 0 may be drawn, whose importance weight is 0. Once both values
    of a variable have become impossible, what forbids them cancels, and the rest decides. A model
    of which such a state was drawn is reported as not converged. Beliefs may also exclude what
    is possible: where such factors share several variables, log-odds may grow with every iteration
    until they are as good as infinite. A state of that kind is never drawn, and the estimate of
    Z misses its weight without a sign in its error.

    Parameters
    ----------
    max_iter : int, default=20
        Iterations before the first variable is drawn.
    warm_iter : int or None, default=5
        Iterations before each of the others, from the messages of the step before. None:
        `max_iter` from the start at each step, the paper's form.
    order : {"index", "random"} or array-like of int (n_visible,), default="index"
        In which variables are drawn: as they are numbered; one random order, drawn once from
        `random_state`; or this one, a permutation of the visible variables. Held ones take no
        step.
    damping : float in [0, 1), default=0.0
        Share of the old log messages that is kept.
    random_state : int, RandomState or None, default=None
        Every model and sample has random numbers of its own. Not used when `init` goes on from
        an earlier call.

    References
    ----------
    Ding and Xue (2020). Contrastive divergence learning with chained belief propagation. PGM.

    Examples
    --------
    >>> from skcrbm.energies import SparseIsingEnergy
    >>> from skcrbm.inference import BPChain, infer, sample
    >>> ring = SparseIsingEnergy.from_edges([[0, 1], [1, 2], [2, 3], [0, 3]], 0.5, [1, 0, 0, 0])
    >>> sample(ring, BPChain(random_state=0), n_samples=100).shape
    (1, 100, 4)
    >>> estimate = infer(ring, BPChain(random_state=0), returns="log_partition")
    >>> exact = infer(ring, "exact", returns="log_partition").log_partition
    >>> bool(abs(estimate.log_partition - exact) < 4 * estimate.standard_error)
    True
    """

    name: ClassVar = "bp_chain"
    answers: ClassVar = frozenset({"samples", "sample_log_prob", "log_partition"})
    default_returns: ClassVar = ("samples",)
    from_samples: ClassVar = frozenset({"log_partition"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_iter": [Interval(Integral, 1, None, closed="left"), None],
        "order": [StrOptions({"index", "random"}), "array-like"],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=20, warm_iter=5, order="index", damping=0.0, random_state=None):
        self.max_iter = max_iter
        self.warm_iter = warm_iter
        self.order = order
        self.damping = damping
        self.random_state = random_state

    @property
    def draws(self):
        """True: all answers are made of random numbers."""
        return True
