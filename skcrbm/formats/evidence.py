"""Readers and writers of evidence, queries and solutions in the formats of UAI competitions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.formats.words import Words, checked_n_states, joined
from skcrbm.utils.labels import by_label, with_indices
from skcrbm.utils.limits import MAX_FILE_ENTRIES
from skcrbm.utils.validation import as_real, has_labels

#: Names of the tasks of the competitions.
TASKS = ("PR", "MAR", "MAP", "MPE", "MMAP")
# Because files have few decimals, a marginal may exceed 1 by up to _ABOVE_ONE, and the sum of the
# marginals of a variable may differ from 1 by up to _SUM_TOL. Otherwise a ValueError is raised.
_ABOVE_ONE, _SUM_TOL = 1e-6, 0.01


# -------------------------------------------------------------------- evidence


def read_uai_evidence(source: str | os.PathLike, n_states: ArrayLike) -> np.ndarray:
    r"""Read the clamped variables from a UAI evidence file, for the argument `clamp` of `infer`.

    A file holds either a single list "n v1 x1 ... vn xn" of n variables with their states, or a
    number of samples followed by a list for each sample. Usually the number of words shows which of
    the two forms a file has. If the words fit both forms, the file is read as samples if its first
    line holds only the number of samples and each further line holds a list. Otherwise the file is
    read as a single list. The text "0" is a single sample without evidence.

    Parameters
    ----------
    source : str or path
        Path of a file, or the text itself if no file has this name. Files compressed by gzip are
        decompressed.
    n_states : array-like of int (n,)
        Number of states of each variable.

    Returns
    -------
    ndarray (n_samples, n)
        States of clamped variables, and NaN for free variables.

    Raises
    ------
    ValueError
        If the text is not in this format, or a variable or a state does not exist. The message
        shows the wrong word and its line.

    Examples
    --------
    >>> from skcrbm.energies import read_uai_evidence
    >>> read_uai_evidence("2 0 1 2 0", n_states=[2, 2, 3])
    array([[ 1., nan,  0.]])
    >>> read_uai_evidence("2\n1 1 0\n0", n_states=[2, 2, 3]).shape
    (2, 3)
    """
    states = checked_n_states(n_states)
    words = Words(source, "UAI evidence")
    return _read_samples(words, states)


def write_uai_evidence(evidence: ArrayLike) -> str:
    r"""Return clamped variables as the text of a UAI evidence file.

    Parameters
    ----------
    evidence : array-like (n_samples, n) or (n,)
        States of clamped variables, and NaN for free variables.

    Returns
    -------
    str
        A line with the list of variables and states. If there are several samples, a line with
        their number, followed by a line for each sample.

    Raises
    ------
    ValueError
        If a state is not a nonnegative integer.

    Examples
    --------
    >>> from skcrbm.energies import write_uai_evidence
    >>> write_uai_evidence([1, float("nan"), 0])
    '2 0 1 2 0\n'
    """
    return _samples_text(evidence, "evidence")


def _read_samples(words: Words, states: np.ndarray) -> np.ndarray:
    """Read all remaining words as lists of variables and states.

    The result is (n_samples, n), with NaN for variables that are not in the list of a sample.
    """
    n_samples = 1
    if _holds_samples(words):
        n_samples = words.integer("the number of samples", 1)
        if n_samples * max(1, len(states)) > MAX_FILE_ENTRIES:
            raise ValueError(
                f"{words.name} has {n_samples} samples of {len(states)} variables at "
                f"{words.position(words.place - 1)}; the limit is {MAX_FILE_ENTRIES} states"
            )
    rows: list[tuple[list[int], list[int]]] = []
    for _ in range(n_samples):
        count = words.integer("the number of clamped variables", 0, len(states))
        places = words.take(2 * count, "a clamped variable and its state")
        variables = words.distinct_at(places[::2], "a clamped variable", len(states) - 1)
        values = words.integers_at(places[1::2], "the state of a variable")
        invalid = np.flatnonzero(np.array(values, object) >= states[variables])
        if len(invalid):
            i = invalid[0]
            limit = states[variables[i]] - 1
            raise words.error(
                f"the state of variable {variables[i]}, an integer from 0 to {limit},",
                places[2 * i + 1],
            )
        rows.append((variables, values))
    words.end("the last state")
    found = np.full((n_samples, len(states)), np.nan)
    for row, (variables, values) in zip(found, rows, strict=True):
        row[variables] = values
    return found


def _holds_samples(words):
    """Return True if the next word is the number of samples, False if it begins a single list."""
    rest = words.words[words.place :]
    try:
        count = int(rest[0])
    except (IndexError, ValueError):
        return False
    if count < 1:
        return False
    lengths = words.line_lengths()
    sizes = _list_sizes(rest, count)
    is_list = len(rest) == 1 + 2 * count
    if sizes is not None:
        return not is_list or lengths == [1, *sizes]
    # If the words fit neither form, the error message assumes the form that the first line
    # suggests.
    return not is_list and lengths[0] == 1 and len(rest) > 1


def _list_sizes(rest, count):
    """Return the number of words in each of the `count` lists that follow the first word.

    The result is None unless `rest` consists of one word followed by `count` lists.
    """
    sizes: list[int] = []
    place = 1
    while place < len(rest) and len(sizes) < count:
        try:
            sizes.append(1 + 2 * int(rest[place]))
        except ValueError:
            return None
        if sizes[-1] < 1:
            return None
        place += sizes[-1]
    return sizes if place == len(rest) and len(sizes) == count else None


def _samples_text(samples, name):
    values = as_real(with_indices(samples, name), name, "(n_samples, n)")
    rows = values[None] if values.ndim == 1 else values
    held = ~np.isnan(rows)
    if rows.ndim != 2 or len(rows) == 0 or not _are_counts(rows[held]):
        raise ValueError(
            f"{name} must hold nonnegative integers, or NaN for free variables, and have shape "
            f"(n_samples, n) or (n,); got {values.dtype} of shape {values.shape}"
        )
    lines = [] if len(rows) == 1 else [str(len(rows))]
    for row, mask in zip(rows, held, strict=True):
        variables = np.flatnonzero(mask)
        pairs = np.column_stack([variables, row[variables].astype(np.int64)])
        lines.append(joined([len(variables), *pairs.ravel()]))
    return "\n".join(lines) + "\n"


def _are_counts(values):
    return bool(((values >= 0) & (values < 2**53) & (values == np.floor(values))).all())


# --------------------------------------------------------------------- queries


def read_uai_query(source: str | os.PathLike, n_states: ArrayLike) -> np.ndarray:
    """Read the query variables of a marginal MAP problem from a UAI query file.

    Parameters
    ----------
    source : str or path
        Path of a file, or the text "n v1 ... vn" itself if no file has this name. Files compressed
        by gzip are decompressed.
    n_states : array-like of int (n,)
        Number of states of each variable.

    Returns
    -------
    ndarray of int64 (n_query,)
        Query variables in the order of the file.

    Raises
    ------
    ValueError
        If the text is not in this format, or a variable does not exist or occurs twice. The
        message shows the wrong word and its line.

    Examples
    --------
    >>> from skcrbm.energies import read_uai_query
    >>> read_uai_query("2 0 2", n_states=[2, 2, 3])
    array([0, 2])
    """
    n = len(checked_n_states(n_states))
    words = Words(source, "UAI query")
    count = words.integer("the number of query variables", 0, n)
    variables = words.distinct(count, "a query variable", n - 1)
    words.end("the last query variable")
    return np.array(variables, np.int64)


def write_uai_query(variables: ArrayLike) -> str:
    r"""Return query variables of a marginal MAP problem as the text of a UAI query file.

    Parameters
    ----------
    variables : array-like of int (n_query,)
        Distinct query variables.

    Returns
    -------
    str
        A line with the number of query variables, followed by the variables.

    Raises
    ------
    ValueError
        If a variable is not a nonnegative integer, or occurs twice.

    Examples
    --------
    >>> from skcrbm.energies import write_uai_query
    >>> write_uai_query([0, 2])
    '2 0 2\n'
    """
    values = as_real(variables, "variables", "(n_query,)")
    if values.ndim != 1 or not _are_counts(values) or len(np.unique(values)) < len(values):
        raise ValueError(
            "variables must be distinct nonnegative integers of shape (n_query,); got "
            f"{variables!r}"
        )
    return joined([len(values), *values.astype(np.int64)]) + "\n"


# ------------------------------------------------------------------- solutions


def read_uai_solution(source: str | os.PathLike, n_states: ArrayLike) -> tuple[str, Any]:
    r"""Read a solution in the result format of the UAI competitions.

    A file begins with the name of the task, followed by a solution for each sample of evidence. The
    number of samples may precede the first solution, and is required if there are several samples.
    If the file holds a sequence of improved solutions, each after a line "-BEGIN-", only the last
    solution is read.

    Parameters
    ----------
    source : str or path
        Path of a file, or the text itself if no file has this name. Files compressed by gzip are
        decompressed.
    n_states : array-like of int (n,)
        Number of states of each variable.

    Returns
    -------
    task : {"PR", "MAR", "MAP", "MPE", "MMAP"}
        Task in the file. "MPE" is the name of "MAP" in some competitions.
    value : ndarray or list of ndarray
        Solution, depending on the task:

        - "PR": log10 of the partition functions (n_samples,).
        - "MAR": list with the marginals (n_samples, k) of each variable over its k states.
        - "MAP" and "MPE": states (n_samples, n) of int64.
        - "MMAP": states (n_samples, n) of the query variables, and NaN for the other variables.

    Raises
    ------
    ValueError
        If the text is not in this format or does not fit `n_states`. The message shows the wrong
        word and its line.

    Examples
    --------
    >>> from skcrbm.energies import read_uai_solution
    >>> read_uai_solution("MAP\n3 1 0 2", n_states=[2, 2, 3])
    ('MAP', array([[1, 0, 2]]))
    >>> task, marginals = read_uai_solution("MAR\n2 2 0.3 0.7 1 1", n_states=[2, 1])
    >>> marginals[0]
    array([[0.3, 0.7]])
    """
    states = checked_n_states(n_states)
    words = Words(source, "UAI solution")
    task = words.name_of(TASKS)
    begins = [i for i, word in enumerate(words.words) if word == "-BEGIN-"]
    words.place = begins[-1] + 1 if begins else words.place
    if task == "MMAP":
        return task, _read_samples(words, states)
    size = {"PR": 1, "MAR": 1 + len(states) + int(states.sum())}.get(task, 1 + len(states))
    n_samples = 1
    if words.n_left != size and words.n_left:
        counted = words.words[words.place] == str((words.n_left - 1) // size)
        if words.line_lengths()[0] == 1 or (counted and (words.n_left - 1) % size == 0):
            n_samples = words.integer("the number of samples", 1)
    read = {"PR": _read_log10, "MAR": _read_marginals}.get(task, _read_states)
    found = [read(words, states) for _ in range(n_samples)]
    words.end("the last solution")
    if task == "MAR":
        return task, [np.array(marginals) for marginals in zip(*found, strict=True)]
    return task, np.array(found)


def _read_log10(words, states):
    return words.numbers(1, "log10 of the partition function", -np.inf)[0]


def _read_states(words, states):
    words.exactly(len(states), "the number of variables")
    places = words.take(len(states), "the state of a variable")
    values = words.integers_at(places, "the state of a variable")
    for i in np.flatnonzero(np.array(values, object) >= states)[:1]:
        limit = states[i] - 1
        raise words.error(f"the state of variable {i}, an integer from 0 to {limit},", places[i])
    return values


def _read_marginals(words, states):
    words.exactly(len(states), "the number of variables")
    found = []
    for i, k in enumerate(states.tolist()):
        words.exactly(k, f"the number of states of variable {i}")
        place = words.place
        found.append(words.numbers(k, f"a marginal of variable {i}", 0.0, 1 + _ABOVE_ONE))
        if abs(found[-1].sum() - 1) > _SUM_TOL:
            raise words.error(f"marginals of variable {i} with a sum of 1", place)
    return found


def write_uai_solution(task: str, value: Any, n_states: ArrayLike | None = None) -> str:
    """Return a solution as text in the result format of the UAI competitions.

    Parameters
    ----------
    task : {"PR", "MAR", "MAP", "MPE", "MMAP"}
        Name of the task.
    value : float, array-like or sequence of array-like
        Solution in the form that `read_uai_solution` returns. For a single sample, the axis of
        samples may be omitted. With `n_states`, the value of "MAR" may also be an array of
        marginals as in the results of `infer`: (n_samples, n, K) or (n, K), of which the first k
        entries of a variable with k states are written, or (n_samples, n) with the probabilities of
        state 1 of 0/1 variables.
    n_states : array-like of int (n,), default=None
        Number of states of each variable, for the task "MAR". None: all entries are written, and
        the last probability of a variable may be 0 only in the form that `read_uai_solution`
        returns, because it is padding in the results of `infer`.

    Returns
    -------
    str
        A line with the task, followed by a line for each sample. If there are several samples,
        their number precedes the first sample.

    Raises
    ------
    ValueError
        If the task is unknown, or the value has a wrong shape or is out of range.

    Examples
    --------
    >>> from skcrbm.energies import write_uai_solution
    >>> print(write_uai_solution("MAP", [1, 0, 2]), end="")
    MAP
    3 1 0 2
    >>> print(write_uai_solution("MAR", [[0.3, 0.7], [1.0]]), end="")
    MAR
    2 2 0.3 0.7 1 1.0
    """
    if not isinstance(task, str) or task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}; got {task!r}")
    if task == "MMAP":
        return f"MMAP\n{_samples_text(value, 'value')}"
    if task == "MAR" and has_labels(value):
        raise ValueError("value must be arrays for the task 'MAR', got a mapping or a data frame")
    if n_states is not None:
        if task != "MAR":
            raise ValueError(f"n_states is only valid for the task 'MAR'; got {task!r}")
        value = _rows_of_states(value, checked_n_states(n_states))
    elif task == "MAR":
        _refuse_padding(value)
    lines = {"PR": _log10_lines, "MAR": _marginal_lines}.get(task, _state_lines)(value)
    counted = [task] if len(lines) == 1 else [task, str(len(lines))]
    return "\n".join([*counted, *lines]) + "\n"


def _refuse_padding(value):
    """Raise a ValueError if zeros may be the padding of variables with fewer states."""
    if isinstance(value, np.ndarray) and value.ndim == 3:
        padded = True
    else:
        rows = list(value) if np.iterable(value) else []
        widths = {np.shape(row) for row in rows}
        same = len(widths) == 1 and len(*widths) == 1 and () not in widths and (0,) not in widths
        padded = same and any(row[-1] == 0 for row in map(np.asarray, rows))
    if padded:
        raise ValueError(
            "value of the task 'MAR' holds zeros that may be the padding of variables with fewer "
            "states; pass n_states, such as energy.n_states"
        )


def _log10_lines(value: ArrayLike) -> list[str]:
    values = np.atleast_1d(as_real(value, "value", "(n_samples,)"))
    if values.ndim != 1 or len(values) == 0 or np.isnan(values).any() or (values == np.inf).any():
        raise ValueError(
            "value of the task 'PR' must hold log10 of the partition functions, finite numbers or "
            f"-inf, and have shape (n_samples,); got {value!r}"
        )
    return [repr(v) for v in values.tolist()]


def _marginal_lines(value: Sequence[ArrayLike]) -> list[str]:
    try:
        parts = list(value)
    except TypeError as error:
        raise ValueError(
            "value of the task 'MAR' must be a sequence with the marginals of each variable; got "
            f"{value!r}"
        ) from error
    rows = [np.atleast_2d(as_real(m, f"value[{i}]", "(n_samples, k)")) for i, m in enumerate(parts)]
    n_samples = len(rows[0]) if rows else 1
    for i, row in enumerate(rows):
        if row.ndim != 2 or len(row) != n_samples or row.size == 0:
            raise ValueError(
                f"value[{i}] of the task 'MAR' must have shape (n_samples, k) with the same number "
                f"of samples as value[0], {n_samples}, and at least one state; got {row.shape}"
            )
        if not ((row >= 0) & (row <= 1 + _ABOVE_ONE)).all():
            raise ValueError(f"value[{i}] of the task 'MAR' must hold probabilities from 0 to 1")
        if (np.abs(row.sum(axis=1) - 1) > _SUM_TOL).any():
            raise ValueError(f"value[{i}] of the task 'MAR' must hold probabilities that sum to 1")
    lines = []
    for sample in range(n_samples):
        words = [f"{row.shape[1]} {joined(row[sample])}" for row in rows]
        lines.append(" ".join([str(len(rows)), *words]))
    return lines


def _rows_of_states(value, states):
    """Return a list with the marginals (n_samples, k) of each variable over its k states."""
    n, most = len(states), int(states.max(initial=1))
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.shape != (n, most):
        if value.shape[1] != n or (states != 2).any():
            raise ValueError(
                f"value of the task 'MAR' must have shape (n_samples, {n}, {most}) or ({n}, {most})"
                f", or (n_samples, {n}) for 0/1 variables, to fit n_states; got {value.shape}"
            )
        return [np.column_stack([1 - column, column]) for column in value.T]
    if isinstance(value, np.ndarray) and value.ndim == 3:
        value = value.swapaxes(0, 1)
    parts = list(value)
    if len(parts) != n:
        raise ValueError(f"value of the task 'MAR' must hold {n} variables, got {len(parts)}")
    found = []
    for i, (part, k) in enumerate(zip(parts, states.tolist(), strict=True)):
        row = np.atleast_2d(as_real(part, f"value[{i}]", "(n_samples, k)"))
        if row.shape[-1] < k or (row[..., k:] != 0).any():
            raise ValueError(
                f"value[{i}] of the task 'MAR' must hold the probabilities of {k} states, and 0 "
                f"for states that do not exist; got {row.shape[-1]} numbers"
            )
        found.append(row[..., :k])
    return found


def _state_lines(value: ArrayLike) -> list[str]:
    if has_labels(value):
        value = by_label(value, "value", len(value.columns if hasattr(value, "columns") else value))
    rows = np.atleast_2d(as_real(value, "value", "(n_samples, n)"))
    if rows.ndim != 2 or len(rows) == 0 or not _are_counts(rows):
        raise ValueError(
            "value of the task 'MAP' or 'MPE' must hold states, nonnegative integers, and have "
            f"shape (n_samples, n) or (n,); got {rows.dtype} of shape {rows.shape}"
        )
    return [joined([rows.shape[1], *row]) for row in rows.astype(np.int64)]
