"""Perturb-and-max-product."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import InferenceMethod


class PerturbAndMaxProduct(InferenceMethod):
    """Samples and log Z by maximising a randomly perturbed energy.

    A sample is the state that max-product prefers once independent noise has been added to the
    fields [1]_: Gumbel noise of mean zero on both values of each variable, which is
    Logistic(0, 1) noise on its log-odds (half of it on the half log-odds of -1/+1 variables).
    All messages are sent from the old ones, `max_iter` times, damped; a variable is 1 unless its
    last belief is negative. Outputs of OR and AND factors follow from their inputs and get no
    noise; what passes through them, and back, arrives within the sweep and is not damped.

    Samples are independent of each other, and exact where all variables are independent. Else
    their distribution is another one than the model's own, also where every maximum is exact:
    noise on single variables is not noise on every state. Parameters that are learned with such
    samples belong to this sampler.

    "log_partition" is the mean over ``n_samples`` samples (1000 by default) of their perturbed
    score, that is of the score of each state plus its noise, with its standard error, which one
    sample leaves infinite; there is no effective sample size. It is an upper bound of log Z in the
    mean where every maximum is exact [2]_, as on trees after enough iterations, and neither an
    upper nor a lower bound where it is not. It is -inf where a state contradicts the model.

    Parameters
    ----------
    max_iter : int, default=100
        Sweeps of all messages.
    damping : float in [0, 1), default=0.5
        Share of the old log messages that is kept. On factor graphs of tables 0 and 0.5 are
        fastest.
    persistence : float in [0, 1), default=0.0
        How much of the noise goes on in a call that passes `init`: the noise of a state is
        logit(Phi(z)) of normal numbers z, and z moves to
        ``persistence * z + sqrt(1 - persistence**2) * eps``. Each call's samples are distributed
        as those of a first one, while each state changes slowly from call to call. Messages go
        on too, where that call had ``return_state=True``, so fewer sweeps are enough.
    random_state : int, RandomState or None, default=None
        Not used when `init` continues earlier samples: they keep their random numbers.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.
    .. [2] Hazan and Jaakkola (2012). On the partition function and random maximum a-posteriori
       perturbations. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import PerturbAndMaxProduct, infer
    >>> energy = RBMEnergy([[1.0], [-2.0]], [0.0, 0.5], [0.5])
    >>> method = PerturbAndMaxProduct(max_iter=20, random_state=0)
    >>> result = infer(energy, method, returns=("samples", "log_partition"), n_samples=2000)
    >>> result.samples.shape
    (1, 2000, 3)
    >>> log_z = infer(energy, "exact", returns="log_partition").log_partition
    >>> bool(result.log_partition > log_z)  # a tree: every maximum is exact
    True
    """

    name: ClassVar = "perturb_and_max_product"
    answers: ClassVar = frozenset({"samples", "log_partition"})
    default_returns: ClassVar = ("samples",)
    from_samples: ClassVar = frozenset({"log_partition"})
    accepts: ClassVar = frozenset({"init", "state", "return_state"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "persistence": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=100, damping=0.5, persistence=0.0, random_state=None):
        self.max_iter = max_iter
        self.damping = damping
        self.persistence = persistence
        self.random_state = random_state

    @property
    def draws(self):
        """True: all answers are made of random numbers."""
        return True

    @property
    def goes_on(self):
        """With persistence alone: else messages that fit other noise are no better than none."""
        return self.persistence > 0
