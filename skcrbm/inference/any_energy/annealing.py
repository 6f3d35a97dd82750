"""Run simulated annealing on any energy, and compute the schedule of inverse temperatures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skcrbm.energies.states import means_of_states
from skcrbm.inference.any_energy.gibbs import gibbs_sweep, start_chains
from skcrbm.inference.base import InferenceResult, empty_result
from skcrbm.inference.methods._searches import ICM, SimulatedAnnealing
from skcrbm.inference.random_numbers import random_key
from skcrbm.inference.registry import has_solver
from skcrbm.utils.parallel import one_blas_thread, ordered_map

# Number of random states from which the typical local field of each variable is estimated.
_STATES = 8
# Default range of the inverse temperature beta. At the first beta, beta times a strong local field
# is 1, so that all variables change often. At the last beta, beta times a weak local field is
# _COLD, so that nearly all variables keep their states. The strong and the weak local field are the
# quantiles _STRONG and _WEAK of the typical local fields of the variables.
_STRONG, _WEAK, _COLD = 0.9, 0.1, 5.0


def betas(method: SimulatedAnnealing, strength: np.ndarray) -> np.ndarray:
    """Return the inverse temperature beta of each sweep, an array (n_sweeps,).

    `strength` (K,) is the typical absolute value of the local field of each of K free variables.
    The local field is half of the log-odds given all other variables.
    """
    if method.beta_range is not None:
        first, last = map(float, method.beta_range)
    else:
        strength = strength[strength > 0]
        if len(strength) == 0:
            return np.ones(method.n_sweeps)
        weak, strong = np.quantile(strength, [_WEAK, _STRONG])
        first, last = 1 / strong, _COLD / weak
    steps = np.geomspace if method.schedule == "geometric" else np.linspace
    return steps(last, first, method.n_sweeps)[::-1]


def solve(method, energy, query):
    """Search for "map" on any energy by Gibbs sweeps.

    If the energy supports "icm", the method "icm" then improves the states that the sweeps found.
    """
    fields = empty_result(energy, query)
    key = random_key(method.random_state)
    alone = replace(query, n_jobs=1, sample_weight=np.ones(1))

    def run(n):
        model = energy.rows([n])
        state, score = _anneal(method, model, key)
        converged = score > -np.inf
        if has_solver("icm", type(energy)) and not energy.categorical:
            means = means_of_states(energy, state[None])
            start = InferenceResult(log_odds=np.where(means > 0, 1, -1).astype(energy.dtype))
            found = ICM().solve(model, replace(alone, returns=frozenset({"map"}), start=start))
            if model.score(found["assignment"])[0] >= score:
                state, converged = found["assignment"][0], found["converged"][0]
        fields["assignment"][n], fields["converged"][n] = state, converged

    with one_blas_thread():
        for _ in ordered_map(run, range(energy.n_models), query.n_jobs):
            pass
    fields["n_iter"][:] = method.n_sweeps
    fields["stopped_by"] = np.full(energy.n_models, "max_iter", object)
    return fields


def _anneal(method, model, key):
    """Return the best state (n,) of all runs of a single model, and the score of this state."""
    runs = np.arange(method.n_restarts)
    states = start_chains(model, method.n_restarts, key, runs)
    models = model.rows(np.zeros(method.n_restarts, np.int64))
    best, best_score = states[0].copy(), models.score(states[0])
    for t, beta in enumerate(betas(method, _strengths(model, key)), 1):
        colder = model.with_fields(*(model.dtype.type(beta) * field for field in model.fields))
        # Ignore warnings of overflow: `scaled` also multiplies log-potentials of -inf, but does not
        # use these products.
        with np.errstate(over="ignore"):
            colder = colder.scaled(beta)
        states, _ = gibbs_sweep(colder, states, key, runs, t)
        score = models.score(states[0])
        better = score > best_score
        best[better], best_score[better] = states[0, better], score[better]
    first = best_score.argmax()
    return best[first], best_score[first]


def _strengths(model, key):
    """Return the typical absolute value of the local field of each free variable of a model."""
    states = start_chains(model, _STATES, key, np.arange(_STATES))
    square = np.zeros(model.n_variables)
    for block in model.sampling_blocks:
        log_odds = model.conditional_log_odds(states, block)[0].astype(np.float64)
        finite = np.isfinite(log_odds)
        # Sum over the random states and, for categorical variables, over the states of a variable.
        axes = tuple(range(0, log_odds.ndim, 2))
        total = np.square(np.where(finite, log_odds / 2, 0)).sum(axis=axes)
        square[block] = total / np.maximum(finite.sum(axis=axes), 1)
    return np.sqrt(square[model.free[0]])
