"""Where the training loop gets its rows from."""

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from sklearn.model_selection import train_test_split

from skcrbm.learning._base import Batch
from skcrbm.utils.warnings import warn_user

_WITHOUT = "training goes on without early stopping"


class Source(ABC):
    """Training rows, drawn in mini-batches.

    Attributes
    ----------
    n_rows : int
        Rows of one pass.
    total_weight : float
        Sum of their weights.
    n_indices : int
        Every `Batch.index` is below this: the size of a state that is kept for each row.
    """

    n_rows: int
    total_weight: float

    @property
    def n_indices(self):
        """Number of rows that `Batch.index` tells apart."""
        return self.n_rows

    @abstractmethod
    def batches(self, rng, size):
        """Yield the batches of one pass, each of `size` rows but for the last one.

        Parameters
        ----------
        rng : RandomState
            For the order of the rows.
        size : int
        """

    def split(self, fraction, rng, stratify=False):
        """Hold rows out for validation.

        Parameters
        ----------
        fraction : float
        rng : RandomState
        stratify : bool
            Whether to keep the share of each visible vector (1-D y).

        Returns
        -------
        (Source, Batch) or None
            The other rows, and those held out; None, after a warning, if there can be none.
        """
        warn_user(f"early_stopping: {type(self).__name__} cannot hold rows out; {_WITHOUT}")


class ArraySource(Source):
    """Rows of arrays, visited in random order; a single batch is not shuffled.

    Only the rows of a batch are ever copied, so that the arrays may be larger than the memory
    (`numpy.memmap`).

    Parameters
    ----------
    X, visible, weight, index
        As in `Batch`; `index` is the position of a row by default.
    n_indices : int, default=None
        As in `Source`: more than the rows where these are a part of others.
    positions : ndarray of int, default=None
        Which rows of the arrays to visit; all by default.
    """

    def __init__(self, X, visible, weight, index=None, n_indices=None, positions=None):
        index = np.arange(len(weight)) if index is None else index
        self._arrays, self._positions = Batch(X, visible, weight, index), positions
        weight = weight if positions is None else weight[positions]
        self.n_rows = len(weight)
        self.total_weight = weight.sum()
        self._n_indices = self.n_rows if n_indices is None else n_indices

    @property
    def n_indices(self):
        """Number of rows that `Batch.index` tells apart."""
        return self._n_indices

    @cached_property
    def all(self):
        """All rows, as one batch."""
        return self._arrays if self._positions is None else self._arrays.rows(self._positions)

    def _rows(self, numbers):
        """Return some rows, by their number among those that are visited."""
        return self._arrays.rows(numbers if self._positions is None else self._positions[numbers])

    def batches(self, rng, size):
        """Yield the batches of one pass; see `Source`."""
        if size >= self.n_rows:
            yield self.all
            return
        order = rng.permutation(self.n_rows)
        for start in range(0, self.n_rows, size):
            yield self._rows(order[start : start + size])

    def split(self, fraction, rng, stratify=False):
        """Hold rows out for validation; see `Source`."""
        options = {"test_size": fraction, "random_state": rng.randint(np.iinfo(np.int32).max)}
        positions = np.arange(self.n_rows)
        try:
            parts = train_test_split(positions, **options)
        except ValueError as error:
            warn_user(f"early_stopping: no validation part ({error}); {_WITHOUT}")
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
            warn_user(f"early_stopping: the validation part has no observed output; {_WITHOUT}")
            return None
        train = train if self._positions is None else self._positions[train]
        a = self._arrays
        rest = ArraySource(a.X, a.visible, a.weight, a.index, self.n_indices, train)
        return rest, held_out
