"""Message passing on one factor graph, factor by factor, on weights; OR and AND as tables."""

from itertools import product
from typing import NamedTuple

import numpy as np

from skcrbm.energies import AndFactors, FactorGraphEnergy, OrFactors, TableFactors


class GraphBeliefs(NamedTuple):
    on: np.ndarray  # (n,), P(x_i = 1)
    entries: list  # of each factor, (2, ..., 2)
    log_partition: float
    trace: np.ndarray  # largest change of a belief, per iteration


def logic_table(kind, k):
    """Log-weights (2, ..., 2) of an OR or AND of k inputs, the output last."""
    table = np.full((2,) * (k + 1), -np.inf)
    for inputs in product((0, 1), repeat=k):
        table[(*inputs, int(any(inputs) if kind is OrFactors else all(inputs)))] = 0.0
    return table


def factor_tables(energy):
    """Scopes and log-tables (2, ..., 2) of all factors, as given."""
    found = []
    for part in energy.factors:
        if isinstance(part, TableFactors):
            for scope, table in zip(part.variables, part.log_potentials, strict=True):
                found.append((list(scope), table.astype(float).reshape((2,) * len(scope))))
        else:
            kind = OrFactors if isinstance(part, OrFactors) else AndFactors
            for f, output in enumerate(part.outputs):
                inputs = list(part.inputs[part.start[f] : part.start[f + 1]])
                found.append(([*inputs, output], logic_table(kind, len(inputs))))
    return found


def merged_tables(energy):
    """`factor_tables` with tables inside of others added to them, and the place of each table.

    Returns
    -------
    list of (scope, table)
    list of (place in that list, scope) : of each given factor
    """
    parts = factor_tables(energy)
    is_table = [
        isinstance(group, TableFactors)
        for group in energy.factors
        for _ in range(len(group.variables if isinstance(group, TableFactors) else group.outputs))
    ]
    order = sorted(range(len(parts)), key=lambda i: -len(parts[i][0]))
    hosts, host_of = [], {}
    for i in order:
        scope = parts[i][0]
        inside = [h for h in hosts if set(scope) <= set(parts[h][0])]
        if is_table[i] and len(scope) > 1 and inside:
            host, table = parts[inside[0]]
            index = [np.indices(table.shape)[host.index(v)] for v in scope]
            parts[inside[0]] = host, table + parts[i][1][tuple(index)]
            host_of[i] = inside[0]
        elif is_table[i]:
            hosts.append(i)
    kept = [i for i in range(len(parts)) if i not in host_of]
    places = [(kept.index(host_of.get(i, i)), scope) for i, (scope, _) in enumerate(parts)]
    return [parts[i] for i in kept], places


def _marginal(joint, host, scope):
    """The sums of a table over all variables but those of a scope, in its order."""
    left = joint.sum(axis=tuple(j for j, v in enumerate(host) if v not in scope))
    names = [v for v in host if v in scope]
    return left.transpose([names.index(v) for v in scope])


def with_tables_for_logic(energy):
    """The same model without OR and AND factors."""
    parts = factor_tables(energy)
    return FactorGraphEnergy.from_tables(
        [scope for scope, _ in parts], [table.ravel() for _, table in parts], energy.field
    )


def _normal(weight):
    return weight / weight.sum()


def naive_graph(energy, n, n_iter, damping=0.0, rho=None, maximum=False, held=None):
    """All messages at once, `n_iter` times, on model n. With `rho` (F,) tree-reweighted.

    held : (n_variables,), 0 or 1, NaN where free. `entries` are weights of max-product, too.
    """
    parts, places = merged_tables(energy)
    rho = np.ones(len(parts)) if rho is None else np.asarray(rho, float)
    field = energy.field[n].astype(float)
    width = len(field)
    own = np.stack([np.exp(-np.logaddexp(0, field)), np.exp(-np.logaddexp(0, -field))], 1)
    if held is not None:
        for i in range(width):
            if not np.isnan(held[i]):
                own[i] = [held[i] == 0, held[i] == 1]
    weights = []
    for (_, table), r in zip(parts, rho, strict=True):
        weights.append(np.exp((table - table.max()) / r))
    messages = [np.full((len(scope), 2), 0.5) for scope, _ in parts]

    def cavity(i, without):
        total = own[i].copy()
        for a, (scope, _) in enumerate(parts):
            for j, v in enumerate(scope):
                if v == i:
                    power = rho[a] - 1.0 if a == without else rho[a]
                    total = total * (messages[a][j] ** power if power else 1.0)
        return _normal(total)

    def joint(a, without=None):
        scope = parts[a][0]
        table = weights[a].copy()
        for j, i in enumerate(scope):
            if j != without:
                shape = [1] * len(scope)
                shape[j] = 2
                table = table * cavity(i, a).reshape(shape)
        return table

    def beliefs():
        return np.array([cavity(i, None)[1] for i in range(width)])

    on, trace = beliefs(), []
    for _ in range(n_iter):
        new = []
        for a, (scope, _) in enumerate(parts):
            sent = np.empty((len(scope), 2))
            for j in range(len(scope)):
                others = tuple(axis for axis in range(len(scope)) if axis != j)
                table = joint(a, j)
                sent[j] = _normal(table.max(axis=others) if maximum else table.sum(axis=others))
                sent[j] = _normal(messages[a][j] ** damping * sent[j] ** (1 - damping))
            new.append(sent)
        messages = new
        before, on = on, beliefs()
        trace.append(np.abs(on - before).max(initial=0.0))
    entries = [_normal(joint(a)) for a in range(len(parts))]
    given = [_marginal(entries[a], parts[a][0], scope) for a, scope in places]
    return GraphBeliefs(on, given, _bethe(energy, n, parts, rho, on, entries), np.array(trace))


def _entropy(p):
    p = np.asarray(p, float).ravel()
    p = p[p > 0]
    return -(p * np.log(p)).sum()


def _bethe(energy, n, parts, rho, on, entries):
    """Energy of the beliefs + sum_i H_i - sum_a rho_a (sum H_i - H_a)."""
    total = energy.field[n].astype(float) @ on
    single = [_entropy([p, 1 - p]) for p in on]
    total += sum(single)
    for (scope, table), r, belief in zip(parts, rho, entries, strict=True):
        possible = belief > 0
        total += (belief[possible] * table[possible]).sum()
        total -= r * (sum(single[i] for i in scope) - _entropy(belief))
    return total


def naive_graph_mean_field(energy, n, n_iter):
    """Beliefs and bound after sweeps over the variables, of a model without zeros."""
    parts = factor_tables(energy)
    field = energy.field[n].astype(float)
    on = 1 / (1 + np.exp(-field))

    def expected(scope, table, fixed=None, value=0):
        total = 0.0
        for state in product((0, 1), repeat=len(scope)):
            p = 1.0
            for i, x in zip(scope, state, strict=True):
                if i == fixed:
                    p *= x == value
                else:
                    p *= on[i] if x else 1 - on[i]
            total += p * table[state]
        return total

    for _ in range(n_iter):
        for i in range(len(on)):
            x = field[i]
            for scope, table in parts:
                if i in scope:
                    x += expected(scope, table, i, 1) - expected(scope, table, i, 0)
            on[i] = 1 / (1 + np.exp(-x))
    bound = field @ on + sum(expected(*part) for part in parts)
    return on, bound + sum(_entropy([p, 1 - p]) for p in on)
