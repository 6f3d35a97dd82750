"""Run mean field on pairwise Boltzmann machines, updating one label at a time."""

import numpy as np

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import binary_entropy, dot, sigmoid_pair


@jit
def _log_partition(coupling, field, free, theta, spin):
    """Return the lower bound ``field' q + 1/2 spin' S spin + sum of entropies`` of log Z.

    Here q are the probabilities that the free labels are 1, spin = 2 q - 1, and S the couplings.
    """
    log_z = 0.0
    one = theta.dtype.type(1)
    for i in range(theta.shape[0]):
        if not free[i]:
            continue
        log_z += binary_entropy(theta[i]) + float(field[i]) * float(sigmoid_pair(theta[i], one)[0])
        pull = 0.0
        for k in range(i):
            pull += float(coupling[i, k]) * float(spin[k])
        log_z += pull * float(spin[i])
    return log_z


@jit
def _add_products(weight, free, theta, q, pairwise):
    """Add ``weight * q_i * q_k`` to `pairwise` (L, L), and ``weight * q_i`` to its diagonal.

    `q` (L,) are the probabilities that the free labels are 1, computed from the log-odds `theta`.
    """
    one = theta.dtype.type(1)
    for i in range(theta.shape[0]):
        q[i] = sigmoid_pair(theta[i], one)[0] if free[i] else one - one
    for i in range(theta.shape[0]):
        share = weight * q[i]
        for k in range(theta.shape[0]):
            pairwise[i, k] += share * q[k] if k != i else share


@jit
def ising_mean_field(coupling, field, free, weight, options, answers):
    """Run coordinate ascent on N models with L labels, until each model has converged.

    Parameters
    ----------
    coupling : (L, L), couplings of L labels
    field : (N, L) fields times 2, which are log-odds
    free : (N, L) bool, False for clamped labels, which are left out by setting their spin to 0
    weight : (N,) weight of each model in the sum of the statistics
    options, answers : IsingOptions (`slack` is not used), IsingAnswers
    """
    max_iter, tol, _, want_log_z, want_statistics = options
    theta, n_iter, converged, log_partition, pairwise, trace = answers
    n_labels = coupling.shape[0]
    one = coupling.dtype.type(1)
    two = one + one
    spin, q = np.empty(n_labels, coupling.dtype), np.empty(n_labels, coupling.dtype)
    for n in range(field.shape[0]):
        for i in range(n_labels):
            t, u = sigmoid_pair(theta[n, i], one)
            spin[i] = t - u
            if not free[n, i]:
                theta[n, i], spin[i] = 0, 0
        converged[n] = False
        for iteration in range(max_iter):
            change = one - one
            for i in range(n_labels):
                if not free[n, i]:
                    continue
                theta[n, i] = field[n, i] + two * dot(coupling[i], spin)
                t, u = sigmoid_pair(theta[n, i], one)
                change = max(change, abs(t - u - spin[i]) / two)
                spin[i] = t - u
            n_iter[n] = iteration + 1
            if trace.shape[1]:
                trace[n, iteration] = change
            if change < tol:
                converged[n] = True
                break
        if want_log_z:
            log_partition[n] = _log_partition(coupling, field[n], free[n], theta[n], spin)
        if want_statistics:
            _add_products(weight[n], free[n], theta[n], q, pairwise)
