"""Learning layered models through a fixed number of inference iterations."""

import numpy as np

from skcrbm.inference._layered import LayeredInput, probabilities
from skcrbm.inference._layered_methods import make_network
from skcrbm.learning._base import Objective, Step
from skcrbm.utils._parallel import ordered_map, row_chunks

# Rows that a kernel takes at once: its scratch space stays in the L1 cache.
CHUNK_ROWS = 64
# A row has converged when its output probabilities moved by less in the last iteration.
_TOLERANCE = 1e-3
# Score of a clamped state, before pairwise scores count; its exponential is still finite.
_CLAMP = 1e4


class TruncatedLikelihood(Objective):
    """``-log b(y)``, b being the output's beliefs after T iterations (Shen et al. 2019).

    The gradient is that of this very number, by reverse-mode differentiation through
    the iterations.

    Parameters
    ----------
    inference : {"tree_reweighted", "sum_product", "mean_field"}
    schedule : {"sequential", "parallel"}
    n_iter : int
        T.
    label_smoothing : float in [0, 1)
        Share of each target that is spread evenly over all states.
    n_jobs : int or None
    """

    def __init__(self, inference, schedule, n_iter, label_smoothing=0.0, n_jobs=None):
        super().__init__(inference, n_jobs)
        self.schedule = schedule
        self.n_iter = n_iter
        self.label_smoothing = label_smoothing

    def network(self, model):
        """Return the network that all chunks of a batch share."""
        return make_network(
            model, self.inference, self.schedule, self.n_iter, bool(model.code.free.any())
        )

    def step(self, model, batch, epoch):
        """Return the `Step` of a batch; rows are done in chunks, added up in order."""
        network = self.network(model)

        def chunk(rows):
            return self._chunk(network, model, batch.rows(rows))

        chunks = row_chunks(len(batch), CHUNK_ROWS)
        steps = list(ordered_map(chunk, chunks, self.n_jobs))
        if len(steps) == 1:
            return steps[0]
        return Step(
            type(steps[0].gradient)(*(sum(parts) for parts in zip(*(s.gradient for s in steps)))),
            sum(s.loss for s in steps),
            sum(s.n_converged for s in steps),
        )

    def loss(self, model, batch):
        """Weighted sum over rows of the loss, without its gradient."""
        network = self.network(model)

        def chunk(rows):
            part = batch.rows(rows)
            trace = network.run(LayeredInput(*model.encode(part.X)))
            return self._loss(trace.beliefs[-1][-1], part)[0]

        return sum(ordered_map(chunk, row_chunks(len(batch), CHUNK_ROWS), self.n_jobs))

    def _chunk(self, network, model, batch):
        trace = network.run(LayeredInput(*model.encode(batch.X)), keep=True)
        output = trace.beliefs[-1][-1]
        loss, difference = self._loss(output, batch)
        d_output = difference[:, 1:].reshape(output.shape).astype(output.dtype)
        gradient = network.gradient(trace, np.ascontiguousarray(d_output))
        return Step(gradient, loss, self._converged(trace))

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

    def _converged(self, trace):
        """Rows whose output probabilities hardly moved in the last iteration."""
        if trace.n_iter < self.n_iter:  # the iterations left out would repeat the last
            return trace.n
        last = probabilities(trace.beliefs[-1][-1], trace.n)
        before = probabilities(trace.beliefs[-2][-1], trace.n)
        return int((abs(last - before).max(axis=(0, 1)) < _TOLERANCE).sum())


class MomentMatching(TruncatedLikelihood):
    """The analytic gradient: moments given the inputs, minus moments given the outputs too.

    Both come from T iterations (Shen et al. 2019, eq. 7); on loopy graphs the difference
    is not the gradient of any loss. The loss reported is that of `TruncatedLikelihood`.
    """

    def _chunk(self, network, model, batch):
        inputs = LayeredInput(*model.encode(batch.X))
        trace = network.run(inputs, complete=True, keep=True)
        output = trace.beliefs[-1][-1]
        loss, _ = self._loss(output, batch)
        free = network.moments(trace, batch.weight)
        target = targets_of(batch.visible, (len(output), self._n_states(output, trace.n), trace.n))
        clamped_to = np.where(np.isnan(target[:, 1:]), 0.0, target[:, 1:] - target[:, :1])
        inputs.output_scores = (_CLAMP * clamped_to).reshape(output.shape).astype(output.dtype)
        clamped = network.moments(network.run(inputs, complete=True), batch.weight)
        gradient = type(free)(*(f - c for f, c in zip(free, clamped)))
        return Step(gradient, loss, self._converged(trace))

    @staticmethod
    def _n_states(output, n):
        return output.shape[1] // n + 1


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
