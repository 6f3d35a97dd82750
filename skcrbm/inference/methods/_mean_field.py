"""Naive mean field."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import IterativeMethod


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
