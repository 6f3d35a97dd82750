"""Rows of training data, the mini-batches in which they are visited, and records of epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.model_selection import train_test_split

from skcrbm.utils.columns import LazyRows, dense_chunks
from skcrbm.utils.warnings import warn_user

# A visit of a batch makes far fewer draws than this, so no two visits share random numbers.
_DRAWS_PER_STEP = 2**20
_CONSEQUENCE = "training goes on without early stopping"


@dataclass(frozen=True, eq=False)  # compared by identity: moments of a batch are cached by it
class Batch:
    """Rows of training data."""

    X: Any  # ndarray, CSR matrix or LazyRows (N, D)
    visible: np.ndarray  # (N, V), 0/1 outputs, NaN if not observed
    weight: np.ndarray  # (N,), positive weights of the rows
    index: np.ndarray  # (N,), position of each row in the training set

    def rows(self, index: np.ndarray | slice) -> Batch:
        """Return the given rows."""
        return Batch(self.X[index], self.visible[index], self.weight[index], self.index[index])

    def blocks(self) -> list[Batch]:
        """Cut a batch with dense X into views of a few megabytes."""
        if issparse(self.X) or self.X.shape[1] == 0:
            return [self]
        chunks = dense_chunks(self.X, self.visible.shape[1])
        return [self] if len(chunks) == 1 else [self.rows(rows) for rows in chunks]

    def computed(self) -> Batch:
        """Return the batch with `LazyRows` replaced by the array that they stand for."""
        return replace(self, X=np.asarray(self.X)) if isinstance(self.X, LazyRows) else self

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.weight)


class Clock(NamedTuple):
    """Time at which a batch is visited; it also selects the random numbers of the visit."""

    epoch: int  # 0-based, counted over warm starts; for schedules
    step: int  # counts the batches over the life of a model, refits and warm starts included
    key: Any = None  # uint64 key of the fit; None if the rule draws no random numbers

    def draw(self, number: int) -> int:
        """Return the counter of draw `number` of this visit; no other visit uses it."""
        return self.step * _DRAWS_PER_STEP + number


class Source(ABC):
    """Training rows that are visited in mini-batches."""

    n_rows: int  # rows of one pass
    total_weight: float  # sum of their weights

    @property
    def n_indices(self) -> int:
        """Upper bound of `Batch.index`: the size of a state with an entry per row."""
        return self.n_rows

    @abstractmethod
    def batches(self, rng: np.random.RandomState, size: int) -> Iterator[Batch]:
        """Yield the batches of one pass, each of `size` rows except the last."""

    def split(
        self, fraction: float, rng: np.random.RandomState, stratify: bool = False
    ) -> tuple[Source, Batch] | None:
        """Hold out a fraction of the rows for validation.

        With `stratify` both parts keep the share of each visible vector (1-D y). Returns the
        remaining rows and the held-out rows, or None, after a warning, if no rows can be held out.
        """
        warn_user(f"early_stopping: {type(self).__name__} cannot hold rows out; {_CONSEQUENCE}")
        return None


class ArraySource(Source):
    """Rows of arrays, visited in random order; a single batch is not shuffled.

    Only the rows of a batch are ever copied, so the arrays may be larger than the memory
    (`numpy.memmap`).

    Parameters
    ----------
    X, visible, weight, index
        As in `Batch`; `index` is the position of a row by default.
    n_indices : int, default=None
        As in `Source`; given if the rows are a part of a larger training set.
    positions : ndarray of int, default=None
        Rows of the arrays to visit; None visits all rows.
    """

    def __init__(
        self,
        X: Any,
        visible: np.ndarray,
        weight: np.ndarray,
        index: np.ndarray | None = None,
        n_indices: int | None = None,
        positions: np.ndarray | None = None,
    ):
        index = np.arange(len(weight)) if index is None else index
        self._arrays, self._positions = Batch(X, visible, weight, index), positions
        weight = weight if positions is None else weight[positions]
        self.n_rows = len(weight)
        self.total_weight = weight.sum()
        self._n_indices = self.n_rows if n_indices is None else n_indices

    @property
    def n_indices(self) -> int:
        """Upper bound of `Batch.index`."""
        return self._n_indices

    @cached_property
    def all(self) -> Batch:
        """All rows as one batch."""
        return self._arrays if self._positions is None else self._arrays.rows(self._positions)

    def _rows(self, numbers):
        """Return some of the visited rows by their numbers."""
        return self._arrays.rows(numbers if self._positions is None else self._positions[numbers])

    def batches(self, rng: np.random.RandomState, size: int) -> Iterator[Batch]:
        """Yield the batches of one pass; see `Source`."""
        if size >= self.n_rows:
            yield self.all
            return
        order = rng.permutation(self.n_rows)
        for start in range(0, self.n_rows, size):
            yield self._rows(order[start : start + size])

    def split(
        self, fraction: float, rng: np.random.RandomState, stratify: bool = False
    ) -> tuple[Source, Batch] | None:
        """Hold out a fraction of the rows for validation; see `Source`."""
        options = {"test_size": fraction, "random_state": rng.randint(np.iinfo(np.int32).max)}
        positions = np.arange(self.n_rows)
        try:
            parts = train_test_split(positions, **options)
        except ValueError as error:
            warn_user(f"early_stopping: no validation part ({error}); {_CONSEQUENCE}")
            return None
        if stratify:
            visible = self.all.visible
            strata = visible.argmax(axis=1) if visible.shape[1] > 1 else visible[:, 0]
            try:
                parts = train_test_split(positions, stratify=strata, **options)
            except ValueError as error:
                warn_user(
                    f"early_stopping: no stratified validation part ({error}); "
                    "the rows are split without regard to classes"
                )
        train, held_out = np.sort(parts[0]), self._rows(np.sort(parts[1]))
        if np.isnan(held_out.visible).all():
            warn_user(f"early_stopping: the validation part has no observed output; {_CONSEQUENCE}")
            return None
        train = train if self._positions is None else self._positions[train]
        a = self._arrays
        rest = ArraySource(a.X, a.visible, a.weight, a.index, self.n_indices, train)
        return rest, held_out


class Epoch(NamedTuple):
    """Facts about an epoch, known at its end."""

    number: int  # 0-based, counted over warm starts
    loss: float  # mean over rows, penalty included, averaged over the batches of the epoch
    score: float | None  # validation score
    converged: float  # share of rows whose inference converged
    seconds: float
    params: Any  # at the end of the epoch
    effective_share: float | None = None  # mean of `Step.effective_share` over the steps


@dataclass
class History:
    """Curves of a training run, its best epoch and the reason why it ended."""

    epochs: list[Epoch] = field(default_factory=list)  # without their parameters
    best: Any = None  # `Epoch` whose parameters are kept: best on validation data, or last
    reason: str = "max_iter"  # "max_iter", "no_change", "callback" or "interrupted"
    state: Any = None  # of the objective, after the last step

    def add(self, epoch: Epoch, best: Epoch) -> None:
        """Add an epoch and set the best epoch."""
        epochs = [*self.epochs, epoch._replace(params=None)]
        self.epochs, self.best = epochs, best  # on one line: an interrupt finds neither or both
