"""Draw samples by perturb-and-MAP: add noise to the fields, and find the state of highest score."""

from __future__ import annotations

import numpy as np

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.contradictions import contradicted_models
from skcrbm.energies.states import is_categorical
from skcrbm.inference._infer import infer
from skcrbm.inference.any_energy.perturb_and_max_product import StateNoise, answer_by_maxima
from skcrbm.utils.limits import ROWS_PER_CHUNK
from skcrbm.utils.validation import kernel_array


def solve(method, energy, query):
    """Compute the answers for Ising models and factor graphs."""
    if is_categorical(energy):
        return _solve_states(method, energy, query)
    return _solve(method, energy, query, lambda part, noise: part.tilted(noise)[0])


def solve_rbm(method, energy, query):
    """Compute the answers for RBMs."""
    v = energy.n_visible

    def add_noise(part, noise):
        visible, hidden = part.fields
        return part.with_fields(visible + noise[:, :v], hidden + noise[:, v:])

    return _solve(method, energy, query, add_noise)


def _solve_states(method, energy, query):
    """Compute the answers for factor graphs whose arrays have an axis of states."""
    kind = StateNoise(energy.n_states)

    def add_noise(part, noise):
        return part.with_fields(part.field + np.where(kind.has_state, noise, 0.0))

    return _solve(method, energy, query, add_noise, kind)


def _solve(method, energy, query, add_noise, kind=None):
    """Compute the answers for any energy.

    ``add_noise(part, noise)`` adds noise to the fields of the energy `part`, which holds some of
    the models. Outputs of OR and AND factors get no noise.
    """
    noisy = None
    if hasattr(energy, "ors"):
        noisy = np.ones(energy.n_variables, bool)
        noisy[energy.ors.outputs] = False
        noisy[energy.ands.outputs] = False

    impossible = _contradicted(energy)

    def maximise(rows, noise, message, keep):
        # `infer` warns the user about contradicted models. It must not see the copies of these
        # models, because it would warn again in each call and count copies as models.
        possible = ~impossible[rows]
        states = np.zeros((len(rows), energy.n_variables), np.int16)
        if not possible.all():
            evidence = energy.evidence[rows[~possible]]
            states[~possible] = np.where(np.isnan(evidence), 0, evidence)
        if possible.any():
            part = add_noise(energy.rows(rows[possible]), noise[possible])
            part = part.with_fields(*(kernel_array(field, energy.dtype) for field in part.fields))
            found = infer(part, method.inference, returns=("map",), n_jobs=1).assignment
            assert found is not None
            if possible.all():
                return found, None
            states = states.astype(found.dtype)
            states[possible] = found
        return states, None

    return answer_by_maxima(method, energy, query, maximise, (), noisy, ROWS_PER_CHUNK, kind)


def _contradicted(energy):
    """Return a mask (N,): True for the models that give each state with the evidence weight 0."""
    has_zeros = isinstance(energy, FactorGraphEnergy) and energy.has_zeros
    if energy.evidence is None or not has_zeros:
        return np.zeros(energy.n_models, bool)
    return contradicted_models(energy)
