"""Learning rules that run a fixed number of inference iterations, for layered models and graphs."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import ClassVar

import numpy as np

from skcrbm.inference.layered.network import Held, LayeredInput, probabilities
from skcrbm.inference.layered.truncated import TruncatedInference
from skcrbm.learning.data import Batch, Clock
from skcrbm.learning.objectives import Objective, Step
from skcrbm.learning.rules import LearningRule
from skcrbm.learning.structured.truncated import GraphTruncated
from skcrbm.utils.limits import ESTIMATOR_TOL, LAYERED_CHUNK_ROWS, VECTOR_ROWS
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.sklearn_private import Interval


class Backpropagation(LearningRule):
    """Backpropagation through the iterations of inference (``learning="backprop"``).

    The loss of a row is ``-log b(y)``, where b(y) is the belief of the observed outputs y after the
    last iteration. The gradient of the loss is exact ([1]_). In `GraphCRF`, `inference` must be
    "sum_product" or "mean_field"; each iteration updates all messages or beliefs at once. The
    number of iterations is the option `max_iter` of the inference method, for example
    ``SumProduct(max_iter=5)``; None stands for 10.

    Parameters
    ----------
    label_smoothing : float in [0, 1), default=0.0
        Share of each target probability that is spread evenly over all states.

    References
    ----------
    .. [1] Shen, Wu, Domokos and Cremers (2019). Probabilistic discriminative learning with
       layered graphical models. Section 3.

    Examples
    --------
    >>> from skcrbm import LayeredGMClassifier
    >>> from skcrbm.learning import Backpropagation
    >>> model = LayeredGMClassifier(learning=Backpropagation(label_smoothing=0.1))
    """

    name = "backprop"
    _parameter_constraints: ClassVar = {"label_smoothing": [Interval(Real, 0, 1, closed="left")]}

    def __init__(self, label_smoothing: float = 0.0):
        self.label_smoothing = label_smoothing

    def layered(self, inference: TruncatedInference, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a layered model by this rule."""
        return TruncatedLikelihood(inference, self.label_smoothing, n_jobs)

    def graph(self, trained, inference, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of graphs by this rule."""
        return GraphTruncated(trained, inference, self.label_smoothing, n_jobs)


class AnalyticGradient(Backpropagation):
    """Gradient as a difference of moments, without backpropagation (``learning="analytic"``).

    The gradient is computed as the moments given the inputs minus the moments given the inputs and
    outputs. Inference runs the same number of iterations for both moments ([1]_, eq. 7). If the
    graph has cycles, or inference does not converge in this number of iterations, the difference is
    not the gradient of any loss. Training then gives worse models than `Backpropagation`.

    Parameters
    ----------
    label_smoothing : float in [0, 1), default=0.0
        Share of each target probability that is spread evenly over all states. The option changes
        only the reported loss.

    References
    ----------
    .. [1] Shen, Wu, Domokos and Cremers (2019). Probabilistic discriminative learning with
       layered graphical models. Section 3.

    Examples
    --------
    >>> from skcrbm import LayeredGMClassifier
    >>> from skcrbm.learning import AnalyticGradient
    >>> model = LayeredGMClassifier(learning=AnalyticGradient())  # learning="analytic"
    """

    name = "analytic"

    def layered(self, inference: TruncatedInference, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a layered model by this rule."""
        return TruncatedMoments(inference, self.label_smoothing, n_jobs)


class TruncatedLikelihood(Objective):
    """Loss ``-log b(y)``, where b are the beliefs after T iterations (Shen et al. 2019).

    Reverse-mode differentiation through the iterations computes the exact gradient. The model is a
    `LayeredModel`, which encodes its inputs itself. The objective has no state.
    """

    def __init__(
        self, inference: TruncatedInference, label_smoothing: float = 0.0, n_jobs: int | None = None
    ):
        self.inference = inference
        self.label_smoothing = label_smoothing
        self.n_jobs = n_jobs

    def rows_read(self, model, batch: Batch):
        """Return the rows of the input layer's weights that a batch with sparse X reads."""
        return model.weights_read(batch.X)

    def step(self, model, batch: Batch, clock: Clock, state):
        """Return the `Step` of a batch.

        Threads compute the steps of chunks of rows. The steps are added in a fixed order, so that
        the sum does not depend on the number of threads.
        """
        network = self.inference.network(model)

        def chunk(rows):
            part = batch.rows(rows)
            return self._chunk(network, model, _whole_vectors(part), len(part))

        chunks = row_chunks(len(batch), LAYERED_CHUNK_ROWS)
        return Step.total(ordered_map(chunk, chunks, self.n_jobs)), state

    def score(self, model, batch: Batch, epoch: int) -> float:
        """Return minus the mean loss of held-out rows."""
        return -self.loss(model, batch) / batch.weight.sum()

    def loss(self, model, batch: Batch) -> float:
        """Return the weighted sum of the losses of the rows, without its gradient."""
        network = self.inference.network(model)

        def chunk(rows):
            part = batch.rows(rows)
            trace = network.run(LayeredInput(*model.encode(part.X)))
            return self._loss(trace.beliefs[-1][-1], part, model.structure)[0]

        return sum(ordered_map(chunk, row_chunks(len(batch), LAYERED_CHUNK_ROWS), self.n_jobs))

    def _chunk(self, network, model, batch, n):
        """Return the `Step` of the first n rows of a batch; the other rows have weight 0."""
        trace = network.run(LayeredInput(*model.encode(batch.X)), keep=True)
        output = trace.beliefs[-1][-1]
        loss, difference = self._loss(output, batch, model.structure)
        d_output = difference[:, 1:].reshape(output.shape).astype(output.dtype)
        gradient = network.gradient(trace, np.ascontiguousarray(d_output))
        return Step(gradient, loss, self._converged(trace, n))

    def _loss(self, output, batch, structure):
        """Return the loss, and its gradient with respect to the scores of the output nodes.

        The gradient has the shape (n_outputs, n_states, n).
        """
        p = probabilities(output.astype(np.float64), len(batch))
        target = targets_of(batch.visible, p.shape)
        weight = np.where(np.isnan(target[:, :1]), 0.0, batch.weight)
        target = np.nan_to_num(target)
        eps = self.label_smoothing
        if structure.possible is None:
            even = 1 / p.shape[1]
        else:  # the output nodes have different numbers of states
            even = (structure.possible / structure.possible.sum(axis=1, keepdims=True))[:, :, None]
        target = (1 - eps) * target + eps * even
        log_p = np.log(np.maximum(p, 1e-300))
        return -float((weight * target * log_p).sum()), weight * (p - target)

    def _converged(self, trace, n):
        """Return the number of rows, among the first n, in which inference has converged.

        Inference of a row has converged if the last iteration hardly changed the probabilities of
        the outputs.
        """
        if trace.n_iter < self.inference.n_iter:  # all rows converged, so inference stopped early
            return n
        last = probabilities(trace.beliefs[-1][-1], trace.n)
        before = probabilities(trace.beliefs[-2][-1], trace.n)
        return int((abs(last - before).max(axis=(0, 1)) < ESTIMATOR_TOL)[:n].sum())


class TruncatedMoments(TruncatedLikelihood):
    """Objective of `AnalyticGradient`: a difference of moments after T iterations.

    The outputs are free for the first moments and clamped for the second moments. The reported loss
    is the same as in `TruncatedLikelihood`.
    """

    def _chunk(self, network, model, batch, n):
        inputs = LayeredInput(*model.encode(batch.X))
        trace = network.run(inputs, complete=True, keep=True)
        output = trace.beliefs[-1][-1]
        loss, _ = self._loss(output, batch, model.structure)
        model_moments = network.moments(trace, batch.weight)
        target = targets_of(batch.visible, (len(output), self._n_states(output, trace.n), trace.n))
        free = np.isnan(target[:, 0]).astype(output.dtype)
        states = np.nan_to_num(target[:, 1:]).reshape(output.shape).astype(output.dtype)
        inputs.held = Held.output(network.structure.depth, free, states)
        clamped = network.moments(network.run(inputs, complete=True), batch.weight)
        gradient = type(clamped)(*(m - c for m, c in zip(model_moments, clamped)))
        return Step(gradient, loss, self._converged(trace, n))

    @staticmethod
    def _n_states(output, n):
        return output.shape[1] // n + 1


def _whole_vectors(batch):
    """Pad a batch with rows of weight 0 to a multiple of `VECTOR_ROWS`, if this saves time.

    The kernels are faster on whole vectors of `VECTOR_ROWS` rows.
    """
    n = len(batch)
    odd = n % VECTOR_ROWS
    if n < VECTOR_ROWS or odd <= 2:
        return batch
    more = VECTOR_ROWS - odd
    filled = batch.rows(np.r_[:n, [0] * more])
    return replace(filled, weight=np.r_[batch.weight, np.zeros(more)])


def targets_of(visible: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return the target probability (n_outputs, n_states, n) of each state of each output node.

    The targets of outputs that are not observed are NaN. `visible` (n, V) holds the one-hot states
    of a single categorical node, or the state 0, 1, 2, ... of each of V nodes.
    """
    values = visible.T.astype(np.float64)
    if shape[0] != len(values) or shape[1] == 1:
        return values[None]
    if shape[1] == 2:
        return np.stack([1 - values, values], axis=1)
    found = (values[:, None] == np.arange(shape[1])[:, None]).astype(np.float64)
    return np.where(np.isnan(values)[:, None], np.nan, found)
