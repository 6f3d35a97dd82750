"""What an inference method is, what it is asked, and what it answers."""

from abc import ABC
from dataclasses import dataclass
from functools import wraps
from numbers import Integral
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from skcrbm.inference.registry import answers_of, solver_for
from skcrbm.utils.limits import ESTIMATOR_TOL, INFER_TOL, MAX_ITER
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.pickling import Versioned


class MagnitudeError(ValueError):
    """A field or coupling is larger than what `infer` takes, or not finite."""


@dataclass(frozen=True)
class Query:
    """What `infer` asks a method for, checked and complete.

    Attributes
    ----------
    returns : frozenset of str
        What to compute, of `skcrbm.energies.QUERIES`.
    per_example : bool
        Statistics of each model, and not their sum.
    sample_weight : ndarray (N,)
        Weights of the models in that sum.
    n_samples : int
        Samples of each model, also those that other answers are made of.
    start : InferenceResult or None
        An earlier result to go on from, its log-odds (N, n_variables) made finite.
    return_trace, return_state : bool
    n_jobs : int or None
    """

    returns: frozenset
    per_example: bool
    sample_weight: np.ndarray
    n_samples: int
    start: Any
    return_trace: bool
    return_state: bool
    n_jobs: int | None


@dataclass(frozen=True, repr=False)
class InferenceResult(Versioned):
    """Answer of `infer`. What was not asked for, or has no meaning, is None.

    Attributes
    ----------
    marginals : ndarray (N, n_variables)
        P(unit = 1), visible first.
    log_odds : ndarray (N, n_variables)
        Belief log-odds; they keep what saturated marginals lose. ±inf where held.
        Max-marginals where a state was asked for and no marginals, None if the method has
        none.
    assignment : ndarray (N, n_variables) of int8
        The 0/1 state asked for by "map" or "marginal_map".
    map_bound, gap : ndarray (N,), float64
        No state has a score above this bound, of "marginal_map" no visible state a log-weight;
        how far the assignment's is below it, 0 where it is proven to be the best.
    statistics : tuple of ndarray
        Expected sufficient statistics in the shapes of the energy, summed over the models with
        `sample_weight`, or with a leading axis of the models.
    log_partition : ndarray (N,), float64
    standard_error, effective_sample_size : ndarray (N,), float64
        Of a log_partition that was estimated from samples.
    samples : ndarray (N, n_samples, n_variables) of int8
    sample_log_prob : ndarray (N, n_samples), float64
        Log-probability with which each sample was drawn.
    n_iter : ndarray (N,) of int
    converged : ndarray (N,) of bool
    trace : ndarray (N, max_iter)
        Largest belief change of each iteration, NaN after the last one.
    state : object
        Where an iterative method stands beyond its beliefs: messages, chains, and the count of
        random numbers. The `init` of a later call goes on from it.
    """

    marginals: np.ndarray | None = None
    log_odds: np.ndarray | None = None
    assignment: np.ndarray | None = None
    map_bound: np.ndarray | None = None
    gap: np.ndarray | None = None
    statistics: tuple | None = None
    log_partition: np.ndarray | None = None
    standard_error: np.ndarray | None = None
    effective_sample_size: np.ndarray | None = None
    samples: np.ndarray | None = None
    sample_log_prob: np.ndarray | None = None
    n_iter: np.ndarray | None = None
    converged: np.ndarray | None = None
    trace: np.ndarray | None = None
    state: Any = None

    def __repr__(self):
        told = [
            f"{name} {value.shape}"
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name not in ("n_iter", "converged")
        ]
        if self.statistics is not None:
            told.append(f"statistics {', '.join(str(part.shape) for part in self.statistics)}")
        if self.converged is not None and len(self.converged):
            told.append(f"converged {self.converged.mean():.0%} in {self.n_iter.max()} iterations")
        return f"<InferenceResult: {', '.join(told) or 'nothing'}>"

    @property
    def pairwise(self):
        """The statistics of an energy with one array of them.

        Of RBMs (V, H) or (N, V, H), P(v_i = 1, h_j = 1); of an `IsingEnergy` (L, L) or
        (N, L, L), P(y_i = +1, y_k = +1), the marginals on the diagonal. Of a
        `FactorGraphEnergy` (n_entries,) or (N, n_entries), the probability of every table entry
        in the order of its `log_potentials`; of a `SparseIsingEnergy` (E,) or (N, E).
        """
        return None if self.statistics is None else self.statistics[0]


