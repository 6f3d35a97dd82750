"""Answer queries about a `LayeredEnergy` by the networks of truncated inference.

Training runs the networks for a fixed number of iterations. Here they run until the beliefs
converge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcrbm.inference.base import empty_result, sum_statistics
from skcrbm.inference.layered.methods import MeanFieldNetwork, MessageNetwork
from skcrbm.inference.layered.network import Held, LayeredInput, Trace, probabilities
from skcrbm.inference.methods._messages import convergence_slack
from skcrbm.utils.categorical import one_against_rest
from skcrbm.utils.limits import LAYERED_CHUNK_ROWS, LOG_RANGE
from skcrbm.utils.parallel import one_blas_thread, row_chunks


def solve_mean_field(method, energy, query):
    """Answer a query by mean field; see `MeanField`."""
    return _solve(MeanFieldNetwork(energy, method.iterations), method, energy, query)


def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    return _pass_messages(False, method, energy, query)


def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages, weighted by `Connection.edge_appearance`."""
    return _pass_messages(True, method, energy, query)


def _pass_messages(reweighted, method, energy, query):
    if method.damping:
        raise ValueError(
            f"{method.name!r} does not support damping on LayeredEnergy; got "
            f"damping={method.damping}"
        )
    wide = _wide_enough(method, energy, reweighted)
    network = MessageNetwork(
        wide, "sequential", method.iterations, reweighted=reweighted, with_input=False
    )
    fields = _solve(network, method, wide, query)
    if wide is not energy:
        fields["log_odds"] = fields["log_odds"].astype(energy.dtype)
        parts = fields.get("statistics", ())
        fields["statistics"] = tuple(part.astype(energy.dtype) for part in parts) or None
    return fields


def _wide_enough(method, energy, reweighted):
    """Convert the energy to float64 if exponentials of its couplings would overflow in its dtype.

    A ValueError is raised if they would overflow in float64, too.
    """
    strongest = 0.0
    for c, weights in zip(energy.structure.inner, energy.weights, strict=True):
        connection, share = energy.structure.connections[c], 1.0
        if reweighted:  # couplings are divided by the appearance probabilities of their edges
            plain = connection.dense and not energy.structure.skips
            share = connection.n_right if plain else 1 / connection.edge_appearance.min()
        strongest = max(strongest, share * float(np.abs(weights).max(initial=0)))
    if 2 * strongest <= LOG_RANGE[energy.dtype]:
        return energy
    if 2 * strongest > LOG_RANGE[np.dtype(np.float64)]:
        raise ValueError(
            f"{method.name!r} supports couplings of LayeredEnergy up to "
            f"{LOG_RANGE[np.dtype(np.float64)] / 2:g} in magnitude (for 'tree_reweighted', after "
            f"division by the edge appearance probabilities); got {strongest:.3g}. Use "
            "'mean_field', 'gibbs' or, for small models, 'exact'"
        )
    return energy.astype(np.float64)


def _solve(network, method, energy, query):
    for argument, given in (("init", query.start), ("return_state", query.return_state)):
        if given:
            raise ValueError(
                f"{method.name!r} does not support {argument} on LayeredEnergy, because it always "
                "starts from the unary scores"
            )
    fields = empty_result(energy, query)
    n = energy.n_models
    log_odds = fields["log_odds"] = np.empty((n, energy.n_variables), energy.dtype)
    if query.return_trace:
        fields["trace"] = np.full((n, method.iterations), np.nan)
    weight = np.ones(n) if query.per_example else query.sample_weight
    connections, inner = energy.structure.connections, energy.structure.inner

    def run(rows, statistics):
        numbers = np.arange(rows.start, rows.stop)
        for stopped, done, changes, trace in _until_converged(
            network, _inputs(energy.rows(rows)), method.tolerance
        ):
            at = numbers[stopped]
            fields["n_iter"][at], fields["converged"][at] = trace.n_iter, done
            log_odds[at] = _unit_log_odds(energy, trace)
            if query.return_trace:
                fields["trace"][at, : trace.n_iter] = changes
            if "statistics" in query.returns:
                flat = network.pair_moments(trace, weight[at])
                for total, c in zip(statistics, inner, strict=True):
                    total += connections[c].tables(flat[c])

    with one_blas_thread():
        chunks = row_chunks(n, LAYERED_CHUNK_ROWS)
        sum_statistics(run, chunks, query, fields.get("statistics"))
    return fields


def _inputs(energy):
    """Return a `LayeredInput` with the unary scores and the clamped nodes of an energy."""
    structure = energy.structure
    means = np.empty((energy.n_models, 0), energy.dtype)
    fields: list[Any] = [
        None if f is None else _lanes(f, k) for f, k in _by_layer(energy, energy.field)
    ]
    if energy.evidence is None:
        return LayeredInput(means, fields=fields)
    empty = [None] * (structure.depth + 1)
    held = Held(list(empty), list(empty), list(empty))
    for layer, (values, n_nodes) in enumerate(_by_layer(energy, energy.evidence)):
        if values is None or np.isnan(values).all():
            continue
        values = values.T.reshape(n_nodes, -1, energy.n_models)
        # The state of a node is known if one of its units is on, or if all units are off.
        known = (values == 1).any(axis=1) | (values == 0).all(axis=1)
        barred = (values == 0) & ~known[:, None]
        held.free[layer] = (~known).astype(energy.dtype)
        shape = fields[layer].shape
        held.states[layer] = (values == 1).astype(energy.dtype).reshape(shape)
        if barred.any():
            minus_infinity = np.where(barred, -np.inf, 0.0).astype(energy.dtype)
            held.barred[layer] = minus_infinity.reshape(shape)
    return LayeredInput(means, fields=fields, held=held)


