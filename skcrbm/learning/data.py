"""Define mini-batches, records of epochs, transformed inputs and initial parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import (
    dpstrf,  # pyright: ignore[reportAttributeAccessIssue]  # not in the stubs
)
from scipy.sparse import issparse
from sklearn.model_selection import train_test_split

from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.energies.rbm import CRBMParams
from skcrbm.learning.solvers import Adam, Solver
from skcrbm.targets.indicator import observed_weight
from skcrbm.targets.weights import (
    count_rows_of,
    folds_of_copies,
)
from skcrbm.utils.columns import Columns, LazyRows, dense_chunks, in_double
from skcrbm.utils.limits import (
    BLOCK_ENTRIES,
    LARGE_CONVEX_LABELS,
    MIN_SEARCH_ROWS,
    ROTATED_ROWS,
)
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.warnings import warn_user

# Number of random-number counters that each visit of a batch reserves. A visit needs far fewer
# counters, so that no two visits use the same random numbers.
_DRAWS_PER_STEP = 2**20
_CONSEQUENCE = "training continues without early stopping"
# Standard deviation of the initial weights. The weights are random, because hidden units with equal
# weights would stay equal.
_SMALL = 0.01
# The share of rows in which a label is on is clipped to [_LEAST_SHARE, 1 - _LEAST_SHARE], so that
# the log-odds are finite for a label that is never or always on.
_LEAST_SHARE = 0.005
# Factor of the learning rate of the weights W if the solver is Adam. If W had the same rate as the
# other parameters, the model would not learn to use its hidden units.
_ADAM_WEIGHTS_RATE = 5.0
# Mean change of the log-odds in the first step of `partial_fit`.
_FIRST_CHANGE = 3.0


# ---------------------------------------------------------------------------------------- batches


@dataclass(frozen=True, eq=False)  # equality by identity, because batches are keys of a cache
class Batch:
    """Rows of training data."""

    X: Any  # ndarray, CSR matrix or LazyRows (N, D)
    visible: np.ndarray  # (N, V), 0/1 outputs; an output that is not observed is NaN
    weight: np.ndarray  # (N,), positive weights of the rows
    index: np.ndarray  # (N,), position of each row in the training set
    # (N,), index of the row from which each row was copied; None if no row is a copy
    origin: np.ndarray | None = None

    def rows(self, index: np.ndarray | slice) -> Batch:
        """Return a batch of the rows at `index`."""
        origin = None if self.origin is None else self.origin[index]
        return Batch(
            self.X[index], self.visible[index], self.weight[index], self.index[index], origin
        )

    def blocks(self) -> list[Batch]:
        """Split the batch into blocks of a few megabytes.

        Blocks of a dense X are views of X. Blocks of a sparse X are copies, so a batch with a
        sparse X is split only if the array of its outputs is large.
        """
        n_rows, n_outputs = self.visible.shape
        if issparse(self.X):
            if n_rows * n_outputs <= LARGE_CONVEX_LABELS:
                return [self]
            chunks = row_chunks(n_rows, max(1, BLOCK_ENTRIES // n_outputs))
        elif self.X.shape[1] == 0:
            return [self]
        else:
            chunks = dense_chunks(self.X, n_outputs)
        return [self] if len(chunks) == 1 else [self.rows(rows) for rows in chunks]

    def computed(self) -> Batch:
        """Return the batch with X as an array, if the values of X are not stored (`LazyRows`)."""
        return replace(self, X=np.asarray(self.X)) if isinstance(self.X, LazyRows) else self

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.weight)


class Clock(NamedTuple):
    """Indices of the current epoch and batch, which also determine the random numbers drawn."""

    # Index of the epoch, from 0. Warm starts continue the count. Schedules depend on this index.
    epoch: int
    # Number of batches visited before this batch. Refits and warm starts continue the count.
    step: int
    key: Any = None  # uint64 key of the random numbers of the fit; None if the rule draws none

    def draw(self, number: int) -> int:
        """Return the counter at which the random numbers of a draw begin.

        `number` is the index of the draw in this batch, from 0. No other batch uses the same
        counter.
        """
        return self.step * _DRAWS_PER_STEP + number


class Source(ABC):
    """Training rows that are visited in mini-batches."""

    n_rows: int  # number of rows in one pass
    total_weight: float  # sum of the weights of the rows

    @property
    def n_indices(self) -> int:
        """Number of entries of the arrays that are indexed by `Batch.index`."""
        return self.n_rows

    @property
    def n_originals(self) -> int:
        """Number of rows in one pass, where a row and its copies count as a single row."""
        return self.n_rows

    def count_originals(self, batch: Any) -> int:
        """Return the number of rows of a batch, where a row and its copies count as one row."""
        return len(batch)

    @abstractmethod
    def batches(self, rng: np.random.RandomState, size: int) -> Iterator[Batch]:
        """Yield the batches of one pass, each of `size` rows except the last.

        All copies of a row are in the same batch, and count as a single row.
        """

    def split(
        self, fraction: float, rng: np.random.RandomState, stratify: bool = False
    ) -> tuple[Source, Batch] | None:
        """Hold out a fraction of the rows for validation.

        If `stratify` is True (for 1-D y), the shares of the classes are the same in both parts. The
        method returns the remaining rows and the held-out rows. If no rows can be held out, a
        warning is issued and the result is None.
        """
        warn_user(f"early_stopping: {type(self).__name__} cannot hold rows out; {_CONSEQUENCE}")
        return None


class ArraySource(Source):
    """Rows of arrays, visited in random order (in the given order if one batch has all rows).

    Only the rows of the current batch are copied, so that the arrays may be larger than the memory
    (`numpy.memmap`). `positions` selects the rows to visit; None selects all rows. `index` holds
    the entry of `Batch.index` for each row, by default the position of the row. If the rows are a
    part of a larger training set, `n_indices` must be the number of rows of the whole set. If some
    rows are copies of others, `origin` holds the index of the original row for each row. All copies
    of a row are visited in the same batch, and are held out together. A batch of 20 rows then has
    20 original rows with all their copies, so that the number of steps does not grow with the
    number of copies.
    """

    def __init__(
        self,
        X: Any,
        visible: np.ndarray,
        weight: np.ndarray,
        index: np.ndarray | None = None,
        n_indices: int | None = None,
        positions: np.ndarray | None = None,
        origin: np.ndarray | None = None,
    ):
        index = np.arange(len(weight)) if index is None else index
        self._arrays, self._positions = Batch(X, visible, weight, index, origin), positions
        weight = weight if positions is None else weight[positions]
        self.n_rows = len(weight)
        self.total_weight = weight.sum()
        self._n_indices = self.n_rows if n_indices is None else n_indices

    @property
    def n_indices(self) -> int:
        """Length of an array with one entry per row; see `Source`."""
        return self._n_indices

    @cached_property
    def all(self) -> Batch:
        """All rows as one batch."""
        return self._arrays if self._positions is None else self._arrays.rows(self._positions)

    @cached_property
    def _copies(self) -> list[np.ndarray] | None:
        """For each original row, the indices of its copies among the rows to visit."""
        if self._arrays.origin is None:
            return None
        origin = self._arrays.origin
        origin = origin if self._positions is None else origin[self._positions]
        order = np.argsort(origin, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(origin[order])) + 1)

    @property
    def n_originals(self) -> int:
        """Number of original rows; see `Source`."""
        return self.n_rows if self._copies is None else len(self._copies)

    def count_originals(self, batch: Batch) -> int:
        """Return the number of original rows of a batch; see `Source`."""
        return count_rows_of(batch.origin, len(batch))

    def _rows(self, numbers):
        """Return a batch of rows; `numbers` are their indices among the rows to visit."""
        return self._arrays.rows(numbers if self._positions is None else self._positions[numbers])

    def batches(self, rng: np.random.RandomState, size: int) -> Iterator[Batch]:
        """Yield the batches of one pass; see `Source`."""
        if size >= self.n_originals:
            yield self.all
            return
        order = rng.permutation(self.n_originals)
        for start in range(0, self.n_originals, size):
            chosen = order[start : start + size]
            if self._copies is not None:
                chosen = np.concatenate([self._copies[number] for number in chosen])
            yield self._rows(chosen)

    def split(
        self, fraction: float, rng: np.random.RandomState, stratify: bool = False
    ) -> tuple[Source, Batch] | None:
        """Hold out a fraction of the rows for validation; see `Source`."""
        options = {"test_size": fraction, "random_state": rng.randint(np.iinfo(np.int32).max)}
        origin = self.all.origin if self._arrays.origin is not None else None
        positions = np.arange(count_rows_of(origin, self.n_rows))
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
        if origin is not None:
            parts = folds_of_copies([parts], origin)[0]
        train, held_out = np.sort(parts[0]), self._rows(np.sort(parts[1]))
        if np.isnan(held_out.visible).all():
            warn_user(f"early_stopping: the validation part has no observed output; {_CONSEQUENCE}")
            return None
        train = train if self._positions is None else self._positions[train]
        a = self._arrays
        rest = ArraySource(a.X, a.visible, a.weight, a.index, self.n_indices, train, a.origin)
        return rest, held_out


class Epoch(NamedTuple):
    """Record of a finished epoch."""

    number: int  # index of the epoch, from 0; warm starts continue the count
    loss: float  # mean loss per row plus the penalty, averaged over the batches of the epoch
    score: float | None  # validation score; None if no rows are held out
    converged: float  # share of rows whose inference converged
    seconds: float
    params: Any  # parameters at the end of the epoch
    effective_share: float | None = None  # mean of `Step.effective_share` over the steps

    @property
    def summary(self) -> str:
        """Text that the progress line shows."""
        score = "" if self.score is None else f"  validation {self.score:.4f}"
        return f"loss {self.loss:.4f}{score}  converged {self.converged:.1%}"


@dataclass
class History:
    """Epochs of a training run, its best epoch and the reason why the run ended."""

    epochs: list[Epoch] = field(default_factory=list)  # all epochs, without their parameters
    # `Epoch` with the best validation score; the last epoch if no rows are held out
    best: Any = None
    reason: str = "max_iter"  # "max_iter", "no_change", "callback" or "interrupted"
    state: Any = None  # state of the objective after the last step

    def add(self, epoch: Epoch, best: Epoch) -> None:
        """Add an epoch and set the best epoch."""
        epochs = [*self.epochs, epoch._replace(params=None)]
        # Set both in one statement, so that an interrupt cannot come between the assignments.
        self.epochs, self.best = epochs, best


# ------------------------------------------------------------------------------------ coordinates


def _linear_parts(params):
    """Return the names of all coefficients of the inputs, each with the name of its intercepts.

    An example is ("hidden_coef", "hidden_intercept").
    """
    names = [name for name in params._fields if name.endswith("coef")]
    return [(name, name.removesuffix("coef") + "intercept") for name in names]


class _ScaledColumns:
    """Convert parameters of a model between the given columns x and scaled columns z."""

    def __init__(self, columns):
        self.columns = columns

    def inner(self, params):
        """Convert parameters for x to parameters for z.

        The coefficients of constant columns are added to the intercepts.
        """
        return self._mapped(params, self.columns.inside)

    def outer(self, params):
        """Convert parameters for z to parameters for x."""
        return self._mapped(params, self.columns.as_given)

    def _mapped(self, params, change):
        params = type(params)(*(np.asarray(array, np.float64) for array in params))
        changed = {}
        for names in _linear_parts(params):
            changed |= zip(names, change(*(getattr(params, name) for name in names)))
        return params._replace(**changed)


class RowSpace:
    """Express the rows of Z (N, D) by coordinates in the space that the rows span.

    If the penalty is L2, the optimal coefficients lie in this space. Therefore a fit to the
    coordinates `X` (N, rank) gives the same model as a fit to Z, with at most N instead of D
    parameters per unit. The coordinates refer to an orthonormal basis, which is never computed: a
    pivoted Cholesky factor of ZZ' gives the coordinates directly.
    """

    def __init__(self, Z):
        with np.errstate(over="ignore", invalid="ignore"):
            gram = Z @ Z.T
            gram = gram.toarray() if issparse(gram) else gram
        if not np.isfinite(gram).all():
            raise ValueError("X is so large that its squares overflow; scale the columns of X")
        scale = max(float(gram.diagonal().max(initial=0.0)), np.finfo(np.float64).tiny)
        factor, order, rank, _ = dpstrf(gram / scale, lower=1)
        order = order - 1
        factor = np.tril(factor)[:, :rank] * np.sqrt(scale)
        self.X = np.empty_like(factor)
        self.X[order] = factor
        self._corner = np.ascontiguousarray(factor[:rank])  # (rank, rank), lower triangular
        self._rows = Z[order[:rank]]

    def inner(self, params):
        """Project parameters for the rows z of Z to parameters for the coordinates."""
        return self._mapped(params, self._project)

    def outer(self, params):
        """Convert parameters for the coordinates to parameters for the rows z of Z."""
        return self._mapped(params, self._spread)

    def _mapped(self, params, change):
        coefs = [name for name, _ in _linear_parts(params)]
        return params._replace(**{name: change(getattr(params, name)) for name in coefs})

    def _project(self, coef):
        return np.ascontiguousarray(self._solve(np.asarray(self._rows @ coef.T), "N").T)

    def _solve(self, right, trans):
        if not len(self._corner):  # rank 0: SciPy before 1.14 refuses to solve an empty system
            return right
        return solve_triangular(self._corner, right, lower=True, trans=trans)

    def _spread(self, coef):
        weights = self._solve(coef.T, "T")
        return np.ascontiguousarray(np.asarray(self._rows.T @ weights).T)


class Design:
    """Transform the X of the user to training rows; convert models for X to these rows and back.

    `columns` scales the columns of X; if `columns` is None, they are not scaled. If `double` is
    True, X is converted to float64. If `rotate` is True and there are more columns than rows, X is
    replaced by the coordinates of its `RowSpace`. `dtype` is the dtype of models for the X of the
    user, by default the dtype of X. The attribute `X` contains the training rows: an array, a CSR
    matrix or `LazyRows`.
    """

    def __init__(
        self,
        X: Any,
        columns: Columns | None = None,
        *,
        double: bool = False,
        rotate: bool = False,
        dtype: Any = None,
    ):
        self._dtype, self._double = X.dtype if dtype is None else np.dtype(dtype), double
        self.columns = columns
        self._maps, given = [], X.dtype
        if columns is not None:
            self._maps.append(_ScaledColumns(columns))
        rotate = rotate and X.shape[0] < X.shape[1] and X.shape[0] <= ROTATED_ROWS
        if double:
            X = in_double(X, columns)
        elif columns is not None:
            X = columns.transform(X, X.dtype)
        if rotate:
            space = RowSpace(X if issparse(X) else np.asarray(X, np.float64))
            self._maps.append(space)
            X = space.X
        self.X = X if double else X.astype(given, copy=False)

    def inner(self, model):
        """Convert a model for the X of the user to a model for the training rows."""
        if not self._maps and not self._double:
            return model
        params = model.params
        for space in self._maps:
            params = space.inner(params)
        return model._replace(params=_cast(params, self.X.dtype))

    def outer(self, model):
        """Convert a model for the training rows to a model for the X of the user."""
        if not self._maps and not self._double:
            return model
        params = model.params
        for space in reversed(self._maps):
            params = space.outer(params)
        return model._replace(params=_cast(params, self._dtype))


def _cast(params, dtype):
    with np.errstate(over="ignore"):
        cast = type(params)(*(np.asarray(p).astype(dtype, copy=False) for p in params))
    if not all(np.isfinite(p).all() for p in cast):
        raise ValueError(
            f"X has columns with such small values that their coefficients overflow {dtype}; "
            "scale the columns of X"
        )
    return cast


# ----------------------------------------------------------------------------- initial parameters


def mean_square(X, weight):
    """Return the weighted mean of the squared lengths of the rows of X, dense or sparse."""
    squares = X.multiply(X).sum(axis=1) if issparse(X) else np.einsum("ij,ij->i", X, X)
    return float(weight @ np.asarray(squares, np.float64).ravel() / weight.sum())


def n_used_columns(X: Any) -> int:
    """Return the number of columns of X, dense or sparse, that are not 0 in all rows."""
    return int(np.count_nonzero(np.asarray(abs(X).sum(axis=0))))


def crbm_rate_factors(solver: Solver, column_scale: float = 1.0) -> CRBMParams:
    """Return the relative learning rates of the parameters of a conditional RBM.

    `column_scale` is the typical size of an entry of X. With the automatic step size of Adam, small
    columns get a larger rate, because their coefficients are larger and would need more steps.
    """
    if not isinstance(solver, Adam):
        return CRBMParams(1.0, 1.0, 1.0, 1.0, 1.0)
    inputs = 1.0 / column_scale if isinstance(solver.learning_rate, str) else 1.0
    return CRBMParams(_ADAM_WEIGHTS_RATE, inputs, inputs, 1.0, 1.0)


def crbm_first_rates(X: Any, weight: np.ndarray) -> CRBMParams | tuple[()]:
    """Return the learning rates of the coefficients of X in the first steps of `partial_fit`.

    If all rows of positive weight are 0, the result is the empty tuple, because such rows do not
    tell the scale of the columns.

    A step of Adam changes each coefficient by about its rate at most, so the log-odds of a row
    change by at most the rate times the sum of the row's absolute values. The rates are chosen such
    that this change is `_FIRST_CHANGE` on average for sparse columns, whatever their scale and
    number. For dense columns it is a third of this number, because every step moves all
    coefficients of dense columns.
    """
    lengths = np.asarray(np.abs(X).sum(axis=1), np.float64).ravel()
    length = float(weight @ lengths / weight.sum())
    entries = X.count_nonzero() if issparse(X) else np.count_nonzero(X)
    density = entries / max(1, X.shape[0] * n_used_columns(X))
    if length == 0:
        return ()
    rate = _FIRST_CHANGE / (1 + 2 * density) / length
    return CRBMParams(0.0, rate, rate, 0.0, 0.0)


def crbm_params(
    visible: np.ndarray,
    weight: np.ndarray,
    n_features: int,
    n_hidden: int,
    rng: np.random.RandomState,
    weights_scale: float = _SMALL,
    hidden_scale: float = _SMALL,
) -> CRBMParams:
    """Return initial parameters of a conditional RBM.

    The weights W between labels and hidden units, and the coefficients S of the features for the
    hidden units, are drawn from normal distributions with the standard deviations `weights_scale`
    and `hidden_scale`. The intercepts b of the labels are the log-odds of the share of rows in
    which each label is on. `visible` (N, V) holds V labels of N rows; a missing label is NaN. The
    random numbers depend neither on the labels nor on the weights of the rows.
    """
    n_visible, dtype = visible.shape[1], visible.dtype
    weights = rng.normal(scale=weights_scale, size=(n_visible, n_hidden))
    hidden_coef = rng.normal(scale=hidden_scale, size=(n_hidden, n_features))
    on, observed = observed_weight(visible, weight)
    share = np.divide(on, observed, out=np.full(n_visible, 0.5), where=observed > 0)
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    # At first each hidden unit has the mean 0.5, so subtract the mean effect of the hidden units
    # from the intercepts.
    intercept = np.log(share) - np.log1p(-share) - 0.5 * weights.sum(axis=1)
    return CRBMParams(
        weights.astype(dtype),
        np.zeros((n_visible, n_features), dtype),
        hidden_coef.astype(dtype),
        intercept.astype(dtype),
        np.zeros(n_hidden, dtype),
    )


def smoothed_log_odds(
    visible: np.ndarray,
    weight: np.ndarray,
    exclusive: bool | np.ndarray = False,
    n_rows: int | None = None,
) -> np.ndarray:
    """Return the log-odds (V,) of the share of rows with each label on, in float64.

    The shares are smoothed: for each label, half a row with the label on and half a row with the
    label off are added. `exclusive`, a bool or an array (V,), is True for units that stand for the
    classes of an output, so that exactly one of them is on. For these units the logarithms of the
    shares are returned instead of log-odds. `n_rows` is the number of rows if some of the given
    rows are copies; None means that there are no copies.
    """
    # Scale the weights so that their sum is the number of rows, or MIN_SEARCH_ROWS if there are
    # fewer rows. With this lower limit, repeating a row of a tiny data set has the same effect as
    # doubling its weight.
    n_rows = len(weight) if n_rows is None else n_rows
    weight = weight * (max(n_rows, MIN_SEARCH_ROWS) / weight.sum())
    on, observed = observed_weight(visible, weight)
    share = (on + 0.5) / (observed + 1)
    return np.log(share) - np.where(exclusive, 0.0, np.log1p(-share))


def max_margin_weights_scale(n_visible: int, n_hidden: int) -> float:
    """Return an initial standard deviation of W that is large enough for max-margin learning.

    With smaller weights the best states of all rows would be the same.
    """
    return 2 / max(n_hidden, n_visible) ** 0.5


def layered_params(structure, input_mean: np.ndarray, rng, dtype) -> LayeredParams:
    """Return initial parameters of a layered model, with random pairwise scores.

    The unary scores of an input node are the log-odds of each state relative to state 0. They are
    computed from `input_mean` (D (l - 1),), which holds the share of rows with each state except
    state 0. Rows in which the node is missing do not count. D is the number of input nodes, and l
    is the number of states of each input node.
    """
    weights = []
    for connection in structure.connections:
        into, out_of = connection.mean_degrees
        scale = np.sqrt(2.0 / (into + out_of))
        weights.append(rng.normal(scale=scale, size=connection.n_weights))
    unaries = [np.zeros((n, s - 1)) for n, s in zip(structure.n_nodes, structure.n_states)]
    p = np.clip(input_mean.reshape(unaries[0].shape), _LEAST_SHARE, 1 - _LEAST_SHARE)
    rest = np.maximum(1 - p.sum(axis=1, keepdims=True), _LEAST_SHARE)
    unaries[0][:] = np.log(p) - np.log(rest)
    return LayeredParams(*(p.astype(dtype) for p in structure.params(unaries, weights)))
