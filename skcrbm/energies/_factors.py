"""Factors of factor graphs: tables, and OR and AND factors with any number of inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import as_real, check_count, has_labels


def as_variables(array: ArrayLike, name: str, shape: str) -> np.ndarray:
    """Return indices of variables as an int64 array.

    `shape` is the expected shape as text, such as "(F, m)"; only its number of dimensions is
    checked. A ValueError is raised if the indices are not nonnegative integers, or the number of
    dimensions is wrong.
    """
    try:
        given = np.asarray(array)
        if np.ma.is_masked(array):
            raise ValueError("they have masked entries")
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be integers of shape {shape}: {error}") from error
    if given.size == 0 and given.dtype.kind == "f":
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu" or given.ndim != shape.count(",") + (not shape.endswith(",)")):
        raise ValueError(
            f"{name} must be integers of shape {shape}, got {given.dtype} of shape {given.shape}"
        )
    if given.size and given.min() < 0:
        raise ValueError(f"{name} must be indices of variables, at least 0; got {given.min()}")
    return given.astype(np.int64)


def as_log_potentials(array: ArrayLike, shape: str) -> np.ndarray:
    """Return log-potentials as a float array; raise a ValueError if an entry is NaN or +inf."""
    values = as_real(array, "log_potentials", shape)
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError(
            "log_potentials must be finite, or -inf for a weight of 0; they contain NaN or +inf"
        )
    return values


def logic_table(n_inputs: int, kind: str) -> np.ndarray:
    """Return an OR or AND as a flat table of weights 0 and 1, (2^(n_inputs + 1),).

    The output is the last variable of the table.
    """
    number = np.arange(2**n_inputs)
    output = number > 0 if kind == "or" else number == 2**n_inputs - 1
    return np.column_stack([~output, output]).astype(float).reshape(-1)


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy in C order."""
    array = np.array(array, order="C")
    array.flags.writeable = False
    return array


class TableFactors(Versioned):
    """F table factors of the same shape, each over m variables.

    Parameters
    ----------
    variables : array-like of int (F, m)
        Scope of each factor: the indices of its variables, without repetition.
    log_potentials : array-like (F, k1, ..., km) or (k1, ..., km)
        Log-weights of the joint states of a scope, whose j-th variable has kj states; -inf stands
        for a weight of 0. A table of shape (k1, ..., km) is shared by all factors. If all variables
        have two states, flat tables of shape (F, 2**m) or (2**m,) in C order are accepted, too (the
        last variable changes fastest). An array of shape (F, 2**m) is always interpreted as F flat
        tables. If a shared table has this shape by chance, repeat it along a first axis.

    Attributes
    ----------
    variables : ndarray of int64 (F, m), read-only
        Scope of each factor.
    shape : tuple of int
        Number of states (k1, ..., km) of each of the m variables of a scope.
    log_potentials : ndarray (F, k1 * ... * km), read-only
        Log-weights in C order, float32 if given as float32, else float64.

    Raises
    ------
    ValueError
        If a scope is empty or has a variable twice, or if the tables have a wrong shape or hold NaN
        or +inf.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import FactorGraphEnergy, TableFactors
    >>> equal = TableFactors([[0, 1], [1, 2]], [[1.0, 0.0], [0.0, 1.0]])
    >>> FactorGraphEnergy([equal]).score([[1, 1, 0]])
    array([1.])
    >>> equal = TableFactors([[0, 1], [1, 2]], np.eye(3))  # three states
    >>> FactorGraphEnergy([equal]).score([[2, 2, 0]])
    array([1.])
    """

    _warns_of_version = False

    _saved = ("variables", "shape", "log_potentials")

    def __init__(self, variables: ArrayLike, log_potentials: ArrayLike):
        scopes = as_variables(variables, "variables", "(F, m)")
        n_factors, m = scopes.shape
        if m == 0:
            raise ValueError(
                "variables must hold at least one variable per factor; for constants use "
                "FactorGraphEnergy.from_tables"
            )
        in_order = np.sort(scopes, axis=1)
        twice = np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))
        if len(twice):
            raise ValueError(
                "variables must not repeat a variable in a scope; scope "
                f"{twice[0]} is {scopes[twice[0]].tolist()}"
            )
        sizes = ", ".join(f"k{j + 1}" for j in range(m)) + ("," if m == 1 else "")
        expected = f"({n_factors}, {sizes.rstrip(',')}) or ({sizes}), with the states of each axis"
        tables = as_log_potentials(log_potentials, expected)
        self.shape = _table_shape(tables.shape, n_factors, m, expected)
        self.variables = _read_only(scopes)
        flat = tables.reshape(-1, math.prod(self.shape))
        self.log_potentials = _read_only(np.broadcast_to(flat, (n_factors, flat.shape[1])))

    def __len__(self):
        return len(self.variables)

    def __repr__(self):
        return f"TableFactors({len(self)} tables of shape {self.shape})"


