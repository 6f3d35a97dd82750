"""Inference methods, the queries that they get, their results, and helpers for their solvers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, wraps
from numbers import Integral
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval

from skcrbm.energies import BaseEnergy, RBMEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.inference.registry import METHODS, answers_of, solver_for
from skcrbm.utils.limits import AUTO_EXACT_UNITS, ESTIMATOR_TOL, INFER_TOL, MAX_ITER
from skcrbm.utils.options import is_auto
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.pickling import Versioned


class MagnitudeError(ValueError):
    """A field or coupling is larger than the limit of `infer`, or not finite."""


@dataclass(frozen=True)
class Query:
    """Question of `infer` to a method, checked and complete.

    Attributes
    ----------
    returns : frozenset of str
        Answers to compute, from `skcrbm.energies.QUERIES`.
    per_example : bool
        Whether statistics are returned for each model rather than summed over the models.
    sample_weight : ndarray (N,)
        Weights of the models in the summed statistics.
    n_samples : int
        Number of samples of each model, also if other answers are estimated from samples.
    start : InferenceResult or None
        Earlier result to continue from, its log-odds (N, n_variables) made finite.
    return_trace : bool
        Whether the largest belief change of each iteration is returned.
    return_state : bool
        Whether the state of the method is returned.
    n_jobs : int or None
        Number of threads over the models.
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
    """Answer of `infer`. Fields that were not asked for, or have no meaning, are None.

    Attributes
    ----------
    marginals : ndarray (N, n_variables)
        P(unit = 1), visible units first.
    log_odds : ndarray (N, n_variables)
        Log-odds of the beliefs, which keep the precision that saturated marginals lose; ±inf
        for clamped units. If a state was asked for and no marginals, these are max-marginals,
        or None if the method has no max-marginals.
    assignment : ndarray (N, n_variables) of int8
        State found for "map" or "marginal_map", 0/1.
    map_bound : ndarray (N,), float64
        Upper bound of the score of any state or, for "marginal_map", of the log-weight of any
        visible state.
    gap : ndarray (N,), float64
        Distance of the assignment from that bound; 0 if the assignment is proven to be optimal.
    statistics : tuple of ndarray
        Expected sufficient statistics in the shapes of the energy, summed over the models with
        `sample_weight`, or with a leading axis for the models.
    log_partition : ndarray (N,), float64
        Log Z, exact, approximate or a bound, as the method says.
    standard_error, effective_sample_size : ndarray (N,), float64
        Precision of a log_partition that was estimated from samples.
    samples : ndarray (N, n_samples, n_variables) of int8
        0/1 states.
    sample_log_prob : ndarray (N, n_samples), float64
        Log-probability with which each sample was drawn.
    n_iter : ndarray (N,) of int
        Number of iterations of each model.
    converged : ndarray (N,) of bool
        Whether each model has converged.
    trace : ndarray (N, max_iter)
        Largest belief change of each iteration, NaN after the last iteration.
    state : object
        State of an iterative method beyond its beliefs: messages, or chains and the count of
        random numbers. A later call continues from it if it is passed as `init`.
    """

    # "| Any" in place of "| None": the caller knows for which answers it asked.
    marginals: np.ndarray | Any = None
    log_odds: np.ndarray | Any = None
    assignment: np.ndarray | Any = None
    map_bound: np.ndarray | Any = None
    gap: np.ndarray | Any = None
    statistics: tuple[np.ndarray, ...] | Any = None
    log_partition: np.ndarray | Any = None
    standard_error: np.ndarray | Any = None
    effective_sample_size: np.ndarray | Any = None
    samples: np.ndarray | Any = None
    sample_log_prob: np.ndarray | Any = None
    n_iter: np.ndarray | Any = None
    converged: np.ndarray | Any = None
    trace: np.ndarray | Any = None
    state: Any = None

    def __repr__(self):
        parts = [
            f"{name} {value.shape}"
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name not in ("n_iter", "converged")
        ]
        if self.statistics is not None:
            parts.append(f"statistics {', '.join(str(part.shape) for part in self.statistics)}")
        if self.converged is not None and self.n_iter is not None and len(self.converged):
            parts.append(f"converged {self.converged.mean():.0%} in {self.n_iter.max()} iterations")
        return f"<InferenceResult: {', '.join(parts) or 'empty'}>"

    @property
    def pairwise(self) -> np.ndarray | None:
        """Statistics of an energy that has a single array of them.

        For an `RBMEnergy` P(v_i = 1, h_j = 1), of shape (V, H) or (N, V, H). For an `IsingEnergy`
        P(y_i = +1, y_k = +1), of shape (L, L) or (N, L, L), with the marginals on the diagonal;
        for a `SparseIsingEnergy` the same for its edges, of shape (E,) or (N, E). For a
        `FactorGraphEnergy` the probability of every table entry in the order of its
        `log_potentials`, of shape (n_entries,) or (N, n_entries).
        """
        return None if self.statistics is None else self.statistics[0]


