"""Draw samples by perturb-and-MAP: add noise to the fields, and find the state of highest score."""

from __future__ import annotations

import numpy as np

from skcrbm.energies.states import is_categorical
from skcrbm.inference.any_energy.perturb_and_max_product import StateNoise, answer_by_maxima
from skcrbm.inference.base import resolve_method
from skcrbm.inference.running import best_states
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

    maximiser = resolve_method(method.inference)

    def maximise(rows, noise, message, keep):
        part = add_noise(energy.rows(rows), noise)
        part = part.with_fields(*(kernel_array(field, energy.dtype) for field in part.fields))
        return best_states(part, maximiser), None

    return answer_by_maxima(method, energy, query, maximise, (), noisy, ROWS_PER_CHUNK, kind)
