"""How CRBMClassifier trains with nothing set: which solver, which penalty, which columns."""

from dataclasses import replace

import numpy as np

from skcrbm.inference.choice import resolve_method
from skcrbm.learning import OBJECTIVES, START, PenaltyPath, crbm_penalty, smoothed_log_odds
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.utils.columns import in_double
from skcrbm.utils.limits import CONVEX_PATH_ENTRIES, MIN_SEARCH_ROWS
from skcrbm.utils.progress import LiveLine

# What alpha="auto" stands for where nothing is searched and columns are as given.
PLAIN_ALPHA = 0.1
# Relative to the variance of the columns, where there are too few rows to search: between what
# suits ten columns and what suits hundreds.
_FEW_ROWS_ALPHA = 3e-3
# What W and the intercepts cost: a tenth of a row of unit weight.
_WEAK = 0.1
_N_FOLDS = 5
# The folds are the same whatever `random_state` is, so that the penalties of seeds, and of
# models with more or fewer hidden units, can be compared.
_FOLD_SEED = 0
# Outputs on which the penalty of stochastic training is searched.
_LEAST_OUTPUTS, _MOST_OUTPUTS = 8, 32
# So many rows of validation in all make the choice safe, with and without hidden units: folds
# beyond that are not fitted.
_CONVEX_ROWS, _HIDDEN_ROWS = 3000, 1500


def choose_solver(estimator, method, partial):
    """Return the name of a solver: the one place that knows what ``solver="auto"`` means.

    "lbfgs" where the likelihood is exact, "asgd" where it is approximate, and "adam" for other
    learning rules, `partial_fit`, and with what only a fixed stochastic solver has.

    Parameters
    ----------
    estimator : CRBMClassifier
    method : InferenceMethod
        Of training.
    partial : bool
        Whether it is `partial_fit` that asks.

    Raises
    ------
    ValueError
        If "lbfgs" is named and cannot serve.
    """
    if estimator.solver not in ("auto", "lbfgs"):
        return estimator.solver
    obstacles = {
        "partial_fit, which sees a part of the rows": partial,
        f"learning={estimator.learning!r}": estimator.learning != "mle",
        f"{method.name!r} inference, which is approximate": method.name != "exact",
        "early_stopping=True": estimator.early_stopping is True,
        "average=True": estimator.average is True,
        f"batch_size={estimator.batch_size!r}": estimator.batch_size != "auto",
        f"learning_rate_init={estimator.learning_rate_init!r}": (
            estimator.learning_rate_init != "auto"
        ),
        f"momentum={estimator.momentum!r}": estimator.momentum not in ("auto", 0),
    }
    found = [name for name, holds in obstacles.items() if holds]
    if not found:
        return "lbfgs"
    if estimator.solver == "lbfgs":
        raise ValueError(
            "solver='lbfgs' goes down the exact likelihood of all rows at once, which rules out "
            f"{found[0]}; use solver='auto', 'asgd', 'adam' or 'sgd'"
        )
    of_adam = partial or estimator.learning != "mle" or estimator.learning_rate_init != "auto"
    return "adam" if of_adam or method.name == "exact" else "asgd"


def is_auto(value):
    """Whether a hyperparameter says "auto"."""
    return isinstance(value, str)


def make_penalty(alpha_hidden, visible, weight, *, categorical, every_intercept):
    """Return ``penalty(alpha)``, the `L2` of fits by L-BFGS.

    Parameters
    ----------
    alpha_hidden : float or "auto"
    visible, weight : ndarray
        Of all rows.
    categorical : bool
    every_intercept : bool
        Whether all intercepts are pulled to the labels' log-odds, or only those that would go
        to infinity: of labels that are on in no row, or in all.
    """
    weak = _WEAK / max(len(visible), MIN_SEARCH_ROWS)
    positive = (visible == 1).any(axis=0)
    negative = (visible == 0).any(axis=0)
    pull = np.where(positive & negative, weak if every_intercept else 0.0, weak)
    on_weights = weak if is_auto(alpha_hidden) else alpha_hidden
    on_hidden = weak if every_intercept else 0.0
    centre = smoothed_log_odds(visible, weight, categorical)

    def penalty(alpha):
        return crbm_penalty(alpha, on_weights, pull, on_hidden, centre)

    return penalty


def search_penalty(estimator, penalty, model, batch, variance, with_hidden=True):
    """Find alpha by validation; where rows are too few for that, a fixed value.

    Parameters
    ----------
    estimator : CRBMClassifier
    penalty : callable
        ``penalty(alpha)``.
    model : ConditionalRBM
    batch : Batch
        Rows of the design, float64.
    variance : float
        Of all columns, to which the penalty is relative.
    with_hidden : bool, default=True
        Whether to go on from the model without hidden units to that with them.

    Returns
    -------
    alpha : float
    model : ConditionalRBM
        To start from.
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
        objective=OBJECTIVES.get("mle")(exact, estimator.n_jobs),
        penalty=penalty,
        inference=exact,
        max_iter=estimator.max_iter if with_hidden else None,  # which else counts epochs
        n_jobs=estimator.n_jobs,
        live=LiveLine(estimator.verbose),
    )
    try:
        found = path.search(model, batch, folds, n_hidden if with_hidden else 0, START * variance)
    finally:
        path.live.end()
    return found.alpha, found.model, found.points


def search_convex(estimator, model, batch, variance):
    """Find alpha for stochastic training: that of the model without hidden units, on some outputs.

    Without hidden units the outputs are logistic regressions that share a penalty, and some of
    them tell it as well as hundreds do. Hidden units want no less than what a single row is
    worth, where the outputs follow from X so well that regressions can do without.

    Parameters
    ----------
    estimator, model, variance
        As for `search_penalty`.
    batch : Batch
        Rows of the design, dense or sparse, in any dtype.

    Returns
    -------
    alpha : float
    points : list of PathPoint
    """
    n_rows, n_visible = batch.visible.shape
    affordable = CONVEX_PATH_ENTRIES // max(1, n_rows * batch.X.shape[1])
    n_outputs = min(n_visible, max(_LEAST_OUTPUTS, min(_MOST_OUTPUTS, affordable)))
    if estimator._targets.one_hot:
        n_outputs = n_visible
    varying = (batch.visible == 0).any(axis=0) & (batch.visible == 1).any(axis=0)
    # Outputs that vary first, in random order.
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
    penalty = make_penalty(
        estimator.alpha_hidden,
        batch.visible,
        batch.weight,
        categorical=estimator._targets.one_hot,
        every_intercept=True,
    )
    alpha, _, points = search_penalty(estimator, penalty, model, batch, variance, with_hidden=False)
    return max(alpha, 1 / max(n_rows, MIN_SEARCH_ROWS)), points


def path_record(points):
    """Columns of what was tried, as `alpha_path_` has them."""
    names = ("n_hidden", "alpha", "log_likelihood", "log_loss")
    return {name: np.array([getattr(point, name) for point in points]) for name in names}
