"""Say how good an answer is: the gap of a search, the end of a search, and the status in a word.

Warn if an answer has not converged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod, Query
from skcrbm.inference.choice import convergence_advice
from skcrbm.inference.contradictions import counted
from skcrbm.utils.warnings import warn_user

EXACT, BOUNDED, APPROXIMATE, NOT_CONVERGED = "exact", "bounded", "approximate", "not converged"
_STATES = frozenset({"map", "marginal_map", "map_bound"})
# Methods whose log Z is a bound after any number of iterations.
_BOUNDS_OF_SUMS = ("mean_field", "tree_reweighted")
# Two sums of the same terms differ by at most this number times the precision of float64 times the
# sum of the absolute terms.
_SCORE_ROUNDING = 16.0


def finish_search(
    fields: dict[str, Any], method: InferenceMethod, energy: BaseEnergy, query: Query
) -> None:
    """Compute the gap of the best states from their scores, and say what ended the search.

    A solver says by a gap of 0 that its state is the best up to rounding. If its bound differs from
    the score by more than the rounding error of a score, the difference is the gap.
    """
    proved = np.full(energy.n_models, method.name == "exact")
    if fields.get("gap") is not None:
        proved = fields["gap"] == 0
        if "map" in query.returns and method.name != "exact":
            score = energy.score(fields["assignment"])
            bound = np.maximum(fields["map_bound"], score)
            known = score > -np.inf
            gap = np.full(len(score), np.inf)
            np.subtract(bound, score, out=gap, where=known)
            proved &= gap <= _score_rounding(energy, score)
            fields["map_bound"] = np.where(proved & known, score, bound)
            fields["gap"] = np.where(proved, 0.0, gap)
    stopped_by = fields.get("stopped_by")
    if stopped_by is None:
        stopped_by = np.where(fields["converged"], "converged", "max_iter").astype(object)
        stopped_by[proved] = "proved"
    elif fields.get("gap") is not None and "map" in query.returns:
        late = (stopped_by == "proved") & ~proved & (method.name != "milp")
        stopped_by[late] = "precision"
        fields["converged"] = fields["converged"] & ~late
    fields["stopped_by"] = stopped_by


def _score_rounding(energy, score):
    """Return the rounding errors (N,) of scores that were added up in different orders."""
    size = np.abs(np.where(np.isfinite(score), score, 0.0))
    for fields in energy.fields:
        axes = tuple(range(1, fields.ndim))
        size = size + np.abs(np.where(np.isfinite(fields), fields, 0.0)).sum(axis=axes)
    for couplings in energy.couplings:
        size = size + np.abs(np.where(np.isfinite(couplings), couplings, 0.0)).sum()
    return _SCORE_ROUNDING * np.finfo(np.float64).eps * size


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
