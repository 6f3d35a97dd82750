"""Coordinates in which a conditional RBM is trained: scaled columns, and the space of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.sparse import issparse

from skcrbm.energies.models import CRBMParams
from skcrbm.utils.columns import Columns, in_double
from skcrbm.utils.limits import ROTATED_ROWS


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


def mean_square(X, weight):
    """Return the mean square length of a row of X, dense or sparse."""
    squares = X.multiply(X).sum(axis=1) if issparse(X) else np.einsum("ij,ij->i", X, X)
    return float(weight @ np.asarray(squares, np.float64).ravel() / weight.sum())


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
