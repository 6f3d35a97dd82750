"""Exact inference by enumerating the smaller layer."""

from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.utils._param_validation import Interval

from skcrbm._kernels.rbm_exact import enumerate_rows
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.energies._base import PINNED_OFF
from skcrbm.inference._base import InferenceMethod, add_pairwise, empty_result
from skcrbm.utils._parallel import row_chunks

_ROWS_PER_CHUNK = 64
# The table of gains over the low states stays in the L2 cache.
_TABLE_ENTRIES = 2**16


class Exact(InferenceMethod):
    """Enumerate the states of the smaller layer; the other one sums out analytically.

    Log Z is exact. Computed in float64 whatever the dtype of the energy; the cost is
    2^min(V, H) max(V, H) per model.

    Parameters
    ----------
    max_units : int, default=20
        Refuse models whose smaller layer has more units.

    Raises
    ------
    ValueError
        By `infer`, if the smaller layer is larger than `max_units`.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> energy = RBMEnergy([[0.0, 0.0]], [0.0], [0.0, 0.0])
    >>> infer(energy, "exact", returns=("log_partition",)).log_partition.round(4)
    array([2.0794])
    """

    name: ClassVar = "exact"
    answers: ClassVar = frozenset({"marginals", "pairwise", "log_partition"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm", OneHotRBMEnergy: "_solve_one_hot"}
    _parameter_constraints: ClassVar = {"max_units": [Interval(Integral, 0, 30, closed="both")]}

    def __init__(self, max_units=20):
        self.max_units = max_units

    def _solve_rbm(self, energy, query):
        hidden_is_smaller = energy.n_hidden <= energy.n_visible
        enumerated, summed = energy.hidden_bias, energy.visible_bias
        coupling = energy.weights.T
        if not hidden_is_smaller:
            enumerated, summed, coupling = summed, enumerated, energy.weights
        k, m = coupling.shape
        if k > self.max_units:
            raise ValueError(
                f"'exact' enumerates the smaller layer, which has {k} units; the limit is "
                f"max_units={self.max_units}. Use 'sum_product' or 'mean_field', or "
                "Exact(max_units=...) up to 30"
            )
        enumerated, summed, coupling = (
            np.ascontiguousarray(a, dtype=np.float64) for a in (enumerated, summed, coupling)
        )
        n_low = min(k, max(3, min(10, int(np.log2(_TABLE_ENTRIES / max(m, 1))))))
        states = (np.arange(2**n_low)[:, None] >> np.arange(n_low)) & 1
        log_gain = np.ascontiguousarray((states @ coupling[:n_low]).T)
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
                log_odds[row, units] = _log_odds_in_logs(
                    units, enumerated[row], summed[row], coupling
                )
            e, s = log_odds[:, :k], log_odds[:, k:]
            fields["log_odds"][:] = np.hstack([s, e] if hidden_is_smaller else [e, s])
        if pairwise is not None:
            pairwise[...] = pairs if hidden_is_smaller else np.swapaxes(pairs, -1, -2)
        return fields

    def _solve_one_hot(self, energy, query):
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


def _log_odds_in_logs(units, enumerated, summed, coupling):
    """Log-odds of saturated units (enumerated ones first), by log-sum-exp over all states.

    Parameters
    ----------
    units : sequence of int
    enumerated, summed : ndarray (k,), (m,), fields
    coupling : ndarray (k, m)

    Returns
    -------
    ndarray, one value per unit
    """
    k = len(enumerated)
    on = np.full(len(units), -np.inf)
    off = on.copy()
    low = min(k, 12)
    bits = (np.arange(2**low)[:, None] >> np.arange(low)) & 1
    for high in range(2 ** (k - low)):
        tail = np.broadcast_to((high >> np.arange(k - low)) & 1, (len(bits), k - low))
        states = np.hstack([bits, tail])
        inputs = summed + states @ coupling
        log_weight = states @ enumerated + np.logaddexp(0, inputs).sum(1)
        for index, unit in enumerate(units):
            if unit < k:
                is_on = states[:, unit] == 1
                with_on, with_off = log_weight[is_on], log_weight[~is_on]
            else:
                x = inputs[:, unit - k]
                with_on = log_weight - np.logaddexp(0, -x)
                with_off = log_weight - np.logaddexp(0, x)
            if len(with_on):
                on[index] = np.logaddexp(on[index], logsumexp(with_on))
            if len(with_off):
                off[index] = np.logaddexp(off[index], logsumexp(with_off))
    return on - off