def _by_layer(energy, values):
    """Split `values` (N, n_variables) by layer.

    For each layer, yield its values and its number of nodes.
    """
    return zip(energy.by_layer(values), energy.structure.n_nodes, strict=True)


def _lanes(values, n_nodes):
    """Convert values of N rows, with k - 1 numbers per node, to the layout of the kernels.

    The shape changes from (N, n_nodes * (k - 1)) to (n_nodes, (k - 1) * N).
    """
    return np.ascontiguousarray(values.T).reshape(n_nodes, values.size // n_nodes)


def _until_converged(network, inputs, tolerance):
    """Iterate, and stop each row when its beliefs have converged.

    Rows stop when they have converged, or after the last iteration. For each set of rows that stop
    together, yield four items: the indices of the rows; a mask that is True for converged rows; the
    largest change of a belief in each iteration, as a probability (n_rows, n_iter); and a `Trace`
    with the beliefs and messages of the rows.
    """
    trace, later = network._begin(inputs, True, network.n_iter)
    rows, changes = np.arange(trace.n), []
    # First iteration that is tested for convergence. Before the inputs have reached all layers,
    # beliefs may stay the same although they have not converged.
    least = max(2, network.structure.depth)
    for t in range(1, network.n_iter + 1):
        if len(trace.beliefs) == t + 1:  # `_begin` may have run iteration 1 already
            network._advance(trace, t, later)
            _forget(trace)
        change, moved = _movement(trace, tolerance)
        changes.append(change)
        done = (change < tolerance) & ~moved & (t >= least)
        if t == network.n_iter or done.all():
            stop = np.ones(len(rows), bool)
        else:
            stop = done
        if not stop.any():
            continue
        trace.n_iter = t
        left = np.flatnonzero(~stop)
        stopped = trace if not len(left) else _take_rows(trace, np.flatnonzero(stop))
        yield rows[stop], done[stop], np.array(changes).T[stop], stopped
        if not len(left):
            return
        later = [_take(a, left, trace.n) for a in later]
        trace = _take_rows(trace, left)
        rows, changes = rows[left], [c[left] for c in changes]


def _forget(trace):
    """Delete the beliefs and messages that the next iteration does not need."""
    for past in (trace.beliefs, trace.forward, trace.backward):
        if len(past) > 2:
            past[-3] = None


def _movement(trace, tolerance):
    """Return the largest change of a belief in the latest iteration, for each of n rows: (n,).

    Beliefs are compared as probabilities. Also return a mask (n,): True for rows in which the
    log-odds of a belief still change.
    """
    change, moved = np.zeros(trace.n), np.zeros(trace.n, bool)
    for layer, (old, new) in enumerate(zip(trace.beliefs[-2], trace.beliefs[-1], strict=True)):
        if new is None or not new.size:
            continue
        mask = trace.mask(layer)
        counts = np.ones((len(new), trace.n), bool) if mask is None else mask == 1
        step = np.abs(probabilities(new, trace.n) - probabilities(old, trace.n)).max(axis=1)
        change = np.maximum(change, np.where(counts, step, 0).max(axis=0))
        with np.errstate(invalid="ignore"):  # the log-odds of excluded states give inf - inf
            step = np.abs(new - old)
            slack = convergence_slack(tolerance, np.maximum(abs(new), abs(old)), new.dtype)
            far = (step > slack).reshape(len(new), -1, trace.n).any(axis=1)
        moved |= (far & counts).any(axis=0)
    return change, moved


def _take(a, rows, n):
    """Return the columns of an array that belong to some rows of a batch of n rows.

    Column j belongs to row j % n. `rows` are the indices or a mask of the rows.
    """
    if a is None:
        return None
    part = a.reshape(len(a), a.shape[1] // n, n)[:, :, rows]
    return np.ascontiguousarray(part).reshape(len(a), -1)


def _take_rows(trace, rows):
    """Return a copy of a trace that has only the given rows and the last two iterations."""

    def last_two(past):
        kept = [[_take(a, rows, trace.n) for a in arrays] for arrays in past[-2:]]
        return [None] * (len(past) - len(kept)) + kept

    inputs, held = trace.inputs, trace.inputs.held
    if held is not None:
        held = Held(*([_take(a, rows, trace.n) for a in arrays] for arrays in held))
    return Trace(
        LayeredInput(inputs.means[rows], held=held),
        trace.complete,
        trace.n_iter,
        last_two(trace.beliefs),
        last_two(trace.forward),
        last_two(trace.backward),
        trace.edges,
    )


def _unit_log_odds(energy, trace):
    """Convert the beliefs of the nodes to log-odds (n, n_variables) of the units."""
    n = trace.n
    log_odds = np.empty((n, energy.n_variables), energy.dtype)
    for layer, part in enumerate(energy.structure.unit_slices):
        if part is None:
            continue
        scores = trace.beliefs[-1][layer]
        mask = trace.mask(layer)
        if scores.shape[1] > n:
            scores = scores.reshape(len(scores), -1, n).transpose(2, 0, 1).astype(np.float64)
            scores = np.concatenate([np.zeros((*scores.shape[:2], 1)), scores], axis=2)
            found = one_against_rest(scores)[..., 1:].reshape(n, -1)
        else:
            found = scores.reshape(-1, n).T
        if mask is not None:
            states = trace.inputs.held.states[layer].reshape(-1, n).T
            held = np.repeat(mask.T == 0, energy.structure.n_states[layer] - 1, axis=1)
            found = np.where(held, np.where(states == 1, np.inf, -np.inf), found)
        log_odds[:, part] = found
    return log_odds
