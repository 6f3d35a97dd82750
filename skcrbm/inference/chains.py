"""Compute exact answers for linear chains: marginals, best paths, k best paths and samples.

The kernels compute with scaled probabilities. If the probabilities of a chain underflow, for
example because its log-weights differ by more than 600, the chain is computed again with
logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcrbm.energies.chain import ChainEnergies, SecondOrderEnergies
from skcrbm.inference import second_order
from skcrbm.kernels import chains as kernels

AnyChains = ChainEnergies | SecondOrderEnergies


class ImpossiblePathError(ValueError):
    """Raised if no path of a chain is possible. The attribute `chain` is the index of the chain."""

    def __init__(self, chain: int):
        super().__init__(f"sequence {chain} has no possible path")
        self.chain = chain


class ChainMarginals(NamedTuple):
    """Marginals of states and of pairs of neighbouring states, and log Z, for n chains.

    T is the number of positions of all chains, and K the number of states. The probabilities are
    multiplied by the weights of the chains.
    """

    states: np.ndarray  # (T, K): probability of each state at each position
    # Probabilities of pairs of neighbouring states: (T, K, K) if the log-weights of pairs differ
    # between positions; else (1, K, K), the sum over all positions. For second-order chains:
    # (K, K, K), the probabilities of three neighbouring classes, summed over all positions.
    pairs: np.ndarray
    log_z: np.ndarray  # (n,): log Z of each chain, not multiplied by its weight


def _factors(log_weights):
    """Return exp(log_weights) divided by its maximum, and the logarithm of the maximum.

    There is a maximum for each matrix of a 3-D array, and for each row of a 2-D array. If all
    weights are 0, the logarithm of the maximum is replaced by 0.
    """
    axes = (-2, -1) if log_weights.ndim == 3 else (-1,)
    most = log_weights.max(axis=axes, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    return np.exp(log_weights - most), most.reshape(-1)


def _with_maxima(log_z, energies, most_pairs, most_first, most_last):
    """Add to log Z the maxima that `_factors` subtracted from the log-weights."""
    lengths = np.diff(energies.start)
    if len(most_pairs) == 1:
        return log_z + most_first + most_last + most_pairs[0] * (lengths - 1)
    sums = np.concatenate([[0.0], np.cumsum(most_pairs[: energies.start[-1]])])
    inner = sums[energies.start[1:]] - sums[energies.start[:-1] + 1]
    return log_z + most_first + most_last + inner


def chain_marginals(energies: AnyChains, weight: np.ndarray) -> ChainMarginals:
    """Return the marginals of chains by the forward-backward algorithm.

    In a second-order chain, the states are pairs of classes, so that marginals have the shape
    (T, K * K) for K classes. The marginals are multiplied by the `weight` (n,) of each chain. The
    array `energies.scores` may be overwritten. An ImpossiblePathError is raised if every path of a
    chain has weight 0.
    """
    if isinstance(energies, SecondOrderEnergies):
        return _second_order_marginals(energies, weight)
    several = len(energies.pairs) > 1
    factors, most_pairs = _factors(energies.pairs)
    first, most_first = _factors(energies.first)
    last, most_last = _factors(energies.last)
    states = np.empty(energies.scores.shape)
    pairs = np.zeros(energies.pairs.shape)
    log_z = np.empty(energies.n_chains)
    scores = energies.scores.copy()
    rows, sums = np.empty((2, scores.shape[1])), np.empty(factors.shape[1:])
    kernels.forward_backward(
        energies.start, scores, factors, first, last, weight, rows, sums, states, pairs, log_z
    )
    if not several:
        pairs *= factors
    log_z = _with_maxima(log_z, energies, most_pairs, most_first, most_last)
    for c in np.flatnonzero(np.isnan(log_z)).tolist():
        one = energies.chain(c)
        part = slice(energies.start[c], energies.start[c + 1])
        tables = np.zeros((len(one.scores), *factors.shape[1:]))
        log_z[c] = kernels.log_forward_backward(*one[1:], states[part], tables)
        if not np.isfinite(log_z[c]):
            raise ImpossiblePathError(c)
        states[part] *= weight[c]
        tables *= weight[c]
        if several:
            pairs[part] = tables
        else:
            pairs[0] += tables.sum(0)
    return ChainMarginals(states, pairs, log_z)


def _second_order_marginals(energies, weight):
    states, triples, log_z = second_order.marginals(energies, weight)
    k = len(triples)
    for c in np.flatnonzero(np.isnan(log_z)).tolist():
        part = slice(energies.start[c], energies.start[c + 1])
        try:
            found = chain_marginals(energies.chain(c).as_pairs(), weight[c : c + 1])
        except ImpossiblePathError:
            raise ImpossiblePathError(c) from None
        states[part], log_z[c] = found.states, found.log_z[0]
        triples += found.pairs.reshape(k, k, k, k)[:, np.arange(k), np.arange(k)]
    return ChainMarginals(states, triples, log_z)


def class_marginals(energies: AnyChains) -> np.ndarray:
    """Return the marginals (T, K) of the classes of all positions."""
    states = chain_marginals(energies, np.ones(energies.n_chains)).states
    if isinstance(energies, SecondOrderEnergies):
        k = len(energies.triples)
        return states.reshape(-1, k, k).sum(axis=1)
    return states


def path_log_weights(energies: AnyChains, path: np.ndarray) -> np.ndarray:
    """Return the unnormalised log-weight (n,) of a given path of each of n chains.

    `path` (T,) holds the classes at the T positions of all chains.
    """
    if isinstance(energies, SecondOrderEnergies):
        return second_order.log_weights(energies, path)
    out = np.empty(energies.n_chains)
    kernels.path_scores(*energies, path, out)
    return out


def best_paths(energies: AnyChains) -> tuple[np.ndarray, np.ndarray]:
    """Return the best paths of n chains as one array of classes (T,), and log-weights (n,).

    If several paths are equally good, the path with the lower class is returned. An
    ImpossiblePathError is raised if every path of a chain has weight 0.
    """
    if isinstance(energies, SecondOrderEnergies):
        path, value = second_order.best_paths(energies)
    else:
        path = np.empty(energies.start[-1], np.int64)
        value = np.empty(energies.n_chains)
        n_classes, longest = energies.scores.shape[1], np.diff(energies.start).max(initial=0)
        rows, back = np.empty((2, n_classes)), np.empty((longest, n_classes), np.int64)
        kernels.best_paths(*energies, rows, back, path, value)
    impossible = np.flatnonzero(~np.isfinite(value))
    if len(impossible):
        raise ImpossiblePathError(int(impossible[0]))
    return path, value


def k_best_paths(energies: AnyChains, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the k best paths of each chain, and their log-weights, as a list of pairs.

    The pair of a chain is an array of paths (n_paths, length) and an array of log-weights
    (n_paths,). The number n_paths is k, or the number of possible paths if it is smaller.
    """
    if isinstance(energies, SecondOrderEnergies):
        n_classes = len(energies.triples)
        return [(path % n_classes, v) for path, v in k_best_paths(energies.as_pairs(), k)]
    found = []
    for c in range(energies.n_chains):
        one = energies.chain(c)
        paths = np.empty((k, len(one.scores)), np.int64)
        values = np.empty(k)
        n_found = kernels.k_best_paths(*one[1:], paths, values)
        if not n_found:
            raise ImpossiblePathError(c)
        found.append((paths[:n_found], values[:n_found]))
    return found


