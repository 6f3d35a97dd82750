"""Mean field on pairwise Boltzmann machines, one label after the other."""

from skcrbm.inference._evidence import with_folded_evidence
from skcrbm.inference.ising._iterate import empty_trace, iterate
from skcrbm.kernels.ising_mean_field import ising_mean_field


@with_folded_evidence
def solve(method, energy, query):
    """Answer by coordinate ascent; see `MeanField`."""
    dtype = energy.dtype
    trace = empty_trace(energy, query, method.iterations)

    def kernel(rows, field, free, weight, theta, n_iter, converged, log_partition, pairwise):
        ising_mean_field(
            energy.coupling, field, free, method.iterations, dtype.type(method.tolerance), weight,
            "log_partition" in query.returns, "statistics" in query.returns,
            theta, n_iter, converged, log_partition, pairwise, trace[rows],
        )  # fmt: skip

    beliefs = None if query.start is None else query.start.log_odds
    fields = iterate(energy, query, kernel, beliefs)
    if query.return_trace:
        fields["trace"] = trace
    if query.return_state:  # beliefs are all that it goes on from
        fields["state"] = fields["log_odds"].copy()
    return fields
