"""`infer`: the one door to every inference method."""

from dataclasses import replace

import numpy as np
from scipy.special import expit

from skcrbm.energies._base import PINNED_OFF, BaseEnergy
from skcrbm.inference._base import InferenceMethod, InferenceResult, Query
from skcrbm.inference._registry import METHODS
from skcrbm.utils._parallel import one_blas_thread
from skcrbm.utils._validation import as_float_array, as_real

# Values that mean "nothing asked for", accepted by methods without the option.
_NEUTRAL = {"max_iter": 100, "tol": 1e-6, "damping": 0.0, "n_restarts": 1, "random_state": None}
_QUERIES = ("marginals", "pairwise", "log_partition", "map", "marginal_map")


def available_methods(energy=None, returns=()):
    """Names of the inference methods, optionally those that can answer a query.

    Parameters
    ----------
    energy : energy or None, default=None
        Keep the methods that work on this kind of energy.
    returns : iterable of str, default=()
        Keep the methods that can answer all of these.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from skcrbm.inference import available_methods
    >>> available_methods(returns=["marginals", "log_partition"])
    ['exact', 'mean_field', 'sum_product', 'tree_reweighted']
    """
    names = []
    for name in METHODS:
        cls = METHODS.get(name)
        works = energy is None or type(energy) in cls.solvers
        answers = cls.answers if energy is None else cls.answers & energy.queries
        if works and set(returns) <= answers:
            names.append(name)
    return names


def resolve_method(method, name="inference"):
    """Turn a name or a configured object into an `InferenceMethod`, options checked.

    Raises
    ------
    ValueError
        On an unknown name, naming those that exist; on an invalid option.
    TypeError
        On anything that is neither.
    """
    if isinstance(method, str):
        method = METHODS.get(method, name)()
    elif not isinstance(method, InferenceMethod):
        raise TypeError(
            f"{name} must be one of {', '.join(map(repr, METHODS))} or a configured object "
            f"such as SumProduct(max_iter=30); got {method!r}"
        )
    method.check_options()
    return method


def _name(method):
    return method.name or type(method).__name__


def check_answers(method, energy, returns):
    """Raise one readable error if `method` cannot answer `returns` on `energy`."""
    name = _name(method)
    if method.solver_for(energy) is None:
        able = available_methods(energy, returns)
        raise ValueError(
            f"{name!r} does not work on {type(energy).__name__}; methods that do: "
            f"{', '.join(map(repr, able)) or 'none'}"
        )
    missing = sorted(set(returns) - (method.answers & energy.queries))
    if missing:
        able = available_methods(energy, returns)
        raise ValueError(
            f"{name!r} cannot answer {', '.join(map(repr, missing))}; methods that can: "
            f"{', '.join(map(repr, able)) or 'none'}"
        )


def _with_options(method, options):
    """Apply the options given to `infer`; refuse those that the method does not have."""
    by_name = isinstance(method, str)
    method = resolve_method(method, "method")
    given = {k: v for k, v in options.items() if v is not None}
    if not given and not by_name:
        return method
    has = vars(method)
    for option, value in list(given.items()):
        if option not in has:
            if value != _NEUTRAL[option]:
                raise ValueError(
                    f"{_name(method)!r} has no option {option!r}; its options are: "
                    f"{', '.join(sorted(has)) or 'none'}"
                )
            del given[option]
    if by_name and "tol" in has:
        given.setdefault("tol", _NEUTRAL["tol"])
    if given:
        method = type(method)(**{**has, **given})
        method.check_options()
    return method


def _check_returns(returns, method):
    if returns is None:
        return frozenset(method.default_returns)
    if isinstance(returns, str):
        returns = (returns,)
    try:
        asked = tuple(returns)
    except TypeError:
        asked = ()
    if not asked or any(r not in _QUERIES for r in asked):
        raise ValueError(f"returns must hold some of {_QUERIES}; got {returns!r}")
    if {"map", "marginal_map"} <= set(asked):
        raise ValueError("returns must hold one of 'map' and 'marginal_map', not both")
    return frozenset(asked)


def check_clamp(clamp, energy):
    """Return clamp as (N, n_variables), or raise a ValueError that says what it should be."""
    n, width = energy.n_models, energy.n_variables
    shape = f"({n}, {width}) or ({width},)"
    clamp = as_real(clamp, "clamp", shape)
    if clamp.shape not in ((n, width), (width,)):
        raise ValueError(f"clamp must have shape {shape}, got {clamp.shape}")
    if not (np.isnan(clamp) | (clamp == 0) | (clamp == 1)).all():
        raise ValueError("clamp must hold 0 or 1 where a unit is fixed and NaN where it is free")
    return np.broadcast_to(clamp, (n, width))


def _check_weight(sample_weight, n):
    if sample_weight is None:
        return np.ones(n)
    weight = as_float_array(sample_weight, "sample_weight", "(N,)").astype(np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weight.shape}")
    return weight


