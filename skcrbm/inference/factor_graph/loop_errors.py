"""Estimate the errors of marginals that messages on graphs with loops have found.

Messages may converge to wrong marginals. If the graph is narrow, the exact marginals are computed,
which takes less time than an estimate. Otherwise, three consistency checks, which need no
exact answer, find most of the wrong marginals. If the marginals were exact,

- the marginal of a variable would agree with log Z: P(x = s) is proportional to the Z of the model
  whose variable is clamped to s;
- the marginals of the other variables would be the mean of their marginals given x = s, weighted by
  P(x = s);
- messages from other starts would reach the same marginals, or marginals whose Z is much smaller.

The estimate is the largest violation of these conditions, for a few variables and starts. Clamping
a variable breaks the loops through it, so that messages of the clamped models are more accurate
(Weller and Jebara 2014, Clamping variables and approximate inference, NIPS). The clamped models and
the other starts are a single batch, so that a single version of a kernel is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from skcrbm.energies import BaseEnergy, FactorGraphEnergy
from skcrbm.inference.base import ContradictionError, InferenceMethod, InferenceResult, Query
from skcrbm.inference.exact.elimination import log_odds_of_narrow
from skcrbm.inference.factor_graph._state_graph import StateGraph

# Number of variables that are clamped to each of their states, and number of starts.
_N_CLAMPED, _N_STARTS = 16, 4
# Standard deviation of the initial log-odds of a start.
_START = 3.0
# Only variables whose entropy (in nats) is at least this number are clamped: clamping an almost
# certain variable changes nothing.
_LEAST_ENTROPY = 1e-3
# Two fixed points of the messages are the same if no marginal differs by more than this number.
_SAME = 0.01


def estimate_errors(
    method: InferenceMethod, energy: BaseEnergy, marginals: np.ndarray
) -> np.ndarray:
    """Estimate the largest error of the marginals of each of N models.

    Parameters
    ----------
    method : InferenceMethod
        Method that has computed the marginals, which gives "marginals" and "log_partition", and
        accepts "init".
    energy : BaseEnergy
        The models, with evidence; a factor graph, or an energy that can be converted to one.
    marginals : ndarray (N, n_variables) or (N, n_variables, n_states)

    Returns
    -------
    ndarray (N,)
        Errors of narrow graphs, and estimated errors of other graphs; 0 if the graph has no loops,
        and NaN if the messages of the clamped models and from other starts have not converged.
    """
    graph = energy
    if not isinstance(graph, FactorGraphEnergy):
        graph = FactorGraphEnergy.from_energy(energy)
    if graph.n_variables == 0 or StateGraph(graph.rows([0]), logic="chains").is_forest:
        return np.zeros(len(marginals))
    chances = marginals if marginals.ndim == 3 else np.stack([1 - marginals, marginals], axis=2)
    found = np.zeros(len(chances))
    for n in range(len(chances)):
        try:
            exact = log_odds_of_narrow(graph.rows([n]))
        except ContradictionError:
            found[n] = np.nan
            continue
        model = energy.rows([n])
        if exact is None:
            found[n] = _error_by_consistency(method, model, chances[n])
        else:
            found[n] = np.abs(_all_chances(model, exact)[0] - chances[n]).max()
    return found


def _error_by_consistency(method, model, chances):
    """Return the largest violation of the three conditions by a model.

    `chances` (n_variables, K) has the probabilities of the states.
    """
    variable, state = _clamped_states(model, chances)
    clamped, copies = len(variable), len(variable) + 1 + _N_STARTS
    models = model.rows(np.zeros(copies, int))
    evidence = np.full((copies, model.n_variables), np.nan)
    evidence[np.arange(clamped), variable] = state
    log_odds = np.zeros(models.belief_shape)
    starts = log_odds[clamped + 1 :]
    starts[...] = _START * np.random.RandomState(0).standard_normal(starts.shape)
    if starts.ndim == 2:
        # If neighbours attract each other, the fixed points often have equal signs.
        starts[:2] = np.array([[_START], [-_START]])
    given, log_z, converged = _solved(method, models.condition(evidence), log_odds)
    by_clamping = _error_by_clamping(
        variable, given[:clamped], log_z[:clamped], converged[:clamped], chances
    )
    by_starts = _error_by_starts(given[clamped:], log_z[clamped:], converged[clamped:], chances)
    return np.fmax(by_clamping, by_starts)


def _clamped_states(model, chances):
    """Return the variable and the state of each model with a clamped variable."""
    counts = model.state_counts
    logs = np.log(np.where(chances > 0, chances, 1.0))
    entropy = np.where(model.free[0], -(chances * logs).sum(axis=1), 0.0)
    order = np.argsort(-entropy, kind="stable")
    order = order[entropy[order] > _LEAST_ENTROPY]
    places = np.linspace(0, len(order) - 1, min(_N_CLAMPED, len(order))).astype(int)
    clamped = order[places]
    variable = np.repeat(clamped, counts[clamped])
    return variable, np.concatenate([np.empty(0), *(np.arange(k) for k in counts[clamped])])


def _error_by_clamping(variable, given, log_z, converged, chances):
    """Return the largest violation of the first two conditions, or NaN without convergence.

    `variable` (M,) is clamped in M models, whose probabilities `given` (M, n_variables, K) and
    logarithms of Z follow.
    """
    errors = [np.nan]
    for v in np.unique(variable):
        own = variable == v
        if converged[own].all():
            p = chances[v, : own.sum()]
            mean = np.tensordot(p, given[own], 1)
            errors += [np.abs(softmax(log_z[own]) - p).max(), np.abs(mean - chances).max()]
    return np.fmax.reduce(errors)


def _error_by_starts(found, log_z, converged, chances):
    """Return the difference to the mean of several fixed points, weighted by their Z."""
    points, logs = [], []
    for n in np.flatnonzero(converged):
        if all(np.abs(found[n] - point).max() > _SAME for point in points):
            points.append(found[n])
            logs.append(log_z[n])
    if not points:
        return np.nan
    mean = np.tensordot(softmax(logs), points, 1)
    return np.abs(mean - chances).max()


def _solved(method, models, log_odds):
    """Return the probabilities (N, n_variables, K) of all states, log Z (N,) and convergence.

    Messages start from `log_odds`.
    """
    start = InferenceResult(log_odds=log_odds.astype(models.dtype))
    query = Query(
        frozenset({"marginals", "log_partition"}), False, np.ones(models.n_models), 1, 1, start,
        False, False, None,
    )  # fmt: skip
    fields: dict[str, Any] = method.solve(models, query)
    return _all_chances(models, fields["log_odds"]), fields["log_partition"], fields["converged"]


def _all_chances(models, log_odds):
    """Return the probabilities (N, n_variables, K) of all states, for the log-odds of an answer."""
    chances = expit(log_odds.astype(float))
    if chances.ndim == 2:
        chances = np.stack([1 - chances, chances], axis=2)
    if models.evidence is not None:
        rows, variables = np.nonzero(~np.isnan(models.evidence))
        chances[rows, variables] = 0.0
        states = models.evidence[rows, variables].astype(int)
        chances[rows, variables, states] = 1.0
    return chances
