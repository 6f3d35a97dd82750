"""Automatic choices of CRBMClassifier: ``solver="auto"`` and the search for ``alpha="auto"``.

The search is used by ImageCRBM as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies.rbm import ConditionalRBM
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.learning.data import Batch, mean_square, smoothed_log_odds
from skcrbm.learning.lbfgs import fit_rows
from skcrbm.learning.objectives import Objective, row_scores
from skcrbm.learning.penalties import L2, crbm_penalty
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
from skcrbm.utils.fitting import LiveLine, say
from skcrbm.utils.limits import CONVEX_PATH_ENTRIES, MIN_SEARCH_ROWS
from skcrbm.utils.options import is_auto
from skcrbm.utils.parallel import one_blas_thread

# Value of alpha="auto" in a first `partial_fit`, which searches no penalty and scales no columns,
# for columns with a mean square of 1; the least root mean square of columns that it is adapted to.
PLAIN_ALPHA, _LEAST_SCALE = 0.1, 0.05
# Penalty divided by the total variance of the columns, if there are too few rows for a search. It
# is a compromise between the best values for ten columns and for hundreds of columns.
_FEW_ROWS_ALPHA = 3e-3
# Weak penalty on W and the intercepts, as strong as the loss of a tenth of a row.
_WEAK = 0.1
# Number of folds of the split; the search evaluates only as many of these folds as it needs.
_N_FOLDS = 5
# The folds do not depend on `random_state`, so that the penalties of different seeds, and of
# models with more or fewer hidden units, can be compared.
_FOLD_SEED = 0
# Minimum and maximum number of outputs on which `search_convex_penalty` searches the penalty.
_LEAST_OUTPUTS, _MOST_OUTPUTS = 8, 32
# The search evaluates folds until they have this many validation rows in total, which is enough for
# a reliable choice: for models without hidden units, and for models with hidden units.
_CONVEX_ROWS, _HIDDEN_ROWS = 3000, 1500
# Factor between two neighbouring penalties of the search.
_STEP = np.sqrt(10.0)
# The search starts at the penalty _START times the total variance of the columns, and stays between
# _LEAST and _MOST times this penalty.
_START, _LEAST, _MOST = 1e-3, 1e-4, 1e6
# With hidden units the search starts at this multiple of the best penalty without hidden units,
# because the best penalty is then usually a little larger.
_HIDDEN_FACTOR = 2.0
# Hidden units may increase the log loss of the marginals by this share of the log loss, or by this
# share of the gain in log-likelihood, whichever is more.
_TOLERATED, _OF_GAIN = 0.01, 0.1


def partial_scale(X: Any, weight: np.ndarray) -> float:
    """Return the root mean square of the columns of the first rows of `partial_fit`, at most 1.

    Sparse columns, such as words, have a small scale and large coefficients. A penalty and a step
    size for standardised columns would hold these coefficients near 0.
    """
    scale = np.sqrt(mean_square(X, weight) / max(1, X.shape[1]))
    return float(np.clip(scale, _LEAST_SCALE, 1.0)) if scale > 0 else 1.0


def choose_solver(
    solver: str | Solver,
    early_stopping: bool | str | LossPlateau,
    rule: LearningRule,
    method: InferenceMethod,
    partial: bool,
) -> Solver:
    """Return the solver of a fit, and choose it if `solver` is "auto".

    "auto" is L-BFGS if the likelihood is exact, averaged gradient descent if it is approximate, and
    Adam in the other cases: other learning rules, `partial_fit`, and an `early_stopping` that needs
    epochs. Raise a ValueError if the user chose L-BFGS and it cannot be used.
    """
    automatic = is_auto(solver)
    chosen = LBFGS() if automatic else resolve_solver(solver)
    if not isinstance(chosen, LBFGS):
        return chosen
    obstacles = {
        "partial_fit, which sees only a part of the rows": partial,
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
            "solver='lbfgs' maximises the exact likelihood of all rows at once, so it cannot be "
            f"used with {found[0]}; use solver='auto', 'asgd', 'adam' or 'sgd'"
        )
    by_adam = partial or not isinstance(rule, Likelihood) or method.name == "exact"
    return Adam() if by_adam else AveragedSGD()


# ------------------------------------------------------------------------- the penalty


class PenaltySettings(NamedTuple):
    """Settings of an estimator that the search for its penalty needs."""

    alpha_hidden: float | str
    categorical: bool  # True if the outputs are the states of a single categorical unit
    max_iter: int | None  # maximum number of iterations of a fit
    n_jobs: int | None
    verbose: int


def make_penalty(
    settings: PenaltySettings, visible: np.ndarray, weight: np.ndarray, *, every_intercept: bool
) -> Callable[[float], L2]:
    """Return the function ``penalty(alpha)``, which makes the `L2` penalty for fits by L-BFGS.

    The penalty pulls intercepts weakly towards the log-odds of the labels in `visible` (N, V). With
    `every_intercept` it pulls all intercepts; otherwise only those that would become infinite,
    because their labels are 0 in all rows or 1 in all rows.
    """
    # With a given penalty, weights count as copies of rows. With a search only their ratios count.
    n_rows = len(visible) if every_intercept else float(weight.sum())
    weak = _WEAK / max(n_rows, MIN_SEARCH_ROWS)
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
    """Find alpha by cross-validation, or use a fixed value if there are too few rows.

    The search starts from `model`, on the rows of `batch`, whose X is float64. All penalties are
    proportional to `variance`, the total variance of the columns of X. If `with_hidden` is False,
    only the model without hidden units is searched.

    Return alpha, a model from which the fit on all rows can start, and the tried penalties.
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
        # For stochastic training `max_iter` is a number of epochs, which does not limit the search.
        max_iter=settings.max_iter if with_hidden else None,
        n_jobs=settings.n_jobs,
        live=LiveLine(settings.verbose),
    )
    try:
        found = path.search(model, batch, folds, n_hidden if with_hidden else 0, _START * variance)
    finally:
        path.live.end()
    return found.alpha, found.model, found.points


