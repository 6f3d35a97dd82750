"""Penalties of structured models, and the search for the strength of the penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.learning.large_margin.frank_wolfe import fit_frank_wolfe
from skcrbm.learning.large_margin.max_margin import HingeObjective
from skcrbm.learning.large_margin.structured_blocks import dual_blocks
from skcrbm.learning.lbfgs import descend
from skcrbm.learning.objectives import Objective
from skcrbm.learning.penalties import L2, ElasticNet
from skcrbm.learning.penalty_path import clearly_worse, penalty_path
from skcrbm.learning.structured.rows import RaggedBatch, StructureSource
from skcrbm.targets.codes import MISSING

#: Value of alpha="auto" in `partial_fit`, and in `fit` if there are too few rows for a search.
PLAIN_ALPHA = 0.01
# The search tries penalties in this order, the strongest first. The numbers multiply the penalty in
# an objective that adds up the losses of all rows, so alpha is the number divided by the total
# weight of the rows. The search stops after _PATIENCE successive penalties that do not improve the
# best score.
_TOTALS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
_PATIENCE = 2
# A fit for one of the penalties in _TOTALS stops when ten iterations lower the objective by no more
# than _PATH_SHARE times its value, or after _PATH_ITERATIONS iterations.
_PATH_SHARE = 1e-4
_PATH_ITERATIONS = 100
# The search holds out the share _HELD_OUT of the rows. If there are fewer than _LEAST_ROWS rows
# with a label, there is no search. If there are more than _MOST_ROWS, the search uses a random
# sample of _MOST_ROWS rows. The sample is enough, because the best penalty relative to the sum of
# all losses hardly depends on the number of rows.
_HELD_OUT, _LEAST_ROWS, _MOST_ROWS = 0.2, 5, 2500
# In the search for a large margin, block-coordinate Frank-Wolfe makes at most _MARGIN_PASSES passes
# for each penalty, and stops earlier if the relative duality gap is at most _MARGIN_TOL. If the
# relative gap is above _MARGIN_LIMIT after the last pass, the penalty is rejected as too weak,
# because the final fit would not converge either.
_MARGIN_PASSES, _MARGIN_TOL, _MARGIN_LIMIT = 40, 0.02, 0.05


def structured_penalty(
    params: Any, alpha: float, l1_ratio: float, with_intercept: bool = False
) -> L2:
    """Return the penalty of all arrays of `params`, a named tuple.

    The array `intercept` has no penalty unless `with_intercept` is True.
    """

    def factors(factor):
        found = type(params)(*([factor] * len(params)))
        return found if with_intercept else found._replace(intercept=0.0)

    if l1_ratio == 0:
        return L2(factors(alpha))
    return ElasticNet(factors(alpha * (1 - l1_ratio)), factors(alpha * l1_ratio))


def search_alpha(
    model: Any, batch: RaggedBatch, objective: Any, l1_ratio: float, rng: np.random.RandomState
) -> float:
    """Choose alpha by the loss of held-out rows.

    If fewer than five rows have a label, return `PLAIN_ALPHA`.
    """
    observed = np.add.reduceat(batch.path != MISSING, batch.start[:-1])
    labelled = np.flatnonzero(observed)  # rows without labels have no loss
    some = batch if len(labelled) == len(batch) else batch.take(labelled)
    n_all, n_labelled = (StructureSource(rows).n_originals for rows in (batch, some))
    if n_labelled < _LEAST_ROWS:
        return PLAIN_ALPHA
    # Scale the weights to a mean of 1. The penalties that the search tries suit this scale.
    mean = batch.weight.sum() / n_all
    if mean != 1:
        some = replace(some, weight=some.weight / mean)
    if n_labelled > _MOST_ROWS:
        some = StructureSource(some).take(np.sort(rng.permutation(n_labelled)[:_MOST_ROWS]))
    rest, held_out = StructureSource(some).split(_HELD_OUT, rng)
    if isinstance(objective, HingeObjective):
        train = _margin_path(model, rest.all, objective, rng)
    else:
        train = _gradient_path(model, rest.all, objective, l1_ratio)

    def score(found):
        return -np.inf if found is None else objective.score(found, held_out, 0)

    found = penalty_path(train, score, _TOTALS, patience=_PATIENCE, ends=clearly_worse)
    return found.penalty / n_all


def _gradient_path(model: Any, rest: Any, objective: Objective, l1_ratio: float) -> Callable:
    """Return the function `train` of `penalty_path` that trains by L-BFGS.

    `rest` is the batch of training rows.
    """
    weight = float(rest.weight.sum())

    def train(total, neighbour):
        start = model if neighbour is None else neighbour
        penalty = structured_penalty(model.params, total / weight, l1_ratio)
        steps = descend(start, rest, objective, penalty, _PATH_ITERATIONS, _PATH_SHARE)
        for function, minimizer, _ in steps:
            reached = function, minimizer
        function, minimizer = reached
        return model._replace(params=function.coordinates.params(minimizer.x))

    return train


def _margin_path(model, rest, objective, rng):
    """Return the function `train` of `penalty_path` for max-margin learning.

    ``train(total, neighbour)`` trains a model with the penalty factor `total`, from the dual
    variables of the call before. It returns the trained model, or None if the penalty is too weak.
    """
    blocks = dual_blocks(model, rest, objective, 1.0)

    def train(total, neighbour):
        blocks.rescale(total)
        found = fit_frank_wolfe(blocks, tol=_MARGIN_TOL, max_iter=_MARGIN_PASSES, rng=rng)
        if found.reason == "interrupted":
            raise KeyboardInterrupt
        solved = found.gap <= _MARGIN_LIMIT * found.objective
        return model._replace(params=found.params) if solved else None

    return train
