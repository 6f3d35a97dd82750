"""Pass messages on factor graphs: choose the kernel, and call it on blocks of models.

All messages factor -> variable are computed at once, from the beliefs of the previous iteration.
If the messages of a model can be stored as odds without overflow, the kernel `factor_tables`
processes the model in a block, side by side with other models. Otherwise the kernel `factor_logs`
processes the model alone, with messages as logarithms. This is the case for models with large
messages, table entries of weight 0, and OR or AND factors. Samplers use
the class `Lanes` (`_lanes.py`), which calls the same kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from skcrbm.inference.base import empty_result
from skcrbm.inference.factor_graph import states
from skcrbm.inference.factor_graph._better_states import improve_states
from skcrbm.inference.factor_graph._flat_graph import (
    fits_odds,
    flat_graph,
    has_large_tables,
    held_values,
    message_limits,
)
from skcrbm.inference.factor_graph._large_tables import solve_messages
from skcrbm.inference.methods._messages import (
    Messages,
    convergence_slack,
    earlier_messages,
)
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.kernels.arguments import GraphAnswers, GraphOptions, GraphSums
from skcrbm.kernels.factor_logs import GraphRows, finish_logs, fit_messages, pass_logs
from skcrbm.kernels.factor_tables import (
    finish_tables,
    pass_tables,
    progress_arrays,
    work_arrays,
)
from skcrbm.kernels.lanes import Lanes
from skcrbm.kernels.scalar import MAX, ROUNDING, SUM
from skcrbm.utils.limits import LOG_RANGE, ROWS_PER_CHUNK
from skcrbm.utils.parallel import ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# A call of a kernel that processes models one after the other computes at least this number of
# messages. With fewer messages, the cost of the call itself would dominate.
_CHUNK_EDGES = 2**12
# The iterative scaling that computes messages from beliefs ends after at most this many rounds.
_FIT_ROUNDS = 200


def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    if not energy.binary:
        return states.solve_sum_product(method, energy, query)
    if has_large_tables(energy):
        return solve_messages(method, energy, query)
    return _Run(method, energy, query, SUM).fields()


def solve_max_product(method, energy, query):
    """Find a state by max-product messages; see `MaxProduct`."""
    if not energy.binary:
        return states.solve_max_product(method, energy, query)
    if has_large_tables(energy):
        return solve_messages(method, energy, query)
    return find_state(method, energy, query)


def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages; see `TreeReweighted`."""
    if energy.binary:
        return solve_messages(method, energy, query)
    return states.solve_tree_reweighted(method, energy, query)


def pass_messages(method, energy, query, odds_kernel):
    """Answer a query by sum-product messages. `odds_kernel` is `OddsKernel` or a subclass."""
    return _Run(method, energy, query, SUM, odds_kernel=odds_kernel).fields()


def find_state(method, energy, query, odds_kernel=None):
    """Find a state by max-product messages. `odds_kernel` is `OddsKernel` or a subclass."""

    def run(beliefs):
        fields = _Run(method, energy, query, MAX, beliefs=beliefs, odds_kernel=odds_kernel).fields()
        if query.return_state:  # keep only the array, from which `best_of_restarts` selects rows
            fields["state"] = fields["state"].values
        return fields, energy.score(fields["assignment"])

    fields = best_of_restarts(run, energy, method.n_restarts, method.random_state)
    improve_states(method, energy, query, fields, flat_graph(energy))
    if query.return_state:
        fields["state"] = Messages(method.name, fields["state"], fields["log_odds"].copy(), True)
    return fields


class _Block(NamedTuple):
    """Input and output of a kernel for some of the models."""

    rows: np.ndarray  # indices of the models in the batch
    field: np.ndarray  # (n_rows, n) fields, to which evidence has not been added
    held: np.ndarray  # int8 (n_rows, n): values of clamped variables, -1 for free variables
    message: np.ndarray  # float64 (n_rows, E): messages to variables, read and overwritten
    start: np.ndarray  # float64 (n_rows or 0, n): initial beliefs, or no rows
    # float64, output: the statistics of each model (n_rows, n_entries), or their weighted sum (1,
    # n_entries). If statistics are not requested, the last axis has length 0.
    statistics: np.ndarray


