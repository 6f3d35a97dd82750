"""Rules between labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skcrbm.constraints._conditions import Conditions

# Largest number of labels of `Allowed`: its table has 2^16 entries.
_MAX_ALLOWED = 16
# Largest number of characters of a rule in a message.
_SHOWN = 120


class Rule(ABC):
    """Base class of rules. `Constrained` takes a list of them."""

    def __post_init__(self):
        """Turn iterators into lists, because each call of `fit` reads the labels again."""
        for name, value in vars(self).items():
            if isinstance(value, Iterator):
                object.__setattr__(self, name, list(value))

    @abstractmethod
    def add_to(self, conditions: Conditions, number_of: LabelNumbers) -> None:
        """Add the rule to `conditions`; `number_of` finds the index of a label."""

    def __str__(self):
        """Return the rule in at most 120 characters, for messages."""
        text = " ".join(repr(self).split())
        return text if len(text) <= _SHOWN else text[: _SHOWN - 4] + " ..."


class LabelNumbers:
    """Finds the indices of labels that are given by name or by index."""

    def __init__(self, n_labels: int, names: Sequence | None):
        self.n_labels = n_labels
        self.names = list(range(n_labels)) if names is None else list(names)
        self.by_name = {} if names is None else {name: i for i, name in enumerate(names)}

    def __call__(self, label: Any, rule: Rule) -> int:
        """Return the index of a label, or raise a ValueError that names the rule."""
        try:
            if label in self.by_name:
                return self.by_name[label]
        except TypeError:  # an unhashable label, such as a list
            raise ValueError(f"rules holds {rule!r}, but {label!r} is not a label") from None
        integer = isinstance(label, (int, np.integer)) and not isinstance(label, (bool, np.bool_))
        if integer and 0 <= label < self.n_labels:
            return int(label)
        known = ", ".join(map(repr, list(self.by_name)[:10])) or "y has no names"
        raise ValueError(
            f"rules holds {rule!r}, but {label!r} is not a label; labels are indices from 0 to "
            f"{self.n_labels - 1} or names: {known}"
        )

    def is_list(self, labels: Any) -> bool:
        """Return True for a list or tuple of labels; a tuple may also be the name of a label."""
        return isinstance(labels, list) or (isinstance(labels, tuple) and not self.is_name(labels))

    def is_name(self, label: Any) -> bool:
        """Return True if `label` is the name of a label."""
        try:
            return label in self.by_name
        except TypeError:  # an unhashable object, such as a list
            return False

    def all_of(self, labels: Any, rule: Rule) -> list[int]:
        """Return the indices of several distinct labels."""
        if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
            raise ValueError(f"rules holds {rule!r}, whose labels should be a list")
        found = [self(label, rule) for label in labels]
        if len(set(found)) < len(found):
            raise ValueError(f"rules holds {rule!r}, which names a label twice")
        return found

    def some_of(self, labels: Any, rule: Rule) -> list[int]:
        """Return the indices of one or more distinct labels."""
        found = self.all_of(labels, rule)
        if not found:
            raise ValueError(f"rules holds {rule!r}, which names no label")
        return found


@dataclass(frozen=True, eq=False)
class Implies(Rule):
    """If all labels of `given` are on, all labels of `then` are on.

    Parameters
    ----------
    given, then : label or list of labels
        Labels, by name or index.

    Examples
    --------
    >>> from skcrbm.constraints import Implies
    >>> rule = Implies("beach", "sea")
    >>> rule = Implies(["snow", "person"], "winter sports")
    """

    given: Any
    then: Any

    def add_to(self, conditions, number_of):
        """Add a clause for each label of `then`."""
        given = number_of.all_of(_listed(self.given, number_of), self)
        for label in number_of.all_of(_listed(self.then, number_of), self):
            if label in given:
                continue
            values = np.array([0] * len(given) + [1])
            conditions.add_count([*given, label], values, 1, len(values))


@dataclass(frozen=True, eq=False)
class Clause(Rule):
    """At least one label of `on` is on, or at least one label of `off` is off.

    Parameters
    ----------
    on, off : list of labels, default=()
        Labels, by name or index.

    Examples
    --------
    >>> from skcrbm.constraints import Clause
    >>> rule = Clause(on=["day", "night"])  # one of them, or both
    """

    on: Any = ()
    off: Any = ()

    def add_to(self, conditions, number_of):
        """Add the clause to `conditions`."""
        on, off = number_of.all_of(self.on, self), number_of.all_of(self.off, self)
        if set(on) & set(off):
            return  # always true
        if not on and not off:
            raise ValueError("rules holds a Clause without labels, which is never true")
        values = np.array([1] * len(on) + [0] * len(off))
        conditions.add_count([*on, *off], values, 1, len(values))


@dataclass(frozen=True, eq=False)
class Between(Rule):
    """Between `low` and `high` of the labels are on.

    ``Between(labels, 0, k)`` is "at most k", ``Between(labels, k)`` "at least k", and
    ``Between(labels, k, k)`` "exactly k".

    Parameters
    ----------
    labels : list of labels
        Labels, by name or index.
    low : int, default=0
        Smallest number of labels that are on.
    high : int or None, default=None
        Largest number of labels that are on. None means no limit.

    Examples
    --------
    >>> from skcrbm.constraints import Between
    >>> rule = Between(["spring", "summer", "autumn", "winter"], 1, 1)  # exactly one season
    """

    labels: Any
    low: int = 0
    high: int | None = None

    def add_to(self, conditions, number_of):
        """Add the condition, as a `Count`, to `conditions`."""
        labels = number_of.some_of(self.labels, self)
        whole = isinstance(self.low, (int, np.integer))
        if not whole or not isinstance(self.high, (int, np.integer, type(None))):
            raise ValueError(
                f"rules holds {self!r}; low should be an integer, and high an integer or None"
            )
        high = len(labels) if self.high is None else min(int(self.high), len(labels))
        if not 0 <= self.low <= high:
            raise ValueError(
                f"rules holds {self!r}, which is never true for {len(labels)} labels; low and "
                "high must satisfy 0 <= low <= high, and low must not exceed the number of "
                "labels"
            )
        conditions.add_count(labels, np.ones(len(labels), int), int(self.low), high)


@dataclass(frozen=True, eq=False, init=False)
class Excludes(Rule):
    """At most one of the labels is on.

    Parameters
    ----------
    labels : list of labels
        Labels, by name or index.

    Examples
    --------
    >>> from skcrbm.constraints import Excludes
    >>> rule = Excludes(["indoor", "outdoor"])
    """

    labels: Any

    def __init__(self, labels: Any, *others: Any):
        if others:
            raise TypeError(
                f"Excludes takes one list of labels, as in Excludes({[labels, *others]!r}); got "
                f"{1 + len(others)} arguments"
            )
        object.__setattr__(self, "labels", labels)
        self.__post_init__()

    def add_to(self, conditions, number_of):
        """Require that at most one of the labels is on."""
        labels = number_of.some_of(self.labels, self)
        conditions.add_count(labels, np.ones(len(labels), int), 0, 1)


@dataclass(frozen=True, eq=False)
class Hierarchy(Rule):
    """A label is on only if its parents are on, in a tree or any acyclic graph of labels.

    Parameters
    ----------
    edges : list of pairs (parent, child), dict {child: parent or parents}, or sparse matrix
        Labels, by name or index. A label may have several parents, all of which must be on. Note
        the order: the parent comes first in a pair, and the child comes first in a dict. In a
        sparse adjacency matrix (n_outputs, n_outputs), such as networkx writes, a nonzero entry in
        row p and column c stands for the pair (p, c).

    Examples
    --------
    >>> from skcrbm.constraints import Hierarchy
    >>> rule = Hierarchy({"dog": "mammal", "cat": "mammal", "mammal": "animal"})
    >>> rule = Hierarchy([("mammal", "dog"), ("mammal", "cat"), ("animal", "mammal")])
    >>> rule = Hierarchy({"bat": ["mammal", "flying animal"]})
    """

    edges: Any

    def add_to(self, conditions, number_of):
        """Add an edge for each pair of a parent and a child."""
        pairs = []
        for edge in self._pairs(number_of):
            sized = isinstance(edge, (list, tuple, np.ndarray))
            if not sized or len(edge) != 2 or any(map(number_of.is_list, edge)):
                raise ValueError(
                    f"rules holds a Hierarchy with {edge!r} in place of a pair (parent, child)"
                )
            parent, child = number_of(edge[0], self), number_of(edge[1], self)
            if parent == child:
                raise ValueError(
                    f"rules holds a Hierarchy in which a label is its own parent: {edge!r}"
                )
            pairs.append((parent, child))
        try:
            TopologicalSorter(_children(pairs)).prepare()
        except CycleError as error:
            cycle = [number_of.names[label] for label in error.args[1]]
            raise ValueError(
                f"rules holds a Hierarchy with a cycle of the labels {cycle}"
            ) from None
        for parent, child in pairs:
            conditions.add_edge(parent, child)

    def _pairs(self, number_of):
        """Return the edges as an iterable of pairs (parent, child)."""
        edges = self.edges
        if issparse(edges):
            n = number_of.n_labels
            if edges.shape != (n, n):
                raise ValueError(
                    "rules holds a Hierarchy with a sparse adjacency matrix, whose shape should be "
                    f"({n}, {n}), a row and a column for each label; got {edges.shape}"
                )
            return np.transpose(edges.nonzero()).tolist()
        if isinstance(edges, Mapping):
            return [
                (parent, child)
                for child, parents in edges.items()
                for parent in _listed(parents, number_of)
            ]
        if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
            raise ValueError(
                "rules holds a Hierarchy that is neither a list of pairs (parent, child) nor a "
                f"dict {{child: parent}}: {edges!r}"
            )
        return edges


@dataclass(frozen=True, eq=False)
class Forbidden(Rule):
    """A combination of values of some labels does not occur.

    Parameters
    ----------
    values : dict {label: 0 or 1}
        Forbidden value of each label; labels are given by name or index.

    Examples
    --------
    >>> from skcrbm.constraints import Forbidden
    >>> rule = Forbidden({"indoor": 1, "sky": 1, "window": 0})
    """

    values: Any

    def add_to(self, conditions, number_of):
        """Add the clause that at least one label has another value."""
        if not isinstance(self.values, Mapping) or not self.values:
            raise ValueError(
                f"rules holds {self!r}, whose values should be a dict {{label: 0 or 1}}"
            )
        labels = number_of.all_of(list(self.values), self)
        values = np.array(list(self.values.values()))
        if not np.isin(values, (0, 1)).all():
            raise ValueError(f"rules holds {self!r}, whose values should be 0 or 1")
        conditions.add_count(labels, 1 - values.astype(int), 1, len(labels))


@dataclass(frozen=True, eq=False)
class Allowed(Rule):
    """Only the listed combinations of values of some labels occur.

    Parameters
    ----------
    labels : list of labels
        Up to 16 labels, by name or index.
    rows : array-like of shape (n_rows, n_labels)
        Allowed combinations of 0 and 1, with one combination in each row.

    Examples
    --------
    >>> from skcrbm.constraints import Allowed
    >>> rule = Allowed(["low", "middle", "high"], [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    """

    labels: Any
    rows: Any

    def add_to(self, conditions, number_of):
        """Add the table of allowed combinations to `conditions`."""
        labels = number_of.some_of(self.labels, self)
        if len(labels) > _MAX_ALLOWED:
            raise ValueError(
                f"rules holds an Allowed of {len(labels)} labels; the limit is {_MAX_ALLOWED}"
            )
        try:
            rows = np.atleast_2d(np.asarray(self.rows))
        except ValueError:  # rows of different lengths
            rows = np.empty(0)
        if rows.shape[1:] != (len(labels),) or not len(rows) or not np.isin(rows, (0, 1)).all():
            raise ValueError(
                f"rules holds an Allowed of the labels {self.labels!r}; its rows should be a list "
                f"of one or more rows with {len(labels)} entries of 0 and 1 each"
            )
        allowed = np.zeros((2,) * len(labels), bool)
        allowed[tuple(rows.astype(int).T)] = True
        conditions.add_table(labels, allowed)


def _children(pairs):
    """Return the set of children of each parent."""
    found: dict[int, set] = {}
    for parent, child in pairs:
        found.setdefault(parent, set()).add(child)
    return found


def _listed(labels, number_of):
    """Return a list of labels unchanged, and a single label as a list with one entry.

    A tuple counts as a single label if it is the name of a label.
    """
    single = isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable)
    single = single or (isinstance(labels, tuple) and number_of.is_name(labels))
    return [labels] if single else list(labels)
