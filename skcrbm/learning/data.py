"""The data of a fit: coordinates to train in, mini-batches, records of epochs, first parameters."""

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
from skcrbm.utils.columns import Columns, LazyRows, dense_chunks, in_double
from skcrbm.utils.labels import observed_weight
from skcrbm.utils.limits import MIN_SEARCH_ROWS, ROTATED_ROWS
from skcrbm.utils.warnings import warn_user

# A visit of a batch makes far fewer draws than this, so no two visits share random numbers.
_DRAWS_PER_STEP = 2**20
_CONSEQUENCE = "training goes on without early stopping"
# Standard deviation of the noise that breaks the symmetry between hidden units.
_SMALL = 0.01
# A label that is never (always) on gets the log-odds of this share (of 1 - share).
_LEAST_SHARE = 0.005
# With Adam W must move faster than the other parameters, or the hidden units stay off.
_ADAM_WEIGHTS_RATE = 5.0


# ---------------------------------------------------------------------------------------- batches


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


# ------------------------------------------------------------------------------------ coordinates


class _ScaledColumns:
    """Maps of the parameters of a conditional RBM between X and scaled columns z."""

    def __init__(self, columns):
        self.columns = columns

    def inner(self, params):
        """Turn parameters for x into parameters for z; constant columns go to the intercepts."""
        return self._mapped(params, self.columns.inside)

    def outer(self, params):
        """Turn parameters for z into parameters for x."""
        return self._mapped(params, self.columns.as_given)

    def _mapped(self, params, change):
        p = CRBMParams(*(np.asarray(a, np.float64) for a in params))
        visible_coef, visible_intercept = change(p.visible_coef, p.visible_intercept)
        hidden_coef, hidden_intercept = change(p.hidden_coef, p.hidden_intercept)
        return CRBMParams(p.weights, visible_coef, hidden_coef, visible_intercept, hidden_intercept)