class _Run:
    """Passes messages for a batch of models, block by block.

    `kind` is SUM or MAX. If `beliefs` (N, n) are given, message passing starts from these log-odds,
    instead of the start of the query.
    """

    def __init__(self, method, energy, query, kind, *, beliefs=None, odds_kernel=None):
        self.method, self.energy, self.query, self.kind = method, energy, query, kind
        self.odds_kernel = OddsKernel if odds_kernel is None else odds_kernel
        self.graph = flat_graph(energy)
        self.norms = self.graph.norms(energy.n_variables)
        self.held = held_values(energy)
        self.answer = empty_result(energy, query)
        n, width = energy.n_models, energy.n_variables
        self.answer["converged"][:] = False
        self.answer["log_odds"] = np.zeros((n, width), energy.dtype)
        self.log_partition = np.zeros(n)
        self.trace = np.full((n, method.iterations if query.return_trace else 0), np.nan)
        self.messages = np.zeros((n, self.graph.n_edges))
        self.start = beliefs
        if beliefs is None and query.start is not None:
            self._read_start()

    def _read_start(self):
        """Read the initial messages of an earlier run, or compute them from the given beliefs."""
        energy, query, shape = self.energy, self.query, self.messages.shape
        earlier = earlier_messages(query, self.method.name, shape, energy.n_variables)
        if earlier is not None:
            self.messages = np.array(earlier.values, np.float64)
        elif self.kind == MAX:
            self.start = query.start.log_odds
        else:
            limits = message_limits(self.norms, energy.field)
            factors = self.graph.factors
            beliefs = query.start.log_odds.astype(np.float64)
            for m in range(energy.n_models):
                fit_messages(
                    factors, limits[m], beliefs[m], self.held[m], _FIT_ROUNDS, self.messages[m]
                )

    def fields(self):
        """Run all blocks, and return the fields of an `InferenceResult`."""
        energy, query = self.energy, self.query
        for dtype, rows in self._groups():
            if dtype is None:
                size = -(-_CHUNK_EDGES // max(1, self.graph.n_edges))
                self._run(rows, size, _LogKernel(self))
            else:
                kernel = self.odds_kernel(self, dtype)
                self._run(rows, kernel.n_rows, kernel)
        answer = self.answer
        if "statistics" in query.returns:
            energy.graph.merging.spread(answer["statistics"][0])
        if "log_partition" in query.returns:
            answer["log_partition"] = self.log_partition + energy.offset
        if query.return_trace:
            answer["trace"] = self.trace
        if query.return_state:
            kept = self.messages.astype(energy.dtype)
            answer["state"] = Messages(self.method.name, kept, answer["log_odds"].copy(), True)
        return answer

    def _groups(self):
        """Yield a dtype and the indices of the models whose messages fit this dtype as odds.

        The dtype is None for models whose messages are stored as logarithms.
        """
        energy = self.energy
        left = np.ones(energy.n_models, bool)
        if self.method.damping in (0.0, 0.5):
            for dtype in dict.fromkeys((energy.dtype, np.dtype(np.float64))):
                fits = left & fits_odds(
                    self.graph, self.norms, energy.field, dtype, self.odds_kernel.share
                )
                left &= ~fits
                if fits.any():
                    yield dtype, np.flatnonzero(fits)
        if left.any():
            yield None, np.flatnonzero(left)

    def _run(self, rows, size, kernel):
        """Run a kernel on blocks of at most `size` of the models `rows`, and store all answers.

        The blocks have nearly equal sizes. The sums of the statistics are added up in the order of
        the blocks.
        """
        query = self.query
        size = -(-len(rows) // -(-len(rows) // size))
        wanted = "statistics" in query.returns

        def run(part):
            where = rows[part]
            shape = (len(where) if query.per_example else 1, self.energy.n_entries if wanted else 0)
            block = _Block(
                where, self.energy.field[where], self.held[where], self.messages[where],
                np.empty((0, 0)) if self.start is None else self.start[where].astype(np.float64),
                np.zeros(shape),
            )  # fmt: skip
            kernel.run(block)
            return block

        total = np.zeros(self.energy.n_entries if wanted else 0)
        for block in ordered_map(run, row_chunks(len(rows), size), query.n_jobs):
            if wanted and query.per_example:
                self.answer["statistics"][0][block.rows] = block.statistics
            elif wanted:
                total += block.statistics[0]
        if wanted and not query.per_example:
            self.answer["statistics"][0][...] += total.astype(self.energy.dtype)

    def store(self, block, found, state):
        """Copy the results of a kernel for a block into the arrays of the batch."""
        rows, answer = block.rows, self.answer
        answer["n_iter"][rows] = found["n_iter"]
        answer["converged"][rows] = found["converged"]
        answer["log_odds"][rows] = found["log_odds"]
        self.trace[rows] = found["trace"]
        self.log_partition[rows] = found["log_partition"]
        if self.kind == MAX:
            state[block.held >= 0] = block.held[block.held >= 0]
            answer["assignment"][rows] = state
            # A model whose state is impossible counts as not converged.
            answer["converged"][rows] &= found["score"] > -np.inf
        if self.query.return_state:
            self.messages[rows] = found["message"]

    def options(self, damping, tol, slack):
        """Return the options of a kernel.

        `slack` is the largest change of a belief at convergence: a difference of log-odds or, for
        the kernels of odds, a ratio of odds.
        """
        return GraphOptions(self.method.iterations, tol, slack, damping, self.kind == MAX)

    def answers(self, found):
        """Return the arrays in the dict `found` into which a kernel writes its answers."""
        return GraphAnswers(*(found[name] for name in GraphAnswers._fields))

    def sums(self, block, dtype, found):
        """Return the arrays to which a kernel adds its sums, such as log Z and the statistics."""
        query = self.query
        return GraphSums(
            weight=query.sample_weight[block.rows].astype(dtype),
            want_log_partition="log_partition" in query.returns,
            want_statistics="statistics" in query.returns,
            each=query.per_example,
            log_partition=found["log_partition"],
            statistics=block.statistics,
        )

    def outputs(self, block):
        """Allocate the arrays to which kernels write the answers for a block."""
        n, width = len(block.rows), self.energy.n_variables
        return {
            "n_iter": np.zeros(n, np.int64),
            "converged": np.zeros(n, bool),
            "trace": np.full((n, self.trace.shape[1]), np.nan),
            "score": np.full(n, -np.inf),
            "state": np.zeros((n, width), np.int8),
            "log_odds": np.zeros((n, width)),
            "log_partition": np.zeros(n),
        }


class OddsKernel:
    """Calls the kernel for table factors whose messages are stored as odds.

    Several models are processed side by side.
    """

    #: Largest number of models that are processed side by side.
    n_rows = ROWS_PER_CHUNK
    #: Share of the range of the dtype that a product of messages may use, see `fits_odds`.
    share = 1.0

    def __init__(self, run, dtype):
        self.run_, self.dtype = run, dtype
        self.arrays = self.prepare(run.graph)
        method = run.method
        slack = convergence_slack(method.tolerance, run.norms.max(initial=0.0), dtype)
        slack += ROUNDING * np.finfo(dtype).eps * LOG_RANGE[dtype]
        self.factor = dtype.type(np.exp(min(slack, LOG_RANGE[dtype])))
        self.bound = run.graph.spread[run.graph.edge_factor]

    def prepare(self, graph):
        """Return the graph as the arrays that the kernels of `pass_` and `finish` take."""
        return graph.tables(self.dtype)

    def pass_(self, kind, lanes, *arguments):
        """Pass messages until they converge or the iterations are used up."""
        work = work_arrays(self.dtype, lanes.on.shape[1])
        progress = progress_arrays(lanes.on, lanes.message)
        logs = self.run_.graph.logs
        pass_tables(kind, self.arrays, logs, lanes, *arguments, work, progress)

    def finish(self, lanes, sums):
        """Add log Z and statistics to `sums`."""
        graph = self.run_.graph
        finish_tables(self.arrays, graph.shift, graph.place, lanes, sums)

    def run(self, block):
        """Pass messages for a block of models, and store the results."""
        run, dtype, method = self.run_, self.dtype, self.run_.method
        field, on, off, constant = field_weights(block.field, block.held, dtype)
        message = np.clip(block.message, -self.bound, self.bound)
        message = kernel_array(np.exp(message).T, dtype)
        start = np.clip(block.start, -LOG_RANGE[dtype], LOG_RANGE[dtype])
        order = np.zeros(len(block.rows), np.int64)
        found = run.outputs(block)
        lanes = Lanes(field, on, off, message, order)
        options = run.options(float(method.damping), dtype.type(method.tolerance), self.factor)
        self.pass_(run.kind, lanes, kernel_array(start.T), options, run.answers(found))
        sums = run.sums(block, dtype, found)
        if sums.want_log_partition or sums.want_statistics:
            found["log_partition"] += constant
            self.finish(lanes, sums)
        found["message"] = np.empty_like(block.message)
        found["message"][order] = np.log(message).T
        run.store(block, found, found["state"])


class _LogKernel:
    """Passes messages in the form of log-odds, with a kernel that processes the models in turn."""

    def __init__(self, run):
        self.run_ = run
        self.factors = run.graph.factors

    def run(self, block):
        """Pass messages for a block of models, and store the results."""
        run, method = self.run_, self.run_.method
        field = kernel_array(block.field, np.float64)
        limit = message_limits(run.norms, field)
        message = np.clip(block.message, -limit[:, None], limit[:, None])
        slack = convergence_slack(
            method.tolerance, run.norms.max(initial=0.0), np.dtype(np.float64)
        )
        found = run.outputs(block)
        models = GraphRows(limit, field, block.held, message)
        options = run.options(float(method.damping), float(method.tolerance), slack)
        start = kernel_array(block.start)
        pass_logs(run.kind, self.factors, models, start, options, run.answers(found))
        finish_logs(
            run.kind, self.factors, models, found["log_odds"], run.graph.shift, run.graph.place,
            found["converged"], run.sums(block, np.float64, found),
        )  # fmt: skip
        found["message"] = message
        run.store(block, found, found["state"])


def field_weights(field, held, dtype):
    """Convert fields (K, n) and clamped values (K, n) for the kernels of `factor_tables`.

    `held` is -1 for free variables.

    Return four arrays. The first three arrays, (n, K) of the dtype, are the fields (log-odds), the
    weights of the value 1 and the weights of the value 0. The two weights of a variable are
    normalised to a sum of 1. The last array, (K,) of float64, is the logarithm of the product of
    the normalising constants.
    """
    field = field.astype(np.float64)
    free = held < 0
    on = np.where(free, expit(field), held == 1)
    off = np.where(free, expit(-field), held == 0)
    constant = np.where(free, np.logaddexp(0, field), field * (held == 1)).sum(axis=1)
    return (*(kernel_array(part.T, dtype) for part in (field, on, off)), constant)
