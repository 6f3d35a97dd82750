"""Draw samples by perturb-and-max-product: shared code, and solvers for pairwise models.

The solvers work with -1/+1 units and half log-odds. The effect of clamped variables is added to the
fields, and their couplings are set to 0. Functions import the kernels that they call, so that
importing this module does not load Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr, ndtri

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceResult, Query, empty_result
from skcrbm.inference.methods._samplers import PerturbAndMAP, PerturbAndMaxProduct
from skcrbm.inference.random_numbers import gumbel_noise, logistic_noise, random_key
from skcrbm.inference.running import run_inference
from skcrbm.utils.limits import CACHED_ENTRIES, ROWS_PER_CHUNK
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# Smallest number of samples of a dense model that a kernel processes in a single call. For small
# models a call processes more samples, because otherwise the cost of the call would dominate.
_BLOCK = 16
# Nanoseconds of 20 iterations with a matrix, for an entry and for a row of each sample; and with a
# list of edges, for an edge, and for an edge of each sample. The answers are equal up to rounding.
_ENTRY, _ROW = 16.0, 1750.0
_EDGE, _EDGE_OF_SAMPLE = 1450.0, 62.0


class Perturbations(NamedTuple):
    """State of perturb-and-max-product: messages and noise of all samples.

    The samples of the first model come first, then the samples of the second model, and so on.
    """

    # Messages (N * n_samples, ...) in the shape and units of the solver. None if the state was not
    # requested; the next call then starts without messages.
    messages: np.ndarray | None
    # Noise (N * n_samples, *shape of `Noise`), in float64, from which the noise of the next draw is
    # computed if the option `persistence` is used. None if `perturbed_states` drew the states.
    noise: np.ndarray | None
    # Key (uint64) of the random numbers, see `random_key`.
    key: Any
    # Number of draws so far, which is the position of the next draw in the random streams.
    step: int
    # Index (N * n_samples,) of the random stream of each sample. If None, sample i has stream i.
    streams: np.ndarray | None = None


def perturbed_states(
    energy: BaseEnergy, key: Any, streams: np.ndarray, step: int, max_iter: int
) -> np.ndarray:
    """Draw a state of each model, with random numbers from the given streams.

    `streams` (N,) has the index of the random stream of each model. `step` is the index of the draw
    in a stream, and `max_iter` is the number of sweeps of `PerturbAndMaxProduct`. The result is
    int8 (N, n_variables).
    """
    counted = InferenceResult(state=Perturbations(None, None, key, step, streams))
    method = PerturbAndMaxProduct(max_iter)
    result: Any = run_inference(energy, method, returns="samples", init=counted)
    return result.samples[:, 0]


class Noise:
    """Logistic noise on the log-odds of 0/1 variables."""

    def __init__(self, n_variables: int):
        #: Shape of the noise of a sample.
        self.shape: tuple[int, ...] = (n_variables,)

    def draw(self, key: Any, streams: np.ndarray, step: int) -> np.ndarray:
        """Draw noise of shape (len(streams), *shape)."""
        return logistic_noise(key, streams, step, self.shape[0])

    def as_normal(self, noise: np.ndarray) -> np.ndarray:
        """Convert logistic noise to standard normal numbers z: noise = logit(Phi(z)).

        The conversion keeps quantiles, and is accurate in both tails.
        """
        return np.copysign(ndtri(expit(-np.abs(noise))), noise)

    def from_normal(self, z: np.ndarray) -> np.ndarray:
        """Convert normal numbers to noise, the inverse of `as_normal`."""
        return log_ndtr(z) - log_ndtr(-z)

    def gain(self, noise: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Return the total noise in the score of each of K states (K, n), minus its mean.

        The mean is taken over all possible states with the same noise. The expectation of this mean
        is 0, so that subtracting the mean lowers the variance of estimates without changing their
        expectation.
        """
        return (noise * (states - 0.5)).sum(axis=1)


class StateNoise(Noise):
    """Gumbel noise of mean 0 on the score of each state of categorical variables."""

    def __init__(self, n_states: np.ndarray):
        self.has_state = np.arange(n_states.max(initial=1)) < n_states[:, None]
        self.shape = self.has_state.shape

    def draw(self, key, streams, step):
        """Draw noise of shape (len(streams), n, K)."""
        noise = gumbel_noise(key, streams, step, self.has_state.size)
        return noise.reshape(len(streams), *self.shape)

    def as_normal(self, noise):
        """Convert Gumbel noise to standard normal numbers with the same quantiles.

        The result is accurate in both tails.
        """
        log_u = -np.exp(-noise - np.euler_gamma)
        low = log_u < -np.log(2)
        return np.where(low, ndtri(np.exp(log_u)), -ndtri(-np.expm1(log_u)))

    def from_normal(self, z):
        """Convert normal numbers to noise, the inverse of `as_normal`."""
        log_u = np.where(z > 0, np.log1p(-np.exp(log_ndtr(-z))), log_ndtr(z))
        return -np.log(-log_u) - np.euler_gamma

    def gain(self, noise, states):
        """Return the total noise in the score of each of K states, centred; see `Noise.gain`."""
        chosen = np.take_along_axis(noise, states[..., None].astype(np.int64), axis=2)[..., 0]
        mean = (noise * self.has_state).sum(axis=2) / self.has_state.sum(axis=1)
        return (chosen - mean).sum(axis=1)