class Chains(NamedTuple):
    """State of a sampler: its chains, and the count of their random numbers."""

    # (N, n_chains, n_variables) in the dtype of `chain_dtype`.
    states: np.ndarray
    # uint64, see `random_key`.
    key: Any
    # Number of draws so far; the next draw continues the same random numbers.
    step: int


# Options that were found valid, by method object; not stored on the object, which is the user's.
_VALID_OPTIONS = WeakKeyDictionary()


class InferenceMethod(Versioned, BaseEstimator, ABC):
    """Base class of all methods. It has options only and no state, so clone and grids work.

    Subclasses take their options as keyword arguments of ``__init__``, describe them
    in ``_parameter_constraints``, and define the class attributes below. A table of solvers
    (`skcrbm.inference.register_solver`) says which energies a method can solve; a method that
    wraps another method overrides `supports` and `solve` instead.
    """

    _warns_of_version = False

    #: Name of the method in the registry.
    name: ClassVar[str] = ""
    #: Values that `returns` of `infer` may contain.
    answers: ClassVar[frozenset] = frozenset()
    #: Default of `returns`.
    default_returns: ClassVar[tuple] = ("marginals",)
    #: Answers, other than the samples themselves, that are estimated from `n_samples` samples.
    estimated_from_samples: ClassVar[frozenset] = frozenset()
    #: Arguments of `infer` that not every method has: "init", "return_trace", "return_state";
    #: and "state" if `init` may be a state without beliefs.
    accepts: ClassVar[frozenset] = frozenset()
    #: Reason why some energies of a class are refused, for the error message.
    restriction: ClassVar[str] = ""
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    @property
    def is_random(self) -> bool:
        """Whether answers other than samples depend on an option `random_state`."""
        return False

    @property
    def prefers_warm_start(self) -> bool:
        """Whether samples are better if the state of an earlier call is passed as `init`."""
        return self.accepts >= {"init", "state", "return_state"}

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers that this method can give about an energy, maybe an empty set."""
        return answers_of(self.name, type(energy), self.answers) & energy.queries

    def solve(self, energy: BaseEnergy, query: Query) -> dict[str, Any]:
        """Answer a checked query.

        Parameters
        ----------
        energy : BaseEnergy
            Energy that the method supports. It may carry evidence.
        query : Query
            Answers to compute, and how.

        Returns
        -------
        dict
            Fields of `InferenceResult` that were asked for. `infer` computes the marginals from
            log_odds, and writes the values of clamped variables into log_odds, assignment and
            samples.
        """
        return solver_for(self.name, type(energy))(self, energy, query)

    def at_epoch(self, epoch: int) -> InferenceMethod:
        """Return the method to use in an epoch of training, counted from 0."""
        return self

    def with_options(self, **options) -> InferenceMethod:
        """Return a copy of the method with other options, or the method itself without options.

        Raises
        ------
        ValueError
            If the method has no such option (the message lists its options), or a value is
            invalid.
        """
        if not options:
            return self
        current = vars(self)
        for option in options:
            if option not in current:
                raise ValueError(
                    f"{self.display_name!r} has no option {option!r}; its options are: "
                    f"{', '.join(sorted(current)) or 'no options at all'}"
                )
        method = type(self)(**{**current, **options})
        method.check_options()
        return method

    def with_defaults(self, **defaults) -> InferenceMethod:
        """Return a copy in which options that are None have the given values."""
        options = vars(self)
        unset = {k: v for k, v in defaults.items() if k in options and options[k] is None}
        return type(self)(**{**options, **unset}) if unset else self

    def seeded(self, rng: np.random.RandomState) -> InferenceMethod:
        """Return a copy for a fitted model; a random method without a seed gets a seed.

        The copy does not change if the user changes the object that was passed, and it gives the
        same answer each time.
        """
        copied: Any = clone(self)
        if copied.is_random and copied.random_state is None:
            copied.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
        return copied

    def check_options(self) -> None:
        """Raise scikit-learn's error if an option is invalid."""
        options, valid = dict(vars(self)), _VALID_OPTIONS.get(self)
        # Training calls this thousands of times. Compare by identity, as options may be arrays.
        if valid is None or any(valid.get(k, _VALID_OPTIONS) is not options[k] for k in options):
            self._validate_params()
            for name, value in options.items():
                _check_number(name, value, self._parameter_constraints.get(name, ()))
            _VALID_OPTIONS[self] = options

    @property
    def display_name(self) -> str:
        """Name of the method in error messages: the registered name, or the name of the class."""
        return self.name or type(self).__name__


