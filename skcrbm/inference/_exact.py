"""Exact inference by enumeration."""

from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.special import log_expit
from sklearn.utils._param_validation import Interval

from skcrbm._kernels._scalar import MAX, MIXED
from skcrbm._kernels.rbm_exact import PRODUCT_LIMIT, enumerate_rows, log_odds_in_logs
from skcrbm._kernels.rbm_exact_map import best_states
from skcrbm.energies import IsingEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.energies._base import PINNED_OFF
from skcrbm.inference._base import InferenceMethod, add_pairwise, empty_result
from skcrbm.inference._ising_exact import enumerate_states
from skcrbm.utils._parallel import one_blas_thread, ordered_map, row_chunks

_ROWS_PER_CHUNK = 64
# The table of gains over the low states stays in the L2 cache.
_TABLE_ENTRIES = 2**16


class Exact(InferenceMethod):
    """Enumerate the states of the smaller layer; the other one sums out analytically.

    Of an `IsingEnergy`, all states of its free labels are enumerated.

    Log Z is exact, "map" the best joint state, found in the same way, and "marginal_map"
    the visible state with the largest sum over hidden states, for which the visible layer
    is enumerated; of equal states it is the first one in binary order. Computed in float64
    whatever the dtype of the energy; the cost is 2^min(V, H) max(V, H) per model, and
    2^V H for "marginal_map"; 2^L per Ising model with L free labels.

    Parameters
    ----------
    max_units : int, default=20
        Refuse models whose smaller layer has more units, or with more free labels.

    Raises
    ------
    ValueError
        By `infer`, if the layer to be enumerated is larger than `max_units`.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> energy = RBMEnergy([[0.0, 0.0]], [0.0], [0.0, 0.0])
    >>> infer(energy, "exact", returns=("log_partition",)).log_partition.round(4)
    array([2.0794])
    """

    name: ClassVar = "exact"
    answers: ClassVar = frozenset({"marginals", "pairwise", "log_partition", "map", "marginal_map"})
    solvers: ClassVar = {
        RBMEnergy: "_solve_rbm",
        OneHotRBMEnergy: "_solve_one_hot",
        IsingEnergy: "_solve_ising",
    }
    _parameter_constraints: ClassVar = {"max_units": [Interval(Integral, 0, 30, closed="both")]}

    def __init__(self, max_units=20):
        self.max_units = max_units

    def _solve_rbm(self, energy, query):
        states = query.returns & {"map", "marginal_map"}
        if states == query.returns:
            return self._best_states(energy, query)
        fields = self._sums(energy, query)
        if states:
            fields["assignment"] = self._best_states(energy, query)["assignment"]
        return fields

    def _check_size(self, layer, n_units, advice):
        if n_units > self.max_units:
            raise ValueError(
                f"'exact' enumerates the {layer} layer, which has {n_units} units; the limit is "
                f"max_units={self.max_units}. Use {advice}, or Exact(max_units=...) up to 30"
            )

    def _best_states(self, energy, query):
        """Answer "map" or "marginal_map", and max-marginals."""
        fields = empty_result(energy, query)
        marginal = "marginal_map" in query.returns
        visible_first = marginal or energy.n_visible < energy.n_hidden
        if marginal:
            self._check_size("visible", energy.n_visible, "'mixed_product'")
        else:
            smaller = min(energy.n_visible, energy.n_hidden)
            self._check_size("smaller", smaller, "'max_product' or 'icm'")
        enumerated, other = energy.fields if visible_first else energy.fields[::-1]
        coupling = energy.weights if visible_first else energy.weights.T
        enumerated, other, coupling = (
            np.ascontiguousarray(a, dtype=np.float64) for a in (enumerated, other, coupling)
        )
        n, (k, m) = energy.n_models, coupling.shape
        log_gain = _low_log_gain(coupling)
        state, log_odds = np.empty((n, k), np.int8), np.empty((n, k + m))

        def solve(rows):
            best_states(
                MIXED if marginal else MAX,
                enumerated[rows],
                other[rows],
                coupling,
                log_gain,
                state[rows],
                log_odds[rows],
            )

        for _ in ordered_map(solve, row_chunks(n, 1 if k > 8 else _ROWS_PER_CHUNK), query.n_jobs):
            pass
        with one_blas_thread():
            inputs = other + state @ coupling
        reply = (inputs > 0).astype(np.int8)
        if marginal:
            log_odds[:, k:] = inputs
        log_odds[np.hstack([enumerated, other]) <= PINNED_OFF] = -np.inf
        parts, odds = [state, reply], [log_odds[:, :k], log_odds[:, k:]]
        fields["assignment"][:] = np.hstack(parts if visible_first else parts[::-1])
        fields["log_odds"][:] = np.hstack(odds if visible_first else odds[::-1])
        return fields

    def _sums(self, energy, query):
        """Answer marginals, pairwise and log Z."""
        hidden_is_smaller = energy.n_hidden <= energy.n_visible
        enumerated, summed = energy.hidden_bias, energy.visible_bias
        coupling = energy.weights.T
        if not hidden_is_smaller:
            enumerated, summed, coupling = summed, enumerated, energy.weights
        k, m = coupling.shape
        self._check_size("smaller", k, "'sum_product' or 'mean_field'")
        enumerated, summed, coupling = (
            np.ascontiguousarray(a, dtype=np.float64) for a in (enumerated, summed, coupling)
        )
        log_gain = _low_log_gain(coupling, PRODUCT_LIMIT)  # beyond it a log per state and unit
        n_low = int(log_gain.shape[1]).bit_length() - 1
        gain = np.exp(np.minimum(log_gain, 700.0))
        reach = np.abs(coupling[:n_low]).sum(0)

        n = energy.n_models
        fields = empty_result(energy, query)
        log_partition = fields.get("log_partition", np.empty(n))
        log_odds = np.empty((n, k + m))
        pairwise = fields.get("pairwise")
        shape = (*pairwise.shape[:-2], m, k) if pairwise is not None else ()
        pairs = None if pairwise is None else np.zeros(shape)
        weight = np.ones(n) if query.pairwise == "per_example" else query.sample_weight
        want_marginals = "marginals" in query.returns or pairwise is not None

        def solve(rows, pairwise_sum):
            enumerate_rows(
                enumerated[rows],
                summed[rows],
                coupling,
                gain,
                log_gain,
                reach,
                weight[rows],
                want_marginals,
                pairwise is not None,
                log_partition[rows],
                log_odds[rows],
                pairwise_sum,
            )

        add_pairwise(solve, row_chunks(n, _ROWS_PER_CHUNK), query, pairs)
        if want_marginals:
            log_odds[np.hstack([enumerated, summed]) <= PINNED_OFF] = -np.inf
            for row in np.flatnonzero(np.isnan(log_odds).any(1)):
                units = np.flatnonzero(np.isnan(log_odds[row]))
                value = np.empty(len(units))
                log_odds_in_logs(units, enumerated[row], summed[row], coupling, log_gain, value)
                log_odds[row, units] = value
            e, s = log_odds[:, :k], log_odds[:, k:]
            fields["log_odds"][:] = np.hstack([s, e] if hidden_is_smaller else [e, s])
        if pairwise is not None:
            pairwise[...] = pairs if hidden_is_smaller else np.swapaxes(pairs, -1, -2)
        return fields

    def _solve_ising(self, energy, query):
        return enumerate_states(energy, query, self.max_units)

    def _solve_one_hot(self, energy, query):
        states = query.returns & {"map", "marginal_map"}
        if states == query.returns:
            return self._best_classes(energy, query)
        fields = self._class_sums(energy, query)
        if states:
            fields["assignment"] = self._best_classes(energy, query)["assignment"]
        return fields

    def _best_classes(self, energy, query):
        """Answer "map" or "marginal_map", and max-marginals."""
        fields = empty_result(energy, query)
        n_classes, weights = energy.n_visible, energy.weights.astype(np.float64)
        summed_out = "marginal_map" in query.returns
        for rows in energy.row_blocks(weights.size):
            inputs = weights + energy.hidden_bias[rows, None, :]  # (N, K, H)
            gain = np.logaddexp(0, inputs) if summed_out else np.maximum(0, inputs)
            score = energy.visible_bias[rows] + gain.sum(2)
            best = score.argmax(1)
            reply = np.take_along_axis(inputs, best[:, None, None], 1)[:, 0]
            fields["assignment"][rows, :n_classes] = np.eye(n_classes)[best]
            fields["assignment"][rows, n_classes:] = reply > 0
            others = np.where(np.eye(n_classes, dtype=bool), -np.inf, score[:, None, :])
            fields["log_odds"][rows, :n_classes] = score - others.max(2, initial=-np.inf)
            if not summed_out:
                off = score[:, :, None] - gain
                reply = (off + inputs).max(1) - off.max(1)
            fields["log_odds"][rows, n_classes:] = reply
        return fields

    def _class_sums(self, energy, query):
        """Answer marginals, pairwise and log Z."""
        log_weight = energy.class_log_weights()
        n_classes = energy.n_visible
        fields = empty_result(energy, query)
        # Log-sums over the classes before and after each one: the rest without it.
        none = np.full((energy.n_models, 1), -np.inf)
        below = np.logaddexp.accumulate(np.hstack([none, log_weight]), axis=1)
        above = np.logaddexp.accumulate(np.hstack([none, log_weight[:, ::-1]]), axis=1)[:, ::-1]
        log_partition = below[:, -1]
        if "log_partition" in query.returns:
            fields["log_partition"][:] = log_partition
        fields["log_odds"][:, :n_classes] = log_weight - np.logaddexp(below[:, :-1], above[:, 1:])
        weights = energy.weights.astype(np.float64)
        log_prob = (log_weight - log_partition[:, None])[:, :, None]
        pairwise, total = fields.get("pairwise"), np.zeros(weights.shape)
        for rows in energy.row_blocks(weights.size):
            inputs = weights + energy.hidden_bias[rows, None, :]
            on = log_prob[rows] + log_expit(inputs)
            off = np.logaddexp.reduce(log_prob[rows] + log_expit(-inputs), axis=1)
            fields["log_odds"][rows, n_classes:] = np.logaddexp.reduce(on, axis=1) - off
            if pairwise is not None and query.pairwise == "per_example":
                pairwise[rows] = np.exp(on)
            elif pairwise is not None:
                total += np.tensordot(query.sample_weight[rows], np.exp(on), axes=1)
        if pairwise is not None and query.pairwise == "sum":
            pairwise[:] = total
        return fields


def _low_log_gain(coupling, reach_limit=np.inf):
    """Return, for all states of the low units, the sum of couplings (k, m) to those on.

    There are fewer low units where the couplings of one unit to them would add up to
    `reach_limit` or more, but at least three if there are as many.
    """
    k, m = coupling.shape
    n_low = min(k, max(3, min(10, int(np.log2(_TABLE_ENTRIES / max(m, 1))))))
    reach = np.abs(coupling[:n_low]).cumsum(0).max(1, initial=0.0)
    n_low = max(min(k, 3), np.count_nonzero(reach < reach_limit))
    states = (np.arange(2**n_low)[:, None] >> np.arange(n_low)) & 1
    return np.ascontiguousarray((states @ coupling[:n_low]).T)
