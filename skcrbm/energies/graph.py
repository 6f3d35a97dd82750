"""Markov random fields over variables with any number of states, with table, OR and AND factors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from skcrbm.energies._conversions import (
    as_clauses,
    as_costs,
    as_network,
    factors_of_clauses,
    factors_of_network,
    graph_of_pairs,
    pair_tables,
)
from skcrbm.energies._factor_graph_structure import (
    FactorGraph,
    LogicGroup,
    codes_of,
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
    has_axis_of_states,
    logic_table,
)
from skcrbm.energies.base import BaseEnergy, Block, checked_beta
from skcrbm.energies.graph_conditionals import binary_log_odds, state_log_weights
from skcrbm.energies.states import (
    checked_means,
    checked_states,
    log_odds_of_weights,
    unchecked,
    unmasked,
)
from skcrbm.formats.constraints import read_cnf, read_wcsp, write_cnf, write_wcsp
from skcrbm.formats.evidence import read_uai_evidence, read_uai_query, read_uai_solution
from skcrbm.formats.libdai import read_libdai, write_libdai
from skcrbm.formats.uai import read_network, write_uai
from skcrbm.utils.labels import table_by_row, with_new_labels
from skcrbm.utils.limits import (
    BLOCK_ENTRIES,
    MAX_ELIMINATED_ENTRIES,
    MAX_LOGIC_TABLE,
    UNDECIDED_FIELD,
)
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_real, as_row_fields, has_labels, kernel_array, own_array


class FactorGraphEnergy(BaseEnergy):
    """A batch of Markov random fields over discrete variables that share their factors.

    The score is ``-E_n(x) = sum_i f_n[i, x_i] + sum_a log phi_a(x_a)``, with table factors, OR
    factors and AND factors phi_a. An OR or AND factor has weight 1 if its output is correct,
    otherwise 0. The models share the factors and have different fields f_n. The states of a
    variable are integers from 0 to its number of states - 1.

    If all variables are 0/1 variables, the graph is *binary*: the field of a variable is a single
    number, which the score adds if the variable is 1, and arrays of marginals hold P(x_i = 1).
    Otherwise fields, marginals and log-odds have an additional axis of K states, where K is the
    largest number of states of a variable. For variables with fewer states, the remaining entries
    are 0 in fields and probabilities, and -inf in log-odds.

    Parameters
    ----------
    factors : sequence of TableFactors, OrFactors or AndFactors
        Factors that all models share. OR and AND factors need variables with two states.
    field : array-like (n,), (N, n), (n, K) or (N, n, K), default=None
        In a binary graph, the log-odds (n,) or (N, n) that are added to each variable, with a row
        per model. Otherwise the log-weights (n, K) or (N, n, K) of the states of each variable,
        with a matrix per model. If all variables have two states, a field with three axes selects
        arrays with an axis of states. None means a single model with fields of 0.
    n_variables : int, default=None
        Number of variables n. If None, it is the length of `n_states`, or follows from the shape of
        `field`, or is the largest index of a variable in the factors plus 1.
    n_states : int or array-like of int (n,), default=None
        Number of states of each variable. If None, it follows from the shapes of the tables. For
        variables without tables, it is then K, or two in a binary graph.

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
    field : ndarray (N, n) or (N, n, K)
        Fields of the models.
    binary : bool
        True if arrays have no axis of states, because all variables are 0/1 variables.
    n_states : ndarray of int64 (n,)
        Number of states of each variable.
    graph : FactorGraph
        Structure of the factors, without their log-potentials, shared by all derived energies.
    offset : ndarray (N,), float64
        Constant term of the score, which differs from 0 only if the energy was converted from
        another model.
    labels : tuple (n,) or None
        Labels of the variables: of the file that `from_fg` has read, or of a `field` with labels,
        whose order is the order of the variables. See `BaseEnergy`.
    n_models, n_variables, n_entries : int
        Number of models, of variables, and of entries of all tables.
    dtype : numpy dtype
        float32 if all inputs are float32, else float64.

    Raises
    ------
    ValueError
        If an array has the wrong shape or holds NaN or +inf, a factor has a variable that does not
        exist, or tables disagree about the number of states of a variable.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import FactorGraphEnergy, OrFactors, TableFactors
    >>> from skcrbm.inference import infer
    >>> like = TableFactors([[0, 1], [1, 2]], [1.0, 0.0, 0.0, 1.0])
    >>> energy = FactorGraphEnergy([like, OrFactors([[0, 2]], [3])], [0.5, 0.0, 0.0, 0.0])
    >>> infer(energy, "exact").marginals.round(3)
    array([[0.622, 0.557, 0.526, 0.771]])
    >>> colours = TableFactors([[0, 1], [1, 2]], np.eye(3))
    >>> FactorGraphEnergy([colours], np.zeros((3, 3))).score([[2, 2, 0]])
    array([1.])
    """

    _saved = ("graph", "field", "log_potentials", "tables", "_finite")

    #: Constant term of the score that all models share. The attribute `offset` includes this term.
    constant: float = 0.0
    _constants = ("constant",)
    # True if the fields of a binary graph multiply ``x - 1/2`` instead of x.
    _centred = False

    def __init__(
        self,
        factors: Factors | Sequence[Factors],
        field: ArrayLike | None = None,
        *,
        n_variables: int | None = None,
        n_states: ArrayLike | None = None,
    ):
        parts = as_factors(factors)
        labels = None
        if has_labels(n_states):
            n_states, labels = with_new_labels(n_states, "n_states")
        if hasattr(field, "columns") and has_axis_of_states(parts, field, n_states):
            field, self.labels = table_by_row(field, "field", labels)
        elif has_labels(field):
            field, self.labels = with_new_labels(field, "field", labels)
        else:
            self.labels = labels
        field = None if field is None else as_real(field, "field", "(n,) or (N, n), or with states")
        try:
            np.asarray(n_states)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"n_states must be an int for each variable: {error}") from error
        by_state = has_axis_of_states(parts, field, n_states)
        width = count_variables(parts, field, n_variables, n_states, by_state)
        self.graph = FactorGraph(parts, count_states(parts, width, n_states, field))
        dtypes = [p.log_potentials.dtype for p in parts if isinstance(p, TableFactors)]
        found = self._checked_field(
            field, np.result_type(*dtypes or [np.dtype(np.float64)]), by_state
        )
        dtype = np.result_type(found, *dtypes)
        self.field = own_array(found, dtype)
        flat = [p.log_potentials.reshape(-1) for p in parts if isinstance(p, TableFactors)]
        self._set_log_potentials(np.concatenate([np.empty(0, dtype), *flat]).astype(dtype))

    def _checked_field(self, field: Any, dtype: Any, by_state: bool) -> np.ndarray:
        """Validate `field` and return it as an array. If it is None, return zeros of `dtype`."""
        n, n_levels = self.graph.n_variables, self.n_levels
        if field is None:
            return np.zeros((1, n, n_levels) if by_state else (1, n), dtype)
        if not by_state:
            return as_row_fields(field, "field", n, "n")
        shape = f"({n}, {n_levels}) or (N, {n}, {n_levels})"
        values = as_real(field, "field", shape)
        if values.shape == (n, n_levels):
            values = values[None]
        if n == 0 and values.ndim == 3 and values.shape[1] == 0:
            values = values[..., :n_levels]
        if values.ndim != 3 or values.shape[1:] != (n, n_levels):
            raise ValueError(
                f"field must have shape {shape}, a number for each state of each variable; got "
                f"{values.shape}"
            )
        values = np.where(self._has_state, values, 0)
        if not np.isfinite(values).all():
            raise ValueError(
                "field must be finite; to forbid a state, add a table of one variable with -inf"
            )
        return values

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

        Scores and log Z do not change. There is a table for each edge of an `IsingEnergy`, or
        for each nonzero coupling of an RBM.

        Parameters
        ----------
        energy : RBMEnergy or IsingEnergy
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
        other = cls.__new__(cls)
        other.graph = graph_of_pairs(parts.field.shape[1], parts.variables)
        other.field = kernel_array(parts.field, energy.dtype)
        other._set_log_potentials(kernel_array(parts.log_potentials.reshape(-1), energy.dtype))
        other._centred = parts.centred
        other.evidence, other.labels = energy.evidence, energy.labels
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
        return cls._from_network(read_network(text))

    @classmethod
    def from_fg(cls, text: str | os.PathLike) -> FactorGraphEnergy:
        """Read a model in the .fg format of libDAI.

        Variables are numbered in ascending order of their labels in the file, which become the
        attribute `labels`.

        Parameters
        ----------
        text : str or path
            Path of a file or the text itself, as in `from_uai`.

        Raises
        ------
        ValueError
            If the text is not in this format. The message shows the wrong word and its line.
        """
        network, labels = read_libdai(text)
        return cls._from_network(network)._copy_with(labels=tuple(labels.tolist()))

    @classmethod
    def from_wcsp(cls, text: str | os.PathLike) -> FactorGraphEnergy:
        """Read a weighted constraint problem in the .wcsp format.

        The score of a state is minus its cost. Costs of at least the upper bound in the first line
        of the file forbid an entry: its log-potential is -inf.

        Parameters
        ----------
        text : str or path
            Path of a file or the text itself, as in `from_uai`.

        Raises
        ------
        ValueError
            If the text is not in this format, or contains a global cost function (a keyword instead
            of tuples). The message shows the wrong word and its line.

        Examples
        --------
        >>> from skcrbm.energies import FactorGraphEnergy
        >>> energy = FactorGraphEnergy.from_wcsp("name 2 2 1 10  2 2  2 0 1 0 1  1 1 3")
        >>> energy.score([[1, 1]])
        array([-3.])
        """
        found = read_wcsp(text)
        n_states = found.n_states if len(found.n_states) else None
        return cls.from_tables(found.scopes, found.tables, n_states=n_states)

    @classmethod
    def from_cnf(cls, text: str | os.PathLike) -> FactorGraphEnergy:
        """Read clauses in the DIMACS format (.cnf), which give states a score of 0 or -inf.

        States that agree with all clauses have the score 0.

        Parameters
        ----------
        text : str or path
            Path of a file or the text itself, as in `from_uai`.

        Returns
        -------
        FactorGraphEnergy
            Energy over the variables of the file: variable v of the file has the index v - 1. A
            clause of at most six variables is a table. A longer clause becomes an OR of its
            positive literals and an AND of its negated literals, whose outputs are two further
            variables.

        Raises
        ------
        ValueError
            If the text is not in this format, or has a clause without literals. The message shows
            the wrong word and its line.

        Examples
        --------
        >>> from skcrbm.energies import FactorGraphEnergy
        >>> energy = FactorGraphEnergy.from_cnf("p cnf 2 1  1 -2 0")
        >>> energy.score([[0, 1]]), energy.score([[1, 1]])
        (array([-inf]), array([0.]))
        """
        factors, n_variables = factors_of_clauses(read_cnf(text))
        return cls(factors, n_variables=n_variables)

    @classmethod
    def _from_network(cls, network):
        factors, constant = factors_of_network(network)
        # Without variables there is no number of states.
        energy = cls(factors, n_states=network.n_states if len(network.n_states) else None)
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
        return write_uai(as_network(self, self._checked_row(row)))

    def read_evidence(self, source: str | os.PathLike) -> np.ndarray:
        """Read the clamped variables of this network from a UAI evidence file.

        Parameters
        ----------
        source : str or path
            Path of a file, or the text itself, as for :func:`read_uai_evidence`.

        Returns
        -------
        ndarray (n_samples, n)
            States of clamped variables, and NaN for free variables, for the argument `clamp` of
            `infer`.

        Raises
        ------
        ValueError
            If the text is not in the format, or a variable or a state does not exist.
        """
        return read_uai_evidence(source, self.n_states)

    def read_query(self, source: str | os.PathLike) -> np.ndarray:
        """Read the query variables of a marginal MAP problem of this network from a UAI query file.

        Parameters
        ----------
        source : str or path
            Path of a file, or the text itself, as for :func:`read_uai_query`.

        Returns
        -------
        ndarray of int64 (n_query,)
            Query variables, for the option `map_variables` of `Exact`.

        Raises
        ------
        ValueError
            If the text is not in the format, or a variable does not exist.
        """
        return read_uai_query(source, self.n_states)

    def read_solution(self, source: str | os.PathLike) -> tuple[str, Any]:
        """Read a solution of this network in the result format of the UAI competitions.

        Parameters
        ----------
        source : str or path
            Path of a file, or the text itself, as for :func:`read_uai_solution`.

        Returns
        -------
        task : {"PR", "MAR", "MAP", "MPE", "MMAP"}
            Task in the file.
        value : ndarray or list of ndarray
            Solution, in the form that :func:`read_uai_solution` returns.

        Raises
        ------
        ValueError
            If the text is not in the format, or does not fit the network.
        """
        return read_uai_solution(source, self.n_states)

    def to_fg(self, row: int = 0) -> str:
        """Return a model as text in the .fg format of libDAI.

        Parameters
        ----------
        row : int, default=0
            Index of the model in the batch.

        Returns
        -------
        str
            Text with the tables of `to_uai`. Variables have the `labels` of the model if these are
            integers, otherwise their indices. A variable without a table has a table of ones.

        Raises
        ------
        ValueError
            As in `to_uai`.
        """
        labels = None
        if self.labels is not None and all(isinstance(v, Integral) for v in self.labels):
            labels = np.array(self.labels, np.int64)
        return write_libdai(as_network(self, self._checked_row(row)), labels)

    def to_wcsp(self, row: int = 0, scale: float | None = None) -> str:
        """Return a model as text in the .wcsp format of weighted constraint problems.

        The cost of a state is minus `scale` times its score. Costs are not negative: if a factor
        has positive log-potentials, a constant is added to all costs, so that the best states stay
        the same.

        Parameters
        ----------
        row : int, default=0
            Index of the model in the batch.
        scale : float, optional
            Factor by which the log-potentials are multiplied before they are rounded to integers.
            By default they must be integers, and they are written as they are.

        Returns
        -------
        str
            Text with the tables of `to_uai`. Entries of weight 0 have the upper bound of the cost.

        Raises
        ------
        ValueError
            If the row does not exist, a log-potential is no integer and `scale` is not given, the
            costs add up to 2^53 or more, or an OR or AND factor has more than 15 inputs.

        Examples
        --------
        >>> from skcrbm.energies import FactorGraphEnergy
        >>> energy = FactorGraphEnergy.from_tables([[0, 1]], [[[0.0, -2.5], [-2.5, 0.0]]])
        >>> print(energy.to_wcsp(scale=10))
        skcrbm 2 2 1 26
        2 2
        2 0 1 0 2
        0 1 25
        1 0 25
        <BLANKLINE>
        """
        if scale is not None and not (isinstance(scale, Real) and 0 < scale < np.inf):
            raise ValueError(f"scale must be a positive number or None, got {scale!r}")
        return write_wcsp(as_costs(self, self._checked_row(row), scale))

    def to_cnf(self, row: int = 0) -> str:
        """Return a model of hard constraints as text in the DIMACS format (.cnf).

        Each entry of weight 0 of a table becomes a clause, and so does the value of a clamped
        variable. An OR or AND factor becomes a clause over all its variables, and a clause of two
        literals for each input. `from_cnf` reads the same possible states; it adds two variables
        for each clause of more than six literals.

        Parameters
        ----------
        row : int, default=0
            Index of the model in the batch.

        Raises
        ------
        ValueError
            If the row does not exist, a variable has more than two states, or a field, constant or
            log-potential is neither 0 nor -inf.

        Examples
        --------
        >>> from skcrbm.energies import FactorGraphEnergy
        >>> print(FactorGraphEnergy.from_cnf("p cnf 2 1  1 -2 0").to_cnf())
        p cnf 2 1
        1 -2 0
        <BLANKLINE>
        """
        return write_cnf(as_clauses(self, self._checked_row(row)))

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
        flat = as_real(flat, "flat", f"(..., {self.n_entries})")
        if flat.ndim == 0 or flat.shape[-1] != self.n_entries:
            raise ValueError(f"flat must have shape (..., {self.n_entries}), got {flat.shape}")
        return tuple(
            flat[..., where].reshape(*flat.shape[:-1], len(part), *part.shape)
            for part, where in self.graph.groups
            if isinstance(part, TableFactors)
        )

    # ------------------------------------------------------------------ shape

    @property
    def binary(self) -> bool:
        """True if arrays have no axis of states, because all variables are 0/1 variables."""
        return self.field.ndim == 2

    def with_states(self) -> Self:
        """Return the model with an axis of states in all arrays; the energy itself if it has one.

        The field f of a 0/1 variable becomes the log-weights (0, f) of its states. If the fields
        multiply -1/+1 variables, the log-weights are (-f/2, f/2). The evidence does not change.
        """
        if not self.binary:
            return self
        low = -self.field / 2 if self._centred else np.zeros_like(self.field)
        field = np.stack([low, low + self.field], axis=2)
        return self._copy_with(field=kernel_array(field, self.dtype), _centred=False)

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `field`."""
        return (self.field,)

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Tuple with the log-potentials of each group in `tables`."""
        return tuple(group.log_potentials for group in self.tables)

    @property
    def n_states(self) -> np.ndarray:
        """Number of states (n,) of each variable."""
        return self.graph.n_states

    @property
    def state_counts(self) -> np.ndarray:
        """Number of states (n,) of each variable."""
        return self.graph.n_states

    @property
    def n_levels(self) -> int:
        """Largest number of states K of a variable."""
        return int(self.graph.n_states.max(initial=1))

    @property
    def _has_state(self) -> np.ndarray:
        """Bool array (n, K), True for the states that exist for each variable."""
        return np.arange(self.n_levels) < self.graph.n_states[:, None]

    @property
    def state_dtype(self) -> np.dtype:
        """Dtype of the states: int8, or int32 if a variable has more than 128 states."""
        return np.dtype(np.int8 if self.n_levels <= 128 else np.int32)

    @property
    def belief_shape(self) -> tuple[int, ...]:
        """Shape of marginals and log-odds: (N, n) in a binary graph, otherwise (N, n, K)."""
        shape = self.n_models, self.n_variables
        return shape if self.binary else (*shape, self.n_levels)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the fields (N, n), and a bound (n,) on the influence of factors on each variable.

        The bound is infinite for a variable of a factor that has an entry of weight 0. It is
        infinite for all variables if arrays have an axis of states, because `infer` clamps only
        0/1 variables with very large fields.
        """
        if not self.binary:
            return super().own_log_odds()
        influence = np.zeros(self.n_variables)
        for group in self.tables:
            logs = group.log_potentials.astype(np.float64)
            low, high = logs.min(axis=1, initial=np.inf), logs.max(axis=1, initial=-np.inf)
            spread = np.broadcast_to(high - low, len(group.variables))
            np.add.at(influence, group.variables, spread[:, None])
        for logic in (self.ors, self.ands):
            influence[logic.inputs] = influence[logic.outputs] = np.inf
        return self.field.astype(np.float64), influence

    def dominant_fields(self) -> np.ndarray:
        """Return a mask (N, n) of very large fields whose variables have factors with zeros.

        It is False for all variables if arrays have an axis of states.
        """
        if not self.binary:
            return super().dominant_fields()
        return np.isinf(self.own_log_odds()[1]) & (np.abs(self.field) > UNDECIDED_FIELD)

    @property
    def n_variables(self) -> int:
        """Number of variables n."""
        return self.graph.n_variables

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
        """Return the log-weights (N, n, K) of all states, float64; -inf for impossible states.

        A state is impossible if it does not exist for the variable or contradicts the evidence.
        """
        field = self.field.astype(np.float64)
        if self.binary:
            found = np.stack([np.zeros_like(field), field], axis=2)
        else:
            found = np.where(self._has_state, field, -np.inf)
        if self.evidence is not None:
            found[np.abs(self.evidence[..., None] - np.arange(found.shape[2])) > 0] = -np.inf
        return found

    def logic_tables(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return a pair for each OR and AND factor: its scope, and its log-potentials as a table.

        The table has the shape (2, ..., 2), with an axis for each variable of the scope.

        A ValueError is raised if a table would have more than `MAX_LOGIC_TABLE` entries.
        """
        found = []
        for group, kind in ((self.ors, "or"), (self.ands, "and")):
            for f, output in enumerate(group.outputs):
                inputs = group.inputs[group.start[f] : group.start[f + 1]]
                if 2 ** (len(inputs) + 1) > MAX_LOGIC_TABLE:
                    raise ValueError(
                        f"factors has an OR or AND of {len(inputs)} inputs. Because some variables "
                        "have more than two states, or a table has more than six variables, it "
                        f"must be converted to a table of 2^{len(inputs) + 1} entries; the limit "
                        f"is {MAX_LOGIC_TABLE} entries"
                    )
                with np.errstate(divide="ignore"):
                    logs = np.log(logic_table(len(inputs), kind))
                found.append((np.append(inputs, output), logs.reshape((2,) * (len(inputs) + 1))))
        return found

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    def tilted(self, shift: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the energy whose weight of a state x is multiplied by ``exp(shift' x)``."""
        other, _ = super().tilted(shift)
        return other, self.offset - other.offset

    @property
    def _has_logic(self) -> bool:
        return len(self.ors.outputs) + len(self.ands.outputs) > 0

    @property
    def has_zeros(self) -> bool:
        """True if there are log-potentials of -inf, OR factors or AND factors."""
        return self._has_logic or bool((self.log_potentials == -np.inf).any())

    def scaled(self, beta: float) -> Self:
        """Return the energy with all log-potentials multiplied by `beta`.

        Fields, log-potentials of -inf, and OR and AND factors do not change.
        """
        flat = self.log_potentials
        scaled = np.multiply(
            flat, self.dtype.type(checked_beta(beta)), out=flat.copy(), where=flat > -np.inf
        )
        return self.with_log_potentials(scaled)

    @property
    def is_pairwise(self) -> bool:
        """True if the graph is binary, and all factors are tables of one or two variables."""
        small = all(group.variables.shape[1] <= 2 for group in self.tables)
        return self.binary and small and not self._has_logic

    # ------------------------------------------------------------- given states

    def held_log_odds(self, values: np.ndarray) -> np.ndarray:
        """Return the log-odds (M,) or (M, K), inf or -inf, of M variables clamped to `values`.

        If arrays have an axis of states, the state to which a variable is clamped has the log-odds
        inf, and its other states have -inf.
        """
        if self.binary:
            return super().held_log_odds(values)
        return np.where(np.arange(self.n_levels) == values[:, None], np.inf, -np.inf)

    def _check_values(self, evidence):
        if self.binary:
            super()._check_values(evidence)
            return
        with np.errstate(invalid="ignore"):
            wrong = (evidence < 0) | (evidence >= self.n_states) | (evidence != np.floor(evidence))
        wrong &= ~np.isnan(evidence)
        if wrong.any():
            v = int(np.argwhere(wrong)[0][-1])
            raise ValueError(
                f"clamp must hold states of the variables, such as 0 to {self.n_states[v] - 1} for "
                f"variable {v}, or NaN for free variables; got {evidence[wrong].flat[0]:g}"
            )

    def _checked_states(self, states: Any, name: str) -> np.ndarray:
        """Return states (..., n) as an array, or raise a ValueError if a value is not a state."""
        if self.binary:
            return checked_states(states, name)
        array = unmasked(states, name)
        if array.shape[-1:] != self.n_states.shape:
            return array  # the shape is checked next
        real = array.dtype.kind in "biuf"
        if not real or not ((array >= 0) & (array < self.n_states) & (array == array // 1)).all():
            raise ValueError(
                f"{name} must hold states of {self.n_variables} variables, integers from 0 to the "
                "number of states of a variable minus 1 (see n_states)"
            )
        return array

    def _checked_means(self, means: Any, name: str) -> np.ndarray:
        """Validate states (S, n), or probabilities (S, n) or (S, n, K), and return an array."""
        if self.binary:
            return checked_means(means, name)
        array = unmasked(means, name)
        if array.ndim != 3:
            return self._checked_states(array, name)
        if array.shape[2] != self.n_levels:
            raise ValueError(
                f"{name} must have shape (K, {self.n_variables}, {self.n_levels}), with a "
                f"probability of each state; got {array.shape}"
            )
        real = array.dtype.kind in "biuf"
        if not real or (array.size and not (array.min() >= -1e-6 and array.max() <= 1 + 1e-6)):
            raise ValueError(f"{name} must hold probabilities of the states, from 0 to 1")
        return array

    # ----------------------------------------------------- weights of states

    def _factor_scores(self, states):
        """Return the sum (S,) of the log-potentials of all factors, for each of S states (S, n)."""
        states = np.asarray(states).astype(self.state_dtype)
        total = np.zeros(len(states))
        for group in self.tables:
            where = np.arange(len(group.variables))
            table = group.log_potentials.astype(np.float64, copy=False)
            for rows in row_chunks(len(states), max(1, BLOCK_ENTRIES // len(where))):
                code = codes_of(states[rows], group.variables, group.shape)
                total[rows] += table[where, code].sum(axis=1)
        for group, reduce in ((self.ors, np.logical_or), (self.ands, np.logical_and)):
            if len(group.outputs) == 0:
                continue
            for rows in row_chunks(len(states), max(1, BLOCK_ENTRIES // len(group.inputs))):
                inputs = states[rows][:, group.inputs].astype(bool)
                output = reduce.reduceat(inputs, group.start[:-1], axis=1)
                wrong = (output != states[rows][:, group.outputs]).any(axis=1)
                total[rows][wrong] = -np.inf
        return total

    def _score(self, states):
        states = np.asarray(states)
        if self.binary:
            own = (states.astype(np.float64) * self.field).sum(axis=1)
        else:
            index = states.astype(np.int64)[..., None]
            own = np.take_along_axis(self.field, index, axis=2)[..., 0].sum(1, dtype=np.float64)
        return own + self.offset + self._factor_scores(states)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N,) of a state of each model; `visible` (N, n) holds the states."""
        return self.score(visible)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N, S), float64, of each of S states (S, n) under each of N models."""
        sets = np.asarray(visible_sets)
        if self.binary:
            sets = sets.astype(np.float64)
            scores = self.field.astype(np.float64) @ sets.T + self.offset[:, None]
            return self._without_contradictions(scores + self._factor_scores(sets), sets)
        sets = sets.astype(np.int64)
        fields, every = self.log_fields(), np.arange(self.n_variables)
        own = np.empty((self.n_models, len(sets)))
        for rows in row_chunks(len(sets), max(1, BLOCK_ENTRIES // max(1, fields[..., 0].size))):
            own[:, rows] = fields[:, every, sets[rows]].sum(axis=2)
        return own + self.offset[:, None] + self._factor_scores(sets)

    # ----------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Index arrays of blocks of variables; variables of the same block share no factor."""
        return self.graph.blocks

    def _conditional_log_odds(self, states, block):
        return binary_log_odds(self, self._finite, states, block)

    def conditional_log_odds(self, states: np.ndarray, block: Block) -> np.ndarray:
        """Return the log-odds of the variables of a block given all other variables.

        `states` (N, C, n) holds C states of each of N models. The result has the shape (N, C, size
        of the block) in a binary graph, otherwise (N, C, size of the block, K) with the log-odds of
        each state.

        If all states of a variable have weight 0 given the other variables, its possible states
        are treated as equally probable. In a binary graph, the state that fewer factors forbid then
        gets more probability.
        """
        if self.binary:
            return unchecked(super().conditional_log_odds)(states, block)
        variables = np.arange(self.n_variables)[block]
        allowed = self.log_fields()[:, variables] > -np.inf
        return log_odds_of_weights(state_log_weights(self, states, block), allowed[:, None])

    def draw(self, log_odds: np.ndarray, u: np.ndarray, block: Block) -> np.ndarray:
        """Draw states (N, C, size of the block) for the variables of a block.

        `log_odds` is the result of `conditional_log_odds`, and `u` holds a uniform random number
        for each variable.
        """
        if self.binary:
            return super().draw(log_odds, u, block)
        return self._drawn(expit(log_odds.astype(np.float64)), u)

    def _drawn(self, chance, u):
        """Draw states from the probabilities (..., K) of all states, and uniform numbers (...)."""
        edges = np.cumsum(chance, axis=-1)
        # Because of rounding, the drawn index may lie beyond the last state with a positive
        # probability. So the index is limited to this state.
        last = chance.shape[-1] - 1 - (chance[..., ::-1] > 0).argmax(axis=-1)
        found = (np.asarray(u)[..., None] * edges[..., -1:] >= edges).sum(axis=-1)
        return np.minimum(found, last).astype(self.state_dtype)

    def draw_independent(self, u: np.ndarray, beliefs: np.ndarray | None = None) -> np.ndarray:
        """Draw states (N or 1, C, n) of independent variables with marginals (N, n, K).

        If `beliefs` is None, all states of a variable are equally probable. The arrays need an axis
        of states; `independent_states` draws the variables of binary graphs.
        """
        chance = self._has_state if beliefs is None else np.where(self._has_state, beliefs, 0)
        return self._drawn(np.asarray(chance, np.float64)[..., None, :, :], u)

    def best_states(
        self, log_odds: np.ndarray, ties: np.ndarray | None = None, block: Block = slice(None)
    ) -> np.ndarray:
        """Return the most probable state of each variable of a block, (..., size of the block).

        `log_odds` (..., size of the block, K) has an entry for each state. If `ties` is given, it
        holds a preferred state for each variable. The preferred state is returned if no other state
        is more probable.
        """
        log_odds = np.where(self._has_state[block], log_odds, -np.inf)
        best = log_odds.argmax(axis=-1)
        if ties is not None:
            kept = np.take_along_axis(log_odds, ties[..., None].astype(np.int64), -1)[..., 0]
            best = np.where(kept == log_odds.max(axis=-1), ties, best)
        return best.astype(self.state_dtype)

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds (N, n) or (N, n, K) of each variable given all other variables."""
        states = np.asarray(visible)[:, None]
        found = self.conditional_log_odds(states, slice(0, self.n_variables))
        return found[:, 0].astype(self.dtype)

    def marginal_modes(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the most probable state (N, n) of each variable.

        In a tie, it is state 1 in a binary graph, otherwise the first of the states.
        """
        if self.binary:
            return super().marginal_modes(log_odds)
        return log_odds.argmax(axis=-1).astype(self.state_dtype)

    # ------------------------------------------------- sufficient statistics

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics: a single array with the probability of each table entry."""
        return ((self.n_entries,),)

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a tuple with a single array (n_entries,): weighted sums of entry probabilities.

        The sum runs over the rows of `means`: states (S, n), or the probabilities of independent
        variables, (S, n) in a binary graph and (S, n, K) otherwise. Each row adds its weight times
        the probability of the entry.
        """
        means = np.asarray(means)
        flat = np.zeros(self.n_entries)
        certain = means.ndim == 2 and bool((means == means // 1).all())
        if certain:
            means = means.astype(self.state_dtype)
        for group in self.tables:
            n_factors, size = group.log_potentials.shape
            total = np.zeros((n_factors, size))
            for rows in row_chunks(len(means), max(1, BLOCK_ENTRIES // (n_factors * size))):
                here = np.asarray(weight[rows], np.float64)
                if certain:
                    codes = codes_of(means[rows], group.variables, group.shape)
                    codes += np.arange(n_factors) * size
                    every = np.repeat(here, n_factors)
                    total += np.bincount(codes.ravel(), every, total.size).reshape(total.shape)
                else:
                    chances = means[rows].astype(np.float64)
                    if self.binary:
                        chances = np.stack([1 - chances, chances], axis=2)
                    products = products_of(chances, group.variables, group.shape)
                    total += np.tensordot(here, products, 1)
            flat[group.entries[:, None] + np.arange(size)] = total
        return (flat.astype(self.dtype),)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean score over states of positive weight, computed from their moments.

        `means` (n,) or (n, K) holds the marginals, and `statistics` the probability of each table
        entry.
        """
        (entries,) = statistics
        seen = entries > 0  # avoids 0 * -inf = NaN for entries of weight 0
        score = self.log_potentials[seen].astype(np.float64) @ entries[seen]
        own = self.field[0].astype(np.float64)
        return float(score + own.ravel() @ np.ravel(means) + self.offset[0])

    def statistics(self, states: np.ndarray, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Return the frequency (n_entries,) of each table entry in S weighted states (S, n).

        The result is a single array, as in `InferenceResult.pairwise`, instead of a tuple.
        """
        return super().statistics(states, sample_weight)[0]