# Options found valid, by method object; kept beside it, as it is the user's.
_VALID_OPTIONS = WeakKeyDictionary()


class InferenceMethod(Versioned, BaseEstimator, ABC):
    """Base of all methods: options only, no state, so clone and grids work.

    Subclasses take their options as keyword arguments of ``__init__``, describe them
    in ``_parameter_constraints``, and define the class attributes below. What they can do on
    which energy is a table of solvers (`skcrbm.inference.register_solver`); a method around
    another one overrides `supports` and `solve` instead.
    """

    #: Name in the registry.
    name: ClassVar[str] = ""
    #: What `returns` may contain.
    answers: ClassVar[frozenset] = frozenset()
    #: What `infer` asks for when nothing is said.
    default_returns: ClassVar[tuple] = ("marginals",)
    #: Which answers, other than the samples themselves, are made of `n_samples` samples.
    from_samples: ClassVar[frozenset] = frozenset()
    #: Arguments of `infer` that not every method has: "init", "return_trace", "return_state";
    #: and "state", if a state without beliefs is enough of an `init`.
    accepts: ClassVar[frozenset] = frozenset()
    #: Which energies of a kind it takes, if not all; for the error message.
    restriction: ClassVar[str] = ""
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    @property
    def draws(self):
        """Whether answers other than samples depend on an option `random_state`."""
        return False

    @property
    def goes_on(self):
        """Whether samples of a further call with its state as `init` are better for it."""
        return self.accepts >= {"init", "state", "return_state"}

    def supports(self, energy):
        """Return what this method answers about an energy; nothing if it cannot solve it.

        Returns
        -------
        frozenset of str
        """
        return answers_of(self.name, type(energy), self.answers) & energy.queries

    def solve(self, energy, query):
        """Answer a checked query.

        Parameters
        ----------
        energy : BaseEnergy
            One that it supports, which may carry evidence.
        query : Query

        Returns
        -------
        dict of `InferenceResult` fields
            What was asked for. `infer` makes marginals of log_odds, and sets log_odds,
            assignment and samples where a variable is held.
        """
        return solver_for(self.name, type(energy))(self, energy, query)

    def at_epoch(self, epoch):
        """Return the method to use in the given epoch of training, 0-based."""
        return self

    def with_options(self, **options):
        """Return the method with other options; those that are None stay as they are.

        Raises
        ------
        ValueError
            If the method lacks one of them, naming those that it has.
        """
        given = {k: v for k, v in options.items() if v is not None}
        has = vars(self)
        for option in given:
            if option not in has:
                raise ValueError(
                    f"{(self.name or type(self).__name__)!r} has no option {option!r}; its options "
                    f"are: {', '.join(sorted(has)) or 'none'}"
                )
        if not given:
            return self
        method = type(self)(**{**has, **given})
        method.check_options()
        return method

    def filled(self, **defaults):
        """Return the method with these values for options that it has and that are None."""
        options = vars(self)
        open_ones = {k: v for k, v in defaults.items() if k in options and options[k] is None}
        return type(self)(**{**options, **open_ones}) if open_ones else self

    def check_options(self):
        """Raise scikit-learn's error on an invalid option."""
        options, valid = dict(vars(self)), _VALID_OPTIONS.get(self)
        # Training asks thousands of times. By identity, as options may be arrays.
        if valid is None or any(valid.get(k, _VALID_OPTIONS) is not options[k] for k in options):
            self._validate_params()
            for name, value in options.items():
                _check_number(name, value, self._parameter_constraints.get(name, ()))
            _VALID_OPTIONS[self] = options


class IterativeMethod(InferenceMethod):
    """A method that iterates: `max_iter`, `tol`, per-model convergence."""

    def at_epoch(self, epoch):
        """Fill in what is None for training: T = 7 + min(epoch, 50) (PI17), tol = 1e-3."""
        return self.filled(max_iter=7 + min(epoch, 50), tol=ESTIMATOR_TOL)

    @property
    def iterations(self):
        """Number of iterations at most."""
        return MAX_ITER if self.max_iter is None else int(self.max_iter)

    @property
    def tolerance(self):
        """Largest change of a belief, as a probability, of a model that has converged."""
        return INFER_TOL if self.tol is None else float(self.tol)


