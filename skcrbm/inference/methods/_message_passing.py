"""Options that all message passing methods share."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import IterativeMethod


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