def sample_paths(energies: AnyChains, uniform: np.ndarray) -> np.ndarray:
    """Draw S independent paths of each chain; return the classes (S, T) at all T positions.

    `uniform` (S, T) has a random number in [0, 1) for each position of each path.
    """
    if isinstance(energies, SecondOrderEnergies):
        return sample_paths(energies.as_pairs(), uniform) % len(energies.triples)
    factors, _ = _factors(energies.pairs)
    first, _ = _factors(energies.first)
    last, _ = _factors(energies.last)
    paths = np.zeros(uniform.shape, np.int64)
    log_z = np.empty(energies.n_chains)
    alpha = np.empty(energies.scores.shape)
    kernels.sample_paths(
        energies.start,
        energies.scores.copy(),
        factors,
        first,
        last,
        uniform,
        alpha,
        paths,
        log_z,
    )
    for c in np.flatnonzero(np.isnan(log_z)).tolist():
        part = slice(energies.start[c], energies.start[c + 1])
        paths[:, part] = _sample_slowly(energies.chain(c), uniform[:, part], c)
    return paths


def _sample_slowly(energies, uniform, number):
    """Draw S paths (S, T) of a single chain from the marginals of its pairs of neighbours.

    The function is slow, but works for chains whose weights underflow. `number` is the index of the
    chain, for the error if no path is possible.
    """
    length, n_states = energies.scores.shape
    states, tables = np.empty((length, n_states)), np.zeros((length, n_states, n_states))
    log_z = kernels.log_forward_backward(*energies[1:], states, tables)
    if not np.isfinite(log_z):
        raise ImpossiblePathError(number)
    paths = np.empty(uniform.shape, np.int64)
    for t in range(length):
        p = states[0] if t == 0 else tables[t][paths[:, t - 1]]
        cumulative = np.cumsum(np.broadcast_to(p, (len(paths), n_states)), axis=1)
        rest = uniform[:, t] * cumulative[:, -1]
        paths[:, t] = (cumulative <= rest[:, None]).sum(1).clip(max=n_states - 1)
    return paths
