"""Markov random fields over 0/1 variables, with table, OR and AND factors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies._conversions import as_network, factors_of_network, pair_tables
from skcrbm.energies._factor_graph_structure import (
    FactorGraph,
    LogicGroup,
    add_edges,
    codes_of,
    or_zeros,
    products_of,
)
from skcrbm.energies._factors import (
    Factors,
    TableFactors,
    as_factors,
    as_log_potentials,
    count_states,
    count_variables,
    group_tables,
    has_categories,
)
from skcrbm.energies.base import BaseEnergy, Block
from skcrbm.formats.libdai import read_libdai
from skcrbm.formats.uai import read_uai, write_uai
from skcrbm.utils.limits import (
    BLOCK_ENTRIES,
    FORBIDDEN_LOG_ODDS,
    MAX_ELIMINATED_ENTRIES,
    UNDECIDED_FIELD,
)
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_row_fields, kernel_array


class FactorGraphEnergy(BaseEnergy):
    """A batch of Markov random fields over 0/1 variables that share their factors.

    The score is ``-E_n(x) = f_n' x + sum_a log phi_a(x_a)``, with table factors, OR factors and AND
    factors phi_a. An OR or AND factor has weight 1 if its output is correct, otherwise 0. The
    models share the factors and have different fields f_n.

    If `n_states` or the shape of a table gives a variable more or fewer than two states, the new
    object is a `CategoricalGraphEnergy`. States are then integers from 0, and fields and beliefs
    have an additional axis of states.

    Parameters
    ----------
    factors : sequence of TableFactors, OrFactors or AndFactors
        Factors that all models share.
    field : array-like (n,) or (N, n), default=None
        Fields, which are added to the log-odds of each variable, with a row per model. None means a
        single model with fields of 0.
    n_variables : int, default=None
        Number of variables n. If None, it is the number of columns of `field`, or without `field`
        the largest index of a variable in the factors plus 1.
    n_states : int or array-like of int (n,), default=None
        Number of states of each variable. If None, it follows from the shapes of the tables, and is
        two for variables without tables.

    Attributes
    ----------
    factors : tuple of TableFactors, OrFactors and AndFactors
        Given factors, with their current log-potentials.
    log_potentials : ndarray (n_entries,)
        Entries of all tables, in the order of the given factors. The entries of a table are in C
        order, so that the last variable of a scope changes fastest.
    tables : tuple of TableGroup
        Entries of all tables, grouped by their shape. A group has ``shape`` (k1, ..., km),
        ``variables`` (F, m), ``log_potentials`` (F, k1 * ... * km), and ``entries`` (F,), the
        position of the first entry of each table in the attribute `log_potentials`.
    ors, ands : LogicGroup
        All OR factors and all AND factors: ``start`` (F + 1,), ``inputs`` (start[F],),
        ``outputs`` (F,).
    field : ndarray (N, n)
        Fields of the models.
    graph : FactorGraph
        Structure of the factors, without their log-potentials, shared by all derived energies.
    offset : ndarray (N,), float64
        Constant term of the score, which differs from 0 only if the energy was converted from
        another model.
    n_models, n_variables, n_entries : int
        Number of models, of variables, and of entries of all tables.
    dtype : numpy dtype
        float32 if all inputs are float32, else float64.

    Raises
    ------
    ValueError
        If an array has the wrong shape or holds NaN or +inf, or a factor has a variable that does
        not exist.

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

    #: Constant term of the score that all models share. The attribute `offset` includes this term.
    constant: float = 0.0
    _constants = ("constant",)
    _centred = False
    _categorical = False

    def __new__(cls, factors=(), field=None, *, n_variables=None, n_states=None):
        """Create a `CategoricalGraphEnergy` if a variable has more or fewer than two states."""
        if cls is FactorGraphEnergy and has_categories(factors, field, n_states):
            from skcrbm.energies._categorical_graph import CategoricalGraphEnergy

            return object.__new__(CategoricalGraphEnergy)
        return super().__new__(cls)

    def __init__(
        self,
        factors: Factors | Sequence[Factors],
        field: ArrayLike | None = None,
        *,
        n_variables: int | None = None,
        n_states: ArrayLike | None = None,
    ):
        parts = as_factors(factors)
        width = count_variables(parts, field, n_variables, n_states, self._categorical)
        graph = FactorGraph(parts, count_states(parts, width, n_states, field))
        if not self._categorical and (graph.n_states != 2).any():
            raise ValueError(
                "factors must be a list or tuple if variables have more than two states; got "
                f"{type(factors).__name__}"
            )
        dtypes = [p.log_potentials.dtype for p in parts if isinstance(p, TableFactors)]
        self.graph = graph
        field = self._checked_field(field, np.result_type(*dtypes) if dtypes else np.float64)
        dtype = np.result_type(field, *dtypes)
        self.field = kernel_array(field, dtype)
        flat = [p.log_potentials.reshape(-1) for p in parts if isinstance(p, TableFactors)]
        self._set_log_potentials(np.concatenate([np.empty(0, dtype), *flat]).astype(dtype))

    def _checked_field(self, field: Any, dtype: Any) -> np.ndarray:
        """Validate `field` and return it as an array. If it is None, return zeros of `dtype`."""
        width = self.graph.n_variables
        if field is None:
            return np.zeros((1, width), dtype)
        return as_row_fields(field, "field", width, "n")

    def _set_log_potentials(self, flat: np.ndarray) -> None:
        self.log_potentials = flat
        self.tables = self.graph.tables(flat)
        self._finite = [bool((g.log_potentials > -np.inf).all()) for g in self.tables]

    # ---------------------------------------------------------- conversions

    @classmethod
    def from_tables(
        cls,
        scopes: Sequence[ArrayLike],
        log_potentials: Sequence[ArrayLike],
        field: ArrayLike | None = None,
        *,
        n_variables: int | None = None,
        n_states: ArrayLike | None = None,
    ) -> FactorGraphEnergy:
        """Create an energy from lists of tables with different shapes.

        Parameters
        ----------
        scopes : sequence of index arrays
            Variables of each table. An empty scope belongs to a constant.
        log_potentials : sequence of array-like (k1, ..., km)
            Table of each scope. The shape (2**m,) is accepted for variables with two states.
        field, n_variables, n_states
            See the constructor.

        Returns
        -------
        FactorGraphEnergy
            Energy with a `TableFactors` for each shape, sorted by the number of variables. Tables
            of the same shape keep their order. Tables with an empty scope are added up in the
            attribute `constant`.

        Raises
        ------
        ValueError
            If the constructor raises a ValueError, or the numbers of scopes and tables differ.
        """
        factors, constant = group_tables(scopes, log_potentials)
        energy = cls(factors, field, n_variables=n_variables, n_states=n_states)
        energy.constant = constant
        return energy

    @classmethod
    def from_energy(cls, energy: BaseEnergy) -> FactorGraphEnergy:
        """Convert a pairwise energy, including its evidence, to tables over pairs of variables.

        Scores and log Z do not change. There is a table for each edge of a `SparseIsingEnergy`, or
        for each nonzero coupling of another energy.

        Parameters
        ----------
        energy : RBMEnergy, IsingEnergy or SparseIsingEnergy
            Energy to convert.

        Returns
        -------
        FactorGraphEnergy
            Energy with the same variables. For an RBM, these are the visible units followed by the
            hidden units.

        Raises
        ------
        ValueError
            If the energy is of another class.
        """
        parts = pair_tables(energy)
        other = cls([TableFactors(parts.variables, parts.log_potentials)], parts.field)
        other._centred = parts.centred
        other.evidence = energy.evidence
        return other

    @classmethod
    def from_uai(cls, text: str | os.PathLike) -> FactorGraphEnergy:
        """Read a model in the format of the UAI competitions ("MARKOV" or "BAYES").

        Parameters
        ----------
        text : str or path
            Path of a file, or the text itself if no file has this name. Files compressed by gzip
            are decompressed.

        Returns
        -------
        FactorGraphEnergy
            Energy with its tables in the order of `from_tables`. A table of more than six 0/1
            variables becomes an OR or AND factor if its weight is 1 whenever the last variable is
            the OR or AND of the other variables, and 0 otherwise.

        Raises
        ------
        ValueError
            If the text is not in this format. The message shows the wrong word and its line.
        """
        return cls._from_network(read_uai(text))

    @classmethod
    def from_fg(cls, text: str | os.PathLike) -> FactorGraphEnergy:
        """Read a model in the .fg format of libDAI.

        Variables are numbered in ascending order of their labels in the file.

        Parameters
        ----------
        text : str or path
            Path of a file or the text itself, as in `from_uai`.

        Raises
        ------
        ValueError
            If the text is not in this format. The message shows the wrong word and its line.
        """
        return cls._from_network(read_libdai(text)[0])

    @classmethod
    def _from_network(cls, network):
        factors, constant = factors_of_network(network)
        energy = cls(factors, n_states=network.n_states)
        energy.constant = constant
        return energy

    def to_uai(self, row: int = 0) -> str:
        """Return a model as text in the format of the UAI competitions.

        Parameters
        ----------
        row : int, default=0
            Index of the model in the batch.

        Returns
        -------
        str
            Text with the factors as tables. Fields and evidence become tables of a single
            variable, and OR and AND factors become tables of zeros and ones.

        Raises
        ------
        ValueError
            If the row does not exist, a log-potential is so large that its exponential overflows,
            or an OR or AND factor has more than 15 inputs.
        """
        if not isinstance(row, Integral) or not -self.n_models <= int(row) < self.n_models:
            raise ValueError(f"row must be the index of one of {self.n_models} models: {row!r}")
        return write_uai(as_network(self, int(row)))

    @property
    def factors(self) -> tuple[Factors, ...]:
        """Tuple of the given factors, with their current log-potentials."""
        return tuple(
            TableFactors(part.variables, self.log_potentials[where].reshape(-1, *part.shape))
            if isinstance(part, TableFactors)
            else part
            for part, where in self.graph.groups
        )

    @property
    def ors(self) -> LogicGroup:
        """All OR factors: ``start`` (F + 1,), ``inputs`` and ``outputs`` (F,)."""
        return self.graph.ors

    @property
    def ands(self) -> LogicGroup:
        """All AND factors: ``start`` (F + 1,), ``inputs`` and ``outputs`` (F,)."""
        return self.graph.ands

    def with_log_potentials(self, log_potentials: ArrayLike) -> Self:
        """Return the energy with new log-potentials, and the same graph, fields and evidence.

        Parameters
        ----------
        log_potentials : array-like (n_entries,)
            Entries of all tables, in the order of the attribute `log_potentials`.

        Raises
        ------
        ValueError
            If the shape is wrong, or an entry is NaN or +inf.
        """
        flat = as_log_potentials(log_potentials, f"({self.n_entries},)")
        if flat.shape != (self.n_entries,):
            raise ValueError(
                f"log_potentials must have shape ({self.n_entries},), got {flat.shape}"
            )
        other = self._copy_with()
        other._set_log_potentials(np.array(flat, self.dtype))
        return other

    def unflatten(self, flat: ArrayLike) -> tuple[np.ndarray, ...]:
        """Split an array (..., n_entries), such as a gradient, into an array for each TableFactors.

        Returns
        -------
        tuple of ndarray (..., F, k1, ..., km)
            Arrays in the shapes of the tables, in the order of the given factors.

        Raises
        ------
        ValueError
            If the last axis does not have length n_entries.
        """
        flat = np.asarray(flat)
        if flat.ndim == 0 or flat.shape[-1] != self.n_entries:
            raise ValueError(f"flat must have shape (..., {self.n_entries}), got {flat.shape}")
        return tuple(
            flat[..., where].reshape(*flat.shape[:-1], len(part), *part.shape)
            for part, where in self.graph.groups
            if isinstance(part, TableFactors)
        )

    # ------------------------------------------------------------------ shape

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `field`."""
        return (self.field,)

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Tuple with the log-potentials of each group in `tables`."""
        return tuple(group.log_potentials for group in self.tables)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the fields (N, n), and a bound (n,) on the influence of factors on each variable.

        The bound is infinite for a variable of a factor that has an entry of weight 0.
        """
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
        """Return a mask (N, n) of very large fields whose variables have factors with zeros."""
        return np.isinf(self.own_log_odds()[1]) & (np.abs(self.field) > UNDECIDED_FIELD)

    @property
    def n_variables(self) -> int:
        """Number of variables n."""
        return self.field.shape[1]

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Return the number of variables of the largest table that variable elimination makes."""
        found = self.graph.elimination
        return found.width + 1 if found.complete else self.n_variables

    @property
    def max_enumerated(self) -> int:
        """Largest `n_enumerated` for which the method "exact" accepts a model by default."""
        return MAX_ELIMINATED_ENTRIES.bit_length() - 1

    @property
    def n_entries(self) -> int:
        """Number of entries of all tables."""
        return self.graph.n_entries

    @property
    def offset(self) -> np.ndarray:
        """Constant term (N,) of the score."""
        if self._centred:  # the fields multiply -1/+1 variables
            return self.constant - 0.5 * self.field.sum(axis=1, dtype=np.float64)
        return np.full(self.n_models, self.constant)

    def log_fields(self) -> np.ndarray:
        """Return the fields as log-weights (N, n, 2); -inf for values excluded by evidence."""
        field = self.field.astype(np.float64)
        found = np.stack([np.zeros_like(field), field], axis=2)
        if self.evidence is not None:
            found[np.abs(self.evidence[..., None] - np.arange(2)) > 0] = -np.inf
        return found

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    def tilted(self, shift: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the energy whose weight of a state x is multiplied by ``exp(shift' x)``."""
        other, _ = super().tilted(shift)
        return other, self.offset - other.offset

    @property
    def has_zeros(self) -> bool:
        """True if there are log-potentials of -inf, OR factors or AND factors."""
        logic = len(self.ors.outputs) + len(self.ands.outputs) > 0
        return logic or bool((self.log_potentials == -np.inf).any())

    def scaled(self, beta: float) -> Self:
        """Return the energy with all log-potentials multiplied by `beta`.

        Fields, log-potentials of -inf, and OR and AND factors do not change.
        """
        flat = self.log_potentials
        scaled = np.multiply(flat, self.dtype.type(beta), out=flat.copy(), where=flat > -np.inf)
        return self.with_log_potentials(scaled)

    @property
    def is_pairwise(self) -> bool:
        """True if all factors are tables of one or two variables."""
        logic = len(self.ors.outputs) + len(self.ands.outputs)
        return not logic and all(group.variables.shape[1] <= 2 for group in self.tables)

    # ----------------------------------------------------- weights of states

    def _factor_scores(self, states):
        """Return the sum (K,) of the log-potentials of all factors, for each of K states (K, n)."""
        bits = np.asarray(states).astype(bool)
        total = np.zeros(len(bits))
        for group in self.tables:
            where = np.arange(len(group.variables))
            table = group.log_potentials.astype(np.float64, copy=False)
            for rows in row_chunks(len(bits), max(1, BLOCK_ENTRIES // len(where))):
                total[rows] += table[where, codes_of(bits[rows], group.variables)].sum(axis=1)
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
        """Return the score (N,) of a state of each model; `visible` (N, n) holds the states."""
        return self.score(visible)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N, K), float64, of each of K states (K, n) under each of N models."""
        sets = np.asarray(visible_sets, np.float64)
        scores = self.field.astype(np.float64) @ sets.T + self.offset[:, None]
        return self._without_contradictions(scores + self._factor_scores(sets), sets)

    # ----------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Index arrays of blocks of variables; variables of the same block share no factor."""
        return self.graph.blocks

    def _conditional_log_odds(self, states, block):
        """Return the log-odds of the variables of a block given all other variables.

        If both values have weight 0, the value that fewer factors forbid gets more probability.
        """
        n, n_chains, width = states.shape
        bits = np.asarray(states).reshape(n * n_chains, width).astype(bool)
        variables = np.arange(width)[block]
        edges = self.graph.edges_of(variables)
        # total[0] and total[1] are the sums of the finite log-potentials if a variable is off, and
        # if it is on. total[2] and total[3] count the factors of weight 0 in these two cases.
        total = np.zeros((4, len(bits), len(variables)))
        for group, finite, block in zip(self.tables, self._finite, edges, strict=False):
            code = codes_of(bits, block.scopes) & ~block.bit
            if finite:
                score = group.log_potentials[block.factor, code | block.bit]
                score = score - group.log_potentials[block.factor, code]
                add_edges(total[1], score, block)
                continue
            for value in (0, 1):
                score = group.log_potentials[block.factor, code | block.bit * value]
                score = score.astype(np.float64)
                zero = score == -np.inf
                if zero.any():
                    score[zero] = 0
                    add_edges(total[2 + value], zero, block)
                add_edges(total[value], score, block)
        for group, negated, block in (
            (self.ors, False, edges[-2]),
            (self.ands, True, edges[-1]),
        ):
            if len(block.edge):
                # An AND is an OR after negating all variables.
                zeros = or_zeros(group, bits != negated, block.edge)
                for value in (0, 1):
                    add_edges(total[2 + value], zeros[value != negated], block)
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
        """Return the log-odds (N, n) of each variable given all other variables."""
        states = np.asarray(visible)[:, None]
        return self.conditional_log_odds(states, slice(0, self.n_variables))[:, 0].astype(
            self.dtype
        )

    # ------------------------------------------------- sufficient statistics

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics: a single array with the probability of each table entry."""
        return ((self.n_entries,),)

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a tuple with a single array (n_entries,): weighted sums of entry probabilities."""
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
                    codes = codes_of(means[rows].astype(bool), group.variables)
                    codes += np.arange(n_factors) * size
                    every = np.repeat(here, n_factors)
                    total += np.bincount(codes.ravel(), every, total.size).reshape(total.shape)
                else:
                    total += np.tensordot(here, products_of(means[rows], group.variables), 1)
            flat[group.entries[:, None] + np.arange(size)] = total
        return (flat.astype(self.dtype),)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean score over states of positive weight, computed from their moments."""
        (entries,) = statistics
        seen = entries > 0  # avoids 0 * -inf = NaN for entries of weight 0
        score = self.log_potentials[seen].astype(np.float64) @ entries[seen]
        return float(score + self.field[0].astype(np.float64) @ means + self.offset[0])

    def statistics(self, states: np.ndarray, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Return the frequency (n_entries,) of each table entry in K weighted 0/1 states (K, n).

        The result is a single array, as in `InferenceResult.pairwise`, instead of a tuple.
        """
        return super().statistics(states, sample_weight)[0]
