"""Find best states of factor graphs by branch and bound.

The tables are rewritten as sums of products over cliques. This requires that all factors are tables
without entries of weight 0 (log-potential -inf).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skcrbm.energies.states import signs_of
from skcrbm.inference.search.found import FoundLabels
from skcrbm.utils.limits import MAX_TIE_LABELS, TIE
from skcrbm.utils.parallel import ordered_map, row_chunks

# Number of rows for which a single call of the kernel searches the states.
_ROWS = 16


def find_clique_states(
    visible: np.ndarray,
    cliques: Sequence[tuple[int, ...]],
    weights: np.ndarray,
    field: np.ndarray | float = 0.0,
    *,
    margin: float | None = None,
    is_output: np.ndarray | None = None,
    node_limit: int,
    n_jobs: int | None = None,
) -> FoundLabels:
    """Fill in the missing entries of rows, for the highest score or the lowest hinge loss.

    The score of v in {-1, +1}^V is ``sum_i f_i v_i + sum_j w_j prod_{i in C_j} v_i``. If states
    have the same loss, the state with the higher score is chosen, then the first in lexicographic
    order. If there are more than 20 missing entries, the search returns the first state with this
    loss and score that it visits, in a deterministic order.

    `visible` (N, V) holds 0, 1 and NaN for missing entries. Clique C_j has the columns `cliques[j]`
    and the weight `weights[j]`, and `field` holds the fields f_i (N, V). If `margin` is None, the
    score is maximised, else the hinge loss with this margin is minimised. Only columns with True in
    `is_output` (V,) have margins; None stands for all columns. `node_limit` is the largest number
    of search nodes for a row after a first state is found.
    """
    from skcrbm.kernels.clique_search import HINGE, MAP, Cliques, FoundStates, search_cliques

    n_rows, n_variables = visible.shape
    sizes = np.array([len(c) for c in cliques], np.int64)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    members = np.array([i for c in cliques for i in c], np.int64)
    weights = np.ascontiguousarray(weights, np.float64)
    signs = signs_of(visible).astype(np.float64)
    field = np.ascontiguousarray(np.broadcast_to(field, visible.shape), np.float64)
    if is_output is None:
        is_output = np.ones(n_variables, bool)
    kind, target = (MAP, 0.0) if margin is None else (HINGE, float(margin))
    rounding = TIE
    if margin is None:
        rounding = min(TIE, float(np.finfo(np.float64).eps) * (n_variables + len(weights)))
    slack = rounding * (target * n_variables + np.abs(weights).sum() + np.abs(field).sum(axis=1))
    value, lower = np.empty(n_rows), np.empty(n_rows)
    n_nodes = np.empty(n_rows, np.int64)
    most = int((signs == 0).sum(axis=1).max(initial=0))

    def search(rows):
        found = FoundStates(value[rows], lower[rows], n_nodes[rows])
        search_cliques(
            kind, signs[rows], field[rows], is_output, Cliques(start, members, weights), target,
            slack[rows], MAX_TIE_LABELS, node_limit, most, found,
        )  # fmt: skip

    for _ in ordered_map(search, row_chunks(n_rows, _ROWS), n_jobs):
        pass
    return FoundLabels((signs > 0).astype(np.int8), value, lower, n_nodes, value <= lower)


def find_labels(energy, method, margin=None, *, n_jobs=None):
    """Find the states with the highest score or, if a margin is given, the lowest hinge loss.

    A ValueError is raised if the method is not "branch_and_bound".
    """
    if method.name != "branch_and_bound":
        raise ValueError(
            "inference must be 'branch_and_bound' to find the least hinge loss if the model has "
            f"cliques of more than two labels; got {method.name!r}"
        )
    cliques, weights, linear, constant = clique_products(energy)
    half = 0.5 * energy.field.astype(np.float64)
    field = half + linear
    visible = np.where(energy.free, np.nan, 0.0 if energy.evidence is None else energy.evidence)
    if margin is None:
        # Clamp variables whose value follows from their field alone. Such fields may be very large,
        # and the rounding error of the search is relative to the largest field of a free variable.
        influence = np.zeros(energy.n_variables)
        for clique, weight in zip(cliques, weights, strict=True):
            influence[list(clique)] += abs(weight)
        decided = energy.free & (np.abs(field) > (1 + TIE) * influence)
        visible[decided] = field[decided] > 0
        held = ~np.isnan(visible)
        state = np.nan_to_num(visible)
        # Compute the score of the clamped variables with values 0/1 instead of -1/+1, so that the
        # field of a variable with the value 0 adds exactly 0. With -1/+1, half of a large field
        # would be added and subtracted, which loses digits.
        of_held = state * energy.field + (2 * state - 1) * linear
        constant = constant + np.where(held, of_held, half).sum(axis=1)
        field = np.where(held, 0.0, field)
    found = find_clique_states(
        visible,
        cliques,
        weights,
        field,
        margin=margin,
        node_limit=method.node_limit,
        n_jobs=n_jobs,
    )
    if margin is not None:
        return found
    return found._replace(value=found.value - constant, lower=found.lower - constant)


def clique_products(energy):
    """Rewrite the tables of an energy as a sum of weighted products of -1/+1 variables.

    The result has four items. The first item lists the variables of J products, each of two or more
    variables. The second item is their nonzero weights (J,). The third item is the weights (n,) of
    single variables, to which the caller adds half of the fields. The last item is a constant of
    the score, to which the caller adds half of the sum of the fields.
    """
    constant, sums = energy.offset, {}
    for group in energy.tables:
        n_factors, k = group.variables.shape
        part = group.log_potentials.astype(np.float64).reshape(n_factors, *(2,) * k)
        # Expand the table in one -1/+1 variable after the other. The constant term is the mean of
        # the entries for -1 and +1, and the coefficient of the variable is half of their
        # difference.
        for axis in range(1, k + 1):
            off, on = np.take(part, 0, axis), np.take(part, 1, axis)
            part = np.stack([(off + on) / 2, (on - off) / 2], axis)
        part = part.reshape(n_factors, -1)
        for factor, code in zip(*np.nonzero(part), strict=True):
            scope = group.variables[factor]
            clique = tuple(sorted(scope[[(code >> (k - 1 - i)) & 1 == 1 for i in range(k)]]))
            sums[clique] = sums.get(clique, 0.0) + part[factor, code]
    linear = np.zeros(energy.n_variables)
    for clique in [c for c in sums if len(c) < 2]:
        if clique:
            linear[clique[0]] += sums.pop(clique)
        else:
            constant = constant + sums.pop(clique)
    found = {clique: weight for clique, weight in sums.items() if weight != 0}
    return list(found), np.array(list(found.values()), np.float64), linear, constant
