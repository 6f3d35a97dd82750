"""Pass messages for many models (or copies of models) side by side, for samplers.

Each model is a SIMD lane of the kernels. Some samplers clamp one variable after the other, and
continue with the messages of the previous step. Other samplers pass messages for a fixed number of
iterations on perturbed fields. This example clamps one variable after the other::

    start = Lanes(energy, SUM)                 # N models
    start.sweep(20)
    lanes = start.copies(np.repeat(np.arange(N), n_samples))
    for i in order:
        p = expit(lanes.log_odds(i))           # (K,), given the clamped variables
        lanes.hold(i, u[:, i] < p)
        lanes.sweep(5)

A `Lanes` object does not test for convergence. Each thread has a `Lanes` object for a block of at
most `Lanes.n_lanes` samples.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from skcrbm.inference.factor_graph._flat_graph import (
    fits_odds,
    flat_graph,
    held_values,
    message_limits,
)
from skcrbm.inference.factor_graph.messages import field_weights
from skcrbm.kernels.factor_logs import add_messages, repeat_logs
from skcrbm.kernels.factor_tables import TableGraph, form_beliefs, repeat_tables, work_arrays
from skcrbm.kernels.sparse_ising import repeat_ising
from skcrbm.utils.limits import ROWS_PER_CHUNK
from skcrbm.utils.validation import kernel_array

# Settled factors are left out of later sweeps if the other factors have at most this share of the
# edges. Otherwise it would take longer to select the other factors than to send all messages.
_ACTIVE_SHARE = 0.9


class Lanes:
    """Messages of the K models of a `FactorGraphEnergy`. A sweep updates all messages.

    Messages have one of three forms: odds in the dtype of the energy, if the messages of all models
    fit this dtype; otherwise odds in float64, if they fit float64; otherwise logarithms. The method
    `by_form` splits a batch into groups of models with the same form, so that the form of a model
    does not depend on the other models. `kind` is SUM or MAX. `damping` is the share of the old
    log-message in the new log-message.

    A factor is settled if at most one of its variables is not clamped. Without damping, its message
    to this variable does not change after the first sweep with the same clamped variables. If
    `same_clamped` is True, all models must have the same clamped variables at any time, and later
    sweeps leave out the settled factors. This changes rounding errors.
    """

    #: Largest number of models (or samples) that are processed side by side.
    n_lanes = ROWS_PER_CHUNK
    #: Share of the range of the dtype that a product of messages may use, see `fits_odds`.
    share = 1.0

    def __init__(self, energy, kind, damping=0.0, same_clamped=False):
        self.kind, self.damping = kind, float(damping)
        self.leaves_out = same_clamped and self.damping == 0
        self._graph, self._field = flat_graph(energy), energy.field
        norms = self._graph.norms(energy.n_variables)
        self._evidence = held_values(energy)
        forms = _forms(self._graph, norms, energy, self.damping, self.share)
        self._dtype = next((dtype for dtype, fits in forms if fits.all()), None)
        if self._dtype is not None:
            self._arrays: Any = self._prepare(self._graph)
        else:
            self._factors = self._graph.factors
            self._field = kernel_array(self._field, np.float64)
            self._limit = message_limits(norms, self._field)
        self.reset()

    @classmethod
    def by_form(cls, energy, damping):
        """Split a batch into groups of models whose messages have the same form.

        Return a list with an array for each group: the indices of its models.
        """
        graph = flat_graph(energy)
        norms = graph.norms(energy.n_variables)
        left, groups = np.ones(energy.n_models, bool), []
        for _, fits in _forms(graph, norms, energy, float(damping), cls.share):
            groups.append(np.flatnonzero(left & fits))
            left &= ~fits
        return [rows for rows in (*groups, np.flatnonzero(left)) if len(rows)]

    def copies(self, index):
        """Return a `Lanes` with copies of the models `index` (K,), which may be repeated."""
        other = copy.copy(self)
        for name, axis in self._model_axes().items():
            array = getattr(self, name)
            setattr(other, name, kernel_array(np.take(array, index, axis=axis)))
        other._allocate(len(index))
        return other

    def _model_axes(self):
        """Return a dict that maps the name of each array to its axis of models."""
        rows = dict.fromkeys(("_field", "_evidence", "held"), 0)
        if self._dtype is None:
            return rows | dict.fromkeys(("_message", "_belief", "_limit"), 0)
        return rows | dict.fromkeys(("_message", "_belief", "_on", "_off"), 1)

    def _allocate(self, n):
        """Allocate the work arrays for n models."""
        self._after = np.empty_like(self._belief)
        if self._dtype is not None:
            self._work = self._work_for(n)

    def reset(self):
        """Reset all messages, and free the variables that `hold` has clamped."""
        self.held = self._evidence.copy()
        if self._dtype is not None:
            _, self._on, self._off, _ = field_weights(self._field, self.held, self._dtype)
        self.forget()

    def forget(self):
        """Reset all messages; clamped variables stay clamped."""
        shape = self._graph.n_edges, len(self.held)
        if self._dtype is not None:
            self._message = np.ones(shape, self._dtype)
            self._belief = self._on.copy()
        else:
            self._message = np.zeros(shape[::-1])
            self._belief = np.where(self.held < 0, self._field, 0.0)
        self._allocate(len(self.held))

    @property
    def messages(self):
        """Current messages (K, E), as log-odds."""
        return self._message if self._dtype is None else np.log(self._message).T

    def go_on_from(self, messages):
        """Continue from `messages` (K, E), the log-odds of an earlier run."""
        if self._dtype is not None:
            self._message = kernel_array(np.exp(messages.T), self._dtype)
            n_lanes = np.uintp(len(self.held))
            variables = self._graph.variables
            form_beliefs(variables, self._on, self._message, self._belief, n_lanes)
            return
        self._message = kernel_array(messages, np.float64)
        for k in range(len(self.held)):
            add_messages(
                self._factors, self._field[k], self.held[k], self._message[k],
                self._belief[k],
            )  # fmt: skip

    @property
    def states(self):
        """The more probable value of each variable, as bool (K, n). Ties are True."""
        on = self._belief >= 0 if self._dtype is None else (self._belief >= self._off).T
        return np.where(self.held < 0, on, self.held == 1)

    def hold(self, variable, values):
        """Clamp a variable of each model to 0 or 1, which takes effect in the next sweep.

        `variable` is the index of the variable, or an array with an index for each model. `values`
        (K,) has the value for each model.
        """
        values = np.asarray(values).astype(bool)
        every = np.arange(len(self.held))
        self.held[every, variable] = values
        if self._dtype is not None:
            self._on[variable, every] = values
            self._off[variable, every] = ~values
            self._belief[variable, every] = values

    def sweep(self, n_iter):
        """Make `n_iter` sweeps; each sends all messages from the beliefs of the previous sweep."""
        if self._dtype is not None:
            active = self._active_factors() if self.leaves_out and n_iter > 1 else None
            if active is None:
                self._send(self._arrays, self._on, self._message, n_iter)
            else:
                self._send(self._arrays, self._on, self._message, 1)
                self._send_active(active, n_iter - 1)
        else:
            repeat_logs(
                self.kind, self._factors, self.damping, self._limit, self._field, self.held,
                self._message, self._belief, self._after, n_iter,
            )  # fmt: skip

    def _active_factors(self):
        """Return a mask (F,) of the factors that are not settled, or None to use all factors."""
        clamped = self.held[0] >= 0
        if not clamped.any():
            return None
        free = ~clamped[self._graph.variables]
        active = np.add.reduceat(free, self._graph.edge_start[:-1], dtype=np.int64) > 1
        n_sent = np.diff(self._graph.edge_start)[active].sum()
        return active if n_sent <= _ACTIVE_SHARE * self._graph.n_edges else None

    def _send_active(self, active, n_iter):
        """Do the same as `_send`, but only for the factors of the mask `active` (F,)."""
        edge = np.repeat(active, np.diff(self._graph.edge_start))
        fields = np.empty_like(self._on)
        n_lanes = np.uintp(len(self.held))
        form_beliefs(self._graph.variables[~edge], self._on, self._message[~edge], fields, n_lanes)
        if not active.any():
            self._belief = fields
            return
        message = self._message[edge]
        self._send(self._part(active), fields, message, n_iter)
        self._message[edge] = message

    def _prepare(self, graph):
        """Return the graph as the arrays that the kernel of `_send` takes."""
        return graph.tables(self._dtype)

    def _part(self, active):
        """Return the factors of a mask (F,) in the form that `_prepare` returns."""
        variables, edge_start, table, table_start = self._arrays
        n_edges, n_entries = np.diff(edge_start), np.diff(table_start)
        return TableGraph(
            variables[np.repeat(active, n_edges)],
            np.append(0, np.cumsum(n_edges[active])),
            table[np.repeat(active, n_entries)],
            np.append(0, np.cumsum(n_entries[active])),
        )

    def _work_for(self, n):
        """Allocate the work arrays of `_send` for n models."""
        return work_arrays(self._arrays.table.dtype, n)

    def _send(self, arrays, on, message, n_iter):
        """Send the messages of a graph `n_iter` times as odds, and update `message` and beliefs.

        `arrays` is the graph in the form that `_prepare` returns, `on` (n, lanes) the fields, as
        weights of the value 1, and `message` (E, lanes) the messages of the graph.
        """
        self._belief, self._after = repeat_tables(
            self.kind, self.damping == 0.5, arrays, on, self._off, message, self._belief,
            self._after, self._work, n_iter,
        )  # fmt: skip

    def log_odds(self, variable):
        """Return the log-odds (K,) of a variable, ±inf for models in which it is clamped.

        `variable` is an index, or an array with an index for each model.
        """
        every = np.arange(len(self.held))
        if self._dtype is not None:
            with np.errstate(divide="ignore"):
                found = np.log(self._belief[variable, every])
                found -= np.log(self._off[variable, every])
        else:
            found = self._belief[every, variable]
        held = self.held[every, variable]
        return np.where(held < 0, found, np.where(held == 1, np.inf, -np.inf))


class IsingLanes(Lanes):
    """Faster message passing for the factor graph of an `IsingEnergy`."""

    #: Share of the range of the dtype that a product of messages may use, see `fits_odds`. It is a
    #: quarter because a single division computes two messages, and its denominator is a product of
    #: up to four numbers.
    share = 0.25

    def _prepare(self, graph):
        edges = kernel_array(graph.variables.reshape(graph.n_tables, 2))
        # Recover the coupling s from the table of an edge. Its largest log-potential |s| is in
        # `shift`, and its last log-potential s is in `logs` as s - |s|, so s is the sum of the two
        # numbers.
        coupling = graph.shift + graph.logs[3::4]
        return edges, kernel_array(np.exp(2 * coupling), self._dtype)

    def _work_for(self, n):
        return np.empty((2, n), self._dtype)

    def _part(self, active):
        edges, weights = self._arrays
        return edges[active], weights[active]

    def _send(self, arrays, on, message, n_iter):
        edges, weights = arrays
        self._belief, self._after = repeat_ising(
            self.kind, self.damping == 0.5, edges, weights, on, self._off, message, self._belief,
            self._after, self._work, n_iter,
        )  # fmt: skip


def _forms(graph, norms, energy, damping, share):
    """Yield the dtypes in which messages may be stored as odds, each with a mask (N,) of models.

    The mask is True for the models whose messages fit the range of the dtype, see `fits_odds`.

    Yield nothing if the kernels that store messages as odds do not support the damping.
    """
    if damping in (0.0, 0.5):
        for dtype in dict.fromkeys((energy.dtype, np.dtype(np.float64))):
            yield dtype, fits_odds(graph, norms, energy.field, dtype, share)
