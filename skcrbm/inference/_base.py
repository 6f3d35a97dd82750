"""What an inference method is, what it is asked, and what it answers."""

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator

from skcrbm.utils._parallel import ordered_map, row_chunks


@dataclass(frozen=True)
class Query:
    """What `infer` asks a method for, checked and complete.

    Attributes
    ----------
    returns : frozenset of str
        What to compute: "marginals", "pairwise", "log_partition", "map", "marginal_map".
    pairwise : {"sum", "per_example"}
    sample_weight : ndarray (N,)
        Weights of the pairwise sum.
    start : InferenceResult or None
        An earlier result to start from, its log-odds (N, n_variables) made finite.
    return_trace : bool
    n_jobs : int or None
    """

    returns: frozenset
    pairwise: str
    sample_weight: np.ndarray
    start: Any
    return_trace: bool
    n_jobs: int | None


@dataclass(frozen=True)
class InferenceResult:
    """Answer of `infer`. What was not asked for, or has no meaning, is None.

    Attributes
    ----------
    marginals : ndarray (N, n_variables)
        P(unit = 1), visible first.
    log_odds : ndarray (N, n_variables)
        Belief log-odds; they keep what saturated marginals lose. ±inf where clamped.
        Max-marginals where a state was asked for and no marginals.
    assignment : ndarray (N, n_variables) of int8
        The 0/1 state asked for by "map" or "marginal_map".
    pairwise : ndarray (V, H) or (N, V, H)
        P(v_i = 1, h_j = 1), summed over the models with `sample_weight`, or per model. Of an
        `IsingEnergy` (L, L) or (N, L, L), P(y_i = +1, y_k = +1), the marginals on the diagonal.
    log_partition : ndarray (N,), float64
    n_iter : ndarray (N,) of int
    converged : ndarray (N,) of bool
    trace : ndarray (N, max_iter)
        Largest belief change of each iteration, NaN after the last one.
    state : object
        Where the method stands beyond its beliefs, such as the chains of a sampler; the
        `init` of a later call continues from it.
    """

    marginals: np.ndarray | None = None
    log_odds: np.ndarray | None = None
    assignment: np.ndarray | None = None
    pairwise: np.ndarray | None = None
    log_partition: np.ndarray | None = None
    n_iter: np.ndarray | None = None
    converged: np.ndarray | None = None
    trace: np.ndarray | None = None
    state: Any = None


# Options found valid, by method object; kept beside it, as it is the user's.
_VALID_OPTIONS = WeakKeyDictionary()


class InferenceMethod(BaseEstimator, ABC):
    """Base of all methods: options only, no state, so clone and grids work.

    Subclasses take their options as keyword arguments of ``__init__``, describe them
    in ``_parameter_constraints``, and define the class attributes below.
    """

    #: Name in the registry.
    name: ClassVar[str] = ""
    #: What `returns` may contain.
    answers: ClassVar[frozenset] = frozenset()
    #: What `infer` asks for when nothing is said.
    default_returns: ClassVar[tuple] = ("marginals",)
    #: Options that only this method's `infer` arguments carry: "init", "return_trace".
    accepts: ClassVar[frozenset] = frozenset()
    #: Energy type -> name of the method of this class that solves it.
    solvers: ClassVar[dict[type, str]] = {}
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    def solver_for(self, energy):
        """Return the function that solves this very type of energy, or None."""
        name = self.solvers.get(type(energy))
        return None if name is None else getattr(self, name)

    def at_epoch(self, epoch):
        """Return the method to use in the given epoch of training, 0-based."""
        return self

    def check_options(self):
        """Raise scikit-learn's error on an invalid option."""
        options = dict(vars(self))
        if _VALID_OPTIONS.get(self) != options:  # training asks thousands of times
            self._validate_params()
            _VALID_OPTIONS[self] = options


class IterativeMethod(InferenceMethod):
    """A method that iterates: `max_iter`, `tol`, per-model convergence."""

    #: `max_iter` of `infer` when none is given.
    default_max_iter: ClassVar[int] = 100

    def at_epoch(self, epoch):
        """PI17's schedule where `max_iter` is None: T = 7 + min(epoch, 50)."""
        if self.max_iter is not None:
            return self
        return type(self)(**{**vars(self), "max_iter": 7 + min(epoch, 50)})

    @property
    def iterations(self):
        """Number of iterations at most."""
        return self.default_max_iter if self.max_iter is None else self.max_iter


def empty_result(energy, query):
    """Allocate what was asked for, as a dict of `InferenceResult` fields."""
    n, dtype, shape = energy.n_models, energy.dtype, energy.pairwise_shape
    fields = {
        "log_odds": np.empty((n, energy.n_variables), dtype),
        "n_iter": np.zeros(n, np.int64),
        "converged": np.ones(n, bool),
    }
    if "log_partition" in query.returns:
        fields["log_partition"] = np.zeros(n)
    if query.returns & {"map", "marginal_map"}:
        fields["assignment"] = np.zeros((n, energy.n_variables), np.int8)
    if "pairwise" in query.returns:
        fields["pairwise"] = np.zeros(
            (n, *shape) if query.pairwise == "per_example" else shape, dtype
        )
    return fields


def add_pairwise(kernel, chunks, query, pairwise):
    """Run ``kernel(rows, pairwise_out)`` over chunks of rows, adding up pairwise beliefs.

    Each chunk sums into a matrix of its own; these are added in order, in float64.
    Per-example beliefs are the case of one row a chunk.

    Parameters
    ----------
    kernel : callable
    chunks : list of slice
    query : Query
    pairwise : ndarray (V, H) or (N, V, H), or None if not asked for
    """
    if pairwise is None:
        none = np.empty((0, 0), query.sample_weight.dtype)
        for _ in ordered_map(lambda rows: kernel(rows, none), chunks, query.n_jobs):
            pass
        return
    if query.pairwise == "per_example":
        rows = row_chunks(len(pairwise), 1)
        for _ in ordered_map(lambda row: kernel(row, pairwise[row][0]), rows, query.n_jobs):
            pass
        return

    if len(chunks) <= 1:
        for rows in chunks:
            kernel(rows, pairwise)
        return

    def summed(rows):
        part = np.zeros_like(pairwise)
        kernel(rows, part)
        return part

    total = np.zeros(pairwise.shape)
    for part in ordered_map(summed, chunks, query.n_jobs):
        total += part
    pairwise[...] = total
