"""Run inference: `infer` for users, and `run_inference` for the programs of this package."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from skcrbm.energies import BaseEnergy, FactorGraphEnergy, IsingEnergy
from skcrbm.exceptions import InaccurateInferenceWarning
from skcrbm.inference._solver_fields import check_fields
from skcrbm.inference.automatic import method_of_call
from skcrbm.inference.base import (
    ContradictionError,
    InferenceMethod,
    InferenceResult,
    MagnitudeError,
    Query,
    check_energy,
    check_returns,
)
from skcrbm.inference.choice import available_methods, check_answers, quoted
from skcrbm.inference.contradictions import Guard, counted, log_partition_range
from skcrbm.inference.registry import METHODS, solver_location
from skcrbm.inference.status import NOT_CONVERGED, finish_search, status_of, warn_of_convergence
from skcrbm.inference.uncoupled_pairs import complete_pairs
from skcrbm.utils.limits import ESTIMATE_SAMPLES, LARGE_FIELD, MAX_MAGNITUDE, UNDECIDED_FIELD
from skcrbm.utils.options import is_built_in
from skcrbm.utils.validation import as_float_array, check_count
from skcrbm.utils.warnings import warn_user

# Initial log-odds are clipped to ±_MAX_START. The corresponding probabilities round to 0 and 1 in
# any dtype. Infinite log-odds must be avoided, because inf - inf is NaN.
_MAX_START = 100.0
# A large field decides the value of its variable if the field is at least _DOMINANCE times as large
# as the sum of all couplings of the variable.
_DOMINANCE = 2.0
# A log Z counts as wrong if it is outside of its bounds by more than this number times (1 + the
# largest absolute value of the bounds). A smaller difference may be a rounding error.
_RANGE_SLACK = 1e-4
# Methods and energies for which errors of marginals are estimated. "auto" estimates them for a
# model with at most _MOST_VARIABLES variables, so that the estimate takes seconds at most. On 28
# public files on which messages converge, and 221 random models, 87 of 90 models with an error
# above 0.1 have an estimate of at least _LARGE_ERROR.
_WITH_ERRORS, _WITH_GRAPHS = ("sum_product", "tree_reweighted"), (FactorGraphEnergy, IsingEnergy)
_MOST_VARIABLES, _LARGE_ERROR = 2000, 0.035


def infer(
    energy: BaseEnergy,
    method: str | InferenceMethod = "auto",
    *,
    clamp: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    returns: str | tuple[str, ...] | None = None,
    pairwise: str = "sum",
    init: InferenceResult | None = None,
    n_samples: int | None = None,
    n_best: int | None = None,
    return_trace: bool = False,
    return_state: bool = False,
    n_jobs: int | None = None,
    estimate_error: bool | str = "auto",
    **options: Any,
) -> InferenceResult:
    """Run an inference method on a batch of models and return the requested answers.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy, FactorGraphEnergy or another energy
        Batch of N models that share their couplings.
    method : str or InferenceMethod, default="auto"
        "auto", "exact", "sum_product", "tree_reweighted", "mean_field", "gibbs",
        "gibbs_with_gradients", "perturb_and_max_product", "max_product", "mixed_product", "icm",
        "simulated_annealing", "map_search", "branch_and_bound", "milp", "mplp",
        "linear_program", "dual_decomposition", "bp_chain", "perturb_and_map", "ais", or a
        configured object such as ``SumProduct(damping=0.5)``. A name stands for the object with
        its default options. "auto" chooses "exact" if it takes at most about 20 s and 2 GB of
        tables, and otherwise a method that is good at the requested answers, see Notes.
    clamp : array-like (N, n_variables) or (n_variables,), default=None
        Evidence: 0 or 1 clamps a variable to this value, NaN leaves it free. The answers are
        conditional on the clamped values, as for ``energy.condition(clamp)``. In an Ising model 0
        stands for y = -1. A Series, a mapping or a data frame is read by the labels of the energy.
    sample_weight : array-like (N,), default=None
        Weights of the models in sums of statistics over the models. None: all weights are 1.
    returns : str or tuple of str, default=None
        Answers to compute. None: the default of the method, which is the marginals for most
        methods.

        - "marginals": the probability that each variable is 1.
        - "statistics" (or "pairwise"): the expected sufficient statistics.
        - "log_partition": log Z.
        - "map": the most probable joint state.
        - "marginal_map": the most probable visible state, with hidden units summed out; in a
          `FactorGraphEnergy`, the best values of the variables `map_variables` of `Exact`, with all
          other variables summed out. A call can request either "map" or "marginal_map", but not
          both.
        - "map_bound": an upper bound of the score of the best state, and the gap between the bound
          and the score of the state found. With "marginal_map", the bound and the gap refer to
          log-weights instead of scores.
        - "best_states": the `n_best` states with the highest scores, and their scores. "exact"
          answers it for every energy; if several states have the same score, all of them count.
        - "samples", and "sample_log_prob", the log-probability with which each sample was drawn.
    pairwise : {"sum", "per_example"}, default="sum"
        Whether statistics are summed over the models or returned for each model. Sums have shape
        (V, H) for RBMs, (L, L) for Ising models, (n_entries,) for factor graphs and (E,) for
        sparse Ising models; "per_example" adds a leading axis of length N.
    init : InferenceResult, default=None
        Result of an earlier call, from which the method continues. The method starts from the
        `state` of the result (such as messages) or, if the result has no state, from its beliefs.
    n_samples : int, default=None
        Number of samples of each model. It is used for "samples" and by the methods that estimate
        log Z from samples ("bp_chain", "perturb_and_max_product", "perturb_and_map"). None: 1000 if
        log Z is estimated, else 1.
    n_best : int, default=None
        Number of states of each model for "best_states". None: 1.
    return_trace : bool, default=False
        Whether to return the largest change of a belief in each iteration.
    return_state : bool, default=False
        Whether to return the state of the method, such as its messages, for use as `init` of a
        later call. A state takes as much memory for each model as the couplings. Samplers always
        return their chains.
    n_jobs : int, default=None
        Number of threads, which share the models. The result does not depend on it.
    estimate_error : bool or "auto", default="auto"
        Whether to estimate the error of the marginals of "sum_product" and "tree_reweighted"; the
        error of "exact" is 0. If the graph is narrow, the estimate is the error, from exact
        marginals. Otherwise it takes about 10 to 40 times as long as the messages: it compares the
        marginals with the messages of models whose variables are clamped, and with messages from
        other starts. "auto" estimates the error of a single factor graph or Ising model with at
        most 2000 variables.
    **options
        Options of the method, such as ``max_iter=50``: ``infer(energy, "sum_product",
        max_iter=50)`` is short for ``infer(energy, SumProduct(max_iter=50))``. If `method` is a
        configured object, these options replace the options of the object.

    Returns
    -------
    InferenceResult
        Result with the requested answers, ``n_iter``, ``converged``, ``method`` and ``status``, and
        ``stopped_by`` if a best state was requested; all other fields are None.

    Raises
    ------
    ValueError
        If an argument is invalid, or if the method cannot give a requested answer or does not have
        an option; the message lists the possible values. The error is also raised if a field or
        coupling of the energy exceeds 1e30 in magnitude or is not finite (log-potentials of -inf
        are valid).

    Warns
    -----
    UserWarning
        If the factors of a factor graph contradict each other or `clamp`, so that no state has a
        positive weight. Log Z and bounds of such a model are -inf, it has not converged, and its
        other answers have no meaning; "exact" and "map_search" raise a ValueError instead. Factors
        are visited until no more states are excluded; if weights of 0 form loops and no answer has
        a positive weight, a short search for a state follows. A warning says if it ends without a
        result. A warning is also given if the states that a search or a sampler returns have weight
        0, or if "sum_product" or "tree_reweighted" returns a log Z that the factor graph cannot
        have, which hard constraints on loops may cause.
    ConvergenceWarning
        If some models have not converged, and no other warning says so. A search that ends at its
        limit of time or nodes gives no warning.
    InaccurateInferenceWarning
        If the messages have converged, but the estimated error of a marginal is at least 0.035.

    Notes
    -----
    "auto" chooses the first method that can answer:

    - marginals, statistics, log_partition: "exact", "sum_product", "gibbs". Models whose messages
      do not converge are solved again with damping. If they do not converge then either, "gibbs"
      answers, unless the model has weights of 0 or log_partition is requested.
    - log_partition alone: "exact", "ais", "bp_chain", "sum_product". The second and third are left
      out if they would take more than about 20 s.
    - map, map_bound: "exact", "map_search", "max_product" with 10 restarts, "linear_program",
      "simulated_annealing".
    - marginal_map, map_bound: "exact", "mixed_product" with 10 restarts, "dual_decomposition".
    - best_states: "exact".
    - samples: "exact", "gibbs", "bp_chain".

    The estimates of time and memory depend on the sizes of the models and the clamped variables
    alone, so that the choice is the same on each machine. An option or argument in the call, such
    as ``max_iter=50`` or ``return_trace=True``, excludes the methods that do not have it, and
    messages that do not converge are then not sent again. `random_state` is passed on to the method
    if it draws random numbers. ``result.method`` names the method.

    Fields, couplings and log-potentials may be as large as 1e30 in magnitude. To estimate the
    rounding error of log-odds and log Z, add up the magnitudes of the couplings of each variable,
    and multiply the largest of these sums by the precision of the dtype. "exact", the searches and
    the bounds compute in float64 for every dtype of the energy.

    If a field of at least 1e9 is at least twice as large as the largest effect of the couplings of
    its variable, this field decides the value of the variable. The log-odds of the variable are
    then computed from its field alone, and the variable is clamped while the other variables are
    inferred, so that no precision is lost. If a field above 1e10 does not decide the value of its
    variable, and rounding would hide smaller terms, an error is raised. This can happen in a factor
    graph with weights of 0, and in a layered model if two states of a node have equally large
    fields. If large fields cancel in a score, such as 1e16 and -1e16 when a clamped value
    contradicts a field, log Z and bounds are accurate only up to the rounding errors of these
    fields.

    A model has converged when an iteration changes no belief by more than `tol`. If convergence is
    slow, the beliefs may be further than `tol` from their limit. The error of log Z and of bounds
    may then be as large as this distance times the couplings.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> energy = RBMEnergy([[1.0], [2.0]], [0.0, -1.0], [0.5])
    >>> exact = infer(energy, "exact", returns=("marginals", "log_partition"))
    >>> loopy = infer(energy, "sum_product", returns=("marginals", "log_partition"))
    >>> bool(np.allclose(exact.marginals, loopy.marginals))  # a tree
    True
    """
    return run_inference(
        energy,
        method,
        _tells=True,
        clamp=clamp,
        sample_weight=sample_weight,
        returns=returns,
        pairwise=pairwise,
        init=init,
        n_samples=n_samples,
        n_best=n_best,
        return_trace=return_trace,
        return_state=return_state,
        n_jobs=n_jobs,
        estimate_error=estimate_error,
        **options,
    )


def run_inference(
    energy: Any,
    method: Any,
    *,
    _tells: bool = False,
    clamp: Any = None,
    sample_weight: Any = None,
    returns: Any = None,
    pairwise: Any = "sum",
    init: Any = None,
    n_samples: Any = None,
    n_best: Any = None,
    return_trace: Any = False,
    return_state: Any = False,
    n_jobs: Any = None,
    estimate_error: Any = False,
    **options: Any,
) -> InferenceResult:
    """Do the same as `infer`, without an estimate of errors or a warning about convergence.

    An estimate takes several times as long as the answer. Training and predictions ask for the
    answers of many models, and report by other means how good the model is. If `_tells` is True, a
    warning names models that have not converged.
    """
    check_energy(energy)
    largest = _largest_field(energy)
    if clamp is not None:
        energy = energy.condition(clamp)
    arguments = {"init": init, "n_samples": n_samples}
    arguments |= {"return_trace": return_trace, "return_state": return_state}
    method = method_of_call(energy, method, returns, arguments, options)
    answers = method.supports(energy)
    asked = check_returns(
        method.default_returns if returns is None else returns, answers or energy.queries
    )
    if not isinstance(pairwise, str) or pairwise not in ("sum", "per_example"):
        raise ValueError(f"pairwise must be 'sum' or 'per_example', got {pairwise!r}")
    if not asked <= answers:
        check_answers(method, energy, asked)
    estimated = asked & method.estimated_from_samples
    if n_samples is None:
        n_samples = ESTIMATE_SAMPLES if estimated else 1
    elif not estimated and "samples" not in asked:
        raise ValueError(
            "n_samples is only valid if returns contains 'samples' or an answer that the method "
            f"estimates from samples; got n_samples={n_samples!r}"
        )
    if n_best is not None and "best_states" not in asked:
        raise ValueError(
            f"n_best is only valid if returns contains 'best_states'; got n_best={n_best!r}"
        )
    for name, value in (("return_trace", return_trace), ("return_state", return_state)):
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {value!r}")
        if value:
            _check_accepted(method, name, energy, asked)
    _check_estimate_error(estimate_error, method, energy, asked)
    query = Query(
        returns=asked,
        per_example=pairwise == "per_example",
        sample_weight=_check_weight(sample_weight, energy.n_models),
        n_samples=check_count("n_samples", n_samples),
        n_best=1 if n_best is None else check_count("n_best", n_best),
        start=_check_init(init, energy, method, asked),
        return_trace=return_trace,
        return_state=return_state,
        n_jobs=_check_jobs(n_jobs),
    )
    try:
        fields = answered(method, energy, query, largest, tells=_tells)
    except ContradictionError as error:
        raise ContradictionError(error.model, energy.evidence is not None) from None
    if estimate_error is not False and largest < LARGE_FIELD:
        _add_errors(method, energy, query, fields, estimate_error)
    fields.setdefault("method", method.display_name)
    return InferenceResult(**fields, status=status_of(fields, asked))


def answered(
    method: InferenceMethod,
    energy: BaseEnergy,
    query: Query,
    largest: float,
    warn: bool = True,
    tells: bool = False,
) -> dict[str, Any]:
    """Return the fields of the result of a checked query.

    `largest` is the largest magnitude of a field. If `warn` is False, models without states of
    positive weight are neither found nor reported. If `tells` is True, a warning names models that
    have not converged, unless another warning about the answers is given.
    """
    limit = largest
    if "best_states" in query.returns:
        # The best states may differ in variables that large fields decide, which are clamped for
        # all other answers.
        limit, rest = 0.0, query.returns - {"best_states"}
        if rest and largest >= LARGE_FIELD:
            fields = answered(method, energy, replace(query, returns=rest), largest, warn, tells)
            alone = replace(query, returns=frozenset({"best_states"}))
            found = answered(method, energy, alone, largest, warn=False)
            return {**fields, **{name: found[name] for name in ("best_states", "best_scores")}}
    clamped = energy.evidence is not None
    energy, decided, log_odds = _clamp_large_fields(energy, limit)
    guard = Guard(energy, clamped) if warn and not method.refuses_contradictions else None
    fields = _solved(method, energy if guard is None else guard.energy, query)
    complete_pairs(method, energy, query, fields)
    fields = _complete(fields, energy, query)
    if "assignment" in fields:
        finish_search(fields, method, energy, query)
    if decided is not None and log_odds is not None and fields.get("log_odds") is not None:
        fields["log_odds"][decided] = log_odds[decided]
    told = False
    if guard is not None:
        told = guard.finish(fields, query.returns)
        told |= _warn_of_impossible_log_partition(method, energy, query, fields)
    if tells and not told and status_of(fields, query.returns, method.name) == NOT_CONVERGED:
        warn_of_convergence(method, fields)
    return fields


def best_states(energy: BaseEnergy, method: InferenceMethod) -> np.ndarray:
    """Return the states (N, n_variables) that a method finds for "map", without any warning.

    For methods that solve many copies of the models of a user.
    """
    query = Query(
        returns=frozenset({"map"}),
        per_example=False,
        sample_weight=np.ones(energy.n_models),
        n_samples=1,
        n_best=1,
        start=None,
        return_trace=False,
        return_state=False,
        n_jobs=1,
    )
    return answered(method, energy, query, _largest_field(energy), warn=False)["assignment"]


def _largest_field(energy):
    """Return the largest absolute value of a field.

    Raise a MagnitudeError if a field or coupling is too large or NaN.
    """
    limit = energy.dtype.type(MAX_MAGNITUDE)
    largest = 0.0
    for kind, arrays in (("field", energy.fields), ("coupling", energy.couplings)):
        for array in arrays:
            high, low = array.max(initial=0), array.min(initial=0)
            if low == -np.inf and kind == "coupling":  # -inf is valid (weight 0)
                low = array.min(initial=0, where=array > -np.inf)
            if not (high <= limit and low >= -limit):
                worst = low if high <= limit else high
                raise MagnitudeError(
                    f"energy has a {kind} of {worst:.3g}; infer accepts numbers up to "
                    f"{MAX_MAGNITUDE:.0e} in magnitude. To force a variable to "
                    "a state, clamp it instead"
                )
            if kind == "field":
                largest = max(largest, float(high), -float(low))
    return largest


def _check_weight(sample_weight, n):
    if sample_weight is None:
        return np.ones(n)
    weight = as_float_array(sample_weight, "sample_weight", "(N,)").astype(np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weight.shape}")
    return weight


def _check_accepted(method, argument, energy, returns):
    """Raise a ValueError if a method does not support the argument `argument` of `infer`.

    The message lists the methods that support the argument.
    """
    if argument not in method.accepts:
        names = available_methods(energy, returns)
        names = [name for name in names if argument in METHODS.get(name).accepts]
        raise ValueError(
            f"{method.display_name!r} has no option {argument!r}; methods that have this option: "
            f"{quoted(names)}"
        )


def _check_init(init, energy, method, returns):
    """Validate `init`, and return a result whose log-odds are clipped to finite values."""
    if init is None:
        return None
    _check_accepted(method, "init", energy, returns)
    shape = energy.belief_shape
    log_odds = init.log_odds if isinstance(init, InferenceResult) else None
    if log_odds is None and isinstance(init, InferenceResult) and init.state is not None:
        if "state" in method.accepts:
            return init
        # the states `Messages` and `Beliefs` contain log-odds
        log_odds = getattr(init.state, "log_odds", None)
    if log_odds is None or log_odds.shape != shape:
        raise ValueError(
            f"init must be an earlier InferenceResult with log_odds of shape {shape} or with a "
            f"state that {method.display_name!r} can continue from; "
            f"got {_described(init, log_odds)}"
        )
    log_odds = np.clip(log_odds, -_MAX_START, _MAX_START).astype(energy.dtype)
    return replace(init, log_odds=log_odds)


def _described(init, log_odds):
    """Describe an invalid `init`, for the error message."""
    if log_odds is not None:
        return f"shape {log_odds.shape}"
    return "a result without log_odds" if isinstance(init, InferenceResult) else repr(init)


def _check_jobs(n_jobs):
    """Raise a ValueError unless `n_jobs` is None or an int other than 0, as in joblib."""
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or an int other than 0, got {n_jobs!r}")
    return int(n_jobs)


def _clamp_large_fields(energy, largest):
    """Clamp each variable whose value is decided by its large field alone.

    In a sum with a field of 1e16, rounding hides the terms that distinguish the states of other
    variables. If no coupling can outweigh the field, the value of the variable is certain, and the
    variable can be left out of all sums.

    `largest` is the largest magnitude of a field. Return the energy with these variables clamped, a
    mask (N, n_variables) of the variables clamped here, and log-odds (N, n_variables) that follow
    from the fields alone. The mask and the log-odds are None if no variable was clamped. A
    MagnitudeError is raised if a large field does not decide the value of its variable and rounding
    would hide other terms.
    """
    if largest < LARGE_FIELD:
        return energy, None, None
    log_odds, influence = energy.own_log_odds()
    decided = energy.free & (np.abs(log_odds) >= np.maximum(LARGE_FIELD, _DOMINANCE * influence))
    lossy = energy.free & ~decided & energy.dominant_fields()
    if lossy.any():
        n, i = np.argwhere(lossy)[0]
        raise MagnitudeError(
            f"energy has a field above {UNDECIDED_FIELD:.0e} in magnitude, of variable {i} of "
            f"model {n}. Weights of 0, or other states of the node, may still change the value of "
            "this variable, and rounding would hide all smaller terms. Clamp the variable instead"
        )
    if not decided.any():
        return energy, None, None
    return energy.condition(np.where(decided, log_odds > 0, np.nan)), decided, log_odds


def _solved(method, energy, query):
    """Call the solver of a method, and check the result if the solver is from another package."""
    fields = method.solve(energy, query)
    by_table = type(method).solve is InferenceMethod.solve
    source = solver_location(method.name, type(energy)) if by_table else type(method).__module__
    if not is_built_in(source):
        check_fields(fields, method, energy, query)
    return fields


def _complete(fields, energy, query):
    """Complete a solver's result: insert clamped values, and compute marginals from log-odds."""
    if energy.evidence is not None:
        held = ~np.isnan(energy.evidence)
        values = energy.evidence[held]
        if fields.get("log_odds") is not None:
            fields["log_odds"][held] = energy.held_log_odds(values)
        if "assignment" in fields:
            fields["assignment"][held] = values
        if "samples" in fields:
            rows, variables = np.nonzero(held)
            fields["samples"][rows, :, variables] = values[:, None]
        if "best_states" in fields:
            rows, variables = np.nonzero(held)
            found = fields["best_scores"][rows] > -np.inf
            fields["best_states"][rows, :, variables] = np.where(found, values[:, None], -1)
    if "marginals" in query.returns:
        fields["marginals"] = expit(fields["log_odds"])
    elif fields.get("assignment") is None:
        fields["log_odds"] = None
    return fields


