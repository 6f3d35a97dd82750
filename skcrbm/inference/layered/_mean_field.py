"""Mean field on layered models, and the choice of a method by its name."""

import numpy as np

from skcrbm.inference.layered._network import LayeredNetwork, probabilities
from skcrbm.kernels.layered_messages import expected_fields_vjp


class MeanFieldNetwork(LayeredNetwork):
    """Mean field: a message is the expected pairwise score.

    Messages depend on the beliefs alone, which an iteration computes once: both schedules
    are the same.
    """

    def _start(self, trace, n):
        """Nothing to set: mean field keeps no messages."""

    def _means(self, trace, t, layer):
        """Probabilities of states 1, 2, ..., (n_nodes, (n_states - 1) n); 0 where observed."""
        belief = trace.beliefs[t][layer]
        if belief is None:
            return None
        q = probabilities(belief, trace.n)[:, 1:]
        mask = trace.mask(layer)
        if mask is not None:
            q = q * mask[:, None, :]
        return np.ascontiguousarray(q).reshape(belief.shape)

    def _iterate(self, trace, t, totals):
        means = [self._means(trace, t, layer) for layer in range(self.structure.depth + 1)]
        for c in range(self.structure.depth):
            if means[c] is not None and totals[c + 1] is not None:
                self._expect(c, means[c], totals[c + 1], True, trace.n)
            if totals[c] is not None:
                self._expect(c, means[c + 1], totals[c], False, trace.n)

    def _zero_weights(self, with_input):
        first = 0 if with_input else 1  # where messages are
        return [np.zeros_like(w) if c >= first else None for c, w in enumerate(self.weights)]

    def _iterate_vjp(self, trace, t, d_totals, d_beliefs, d_weights, state):
        n, depth = trace.n, self.structure.depth
        means = [self._means(trace, t, layer) for layer in range(depth + 1)]
        d_means = [None if m is None else np.zeros_like(m) for m in means]
        for c in range(depth):
            if means[c] is not None and d_totals[c + 1] is not None:
                self._expect_vjp(c, means[c], d_totals[c + 1], d_means[c], d_weights[c], True, n)
            if d_totals[c] is not None:
                self._expect_vjp(
                    c, means[c + 1], d_totals[c], d_means[c + 1], d_weights[c], False, n
                )
        for layer in range(depth + 1):
            if means[layer] is None:
                continue
            shape = (len(means[layer]), -1, n)
            q, d = means[layer].reshape(shape), d_means[layer].reshape(shape)
            inner = (q * d).sum(axis=1, keepdims=True)
            d_beliefs[layer] += (q * (d - inner)).reshape(means[layer].shape)

    def _expect_vjp(self, c, mean, d_total, d_mean, d_weights, forward, n):
        connection = self.structure.connections[c]
        if connection.dense:
            matrix = connection.matrix(self.weights[c])
            q, d = mean.reshape(-1, n), d_total.reshape(-1, n)
            d_mean += ((matrix if forward else matrix.T) @ d).reshape(d_mean.shape)
            d_weights += (q @ d.T if forward else d @ q.T).ravel()
            return
        tables = self.tables[c]
        ends = connection.left, connection.right
        if not forward:
            ends = ends[::-1]
            tables = np.ascontiguousarray(tables.transpose(0, 2, 1))
        d_tables = np.zeros_like(tables)
        expected_fields_vjp(mean, tables, *ends, connection.table, d_total, d_mean, d_tables)
        d_weights += (d_tables if forward else d_tables.transpose(0, 2, 1)).ravel()

    def _finish(self, d_weights):
        return list(d_weights)

    def _pair_moments(self, trace, expected):
        last = len(trace.beliefs) - 1
        flat = []
        for c in range(self.structure.depth):
            mean = self._means(trace, last, c)
            some = mean is not None
            flat.append(self._products(c, mean, expected[c + 1], trace.n) if some else None)
        return flat
