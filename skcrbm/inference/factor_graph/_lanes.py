"""Messages that go on from step to step, of many copies of models side by side.

What a sampler needs that holds one variable after the other and goes on with the messages of the
step before, or that passes messages for a fixed number of iterations on perturbed fields::

    lanes = Lanes(energy, SUM)                 # a model for each sample
    lanes.sweep(20)
    for i in order:
        p = expit(lanes.log_odds(i))           # (K,), given what is held so far
        lanes.hold(i, u[:, i] < p)
        lanes.sweep(5)

There is no test of convergence here; `infer` has that. Cut the samples into blocks of
`Lanes.n_lanes`, one `Lanes` each, for threads.
"""

import numpy as np

from skcrbm.inference.factor_graph._graph import (
    fits_odds,
    flat_graph,
    held_values,
    message_limits,
)
from skcrbm.inference.factor_graph._messages import field_weights
from skcrbm.kernels.factor_logs import sweep_logs, work_for
from skcrbm.kernels.factor_tables import sweep_tables, work_arrays
from skcrbm.utils.limits import ROWS_PER_CHUNK
from skcrbm.utils.validation import kernel_array


class Lanes:
    """Messages of K models, all sent at once, again and again.

    Parameters
    ----------
    energy : FactorGraphEnergy
        K models; what its evidence holds is held here from the start. ``energy.rows`` with an
        index several times makes several samples of a model.
    kind : SUM or MAX
    damping : float in [0, 1), default=0.0
        Share of the old log messages that is kept.
    """

    #: Models that run best side by side.
    n_lanes = ROWS_PER_CHUNK

    def __init__(self, energy, kind, damping=0.0):
        self.kind, self.damping = kind, float(damping)
        self._graph, self._field = flat_graph(energy), energy.field
        self._norms = self._graph.norms(energy.n_variables)
        self.held = held_values(energy)
        fits = fits_odds(self._graph, self._norms, energy.field, energy.dtype)
        self._as_odds = self.damping in (0.0, 0.5) and bool(fits.all())
        shape = self._graph.n_edges, energy.n_models
        if self._as_odds:
            self._tables = self._graph.tables(energy.dtype)
            self._message = np.ones(shape, energy.dtype)
            self._work = work_arrays(self._tables[2], energy.n_models)
            _, self._on, self._off, _ = field_weights(self._field, self.held, energy.dtype)
            self._belief = self._on.copy()
        else:
            self._rho = np.ones(len(self._graph.shift))
            self._factors = self._graph.factors(self._rho)
            self._message = np.zeros(shape[::-1])
            self._work = work_for(self._factors)
            self._field = kernel_array(self._field, np.float64)
            self._limit = message_limits(self._norms, self._field)
            self._belief = np.where(self.held < 0, self._field, 0.0)

    def hold(self, variable, values):
        """Hold a variable at values (K,) of 0 and 1, from the next sweep on."""
        values = np.asarray(values).astype(bool)
        self.held[:, variable] = values
        if self._as_odds:
            for weights, of_value in ((self._on, values), (self._off, ~values)):
                weights[variable] = of_value
            self._belief[variable] = values

    def sweep(self, n_iter):
        """Send all messages `n_iter` times, each time from the beliefs of the last."""
        after = np.empty_like(self._belief)
        for _ in range(n_iter):
            if self._as_odds:
                after[...] = self._on
                sweep_tables(
                    self.kind, self.damping == 0.5, *self._tables, self._belief, self._off,
                    self._message, after, self._work, np.uintp(len(self.held)),
                )  # fmt: skip
            else:
                for k in range(len(self.held)):
                    sweep_logs(
                        self.kind, self._factors, self._rho, self.damping, self._limit[k],
                        self._field[k], self.held[k], self._message[k], self._belief[k], after[k],
                        self._work,
                    )  # fmt: skip
            self._belief, after = after, self._belief

    def log_odds(self, variable):
        """Belief log-odds (K,) of a variable, ±inf where held."""
        if self._as_odds:
            with np.errstate(divide="ignore"):
                found = np.log(self._belief[variable]) - np.log(self._off[variable])
        else:
            found = self._belief[:, variable]
        held = self.held[:, variable]
        return np.where(held < 0, found, np.where(held == 1, np.inf, -np.inf))
