"""Annealed importance sampling of factor graphs: where no state has weight 0."""

from skcrbm.inference.any_energy._ais import solve as solve_ais
from skcrbm.inference.factor_graph._graph import flat_graph


def solve(method, energy, query):
    """Answer "log_partition", with its standard error and effective sample size."""
    if flat_graph(energy).hard:
        raise ValueError(
            "'ais' needs a factor graph without entries of -inf, ORs and ANDs: without its "
            "couplings its variables would still not be independent; 'exact' and 'bp_chain' "
            "have no such limit"
        )
    return solve_ais(method, energy, query)