class IterativeMethod(InferenceMethod):
    """A method with options `max_iter` and `tol`, whose models converge one by one."""

    max_iter: int | None
    tol: float | None

    def at_epoch(self, epoch: int) -> InferenceMethod:
        """Set options that are None for training: T = 7 + min(epoch, 50) (PI17), tol = 1e-3."""
        return self.with_defaults(max_iter=7 + min(epoch, 50), tol=ESTIMATOR_TOL)

    @property
    def iterations(self) -> int:
        """Largest number of iterations."""
        return MAX_ITER if self.max_iter is None else int(self.max_iter)

    @property
    def tolerance(self) -> float:
        """Largest change of a belief, as a probability, at which a model has converged."""
        return INFER_TOL if self.tol is None else float(self.tol)


def _check_number(name, value, constraints):
    """Reject bools and integers above 2**63, which `Interval` accepts but kernels cannot take."""
    if not any(isinstance(constraint, Interval) for constraint in constraints):
        return
    if isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if isinstance(value, Integral) and value > np.iinfo(np.int64).max:  # type: ignore
        raise ValueError(f"{name} must be below 2**63, got {value!r}")


# ------------------------------------------------------------------- checks of arguments


def resolve_method(
    method: str | InferenceMethod,
    name: str = "inference",
    valid_names: Callable[[], list[str]] = METHODS.names,
) -> InferenceMethod:
    """Turn a name or a configured object into an `InferenceMethod`, and check its options.

    Error messages tell the name of the argument and the names of the methods that are valid there.
    """
    if isinstance(method, str):
        resolved = METHODS.get(method, name, valid_names)()
    elif isinstance(method, InferenceMethod):
        resolved = method
    else:
        names = valid_names()
        raise TypeError(
            f"{name} must be one of {', '.join(map(repr, names))} or a configured object "
            f"such as {example_of(names)}; got {method!r}"
        )
    resolved.check_options()
    return resolved


def methods_for(energy_type: type[BaseEnergy], *returns: Iterable[str]) -> list[str]:
    """List the methods that can answer at least one of several queries about a class of energies.

    Each item of `returns` is one query: the answers that a method must all give.
    """
    names = []
    for name in METHODS:
        answers = answers_of(name, energy_type, METHODS.get(name).answers) & energy_type.queries
        if any(answers >= set(asked) for asked in returns):
            names.append(name)
    return names


def marginal_method(
    inference: str | InferenceMethod,
    n_visible: int,
    n_hidden: int,
    needs: Iterable[str] = ("marginals",),
) -> InferenceMethod:
    """Resolve a method for an `RBMEnergy`; "auto" enumerates if one layer is small.

    Parameters
    ----------
    inference : str or InferenceMethod
        Name, "auto" or a configured object.
    n_visible, n_hidden : int
        Sizes of the layers.
    needs : iterable of str
        Answers that the method must give.

    Raises
    ------
    ValueError
        If there is no such method, or it does not give these answers about an `RBMEnergy`.
    """
    if is_auto(inference):
        small = min(n_visible, n_hidden) <= AUTO_EXACT_UNITS
        inference = "exact" if small else "sum_product"
    valid_names = partial(methods_for, RBMEnergy, needs)
    method = resolve_method(inference, valid_names=valid_names)
    # A method with its own `solve` knows its answers for an energy, but not for a class.
    has_table = type(method).solve is InferenceMethod.solve
    lacking = set(needs) - answers_of(method.name, RBMEnergy, method.answers)
    if has_table and lacking:
        raise ValueError(
            f"inference={method.name!r} does not give {', '.join(sorted(lacking))}; methods that "
            f"do: {', '.join(map(repr, valid_names()))}"
        )
    return method


def example_of(names: list[str]) -> str:
    """Return an example of a configured object for one of these methods, as code."""
    if "sum_product" in names:
        return "SumProduct(max_iter=30)"
    if "icm" in names:
        return "ICM(n_restarts=10)"
    return METHODS.locations[names[0]].rpartition(":")[2] + "()" if names else "SumProduct()"


def check_energy(energy: Any) -> None:
    """Raise a TypeError unless `energy` is an energy."""
    if not isinstance(energy, BaseEnergy):
        raise TypeError(f"energy must be an energy such as RBMEnergy, got {energy!r}")


