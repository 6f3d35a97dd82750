"""Validate the parameters cliques, inputs and ties of LargeMarginMarkovNetwork."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from skcrbm.utils.graphs import checked_cliques, cliques_of_sizes
from skcrbm.utils.validation import as_real


def checked_inputs(inputs, n_features: int) -> np.ndarray:
    """Return a mask (n_features,) of the columns that are not inputs.

    A ValueError is raised if `inputs` are not distinct column indices, or if all columns are
    inputs.
    """
    is_output = np.ones(n_features, bool)
    if inputs is None:
        return is_output
    columns = np.asarray(inputs)
    if columns.size == 0:
        return is_output
    wrong = columns.ndim != 1 or columns.dtype.kind not in "iu"
    if wrong or columns.min() < 0 or columns.max() >= n_features:
        raise ValueError(
            f"inputs must be numbers of columns of X, from 0 to {n_features - 1}, or None; got "
            f"{inputs!r}"
        )
    is_output[columns] = False
    if len(set(columns.tolist())) < len(columns) or not is_output.any():
        raise ValueError(
            "inputs must be distinct columns of X, and at least one column must not be an input"
        )
    return is_output


def clique_scopes(cliques, is_output: np.ndarray) -> list[tuple[int, ...]]:
    """Return the columns of each clique.

    A ValueError is raised if `cliques` is neither "pairwise", an int of at least 1, nor a list of
    distinct sets of columns.
    """
    n_features = len(is_output)
    words = "cliques must be 'pairwise', an int of at least 1, or a list of tuples of columns"
    if isinstance(cliques, str):
        if cliques != "pairwise":
            raise ValueError(f"{words}; got {cliques!r}")
        cliques = 2
    if isinstance(cliques, Integral) and not isinstance(cliques, bool):
        if cliques < 1:
            raise ValueError(f"{words}; got {cliques!r}")
        sizes = range(1, min(int(cliques), n_features) + 1)
        every = cliques_of_sizes(n_features, sizes, f"cliques={cliques}", "the columns of X")
        return [clique for clique in every if is_output[list(clique)].any()]
    return checked_cliques(cliques, n_features, words, "columns of X")


def checked_ties(ties, n_cliques: int) -> Any:
    """Return the matrix (n_cliques, n_groups) that turns learned weights into clique weights.

    A ValueError is raised if `ties` is neither None, group indices (n_cliques,), nor a matrix of
    n_cliques rows.
    """
    if ties is None:
        return sparse.identity(n_cliques, format="csr")
    words = (
        f"ties must be None, numbers of groups ({n_cliques},) from 0 to {n_cliques - 1}, or a "
        f"matrix of {n_cliques} rows"
    )
    if not sparse.issparse(ties):
        ties = as_real(ties, "ties", f"({n_cliques},)")
        if ties.ndim == 1:
            if len(ties) != n_cliques or not np.isin(ties, np.arange(n_cliques)).all():
                raise ValueError(f"{words}; got {len(ties)} numbers, {ties.tolist()[:10]}")
            groups = ties.astype(np.int64)
            ones = np.ones(n_cliques), (np.arange(n_cliques), groups)
            return sparse.csr_matrix(ones, shape=(n_cliques, int(groups.max()) + 1))
    if ties.ndim != 2 or ties.shape[0] != n_cliques or ties.shape[1] == 0:
        raise ValueError(f"{words}; got shape {ties.shape}")
    mixing = sparse.csr_matrix(ties, dtype=np.float64, copy=True)
    mixing.sum_duplicates()
    if not np.isfinite(mixing.data).all():
        raise ValueError("ties must be finite")
    return mixing
