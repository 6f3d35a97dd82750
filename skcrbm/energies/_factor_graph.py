"""Markov random fields on factor graphs: tables, OR and AND over 0/1 variables."""

from __future__ import annotations

from numbers import Integral
from typing import Self

import numpy as np

from skcrbm.energies._conversions import pair_tables, read_uai, write_uai
from skcrbm.energies._factor_graph_structure import FactorGraph
from skcrbm.energies._factors import (
    AndFactors,
    OrFactors,
    TableFactors,
    as_log_potentials,
    as_variables,
)
from skcrbm.energies.base import QUERIES, BaseEnergy, Block
from skcrbm.utils.limits import (
    BLOCK_ENTRIES,
    FORBIDDEN_LOG_ODDS,
    MAX_ELIMINATED_ENTRIES,
    MAX_TABLE_VARIABLES,
    UNDECIDED_FIELD,
)
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_row_fields, kernel_array


class FactorGraphEnergy(BaseEnergy):
    """A batch of Markov random fields over 0/1 variables that share their factors.

    ``-E_n(x) = f_n' x + sum_a log phi_a(x_a)`` over table factors of one to six variables, and
    OR and AND factors, which have weight 1 where their output is right and 0 where it is
    not. The fields f differ from row to row.

    Parameters
    ----------
    factors : sequence of TableFactors, OrFactors or AndFactors
    field : array-like (n,) or (N, n), default=None
        Log-odds of each variable on top of its factors, one row per model; None: one model, 0.
    n_variables : int, default=None
        Number of variables n. None: as many as the fields have, or as the factors name.

    Attributes
    ----------
    factors : tuple of TableFactors, OrFactors and AndFactors
        As given, with the present log-potentials.
    log_potentials : ndarray (n_entries,)
        All tables: group by group as given, factor by factor, entry by entry. The first
        variable of a scope is the slowest digit of an entry's number (C order).
    tables : tuple of TableGroup
        The same, all tables of one number of variables together: ``variables`` (F, k),
        ``log_potentials`` (F, 2**k), and ``entries`` (F,), the place of each table's first entry
        among all.
    ors, ands : LogicGroup
        All factors of a kind: ``start`` (F + 1,), ``inputs`` (start[F],), ``outputs`` (F,).
    field : ndarray (N, n)
    graph : FactorGraph
        The factors without their numbers, shared by all energies made of this one.
    offset : ndarray (N,), float64
        Part of the score that no state changes, 0 unless made by `from_energy`.
    n_models, n_variables, n_entries : int
    dtype : numpy dtype
        float32 if all inputs are float32, else float64.

    Raises
    ------
    ValueError
        If an array has the wrong shape or holds NaN or +inf, or a factor names a variable that
        is not there.

    Examples
    --------
    >>> from skcrbm.energies import FactorGraphEnergy, OrFactors, TableFactors
    >>> from skcrbm.inference import infer
    >>> like = TableFactors([[0, 1], [1, 2]], [1.0, 0.0, 0.0, 1.0])
    >>> energy = FactorGraphEnergy([like, OrFactors([[0, 2]], [3])], [0.5, 0.0, 0.0, 0.0])
    >>> infer(energy, "exact").marginals.round(3)
    array([[0.622, 0.557, 0.526, 0.771]])
    """

    _saved = ("graph", "field", "log_potentials", "tables", "_finite")

    queries = QUERIES - {"marginal_map"}
    _centred = False

    def __init__(self, factors, field=None, *, n_variables=None):
        factors = _as_factors(factors)
        width = _n_variables(factors, field, n_variables)
        graph = FactorGraph(factors, width)
        dtypes = [p.log_potentials.dtype for p in factors if isinstance(p, TableFactors)]
        if field is None:
            field = np.zeros((1, width), np.result_type(*dtypes) if dtypes else np.float64)
        field = as_row_fields(field, "field", width, "n")
        dtype = np.result_type(field, *dtypes)
        self.graph = graph
        self.field = kernel_array(field, dtype)
        flat = [p.log_potentials.reshape(-1) for p in factors if isinstance(p, TableFactors)]
        self._set_log_potentials(np.concatenate([np.empty(0, dtype), *flat]).astype(dtype))

    def _set_log_potentials(self, flat):
        self.log_potentials = flat
        self.tables = self.graph.tables(flat)
        self._finite = [bool((g.log_potentials > -np.inf).all()) for g in self.tables]

    # ---------------------------------------------------------- other ways in and out

    @classmethod
    def from_tables(cls, scopes, log_potentials, field=None, *, n_variables=None):
        """Make the energy of ragged lists of tables.

        Parameters
        ----------
        scopes : sequence of index arrays
            One to six variables each.
        log_potentials : sequence of array-like (2**k,) or (2, ..., 2)
            The table of each scope.
        field, n_variables
            As above.

        Returns
        -------
        FactorGraphEnergy
            With its tables grouped by number of variables, ascending, and in the order
            given within.

        Raises
        ------
        ValueError
            As above, and if there is not one table for each scope.
        """
        scopes = [as_variables(s, f"scopes[{i}]", "(k,)") for i, s in enumerate(scopes)]
        if len(scopes) != len(log_potentials):
            raise ValueError(
                f"log_potentials must hold one table for each of {len(scopes)} scopes; got "
                f"{len(log_potentials)}"
            )
        by_arity = {}
        for i, (scope, table) in enumerate(zip(scopes, log_potentials, strict=True)):
            k = len(scope)
            if not 1 <= k <= MAX_TABLE_VARIABLES or len(set(scope.tolist())) < k:
                raise ValueError(
                    f"scopes[{i}] must name 1 to {MAX_TABLE_VARIABLES} variables, each once; got "
                    f"{scope.tolist()}"
                )
            table = as_log_potentials(table, f"({2**k},)")
            if table.shape not in ((2**k,), (2,) * k):
                raise ValueError(
                    f"log_potentials[{i}] must have shape ({2**k},) or {(2,) * k}; got "
                    f"{table.shape}"
                )
            by_arity.setdefault(k, []).append((scope, table.reshape(-1)))
        factors = [TableFactors(*map(np.array, zip(*by_arity[k]))) for k in sorted(by_arity)]
        return cls(factors, field, n_variables=n_variables)

    @classmethod
    def from_energy(cls, energy):
        """Make the same models, evidence included, with a table for each pair that is coupled.

        Scores and log Z are the same, too. All edges of a sparse Ising model have tables, of
        other energies the couplings that are not 0.

        Parameters
        ----------
        energy : RBMEnergy, IsingEnergy or SparseIsingEnergy

        Returns
        -------
        FactorGraphEnergy
            Over the visible units, then the hidden ones, of an RBM.

        Raises
        ------
        ValueError
            On another kind of energy.
        """
        parts = pair_tables(energy)
        other = cls([TableFactors(parts.variables, parts.log_potentials)], parts.field)
        other._centred = parts.centred
        other.evidence = energy.evidence
        return other

    @classmethod
    def from_uai(cls, text):
        """Read a model from text in the format of the UAI competitions.

        Parameters
        ----------
        text : str
            "MARKOV", variables of two states each, tables of weights, not of their
            logarithms. Tables of one to six variables; larger ones if they are those of an OR
            or AND of the variables before the last.

        Returns
        -------
        FactorGraphEnergy
            As of `from_tables`.

        Raises
        ------
        ValueError
            If the text is cut off or otherwise not of this format, naming what was expected.
        """
        n_variables, scopes, weights, ors, ands = read_uai(text)
        with np.errstate(divide="ignore"):
            tables = [np.log(table) for table in weights]
        factors = list(cls.from_tables(scopes, tables, n_variables=n_variables).factors)
        if ors:
            factors.append(OrFactors([s[:-1] for s in ors], [s[-1] for s in ors]))
        if ands:
            factors.append(AndFactors([s[:-1] for s in ands], [s[-1] for s in ands]))
        return cls(factors, n_variables=n_variables)

    def to_uai(self, row=0):
        """Write one model as text in the format of the UAI competitions.

        Parameters
        ----------
        row : int, default=0

        Returns
        -------
        str
            Fields, and what is held, stand as tables of one variable, OR and AND as tables of
            zeros and ones.

        Raises
        ------
        ValueError
            If there is no such row, a log-potential does not fit as a weight, or an OR or AND
            has more than 15 inputs.
        """
        if not isinstance(row, Integral) or not -self.n_models <= row < self.n_models:
            raise ValueError(f"row must be the number of one of {self.n_models} models: {row!r}")
        return write_uai(self, int(row))

    @property
    def factors(self):
        """Tuple of the factors as given, with the present log-potentials."""
        return tuple(
            TableFactors(part.variables, self.log_potentials[where].reshape(len(part), -1))
            if isinstance(part, TableFactors)
            else part
            for part, where in self.graph.groups
        )

    @property
    def ors(self):
        """All OR factors: ``start`` (F + 1,), ``inputs`` and ``outputs`` (F,)."""
        return self.graph.ors

    @property
    def ands(self):
        """All AND factors: ``start`` (F + 1,), ``inputs`` and ``outputs`` (F,)."""
        return self.graph.ands

    def with_log_potentials(self, log_potentials):
        """Return the same graph, fields and evidence with other tables.

        Parameters
        ----------
        log_potentials : array-like (n_entries,)
            In the order of `log_potentials`.

        Raises
        ------
        ValueError
            On another shape, NaN or +inf.
        """
        flat = as_log_potentials(log_potentials, f"({self.n_entries},)")
        if flat.shape != (self.n_entries,):
            raise ValueError(
                f"log_potentials must have shape ({self.n_entries},), got {flat.shape}"
            )
        other = self._copy_with()
        other._set_log_potentials(np.array(flat, self.dtype))
        return other

    def unflatten(self, flat):
        """Cut numbers of all entries (..., n_entries) into the groups of tables as given.

        Returns
        -------
        tuple of ndarray (..., F, 2, ..., 2)

        Raises
        ------
        ValueError
            On another shape.
        """
        flat = np.asarray(flat)
        if flat.ndim == 0 or flat.shape[-1] != self.n_entries:
            raise ValueError(f"flat must have shape (..., {self.n_entries}), got {flat.shape}")
        return tuple(
            flat[..., where].reshape(*flat.shape[:-1], *part.variables.shape[:1], *(2,) * k)
            for part, where in self.graph.groups
            if isinstance(part, TableFactors)
            for k in part.variables.shape[1:]
        )

    # ------------------------------------------------------------------ shape

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """(field,)."""
        return (self.field,)

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Log-potentials of each group of tables."""
        return tuple(group.log_potentials for group in self.tables)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Fields, and the ranges of the tables; infinite beside weights of 0."""
        influence = np.zeros(self.n_variables)
        for group in self.tables:
            logs = group.log_potentials.astype(np.float64)
            low, high = logs.min(axis=1, initial=np.inf), logs.max(axis=1, initial=-np.inf)
            spread = np.broadcast_to(high - low, len(group.variables))
            np.add.at(influence, group.variables, spread[:, None])
        for group in (self.ors, self.ands):
            influence[group.inputs] = influence[group.outputs] = np.inf
        return self.field.astype(np.float64), influence

    def dominant_fields(self) -> np.ndarray:
        """Large fields of variables beside weights of 0."""
        return np.isinf(self.own_log_odds()[1]) & (np.abs(self.field) > UNDECIDED_FIELD)

    @property
    def n_variables(self) -> int:
        """Number of variables n."""
        return self.field.shape[1]

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Variables of the largest table of an elimination."""
        found = self.graph.elimination
        return found.width + 1 if found.complete else self.n_variables

    @property
    def max_enumerated(self) -> int:
        """Variables of the largest table that "exact" makes unless told to."""
        return MAX_ELIMINATED_ENTRIES.bit_length() - 1

    @property
    def n_entries(self):
        """Number of entries of all tables."""
        return self.graph.n_entries

    @property
    def offset(self):
        """Part (N,) of the score that no state changes."""
        if self._centred:  # fields of -1/+1 variables
            return -0.5 * self.field.sum(axis=1, dtype=np.float64)
        return np.zeros(self.n_models)

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    def tilted(self, shift: np.ndarray) -> tuple[Self, np.ndarray]:
        """Models with weights times ``exp(shift' x)``."""
        other, _ = super().tilted(shift)
        return other, self.offset - other.offset

    @property
    def has_zeros(self) -> bool:
        """Whether there are entries of -inf, ORs or ANDs."""
        logic = len(self.ors.outputs) + len(self.ands.outputs) > 0
        return logic or bool((self.log_potentials == -np.inf).any())

    def scaled(self, beta: float) -> Self:
        """Return the same fields with all log-potentials times `beta`; see the base.

        Entries of -inf, ORs and ANDs stay as they are.
        """
        flat = self.log_potentials
        scaled = np.where(flat == -np.inf, flat, np.nan_to_num(flat) * self.dtype.type(beta))
        return self.with_log_potentials(scaled.astype(self.dtype))

    @property
    def is_pairwise(self) -> bool:
        """Whether there are tables of one or two variables only, no OR and no AND."""
        logic = len(self.ors.outputs) + len(self.ands.outputs)
        return not logic and all(group.variables.shape[1] <= 2 for group in self.tables)

    # ----------------------------------------------------- weights of states

    def _factor_scores(self, states):
        """Return the score (K,) that the factors give to states (K, n)."""
        bits = np.asarray(states).astype(bool)
        total = np.zeros(len(bits))
        for group in self.tables:
            where = np.arange(len(group.variables))
            table = group.log_potentials.astype(np.float64, copy=False)
            for rows in row_chunks(len(bits), max(1, BLOCK_ENTRIES // len(where))):
                total[rows] += table[where, _codes(bits[rows], group.variables)].sum(axis=1)
        for group, reduce in ((self.ors, np.logical_or), (self.ands, np.logical_and)):
            if len(group.outputs) == 0:
                continue
            for rows in row_chunks(len(bits), max(1, BLOCK_ENTRIES // len(group.inputs))):
                output = reduce.reduceat(bits[rows][:, group.inputs], group.start[:-1], axis=1)
                wrong = (output != bits[rows][:, group.outputs]).any(axis=1)
                total[rows][wrong] = -np.inf
        return total

    def _score(self, states):
        linear = (np.asarray(states, np.float64) * self.field).sum(axis=1)
        return linear + self.offset + self._factor_scores(states)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Score of states (N, n), one per model; there are no hidden variables to sum out."""
        return self.score(visible)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Score (N, K), float64, of each of K states (K, n) under each of N models."""
        sets = np.asarray(visible_sets, np.float64)
        scores = self.field.astype(np.float64) @ sets.T + self.offset[:, None]
        return self._without_contradictions(scores + self._factor_scores(sets), sets)

    # ----------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Index arrays of variables that share no factor."""
        return self.graph.blocks

    def _conditional_log_odds(self, states, block):
        """Log-odds of variables given all others.

        Where neither value is possible given the others, the one that fewer factors forbid
        is the more probable.
        """
        n, n_chains, width = states.shape
        bits = np.asarray(states).reshape(n * n_chains, width).astype(bool)
        variables = np.arange(width)[block]
        edges = self.graph.edges_of(variables)
        total = np.zeros((4, len(bits), len(variables)))  # finite parts and zeros, off and on
        for group, finite, block in zip(self.tables, self._finite, edges, strict=False):
            code = _codes(bits, block.scopes) & ~block.bit
            if finite:
                score = group.log_potentials[block.factor, code | block.bit]
                score = score - group.log_potentials[block.factor, code]
                _add_edges(total[1], score, block)
                continue
            for value in (0, 1):
                score = group.log_potentials[block.factor, code | block.bit * value]
                score = score.astype(np.float64)
                zero = score == -np.inf
                if zero.any():
                    score[zero] = 0
                    _add_edges(total[2 + value], zero, block)
                _add_edges(total[value], score, block)
        for group, negated, block in (
            (self.ors, False, edges[-2]),
            (self.ands, True, edges[-1]),
        ):
            if len(block.edge):
                # AND is OR of all variables negated.
                zeros = _or_zeros(group, bits != negated, block.edge)
                for value in (0, 1):
                    _add_edges(total[2 + value], zeros[value != negated], block)
        off, on, zeros_off, zeros_on = total
        log_odds = np.repeat(self.field[:, variables].astype(np.float64), n_chains, axis=0)
        log_odds += on - off
        if all(self._finite) and not len(edges[-2].edge) and not len(edges[-1].edge):
            return log_odds.reshape(n, n_chains, len(variables))
        neither = (zeros_off > 0) & (zeros_on > 0)
        log_odds += np.where(neither, FORBIDDEN_LOG_ODDS * (zeros_off - zeros_on), 0.0)
        log_odds[(zeros_on > 0) & ~neither] = -np.inf
        log_odds[(zeros_off > 0) & ~neither] = np.inf
        return log_odds.reshape(n, n_chains, len(variables))

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Log-odds of each variable given all others, (N, n)."""
        states = np.asarray(visible)[:, None]
        return self.conditional_log_odds(states, slice(0, self.n_variables))[:, 0].astype(
            self.dtype
        )

    # ------------------------------------------------- sufficient statistics

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """((n_entries,),), the probability of every entry of the tables."""
        return ((self.n_entries,),)

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """((n_entries,),): weighted sums of the probabilities of all entries."""
        means = np.asarray(means)
        flat = np.zeros(self.n_entries)
        certain = ((means == 0) | (means == 1)).all()
        for group in self.tables:
            n_factors, k = group.variables.shape
            size = 2**k
            total = np.zeros((n_factors, size))
            for rows in row_chunks(len(means), max(1, BLOCK_ENTRIES // (n_factors * size))):
                here = np.asarray(weight[rows], np.float64)
                if certain:
                    codes = _codes(means[rows].astype(bool), group.variables)
                    codes += np.arange(n_factors) * size
                    every = np.repeat(here, n_factors)
                    total += np.bincount(codes.ravel(), every, total.size).reshape(total.shape)
                else:
                    total += np.tensordot(here, _products(means[rows], group.variables), 1)
            flat[group.entries[:, None] + np.arange(size)] = total
        return (flat.astype(self.dtype),)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Score of a model's moments, which an OR or AND must allow."""
        (entries,) = statistics
        there = entries > 0  # weight 0 where there is nothing costs nothing
        score = self.log_potentials[there].astype(np.float64) @ entries[there]
        return float(score + self.field[0].astype(np.float64) @ means + self.offset[0])

    def statistics(self, states, sample_weight=None):
        """Weighted mean frequencies (n_entries,) of all entries, of 0/1 states (K, n).

        The one array itself, as `InferenceResult.pairwise`, not a tuple.
        """
        return super().statistics(states, sample_weight)[0]


def _as_factors(factors):
    kinds = (TableFactors, OrFactors, AndFactors)
    if isinstance(factors, kinds):
        factors = (factors,)
    try:
        factors = tuple(factors)
    except TypeError:
        factors = (factors,)
    wrong = [part for part in factors if not isinstance(part, kinds)]
    if wrong:
        raise ValueError(
            "factors must be a sequence of TableFactors, OrFactors or AndFactors; got "
            f"{type(wrong[0]).__name__} among them (from_tables takes lists of scopes and tables)"
        )
    return factors


def _n_variables(factors, field, n_variables):
    """Return how many variables there are, and check that no factor names others."""
    named = -1
    for part in factors:
        if isinstance(part, TableFactors):
            named = max(named, part.variables.max(initial=-1))
        else:
            named = max(named, part.inputs.max(initial=-1), part.outputs.max(initial=-1))
    width, source = named + 1, "the factors"
    if n_variables is not None:
        if not isinstance(n_variables, Integral) or isinstance(n_variables, bool):
            raise ValueError(f"n_variables must be an int, got {n_variables!r}")
        width, source = int(n_variables), "n_variables"
    elif field is not None and np.ndim(field) in (1, 2):
        width, source = np.shape(field)[-1], "the columns of field"
    if named >= width:
        raise ValueError(
            f"factors name variable {named}; by {source} they are numbered from 0 to {width - 1}"
        )
    return int(width)


def _codes(bits, variables):
    """Return where in tables of (F, k) variables states (K, n) of bool are, (K, F)."""
    code = np.zeros((len(bits), len(variables)), np.int64)
    for column in variables.T:
        code *= 2
        code += bits[:, column]
    return code


def _products(means, variables):
    """Probability (K, F, 2**k) of all entries, of independent variables of means (K, n)."""
    found = np.ones((len(means), len(variables), 1))
    for column in variables.T:
        on = means[:, column, None].astype(np.float64)
        found = np.stack([found * (1 - on), found * on], axis=-1)
        found = found.reshape(len(means), len(variables), -1)
    return found


def _add_edges(total, values, block):
    """Add values (K, M) of the edges of a block to the total (K, B) of its variables."""
    if len(block.first):
        total[:, block.where] += np.add.reduceat(values.astype(np.float64), block.first, axis=1)


def _or_zeros(group, bits, edge):
    """Whether an OR has weight 0 with the variable of an edge off, and on: two (K, M) of bool."""
    is_input = edge < len(group.inputs)
    n_inputs = len(group.inputs)
    of_input = np.repeat(np.arange(len(group.outputs)), np.diff(group.start))
    factor = np.where(is_input, np.append(of_input, 0)[np.minimum(edge, n_inputs)], edge - n_inputs)
    count = np.add.reduceat(bits[:, group.inputs].astype(np.int64), group.start[:-1], axis=1)
    count = count[:, factor]
    own = bits[:, group.inputs[np.minimum(edge, n_inputs - 1)]]
    others = (count - (own & is_input)) > 0  # some input other than this one
    output = bits[:, group.outputs[factor]]
    return (
        np.where(is_input, output != others, others),
        np.where(is_input, ~output, ~others),
    )
