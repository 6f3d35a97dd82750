"""Preparation of a fit to sequences or graphs, for `ChainCRF` and `GraphCRF`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from skcrbm.learning.data import Design
from skcrbm.learning.fit import Plan
from skcrbm.learning.rules import LearningRule
from skcrbm.learning.solvers import (
    LBFGS,
    refuse_held_out_rows,
    resolve_solver,
    resolve_stopping,
)
from skcrbm.learning.structured import (
    StructureSource,
    choose_alpha,
    structured_penalty,
)
from skcrbm.targets.sequences import MISSING, codes_of, flatten
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.options import is_auto
from skcrbm.utils.validation import check_sample_weight

# Value of alpha="auto" in `partial_fit`, or if there are too few sequences or graphs for a search.
_PLAIN_ALPHA = 0.01
# Advice that the warning about columns with different scales gives.
_SCALE = "Put SequenceTransformer(StandardScaler()) of skcrbm.pipeline before it"
# The search for alpha="auto" holds out the share _HELD_OUT of the sequences or graphs. With fewer
# than _LEAST_ROWS of them there is no search. With more than _MOST_ROWS, a random sample of this
# size is used, because the best penalty on the sum of all losses hardly depends on their number.
_HELD_OUT, _LEAST_ROWS, _MOST_ROWS = 0.2, 5, 2500


def require_labels_of(rule: LearningRule, path: np.ndarray) -> None:
    """Raise a ValueError if the rule needs complete labels and `path` (T,) has missing labels."""
    if rule.needs_complete and (path == MISSING).any():
        raise ValueError(
            f"learning={rule.name!r} needs complete labels, but y has missing labels; "
            "learning='mle' supports them"
        )


def require_stochastic(estimator: Any, rows: str) -> None:
    """Raise a ValueError if `partial_fit` cannot use the solver; `rows` names the rows."""
    refuse_held_out_rows(estimator.early_stopping)
    if isinstance(resolve_solver(estimator.solver), LBFGS):
        raise ValueError(
            "partial_fit needs a stochastic solver, for example solver='adam'; 'lbfgs' needs all "
            f"{rows} at once"
        )


def share_of_right_labels(estimator: Any, batch: Any, X: Any, sample_weight: Any) -> float:
    """Return the share of right labels in the predictions for X, over all observed labels.

    `batch` holds the sequences or graphs of X with their labels, and `sample_weight` their weights.
    """
    labels = flatten(part.tolist() for part in estimator.predict(X))
    predicted = codes_of(labels, estimator.classes_)
    weight = check_sample_weight(sample_weight, batch.start[1:, None])
    weight = np.repeat(weight, np.diff(batch.start)) * (batch.path != MISSING)
    if not weight.any():
        raise ValueError("y holds no observed label with a positive weight")
    return float(weight @ (predicted == batch.path) / weight.sum())


def structured_plan(
    estimator: Any,
    model: Any,
    batch: Any,
    objective: Any,
    rng: np.random.RandomState,
    resume: bool,
    partial: bool = False,
) -> tuple[Plan, float]:
    """Return the `Plan` of a fit, and alpha.

    `batch` holds all sequences or graphs, and `objective` is a `StructuredObjective`. `resume` is
    True if training continues from `model`, which an earlier fit returned. `partial` is True in
    `partial_fit`.
    """
    solver = resolve_solver(estimator.solver)
    if not (resume or issparse(batch.X)):
        weight = np.repeat(batch.weight, np.diff(batch.start))
        warn_of_scales(batch.X, weight, type(estimator).__name__, partial, _SCALE)
    alpha: Any = estimator.alpha
    if is_auto(alpha):
        alpha = getattr(estimator, "alpha_", None)
        if alpha is None:
            alpha = _search_alpha(model, batch, objective, estimator.l1_ratio, rng, partial)
    stochastic: dict[str, Any] = {}
    if solver.stochastic:
        trained = (float(used) for used in objective.trained)
        stochastic = {
            "stopping": resolve_stopping(estimator.early_stopping, False),
            "batch_size": solver.rows_per_step(len(batch), 16),
            "average": solver.keeps_average(False),
            "rate_factors": type(model.params)(*trained),
            "mean_square": _mean_square(batch),
        }
    elif estimator.early_stopping is not False:
        raise ValueError(
            "early_stopping is for stochastic solvers; set early_stopping=False with solver='lbfgs'"
        )
    plan = Plan(
        model=model,
        design=Design(np.empty((0, 0))),
        rows=StructureSource(batch),
        objective=objective,
        penalty=structured_penalty(model.params, alpha, estimator.l1_ratio),
        solver=solver,
        max_iter=estimator.max_iter,
        verbose=int(estimator.verbose),
        **stochastic,
    )
    return plan, float(alpha)


def _search_alpha(model, batch, objective, l1_ratio, rng, partial):
    """Choose alpha by the loss of held-out sequences or graphs, or return a fixed value."""
    observed = np.add.reduceat(batch.path != MISSING, batch.start[:-1])
    labelled = np.flatnonzero(observed)  # a row without labels cannot judge a penalty
    if partial or len(labelled) < _LEAST_ROWS:
        return _PLAIN_ALPHA
    some = batch if len(labelled) == len(batch) else batch.take(labelled)
    if len(some) > _MOST_ROWS:
        some = some.take(np.sort(rng.permutation(len(some))[:_MOST_ROWS]))
    rest, held_out = StructureSource(some).split(_HELD_OUT, rng)
    total = choose_alpha(model, rest.all, held_out, objective, l1_ratio)
    return total / batch.weight.sum()


def _mean_square(batch):
    """Return the sum of squares of all features, divided by the number of sequences or graphs."""
    X = batch.X
    squares = X.multiply(X).sum() if hasattr(X, "multiply") else np.square(X, dtype=float).sum()
    return float(squares) / len(batch)