def _warn_of_impossible_log_partition(method, energy, query, fields):
    """Warn if message passing on a factor graph returns a log Z that the model cannot have.

    Return True if a warning was given.

    This can happen if hard constraints (weights of 0) form loops: in a parallel schedule the
    messages may grow with each iteration, or converge to beliefs that no distribution has.
    """
    if (
        "log_partition" not in query.returns
        or method.name not in ("sum_product", "tree_reweighted")
        or not isinstance(energy, FactorGraphEnergy)
    ):
        return False
    found = fields["log_partition"]
    if not (found > -np.inf).any():
        return False
    low, high = log_partition_range(energy)
    margin = _RANGE_SLACK * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    # The value -inf is correct for a model in which all states have weight 0.
    wrong = (found > -np.inf) & ((found < low - margin) | (found > high + margin))
    if wrong.any():
        n = int(wrong.argmax())
        warn_user(
            f"log_partition of {counted(wrong)} is wrong: {method.display_name!r} returned "
            f"{found[n]:.6g} for model {n}, but log Z is between {low[n]:.6g} and {high[n]:.6g} if "
            "any state has a positive weight. The marginals may be wrong, too. Try damping=0.5 "
            "with a larger max_iter, or use 'exact' or 'ais'"
        )
    return bool(wrong.any())


