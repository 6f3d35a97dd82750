"""Factors of a factor graph: tables, and OR and AND of any number of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.utils.limits import MAX_TABLE_VARIABLES
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import as_real


def as_variables(array: ArrayLike, name: str, shape: str) -> np.ndarray:
    """Return numbers of variables as an int64 array with the rank of `shape`, a text.

    Raises
    ------
    ValueError
        If they are not whole numbers of at least 0, or have another rank.
    """
    try:
        given = np.asarray(array)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be integers of shape {shape}: {error}") from error
    if given.size == 0 and given.dtype.kind == "f":
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu" or given.ndim != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(
            f"{name} must be integers of shape {shape}, got {given.dtype} of shape {given.shape}"
        )
    if given.size and given.min() < 0:
        raise ValueError(f"{name} must be numbers of variables, at least 0; got {given.min()}")
    return given.astype(np.int64)


def as_log_potentials(array: ArrayLike, shape: str) -> np.ndarray:
    """Return log-potentials as floats, -inf allowed.

    Raises
    ------
    ValueError
        If a number is not real, or is NaN or +inf.
    """
    values = as_real(array, "log_potentials", shape)
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError(
            "log_potentials must be finite, or -inf for a weight of 0; they contain NaN or +inf"
        )
    return values


def logic_table(n_inputs: int, kind: str) -> np.ndarray:
    """Return the weights (2^(n_inputs + 1),) of an OR or AND; the output is the fastest digit."""
    number = np.arange(2**n_inputs)
    output = number > 0 if kind == "or" else number == 2**n_inputs - 1
    return np.column_stack([~output, output]).astype(float).reshape(-1)


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy in C order."""
    array = np.array(array, order="C")
    array.flags.writeable = False
    return array


class TableFactors(Versioned):
    """Factors that are tables over k variables each, where k is 1 to 6.

    Parameters
    ----------
    variables : array-like of int (F, k)
        Scope of each factor; a variable occurs in a scope at most once.
    log_potentials : array-like (F, 2**k), (F, 2, ..., 2), or (2**k,)
        Log-weights of the states of a scope. The first variable is the slowest digit of a
        state's number (C order). All factors share a single table of shape (2**k,) or
        (2, ..., 2). -inf is a weight of 0.

    Attributes
    ----------
    variables : ndarray of int64 (F, k), read-only
        Scope of each factor.
    log_potentials : ndarray (F, 2**k), read-only
        Log-weights, float32 if given as float32, else float64.

    Raises
    ------
    ValueError
        If a scope has no variable, more than six, or the same variable twice, or if the tables
        have another size or hold NaN or +inf.

    Examples
    --------
    >>> from skcrbm.energies import FactorGraphEnergy, TableFactors
    >>> equal = TableFactors([[0, 1], [1, 2]], [1.0, 0.0, 0.0, 1.0])
    >>> FactorGraphEnergy([equal]).score([[1, 1, 0]])
    array([1.])
    """

    _warns_of_version = False

    _saved = ("variables", "log_potentials")

    def __init__(self, variables: ArrayLike, log_potentials: ArrayLike):
        scopes = as_variables(variables, "variables", "(F, k)")
        n_factors, k = scopes.shape
        if not 1 <= k <= MAX_TABLE_VARIABLES:
            raise ValueError(
                f"variables must have 1 to {MAX_TABLE_VARIABLES} columns, as a table takes 2^k "
                f"numbers; got {k}"
            )
        in_order = np.sort(scopes, axis=1)
        twice = np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))
        if len(twice):
            raise ValueError(
                "variables must name each variable once in a scope; scope "
                f"{twice[0]} is {scopes[twice[0]].tolist()}"
            )
        shape = f"({n_factors}, {2**k}), ({n_factors}, {', '.join('2' * k)}) or ({2**k},)"
        tables = as_log_potentials(log_potentials, shape)
        if tables.shape in ((2**k,), (2,) * k):
            tables = np.broadcast_to(tables.reshape(1, 2**k), (n_factors, 2**k))
        elif tables.shape not in ((n_factors, 2**k), (n_factors, *(2,) * k)):
            raise ValueError(f"log_potentials must have shape {shape}, got {tables.shape}")
        self.variables = _read_only(scopes)
        self.log_potentials = _read_only(tables.reshape(n_factors, 2**k))

    def __len__(self):
        return len(self.variables)

    def __repr__(self):
        return f"TableFactors({len(self)} tables of {self.variables.shape[1]} variables)"


