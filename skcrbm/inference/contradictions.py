"""Detect models in which all states have weight 0, and values that log Z cannot have.

`infer` uses `Guard` around the solver of every method, so that a model that contradicts itself has
the same answers whatever the method.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference.base import Chains
from skcrbm.utils.warnings import warn_user


def contradicted_models(energy: Any) -> np.ndarray:
    """Return a mask (N,): True for models whose factors and evidence exclude all states.

    `energy` is a factor graph with N models. The factors are visited repeatedly, until no more
    states are excluded. A factor excludes a state of a variable if the factor has weight 0 for this
    state and all remaining states of the other variables. The mask is True for models in which all
    states of some variable are excluded. On graphs without loops, the mask shows all models whose
    states all have weight 0. On graphs with loops, it may miss some of them.
    """
    # OR and AND factors alone do not contradict each other: all agree with the state in which each
    # variable is 0.
    if energy.evidence is None and (energy.log_potentials > -np.inf).all():
        return np.zeros(energy.n_models, bool)
    if energy.evidence is None and energy.n_models > 1:  # the models share their factors
        return np.repeat(contradicted_models(energy.rows([0])), energy.n_models)
    from skcrbm.inference.possible_states import PossibleStates

    return PossibleStates(energy).refuted()


class Guard:
    """Guard of a solver against models whose states all have weight 0.

    Such a model has no distribution, and a solver that divides by its Z returns NaN. Before the
    solver runs, the guard replaces each model that `contradicted_models` finds by a model with
    weights above 0. After it has run, the guard looks for a state of positive weight of each other
    model whose zeros form loops, and gives all models without states the same answers: log Z and
    bounds are -inf, and the models have not converged.

    Attributes
    ----------
    energy : BaseEnergy
        Models for the solver.
    """

    def __init__(self, energy: Any, clamped: bool):
        # `clamped` is True if the user has clamped variables.
        self._given, self._clamped = energy, clamped
        self.energy = energy
        self._impossible = np.zeros(energy.n_models, bool)
        self._active = (
            isinstance(energy, FactorGraphEnergy) and energy.has_zeros and energy.n_models > 0
        )
        if self._active:
            self._impossible = contradicted_models(energy)
            if self._impossible.any():
                self.energy = _without_contradictions(energy, self._impossible)

    def finish(self, fields: dict[str, Any], returns: frozenset) -> bool:
        """Change the answers for models without states in place, and warn about zero weights.

        Return True if a warning was given.
        """
        if not self._active:
            return False
        energy = self._given
        witness = _states_of(energy, fields, returns)
        zero, some_zero = _zero_weights(energy, witness)
        open_models = zero & ~self._impossible
        undecided = np.zeros(energy.n_models, bool)
        if open_models.any():
            from skcrbm.inference.possible_states import REFUTED, UNDECIDED, PossibleStates

            found = PossibleStates(energy)
            for n in np.flatnonzero(open_models & found.has_loops).tolist():
                answer = found.search(n)
                self._impossible[n] = answer == REFUTED
                undecided[n] = answer == UNDECIDED
        if self._impossible.any():
            self._mark(fields)
        return self._warn(fields, returns, zero, some_zero, undecided)

    def _mark(self, fields):
        """Write the answers for models without states into `fields`."""
        rows = self._impossible
        fields["converged"] = fields["converged"] & ~rows
        for name in ("log_partition", "map_bound", "sample_log_prob"):
            if fields.get(name) is not None:
                fields[name][rows] = -np.inf
        if fields.get("gap") is not None:
            fields["gap"][rows] = 0.0
        if fields.get("standard_error") is not None:
            fields["standard_error"][rows] = np.inf
        if fields.get("effective_sample_size") is not None:
            fields["effective_sample_size"][rows] = 0.0

    def _warn(self, fields, returns, zero, some_zero, undecided):
        messages, impossible = [], self._impossible
        if impossible.any():
            messages.append(
                (
                    f"clamp contradicts the factors of {counted(impossible)}: no state that agrees "
                    "with clamp has a positive weight"
                    if self._clamped
                    else f"the factors of {counted(impossible)} contradict each other: no state "
                    "has a positive weight"
                )
                + ", so the answers for these models have no meaning"
            )
        zero, some_zero = zero & ~impossible, some_zero & ~impossible
        if fields.get("assignment") is not None and "map" in returns:
            if zero.any():
                messages.append(
                    f"the states of {counted(zero)} have weight 0: the method has found no state "
                    "of positive weight. Try 'max_product' with damping=0.5, or 'exact'"
                )
        elif _has_samples(fields):
            # Samples of weight 0 are valid in importance sampling, for which "sample_log_prob" is
            # requested.
            if some_zero.any() and "sample_log_prob" not in returns:
                messages.append(
                    f"samples of {counted(some_zero)} have weight 0: some chains have not found a "
                    "state of positive weight. Use method='exact' if the model is small enough, or "
                    "pass chains with states of positive weight as init"
                )
        elif undecided.any():
            messages.append(
                f"{counted(undecided)} may have no state of positive weight: the factors of weight "
                "0 form loops, and a short search has found neither such a state nor a proof that "
                "there is none. If there is none, the answers for these models have no meaning. "
                "'map_search' searches longer"
            )
        for message in messages:
            warn_user(message)
        return bool(messages)


def counted(chosen: np.ndarray) -> str:
    """Return a text such as "2 of 9 models (the first is model 3)" for a mask (N,) of models."""
    return f"{chosen.sum()} of {len(chosen)} models (the first is model {chosen.argmax()})"


def _without_contradictions(energy, impossible):
    """Return the energy without the evidence of the models in a mask (N,).

    If the factors contradict each other without evidence, the tables have no zeros in the result.
    """
    other = energy.rows(np.arange(energy.n_models))
    if energy.evidence is not None:
        other.evidence = np.where(impossible[:, None], np.nan, energy.evidence)
    if impossible.all():
        bare = energy.rows([0])
        bare.evidence = None
        if contradicted_models(bare)[0]:
            flat = energy.log_potentials
            other = other.with_log_potentials(np.where(flat == -np.inf, 0, flat))
    return other


def _has_samples(fields):
    return isinstance(fields.get("state"), Chains) or fields.get("samples") is not None


def _states_of(energy, fields, returns):
    """Return states (N, S, n) that an answer contains or suggests, or None."""
    if fields.get("assignment") is not None and "map" in returns:
        return fields["assignment"][:, None]
    if _has_samples(fields):
        state = fields.get("state")
        return state.states if isinstance(state, Chains) else fields["samples"]
    if fields.get("log_odds") is None:
        return None
    log_odds = np.nan_to_num(fields["log_odds"])
    modes = energy.marginal_modes(log_odds)
    if energy.evidence is not None:
        modes = np.where(energy.free, modes, energy.evidence)
    return modes[:, None].astype(energy.state_dtype)


def _zero_weights(energy, states):
    """Return two masks (N,): True if all states, or some states, of a model have weight 0.

    Without states both masks are True.
    """
    if states is None:
        return np.ones(energy.n_models, bool), np.ones(energy.n_models, bool)
    n, n_states, n_variables = states.shape
    copies = energy.rows(np.repeat(np.arange(n), n_states))
    zero = copies.score(states.reshape(n * n_states, n_variables)) == -np.inf
    zero = zero.reshape(n, n_states)
    return zero.all(axis=1), zero.any(axis=1)


def log_partition_range(energy: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a lower and an upper bound of log Z for each model of a factor graph.

    The upper bound replaces each factor by its largest log-weight. The lower bound is the sum of
    the smallest finite log-weights, because at least one state has a positive weight.
    Both bounds hold whatever the evidence is. For example, a single 0/1 variable without a field,
    and a table with the log-weights [-inf, 2], have the range (2, 2 + log 2).

    Returns
    -------
    low, high : ndarray (N,) float64
        The bounds mean nothing for models in which all states have weight 0.
    """
    here = np.arange(max(2, energy.state_counts.max(initial=2))) < energy.state_counts[:, None]
    fields = np.where(here, energy.log_fields().astype(np.float64), -np.inf)
    low, high = energy.offset.astype(np.float64), energy.offset.astype(np.float64)
    low = low + _least(fields).sum(axis=1)
    high = high + np.logaddexp.reduce(fields, axis=2).sum(axis=1)
    for group in energy.tables:
        logs = group.log_potentials.astype(np.float64)
        low, high = low + _least(logs).sum(), high + logs.max(axis=1).sum()
    return low, high


def _least(logs):
    """Return the smallest finite number on the last axis, or 0 if there is no finite number."""
    least = logs.min(axis=-1, where=logs > -np.inf, initial=np.inf)
    return np.where(least == np.inf, 0.0, least)
