"""Batches of the rows on which structured models are trained, and the source of mini-batches.

A row is a whole sequence, graph or image, or a row of a table with several outputs. Sequences,
graphs and images are ragged: a row has any number of items, which are its positions, nodes or
pixels (see `utils/ragged.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from skcrbm.learning.data import Source
from skcrbm.targets.codes import MISSING
from skcrbm.targets.weights import count_rows_of, item_layers


class StoredBatch(ABC):
    """Base class of batches of n rows that are stored in memory.

    An objective splits a batch into parts (`pieces`), to bound the memory of inference.
    """

    weight: np.ndarray  # (n,) weights of the rows
    origin: Any  # (n,) number of the row of each copy; None if no row has several copies
    _cache: dict  # results that belong to this batch, such as its parts

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.weight)

    def blocks(self) -> list[Any]:
        """Return a list of the whole batch, because the objectives split a batch themselves."""
        return [self]

    def computed(self) -> Any:
        """Return the batch unchanged, because its arrays are stored and need no computation."""
        return self

    @abstractmethod
    def take(self, numbers: Any) -> Any:
        """Return the rows with the indices `numbers`, in the order of `numbers`."""

    def pieces(self, n_entries: int = 1) -> list[Any]:
        """Split the batch into parts of a few rows, to bound the memory.

        `n_entries` is the number of entries that the largest array of a model has per item, or per
        row of a table. The parts do not depend on the number of threads.
        """
        if len(self) == 1:
            return [self]
        # The cache never holds the batch itself: the circle of references would keep its arrays in
        # memory until the next garbage collection.
        if n_entries not in self._cache:
            groups, all_rows = self._groups(n_entries), np.arange(len(self))
            whole = len(groups) == 1 and np.array_equal(all_rows[groups[0]], all_rows)
            self._cache[n_entries] = [] if whole else [self.take(group) for group in groups]
        return self._cache[n_entries] or [self]

    @abstractmethod
    def _groups(self, n_entries: int) -> list[Any]:
        """Return the rows of each part, as arrays of indices or as slices."""


@dataclass(frozen=True, eq=False)  # equality by identity, because batches are keys of a cache
class RaggedBatch(StoredBatch):
    """Batch of n sequences, graphs or images, with T items in total.

    A subclass says how many rows a part has. If it has more arrays with an entry for each item, it
    adds their names to `_of_items`.
    """

    arrays: Any  # `SequenceArrays`, `GraphArrays` or `ImageArrays`
    path: np.ndarray  # (T,) class of each item, 0 to K - 1, or `MISSING` if it is not observed
    weight: np.ndarray  # (n,) weights of the rows
    index: np.ndarray  # (n,) position of each row in the X of the user, for messages
    # (T,) indices of the items in the batch from which `take` took them; None if not taken
    items: np.ndarray | None = field(default=None, kw_only=True)
    _cache: dict = field(default_factory=dict, init=False, repr=False)

    #: Word for a row in messages.
    word: ClassVar[str] = "row"
    #: Names of the arrays (T, ...) with an entry for each item; an array may also be None.
    _of_items: ClassVar[tuple[str, ...]] = ("path",)

    @property
    def origin(self) -> np.ndarray | None:
        """Number (n,) of the row of each copy, or None if no row has several copies."""
        return self.index if len(np.unique(self.index)) < len(self.index) else None

    @property
    def X(self) -> Any:
        """Features (T, D) of all items of sequences or graphs."""
        return self.arrays.X

    @property
    def start(self) -> np.ndarray:
        """First item (n + 1,) of each row."""
        return self.arrays.start

    def take(self, numbers: np.ndarray) -> Any:
        """Return the rows with the indices `numbers`, in the order of `numbers`."""
        arrays, items = self.arrays.take(numbers)
        given = {name: getattr(self, name) for name in self._of_items}
        own = {name: None if values is None else values[items] for name, values in given.items()}
        weight, index = self.weight[numbers], self.index[numbers]
        return replace(self, arrays=arrays, weight=weight, index=index, items=items, **own)

    def with_item_weights(self, weight: np.ndarray) -> Any:
        """Return the batch with weights (T,) of items in place of weights of rows.

        A row whose items have several weights is replaced by copies, see `item_layers`.
        """
        layers = item_layers(self.path, weight, self.start, MISSING)
        return replace(self.take(layers.row), path=layers.labels, weight=layers.weight, items=None)

    def free(self) -> Any:
        """Return the batch without labels."""
        return replace(self, path=np.full(len(self.path), MISSING))

    def single(self) -> Iterator[Any]:
        """Yield each row as a batch of its own."""
        if len(self) == 1:
            yield self
            return
        for c in range(len(self)):
            yield self.take(np.array([c]))

    def joined(self, pieces: list[Any], found: list[np.ndarray]) -> np.ndarray:
        """Join results (T_p, ...) for the items of each of the `pieces` of this batch.

        The result (T, ...) has the order of the items of this batch.
        """
        if pieces[0] is self:
            return found[0]
        result = np.empty((len(self.path), *found[0].shape[1:]), found[0].dtype)
        for piece, values in zip(pieces, found):
            result[piece.items] = values
        return result


class NoLabelsError(ValueError):
    """Raised if no labels of a row agree with the constraints and the known labels."""


def no_labels(row: RaggedBatch, name: str, method: str | None = None) -> NoLabelsError:
    """Return the error that no labels of a single row agree with the constraints.

    `name` is the argument of the known labels; the message has it if the row has known labels.
    `method` is the name of an approximate method that found no labels, although there may be some.
    None means that there are no labels.
    """
    words = f"{row.word} {row.index[0]} of X"
    start = f"{words} has no labels" if method is None else f"{method} found no labels of {words}"
    known = (row.path != MISSING).any()
    return NoLabelsError(
        f"{start} that agree with `forbidden`{f' and with its labels in {name}' if known else ''}"
    )


class StructureSource(Source):
    """Source of mini-batches of rows, in random order.

    `batch` is a `StoredBatch` of all rows. If all of them fit into a single mini-batch, the source
    yields `batch` itself, without shuffling. All copies of a row are in the same mini-batch, and
    are held out together.
    """

    def __init__(self, batch: Any):
        self.all = batch
        self.n_rows = len(batch)
        self.total_weight = float(batch.weight.sum())
        origin = batch.origin
        self._group = None if origin is None else np.unique(origin, return_inverse=True)[1]

    @property
    def n_originals(self) -> int:
        """Number of rows, where a row and its copies count as a single row."""
        return count_rows_of(self._group, self.n_rows)

    def count_originals(self, batch: Any) -> int:
        """Return the number of rows of a batch, where a row and its copies count as one row."""
        return count_rows_of(batch.origin, len(batch))

    def take(self, numbers: np.ndarray) -> Any:
        """Return the rows with the given numbers, with all their copies, as a batch."""
        if self._group is None:
            return self.all.take(numbers)
        return self.all.take(np.flatnonzero(np.isin(self._group, numbers)))

    def batches(self, rng: np.random.RandomState, size: int) -> Iterator[Any]:
        """Yield the batches of one pass; see `Source`."""
        n = self.n_originals
        if size >= n:
            yield self.all
            return
        order = rng.permutation(n)
        for start in range(0, n, size):
            yield self.take(order[start : start + size])

    def split(self, fraction: float, rng, stratify: bool = False) -> Any:
        """Hold out a fraction of the rows for validation; see `Source`."""
        n = self.n_originals
        n_held = int(np.ceil(fraction * n))
        if n_held >= n:
            return super().split(fraction, rng, stratify)
        order = rng.permutation(n)
        held, rest = np.sort(order[:n_held]), np.sort(order[n_held:])
        return StructureSource(self.take(rest)), self.take(held)