def check_returns(
    returns: str | Iterable[str], possible: frozenset = QUERIES, *, allow_empty: bool = False
) -> frozenset:
    """Return the answers that are asked for, with "pairwise" renamed to "statistics".

    The error message for an unknown answer lists `possible`.
    """
    known = {*QUERIES, "pairwise"}
    asked = (returns,) if isinstance(returns, str) else returns
    asked = tuple(asked) if isinstance(asked, Iterable) else (None,)
    if not (asked or allow_empty) or any(r not in known for r in asked):
        names = {*possible, "pairwise"} if "statistics" in possible else possible
        raise ValueError(f"returns must hold some of {sorted(names)}; got {returns!r}")
    if {"map", "marginal_map"} <= set(asked):
        raise ValueError("returns must hold one of 'map' and 'marginal_map', not both")
    if "map_bound" in asked and not {"map", "marginal_map"} & set(asked):
        by_sums = "marginal_map" in possible and "map" not in possible
        asked = (*asked, "marginal_map" if by_sums else "map")
    if "sample_log_prob" in asked:
        asked = (*asked, "samples")
    return frozenset("statistics" if r == "pairwise" else r for r in asked)


# ----------------------------------------------------------------- helpers for solvers


def empty_result(energy: BaseEnergy, query: Query) -> dict[str, Any]:
    """Allocate the `InferenceResult` fields that a query asks for.

    Solvers add `log_odds` and the fields that only some methods have.
    """
    n = energy.n_models
    fields: dict[str, Any] = {"n_iter": np.zeros(n, np.int64), "converged": np.ones(n, bool)}
    if "log_partition" in query.returns:
        fields["log_partition"] = np.zeros(n)
    if query.returns & {"map", "marginal_map"}:
        fields["assignment"] = np.zeros((n, energy.n_variables), energy.state_dtype)
    if "statistics" in query.returns:
        leading = (n,) if query.per_example else ()
        fields["statistics"] = tuple(
            np.zeros((*leading, *shape), energy.dtype) for shape in energy.statistic_shapes
        )
    return fields


def sum_statistics(
    kernel: Callable[[slice, tuple], None],
    chunks: list[slice],
    query: Query,
    statistics: tuple[np.ndarray, ...] | None,
    n_arrays: int = 1,
) -> None:
    """Run ``kernel(rows, out)`` over chunks of rows and add up their statistics.

    `out` is a tuple of arrays to add to. Each chunk adds to arrays of its own, which are summed
    in order, in float64; for per-example statistics each row is a chunk. If `statistics` is None,
    the query does not ask for them, and the kernel gets `n_arrays` empty arrays.
    """
    if statistics is None:
        empty = (np.empty((0, 0), query.sample_weight.dtype),) * n_arrays
        for _ in ordered_map(lambda rows: kernel(rows, empty), chunks, query.n_jobs):
            pass
        return
    if query.per_example:
        # A model without couplings has no array of statistics, whose length would be N.
        rows = row_chunks(len(statistics[0] if statistics else query.sample_weight), 1)

        def run_row(row):
            kernel(row, tuple(part[row][0] for part in statistics))

        for _ in ordered_map(run_row, rows, query.n_jobs):
            pass
        return

    if len(chunks) <= 1:
        for rows in chunks:
            kernel(rows, statistics)
        return

    def run_chunk(rows):
        parts = tuple(np.zeros_like(part) for part in statistics)
        kernel(rows, parts)
        return parts

    totals = [np.zeros(part.shape) for part in statistics]
    for parts in ordered_map(run_chunk, chunks, query.n_jobs):
        for total, part in zip(totals, parts):
            total += part
    for part, total in zip(statistics, totals):
        part[...] = total


def with_folded_evidence(solve: Callable) -> Callable:
    """Decorate a solver that works on folded fields and leaves clamped variables out.

    The solver gets the energy with its evidence folded into the fields
    (`PairwiseEnergy.fold_evidence`) and reads from `energy.free` which variables count; log Z and
    statistics are completed here. If statistics are asked for, it has to fill log_odds, too.
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
    """Add the statistics of pairs with a clamped variable: plain products of means."""
    held = ~energy.free
    free = np.where(held, 0, expit(answer["log_odds"])).astype(energy.dtype)
    values = np.nan_to_num(energy.evidence).astype(energy.dtype)
    weight = None if query.per_example else query.sample_weight.astype(energy.dtype)
    energy.add_held_pairs(answer["statistics"], values, free, weight)
