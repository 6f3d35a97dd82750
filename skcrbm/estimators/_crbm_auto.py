"""Choose the solver (``solver="auto"``) and the penalty (``alpha="auto"``) of CRBMClassifier.

ImageCRBM and MSSVMCRBM use the search for the penalty as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.inference import InferenceMethod
from skcrbm.inference.base import resolve_method
from skcrbm.learning.data import Batch, mean_square, n_used_columns, smoothed_log_odds
from skcrbm.learning.label_noise import NoisyLikelihood
from skcrbm.learning.lbfgs import fit_rows, n_states
from skcrbm.learning.objectives import Objective, row_scores
from skcrbm.learning.penalties import L2, crbm_penalty
from skcrbm.learning.penalty_path import geometric_penalties, penalty_at, penalty_path
from skcrbm.learning.rules import LearningRule, Likelihood
from skcrbm.learning.solvers import (
    LBFGS,
    Adam,
    AveragedSGD,
    LossPlateau,
    Solver,
    resolve_solver,
)
from skcrbm.model_selection.folds import N_SEARCH_FOLDS, search_folds
from skcrbm.targets.weights import (
    count_rows_of,
)
from skcrbm.utils.columns import in_double
from skcrbm.utils.fitting import LiveLine, say
from skcrbm.utils.limits import CONVEX_PATH_ENTRIES, HIDDEN_STATES, MIN_SEARCH_ROWS
from skcrbm.utils.options import is_auto
from skcrbm.utils.parallel import one_blas_thread

# `partial_fit` cannot search for a penalty and does not scale columns. If the first call of a model
# is `partial_fit`, alpha="auto" stands for PLAIN_ALPHA if the entries of X have a root mean square
# of 1. _LEAST_SCALE is the smallest scale of columns that `partial_scale` returns.
PLAIN_ALPHA, _LEAST_SCALE = 0.1, 0.01
# If there are too few rows for a search, alpha is this number times the total variance of the
# columns. It is a compromise between the best values for ten columns and for hundreds of columns.
_FEW_ROWS_ALPHA = 3e-3
# Factor of the weak L2 penalty on W and the intercepts, if the objective is the sum (not the mean)
# of the losses of all rows.
_WEAK = 0.1
# Seed of the split into folds. It does not depend on `random_state`, so that the penalties of
# different seeds, and of models with more or fewer hidden units, can be compared.
_FOLD_SEED = 0
# Smallest and largest number of outputs for which `search_convex_penalty` fits models. If y has
# more outputs, it uses a random sample of the outputs, to save time.
_LEAST_OUTPUTS, _MOST_OUTPUTS = 8, 32
# Number of validation rows that is enough for a reliable choice: _CONVEX_ROWS for models without
# hidden units, and _HIDDEN_ROWS for models with hidden units. The search evaluates folds until they
# have about this number of validation rows in total.
_CONVEX_ROWS, _HIDDEN_ROWS = 3000, 1500
# Limits of the search on large data. If y has more than _CONVEX_ENTRIES entries, the penalty is
# searched on a random sample of the columns of y, with at least _LEAST_SAMPLED columns. If an
# evaluation of a model with hidden units enumerates more than HIDDEN_STATES states, such models are
# fitted with a single penalty only, to a random sample of the training rows of the first fold.
_CONVEX_ENTRIES, _LEAST_SAMPLED = 2**21, 64
# The search starts at the penalty _START times the total variance of the columns.
_START = 1e-3
# The search with hidden units starts at this multiple of the best penalty without hidden units. The
# best penalty with hidden units is usually a little larger.
_HIDDEN_FACTOR = 2.0
# A model with hidden units is rejected if it increases the log loss of the marginals by more than
# _TOLERATED times the log loss, and also by more than _OF_GAIN times the gain in log-likelihood.
_TOLERATED, _OF_GAIN = 0.01, 0.1


def partial_scale(X: Any, weight: np.ndarray) -> float:
    """Return the scale of the columns in the first call of `partial_fit`.

    The scale is the root mean square of the entries of X, clipped to [`_LEAST_SCALE`, 1]. Columns
    that contain only zeros are ignored. Sparse columns, such as words, have a small scale and
    therefore need large coefficients. A penalty and a step size that suit standardised columns
    would keep these coefficients near 0.
    """
    scale = np.sqrt(mean_square(X, weight) / max(1, n_used_columns(X)))
    return float(np.clip(scale, _LEAST_SCALE, 1.0)) if scale > 0 else 1.0


def choose_solver(
    solver: str | Solver,
    early_stopping: bool | str | LossPlateau,
    rule: LearningRule,
    method: InferenceMethod,
) -> Solver:
    """Return the solver of a `fit`, and choose one if `solver` is "auto".

    "auto" chooses Adam for learning rules other than maximum likelihood, and for exact inference if
    `early_stopping` is a rule that needs epochs. Otherwise it chooses L-BFGS if inference is exact,
    and averaged gradient descent if inference is approximate. A ValueError is raised if the user
    chose L-BFGS and it cannot be used.
    """
    obstacles = {
        f"learning={rule.name!r}": not isinstance(rule, Likelihood),
        f"{method.name!r} inference, which is approximate": method.name != "exact",
        f"early_stopping={early_stopping!r}": (
            early_stopping is True or isinstance(early_stopping, LossPlateau)
        ),
    }
    found = [name for name, holds in obstacles.items() if holds]
    if not is_auto(solver):
        chosen = resolve_solver(solver)
        return _without_obstacles(chosen, found)
    if not found:
        return LBFGS()
    by_adam = not isinstance(rule, Likelihood) or method.name == "exact"
    return Adam() if by_adam else AveragedSGD()


def choose_stream_solver(solver: str | Solver) -> Any:
    """Return the solver of `partial_fit`; "auto" stands for Adam, and L-BFGS is not possible."""
    chosen = Adam() if is_auto(solver) else resolve_solver(solver)
    return _without_obstacles(chosen, ["partial_fit, which sees only a part of the rows"])


def _without_obstacles(solver, obstacles):
    """Return the solver; raise a ValueError if it is L-BFGS and there is an obstacle."""
    if isinstance(solver, LBFGS) and obstacles:
        raise ValueError(
            "solver='lbfgs' maximises the exact likelihood of all rows at once, so it cannot be "
            f"used with {obstacles[0]}. Use solver='auto', 'asgd', 'adam' or 'sgd'"
        )
    return solver


# ------------------------------------------------------------------------- the penalty


class PenaltySettings(NamedTuple):
    """Settings of an estimator that the search for the penalty needs."""

    alpha_hidden: float | str
    # True for visible units of outputs with three or more classes: array (V,), or a bool for all
    # units
    exclusive: bool | np.ndarray
    max_iter: int | None  # maximum number of iterations of a fit
    n_jobs: int | None
    verbose: int
    likelihood: Likelihood = Likelihood()  # rule of the fits on folds


def make_penalty(
    settings: PenaltySettings,
    visible: np.ndarray,
    weight: np.ndarray,
    origin: np.ndarray | None = None,
    *,
    every_intercept: bool,
) -> Callable[[float], L2]:
    """Return the function ``penalty(alpha)``, which makes the `L2` penalty for fits by L-BFGS.

    The penalty pulls intercepts weakly towards the log-odds of the labels in `visible` (N, V). If
    `every_intercept` is True, it pulls all intercepts. Otherwise it pulls only the intercepts of
    labels that are 0 in all rows or 1 in all rows, because these would become infinite. If some
    rows are copies, `origin` (N,) holds the index of the row from which each row was copied.
    """
    count = count_rows_of(origin, len(visible))
    # In a search for alpha, `every_intercept` is True. Multiplying all weights by a factor must not
    # change the search, so n_rows does not depend on the weights. In a fit with a given alpha, a
    # row of weight 2 counts as two rows, so n_rows is the sum of the weights.
    n_rows = count if every_intercept else float(weight.sum())
    weak = _WEAK / max(n_rows, MIN_SEARCH_ROWS)
    positive = (visible == 1).any(axis=0)
    negative = (visible == 0).any(axis=0)
    pull = np.where(positive & negative, weak if every_intercept else 0.0, weak)
    on_weights = weak if isinstance(settings.alpha_hidden, str) else settings.alpha_hidden
    on_hidden = weak if every_intercept else 0.0
    centre = smoothed_log_odds(visible, weight, settings.exclusive, count)

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

    The search starts from `model` and uses the rows of `batch`, whose X must be float64. All
    penalties are proportional to `variance`, the total variance of the columns of X. If
    `with_hidden` is False, only models without hidden units are tried.

    Return alpha, a model from which the fit on all rows can start, and the tried penalties.
    """
    variance = variance if variance > 0 else 1.0
    n_rows, n_visible = batch.visible.shape
    if count_rows_of(batch.origin, n_rows) < MIN_SEARCH_ROWS:
        return _FEW_ROWS_ALPHA * variance, model, []
    found = None
    n_sampled = max(_LEAST_SAMPLED, _CONVEX_ENTRIES // n_rows)
    if n_sampled < n_visible and not np.any(settings.exclusive):
        found = _search_on_sample(settings, model, batch, variance, n_sampled)
        if model.params.weights.shape[1] == 0:
            return found.alpha, model, found.points
    folds = search_folds(batch.visible, batch.origin, _CONVEX_ROWS, _FOLD_SEED)
    exact = resolve_method("exact")
    search = PenaltySearch(
        objective=settings.likelihood.conditional(exact, settings.n_jobs),
        penalty=penalty,
        inference=exact,
        # `with_hidden` is False if the solver is stochastic. `max_iter` is then a number of epochs,
        # and must not limit the L-BFGS iterations of the search.
        max_iter=settings.max_iter if with_hidden else None,
        n_jobs=settings.n_jobs,
        live=LiveLine(settings.verbose),
    )
    try:
        n_hidden = int(np.clip(_HIDDEN_ROWS // n_rows, 1, N_SEARCH_FOLDS)) if with_hidden else 0
        found = search.search(model, batch, folds, n_hidden, _START * variance, found)
    finally:
        search.live.end()
    return found.alpha, found.model, found.points


def _search_on_sample(settings, model, batch, variance, n_outputs):
    """Search the penalty of the model without hidden units on a random sample of the outputs.

    The log-likelihoods and log losses are sums over the sampled outputs. They are multiplied by the
    number of all outputs and divided by the number of sampled outputs, so that the results estimate
    the sums over all outputs.
    """
    n_visible = batch.visible.shape[1]
    convex = _without_hidden(model)
    settings, sample, batch = _sampled_outputs(settings, convex, batch, n_outputs)
    penalty = make_penalty(
        settings, batch.visible, batch.weight, batch.origin, every_intercept=True
    )
    alpha, _, points = search_penalty(settings, penalty, sample, batch, variance)
    ratio = n_visible / n_outputs
    points = [
        p._replace(log_likelihood=ratio * p.log_likelihood, log_loss=ratio * p.log_loss)
        for p in points
    ]
    return PathResult(alpha, model, points)


def _sampled_outputs(settings, model, batch, n_outputs):
    """Return the settings, the model and the batch for a random sample of the outputs.

    Outputs that have the same value in all rows are chosen only if there are too few other outputs.
    """
    varying = (batch.visible == 0).any(axis=0) & (batch.visible == 1).any(axis=0)
    order = np.random.RandomState(_FOLD_SEED).permutation(len(varying))
    chosen = np.sort(order[np.argsort(~varying[order], kind="stable")][:n_outputs])
    p = model.params
    params = p._replace(
        weights=p.weights[chosen],
        visible_coef=p.visible_coef[chosen],
        visible_intercept=p.visible_intercept[chosen],
    )
    if isinstance(settings.likelihood, NoisyLikelihood):
        settings = settings._replace(likelihood=settings.likelihood.of_outputs(chosen))
    batch = replace(batch, visible=batch.visible[:, chosen])
    return settings, model._replace(params=params), batch


def search_convex_penalty(
    settings: PenaltySettings, model: ConditionalRBM, batch: Batch, variance: float
) -> tuple[float, list[PathPoint]]:
    """Find alpha for stochastic training: the best penalty of the model without hidden units.

    Without hidden units the model is a logistic regression per output, with a common penalty. The
    search uses a sample of the outputs to save time, because a sample determines this penalty about
    as well as hundreds of outputs. The result is at least 1 / n_rows, because hidden units need
    some penalty even if the logistic regressions need no penalty.
    """
    n_rows, n_visible = batch.visible.shape
    affordable = CONVEX_PATH_ENTRIES // max(1, n_rows * batch.X.shape[1])
    n_outputs = min(n_visible, max(_LEAST_OUTPUTS, min(_MOST_OUTPUTS, affordable)))
    if np.any(settings.exclusive):
        n_outputs = n_visible
    settings, model, batch = _sampled_outputs(settings, model, batch, n_outputs)
    batch = replace(batch, X=in_double(batch.X))
    penalty = make_penalty(
        settings, batch.visible, batch.weight, batch.origin, every_intercept=True
    )
    alpha, _, points = search_penalty(settings, penalty, model, batch, variance, with_hidden=False)
    return max(alpha, 1 / max(n_rows, MIN_SEARCH_ROWS)), points


def without_hidden_units(
    settings: PenaltySettings, model: ConditionalRBM, batch: Batch, alpha: float
) -> Callable[[Batch], ConditionalRBM]:
    """Return a function ``fit(batch)`` that fits a model without hidden units to the batch.

    The fits start from `model`, whose hidden units are left out. The penalty `alpha` pulls the
    intercepts towards the log-odds of the labels in `batch`, which has all training rows.
    """
    penalty = make_penalty(
        settings, batch.visible, batch.weight, batch.origin, every_intercept=True
    )(alpha)
    objective = Likelihood().conditional(resolve_method("exact"), settings.n_jobs)
    start, dtype = _without_hidden(model), model.params.weights.dtype

    def fit(batch):
        batch = replace(batch, X=in_double(batch.X))
        with one_blas_thread():
            fitted = fit_rows(start, batch, objective, penalty, _CONVEX.first, _CONVEX.share)
        params = (p.astype(dtype, copy=False) for p in fitted.params)
        return fitted._replace(params=CRBMParams(*params))

    return fit


def path_record(points: Sequence[PathPoint]) -> dict[str, np.ndarray]:
    """Convert the tried penalties and their scores to a dict of arrays, `alpha_path_`."""
    names = ("n_hidden", "alpha", "log_likelihood", "log_loss")
    return {name: np.array([getattr(point, name) for point in points]) for name in names}


# ----------------------------------------------------------------- the search over penalties


class _Effort(NamedTuple):
    """Limits of a stage of the search. The first stage is without, the second with hidden units."""

    first: int  # maximum number of iterations of the first fit on a fold
    later: int  # maximum number of iterations of later fits, which start from the previous fit
    share: float  # a fit stops if ten iterations lower the objective by less than this share
    n_down: int  # maximum number of steps to smaller penalties
    n_up: int  # maximum number of steps to larger penalties


_CONVEX = _Effort(60, 30, 5e-4, 7, 11)
_SINGLE = _CONVEX._replace(n_down=0, n_up=0)
_HIDDEN = _Effort(60, 25, 1e-3, 1, 2)
_LARGE_HIDDEN = _HIDDEN._replace(n_down=0, n_up=0)


class PathPoint(NamedTuple):
    """A penalty that the search has tried, and the scores of the models with this penalty."""

    n_hidden: int
    alpha: float
    log_likelihood: float  # mean of log p(y | x) over the validation rows
    log_loss: float  # log loss of the marginals, summed over outputs and averaged over rows


@dataclass
class PathResult:
    """Result of a `PenaltySearch`."""

    alpha: float
    model: Any  # initial model of the fit on all rows
    points: list[PathPoint] = field(default_factory=list)  # in the order of the fits


class _Trial(NamedTuple):
    """Models that were fitted on the folds with a penalty, and losses of the n validation rows."""

    models: list
    losses: np.ndarray  # (n, 2): negative log-likelihood, and log loss of the marginals
    weight: np.ndarray  # (n,): weights of the validation rows

    @property
    def loss(self):
        """Mean negative log-likelihood of the validation rows."""
        return float(self.weight @ self.losses[:, 0] / self.weight.sum())


@dataclass(frozen=True, kw_only=True)
class PenaltySearch:
    """Options of a search for the penalty by cross-validation."""

    objective: Objective
    penalty: Callable[[float], L2]  # converts alpha to the penalty of a fit
    inference: InferenceMethod  # exact inference, for the scores of validation rows
    max_iter: int | None  # maximum number of iterations of each fit
    n_jobs: int | None = None
    live: LiveLine = field(default_factory=lambda: LiveLine(0))  # prints a line for each penalty

    def search(
        self,
        model,
        batch: Batch,
        folds: list[tuple[np.ndarray, np.ndarray]],
        n_hidden_folds: int,
        start: float,
        found: PathResult | None = None,
    ) -> PathResult:
        """Find the best penalty, starting at `start`, and decide whether hidden units help.

        `folds` contains pairs (train, validation) of row indices. Models with hidden units are
        fitted only on the first `n_hidden_folds` folds, and not at all if this number is 0. If
        `found` is given, it is the result of an earlier search without hidden units, and this part
        of the search is not repeated.
        """
        points = [] if found is None else found.points
        total = batch.weight.sum()
        convex = _without_hidden(model)
        best = None
        if found is None:
            parts = [(batch.rows(train), batch.rows(held_out)) for train, held_out in folds]
            stage = _Search(self, parts, total, _CONVEX, points)
            with one_blas_thread():
                best, alpha = stage.climb([convex] * len(parts), start)
            found = PathResult(alpha, best.models[0], points)
        if model.params.weights.shape[1] == 0 or n_hidden_folds == 0:
            return found
        folds, effort = folds[:n_hidden_folds], _HIDDEN
        n_train = max(_CONVEX_ROWS, HIDDEN_STATES // n_states(model))
        if n_train < len(folds[0][0]):
            folds, effort, best = [_sampled_rows(folds[0], n_train)], _LARGE_HIDDEN, None
        parts = [(batch.rows(train), batch.rows(held_out)) for train, held_out in folds]
        if best is None:
            stage = _Search(self, parts, total, _SINGLE, points)
            with one_blas_thread():
                best, _ = stage.climb([convex] * len(parts), found.alpha)
        models = [_with_hidden(m, model) for m in best.models[: len(parts)]]
        stage = _Search(self, parts, total, effort, points)
        with one_blas_thread():
            deep, alpha = stage.climb(models, _HIDDEN_FACTOR * found.alpha)
        # The fit on all rows can start from the model of any fold, for example the last.
        if _hidden_units_help(best, deep):
            return PathResult(alpha, deep.models[-1], points)
        self.live.end()
        say(
            self.live.verbose,
            "Hidden units do not improve the validation likelihood and are left out",
        )
        return found


def _sampled_rows(fold: tuple[np.ndarray, np.ndarray], n_train: int):
    """Return a fold (train, validation) that is reduced to random samples of its rows."""
    rng = np.random.RandomState(_FOLD_SEED)
    train, held_out = (rng.permutation(rows) for rows in fold)
    return np.sort(train[:n_train]), np.sort(held_out[:_CONVEX_ROWS])


class _Search:
    """Search for the penalty of models with a given number of hidden units."""

    def __init__(self, path, folds, total, effort, points):
        self.path, self.folds, self.total, self.points = path, folds, total, points
        self.effort = effort

    def climb(self, models, start):
        """Return the best trial on the path of penalties, and the penalty at its parabola's vertex.

        `models` has a model for each fold, from which the fits with the penalty `start` begin.
        """
        effort = self.effort

        def train(alpha, neighbour):
            if neighbour is None:
                return self._try(models, alpha, effort.first)
            return self._try(neighbour.models, alpha, effort.later)

        penalties = geometric_penalties(start, effort.n_down, effort.n_up)
        found = penalty_path(train, lambda trial: -trial.loss, penalties, effort.n_down)
        return found.best.fitted, float(penalty_at(start, found.vertex))

    def _try(self, models, alpha, max_iter):
        path = self.path
        if path.max_iter is not None:
            max_iter = min(max_iter, path.max_iter)
        fitted, losses = [], []
        for (train, held_out), model in zip(self.folds, models):
            # The objective is the mean loss over the rows plus the penalty. A fit on a part of the
            # rows therefore needs a proportionally larger penalty for the same effect as in a fit
            # on all rows.
            penalty = path.penalty(alpha * self.total / train.weight.sum())
            fitted.append(
                fit_rows(model, train, path.objective, penalty, max_iter, self.effort.share)
            )
            losses += [
                row_scores(
                    fitted[-1],
                    block.computed(),
                    path.inference,
                    path.n_jobs,
                    path.objective.noise,
                )
                for block in held_out.blocks()
            ]
        weight = np.concatenate([held_out.weight for _, held_out in self.folds])
        tried = _Trial(fitted, np.vstack(losses), weight)
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
    """Return True if hidden units improve the validation likelihood without harm to marginals.

    `convex` is the best trial without hidden units, and `deep` the best trial with hidden units.
    The likelihood must improve by more than its standard error. The log loss of the marginals may
    increase by the largest of three numbers: its standard error, `_TOLERATED` times the log loss,
    and `_OF_GAIN` times the gain in likelihood.
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
    """Add the hidden units of `model` to `convex`, a fitted model without hidden units.

    At first each hidden unit is 1 with probability 1/2, and adds on average half of its weights to
    the inputs of the visible units. This half is subtracted from the visible intercepts.
    """
    p = model.params
    return model._replace(
        params=p._replace(
            visible_coef=convex.params.visible_coef,
            visible_intercept=convex.params.visible_intercept - 0.5 * p.weights.sum(axis=1),
        )
    )