def search_convex_penalty(
    settings: PenaltySettings, model: ConditionalRBM, batch: Batch, variance: float
) -> tuple[float, list[PathPoint]]:
    """Find alpha for stochastic training: the best penalty of the model without hidden units.

    Without hidden units the model is a logistic regression per output, with a common penalty. A
    sample of the outputs determines this penalty as well as hundreds of outputs do, so the search
    uses a sample to save time. The result is at least 1 / n_rows, because hidden units need some
    penalty even if the regressions need none.
    """
    n_rows, n_visible = batch.visible.shape
    affordable = CONVEX_PATH_ENTRIES // max(1, n_rows * batch.X.shape[1])
    n_outputs = min(n_visible, max(_LEAST_OUTPUTS, min(_MOST_OUTPUTS, affordable)))
    if settings.categorical:
        n_outputs = n_visible
    varying = (batch.visible == 0).any(axis=0) & (batch.visible == 1).any(axis=0)
    # Choose at random, and outputs with a constant value only if there are too few others.
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


# ----------------------------------------------------------------- the search over penalties


class _Effort(NamedTuple):
    """Limits of a stage of the search: without hidden units, or with hidden units."""

    first: int  # maximum number of iterations of the first fit on a fold
    later: int  # the same for later fits, which start from the fit with the previous penalty
    share: float  # a fit stops if ten iterations improve the objective by less than this share
    n_down: int  # maximum number of steps to smaller penalties
    n_up: int  # maximum number of steps to larger penalties


_CONVEX = _Effort(60, 30, 5e-4, 50, 50)
_HIDDEN = _Effort(60, 25, 1e-3, 1, 2)


class PathPoint(NamedTuple):
    """A penalty that was tried, with its scores."""

    n_hidden: int
    alpha: float
    log_likelihood: float  # mean over the validation rows
    log_loss: float  # log loss of the marginals, summed over outputs, mean over validation rows


@dataclass
class PathResult:
    """Result of a search by `PenaltyPath`."""

    alpha: float
    model: Any  # start of the fit on all rows; has no hidden units if they do not help
    points: list[PathPoint] = field(default_factory=list)  # in the order of the search


class _Trial(NamedTuple):
    """A penalty, its fitted models (one per fold), and the losses of the validation rows."""

    alpha: float
    models: list
    losses: np.ndarray  # (rows, 2): minus log-likelihood, log loss of the marginals
    weight: np.ndarray

    @property
    def score(self):
        return float(self.weight @ self.losses[:, 0] / self.weight.sum())


@dataclass(frozen=True, kw_only=True)
class PenaltyPath:
    """Search for the penalty by cross-validation; the fields are its options."""

    objective: Objective
    penalty: Callable[[float], L2]  # makes the penalty of a fit from alpha
    inference: InferenceMethod  # exact inference, for the scores of validation rows
    max_iter: int | None  # maximum number of iterations of any fit
    n_jobs: int | None = None
    live: LiveLine = field(default_factory=lambda: LiveLine(0))  # prints a line for each penalty

    def search(
        self,
        model,
        batch: Batch,
        folds: list[tuple[np.ndarray, np.ndarray]],
        n_hidden_folds: int,
        start: float,
    ) -> PathResult:
        """Find the best penalty, starting at `start`, and decide whether hidden units help.

        `folds` contains pairs (train, validation) of row indices. The first `n_hidden_folds` of
        them are used for models with hidden units, which are not tried if the number is 0.
        """
        points = []
        parts = [(batch.rows(train), batch.rows(held_out)) for train, held_out in folds]
        total = batch.weight.sum()
        limits = start * _LEAST, start * _MOST
        convex = _without_hidden(model)
        stage = _Search(self, parts, total, _CONVEX, points)
        with one_blas_thread():
            best, alpha = stage.best_penalty([convex] * len(parts), start, limits)
        n_hidden = model.params.weights.shape[1]
        if n_hidden == 0 or n_hidden_folds == 0:
            return PathResult(alpha, best.models[0], points)
        parts = parts[:n_hidden_folds]
        models = [_with_hidden(m, model) for m in best.models[: len(parts)]]
        stage = _Search(self, parts, total, _HIDDEN, points)
        with one_blas_thread():
            deep, deep_alpha = stage.best_penalty(models, _HIDDEN_FACTOR * alpha, limits)
        # The fit on all rows can start from the model of any fold.
        if _hidden_units_help(best, deep):
            return PathResult(deep_alpha, deep.models[-1], points)
        self.live.end()
        say(
            self.live.verbose,
            "Hidden units do not improve the validation likelihood and are left out",
        )
        return PathResult(alpha, best.models[0], points)


