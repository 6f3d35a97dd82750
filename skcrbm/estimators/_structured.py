"""Prepare fits to sequences or graphs, for `ChainCRF` and `GraphCRF`."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from skcrbm.learning.data import Design
from skcrbm.learning.fit import NO_PROGRESS, Plan
from skcrbm.learning.large_margin.frank_wolfe import FrankWolfeFit, fit_frank_wolfe
from skcrbm.learning.large_margin.structured_blocks import dual_blocks
from skcrbm.learning.large_margin.structured_hinge import HingeObjective
from skcrbm.learning.penalty_path import clearly_worse, penalty_path
from skcrbm.learning.rules import LearningRule
from skcrbm.learning.solvers import (
    GRADIENT_SOLVERS,
    LBFGS,
    FrankWolfe,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.learning.structured.objective import (
    PATIENCE,
    TOTALS,
    gradient_path,
    structured_penalty,
)
from skcrbm.learning.structured.rows import StructureSource
from skcrbm.targets.codes import MISSING
from skcrbm.targets.sequences import (
    SEQUENCE,
    Structure,
    flat_labels,
    flatten,
    kind_of,
)
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import EpochCallbacks, pass_hooks, warn_of_early_end
from skcrbm.utils.options import Integer, is_auto, option_name
from skcrbm.utils.sklearn_private import Interval, StrOptions
from skcrbm.utils.validation import check_sample_weight
from skcrbm.utils.warnings import warn_user

#: Names of the solvers of `ChainCRF` and `GraphCRF`.
STRUCTURED_SOLVERS = (*GRADIENT_SOLVERS, "frank_wolfe")

#: Constraints of the hyperparameters that `ChainCRF` and `GraphCRF` share.
STRUCTURED_CONSTRAINTS: dict[str, Any] = {
    "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    "solver": solver_constraint(STRUCTURED_SOLVERS, auto=True),
    "max_iter": [Integer(1)],
    "early_stopping": stopping_constraint(auto=False),
    "features": [StrOptions({"observed", "all"})],
    "decode": [StrOptions({"map", "marginal"})],
    "warm_start": ["boolean"],
    "n_jobs": [Integer(), None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

# Value of alpha="auto" in `partial_fit`, or in `fit` if there are too few sequences or graphs for a
# search.
_PLAIN_ALPHA = 0.01
_NO_MARGINALS = (
    "decode='marginal' needs probabilities, which learning='max_margin' does not learn; set "
    "decode='map' or learning='mle'"
)
# Advice in the warning about columns of X that have different scales.
_SCALE = "Put SequenceTransformer(StandardScaler()) of skcrbm.pipeline before it"
# The search for alpha="auto" holds out the share _HELD_OUT of the sequences or graphs. If there are
# fewer than _LEAST_ROWS sequences or graphs, there is no search. If there are more than _MOST_ROWS,
# the search uses a random sample of _MOST_ROWS sequences or graphs. The sample is enough, because
# the best penalty relative to the sum of all losses hardly depends on the number of sequences or
# graphs.
_HELD_OUT, _LEAST_ROWS, _MOST_ROWS = 0.2, 5, 2500
# In the search for alpha="auto", block-coordinate Frank-Wolfe makes at most _PATH_PASSES passes for
# each penalty, and stops earlier if the relative duality gap is at most _PATH_TOL. If the relative
# gap is above _PATH_LIMIT after the last pass, the penalty is rejected as too weak, because the
# final fit would not converge either.
_PATH_PASSES, _PATH_TOL, _PATH_LIMIT = 40, 0.02, 0.05


def require_labels_of(estimator: Any, rule: LearningRule, path: np.ndarray) -> None:
    """Raise a ValueError if labels are missing and the learning rule needs complete labels.

    `path` (T,) holds the class codes of all T nodes or positions.
    """
    if rule.needs_complete and (path == MISSING).any():
        raise ValueError(
            f"learning={option_name(estimator.learning)!r} needs complete labels, but y has "
            "missing labels; learning='mle' supports them"
        )


def require_stochastic(estimator: Any, rows: str) -> None:
    """Raise a ValueError if `partial_fit` cannot use the solver.

    `rows` is the word for the training data in the message, such as "graphs".
    """
    solver = structured_solver(estimator)
    if not solver.stochastic:
        raise ValueError(
            f"partial_fit needs a stochastic solver, for example solver='adam'; {solver.name!r} "
            f"needs all {rows} at once"
        )


def structured_solver(estimator: Any) -> Any:
    """Return the solver of an estimator.

    A ValueError is raised if the learning rule cannot use the solver.

    "auto" stands for "frank_wolfe" in max-margin learning, and else for "lbfgs".
    """
    learning = option_name(getattr(estimator, "learning", "mle"))
    margin = learning == "max_margin"
    if is_auto(estimator.solver):
        return FrankWolfe() if margin else LBFGS()
    solver = resolve_solver(estimator.solver, STRUCTURED_SOLVERS)
    if margin and isinstance(solver, LBFGS):
        raise ValueError(
            "solver='lbfgs' needs a smooth loss; learning='max_margin' needs solver='frank_wolfe' "
            "or a stochastic solver such as 'adam'"
        )
    if solver.dual and not margin:
        raise ValueError(
            f"solver={solver.name!r} is for learning='max_margin' only; use solver='lbfgs' with "
            f"learning={learning!r}"
        )
    return solver


def has_probabilities(estimator: Any) -> bool:
    """Return True, or raise an AttributeError if the model gives no probabilities.

    A model that is (or will be) trained for a large margin gives no probabilities. scikit-learn's
    `available_if` calls this function.
    """
    if getattr(estimator, "_hinge", option_name(estimator.learning) == "max_margin"):
        raise AttributeError(
            f"{type(estimator).__name__} gives no probabilities after learning='max_margin', "
            "because its scores only serve to find the best labels; use learning='mle'"
        )
    return True


def decodes_marginals(estimator: Any) -> bool:
    """Return True if `predict` chooses each label by its own probability.

    In this case a ValueError is raised if the model was trained for a large margin, because it has
    no probabilities.
    """
    if estimator.decode == "marginal" and estimator._hinge:
        raise ValueError(_NO_MARGINALS)
    return estimator.decode == "marginal"


def check_hinge(estimator: Any) -> bool:
    """Return True if an estimator is to be trained for a large margin (hinge loss).

    A ValueError is raised if an option of the estimator is not valid in max-margin training.
    Attributes that describe the dual solution of an earlier fit are deleted.
    """
    for name in ("objective_", "duality_gap_", "certified_"):
        vars(estimator).pop(name, None)
    if option_name(estimator.learning) != "max_margin":
        return False
    if estimator.l1_ratio != 0:
        raise ValueError(
            f"learning='max_margin' needs an L2 penalty, l1_ratio=0; got {estimator.l1_ratio!r}"
        )
    if estimator.decode == "marginal":
        raise ValueError(_NO_MARGINALS)
    return True


def share_of_right_labels(
    estimator: Any, X: Any, y: Any, sample_weight: Any, kind: Structure = SEQUENCE
) -> float:
    """Predict labels for X, and return the share of right predictions among observed labels.

    `sample_weight` are the weights of the sequences or graphs. A label that the model does not know
    counts as wrong, because a split for cross-validation may leave a rare label out of training.
    """
    predicted = estimator.predict(X)
    start = np.concatenate([[0], np.cumsum([len(part) for part in predicted])])
    labels = flat_labels(y, start, kind=kind)
    _require_kind(labels, estimator.classes_)
    classes = {None, *estimator.classes_.tolist()}
    warn_of_new_labels(label for label in labels if label not in classes)
    right = map(operator.eq, labels, flatten(part.tolist() for part in predicted))
    right = np.fromiter(right, bool, len(labels))
    weight = check_sample_weight(sample_weight, start[1:, None])
    observed = np.array([label is not None for label in labels])
    weight = np.repeat(weight, np.diff(start)) * observed
    if not weight.any():
        raise ValueError("y holds no observed label with a positive weight")
    return float(weight @ right / weight.sum())


def warn_of_new_labels(labels: Iterable) -> None:
    """Warn of the first of the labels, which a model does not know, if there are any."""
    for label in labels:
        warn_user(f"y holds the label {label!r}, which training did not have; it counts as wrong")
        return


def _require_kind(labels, classes):
    """Raise a ValueError if a label is a number and all classes are strings, or the reverse."""
    kinds = {type(None), *map(kind_of, classes.tolist())}
    other = [label for label in labels if kind_of(label) not in kinds]
    if other:
        raise ValueError(
            f"y holds the label {other[0]!r}, but the classes of the model are "
            f"{', '.join(map(repr, classes[:10].tolist()))}{' ...' if len(classes) > 10 else ''}"
        )


def structured_plan(
    estimator: Any,
    model: Any,
    batch: Any,
    objective: Any,
    rng: np.random.RandomState,
    resume: bool,
    partial: bool = False,
) -> Plan:
    """Return the `Plan` (model, objective, solver, penalty and stopping rule) of a fit.

    `batch` has all sequences or graphs, and `objective` is a `StructuredObjective`. `resume` is
    True if training continues from `model`, the result of an earlier fit. `partial` is True in
    `partial_fit`.
    """
    solver = structured_solver(estimator)
    alpha = float(_chosen_alpha(estimator, model, batch, objective, rng, resume, partial))
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
    return Plan(
        model=model,
        design=Design(np.empty((0, 0))),
        rows=StructureSource(batch),
        objective=objective,
        penalty=structured_penalty(
            model.params, alpha, estimator.l1_ratio, objective.penalises_intercept
        ),
        solver=solver,
        max_iter=estimator.max_iter,
        verbose=int(estimator.verbose),
        progress=estimator._progress if resume else NO_PROGRESS,
        attributes=lambda model, epoch: estimator._model_attributes(model, alpha),
        **stochastic,
    )


def _chosen_alpha(estimator, model, batch, objective, rng, resume, partial=False) -> Any:
    """Return the penalty alpha of a fit; warn if the columns of X have different scales."""
    if not (resume or issparse(batch.X)):
        weight = np.repeat(batch.weight, np.diff(batch.start))
        warn_of_scales(batch.X, weight, type(estimator).__name__, partial, _SCALE)
    if not is_auto(estimator.alpha):
        return estimator.alpha
    alpha = getattr(estimator, "alpha_", None)
    if alpha is None:
        alpha = _search_alpha(model, batch, objective, estimator.l1_ratio, rng, partial)
    return alpha


def _search_alpha(model, batch, objective, l1_ratio, rng, partial):
    """Choose alpha by the loss of held-out sequences or graphs.

    If there are too few sequences or graphs, return a fixed value.
    """
    observed = np.add.reduceat(batch.path != MISSING, batch.start[:-1])
    labelled = np.flatnonzero(observed)  # sequences or graphs without labels have no loss
    if partial or len(labelled) < _LEAST_ROWS:
        return _PLAIN_ALPHA
    some = batch if len(labelled) == len(batch) else batch.take(labelled)
    # Scale the weights to a mean of 1. The penalties that the search tries suit this scale.
    mean = batch.weight.mean()
    if mean != 1:
        some = replace(some, weight=some.weight / mean)
    if len(some) > _MOST_ROWS:
        some = some.take(np.sort(rng.permutation(len(some))[:_MOST_ROWS]))
    rest, held_out = StructureSource(some).split(_HELD_OUT, rng)
    if isinstance(objective, HingeObjective):
        train = _margin_path(model, rest.all, objective, rng)
    else:
        train = gradient_path(model, rest.all, objective, l1_ratio)

    def score(found):
        return -np.inf if found is None else objective.score(found, held_out, 0)

    found = penalty_path(train, score, TOTALS, patience=PATIENCE, ends=clearly_worse)
    return found.penalty / len(batch)


def _margin_path(model, rest, objective, rng):
    """Return the function `train` of `penalty_path` for max-margin learning.

    ``train(total, neighbour)`` trains a model with the penalty factor `total`, from the dual
    variables of the call before. It returns the trained model, or None if the penalty is too weak.
    """
    blocks = dual_blocks(model, rest, objective, 1.0)

    def train(total, neighbour):
        blocks.rescale(total)
        found = fit_frank_wolfe(blocks, tol=_PATH_TOL, max_iter=_PATH_PASSES, rng=rng)
        if found.reason == "interrupted":
            raise KeyboardInterrupt
        solved = found.gap <= _PATH_LIMIT * found.objective
        return model._replace(params=found.params) if solved else None

    return train


# --------------------------------------------------------------------- dual solvers


def fit_dual(
    estimator: Any, model: Any, batch: Any, objective: Any, rng: np.random.RandomState, data: tuple
) -> None:
    """Train an estimator for a large margin in the dual problem, and set its attributes.

    `data` are the arguments X, y and `sample_weight` of `fit`, for callbacks. A warm start begins
    with the dual variables of the earlier fit if the labels are the same, else with parameters of
    0. The optimum does not depend on the start.
    """
    solver = structured_solver(estimator)
    if estimator.early_stopping is not False:
        raise ValueError(
            "early_stopping is for stochastic solvers; set early_stopping=False with "
            f"solver={solver.name!r}"
        )
    resume = hasattr(estimator, "alpha_") and estimator.warm_start
    alpha = float(_chosen_alpha(estimator, model, batch, objective, rng, resume))
    if alpha == 0:
        raise ValueError(f"alpha must be positive with solver={solver.name!r}; got 0")

    def attributes(fitted: FrankWolfeFit) -> dict[str, Any]:
        return {
            **estimator._model_attributes(model._replace(params=fitted.params), alpha),
            "objective_": fitted.objective,
            "duality_gap_": fitted.gap,
            "certified_": fitted.proven == 1.0,
            "loss_curve_": list(fitted.losses),
            "n_iter_": fitted.n_iter,
            "_progress": NO_PROGRESS,  # a stochastic solver can start from these parameters
        }

    X, y, sample_weight = data
    callbacks = EpochCallbacks(estimator, estimator.max_iter, X, y, sample_weight, "pass")
    blocks = dual_blocks(model, batch, objective, alpha * batch.weight.sum())
    if getattr(estimator, "_dual", None) is not None:
        blocks.restore(estimator._dual)
    with pass_hooks(estimator, "pass", callbacks, attributes, _loss_and_gap) as hooks:
        fitted = fit_frank_wolfe(
            blocks, rng=rng, tol=solver.tol, max_iter=estimator.max_iter, **hooks
        )
    dual = blocks.state() if estimator.warm_start else None
    vars(estimator).update({**attributes(fitted), "_rng": rng, "_dual": dual})
    _warn_of_gap(fitted, estimator.max_iter, solver)
    callbacks.end()


def _loss_and_gap(loss, gap):
    return f"loss {loss:.4f}  gap {gap:.1e}"


def _warn_of_gap(fitted, max_iter, solver):
    """Warn if training ended early, or if searches did not prove that their labels are optimal."""
    share = fitted.gap / fitted.objective if fitted.objective > 0 else 0.0
    state = f"a relative duality gap of {share:.1e} (tol={solver.tol:g})"
    advice = f"Raise alpha, tol of {type(solver).__name__}, or max_iter."
    warn_of_early_end(fitted, "pass", "passes", max_iter, state, advice)
    if fitted.proven < 1:
        warn_user(
            f"The duality gap is not a proven bound: for {1 - fitted.proven:.0%} of the graphs, "
            "max-product has not proven that its labels violate the margin most. objective_ "
            "and duality_gap_ use the labels found by max-product. If the graphs are narrow "
            "enough, inference='exact' gives a proven bound.",
            ConvergenceWarning,
        )


def _mean_square(batch):
    """Return the mean, over all sequences or graphs, of the sum of squares of all features."""
    X = batch.X
    squares = X.multiply(X).sum() if hasattr(X, "multiply") else np.square(X, dtype=float).sum()
    return float(squares) / len(batch)
