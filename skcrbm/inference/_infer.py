"""`infer`: the one door to every inference method."""

from dataclasses import replace
from numbers import Integral

import numpy as np
from scipy.special import expit

from skcrbm.inference.base import InferenceResult, MagnitudeError, Query, check_count
from skcrbm.inference.choice import (
    available_methods,
    check_answers,
    check_energy,
    check_returns,
    name_of,
    quoted,
    resolve_method,
)
from skcrbm.inference.registry import METHODS
from skcrbm.utils.limits import ESTIMATE_SAMPLES, LARGE_FIELD, MAX_MAGNITUDE, UNDECIDED_FIELD
from skcrbm.utils.validation import as_float_array

# Beliefs to start from need not be further on one side: these are 0 or 1 in any dtype, and
# infinities would be no number in a difference.
_MAX_START = 100.0
# Times all that couplings can do: what is left is large enough to be certain.
_OUTWEIGHS = 2.0


def _check_weight(sample_weight, n):
    if sample_weight is None:
        return np.ones(n)
    weight = as_float_array(sample_weight, "sample_weight", "(N,)").astype(np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weight.shape}")
    return weight


def _check_accepted(method, argument, energy, returns):
    """Raise a ValueError if a method lacks an argument of `infer`, naming those that have it."""
    if argument not in method.accepts:
        names = available_methods(energy, returns)
        able = [name for name in names if argument in METHODS.get(name).accepts]
        raise ValueError(
            f"{name_of(method)!r} has no option {argument!r}; methods that do: {quoted(able)}"
        )


def _check_init(init, energy, method, returns):
    if init is None:
        return None
    _check_accepted(method, "init", energy, returns)
    shape = (energy.n_models, energy.n_variables)
    log_odds = init.log_odds if isinstance(init, InferenceResult) else None
    if log_odds is None and isinstance(init, InferenceResult) and init.state is not None:
        if "state" in method.accepts:
            return init
        log_odds = getattr(init.state, "log_odds", None)  # of messages, and of beliefs
    if log_odds is None or log_odds.shape != shape:
        raise ValueError(
            f"init must be an earlier InferenceResult with log_odds of shape {shape}, or a state; "
            f"got {None if log_odds is None else log_odds.shape}"
        )
    log_odds = np.clip(log_odds, -_MAX_START, _MAX_START).astype(energy.dtype)
    return replace(init, log_odds=log_odds)