def _check_number(name, value, constraints):
    """Raise a ValueError on what passes for a number in an `Interval`, and is none for kernels."""
    if not any(isinstance(constraint, Interval) for constraint in constraints):
        return
    if isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if isinstance(value, Integral) and value > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be below 2**63, got {value!r}")


def check_count(name, value, least=1):
    """Return an int argument; ValueError unless it is an int of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}")
    return int(value)


def empty_result(energy, query):
    """Allocate what was asked for, as a dict of `InferenceResult` fields.

    `log_odds` and what only some methods answer are left to the solver.
    """
    n = energy.n_models
    fields = {"n_iter": np.zeros(n, np.int64), "converged": np.ones(n, bool)}
    if "log_partition" in query.returns:
        fields["log_partition"] = np.zeros(n)
    if query.returns & {"map", "marginal_map"}:
        fields["assignment"] = np.zeros((n, energy.n_variables), np.int8)
    if "statistics" in query.returns:
        leading = (n,) if query.per_example else ()
        fields["statistics"] = tuple(
            np.zeros((*leading, *shape), energy.dtype) for shape in energy.statistic_shapes
        )
    return fields


def sum_statistics(kernel, chunks, query, statistics, n_arrays=1):
    """Run ``kernel(rows, out)`` over chunks of rows, adding up statistics.

    Each chunk sums into arrays of its own; these are added in order, in float64. Per-example
    statistics are the case of one row a chunk.

    Parameters
    ----------
    kernel : callable
        `out` is a tuple of arrays to add to; empty arrays if none are asked for.
    chunks : list of slice
    query : Query
    statistics : tuple of ndarray, or None if not asked for
    n_arrays : int
        Number of arrays, where there are none to tell.
    """
    if statistics is None:
        none = (np.empty((0, 0), query.sample_weight.dtype),) * n_arrays
        for _ in ordered_map(lambda rows: kernel(rows, none), chunks, query.n_jobs):
            pass
        return
    if query.per_example:
        # A model without couplings has no statistics to tell how many there are.
        rows = row_chunks(len(statistics[0] if statistics else query.sample_weight), 1)

        def one(row):
            kernel(row, tuple(part[row][0] for part in statistics))

        for _ in ordered_map(one, rows, query.n_jobs):
            pass
        return

    if len(chunks) <= 1:
        for rows in chunks:
            kernel(rows, statistics)
        return

    def summed(rows):
        parts = tuple(np.zeros_like(part) for part in statistics)
        kernel(rows, parts)
        return parts

    totals = [np.zeros(part.shape) for part in statistics]
    for parts in ordered_map(summed, chunks, query.n_jobs):
        for total, part in zip(totals, parts):
            total += part
    for part, total in zip(statistics, totals):
        part[...] = total


def with_folded_evidence(solve):
    """Decorate a solver that works on folded fields and leaves held variables out.

    It gets the energy with its evidence folded into the fields (`PairwiseEnergy.fold_evidence`)
    and reads from `energy.free` which variables count; log Z and statistics are completed
    here. It has to fill log_odds where statistics are asked for.
    """

    @wraps(solve)
    def solve_folded(method, energy, query):
        if energy.evidence is None:
            return solve(method, energy, query)
        with one_blas_thread():
            fields, offset = energy.fold_evidence()
        answer = solve(method, energy.with_fields(*fields), query)
        if "log_partition" in query.returns:
            answer["log_partition"] = answer["log_partition"] + offset
        if "statistics" in query.returns:
            with one_blas_thread():
                _add_held_pairs(energy, query, answer)
        return answer

    return solve_folded


def _add_held_pairs(energy, query, answer):
    """Add the pairs with a held variable: plain products of means."""
    held = ~energy.free
    free = np.where(held, 0, expit(answer["log_odds"])).astype(energy.dtype)
    values = np.nan_to_num(energy.evidence).astype(energy.dtype)
    weight = None if query.per_example else query.sample_weight.astype(energy.dtype)
    energy.add_held_pairs(answer["statistics"], values, free, weight)
