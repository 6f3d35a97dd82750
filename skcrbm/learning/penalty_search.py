"""Search for the L2 penalty by validation: without hidden units first, then with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skcrbm.inference import InferenceMethod
from skcrbm.learning.data import Batch
from skcrbm.learning.lbfgs import fit_rows
from skcrbm.learning.objectives import Objective, row_scores
from skcrbm.learning.penalties import L2
from skcrbm.utils.fitting import LiveLine, say
from skcrbm.utils.parallel import one_blas_thread

# Factor between neighbouring penalties.
_STEP = np.sqrt(10.0)
# The search begins at START times the total variance of the columns; these are its bounds,
# relative to that penalty.
START, _LEAST, _MOST = 1e-3, 1e-4, 1e6
# With hidden units the best penalty is usually a little larger.
_HIDDEN_FACTOR = 2.0
# A better likelihood may cost log loss of the marginals up to this share of the log loss, or up to
# this share of the gain in likelihood if that is more.
_TOLERATED, _OF_GAIN = 0.01, 0.1


class _Effort(NamedTuple):
    """Limits of one stage of the search."""

    first: int  # most iterations of the first fit on a fold
    later: int  # most iterations of a fit that begins at the parameters of a neighbour
    share: float  # share of the objective that ten iterations must gain
    n_down: int  # most steps to smaller penalties
    n_up: int  # most steps to larger penalties


_CONVEX = _Effort(60, 30, 5e-4, 50, 50)
_HIDDEN = _Effort(60, 25, 1e-3, 1, 2)


class PathPoint(NamedTuple):
    """A penalty that was tried, with its scores."""

    n_hidden: int
    alpha: float
    log_likelihood: float  # mean over the validation rows
    log_loss: float  # of the marginals: mean over the validation rows, summed over the outputs


@dataclass
class PathResult:
    """Result of the search."""

    alpha: float
    model: Any  # start of the fit on all rows; without hidden units if they do not help
    points: list[PathPoint] = field(default_factory=list)  # in the order of the search


class _Trial(NamedTuple):
    """A penalty, the models of the folds, and the scores of their validation rows."""

    alpha: float
    models: list
    losses: np.ndarray  # (rows, 2): minus log-likelihood, log loss of the marginals
    weight: np.ndarray

    @property
    def score(self):
        return float(self.weight @ self.losses[:, 0] / self.weight.sum())


@dataclass(frozen=True, kw_only=True)
class PenaltyPath:
    """Options of the search."""

    objective: Objective
    penalty: Callable[[float], L2]  # penalty(alpha) is the penalty of the fit on all rows
    inference: InferenceMethod  # exact
    max_iter: int | None  # most iterations of any fit
    n_jobs: int | None = None
    live: LiveLine = field(default_factory=lambda: LiveLine(0))  # reports each penalty

    def search(
        self,
        model,
        batch: Batch,
        folds: list[tuple[np.ndarray, np.ndarray]],
        n_hidden_folds: int,
        start: float,
    ) -> PathResult:
        """Find the penalty, and decide if hidden units help.

        Parameters
        ----------
        model : ConditionalRBM
            Model to start from. Without hidden units only the convex model is searched.
        batch : Batch
            All rows, X in float64.
        folds : list of (train, validation)
            Indices of rows.
        n_hidden_folds : int
            Number of folds that are used with hidden units; with 0 they are not tried.
        start : float
            First penalty.
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
        # The model of any fold can start the fit on all rows.
        if _hidden_units_help(best, deep):
            return PathResult(deep_alpha, deep.models[-1], points)
        self.live.end()
        say(
            self.live.verbose,
            "Hidden units do not improve the validation likelihood and are left out",
        )
        return PathResult(alpha, best.models[0], points)


class _Search:
    """The search over the penalty for models of one size."""

    def __init__(self, path, folds, total, effort, points):
        self.path, self.folds, self.total, self.points = path, folds, total, points
        self.effort = effort

    def best_penalty(self, models, start, limits):
        """Change the penalty in steps of `_STEP` while the score improves; first up, then down.

        Returns the best trial, and the penalty at which a parabola through the best three scores is
        lowest.
        """
        effort = self.effort
        trials = {0: self._try(models, start, effort.first)}
        for direction, n_steps in ((1, effort.n_up), (-1, effort.n_down)):
            at = min(trials, key=lambda i: trials[i].score)
            if direction < 0 and at > 0:  # no smaller penalty can be better
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
            # A penalty is worth the same number of rows in a fold as in the fit on all rows.
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
        """Return the number of observed labels in each fold, counted with the row weights."""
        return np.array([b.weight @ (~np.isnan(b.visible)).sum(axis=1) for _, b in self.folds])


def _hidden_units_help(convex, deep):
    """Return True if the likelihood gains more than its noise and the marginals hardly lose."""
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
    """Return the convex model with the hidden units of `model`, which begin half on."""
    p = model.params
    return model._replace(
        params=p._replace(
            visible_coef=convex.params.visible_coef,
            visible_intercept=convex.params.visible_intercept - 0.5 * p.weights.sum(axis=1),
        )
    )