def answer_by_maxima(
    method: PerturbAndMaxProduct | PerturbAndMAP,
    energy: BaseEnergy,
    query: Query,
    maximise: Callable[..., tuple[np.ndarray, np.ndarray | None]],
    message_shape: tuple[int, ...],
    noisy: np.ndarray | None = None,
    size: int = 16,
    kind: Noise | None = None,
) -> dict[str, Any]:
    """Compute "samples" and "log_partition" by a function `maximise` that finds best states.

    The function ``maximise(rows, noise, message, keep)`` searches for the best states of the models
    `rows` (K,) with noise (K, *shape of `kind`). If `message` is not None, the search starts from
    these messages of an earlier run. The function returns states (K, n), in which clamped variables
    have the clamped values, and the messages (K, *message_shape) if `keep`, else None.

    `message_shape` is the shape of the messages of a sample. `noisy` (n,) is True for variables
    that get noise (None: all variables). `size` is the largest number of samples in a call of
    `maximise`. `kind` is the kind of noise (None: logistic noise on the log-odds of each variable).
    """
    kind = Noise(energy.n_variables) if kind is None else kind
    n_models, n_samples, n = energy.n_models, query.n_samples, energy.n_variables
    wants_log_z = "log_partition" in query.returns
    shape = n_models * n_samples, *message_shape
    before = _earlier(query, shape, kind.shape)
    persistence = method.persistence if isinstance(method, PerturbAndMaxProduct) else 0.0
    key = random_key(method.random_state) if before is None else before.key
    step = 0 if before is None else before.step
    streams = None if before is None else before.streams
    keep = query.return_state
    messages = np.empty(shape, energy.dtype) if keep else None
    all_noise = np.empty((shape[0], *kind.shape))
    samples = np.empty((shape[0], n), energy.state_dtype)
    scores = np.empty(shape[0])

    def run(items):
        numbers = np.arange(items.start, items.stop)
        rows = numbers // n_samples
        noise = kind.draw(key, numbers if streams is None else streams[items], step)
        if before is not None and before.noise is not None and persistence > 0:
            r = persistence
            earlier, new = kind.as_normal(before.noise[items]), kind.as_normal(noise)
            noise = kind.from_normal(r * earlier + np.sqrt(1 - r**2) * new)
        all_noise[items] = noise
        if noisy is not None:
            noise[:, ~noisy] = 0.0
        start = None
        if before is not None and before.messages is not None:
            start = before.messages[items].copy()  # solvers change it in place
        states, sent = maximise(rows, noise, start, keep=keep)
        samples[items] = states
        if messages is not None:
            messages[items] = sent
        if wants_log_z:
            part = energy.rows(rows)
            noise[~part.free] = 0
            scores[items] = part.score(states) + kind.gain(noise, states)

    for _ in ordered_map(run, row_chunks(shape[0], size), query.n_jobs):
        pass
    fields = empty_result(energy, query)
    if isinstance(method, PerturbAndMaxProduct):
        fields["n_iter"][:] = method.max_iter
    if "samples" in query.returns:
        fields["samples"] = samples.reshape(n_models, n_samples, n)
    if wants_log_z:
        _fill_log_partition(fields, scores.reshape(n_models, n_samples))
    fields["state"] = Perturbations(messages, all_noise, key, step + 1, streams)
    return fields


def _earlier(query, shape, noise_shape):
    """Return the state from which a query continues, or None for a query without `init`.

    A ValueError is raised if the state has a different number of models or samples.
    """
    if query.start is None:
        return None
    state = query.start.state
    if (
        not isinstance(state, Perturbations)
        or (state.messages is not None and state.messages.shape != shape)
        or (state.noise is not None and state.noise.shape != (shape[0], *noise_shape))
    ):
        raise ValueError(
            "init must contain a state of 'perturb_and_max_product' on the same energy, with "
            f"{shape[0]} samples of all models together"
        )
    return state


