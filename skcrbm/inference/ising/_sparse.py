"""Answer queries on sparse Ising models: by a fast kernel for pairs, or by converting the model.

The kernel of `sparse_ising` reads one coupling per pair instead of a table. It supports moderate
couplings and a damping of 0 or 0.5. For strong couplings and other values of damping, the model is
converted to a factor graph. For tree-reweighted messages, dense models are converted, too.
"""

import numpy as np
from scipy.special import expit

from skcrbm.energies import FactorGraphEnergy, IsingEnergy
from skcrbm.inference.factor_graph._large_tables import solve_messages
from skcrbm.inference.factor_graph.messages import OddsKernel, find_state, pass_messages
from skcrbm.kernels.sparse_ising import finish_sparse_ising, pass_sparse_ising
from skcrbm.utils.validation import kernel_array


class _Kernel(OddsKernel):
    """Passes messages on sparse Ising models.

    The kernel stores messages as odds, and reads one coupling per edge instead of a table. Its
    innermost loop runs over the models.
    """

    #: Share of the range of the dtype that a product of messages may use, see `fits_odds`. It is a
    #: quarter because a single division computes two messages, and its denominator is a product of
    #: up to four numbers.
    share = 0.25

    def prepare(self, graph):
        n_tables = graph.n_tables
        edges = kernel_array(graph.variables.reshape(n_tables, 2))
        # Recover the coupling s from the table of an edge. Its largest log-potential |s| is in
        # `shift`, and its last log-potential s is in `logs` as s - |s|, so s is the sum of the two
        # numbers.
        coupling = graph.shift + graph.logs[3::4]
        return edges, kernel_array(np.exp(2 * coupling), self.dtype), coupling

    def pass_(self, kind, *arguments):
        pass_sparse_ising(kind, *self.arrays, *arguments)

    def finish(self, lanes, sums):
        finish_sparse_ising(*self.arrays, lanes, sums)


def solve_sum_product(method, energy, query):
    """Answer a query by sum-product messages; see `SumProduct`."""
    fields = pass_messages(method, FactorGraphEnergy.from_energy(energy), query, _Kernel)
    return _with_pairs(fields)


def solve_max_product(method, energy, query):
    """Find a state by max-product messages; see `MaxProduct`."""
    return find_state(method, FactorGraphEnergy.from_energy(energy), query, _Kernel)


def solve_tree_reweighted(method, energy, query):
    """Answer a query by tree-reweighted messages; see `TreeReweighted`."""
    graph = FactorGraphEnergy.from_energy(energy)
    fields = solve_messages(method, graph, query)
    if "statistics" in fields and isinstance(energy, IsingEnergy):
        fields["statistics"] = (_all_pairs(energy, graph, query, fields),)
        return fields
    return _with_pairs(fields)


def _all_pairs(energy, graph, query, fields):
    """Return P(both labels are +1) of all pairs, and P(label is +1) on the diagonal.

    Labels without a coupling are independent given their beliefs.
    """
    n_labels = energy.n_variables
    on = expit(fields["log_odds"].astype(np.float64))
    if energy.evidence is not None:
        on = np.where(energy.free, on, energy.evidence)
    weighted = on if query.per_example else query.sample_weight[:, None] * on
    form = "ni,nk->nik" if query.per_example else "ni,nk->ik"
    found = np.einsum(form, weighted, on)
    found[..., np.arange(n_labels), np.arange(n_labels)] = (
        on if query.per_example else weighted.sum(axis=0)
    )
    for group in graph.tables:
        i, k = group.variables.T
        found[..., i, k] = found[..., k, i] = fields["statistics"][0][..., group.entries + 3]
    return found.astype(energy.dtype)


def _with_pairs(fields):
    """If there are statistics, keep only P(both labels are +1) for each edge."""
    if "statistics" in fields:
        fields["statistics"] = (np.ascontiguousarray(fields["statistics"][0][..., 3::4]),)
    return fields
