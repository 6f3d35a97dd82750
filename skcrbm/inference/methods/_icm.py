"""Iterated conditional modes."""

from numbers import Integral
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import IterativeMethod


class ICM(IterativeMethod):
    """Joint MAP by iterated conditional modes (Besag 1986).

    One iteration replaces all visible units by their best values given the hidden ones, then
    the hidden ones given the visible ones: on an RBM each half is one exact coordinate step,
    so the score never goes down. Ends at a state that no change of one layer improves. The
    log-odds are those of each unit given the other layer. On an `IsingEnergy` an iteration goes
    over the labels one by one, and the log-odds are those of each label given the others. On a
    `FactorGraphEnergy` or `SparseIsingEnergy` variables that share no factor move at once; a
    model that ends at an impossible state has not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    n_restarts : int, default=1
        Number of runs: the first starts from the biases (fields), the others from random states.
        Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Draws the random starts.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import ICM, infer
    >>> energy = RBMEnergy([[2.0], [-3.0]], [-1.0, 1.0], [0.5])
    >>> infer(energy, ICM(n_restarts=5, random_state=0)).assignment
    array([[1, 0, 1]], dtype=int8)
    """

    name: ClassVar = "icm"
    answers: ClassVar = frozenset({"map"})
    default_returns: ClassVar = ("map",)
    accepts: ClassVar = frozenset({"init"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=None, n_restarts=1, random_state=None):
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state

    @property
    def draws(self):
        """Whether there are random starts."""
        return self.n_restarts > 1
