"""Conversions of factor graphs: from other pairwise energies, from and to UAI text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcrbm.energies._factors import logic_table
from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._sparse_ising import SparseIsingEnergy
from skcrbm.energies.base import BaseEnergy
from skcrbm.energies.rbm import RBMEnergy
from skcrbm.utils.limits import MAX_TABLE_VARIABLES

# Largest number of inputs of an OR or AND that is written as a table, of 2^16 weights.
_MAX_LOGIC_INPUTS = 15
# Largest |log| of a weight that is written; a float holds larger weights, too.
_MAX_LOG = 700.0


class PairTables(NamedTuple):
    """A batch of pairwise models as tables."""

    variables: np.ndarray  # int64 (F, 2)
    log_potentials: np.ndarray  # (F, 4)
    field: np.ndarray  # (N, n): log-odds
    centred: bool  # True if the fields act on ``x - 1/2`` instead of x


def pair_tables(energy: BaseEnergy) -> PairTables:
    """Return the tables of an energy: a table for each coupling that is not 0, or for each edge.

    Raises
    ------
    ValueError
        If the energy has no pairs of units.
    """
    if isinstance(energy, RBMEnergy) and not energy.categorical:
        i, j = np.nonzero(energy.weights)
        tables = energy.weights[i, j][:, None] * np.array([0, 0, 0, 1], energy.dtype)
        field = np.hstack([energy.visible_bias, energy.hidden_bias])
        return PairTables(np.column_stack([i, j + energy.n_visible]), tables, field, False)
    if isinstance(energy, IsingEnergy):
        edges = np.argwhere(np.triu(energy.coupling))
        weights = energy.coupling[edges[:, 0], edges[:, 1]]
    elif isinstance(energy, SparseIsingEnergy):
        edges, weights = energy.edges, energy.edge_coupling
    else:
        raise ValueError(
            "energy must be an RBMEnergy, IsingEnergy or SparseIsingEnergy, got "
            f"{type(energy).__name__}"
        )
    tables = weights[:, None] * np.array([1, -1, -1, 1], energy.dtype)
    return PairTables(edges, tables, 2 * energy.field, True)


def write_uai(energy, row: int) -> str:
    """Return the text of one model of a `FactorGraphEnergy`."""
    scopes, weights = [], []
    for i in range(energy.n_variables):
        field = float(energy.field[row, i])
        pair = np.array([-field / 2, field / 2] if energy.offset[row] else [0.0, field])
        if energy.evidence is not None and not np.isnan(energy.evidence[row, i]):
            pair[1 - int(energy.evidence[row, i])] = -np.inf
        if pair.any():
            scopes.append([i])
            weights.append(_weights(pair, "field"))
    for group in energy.tables:
        for scope, table in zip(group.variables, group.log_potentials, strict=True):
            scopes.append(scope.tolist())
            weights.append(_weights(table.astype(np.float64), "a log-potential"))
    for group, kind in ((energy.ors, "or"), (energy.ands, "and")):
        for f, output in enumerate(group.outputs):
            inputs = group.inputs[group.start[f] : group.start[f + 1]].tolist()
            if len(inputs) > _MAX_LOGIC_INPUTS:
                raise ValueError(
                    f"an OR or AND of {len(inputs)} inputs would be a table of "
                    f"2^{len(inputs) + 1} weights; the limit is {_MAX_LOGIC_INPUTS} inputs"
                )
            scopes.append([*inputs, int(output)])
            weights.append(logic_table(len(inputs), kind))
    lines = ["MARKOV", str(energy.n_variables), " ".join(["2"] * energy.n_variables)]
    lines.append(str(len(scopes)))
    lines += [" ".join(map(str, [len(scope), *scope])) for scope in scopes]
    for table in weights:
        lines += ["", str(len(table)), " ".join(repr(float(w)) for w in table)]
    return "\n".join(lines) + "\n"


def _weights(logs, name):
    if (np.abs(logs[logs > -np.inf]) > _MAX_LOG).any():
        worst = logs[logs > -np.inf]
        worst = worst[np.abs(worst).argmax()]
        raise ValueError(
            f"{name} of {worst:.4g} cannot be written: the format takes weights, and its exp is "
            f"no float; the limit is ±{_MAX_LOG:g}"
        )
    return np.exp(logs)


class _Words:
    """Reader of the words of a text, in order."""

    def __init__(self, text):
        if not isinstance(text, str):
            raise ValueError(f"text must be a str, got {type(text).__name__}")
        self.words, self.place = text.split(), 0

    def take(self, expected):
        if self.place == len(self.words):
            raise ValueError(f"UAI text ends where {expected} was expected")
        self.place += 1
        return self.words[self.place - 1]

    def integer(self, expected, least=0, most=None):
        word = self.take(expected)
        try:
            value = int(word)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(
                f"UAI text must have {expected}, an int {limits}, where it has {word!r}"
            )
        return value

    def weights(self, count, expected):
        words = self.words[self.place : self.place + count]
        if len(words) < count:
            raise ValueError(f"UAI text ends where {expected} was expected")
        self.place += count
        try:
            values = np.array([float(word) for word in words])
        except ValueError as error:
            raise ValueError(f"UAI text must have {expected} as numbers: {error}") from error
        if not (np.isfinite(values) & (values >= 0)).all():
            raise ValueError(f"UAI text must have {expected} as finite numbers of at least 0")
        return values


def read_uai(text: str) -> tuple[int, list, list, list, list]:
    """Return the number of variables, the scopes and weights of tables, and the ORs and ANDs.

    An OR or AND is a table of more than six variables, given as inputs and then the output.
    """
    words = _Words(text)
    kind = words.take("'MARKOV'")
    if kind.upper() != "MARKOV":
        raise ValueError(f"UAI text must begin with 'MARKOV', not {kind[:20]!r}")
    n = words.integer("the number of variables")
    for i in range(n):
        states = words.integer(f"the number of states of variable {i}", 1)
        if states != 2:
            raise ValueError(
                f"UAI text must be of binary variables; variable {i} has {states} states"
            )
    n_factors = words.integer("the number of tables")
    every = []
    for f in range(n_factors):
        k = words.integer(f"the number of variables of table {f}", 1)
        scope = [words.integer(f"a variable of table {f}", 0, n - 1) for _ in range(k)]
        if len(set(scope)) < k:
            raise ValueError(f"UAI text names a variable twice in table {f}: {scope}")
        every.append(scope)
    scopes, weights, ors, ands = [], [], [], []
    for f, scope in enumerate(every):
        k = len(scope)
        if k > MAX_TABLE_VARIABLES and k > _MAX_LOGIC_INPUTS + 1:
            raise ValueError(_too_large(f, k))
        size = words.integer(f"the number of weights of table {f}")
        if size != 2**k:
            raise ValueError(f"UAI text must have 2^{k} weights in table {f}, not {size}")
        table = words.weights(size, f"the {size} weights of table {f}")
        if k <= MAX_TABLE_VARIABLES:
            scopes.append(scope)
            weights.append(table)
        elif np.array_equal(table, logic_table(k - 1, "or")):
            ors.append(scope)
        elif np.array_equal(table, logic_table(k - 1, "and")):
            ands.append(scope)
        else:
            raise ValueError(_too_large(f, k))
    if words.place != len(words.words):
        raise ValueError(f"UAI text has {words.words[words.place]!r} after the last table")
    return n, scopes, weights, ors, ands


def _too_large(f, k):
    return (
        f"UAI text has {k} variables in table {f}; tables take 1 to {MAX_TABLE_VARIABLES}, an OR "
        f"or AND up to {_MAX_LOGIC_INPUTS} inputs and the output last"
    )