def _table_shape(given: tuple[int, ...], n_factors: int, m: int, expected: str) -> tuple[int, ...]:
    """Return the number of states of each variable of a scope, given the shape of the tables.

    A shape may be ambiguous. For example, (4, 4) may be a flat table over two 0/1 variables for
    each of four factors, or a table of 4 x 4 states that all factors share. An ambiguous shape is
    interpreted as flat tables.
    """
    if given in ((n_factors, 2**m), (2**m,)):
        return (2,) * m
    if len(given) == m + 1 and given[0] == n_factors and 0 not in given[1:]:
        return given[1:]
    if len(given) == m and 0 not in given:
        return given
    raise ValueError(f"log_potentials must have shape {expected}; got {given}")


class _LogicFactors(Versioned):
    """Base class of OR and AND factors: weight 1 if the output is correct, else 0."""

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
        # Encode each pair of a factor and a variable as an integer, because sorting integers is
        # five times as fast as `lexsort`.
        width = everything.max(initial=0) + 1
        pairs = np.sort(all_factors * width + everything)
        same = np.flatnonzero(pairs[1:] == pairs[:-1])
        if len(same):
            where, twice = divmod(int(pairs[same[0]]), int(width))
            raise ValueError(
                "inputs and outputs must not repeat a variable in a factor; factor "
                f"{where} has variable {twice} twice"
            )
        self.start = _read_only(start)
        self.inputs = _read_only(flat)
        self.outputs = _read_only(out)

    def __len__(self):
        return len(self.outputs)

    def __repr__(self):
        return f"{type(self).__name__}({len(self)} factors of {len(self.inputs)} inputs)"


