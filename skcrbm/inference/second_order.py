"""Exact inference in second-order chains of classes: marginals and best paths.

The kernels take K^3 operations for each position, for K classes. If weights underflow, or if
samples or the k best paths are requested, the chain is converted to `ChainEnergies` with K^2
states, see `SecondOrderEnergies.as_pairs`.
"""

from __future__ import annotations

import numpy as np

from skcrbm.energies.chain import SecondOrderEnergies, state_path
from skcrbm.kernels import second_order as kernels


def _weights(log_weights, axes):
    """Return exp(log-weights) divided by the maximum, and the logarithm of the maximum.

    If all weights are 0, the logarithm of the maximum is replaced by 0.
    """
    most = log_weights.max(axis=axes, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    return np.exp(log_weights - most), most


def marginals(
    energies: SecondOrderEnergies, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the marginals of states and triples of classes, and log Z (n,) of n chains.

    A state is a pair of neighbouring classes, so that the marginals of states have the shape
    (T, K * K) for T positions and K classes. The probabilities of triples (K, K, K) are summed over
    all positions. All probabilities are multiplied by the `weight` (n,) of each chain. If the
    weights of a chain underflow, or if no path of the chain is possible, its log Z is NaN, and it
    adds nothing to the sums.
    """
    k = len(energies.triples)
    shape = len(energies.scores), k, k
    weights, most = _weights(energies.scores.reshape(shape), (1, 2))
    factors, most_triple = _weights(energies.triples, (0, 1, 2))
    first, most_first = _weights(energies.first.reshape(k, k), (0, 1))
    last, most_last = _weights(energies.last.reshape(k, k), (0, 1))
    found, sums, log_z = np.empty(shape), np.zeros((k, k, k)), np.empty(energies.n_chains)
    kernels.forward_backward(
        energies.start, weights, factors, first, last, weight, found, sums, log_z
    )
    log_z += np.add.reduceat(most.ravel(), energies.start[:-1])
    log_z += float(most_first.item() + most_last.item())
    log_z += float(most_triple.item()) * (np.diff(energies.start) - 1)
    return found.reshape(len(found), -1), sums * factors, log_z


def best_paths(energies: SecondOrderEnergies) -> tuple[np.ndarray, np.ndarray]:
    """Return the best paths of n chains as one array of classes (T,), and log-weights (n,).

    The log-weight is -inf if no path of a chain is possible.
    """
    k = len(energies.triples)
    path = np.empty(energies.start[-1], np.int64)
    value = np.empty(energies.n_chains)
    kernels.best_paths(
        energies.start,
        energies.scores.reshape(-1, k, k),
        energies.triples,
        energies.first.reshape(k, k),
        energies.last.reshape(k, k),
        path,
        value,
    )
    return path % k, value


def log_weights(energies: SecondOrderEnergies, path: np.ndarray) -> np.ndarray:
    """Return the log-weights (n,) of given paths of n chains, with the classes `path` (T,)."""
    k, start = len(energies.triples), energies.start
    path = state_path(start, path, k)
    own = energies.scores[np.arange(len(path)), path]
    inner = np.ones(len(path), bool)
    inner[start[:-1]] = False
    later = np.flatnonzero(inner)
    own[later] += energies.triples[path[later - 1] // k, path[later - 1] % k, path[later] % k]
    total = np.add.reduceat(own, start[:-1])
    return total + energies.first[path[start[:-1]]] + energies.last[path[start[1:] - 1]]
