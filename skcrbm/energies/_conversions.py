"""Convert pairwise energies to factor graphs, and factor graphs from and to networks in files."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skcrbm.energies._factor_graph_structure import FactorGraph
from skcrbm.energies._factors import (
    AndFactors,
    Factors,
    OrFactors,
    TableFactors,
    group_tables,
    logic_table,
)
from skcrbm.energies.base import BaseEnergy
from skcrbm.energies.pairs import IsingEnergy
from skcrbm.energies.rbm import RBMEnergy
from skcrbm.formats.constraints import Clauses, CostNetwork
from skcrbm.formats.uai import Network
from skcrbm.utils.limits import MAX_TABLE_VARIABLES

# Largest number of inputs of an OR or AND factor that can be written to a file. The factor is
# written as a table, which has 2^16 weights for 15 inputs. For more inputs a ValueError is raised.
_MAX_LOGIC_INPUTS = 15
# Largest |log-potential| that can be written to a file. A file holds exponentials of
# log-potentials, and the largest float64 is about exp(709). For larger log-potentials a ValueError
# is raised.
_MAX_LOG = 700.0
# The costs of a .wcsp file must add up to less than this number, so that sums are exact in float64.
_MAX_COST = 2.0**53
# Largest number of pairs of a graph that `graph_of_pairs` keeps.
_MAX_KEPT_PAIRS = 2**10


class PairTables(NamedTuple):
    """A batch of N pairwise models, whose F couplings are written as tables of 2 x 2 entries."""

    variables: np.ndarray  # int64 (F, 2): the two variables of each table
    log_potentials: np.ndarray  # (F, 4): entries of each table in C order
    field: np.ndarray  # (N, n): field of each variable, as log-odds
    centred: bool  # True if the fields multiply ``x - 1/2`` instead of x


def pair_tables(energy: BaseEnergy) -> PairTables:
    """Convert an energy to tables over pairs of variables.

    There is a table for each edge of an `IsingEnergy`, or for each nonzero coupling of an RBM. A
    ValueError is raised if the energy is not an RBM or Ising model.
    """
    if isinstance(energy, RBMEnergy) and not energy.exclusive.any():
        i, j = np.nonzero(energy.weights)
        tables = energy.weights[i, j][:, None] * np.array([0, 0, 0, 1], energy.dtype)
        field = np.hstack([energy.visible_bias, energy.hidden_bias])
        return PairTables(np.column_stack([i, j + energy.n_visible]), tables, field, False)
    if not isinstance(energy, IsingEnergy):
        raise ValueError(f"energy must be an RBMEnergy or IsingEnergy, got {type(energy).__name__}")
    pairs = energy._pairs.as_sparse()
    tables = pairs.values[:, None] * np.array([1, -1, -1, 1], energy.dtype)
    return PairTables(pairs.graph.edges, tables, 2 * energy.field, True)


def graph_of_pairs(n_variables: int, variables: np.ndarray) -> FactorGraph:
    """Return a graph of n 0/1 variables with a table for each row of `variables` (F, 2).

    The graphs of the latest small energies are kept, with all that methods of inference have
    computed from the graph, because training converts a new energy with the same pairs in each
    step.
    """
    if len(variables) <= _MAX_KEPT_PAIRS:
        return _kept_graph(n_variables, np.asarray(variables, np.int64).tobytes())
    return _new_graph(n_variables, variables)


def _new_graph(n_variables, variables):
    tables = TableFactors(variables, np.zeros((len(variables), 4)))
    return FactorGraph((tables,), np.full(n_variables, 2))


@lru_cache(maxsize=8)
def _kept_graph(n_variables, variables):
    return _new_graph(n_variables, np.frombuffer(variables, np.int64).reshape(-1, 2).copy())


def as_network(energy, row: int) -> Network:
    """Convert one model of a `FactorGraphEnergy`, whose index is `row`, to a network of tables."""
    parts = list(_log_tables(energy, row))
    return Network(
        "MARKOV", np.array(energy.state_counts.tolist()),
        [np.array(scope, np.int64) for scope, _, _ in parts],
        [_weights(table, name) for _, table, name in parts],
    )  # fmt: skip


def as_costs(energy, row: int, scale: float | None) -> CostNetwork:
    """Convert one model to integer costs; see `FactorGraphEnergy.to_wcsp`."""
    scopes, tables = [], []
    constant = 0.0  # an integer
    for scope, table, name in _log_tables(energy, row):
        possible = table[table > -np.inf]
        costs = (1.0 if scale is None else scale) * possible
        whole = np.round(costs)
        if scale is None and (costs != whole).any():
            worst = possible[costs != whole][0]
            raise ValueError(
                f"{name} of {worst:.6g} is no integer, but .wcsp files hold integer costs: give "
                "scale, for example 1e6, to write rounded multiples"
            )
        highest = max(0.0, float(whole.max(initial=0.0)))
        constant += highest
        table[table > -np.inf] = whole - highest
        scopes.append(np.array(scope, np.int64))
        tables.append(table)
    for scope, table in zip(scopes, tables, strict=True):
        if len(scope) == 0 and constant > 0:  # a constant cost of the file pays for the shift
            paid = min(constant, -float(table))
            table += paid
            constant -= paid
    total = sum(-float(table.min(where=table > -np.inf, initial=0.0)) for table in tables)
    if total >= _MAX_COST:
        raise ValueError(
            f"scale is too large: the costs may add up to {total:.3g}, and the limit of .wcsp "
            "files is 2^53"
        )
    return CostNetwork(np.array(energy.state_counts.tolist(), np.int64), scopes, tables)


def as_clauses(energy, row: int) -> Clauses:
    """Convert one model without soft terms to clauses; see `FactorGraphEnergy.to_cnf`."""
    if (energy.state_counts != 2).any():
        v = int((energy.state_counts != 2).argmax())
        raise ValueError(
            f"a .cnf file holds 0/1 variables, but variable {v} has {energy.state_counts[v]} states"
        )
    literals: list[tuple[list[int], list[int]]] = []
    for scope, table, name in _log_tables(energy, row, logic=False):
        soft = table[(table > -np.inf) & (table != 0)]
        if soft.size:
            raise ValueError(
                f"a .cnf file holds clauses, which give a score of 0 or -inf, but the energy has "
                f"{name} of {soft.ravel()[0]:.6g}"
            )
        literals += [_literals(scope, state) for state in np.argwhere(table == -np.inf).tolist()]
    for group, on in ((energy.ors, 1), (energy.ands, 0)):
        # An input with the state `on` makes the output `on`; otherwise the output is not.
        for f, output in enumerate(group.outputs.tolist()):
            inputs = group.inputs[group.start[f] : group.start[f + 1]].tolist()
            literals += [_literals([i, output], [on, 1 - on]) for i in inputs]
            literals.append(_literals([*inputs, output], [1 - on] * len(inputs) + [on]))
    return Clauses(energy.n_variables, literals)


def _literals(scope, state):
    """Return the positive and negated literals of the clause that forbids a state of a scope."""
    pairs = sorted(zip(scope, state, strict=True))
    return [v for v, x in pairs if x == 0], [v for v, x in pairs if x == 1]


def _log_tables(energy, row, logic=True):
    """Yield the scope, the log-weights and a name of each term of the score of one model.

    OR and AND factors are left out if `logic` is False.
    """
    if energy.constant:
        yield [], np.array(energy.constant, np.float64), "a constant"
    counts = energy.state_counts.tolist()
    for i, k in enumerate(counts):
        own = np.array(energy.field[row, i], np.float64)
        if own.ndim == 0:
            own = np.array([-own / 2, own / 2] if energy._centred else [0.0, own])
        own = own[:k]
        if energy.evidence is not None and not np.isnan(energy.evidence[row, i]):
            own[np.arange(k) != energy.evidence[row, i]] = -np.inf
        if own.any():
            yield [i], own, "a field"
    for group in energy.tables:
        for scope, table in zip(group.variables, group.log_potentials, strict=True):
            shape = [counts[v] for v in scope]
            yield scope.tolist(), table.astype(np.float64).reshape(shape), "a log-potential"
    for group, kind in ((energy.ors, "or"), (energy.ands, "and")) if logic else ():
        for f, output in enumerate(group.outputs):
            inputs = group.inputs[group.start[f] : group.start[f + 1]].tolist()
            if len(inputs) > _MAX_LOGIC_INPUTS:
                raise ValueError(
                    f"an OR or AND of {len(inputs)} inputs would be a table of "
                    f"2^{len(inputs) + 1} weights; the limit is {_MAX_LOGIC_INPUTS} inputs"
                )
            with np.errstate(divide="ignore"):
                table = np.log(logic_table(len(inputs), kind))
            yield [*inputs, int(output)], table.reshape((2,) * (len(inputs) + 1)), "a weight"


def _weights(logs, name):
    if (np.abs(logs[logs > -np.inf]) > _MAX_LOG).any():
        worst = logs[logs > -np.inf]
        worst = worst[np.abs(worst).argmax()]
        raise ValueError(
            f"{name} of {worst:.4g} cannot be written, because the format needs its exponential, "
            f"which is not a finite float; the limit is ±{_MAX_LOG:g}"
        )
    return np.exp(logs)


def factors_of_network(network: Network) -> tuple[list[Factors], float]:
    """Return the factors of a network, and the logarithm of the product of its constants.

    A constant is a table without variables. A large table over 0/1 variables becomes an OR or AND
    factor if its last variable is the OR or AND of the other variables, because the cost of such a
    factor is only linear in the number of inputs. A ValueError is raised if a constant is 0,
    because all states then have weight 0.
    """
    scopes, tables, logic = [], [], {"or": [], "and": []}
    with np.errstate(divide="ignore"):
        for f, (scope, table) in enumerate(zip(network.scopes, network.tables, strict=True)):
            if len(scope) == 0 and table == 0:
                raise ValueError(f"table {f} is the constant 0, so no state has a positive weight")
            kind = _logic_kind(table)
            if kind:
                logic[kind].append(scope)
            else:
                scopes.append(scope)
                tables.append(np.log(table))
    groups, constant = group_tables(scopes, tables)
    factors: list[Factors] = [*groups]
    for kind, make in (("or", OrFactors), ("and", AndFactors)):
        if logic[kind]:
            parts = logic[kind]
            factors.append(make([part[:-1] for part in parts], [part[-1] for part in parts]))
    return factors, constant


def factors_of_clauses(clauses: Clauses) -> tuple[list[Factors], int]:
    """Return factors with weight 1 for states that agree with all clauses, and the variables.

    The number of variables includes the outputs of OR and AND factors of long clauses.
    """
    scopes, tables = [], []
    ors: tuple[list[list[int]], list[int]] = [], []
    ands: tuple[list[list[int]], list[int]] = [], []
    n = clauses.n_variables
    for positive, negated in clauses.literals:
        scope = [*positive, *negated]
        wrong = [0] * len(positive) + [1] * len(negated)  # the states of false literals
        if len(scope) > MAX_TABLE_VARIABLES:
            scope, wrong = [], []
            for part, (inputs, outputs), state in ((positive, ors, 0), (negated, ands, 1)):
                if part:
                    inputs.append(part)
                    outputs.append(n)
                    scope.append(n)
                    wrong.append(state)
                    n += 1
        table = np.zeros((2,) * len(scope))
        table[tuple(wrong)] = -np.inf
        scopes.append(scope)
        tables.append(table)
    factors: list[Factors] = [*group_tables(scopes, tables)[0]]
    factors += [make(*parts) for make, parts in ((OrFactors, ors), (AndFactors, ands)) if parts[0]]
    return factors, n


def _logic_kind(table):
    """Return "or" or "and" if a table over many 0/1 variables is an OR or AND, else ""."""
    m = table.ndim
    if not MAX_TABLE_VARIABLES < m <= _MAX_LOGIC_INPUTS + 1 or set(table.shape) != {2}:
        return ""
    flat = table.ravel()
    return next((k for k in ("or", "and") if np.array_equal(flat, logic_table(m - 1, k))), "")