def infer(
    energy,
    method="sum_product",
    *,
    max_iter=None,
    tol=None,
    damping=None,
    clamp=None,
    sample_weight=None,
    returns=None,
    pairwise="sum",
    init=None,
    n_restarts=None,
    n_samples=None,
    return_trace=False,
    return_state=False,
    n_jobs=None,
    random_state=None,
):
    """Answer a query about a batch of models.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy, FactorGraphEnergy or another energy
        N models that share their couplings.
    method : str or InferenceMethod, default="sum_product"
        "exact", "sum_product", "tree_reweighted", "mean_field", "gibbs",
        "gibbs_with_gradients", "perturb_and_max_product", "max_product", "mixed_product", "icm",
        "branch_and_bound", "milp", "mplp", "linear_program", "dual_decomposition", "bp_chain",
        "ais", or a configured object such as ``SumProduct(damping=0.5)``; a name stands for the
        object with its defaults. Options given here override the object's; one that the method
        lacks is refused.
    max_iter : int, default=None
        Iterations at most. None: the method's own, which for message passing, mean field and
        "icm" is 100.
    tol : float, default=None
        A model has converged when no belief changes by more, as a probability. None: the
        method's own, 1e-6 unless it is configured otherwise.
    damping : float in [0, 1), default=None
        Share of the old log messages that is kept. None: the method's own, 0.
    clamp : array-like (N, V + H) or (V + H,), default=None
        0 or 1 holds a unit, NaN leaves it free: ``energy.condition(clamp)``. All answers are
        then those of the conditioned model. Of an Ising model (N, L) or (L,), with 0 for
        y = -1.
    sample_weight : array-like (N,), default=None
        Weights of the models in the sum of the statistics.
    returns : str or tuple of str, default=None
        What to compute: "marginals"; "statistics", the expected sufficient statistics, for
        which "pairwise" is another name; "log_partition"; one of "map" (the most probable
        joint state) and "marginal_map" (the most probable visible state, hidden units summed
        out); "map_bound" (an upper bound of the best score, or log-weight, and the gap to it);
        "samples" and "sample_log_prob". None: the marginals, or what a method is made for.
    pairwise : {"sum", "per_example"}, default="sum"
        Statistics summed over the models, (V, H) of RBMs, (L, L) of Ising models, (n_entries,)
        of factor graphs and (E,) of sparse Ising models; or of each of them, with a leading
        axis N.
    init : InferenceResult, default=None
        Go on from an earlier result: from its `state`, if it was asked for, else from its
        beliefs.
    n_restarts : int, default=None
        For methods that restart. None: the method's own, 1.
    n_samples : int, default=None
        Samples of each model, where "samples" are asked for, or log Z of a method that estimates
        it from samples ("bp_chain", "perturb_and_max_product"); None: 1, and 1000 for log Z.
    return_trace : bool, default=False
        Keep the largest belief change of each iteration.
    return_state : bool, default=False
        Keep what the method needs to go on, such as its messages: as much memory as the
        couplings take, for each model. Samplers keep their chains in any case.
    n_jobs : int, default=None
        Threads over the models. The result does not depend on it.
    random_state : int, default=None
        For methods that draw.

    Returns
    -------
    InferenceResult
        With what was asked for, ``n_iter`` and ``converged``; all else is None.

    Raises
    ------
    ValueError
        If an argument is invalid, or the method has no such option or answer; the
        message names what is possible. If a field or a coupling of the energy is beyond 1e30
        in magnitude, or not finite (but for log-potentials of -inf).

    Notes
    -----
    Fields, couplings and log-potentials up to 1e30 in magnitude are served. Log-odds and log Z
    then have the rounding error of the dtype relative to the largest sum of couplings that a
    variable sees; "exact", the searches and the bounds compute in float64 whatever the dtype of
    the energy. From 1e9 on, a field twice as large as all that the couplings of its variable can
    do holds it: its log-odds are then the field's, and the others as precise as they are without
    it. A field beyond 1e10 that does not, beside weights of 0 of a factor graph or as equal ones
    of two states of a layered model's node, is refused. Where large fields cancel in a score, as
    1e16 and -1e16 by evidence against one's field, log Z and bounds are right up to their rounding.

    What has converged changes no belief by more than `tol` in an iteration. Where convergence is
    slow it is further from its end than that; log Z, bounds too, by so much times the couplings.

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
    check_energy(energy)
    largest = _check_magnitudes(energy)
    method = resolve_method(
        method, "method", lambda: available_methods(energy, returns or ())
    ).with_options(
        max_iter=max_iter,
        tol=tol,
        damping=damping,
        n_restarts=n_restarts,
        random_state=random_state,
    )
    returns = check_returns(
        method.default_returns if returns is None else returns,
        method.supports(energy) or energy.queries,
    )
    if pairwise not in ("sum", "per_example"):
        raise ValueError(f"pairwise must be 'sum' or 'per_example', got {pairwise!r}")
    check_answers(method, energy, returns)
    estimated = returns & method.from_samples
    if n_samples is None:
        n_samples = ESTIMATE_SAMPLES if estimated else 1
    elif not estimated and "samples" not in returns:
        raise ValueError("n_samples is for returns='samples'")
    for name, asked in (("return_trace", return_trace), ("return_state", return_state)):
        if not isinstance(asked, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {asked!r}")
        if asked:
            _check_accepted(method, name, energy, returns)
    query = Query(
        returns=returns,
        per_example=pairwise == "per_example",
        sample_weight=_check_weight(sample_weight, energy.n_models),
        n_samples=check_count("n_samples", n_samples),
        start=_check_init(init, energy, method, returns),
        return_trace=return_trace,
        return_state=return_state,
        n_jobs=_check_jobs(n_jobs),
    )
    if clamp is not None:
        energy = energy.condition(clamp)
    energy, decided, log_odds = hold_decided(energy, largest)
    fields = _finish(method.solve(energy, query), energy, query)
    if decided is not None and fields.get("log_odds") is not None:
        fields["log_odds"][decided] = log_odds[decided]
    return InferenceResult(**fields)


def _check_magnitudes(energy):
    """Return the largest magnitude of a field; ValueError if a number is too large, or is none."""
    limit = energy.dtype.type(MAX_MAGNITUDE)
    largest = 0.0
    for kind, arrays in (("field", energy.fields), ("coupling", energy.couplings)):
        for array in arrays:
            high, low = array.max(initial=0), array.min(initial=0)
            if low == -np.inf and kind == "coupling":  # states of weight 0
                low = array.min(initial=0, where=array > -np.inf)
            if not (high <= limit and low >= -limit):
                worst = low if high <= limit else high
                raise MagnitudeError(
                    f"energy has a {kind} of {worst:.3g}; infer takes numbers up to "
                    f"{MAX_MAGNITUDE:.0e} in magnitude. Hold a variable by clamp instead"
                )
            if kind == "field":
                largest = max(largest, float(high), -float(low))
    return largest


def _check_jobs(n_jobs):
    """Return a number of threads as joblib means it; ValueError unless it is one, or None."""
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or an int other than 0, got {n_jobs!r}")
    return int(n_jobs)


def _finish(fields, energy, query):
    """Put the held variables into the answer, and make marginals of log-odds."""
    if energy.evidence is not None:
        held = ~np.isnan(energy.evidence)
        values = energy.evidence[held]
        if fields.get("log_odds") is not None:
            fields["log_odds"][held] = np.where(values == 1, np.inf, -np.inf)
        if "assignment" in fields:
            fields["assignment"][held] = values
        if "samples" in fields:
            rows, variables = np.nonzero(held)
            fields["samples"][rows, :, variables] = values[:, None]
    if "marginals" in query.returns:
        fields["marginals"] = expit(fields["log_odds"])
    elif fields.get("assignment") is None:
        fields["log_odds"] = None
    return fields


def hold_decided(energy, largest):
    """Return an energy with large fields that decide their variable as evidence.

    Parameters
    ----------
    energy : BaseEnergy
    largest : float
        Largest magnitude of its fields.

    Returns
    -------
    energy : BaseEnergy
    decided : ndarray (N, n_variables) of bool, or None
        Which variables are held in addition; None if there are none.
    log_odds : ndarray (N, n_variables), or None
        Theirs, by their fields alone.

    Raises
    ------
    MagnitudeError
        If a large field does not decide its variable, and would hide everything else.
    """
    if largest < LARGE_FIELD:
        return energy, None, None
    log_odds, influence = energy.own_log_odds()
    decided = energy.free & (np.abs(log_odds) >= np.maximum(LARGE_FIELD, _OUTWEIGHS * influence))
    lost = energy.free & ~decided & energy.lost_beside()
    if lost.any():
        n, i = np.argwhere(lost)[0]
        raise MagnitudeError(
            f"energy has a field beyond {UNDECIDED_FIELD:.0e} in magnitude, of variable {i} of "
            f"model {n}, that does not decide the variable: weights of 0, or other states of its "
            "node, do, and beside it nothing else can be told apart. Hold the variable by clamp "
            "instead"
        )
    if not decided.any():
        return energy, None, None
    return energy.condition(np.where(decided, log_odds > 0, np.nan)), decided, log_odds