def _fill_log_partition(fields, scores):
    """Estimate log Z by the mean of the scores (N, n_samples) of samples, and write it to `fields`.

    Also write the standard error of the estimate, which is infinite if there is a single sample, or
    if a sample is an impossible state.
    """
    fields["log_partition"] = scores.mean(axis=1)
    possible = np.isfinite(scores).all(axis=1)
    error = np.full(len(scores), np.inf)
    if scores.shape[1] > 1:
        error[possible] = scores[possible].std(axis=1, ddof=1) / np.sqrt(scores.shape[1])
    fields["standard_error"] = error
    fields["converged"] = possible


def free_groups(free):
    """Yield each distinct row of `free` (K, n), and the indices of all rows equal to this row."""
    patterns, which = np.unique(free, axis=0, return_inverse=True)
    which = which.reshape(-1)
    for p, pattern in enumerate(patterns):
        yield pattern, np.flatnonzero(which == p)


def solve_rbm(method, energy, query):
    """Compute the answers for RBMs, converted to -1/+1 units with couplings w / 4.

    Messages start at log-odds 0.
    """
    v, h = energy.weights.shape
    quarter = kernel_array(energy.weights / 4, energy.dtype)
    exact = quarter.astype(np.float64)

    def fields_of(folded, free):
        free = free.astype(np.float64)
        shift = np.einsum("vh,h->v", exact, free[v:]), np.einsum("vh,v->h", exact, free[:v])
        return folded / 2 + np.concatenate(shift)

    return _solve_dense(method, energy, query, quarter, fields_of, False, (v, h))


def solve_ising(method, energy, query):
    """Compute the answers for Ising models.

    The kernel that takes less time is called: for a list of edges, or for the upper triangle of a
    matrix. In a state, a matrix has messages of all pairs, because its couplings may change from 0.
    """
    all_pairs = query.return_state or query.start is not None
    all_pairs = all_pairs and not energy.couplings_are_sparse
    n_labels, n_draws = energy.n_variables, energy.n_models * query.n_samples
    n_edges = n_labels * (n_labels - 1) // 2 if all_pairs else energy.n_couplings
    as_edges = n_edges * (_EDGE + _EDGE_OF_SAMPLE * n_draws)
    if n_draws * n_labels * (_ENTRY * n_labels + _ROW) < as_edges:
        matrix = energy.coupling_matrix()
        return _solve_dense(
            method, energy, query, matrix, lambda folded, free: folded, True, matrix.shape
        )
    if all_pairs:
        pairs = np.triu_indices(n_labels, 1)
        return _solve_edges(method, energy, query, np.column_stack(pairs), energy.coupling[pairs])
    energy = energy.as_sparse()
    return _solve_edges(method, energy, query, energy.edges, energy.edge_coupling)


def _solve_dense(method, energy, query, coupling, fields_of, triangle, size):
    """Compute the answers for a matrix of couplings of shape `size`.

    ``fields_of(fields, free)`` converts fields, which include the effect of the evidence, to half
    log-odds; `free` (n,) is True for variables that are not clamped. If `triangle` is True, only
    the upper triangle of the matrix is used.
    """
    from skcrbm.kernels.perturbed_maxima import pass_pairs

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


def _solve_edges(method, energy, query, edges, weights):
    """Compute the answers for edges (E, 2) with couplings (E,), with samples in the inner loop."""
    from skcrbm.kernels.perturbed_maxima import pass_edges

    folded = _folded(energy)
    edges = kernel_array(edges)
    damping = energy.dtype.type(method.damping)

    def maximise(rows, noise, message, keep):
        n_edges = len(edges)
        free = energy.free[rows]
        belief = np.empty(noise.shape, energy.dtype)
        sent = np.empty((len(rows), 2 * n_edges), energy.dtype) if keep else None
        for pattern, where in free_groups(free):
            present = pattern[edges].all(axis=1)
            coupling = kernel_array(np.where(present, weights, 0), energy.dtype)
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
            if sent is not None:
                sent[where] = here.T
        return _states(energy, rows, belief), sent

    shape = (2 * len(edges),)
    return answer_by_maxima(method, energy, query, maximise, shape, size=ROWS_PER_CHUNK)


def _folded(energy):
    """Return the fields (N, n) in float64, to which the effect of clamped variables is added."""
    with one_blas_thread():
        fields, _ = energy.fold_evidence()
    return np.concatenate(fields, axis=1).astype(np.float64)


def _states(energy, rows, belief):
    """Return bool states (K, n): the values of clamped variables, else ``belief >= 0``."""
    if energy.evidence is None:
        return belief >= 0
    held = energy.evidence[rows]
    return np.where(np.isnan(held), belief >= 0, held == 1)
