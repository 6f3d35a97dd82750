"""The penalty found by validation: without hidden units first, then with them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skcrbm.learning._full_batch import fit_rows
from skcrbm.learning._scoring import row_scores
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.progress import LiveLine, say

# Factor between neighbouring penalties.
_STEP = np.sqrt(10.0)
# Where the search begins relative to the total variance of the columns, and how far it goes.
START, _LEAST, _MOST = 1e-3, 1e-4, 1e6
# Iterations of the first fit on a fold and of those that begin at a neighbour's parameters, and
# the share of the objective that ten of them must gain: without, and with hidden units.
_CONVEX = (60, 30, 5e-4)
_HIDDEN = (60, 25, 1e-3)
# With hidden units the best penalty is a little larger as a rule.
_HIDDEN_FACTOR = 2.0
# A better likelihood is worth a worse log loss of the marginals up to this share of that, or of
# what the likelihood gains, if that is more.
_TOLERATED, _OF_GAIN = 0.01, 0.1


class PathPoint(NamedTuple):
    """A penalty that was tried.

    Attributes
    ----------
    n_hidden : int
    alpha : float
    log_likelihood : float
        Mean over the validation rows.
    log_loss : float
        Of the marginals, mean over the validation rows, summed over the outputs.
    """

    n_hidden: int
    alpha: float
    log_likelihood: float
    log_loss: float


@dataclass
class PathResult:
    """What the search has found.

    Attributes
    ----------
    alpha : float
    model : model
        Where the fit on all rows begins; without hidden units if they do not help.
    points : list of PathPoint
        In the order in which they were tried.
    """

    alpha: float
    model: Any
    points: list = field(default_factory=list)


class _Tried(NamedTuple):
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
    """How a penalty is searched; options only.

    Attributes
    ----------
    objective : Objective
    penalty : callable
        ``penalty(alpha)``, the `Penalty` of the fit on all rows.
    inference : InferenceMethod
        Exact.
    max_iter : int or None
        Iterations at most of any fit.
    n_jobs : int or None
    live : LiveLine
        Tells of each penalty.
    """

    objective: Any
    penalty: Any
    inference: Any
    max_iter: int | None
    n_jobs: int | None = None
    live: LiveLine = field(default_factory=lambda: LiveLine(0))

    def search(self, model, batch, folds, n_hidden_folds, start):
        """Find the penalty, and whether hidden units help.

        Parameters
        ----------
        model : ConditionalRBM
            To start from; without hidden units only the convex model is searched.
        batch : Batch
            All rows, X in float64.
        folds : list of (train, validation)
            Indices of rows.
        n_hidden_folds : int
            With hidden units only so many of the folds are used; 0: the search ends before.
        start : float
            Penalty to begin with.

        Returns
        -------
        PathResult
        """
        points = []
        folds = [(batch.rows(train), batch.rows(held_out)) for train, held_out in folds]
        total = batch.weight.sum()
        limits = start * _LEAST, start * _MOST
        convex = _without_hidden(model)
        stage = _Stage(self, folds, total, _CONVEX, points)
        with one_blas_thread():
            best, alpha = stage.climb([convex] * len(folds), start, limits, (50, 50))
        n_hidden = model.params.weights.shape[1]
        if n_hidden == 0 or n_hidden_folds == 0:
            return PathResult(alpha, best.models[0], points)
        folds = folds[:n_hidden_folds]
        models = [_with_hidden(m, model) for m in best.models[: len(folds)]]
        stage = _Stage(self, folds, total, _HIDDEN, points)
        with one_blas_thread():
            deep, deep_alpha = stage.climb(models, _HIDDEN_FACTOR * alpha, limits, (1, 2))
        if _hidden_units_help(best, deep):
            return PathResult(deep_alpha, deep.models[-1], points)
        self.live.end()
        say(
            self.live.verbose,
            "Hidden units do not improve the validation likelihood: none are kept",
        )
        return PathResult(alpha, best.models[0], points)


class _Stage:
    """The search over the penalty for models of one size."""

    def __init__(self, path, folds, total, effort, points):
        self.path, self.folds, self.total, self.points = path, folds, total, points
        self.first, self.later, self.share = effort

    def climb(self, models, start, limits, reach):
        """Walk in steps of `_STEP` while the score gets better; then a parabola.

        Returns
        -------
        best : _Tried
        alpha : float
            Where a parabola through the best three scores is lowest.
        """
        tried = {0: self._try(models, start, self.first)}
        for direction, n_steps in ((1, reach[1]), (-1, reach[0])):
            at = min(tried, key=lambda i: tried[i].score)
            if direction < 0 and at > 0:  # better upwards: nothing to look for below
                break
            for _ in range(n_steps):
                alpha = start * _STEP ** (at + direction)
                if not limits[0] <= alpha <= limits[1]:
                    break
                tried[at + direction] = self._try(tried[at].models, alpha, self.later)
                if tried[at + direction].score >= tried[at].score:
                    break
                at += direction
        at = min(tried, key=lambda i: tried[i].score)
        shift = 0.0
        if at - 1 in tried and at + 1 in tried:
            below, here, above = (tried[at + k].score for k in (-1, 0, 1))
            bend = below - 2 * here + above
            if bend > 0:
                shift = 0.5 * (below - above) / bend
        return tried[at], float(start * _STEP ** (at + shift))

    def _try(self, models, alpha, max_iter):
        path = self.path
        if path.max_iter is not None:
            max_iter = min(max_iter, path.max_iter)
        fitted, losses = [], []
        for (train, held_out), model in zip(self.folds, models):
            # A prior is worth the same number of rows, however many there are.
            penalty = path.penalty(alpha * self.total / train.weight.sum())
            fitted.append(fit_rows(model, train, path.objective, penalty, max_iter, self.share))
            losses += [
                row_scores(fitted[-1], block.worked_out(), path.inference, path.n_jobs)
                for block in held_out.blocks()
            ]
        weight = np.concatenate([held_out.weight for _, held_out in self.folds])
        tried = _Tried(alpha, fitted, np.vstack(losses), weight)
        means = weight @ tried.losses / weight.sum()
        n_hidden = models[0].params.weights.shape[1]
        self.points.append(PathPoint(n_hidden, alpha, -means[0], means[1]))
        path.live.show(
            f"alpha {alpha:.3g}  {n_hidden} hidden units  validation log-likelihood "
            f"{-means[0]:.4f}  log loss {means[1]:.4f}",
        )
        return tried


def _hidden_units_help(convex, deep):
    """Whether the likelihood is better beyond its noise, and the marginals hardly worse."""
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
    """Give the convex model the hidden units of another one, which begin half on."""
    p = model.params
    return model._replace(
        params=p._replace(
            visible_coef=convex.params.visible_coef,
            visible_intercept=convex.params.visible_intercept - 0.5 * p.weights.sum(axis=1),
        )
    )