class _LogicFactors(Versioned):
    """Factors of weight 1 if the output is the function of the inputs, else 0."""

    _warns_of_version = False

    _saved = ("start", "inputs", "outputs")

    def __init__(self, inputs: ArrayLike | Sequence[ArrayLike], outputs: ArrayLike):
        flat, start = _flat_inputs(inputs)
        out = as_variables(outputs, "outputs", "(F,)")
        if len(out) != len(start) - 1:
            raise ValueError(
                f"outputs must hold one variable for each of {len(start) - 1} lists of inputs; "
                f"got {len(out)}"
            )
        if (np.diff(start) == 0).any():
            empty = int(np.flatnonzero(np.diff(start) == 0)[0])
            raise ValueError(
                f"inputs must hold at least one variable per factor; factor {empty} has no input"
            )
        factor = np.repeat(np.arange(len(out)), np.diff(start))
        all_factors = np.concatenate([factor, np.arange(len(out))])
        everything = np.concatenate([flat, out])
        # Sorting one number per pair of factor and variable takes a fifth of the time of `lexsort`.
        width = everything.max(initial=0) + 1
        pairs = np.sort(all_factors * width + everything)
        same = np.flatnonzero(pairs[1:] == pairs[:-1])
        if len(same):
            where, twice = divmod(int(pairs[same[0]]), int(width))
            raise ValueError(
                "inputs and outputs must name each variable once in a factor; factor "
                f"{where} has {twice} twice"
            )
        self.start = _read_only(start)
        self.inputs = _read_only(flat)
        self.outputs = _read_only(out)

    def __len__(self):
        return len(self.outputs)

    def __repr__(self):
        return f"{type(self).__name__}({len(self)} factors of {len(self.inputs)} inputs)"


def _flat_inputs(inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs of all factors in one array, and where each factor's inputs start."""
    if isinstance(inputs, np.ndarray) and inputs.ndim == 2:
        flat = as_variables(inputs, "inputs", "(F, k)")
        return flat.reshape(-1), np.arange(len(flat) + 1) * flat.shape[1]
    try:
        lists = [as_variables(part, f"inputs[{f}]", "(k,)") for f, part in enumerate(inputs)]
    except TypeError as error:
        raise ValueError(f"inputs must be (F, k) or a list of index arrays: {error}") from error
    start = np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)
    return np.concatenate([np.empty(0, np.int64), *lists]), start


class OrFactors(_LogicFactors):
    """Factors that make an output 1 if and only if some of its inputs are 1.

    A factor may have any number of inputs; its cost is in proportion to them.

    Parameters
    ----------
    inputs : array-like of int (F, k), or sequence of F index arrays
        Input variables of each factor, at least one.
    outputs : array-like of int (F,)
        Output variable of each factor.

    Attributes
    ----------
    start : ndarray of int64 (F + 1,)
        The inputs of factor f are ``inputs[start[f]:start[f + 1]]``.
    inputs : ndarray of int64 (start[F],)
        Input variables of all factors.
    outputs : ndarray of int64 (F,)
        Output variable of each factor.

    Raises
    ------
    ValueError
        If a factor has no inputs or the same variable twice, or a number is not whole.

    Examples
    --------
    >>> from skcrbm.energies import FactorGraphEnergy, OrFactors
    >>> from skcrbm.inference import infer
    >>> energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])])
    >>> infer(energy, "exact").marginals
    array([[0.5 , 0.5 , 0.75]])
    """


class AndFactors(_LogicFactors):
    """Factors that make an output 1 if and only if all of its inputs are 1.

    Parameters
    ----------
    inputs : array-like of int (F, k), or sequence of F index arrays
        Input variables of each factor, at least one.
    outputs : array-like of int (F,)
        Output variable of each factor.

    Attributes
    ----------
    start, inputs, outputs : ndarray of int64
        As in `OrFactors`.

    Raises
    ------
    ValueError
        If a factor has no inputs or the same variable twice, or a number is not whole.

    Examples
    --------
    >>> from skcrbm.energies import AndFactors, FactorGraphEnergy
    >>> from skcrbm.inference import infer
    >>> energy = FactorGraphEnergy([AndFactors([[0, 1]], [2])])
    >>> infer(energy, "exact").marginals
    array([[0.5 , 0.5 , 0.25]])
    """


#: All kinds of factors.
Factors = TableFactors | OrFactors | AndFactors


def as_factors(factors: Any) -> tuple[Factors, ...]:
    """Return factors as a tuple, or raise a ValueError."""
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


def count_variables(factors: tuple[Factors, ...], field: Any, n_variables: Any) -> int:
    """Return the number of variables; a ValueError if a factor names a larger variable."""
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
        width, source = np.shape(field)[-1], "field"
    if named >= width:
        raise ValueError(
            f"factors name variable {named}; {source} allows the variables 0 to {width - 1}"
        )
    return int(width)
