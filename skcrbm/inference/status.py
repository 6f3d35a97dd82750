"""Say in a word how good an answer is, and warn if it has not converged."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcrbm.inference.base import InferenceMethod
from skcrbm.inference.choice import convergence_advice
from skcrbm.inference.contradictions import counted
from skcrbm.utils.warnings import warn_user

EXACT, BOUNDED, APPROXIMATE, NOT_CONVERGED = "exact", "bounded", "approximate", "not converged"
_STATES = frozenset({"map", "marginal_map", "map_bound"})
# Methods whose log Z is a bound after any number of iterations.
_BOUNDS_OF_SUMS = ("mean_field", "tree_reweighted")


def status_of(fields: dict[str, Any], returns: frozenset, method: str = "") -> str:
    """Return the status of an answer, see `InferenceResult`.

    `fields` are the fields of the result, and `returns` the requested answers. `method` is the name
    of the method if `fields` does not contain it.
    """
    method = fields.get("method", method)
    if method == "exact":
        return EXACT
    late = _late(fields)
    if returns <= _STATES:
        stopped_by = fields["stopped_by"]
        if (stopped_by == "proved").all():
            return EXACT
        if fields.get("map_bound") is not None and np.isfinite(fields["gap"]).all():
            return BOUNDED
        # A search that has reached its limit has done what the call asked for.
        late = late & ~np.isin(stopped_by.astype(str), ["precision", "time_limit", "max_nodes"])
    if returns == {"log_partition"} and method in _BOUNDS_OF_SUMS:
        return BOUNDED if np.isfinite(fields["log_partition"]).all() else NOT_CONVERGED
    if late.any():
        return NOT_CONVERGED
    errors = fields.get("estimated_error")
    on_trees = errors is not None and len(errors) > 0 and not errors.any()
    return EXACT if on_trees else APPROXIMATE


def _late(fields):
    """Return a mask of the models that have not converged; solvers may omit "converged"."""
    error, converged = fields.get("standard_error"), fields.get("converged")
    if error is not None:  # samples of weight 0 are valid in an estimate
        return ~np.isfinite(error)
    return np.zeros(1, bool) if converged is None else ~np.asarray(converged, bool)


def warn_of_convergence(method: InferenceMethod, fields: dict[str, Any]) -> None:
    """Warn that some models have not converged."""
    advice = convergence_advice(method)
    warn_user(
        f"{fields.get('method', method.display_name)!r} has not converged for "
        f"{counted(_late(fields))}, so the answers may be wrong. Try "
        f"{advice + ', or ' if advice else ''}another method: 'exact' if the model is small or "
        "narrow enough, else 'gibbs' with many sweeps",
        ConvergenceWarning,
    )