def _check_estimate_error(value, method, energy, asked):
    """Raise a ValueError if `estimate_error` of `infer` is invalid or not possible."""
    if not (isinstance(value, (bool, np.bool_)) or (isinstance(value, str) and value == "auto")):
        raise ValueError(f"estimate_error must be True, False or 'auto', got {value!r}")
    if isinstance(value, str) or not value:
        return
    if method.name not in ("exact", *_WITH_ERRORS) or "marginals" not in asked:
        raise ValueError(
            f"estimate_error=True needs the marginals of {quoted(('exact', *_WITH_ERRORS))}, but "
            f"the call asks {method.display_name!r} for {quoted(sorted(asked))}"
        )
    if method.name != "exact" and not isinstance(energy, _WITH_GRAPHS):
        names = " or ".join(kind.__name__ for kind in _WITH_GRAPHS)
        raise ValueError(f"estimate_error=True needs a {names}, got {type(energy).__name__}")


def _add_errors(method, energy, query, fields, estimate_error):
    """Add the estimated errors of marginals to `fields`, and warn if they are large."""
    if isinstance(estimate_error, str):
        by_messages = fields.get("method", method.name) in _WITH_ERRORS
        possible = by_messages and isinstance(energy, _WITH_GRAPHS)
        small = energy.n_models == 1 and energy.n_variables <= _MOST_VARIABLES
        if not (possible and small and "marginals" in query.returns):
            return
    elif method.name == "exact":
        fields["estimated_error"] = np.zeros(energy.n_models)
        return
    found = np.full(energy.n_models, np.nan)
    some = np.flatnonzero(fields["converged"])
    # Import here: few calls need the module.
    from skcrbm.inference.factor_graph.loop_errors import estimate_errors

    if len(some):
        found[some] = estimate_errors(method, energy.rows(some), fields["marginals"][some])
    fields["estimated_error"] = found
    wrong = found >= _LARGE_ERROR
    if wrong.any():
        warn_user(
            f"the messages of {counted(wrong)} have converged, but some marginals are probably "
            f"wrong by about {np.nanmax(found):.2g}, because the graph has loops. Use 'exact' if "
            "the graph is narrow enough, or 'gibbs' with many sweeps",
            InaccurateInferenceWarning,
        )
