"""Perturb-and-max-product on energies of pairs, by units of -1/+1 and half log-odds.

Evidence is folded into the fields; couplings to what is held count as 0.
"""

import numpy as np

from skcrbm.inference._perturbation import answer_by_maxima, free_groups
from skcrbm.kernels.perturbed_maxima import pass_edges, pass_pairs
from skcrbm.utils.limits import CACHED_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.validation import kernel_array

# Samples of a block of dense models at least; more of small ones, to hide what a call costs.
_BLOCK = 16


def solve_rbm(method, energy, query):
    """RBMs: 0/1 units are -1/+1 units with couplings w / 4; messages start at log-odds 0."""
    v, h = energy.weights.shape
    quarter = kernel_array(energy.weights / 4, energy.dtype)
    exact = quarter.astype(np.float64)

    def fields_of(folded, free):
        free = free.astype(np.float64)
        shift = np.einsum("vh,h->v", exact, free[v:]), np.einsum("vh,v->h", exact, free[:v])
        return folded / 2 + np.concatenate(shift)

    return _solve_dense(method, energy, query, quarter, fields_of, False, (v, h))


def solve_ising(method, energy, query):
    """Dense Ising models: the upper triangle of the couplings."""
    size = energy.coupling.shape
    return _solve_dense(
        method, energy, query, energy.coupling, lambda folded, free: folded, True, size
    )


def _solve_dense(method, energy, query, coupling, fields_of, triangle, size):
    """Couplings as a matrix (rows, columns); `fields_of` makes half log-odds of folded fields."""
    folded = _folded(energy)
    n_rows = size[0]
    start = energy.dtype.type(0 if triangle else -1)
    damping = energy.dtype.type(method.damping)

    def maximise(rows, noise, message, keep):
        free = energy.free[rows]
        belief = np.empty(noise.shape, energy.dtype)
        warm = message is not None
        given = message
        if keep or warm:
            message = np.empty((len(rows), 2, *size), energy.dtype)
            if warm:
                message[...] = given
        else:
            message = np.empty((1, 2, *size), energy.dtype)
        for pattern, where in free_groups(free):
            columns = pattern if triangle else pattern[n_rows:]
            present = coupling
            if not pattern.all():
                present = coupling * np.outer(pattern[:n_rows], columns).astype(energy.dtype)
            field = fields_of(folded[rows[where]], pattern) + noise[where] / 2
            field = kernel_array(np.where(pattern, field, 0.0), energy.dtype)
            here = message[where] if len(message) > 1 else message
            found = np.empty(field.shape, energy.dtype)
            pass_pairs(present, triangle, field, start, warm, method.max_iter, damping, here, found)
            belief[where] = found
            if len(message) > 1:
                message[where] = here
        return _states(energy, rows, belief), message if keep else None

    block = max(_BLOCK, CACHED_ENTRIES // max(1, size[0] * size[1], energy.n_variables))
    return answer_by_maxima(method, energy, query, maximise, (2, *size), size=block)


def solve_sparse_ising(method, energy, query):
    """Ising models on sparse graphs: samples side by side."""
    folded = _folded(energy)
    edges = kernel_array(energy.edges)
    damping = energy.dtype.type(method.damping)

    def maximise(rows, noise, message, keep):
        n_edges = len(edges)
        free = energy.free[rows]
        belief = np.empty(noise.shape, energy.dtype)
        sent = np.empty((len(rows), 2 * n_edges), energy.dtype) if keep else None
        for pattern, where in free_groups(free):
            present = pattern[edges].all(axis=1)
            coupling = kernel_array(np.where(present, energy.edge_coupling, 0), energy.dtype)
            field = np.where(pattern, folded[rows[where]] + noise[where] / 2, 0.0).T
            here = np.zeros((2 * n_edges, len(where)), energy.dtype)
            if message is not None:
                here[...] = np.where(np.repeat(present, 2), message[where], 0).T
            found = np.empty(field.shape, energy.dtype)
            pass_edges(
                edges, coupling, kernel_array(field, energy.dtype), method.max_iter, damping,
                here, found,
            )  # fmt: skip
            belief[where] = found.T
            if keep:
                sent[where] = here.T
        return _states(energy, rows, belief), sent

    shape = (2 * len(edges),)
    return answer_by_maxima(method, energy, query, maximise, shape, size=ROWS_PER_CHUNK)


def _folded(energy):
    """Fields (N, n) of the free variables, float64."""
    with one_blas_thread():
        fields, _ = energy.fold_evidence()
    return np.concatenate(fields, axis=1).astype(np.float64)


def _states(energy, rows, belief):
    """States (K, n) of bool: 1 unless the belief is negative, and what is held."""
    if energy.evidence is None:
        return belief >= 0
    held = energy.evidence[rows]
    return np.where(np.isnan(held), belief >= 0, held == 1)
