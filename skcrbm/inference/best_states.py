"""Complete the results of searches: the gap of the best states, and what ended the search."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod, Query

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