def _flat_inputs(inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the concatenated inputs of F factors, and the position (F + 1,) where each begins."""
    if isinstance(inputs, memoryview) or has_labels(inputs):
        inputs = np.asarray(inputs)
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
    """Factors that force an output to be 1 if and only if at least one of its inputs is 1.

    A factor may have any number of inputs. Its cost is proportional to this number.

    Parameters
    ----------
    inputs : array-like of int (F, k), or sequence of F index arrays
        Input variables of each factor, at least one.
    outputs : array-like of int (F,)
        Output variable of each factor.

    Attributes
    ----------
    start : ndarray of int64 (F + 1,)
        Positions in `inputs`: the inputs of factor f are ``inputs[start[f]:start[f + 1]]``.
    inputs : ndarray of int64 (start[F],)
        Input variables of all factors.
    outputs : ndarray of int64 (F,)
        Output variable of each factor.

    Raises
    ------
    ValueError
        If a factor has no inputs or a variable twice, or an index is not an integer.

    Examples
    --------
    >>> from skcrbm.energies import FactorGraphEnergy, OrFactors
    >>> from skcrbm.inference import infer
    >>> energy = FactorGraphEnergy([OrFactors([[0, 1]], [2])])
    >>> infer(energy, "exact").marginals
    array([[0.5 , 0.5 , 0.75]])
    """


class AndFactors(_LogicFactors):
    """Factors that force an output to be 1 if and only if all of its inputs are 1.

    Parameters
    ----------
    inputs : array-like of int (F, k), or sequence of F index arrays
        Input variables of each factor, at least one.
    outputs : array-like of int (F,)
        Output variable of each factor.

    Attributes
    ----------
    start, inputs, outputs : ndarray of int64
        See `OrFactors`.

    Raises
    ------
    ValueError
        If a factor has no inputs or a variable twice, or an index is not an integer.

    Examples
    --------
    >>> from skcrbm.energies import AndFactors, FactorGraphEnergy
    >>> from skcrbm.inference import infer
    >>> energy = FactorGraphEnergy([AndFactors([[0, 1]], [2])])
    >>> infer(energy, "exact").marginals
    array([[0.5 , 0.5 , 0.25]])
    """


#: Type of a factor: union of the three classes of factors.
Factors = TableFactors | OrFactors | AndFactors


def as_factors(factors: Any) -> tuple[Factors, ...]:
    """Return factors as a tuple, or raise a ValueError if an item is not a factor."""
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
            "factors must be a sequence of TableFactors, OrFactors or AndFactors; it holds an "
            f"object of type {type(wrong[0]).__name__} (for lists of scopes and tables, use "
            "FactorGraphEnergy.from_tables)"
        )
    return factors


def count_variables(
    factors: tuple[Factors, ...], field: Any, n_variables: Any, n_states: Any, by_state: bool
) -> int:
    """Return the number of variables; raise a ValueError if a factor has a larger index.

    If `by_state` is True, the last axis of `field` is an axis of states.
    """
    named = -1
    for part in factors:
        if isinstance(part, TableFactors):
            named = max(named, part.variables.max(initial=-1))
        else:
            named = max(named, part.inputs.max(initial=-1), part.outputs.max(initial=-1))
    width, source = named + 1, "the factors"
    if n_variables is not None:
        width, source = check_count("n_variables", n_variables, 0), "n_variables"
    elif np.ndim(n_states) == 1:
        width, source = len(n_states), "n_states"
    elif field is not None and np.ndim(field) in ((2, 3) if by_state else (1, 2)):
        width, source = np.shape(field)[-2 if by_state else -1], "field"
    if named >= width:
        raise ValueError(
            f"factors hold variable {named}, but {source} allows only the variables 0 to "
            f"{width - 1}"
        )
    return int(width)


def group_tables(
    scopes: Sequence[ArrayLike], log_potentials: Sequence[ArrayLike]
) -> tuple[list[TableFactors], float]:
    """Group tables by their shapes, and add up the tables with an empty scope (constants).

    Groups are sorted by the number of variables, then by shape. Tables of a group keep their order.
    A ValueError is raised if the numbers of scopes and tables differ, a scope has a variable twice,
    or a table does not fit its scope.
    """
    for name, value in (("scopes", scopes), ("log_potentials", log_potentials)):
        if not (hasattr(value, "__len__") and hasattr(value, "__iter__")):
            raise ValueError(f"{name} must be a sequence of arrays, got {type(value).__name__}")
    checked = [as_variables(s, f"scopes[{i}]", "(m,)") for i, s in enumerate(scopes)]
    if len(checked) != len(log_potentials):
        raise ValueError(
            f"log_potentials must hold one table for each of {len(checked)} scopes; got "
            f"{len(log_potentials)}"
        )
    constant, by_shape = 0.0, {}
    for i, (scope, values) in enumerate(zip(checked, log_potentials, strict=True)):
        m = len(scope)
        if len(set(scope.tolist())) < m:
            raise ValueError(f"scopes[{i}] must not repeat a variable; got {scope.tolist()}")
        table = as_log_potentials(values, f"({2**m},) or an axis for each of {m} variables")
        if m == 0:
            if table.size != 1 or not np.isfinite(table).all():
                raise ValueError(
                    f"log_potentials[{i}] must be a single finite number, because its scope is "
                    f"empty; got {table.tolist()}"
                )
            constant += float(table.reshape(-1)[0])
            continue
        shape = (2,) * m if table.shape == (2**m,) else table.shape
        if len(shape) != m or 0 in shape:
            raise ValueError(
                f"log_potentials[{i}] must have shape ({2**m},) or an axis for each of {m} "
                f"variables; got {table.shape}"
            )
        by_shape.setdefault((m, shape), []).append((scope, table))
    factors = []
    for (_, shape), parts in sorted(by_shape.items(), key=lambda item: item[0]):
        tables = np.array([table.reshape(shape) for _, table in parts])
        factors.append(TableFactors(np.array([scope for scope, _ in parts]), tables))
    return factors, constant


def count_states(
    factors: tuple[Factors, ...], n_variables: int, n_states: Any, field: Any
) -> np.ndarray:
    """Return the number of states (n,) of each variable, as int64.

    A ValueError is raised in three cases: `n_states` is not a positive integer or an array (n,) of
    positive integers; two factors, or a factor and `n_states`, give a variable different numbers of
    states; or an OR or AND factor has a variable that does not have two states.
    """
    counts = np.zeros(n_variables, np.int64)
    for part in factors:
        if isinstance(part, TableFactors):
            for column, k in zip(part.variables.T, part.shape, strict=True):
                other = column[(counts[column] > 0) & (counts[column] != k)]
                counts[column] = k
                if len(other):
                    raise ValueError(
                        f"tables must agree in the number of states of variable {other[0]}; a "
                        f"table has {k} states for this variable, another table a different number"
                    )
    for part in factors:
        if not isinstance(part, TableFactors):
            for column in (part.inputs, part.outputs):
                counts[column[counts[column] == 0]] = 2
    known = counts > 0
    if n_states is not None:
        given = _as_counts(n_states, n_variables)
        wrong = np.flatnonzero(known & (counts != given))
        if len(wrong):
            raise ValueError(
                f"n_states must fit the factors; variable {wrong[0]} has n_states="
                f"{given[wrong[0]]} and factors of {counts[wrong[0]]} states"
            )
        counts = given
    elif has_axis_of_states(factors, field, None) and np.ndim(field) in (2, 3):
        counts[~known] = np.shape(field)[-1]
    else:
        counts[~known] = 2
    for part in factors:
        if not isinstance(part, TableFactors):
            for column in (part.inputs, part.outputs):
                if (counts[column] != 2).any():
                    v = column[counts[column] != 2][0]
                    raise ValueError(
                        f"OR and AND factors need variables with two states; variable {v} has "
                        f"{counts[v]} states"
                    )
    return counts


def _as_counts(n_states, n_variables):
    given = np.asarray(n_states)
    if given.shape == (0,) and n_variables == 0:
        return np.zeros(0, np.int64)
    if (
        np.ma.is_masked(n_states)
        or given.dtype.kind not in "iu"
        or given.shape not in ((), (n_variables,))
        or given.min() < 1
    ):
        raise ValueError(
            f"n_states must be an int of at least 1, or an int for each of {n_variables} "
            f"variables; got {n_states!r}"
        )
    return np.array(np.broadcast_to(given, n_variables), np.int64)


def has_axis_of_states(factors: tuple[Factors, ...], field: Any, n_states: Any) -> bool:
    """Return True if the arrays of a graph have an axis of states.

    They have this axis if a variable has more or fewer than two states, or if `field` has three
    axes. Invalid arguments give False, so that the check of 0/1 variables raises the error.
    """
    if n_states is not None:
        shapes = [tuple(np.ravel(n_states).tolist())]
    else:
        shapes = [part.shape for part in factors if isinstance(part, TableFactors)]
    try:
        return any(set(shape) - {2} for shape in shapes) or np.ndim(field) == 3
    except ValueError:  # rows of different lengths
        return False
