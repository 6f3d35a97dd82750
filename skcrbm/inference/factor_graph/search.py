"""Find best states of factor graphs by branch and bound.

The tables are rewritten as sums of products over cliques. This requires that all factors are tables
without entries of weight 0 (log-potential -inf).
"""

from __future__ import annotations

import numpy as np

from skcrbm.inference.label_search import find_clique_states
from skcrbm.utils.limits import TIE


def solve(method, energy, query):
    """Answer "map" and "map_bound" by branch and bound."""
    return find_labels(energy, method, n_jobs=query.n_jobs).fields(query.returns)


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