def _check_init(init, energy, method):
    if init is None:
        return None
    if "init" not in method.accepts:
        able = [m for m in METHODS if "init" in METHODS.get(m).accepts]
        raise ValueError(f"{_name(method)!r} has no option 'init'; methods that do: {able}")
    shape = (energy.n_models, energy.n_variables)
    log_odds = getattr(init, "log_odds", None)
    if log_odds is None or log_odds.shape != shape:
        raise ValueError(
            f"init must be an earlier InferenceResult with log_odds of shape {shape}, "
            f"got {None if log_odds is None else log_odds.shape}"
        )
    # Saturated starts carry no information beyond their side, and infinities none at all.
    log_odds = np.clip(log_odds, -100, 100).astype(energy.dtype)
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
    return_trace=False,
    n_jobs=None,
    random_state=None,
):
    """Answer a query about a batch of models.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy or another energy
        N models that share their couplings.
    method : str or InferenceMethod, default="sum_product"
        "exact", "sum_product", "tree_reweighted", "mean_field", "gibbs", "max_product",
        "mixed_product", "icm", or a configured object such as ``SumProduct(damping=0.5)``.
        Options given here override the object's.
    max_iter : int, default=100
        Iterations at most, for the methods that iterate.
    tol : float, default=1e-6 for a method given by name
        A model has converged when no belief changes by more, as a probability.
    damping : float in [0, 1), default=0
        Share of the old log messages that is kept.
    clamp : array-like (N, V + H) or (V + H,), default=None
        0 or 1 fixes a unit, NaN leaves it free. All answers are then those of the
        conditioned model. Of an Ising model (N, L) or (L,), with 0 for y = -1.
    sample_weight : array-like (N,), default=None
        Weights of the models in the pairwise sum.
    returns : tuple of str, default=None
        What to compute: "marginals", "pairwise", "log_partition", and one of "map" (the
        most probable joint state) and "marginal_map" (the most probable visible state,
        hidden units summed out). None: the marginals, or the state that a method
        maximises.
    pairwise : {"sum", "per_example"}, default="sum"
        (V, H), summed over the models, or (N, V, H); (L, L) and (N, L, L) of Ising models.
    init : InferenceResult, default=None
        Start from the beliefs of an earlier result.
    n_restarts : int, default=1
        For methods that restart.
    return_trace : bool, default=False
        Keep the largest belief change of each iteration.
    n_jobs : int, default=None
        Threads over the models. The result does not depend on it.
    random_state : int, default=None
        For methods that draw.

    Returns
    -------
    InferenceResult
        With ``marginals``, ``log_odds``, ``assignment``, ``pairwise``, ``log_partition``,
        ``n_iter``, ``converged``; what was not asked for is None.

    Raises
    ------
    ValueError
        If an argument is invalid, or the method has no such option or answer; the
        message names what is possible.

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
    if not isinstance(energy, BaseEnergy):
        raise TypeError(f"energy must be an energy such as RBMEnergy, got {energy!r}")
    method = _with_options(
        method,
        {
            "max_iter": max_iter,
            "tol": tol,
            "damping": damping,
            "n_restarts": n_restarts,
            "random_state": random_state,
        },
    )
    returns = _check_returns(returns, method)
    if pairwise not in ("sum", "per_example"):
        raise ValueError(f"pairwise must be 'sum' or 'per_example', got {pairwise!r}")
    check_answers(method, energy, returns)
    if return_trace and "return_trace" not in method.accepts:
        able = [m for m in METHODS if "return_trace" in METHODS.get(m).accepts]
        raise ValueError(f"{_name(method)!r} has no option 'return_trace'; methods that do: {able}")
    query = Query(
        returns=returns,
        pairwise=pairwise,
        sample_weight=_check_weight(sample_weight, energy.n_models),
        start=_check_init(init, energy, method),
        return_trace=return_trace,
        n_jobs=n_jobs,
    )
    if clamp is None:
        return _finish(method.solver_for(energy)(energy, query), query)
    clamp = check_clamp(clamp, energy)
    with one_blas_thread():
        conditioned = energy.condition(clamp)
    if query.start is not None:
        query.start.log_odds[conditioned.clamped] = PINNED_OFF
    fields = method.solver_for(energy)(conditioned.energy, query)
    with one_blas_thread():
        _restore_clamped(fields, conditioned, query)
    return _finish(fields, query)


def _finish(fields, query):
    """Turn log-odds into marginals if asked for."""
    if "marginals" in query.returns:
        fields["marginals"] = expit(fields["log_odds"])
    elif fields.get("assignment") is None:
        fields["log_odds"] = None
    return InferenceResult(**fields)


def _restore_clamped(fields, conditioned, query):
    """Put the clamped units back into answers about a conditioned energy."""
    energy, values, clamped, offset = conditioned
    log_odds = fields["log_odds"]
    log_odds[clamped] = np.where(values[clamped] == 1, np.inf, -np.inf)
    if "assignment" in fields:
        fields["assignment"][clamped] = values[clamped]
    if "log_partition" in query.returns:
        fields["log_partition"] += offset
    if "pairwise" not in query.returns:
        return
    # Clamped units were pinned off: every pair with one of them is a plain product.
    free = np.where(clamped, 0, expit(log_odds))
    weight = query.sample_weight[:, None].astype(free.dtype)
    for left, right in energy.clamped_pairs(values, free):
        if query.pairwise == "per_example":
            fields["pairwise"] += left[:, :, None] * right[:, None, :]
        else:
            fields["pairwise"] += (weight * left).T @ right
