"""Define the base class of methods, queries, results, and functions that solvers share."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from numbers import Integral
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

from skcrbm.energies import BaseEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.energies.states import is_categorical
from skcrbm.inference.registry import METHODS, answers_of, check_method_class, solver_for
from skcrbm.utils.limits import ESTIMATOR_TOL, INFER_TOL, MAX_ITER
from skcrbm.utils.options import is_built_in, with_default_options
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.sklearn_private import Interval


class ContradictionError(ValueError):
    """Error raised if no state of a model has a positive weight and agrees with the evidence.

    The attribute `model` is the index of the first such model. `infer` sets `clamped` to True if
    the user has clamped variables, so that the message speaks of `clamp`.
    """

    def __init__(self, model: int, clamped: bool = False):
        agreeing = " that agrees with clamp" if clamped else ""
        super().__init__(f"model {model} has no state of positive weight{agreeing}")
        self.model = model


class MagnitudeError(ValueError):
    """Raised by `infer` if a field or coupling is too large or not finite."""


@dataclass(frozen=True)
class Query:
    """The arguments of a call of `infer` after validation.

    Attributes
    ----------
    returns : frozenset of str
        Answers to compute, from `skcrbm.energies.QUERIES`.
    per_example : bool
        If True, statistics are returned for each model. If False, they are summed over the models.
    sample_weight : ndarray (N,)
        Weights of the models in sums of statistics over the models.
    n_samples : int
        Number of samples of each model, for samples and for answers that are estimated from
        samples.
    n_best : int
        Number of states of each model for "best_states".
    start : InferenceResult or None
        Earlier result from which the method continues; its log-odds (N, n_variables) are clipped
        to finite values.
    return_trace : bool
        Whether the largest change of a belief in each iteration is returned.
    return_state : bool
        Whether the state of the method is returned.
    n_jobs : int or None
        Number of threads, which share the work on the models.
    """

    returns: frozenset
    per_example: bool
    sample_weight: np.ndarray
    n_samples: int
    n_best: int
    start: Any
    return_trace: bool
    return_state: bool
    n_jobs: int | None


@dataclass(frozen=True, repr=False)
class InferenceResult(Versioned):
    """Result of `infer`. A field is None if it was not requested or does not apply.

    Attributes
    ----------
    marginals : ndarray (N, n_variables)
        Probability that each variable is 1, visible variables first.
    log_odds : ndarray (N, n_variables)
        Log-odds of the beliefs; ±inf for clamped variables. Marginals near 0 and 1 lose precision
        by rounding; log-odds do not. If "map" or "marginal_map" was requested without "marginals",
        this field has the log-odds of max-marginals, or is None if the method has no max-marginals.
    assignment : ndarray (N, n_variables) of int8
        State that was found for "map" or "marginal_map", as 0 and 1.
    map_bound : ndarray (N,), float64
        Upper bound of the score of any state or, for "marginal_map", of the log-weight of any
        visible state.
    gap : ndarray (N,), float64
        `map_bound` minus the score (or log-weight) of the assignment; 0 if the assignment is proven
        to be optimal.
    best_states : ndarray (N, n_best, n_variables)
        The best states of each model, in descending order of their scores. If a model has fewer
        states of positive weight, its last rows are -1.
    best_scores : ndarray (N, n_best), float64
        Scores of `best_states`; -inf in the place of missing states.
    statistics : tuple of ndarray
        Expected sufficient statistics, in the shapes that the energy defines. They are summed over
        the models with `sample_weight`, or have a leading axis for the models.
    product_pairs : ndarray of bool
        Mask in the shape of the statistics of a model: True for entries that are products of
        marginals instead of probabilities of pairs. In "mean_field" all pairs are products. In
        "sum_product" and "tree_reweighted" the pairs of an Ising model or an RBM whose coupling is
        0 are products if the couplings form a loop. On forests their probabilities follow from the
        path between the two variables ("tree_reweighted": if the couplings of an Ising model are a
        matrix). None if no entry is a product.
    log_partition : ndarray (N,), float64
        Log Z. It is exact, an approximation or a bound, depending on the method.
    standard_error, effective_sample_size : ndarray (N,), float64
        Precision of a log_partition that was estimated from samples.
    samples : ndarray (N, n_samples, n_variables) of int8
        Sampled states, as 0 and 1.
    sample_log_prob : ndarray (N, n_samples), float64
        Log-probability with which each sample was drawn.
    n_iter : ndarray (N,) of int
        Number of iterations of each model.
    converged : ndarray (N,) of bool
        Whether each model has converged.
    estimated_error : ndarray (N,), float64
        Estimate of the largest error of a marginal of each model, if messages were passed (the
        error itself if the graph is narrow); 0 if the graph has no loops, and NaN if the messages
        have not converged. None: not estimated, see `estimate_error` of `infer`.
    stopped_by : ndarray (N,) of str
        What ended the search for each state in `assignment`:

        - "proved": the state is proven to be the best, up to rounding.
        - "precision": the search is complete, but rounding errors, the tolerances of HiGHS, or the
          option `tol` of "dual_decomposition" may hide a state that is better by up to `gap`. A
          search by bounds says so if its rounding errors may exceed a thousandth of the smallest
          term of the score.
        - "converged": the iteration no longer changes the state or the bound, which proves nothing.
        - "max_iter": the iterations or sweeps that the options allow are done.
        - "max_nodes": the search has reached its limit of nodes (`max_nodes` or `node_limit`).
        - "time_limit": the search has reached its limit of time.
    trace : ndarray (N, max_iter)
        Largest change of a belief in each iteration, NaN after the last iteration.
    state : object
        Internal state of an iterative method, such as its messages or chains. If the result is
        passed as `init`, a later call continues from this state.
    method : str
        Name of the method that answered, such as the method that "auto" has chosen.
    status : str
        Quality of the answers for the batch:

        - "exact": the answers are right up to rounding; samples are independent.
        - "bounded": the right value lies between the score of the state and `map_bound`, or the
          log Z of "mean_field" or "tree_reweighted" is a bound of it.
        - "approximate": the method has done its work, and its answers may be wrong.
        - "not converged": some models have not converged, see `converged`.
    """

    # The types of fields contain "| Any" instead of "| None", because callers know which answers
    # they requested, and should not have to test the fields for None.
    marginals: np.ndarray | Any = None
    log_odds: np.ndarray | Any = None
    assignment: np.ndarray | Any = None
    map_bound: np.ndarray | Any = None
    gap: np.ndarray | Any = None
    best_states: np.ndarray | Any = None
    best_scores: np.ndarray | Any = None
    statistics: tuple[np.ndarray, ...] | Any = None
    product_pairs: np.ndarray | Any = None
    log_partition: np.ndarray | Any = None
    standard_error: np.ndarray | Any = None
    effective_sample_size: np.ndarray | Any = None
    samples: np.ndarray | Any = None
    sample_log_prob: np.ndarray | Any = None
    n_iter: np.ndarray | Any = None
    converged: np.ndarray | Any = None
    estimated_error: np.ndarray | Any = None
    stopped_by: np.ndarray | Any = None
    trace: np.ndarray | Any = None
    state: Any = None
    method: str | Any = None
    status: str | Any = None

    def __repr__(self):
        parts = []
        if self.status is not None:
            by = "" if self.method == self.status else f" ({self.method})"
            parts.append(self.status + by)
        parts += [
            f"{name} {value.shape}"
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray)
            and name not in ("n_iter", "converged", "stopped_by", "product_pairs")
        ]
        if self.statistics is not None:
            parts.append(f"statistics {', '.join(str(part.shape) for part in self.statistics)}")
        if self.converged is not None and self.n_iter is not None and len(self.converged):
            parts.append(f"converged {self.converged.mean():.0%} in {self.n_iter.max()} iterations")
        return f"<InferenceResult: {', '.join(parts) or 'empty'}>"

    def to_frame(self, labels: Any = None) -> Any:
        """Return the marginals and the best state as a table with a row for each variable.

        Parameters
        ----------
        labels : sequence of n_variables str, default=None
            Names of the variables, such as ``energy.labels``; None uses their indices.

        Returns
        -------
        frame : pandas.DataFrame
            Columns "marginal", or "P(0)", "P(1)", ... if there are more than two states, and
            "assignment". The index holds the names of the variables. If there are several models,
            a first level of the index holds the index of the model.

        Raises
        ------
        ValueError
            If the result has neither marginals nor an assignment, or `labels` has a wrong length.
        """
        import pandas as pd

        columns = {}
        if self.marginals is not None and self.marginals.ndim == 2:
            columns["marginal"] = self.marginals
        elif self.marginals is not None:
            for k in range(self.marginals.shape[2]):
                columns[f"P({k})"] = self.marginals[..., k]
        if self.assignment is not None:
            columns["assignment"] = self.assignment
        if not columns:
            raise ValueError("to_frame needs a result with marginals or an assignment")
        n_models, n_variables = next(iter(columns.values())).shape
        names = range(n_variables) if labels is None else list(labels)
        if len(names) != n_variables:
            raise ValueError(f"labels must have {n_variables} entries, got {len(names)}")
        index = pd.Index(names, name="variable")
        if n_models > 1:
            index = pd.MultiIndex.from_product(
                [range(n_models), names], names=["model", "variable"]
            )
        return pd.DataFrame({name: v.reshape(-1) for name, v in columns.items()}, index=index)

    @property
    def pairwise(self) -> np.ndarray | None:
        """The first array of `statistics`, which is the only array for most energies.

        - `RBMEnergy`: P(v_i = 1, h_j = 1), of shape (V, H) or (N, V, H).
        - `IsingEnergy`: P(y_i = +1, y_k = +1), of shape (L, L) or (N, L, L). The diagonal holds
          the marginals. If couplings are sparse, only the probabilities of the edges, of shape
          (E,) or (N, E).
        - `FactorGraphEnergy`: the probability of every table entry, in the order of
          `log_potentials`, of shape (n_entries,) or (N, n_entries).

        Entries that are products of marginals are True in `product_pairs`.
        """
        return None if self.statistics is None else self.statistics[0]


class Chains(NamedTuple):
    """State of a sampler: its chains, and its position in the sequence of random numbers."""

    # Current states (N, n_chains, n_variables), in the dtype that `chain_dtype` returns.
    states: np.ndarray
    # Key (uint64) of the random numbers, see `random_key`.
    key: Any
    # Number of draws so far, which is the position of the next draw in the random streams.
    step: int


# Maps each method object to its options at the last successful check. The options are stored here
# and not in the method objects, because method objects belong to the user.
_VALID_OPTIONS = WeakKeyDictionary()


class InferenceMethod(Versioned, BaseEstimator, ABC):
    """Base class of all inference methods.

    A method object holds options and no state, so that `sklearn.base.clone` and parameter grids
    work. To add a method, write a subclass whose ``__init__`` takes the options as keyword
    arguments with defaults and stores each under its name, describe valid options in
    ``_parameter_constraints``, and define at least `name` and `answers`. Then register a solver for
    each class of energies with `skcrbm.inference.register_solver`. A method that wraps another
    method has no solvers; it overrides `supports` and `solve` instead.

    Attributes
    ----------
    name : str
        Name of the method in `infer`, which is also the name that `register_method` takes.
    answers : frozenset of str
        Answers that the method can give: values that the argument `returns` of `infer` may contain,
        for example ``frozenset({"marginals", "statistics", "log_partition"})``.
    default_returns : tuple of str, default=("marginals",)
        Default of the argument `returns` of `infer`. A method that gives no marginals needs another
        default, such as ``("map",)``.
    estimated_from_samples : frozenset of str, default=frozenset()
        Answers, other than the samples themselves, that the method estimates from `n_samples`
        samples. The argument `n_samples` of `infer` is then valid for these answers.
    accepts : frozenset of str, default=frozenset()
        Optional arguments of `infer` that the method takes: "init", "return_trace" and
        "return_state". Add "state" if the method can also continue from a result that has a state
        but no beliefs.
    restriction : str, default=""
        Reason for error messages, if the method refuses some energies of a class for which it has a
        solver. Only methods that override `supports` need a reason.
    categorical_alternative : str, default=""
        Method that error messages suggest if variables have more than two states, which this method
        does not support.
    hints : dict of str to str, default={}
        Advice for error messages about answers that the method gives only with a certain option.
        The keys are these answers.
    refuses_contradictions : bool, default=False
        True if the solvers raise an error for models of a factor graph that have no state of
        positive weight. Otherwise `infer` finds such models and writes their answers.
    pairs_without_coupling : {"exact", "paths", "products"}, default="exact"
        Statistics of pairs of variables without a coupling: "exact" if they are as precise as those
        of other pairs, "paths" if the solvers return products of marginals where a forest has exact
        answers, or "products" if all statistics are products.
    """

    _warns_of_version = False

    #: Name of the method in the registry.
    name: ClassVar[str] = ""
    #: Answers that the method can give: values that the argument `returns` of `infer` may contain.
    answers: ClassVar[frozenset] = frozenset()
    #: Default of the argument `returns` of `infer`.
    default_returns: ClassVar[tuple] = ("marginals",)
    #: Answers (other than "samples") that the method estimates from `n_samples` samples.
    estimated_from_samples: ClassVar[frozenset] = frozenset()
    #: Optional arguments of `infer` that the method takes: "init", "return_trace", "return_state".
    #: "state" is added if the method can also continue from a result with a state but no beliefs.
    accepts: ClassVar[frozenset] = frozenset()
    #: Reason for error messages, if the method refuses some energies of a class that it supports.
    restriction: ClassVar[str] = ""
    categorical_alternative: ClassVar[str] = ""
    #: Advice in error messages about answers that the method gives only with an option.
    hints: ClassVar[dict[str, str]] = {}
    #: True if the solvers raise a ContradictionError for models without states of positive weight.
    refuses_contradictions: ClassVar[bool] = False
    #: Statistics of pairs of variables without a coupling: "exact" if they have the precision of
    #: other pairs, "paths" if the solvers return products of marginals where a forest has exact
    #: answers, or "products" if all statistics are products.
    pairs_without_coupling: ClassVar[str] = "exact"
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    @property
    def is_random(self) -> bool:
        """Whether answers other than samples depend on the option `random_state`."""
        return False

    @property
    def prefers_warm_start(self) -> bool:
        """Whether samples improve if the state of an earlier call is passed as `init`."""
        return self.accepts >= {"init", "state", "return_state"}

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the set of answers that this method can give for an energy, which may be empty."""
        if self.categorical_alternative and is_categorical(energy):
            return frozenset()
        return answers_of(self.name, type(energy), self.answers) & energy.queries

    def solve(self, energy: BaseEnergy, query: Query) -> dict[str, Any]:
        """Compute the answers to a query whose arguments `infer` has checked.

        Parameters
        ----------
        energy : BaseEnergy
            Energy that the method supports, possibly with evidence.
        query : Query
            Answers to compute, and the other arguments of `infer`.

        Returns
        -------
        dict
            Requested fields of `InferenceResult`, by name. `infer` computes the marginals from
            log_odds afterwards, and writes the values of clamped variables into log_odds,
            assignment and samples.
        """
        return solver_for(self.name, type(energy))(self, energy, query)

    def at_epoch(self, epoch: int) -> InferenceMethod:
        """Return the method that training uses in an epoch; the first epoch is 0."""
        return self

    def with_options(self, **options) -> InferenceMethod:
        """Return a copy of the method in which the given options are changed.

        Return the method itself if no options are given.

        Raises
        ------
        ValueError
            If the method does not have one of the options (the message lists its options), or if a
            value is invalid.
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
        return _with_python_numbers(method)

    def with_defaults(self, **defaults) -> InferenceMethod:
        """Return a copy in which each option that is None is set to the given default."""
        options = vars(self)
        unset = {k: v for k, v in defaults.items() if k in options and options[k] is None}
        return type(self)(**{**options, **unset}) if unset else self

    def seeded(self, rng: np.random.RandomState) -> InferenceMethod:
        """Return a copy for a fitted model, so that the user can change the original.

        A random method gets a fixed seed, drawn from `rng` if `random_state` is None.
        """
        copied: Any = clone(self)
        if copied.is_random and copied.random_state is None:
            copied.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
        return copied

    def check_options(self) -> None:
        """Raise the usual error of scikit-learn if an option is invalid."""
        options, valid = dict(vars(self)), _VALID_OPTIONS.get(self)
        # Training calls this method thousands of times, so unchanged options are not checked again.
        # They are compared by identity, because options may be arrays.
        if valid is None or any(valid.get(k, _VALID_OPTIONS) is not options[k] for k in options):
            self._validate_params()
            for name, value in options.items():
                _check_number(name, value, self._parameter_constraints.get(name, ()))
            _VALID_OPTIONS[self] = options

    @property
    def display_name(self) -> str:
        """Name of the method in error messages: its registered name, or else its class name."""
        return self.name or type(self).__name__


class IterativeMethod(InferenceMethod):
    """Base class of methods that iterate until each model converges.

    The methods have the options `max_iter` and `tol`.
    """

    max_iter: int | None
    tol: float | None

    def at_epoch(self, epoch: int) -> InferenceMethod:
        """Return the method with training defaults for the options that are None.

        The defaults are max_iter = 7 + min(epoch, 50), as in Ping and Ihler (2017), and tol = 1e-3.
        """
        return self.with_defaults(max_iter=7 + min(epoch, 50), tol=ESTIMATOR_TOL)

    @property
    def iterations(self) -> int:
        """Largest number of iterations."""
        return MAX_ITER if self.max_iter is None else int(self.max_iter)

    @property
    def tolerance(self) -> float:
        """Convergence tolerance: largest change of a probability in the last iteration."""
        return INFER_TOL if self.tol is None else float(self.tol)


def _check_number(name, value, constraints):
    """Raise a ValueError for bools and integers above 2**63, which kernels cannot take."""
    if not any(isinstance(constraint, Interval) for constraint in constraints):
        return
    if isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if isinstance(value, Integral) and value > np.iinfo(np.int64).max:  # type: ignore
        raise ValueError(f"{name} must be below 2**63, got {value!r}")


# ------------------------------------------------------------------- checks of arguments


def method_class(
    name: str, argument: str | None = None, valid_names: Callable[[], Sequence[str]] | None = None
) -> type[InferenceMethod]:
    """Import the class of a registered method, and check it if another package registered it.

    A ValueError is raised if the name is unknown. If the registered class cannot be imported or is
    not a valid method, the error (ImportError, TypeError or ValueError) names its location.
    """
    found = METHODS.get(name, argument, valid_names)
    if not is_built_in(METHODS.locations[name]):
        check_method_class(found, InferenceMethod, name)
    return found


def resolve_method(
    method: str | InferenceMethod,
    name: str = "inference",
    valid_names: Callable[[], Sequence[str]] = METHODS.names,
) -> InferenceMethod:
    """Turn a method name or a configured object into an `InferenceMethod`, and check its options.

    `name` is the name of the argument in error messages, which also list ``valid_names()``.
    """
    if isinstance(method, str):
        return with_default_options(method_class(method, name, valid_names))
    if isinstance(method, InferenceMethod):
        resolved = method
    else:
        names = valid_names()
        raise TypeError(
            f"{name} must be one of {', '.join(map(repr, names))} or a configured object "
            f"such as {example_of(names)}; got {method!r}"
        )
    resolved.check_options()
    return _with_python_numbers(resolved)


def _with_python_numbers(method):
    """Return a method whose options are numbers of Python where they are numbers of NumPy.

    Sums and products of small types of NumPy, such as int8, overflow.
    """
    options = vars(method)
    numbers = {k: v.item() for k, v in options.items() if isinstance(v, np.number)}
    return type(method)(**{**options, **numbers}) if numbers else method


def example_of(names: Sequence[str]) -> str:
    """Return an example for error messages, such as "ICM(n_restarts=10)", with a valid name."""
    if "sum_product" in names:
        return "SumProduct(max_iter=30)"
    if "icm" in names:
        return "ICM(n_restarts=10)"
    names = [name for name in names if name in METHODS]
    return METHODS.locations[names[0]].rpartition(":")[2] + "()" if names else "SumProduct()"


def check_energy(energy: Any) -> None:
    """Raise a TypeError unless `energy` is an energy."""
    if not isinstance(energy, BaseEnergy):
        raise TypeError(f"energy must be an energy such as RBMEnergy, got {energy!r}")


def check_returns(
    returns: str | Iterable[str], possible: frozenset = QUERIES, *, allow_empty: bool = False
) -> frozenset:
    """Check the argument `returns`, and return the set of answers to compute.

    "pairwise" is renamed to "statistics". "map_bound" adds "map" or "marginal_map", and
    "sample_log_prob" adds "samples". The error message for an unknown answer lists `possible`.
    """
    known = {*QUERIES, "pairwise"}
    asked = (returns,) if isinstance(returns, str) else returns
    asked = tuple(asked) if isinstance(asked, Iterable) else (None,)
    if not (asked or allow_empty) or not all(isinstance(r, str) and r in known for r in asked):
        names = {*possible, "pairwise"} if "statistics" in possible else possible
        raise ValueError(f"returns must contain one or more of {sorted(names)}; got {returns!r}")
    if {"map", "marginal_map"} <= set(asked):
        raise ValueError("returns may contain 'map' or 'marginal_map', but not both")
    if "map_bound" in asked and not {"map", "marginal_map"} & set(asked):
        by_sums = "marginal_map" in possible and "map" not in possible
        asked = (*asked, "marginal_map" if by_sums else "map")
    if "sample_log_prob" in asked:
        asked = (*asked, "samples")
    return frozenset("statistics" if r == "pairwise" else r for r in asked)


# ----------------------------------------------------------------- helpers for solvers


def empty_result(energy: BaseEnergy, query: Query) -> dict[str, Any]:
    """Allocate the fields of an `InferenceResult` that a query requests.

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
    """Run ``kernel(rows, out)`` over chunks of rows, and write the statistics to `statistics`.

    The kernel adds the statistics of the rows to the tuple of arrays `out`. Each chunk has separate
    arrays, which are added up in the order of the chunks and in float64, so that the result does
    not depend on the number of threads. If statistics are returned per model, each row is a chunk.
    If statistics are not requested, `statistics` is None, and the kernel gets `n_arrays` empty
    arrays.
    """
    if statistics is None:
        empty = (np.empty((0, 0), query.sample_weight.dtype),) * n_arrays
        for _ in ordered_map(lambda rows: kernel(rows, empty), chunks, query.n_jobs):
            pass
        return
    if query.per_example:
        # Take the number of models from an array of statistics or, if the energy has no statistics
        # because it has no couplings, from the weights of the models.
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
    """Decorate a solver that ignores clamped variables, so that it supports evidence.

    The solver gets an energy whose fields include the effect of the clamped variables
    (`PairwiseEnergy.fold_evidence`), and must skip the clamped variables, for which `energy.free`
    is False. The decorator adds the terms of the clamped variables to log Z and to the statistics.
    If statistics are requested, the answer of the solver must contain `log_odds`.
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
    """Add the probabilities of pairs with a clamped variable to `answer`, by products of means."""
    held = ~energy.free
    free = np.where(held, 0, expit(answer["log_odds"])).astype(energy.dtype)
    values = np.nan_to_num(energy.evidence).astype(energy.dtype)
    weight = None if query.per_example else query.sample_weight.astype(energy.dtype)
    energy.add_held_pairs(answer["statistics"], values, free, weight)