class _Search:
    """Search for the penalty of models with a given number of hidden units."""

    def __init__(self, path, folds, total, effort, points):
        self.path, self.folds, self.total, self.points = path, folds, total, points
        self.effort = effort

    def best_penalty(self, models, start, limits):
        """Change the penalty by factors of `_STEP` as long as the score improves, first upwards.

        Smaller scores are better. Return the best trial, and the penalty that minimises a parabola
        through the score of this trial and the scores of its two neighbours.
        """
        effort = self.effort
        trials = {0: self._try(models, start, effort.first)}
        for direction, n_steps in ((1, effort.n_up), (-1, effort.n_down)):
            at = min(trials, key=lambda i: trials[i].score)
            if direction < 0 and at > 0:  # a larger penalty was better: do not try smaller values
                break
            for _ in range(n_steps):
                alpha = start * _STEP ** (at + direction)
                if not limits[0] <= alpha <= limits[1]:
                    break
                trials[at + direction] = self._try(trials[at].models, alpha, effort.later)
                if trials[at + direction].score >= trials[at].score:
                    break
                at += direction
        at = min(trials, key=lambda i: trials[i].score)
        shift = 0.0
        if at - 1 in trials and at + 1 in trials:
            below, here, above = (trials[at + k].score for k in (-1, 0, 1))
            bend = below - 2 * here + above
            if bend > 0:
                shift = 0.5 * (below - above) / bend
        return trials[at], float(start * _STEP ** (at + shift))

    def _try(self, models, alpha, max_iter):
        path = self.path
        if path.max_iter is not None:
            max_iter = min(max_iter, path.max_iter)
        fitted, losses = [], []
        for (train, held_out), model in zip(self.folds, models):
            # The objective is the mean loss of a row plus the penalty, so a fit on fewer rows needs
            # a proportionally larger penalty for the same effect.
            penalty = path.penalty(alpha * self.total / train.weight.sum())
            fitted.append(
                fit_rows(model, train, path.objective, penalty, max_iter, self.effort.share)
            )
            losses += [
                row_scores(fitted[-1], block.computed(), path.inference, path.n_jobs)
                for block in held_out.blocks()
            ]
        weight = np.concatenate([held_out.weight for _, held_out in self.folds])
        tried = _Trial(alpha, fitted, np.vstack(losses), weight)
        means = weight @ tried.losses / weight.sum()
        n_hidden = models[0].params.weights.shape[1]
        self.points.append(PathPoint(n_hidden, alpha, -means[0], means[1]))
        entries = weight if models[0].energy_type.categorical else self._weight_of_labels()
        per_label = means[1] * weight.sum() / entries.sum()
        path.live.show(
            f"alpha {alpha:.3g}  {n_hidden} hidden units  validation log-likelihood "
            f"{-means[0]:.4f} per row  log loss {per_label:.4f} per label",
        )
        return tried

    def _weight_of_labels(self):
        """Return the weighted number of observed labels in the validation rows of each fold."""
        return np.array([b.weight @ (~np.isnan(b.visible)).sum(axis=1) for _, b in self.folds])


def _hidden_units_help(convex, deep):
    """Return True if hidden units improve the validation likelihood and keep good marginals.

    The likelihood must improve by more than its standard error. The log loss of the marginals may
    increase by no more than `tolerated`.
    """
    n = len(deep.losses)
    weight = deep.weight / deep.weight.sum()
    change = deep.losses - convex.losses[:n]
    mean = weight @ change
    error = np.sqrt((weight**2) @ (change - mean) ** 2)
    log_loss = weight @ convex.losses[:n, 1]
    tolerated = max(error[1], _TOLERATED * log_loss, -_OF_GAIN * mean[0])
    return mean[0] < -error[0] and mean[1] <= tolerated


def _without_hidden(model):
    p = model.params
    return model._replace(
        params=p._replace(
            weights=p.weights[:, :0],
            hidden_coef=p.hidden_coef[:0],
            visible_intercept=p.visible_intercept + 0.5 * p.weights.sum(axis=1),
            hidden_intercept=p.hidden_intercept[:0],
        )
    )


def _with_hidden(convex, model):
    """Return the model `convex` with the hidden units of `model` added.

    The hidden units start with probabilities of 1/2; the intercepts compensate for their effect.
    """
    p = model.params
    return model._replace(
        params=p._replace(
            visible_coef=convex.params.visible_coef,
            visible_intercept=convex.params.visible_intercept - 0.5 * p.weights.sum(axis=1),
        )
    )
