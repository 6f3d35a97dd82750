"""Learning layered models through a fixed number of inference iterations."""

from dataclasses import replace

import numpy as np

from skcrbm.inference.layered.network import Held, LayeredInput, probabilities
from skcrbm.inference.layered.truncated import resolve_truncated
from skcrbm.learning._base import Objective, Step
from skcrbm.utils.limits import ESTIMATOR_TOL, LAYERED_CHUNK_ROWS, VECTOR_ROWS
from skcrbm.utils.parallel import ordered_map, row_chunks


class TruncatedLikelihood(Objective):
    """``-log b(y)``, b being the output's beliefs after T iterations (Shen et al. 2019).

    The gradient is that of this very number, by reverse-mode differentiation through
    the iterations.

    The model is a `LayeredModel`, which encodes its inputs itself; nothing is kept from one
    batch to the next.

    Parameters
    ----------
    inference : TruncatedInference
    label_smoothing : float in [0, 1)
        Share of each target that is spread evenly over all states.
    n_jobs : int or None
    """

    def __init__(self, inference, label_smoothing=0.0, n_jobs=None):
        self.inference = inference
        self.n_jobs = n_jobs
        self.label_smoothing = label_smoothing

    @classmethod
    def from_options(cls, inference, n_jobs=None, **options):
        """Return the rule of an estimator's hyperparameters; `inference` is a name here."""
        return cls(resolve_truncated(inference), options["label_smoothing"], n_jobs)

    def rows_read(self, model, batch):
        """Return the rows of the input's weights that a batch of sparse inputs reads."""
        return model.weights_read(batch.X)

    def step(self, model, batch, clock, state):
        """Return the `Step` of a batch; rows are done in chunks, added up in order."""
        network = self.inference.network(model)

        def chunk(rows):
            part = batch.rows(rows)
            return self._chunk(network, model, _whole_vectors(part), len(part))

        chunks = row_chunks(len(batch), LAYERED_CHUNK_ROWS)
        return Step.total(ordered_map(chunk, chunks, self.n_jobs)), state

    def score(self, model, batch, epoch):
        """Return minus the mean loss of held-out rows."""
        return -self.loss(model, batch) / batch.weight.sum()

    def loss(self, model, batch):
        """Weighted sum over rows of the loss, without its gradient."""
        network = self.inference.network(model)

        def chunk(rows):
            part = batch.rows(rows)
            trace = network.run(LayeredInput(*model.encode(part.X)))
            return self._loss(trace.beliefs[-1][-1], part)[0]

        return sum(ordered_map(chunk, row_chunks(len(batch), LAYERED_CHUNK_ROWS), self.n_jobs))

    def _chunk(self, network, model, batch, n):
        """`Step` of the first n rows of a batch; the others have no weight."""
        trace = network.run(LayeredInput(*model.encode(batch.X)), keep=True)
        output = trace.beliefs[-1][-1]
        loss, difference = self._loss(output, batch)
        d_output = difference[:, 1:].reshape(output.shape).astype(output.dtype)
        gradient = network.gradient(trace, np.ascontiguousarray(d_output))
        return Step(gradient, loss, self._converged(trace, n))

    def _loss(self, output, batch):
        """Loss, and its derivative by the output's scores, (n_outputs, n_states, n)."""
        p = probabilities(output.astype(np.float64), len(batch))
        target = targets_of(batch.visible, p.shape)
        weight = np.where(np.isnan(target[:, :1]), 0.0, batch.weight)
        target = np.nan_to_num(target)
        eps = self.label_smoothing
        target = (1 - eps) * target + eps / p.shape[1]
        log_p = np.log(np.maximum(p, 1e-300))
        return -float((weight * target * log_p).sum()), weight * (p - target)

    def _converged(self, trace, n):
        """How many of n rows have output probabilities that hardly moved in the last iteration."""
        if trace.n_iter < self.inference.n_iter:  # the iterations left out would repeat the last
            return n
        last = probabilities(trace.beliefs[-1][-1], trace.n)
        before = probabilities(trace.beliefs[-2][-1], trace.n)
        return int((abs(last - before).max(axis=(0, 1)) < ESTIMATOR_TOL)[:n].sum())


class MomentMatching(TruncatedLikelihood):
    """The analytic gradient: moments given the inputs, minus moments given the outputs too.

    Both come from T iterations (Shen et al. 2019, eq. 7); on loopy graphs the difference
    is not the gradient of any loss. The loss reported is that of `TruncatedLikelihood`.
    """

    def _chunk(self, network, model, batch, n):
        inputs = LayeredInput(*model.encode(batch.X))
        trace = network.run(inputs, complete=True, keep=True)
        output = trace.beliefs[-1][-1]
        loss, _ = self._loss(output, batch)
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
    """Append rows of weight 0: kernels take rows by vectors, those left over one by one."""
    n = len(batch)
    odd = n % VECTOR_ROWS
    if n < VECTOR_ROWS or odd <= 2:
        return batch
    more = VECTOR_ROWS - odd
    filled = batch.rows(np.r_[:n, [0] * more])
    return replace(filled, weight=np.r_[batch.weight, np.zeros(more)])


def targets_of(visible, shape):
    """Targets as probabilities of states, NaN where not observed.

    Parameters
    ----------
    visible : ndarray (n, V)
        One-hot for one categorical node, else 0/1 per binary node.
    shape : tuple
        (n_outputs, n_states, n).

    Returns
    -------
    ndarray (n_outputs, n_states, n), float64
    """
    values = visible.T.astype(np.float64)
    if shape[1] == 2 and shape[0] == len(values):
        return np.stack([1 - values, values], axis=1)
    return values[None]
