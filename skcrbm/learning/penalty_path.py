"""Search for the strength of a penalty: all estimators with an automatic penalty use this search.

The search climbs along a list of penalties. It starts at one of them and goes on to the next
penalty of the list while the score of held-out rows improves. If the first step was no improvement,
it goes in the other direction in the same way. Each fit starts from the fit with the neighbouring
penalty, so that it needs few iterations.

For example, this search finds the strength of a ridge regression:

>>> import numpy as np
>>> rng = np.random.RandomState(0)
>>> X, noise = rng.normal(size=(40, 20)), rng.normal(size=40)
>>> y = X[:, 0] + noise
>>> def train(alpha, start):  # a ridge regression has a closed form, so it needs no start
...     return np.linalg.solve(X[:20].T @ X[:20] + alpha * np.eye(20), X[:20].T @ y[:20])
>>> def score(coef):
...     return -np.square(X[20:] @ coef - y[20:]).mean()
>>> found = penalty_path(train, score, geometric_penalties(1.0, 4, 4), first=4)
>>> round(float(found.penalty), 2), round(float(penalty_at(1.0, found.vertex)), 2)
(10.0, 14.07)

An estimator chooses four things. `train` fits a model to the training rows of every fold; the
penalty of a fold is the penalty of all rows times the ratio of their weights, because a prior
counts as many rows in both. `score` is the weighted mean over the held-out rows of all folds
together, and larger is better. `penalties` holds all penalties that may be tried. `ends` decides
after which trials the search turns round or ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skcrbm.utils.fitting import is_better

#: Ratio of neighbouring penalties.
STEP = np.sqrt(10.0)


class Trial(NamedTuple):
    """A penalty that was tried."""

    penalty: float
    fitted: Any  # the result of `train`
    score: float  # the score of `fitted`; larger is better


class FoundPenalty(NamedTuple):
    """Result of `penalty_path`."""

    best: Trial
    # Position of the largest score on a parabola through the scores of the best penalty and of its
    # two neighbours, in steps from the first penalty. If a neighbour was not tried, this is the
    # position of the best penalty.
    vertex: float

    @property
    def penalty(self) -> float:
        """The best penalty of those that were tried."""
        return self.best.penalty


def penalty_at(start: float, position: float) -> float:
    """Return the penalty that is `position` steps stronger than `start`."""
    return start * STEP**position


def geometric_penalties(start: float, n_down: int, n_up: int) -> list[float]:
    """Return `n_down` weaker penalties, `start`, and `n_up` stronger penalties, in this order."""
    return [penalty_at(start, k) for k in range(-n_down, n_up + 1)]


def no_better(trial: Trial, best: Trial) -> bool:
    """Return True if a trial is not better than the best trial so far by more than rounding."""
    return not is_better(trial.score, best.score)


def clearly_worse(trial: Trial, best: Trial) -> bool:
    """Return True if a trial is worse than the best trial by more than rounding, or not finite.

    Equal scores do not count. For example, an L1 penalty that is too strong gives the same model,
    with zeros only, for several penalties.
    """
    return not np.isfinite(trial.score) or is_better(best.score, trial.score)


def penalty_path(
    train: Callable[[float, Any], Any],
    score: Callable[[Any], float],
    penalties: Sequence[float],
    first: int = 0,
    *,
    patience: int = 1,
    ends: Callable[[Trial, Trial], bool] = no_better,
) -> FoundPenalty:
    """Find the penalty with the best score.

    Parameters
    ----------
    train : callable
        ``train(penalty, neighbour)`` returns a fit, of any type. `neighbour` is the fit with the
        penalty before on the path, or None in the first call.
    score : callable
        ``score(fit)`` returns the score of held-out rows.
    penalties : sequence of float
        Penalties, in ascending or descending order.
    first : int
        Index of the penalty that is tried first. Penalties after it are tried next, and penalties
        before it only if no penalty after it was better.
    patience : int
        Number of successive trials that end a direction of the search.
    ends : callable
        ``ends(trial, best)`` returns True if a trial counts for `patience`. `best` is the best
        trial so far, and `trial` is not better.

    Returns
    -------
    FoundPenalty
        Among equal scores, the penalty that was tried first is the best.
    """

    def attempt(at, neighbour):
        fitted = train(penalties[at], neighbour)
        return Trial(penalties[at], fitted, score(fitted))

    start = best = attempt(first, None)
    best_at, scores = first, {first: start.score}
    for direction in (1, -1):
        if best_at != first:
            break
        trial, at, n_ends = start, first + direction, 0
        while 0 <= at < len(penalties) and n_ends < patience:
            trial = attempt(at, trial.fitted)
            scores[at] = trial.score
            if is_better(trial.score, best.score):
                best, best_at, n_ends = trial, at, 0
            else:
                n_ends += ends(trial, best)
            at += direction
    return FoundPenalty(best, best_at - first + _vertex(scores, best_at))


def _vertex(scores, at):
    """Return the position of the vertex of a parabola through three scores, relative to `at`."""
    if at - 1 not in scores or at + 1 not in scores:
        return 0.0
    below, here, above = (-scores[at + k] for k in (-1, 0, 1))
    bend = below - 2 * here + above
    return 0.5 * (below - above) / bend if bend > 0 else 0.0