class RowSpace:
    """The rows of Z as coordinates `X` (N, rank) in an orthonormal basis of the space they span.

    With an L2 penalty the best coefficients lie in that space, so a fit in these coordinates
    is the same with N instead of D parameters per unit. The basis belongs to a pivoted Cholesky
    factor of ZZ' and is never formed.
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
        self._corner = np.ascontiguousarray(factor[:rank])  # (rank, rank), lower
        self._rows = Z[order[:rank]]

    def inner(self, params):
        """Project parameters for z on the space of the rows."""
        return params._replace(
            visible_coef=self._project(params.visible_coef),
            hidden_coef=self._project(params.hidden_coef),
        )

    def outer(self, params):
        """Return the parameters for z."""
        return params._replace(
            visible_coef=self._spread(params.visible_coef),
            hidden_coef=self._spread(params.hidden_coef),
        )

    def _project(self, coef):
        return np.ascontiguousarray(self._solve(np.asarray(self._rows @ coef.T), "N").T)

    def _solve(self, right, trans):
        if not len(self._corner):  # all rows are 0; SciPy before 1.14 refuses an empty system
            return right
        return solve_triangular(self._corner, right, lower=True, trans=trans)

    def _spread(self, coef):
        weights = self._solve(coef.T, "T")
        return np.ascontiguousarray(np.asarray(self._rows.T @ weights).T)


class Design:
    """Rows to train on, and the maps between their parameters and the parameters for X as given.

    Parameters
    ----------
    X : ndarray or CSR matrix (N, D)
    columns : Columns or None, default=None
        Scales of the columns; None leaves the columns as they are.
    double : bool, default=False
        Train in float64 whatever the dtype of X.
    rotate : bool, default=False
        Train in the space of the rows if there are more columns than rows.

    Attributes
    ----------
    X : ndarray, CSR matrix or LazyRows
        Rows to train on.
    columns : Columns or None
    """

    def __init__(
        self, X: Any, columns: Columns | None = None, *, double: bool = False, rotate: bool = False
    ):
        self._dtype, self._double = X.dtype, double
        self.columns = columns
        self._maps = []
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
        self.X = X if double else X.astype(self._dtype, copy=False)

    def inner(self, model):
        """Turn a model for X as given into a model for the rows to train on."""
        if not self._maps and not self._double:
            return model
        params = model.params
        for space in self._maps:
            params = space.inner(params)
        return model._replace(params=_cast(params, self.X.dtype))

    def outer(self, model):
        """Turn a trained model into a model for X as given."""
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
            f"X has columns so small that their coefficients are too large for {dtype}; scale the "
            "columns of X"
        )
    return cast


# ------------------------------------------------------------------------------- first parameters


def mean_square(X, weight):
    """Return the mean square length of a row of X, dense or sparse."""
    squares = X.multiply(X).sum(axis=1) if issparse(X) else np.einsum("ij,ij->i", X, X)
    return float(weight @ np.asarray(squares, np.float64).ravel() / weight.sum())


def crbm_rate_factors(solver: Solver, column_scale: float = 1.0) -> CRBMParams:
    """Return the relative learning rates of the parameters of a conditional RBM.

    With the automatic step size of Adam, columns of a smaller scale get a larger rate, because
    their coefficients have further to go.
    """
    if not isinstance(solver, Adam):
        return CRBMParams(1.0, 1.0, 1.0, 1.0, 1.0)
    inputs = 1.0 / column_scale if isinstance(solver.learning_rate, str) else 1.0
    return CRBMParams(_ADAM_WEIGHTS_RATE, inputs, inputs, 1.0, 1.0)


def crbm_params(
    visible: np.ndarray,
    weight: np.ndarray,
    n_features: int,
    n_hidden: int,
    rng: np.random.RandomState,
    weights_scale: float = _SMALL,
    hidden_scale: float = _SMALL,
) -> CRBMParams:
    """Draw W and S with these standard deviations, and set b to the log-odds of the labels.

    The random numbers do not depend on the rows `visible` (N, V), which hold NaN if a label is
    missing, nor on their weights.
    """
    n_visible, dtype = visible.shape[1], visible.dtype
    weights = rng.normal(scale=weights_scale, size=(n_visible, n_hidden))
    hidden_coef = rng.normal(scale=hidden_scale, size=(n_hidden, n_features))
    on, observed = observed_weight(visible, weight)
    share = np.divide(on, observed, out=np.full(n_visible, 0.5), where=observed > 0)
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    # Hidden units start half on: subtract their mean pull from the intercept.
    intercept = np.log(share) - np.log1p(-share) - 0.5 * weights.sum(axis=1)
    return CRBMParams(
        weights.astype(dtype),
        np.zeros((n_visible, n_features), dtype),
        hidden_coef.astype(dtype),
        intercept.astype(dtype),
        np.zeros(n_hidden, dtype),
    )


def smoothed_log_odds(
    visible: np.ndarray, weight: np.ndarray, categorical: bool = False
) -> np.ndarray:
    """Return the log-odds (V,) of the labels' shares, in float64.

    Half a row with the label on and half a row with it off are added. For `categorical` units, of
    which exactly one is on, the logarithms of the shares are returned.
    """
    # Weights are scaled as if there were a least number of rows, so that copies of few rows and
    # weights give the same result.
    weight = weight * (max(len(weight), MIN_SEARCH_ROWS) / weight.sum())
    on, observed = observed_weight(visible, weight)
    share = (on + 0.5) / (observed + 1)
    return np.log(share) - (0 if categorical else np.log1p(-share))


def max_margin_weights_scale(n_visible: int, n_hidden: int) -> float:
    """Return a standard deviation of W at which the best states of the rows differ."""
    return 2 / max(n_hidden, n_visible) ** 0.5


def layered_params(structure, input_mean: np.ndarray, rng, dtype) -> LayeredParams:
    """Draw the pairwise scores, and set the unary scores of the inputs to their log-odds.

    `input_mean` (D (l - 1),) is the mean of each state of each input node over the rows in which
    it is observed.
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
