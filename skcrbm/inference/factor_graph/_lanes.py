"""Messages that go on from step to step, of many copies of models side by side.

What a sampler needs that holds one variable after the other and goes on with the messages of the
step before, or that passes messages for a fixed number of iterations on perturbed fields::

    start = Lanes(energy, SUM)                 # N models
    start.sweep(20)
    lanes = start.copies(np.repeat(np.arange(N), n_samples))
    for i in order:
        p = expit(lanes.log_odds(i))           # (K,), given what is held so far
        lanes.hold(i, u[:, i] < p)
        lanes.sweep(5)

There is no test of convergence here; `infer` has that. Cut the samples into blocks of
`Lanes.n_lanes`, one `Lanes` each, for threads.
"""

import copy

import numpy as np

from skcrbm.inference.factor_graph._flat_graph import (
    fits_odds,
    flat_graph,
    held_values,
    message_limits,
)
from skcrbm.inference.factor_graph.messages import field_weights
from skcrbm.kernels.factor_logs import add_messages, repeat_logs
from skcrbm.kernels.factor_tables import form_beliefs, repeat_tables, work_arrays
from skcrbm.kernels.sparse_ising import repeat_ising
from skcrbm.utils.limits import ROWS_PER_CHUNK
from skcrbm.utils.validation import kernel_array


class Lanes:
    """Messages of K models, all sent at once, again and again.

    They are odds where these have room in all models, in the dtype of the energy or else in
    float64, and otherwise logarithms: `by_form` cuts a batch so that the form of a model does not
    depend on the others.

    Parameters
    ----------
    energy : FactorGraphEnergy
        K models; what its evidence holds is held here from the start.
    kind : SUM or MAX
    damping : float in [0, 1), default=0.0
        Share of the old log messages that is kept.
    """

    #: Models that run best side by side.
    n_lanes = ROWS_PER_CHUNK
    #: Of a dtype's range, see `fits_odds`.
    share = 1.0

    def __init__(self, energy, kind, damping=0.0):
        self.kind, self.damping = kind, float(damping)
        self._graph, self._field = flat_graph(energy), energy.field
        norms = self._graph.norms(energy.n_variables)
        self._evidence = held_values(energy)
        forms = _forms(self._graph, norms, energy, self.damping, self.share)
        self._dtype = next((dtype for dtype, fits in forms if fits.all()), None)
        if self._dtype is not None:
            self._arrays = self._prepare(self._graph)
        else:
            self._factors = self._graph.factors(np.ones(len(self._graph.shift)))
            self._field = kernel_array(self._field, np.float64)
            self._limit = message_limits(norms, self._field)
        self.reset()

    @classmethod
    def by_form(cls, energy, damping):
        """Cut a batch of models into groups that have their messages in the same form.

        Returns
        -------
        list of ndarray
            The numbers of the models of each group.
        """
        graph = flat_graph(energy)
        norms = graph.norms(energy.n_variables)
        left, groups = np.ones(energy.n_models, bool), []
        for _, fits in _forms(graph, norms, energy, float(damping), cls.share):
            groups.append(np.flatnonzero(left & fits))
            left &= ~fits
        return [rows for rows in (*groups, np.flatnonzero(left)) if len(rows)]

    def copies(self, index):
        """Return the lanes of some models, several times if wanted, as they stand.

        Parameters
        ----------
        index : ndarray of int (K,)
        """
        other = copy.copy(self)
        for name, axis in self._of_models().items():
            array = getattr(self, name)
            setattr(other, name, kernel_array(np.take(array, index, axis=axis)))
        other._allocate(len(index))
        return other

    def _of_models(self):
        """Names of the arrays that hold a row or column for each model, with that axis."""
        rows = dict.fromkeys(("_field", "_evidence", "held"), 0)
        if self._dtype is None:
            return rows | dict.fromkeys(("_message", "_belief", "_limit"), 0)
        return rows | dict.fromkeys(("_message", "_belief", "_on", "_off"), 1)

    def _allocate(self, n):
        """Make the arrays to work in, for n models."""
        self._after = np.empty_like(self._belief)
        if self._dtype is not None:
            self._work = self._work_for(n)

    def reset(self):
        """Forget all messages and hold what the evidence holds."""
        self.held = self._evidence.copy()
        if self._dtype is not None:
            _, self._on, self._off, _ = field_weights(self._field, self.held, self._dtype)
        self.forget()

    def forget(self):
        """Forget all messages; what is held stays so."""
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
        """Messages (K, E) as log-odds."""
        return self._message if self._dtype is None else np.log(self._message).T

    def go_on_from(self, messages):
        """Take what `messages` (K, E) were in an earlier run."""
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
        """What the beliefs prefer (K, n) of bool, 1 where they prefer neither value."""
        on = self._belief >= 0 if self._dtype is None else (self._belief >= self._off).T
        return np.where(self.held < 0, on, self.held == 1)

    def hold(self, variable, values):
        """Hold a variable of each model from the next sweep on.

        Parameters
        ----------
        variable : int or ndarray of int (K,)
            The same one of all models, or one for each.
        values : array-like (K,)
            0 and 1.
        """
        values = np.asarray(values).astype(bool)
        every = np.arange(len(self.held))
        self.held[every, variable] = values
        if self._dtype is not None:
            self._on[variable, every] = values
            self._off[variable, every] = ~values
            self._belief[variable, every] = values

    def sweep(self, n_iter):
        """Send all messages `n_iter` times, each time from the beliefs of the last."""
        if self._dtype is not None:
            self._belief, self._after = self._send(self.damping == 0.5, n_iter)
        else:
            repeat_logs(
                self.kind, self._factors, self.damping, self._limit, self._field, self.held,
                self._message, self._belief, self._after, n_iter,
            )  # fmt: skip

    def _prepare(self, graph):
        """Arrays of the graph that `_send` takes."""
        return graph.tables(self._dtype)

    def _work_for(self, n):
        """Arrays that `_send` works in, for n models."""
        return work_arrays(self._arrays.table, n)

    def _send(self, halved, n_iter):
        """Send messages as odds; return the beliefs and an array to work in."""
        return repeat_tables(
            self.kind, halved, self._arrays, self._on, self._off, self._message, self._belief,
            self._after, self._work, n_iter,
        )  # fmt: skip

    def log_odds(self, variable):
        """Belief log-odds (K,) of a variable, ±inf where held.

        Parameters
        ----------
        variable : int or ndarray of int (K,)
            The same one of all models, or one for each.
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
    """The same for the factor graph of an `IsingEnergy` or `SparseIsingEnergy`, faster."""

    #: One division for two messages makes products of four.
    share = 0.25

    def _prepare(self, graph):
        edges = kernel_array(graph.variables.reshape(graph.n_tables, 2))
        # The largest entry of a table is |s|, the last one s.
        coupling = graph.shift + graph.logs[3::4]
        return edges, kernel_array(np.exp(2 * coupling), self._dtype)

    def _work_for(self, n):
        return np.empty((2, n), self._dtype)

    def _send(self, halved, n_iter):
        return repeat_ising(
            self.kind, halved, *self._arrays, self._on, self._off, self._message, self._belief,
            self._after, self._work, n_iter,
        )  # fmt: skip


def _forms(graph, norms, energy, damping, share):
    """Yield the dtypes that odds may have, with the models (N,) that fit."""
    if damping in (0.0, 0.5):
        for dtype in dict.fromkeys((energy.dtype, np.dtype(np.float64))):
            yield dtype, fits_odds(graph, norms, energy.field, dtype, share)
