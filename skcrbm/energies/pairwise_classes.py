"""Pairwise models of variables that all have the same set of classes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skcrbm.energies._factors import TableFactors
from skcrbm.energies.graph import FactorGraphEnergy


def pairwise_classes(
    scores: np.ndarray,
    edges: np.ndarray,
    tables: np.ndarray,
    cliques: Iterable[tuple[np.ndarray, np.ndarray]] = (),
    closed: np.ndarray | None = None,
) -> FactorGraphEnergy:
    """Return a pairwise model of T variables with K classes each.

    The marginals of inference have an axis for the classes even if K = 2.

    `scores` (T, K) are the log-weights of the classes of each variable. `tables` (M, K, K) are the
    log-weights of the classes of the first variable (rows) and the second variable (columns) of the
    pairs in `edges` (M, 2). Each item of `cliques` describes C sets of m variables: an array (C, m)
    of variables, and the log-weights (K, ..., K) of the joint classes of the m variables. `closed`
    (T, K) is True for the classes that a variable must not have.
    """
    factors = [TableFactors(edges, tables)] if len(edges) else []
    factors += [TableFactors(scopes, np.repeat(table[None], len(scopes), axis=0))
                for scopes, table in cliques if len(scopes)]  # fmt: skip
    if closed is not None and closed.any():
        nodes = np.flatnonzero(closed.any(axis=1))
        factors.append(closing_factors(nodes, closed[nodes]))
    n_states = np.full(len(scores), scores.shape[1])
    return FactorGraphEnergy(factors, scores[None], n_states=n_states)


def closing_factors(nodes: np.ndarray, closed: np.ndarray) -> TableFactors:
    """Return factors that give the weight 0 to forbidden states.

    `closed` (n, K) is True for the states that the variables in `nodes` (n,) must not have.
    """
    return TableFactors(nodes[:, None], np.where(closed, -np.inf, 0.0))
