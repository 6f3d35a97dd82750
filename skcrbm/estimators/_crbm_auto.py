"""The automatic choices of CRBMClassifier: the solver and the penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skcrbm.energies.rbm import ConditionalRBM
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.learning.data import Batch
from skcrbm.learning.design import smoothed_log_odds
from skcrbm.learning.penalties import L2, crbm_penalty
from skcrbm.learning.penalty_search import START, PathPoint, PenaltyPath
from skcrbm.learning.rules import LearningRule, Likelihood
from skcrbm.learning.solvers import (
    LBFGS,
    Adam,
    AveragedSGD,
    LossPlateau,
    Solver,
    resolve_solver,
)
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.utils.columns import in_double
from skcrbm.utils.fitting import LiveLine
from skcrbm.utils.limits import CONVEX_PATH_ENTRIES, MIN_SEARCH_ROWS

# Value of alpha="auto" in a first `partial_fit`, which searches no penalty and scales no columns.
PLAIN_ALPHA = 0.1
# Penalty relative to the variance of the columns if there are too few rows for a search. It lies
# between the best penalty for ten columns and the best penalty for hundreds of columns.
_FEW_ROWS_ALPHA = 3e-3
# Weak pull on W and the intercepts: it is worth a tenth of a row of unit weight.
_WEAK = 0.1
# The rows are cut into this number of folds; the search uses no more of them than it needs.
_N_FOLDS = 5
# The folds do not depend on `random_state`, so that the penalties of different seeds, and of
# models with more or fewer hidden units, can be compared.
_FOLD_SEED = 0
# Number of outputs on which the penalty of stochastic training is searched.
_LEAST_OUTPUTS, _MOST_OUTPUTS = 8, 32
# This number of validation rows in all makes the choice reliable, without and with hidden units;
# further folds are not fitted.
_CONVEX_ROWS, _HIDDEN_ROWS = 3000, 1500


def is_auto(value: object) -> bool:
    """Return True if a hyperparameter is "auto"."""
    return isinstance(value, str) and value == "auto"


def choose_solver(
    solver: str | Solver,
    early_stopping: bool | str | LossPlateau,
    rule: LearningRule,
    method: InferenceMethod,
    partial: bool,
) -> Solver:
    """Return the solver of a fit; this function alone knows the meaning of ``solver="auto"``.

    "auto" is L-BFGS if the likelihood is exact, averaged gradient descent if it is approximate,
    and Adam for other learning rules, for `partial_fit`, and if `early_stopping` asks for epochs.

    Raises
    ------
    ValueError
        If L-BFGS is asked for and cannot be used.
    """
    automatic = isinstance(solver, str) and solver == "auto"
    chosen = LBFGS() if automatic else resolve_solver(solver)
    if not isinstance(chosen, LBFGS):
        return chosen
    obstacles = {
        "partial_fit, which sees a part of the rows": partial,
        f"learning={rule.name!r}": not isinstance(rule, Likelihood),
        f"{method.name!r} inference, which is approximate": method.name != "exact",
        f"early_stopping={early_stopping!r}": (
            early_stopping is True or isinstance(early_stopping, LossPlateau)
        ),
    }
    found = [name for name, holds in obstacles.items() if holds]
    if not found:
        return chosen
    if not automatic:
        raise ValueError(
            "solver='lbfgs' minimises the exact likelihood of all rows at once, which excludes "
            f"{found[0]}; use solver='auto', 'asgd', 'adam' or 'sgd'"
        )
    by_adam = partial or not isinstance(rule, Likelihood) or method.name == "exact"
    return Adam() if by_adam else AveragedSGD()


class PenaltySettings(NamedTuple):
    """Settings of an estimator that the search for its penalty depends on."""

    alpha_hidden: float | str
    categorical: bool  # True if the outputs are one categorical unit
    max_iter: int | None  # most iterations of a fit
    n_jobs: int | None
    verbose: int


def make_penalty(
    settings: PenaltySettings, visible: np.ndarray, weight: np.ndarray, *, every_intercept: bool
) -> Callable[[float], L2]:
    """Return ``penalty(alpha)``, the `L2` penalty of fits by L-BFGS on rows (N, V).

    With `every_intercept` all intercepts are pulled to the log-odds of the labels. Otherwise only
    intercepts that would become infinite are: the intercepts of labels that are on in no row, or
    in all rows.
    """
    weak = _WEAK / max(len(visible), MIN_SEARCH_ROWS)
    positive = (visible == 1).any(axis=0)
    negative = (visible == 0).any(axis=0)
    pull = np.where(positive & negative, weak if every_intercept else 0.0, weak)
    on_weights = weak if isinstance(settings.alpha_hidden, str) else settings.alpha_hidden
    on_hidden = weak if every_intercept else 0.0
    centre = smoothed_log_odds(visible, weight, settings.categorical)

    def penalty(alpha):
        return crbm_penalty(alpha, on_weights, pull, on_hidden, centre)

    return penalty


def search_penalty(
    settings: PenaltySettings,
    penalty: Callable[[float], L2],
    model: ConditionalRBM,
    batch: Batch,
    variance: float,
    with_hidden: bool = True,
) -> tuple[float, ConditionalRBM, list[PathPoint]]:
    """Find alpha by validation, or use a fixed value if there are too few rows.

    Parameters
    ----------
    settings : PenaltySettings
    penalty : callable
        ``penalty(alpha)``.
    model : ConditionalRBM
        Model to start from.
    batch : Batch
        Rows of the design in float64.
    variance : float
        Total variance of the columns, to which the penalty is relative.
    with_hidden : bool, default=True
        Go on from the model without hidden units to the model with them.

    Returns
    -------
    alpha : float
    model : ConditionalRBM
        Start of the fit on all rows.
    points : list of PathPoint
    """
    variance = variance if variance > 0 else 1.0
    n_rows = len(batch)
    if n_rows < MIN_SEARCH_ROWS:
        return _FEW_ROWS_ALPHA * variance, model, []
    splitter = MultilabelStratifiedKFold(_N_FOLDS, shuffle=True, random_state=_FOLD_SEED)
    n_convex, n_hidden = (
        int(np.clip(rows // n_rows, 1, _N_FOLDS)) for rows in (_CONVEX_ROWS, _HIDDEN_ROWS)
    )
    folds = list(splitter.split(batch.visible, batch.visible))[:n_convex]
    exact = resolve_method("exact")
    path = PenaltyPath(
        objective=Likelihood().conditional(exact, settings.n_jobs),
        penalty=penalty,
        inference=exact,
        max_iter=settings.max_iter if with_hidden else None,  # else max_iter is a number of epochs
        n_jobs=settings.n_jobs,
        live=LiveLine(settings.verbose),
    )
    try:
        found = path.search(model, batch, folds, n_hidden if with_hidden else 0, START * variance)
    finally:
        path.live.end()
    return found.alpha, found.model, found.points


def search_convex_penalty(
    settings: PenaltySettings, model: ConditionalRBM, batch: Batch, variance: float
) -> tuple[float, list[PathPoint]]:
    """Find alpha for stochastic training: the penalty of the model without hidden units.

    Without hidden units the outputs are logistic regressions that share a penalty, and some
    outputs determine it as well as hundreds of outputs do. Hidden units need at least the penalty
    that a single row is worth, even if regressions on X predict the outputs well without.
    """
    n_rows, n_visible = batch.visible.shape
    affordable = CONVEX_PATH_ENTRIES // max(1, n_rows * batch.X.shape[1])
    n_outputs = min(n_visible, max(_LEAST_OUTPUTS, min(_MOST_OUTPUTS, affordable)))
    if settings.categorical:
        n_outputs = n_visible
    varying = (batch.visible == 0).any(axis=0) & (batch.visible == 1).any(axis=0)
    # Outputs that vary come first, in random order.
    order = np.random.RandomState(_FOLD_SEED).permutation(n_visible)
    chosen = np.sort(order[np.argsort(~varying[order], kind="stable")][:n_outputs])
    p = model.params
    model = model._replace(
        params=p._replace(
            weights=p.weights[chosen],
            visible_coef=p.visible_coef[chosen],
            visible_intercept=p.visible_intercept[chosen],
        )
    )
    batch = replace(batch, X=in_double(batch.X), visible=batch.visible[:, chosen])
    penalty = make_penalty(settings, batch.visible, batch.weight, every_intercept=True)
    alpha, _, points = search_penalty(settings, penalty, model, batch, variance, with_hidden=False)
    return max(alpha, 1 / max(n_rows, MIN_SEARCH_ROWS)), points


def path_record(points: list[PathPoint]) -> dict[str, np.ndarray]:
    """Return the tried penalties and their scores as the columns of `alpha_path_`."""
    names = ("n_hidden", "alpha", "log_likelihood", "log_loss")
    return {name: np.array([getattr(point, name) for point in points]) for name in names}
