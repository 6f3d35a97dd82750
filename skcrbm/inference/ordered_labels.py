"""Probabilities and draws of labels under implications; see `skcrbm.kernels.ordered_labels`."""

from __future__ import annotations

import numpy as np


def order_probabilities(
    proba: np.ndarray, parents: np.ndarray, children: np.ndarray, tolerance: float, sweeps: int
) -> np.ndarray:
    """Return the isotonic regression (N, L) of the probabilities of N rows of L labels.

    In each row, no child is more probable than one of its parents, and the sum of squared changes
    is the smallest. `parents` and `children` (E,) hold the labels of each edge. The search ends if
    no edge moves its probabilities by more than `tolerance`, or after a number of `sweeps`.
    """
    from skcrbm.kernels.ordered_labels import order_probabilities

    found = np.array(proba, np.float64, order="C")
    order_probabilities(parents, children, tolerance, sweeps, found)
    return found


class OrderedLabels:
    """An acyclic graph of L labels. A label is on only if all its parents are on.

    Parameters
    ----------
    order : list of int
        Labels, such that parents come before their children.
    parents, children : ndarray of int64 (E,)
        Labels of each edge.
    """

    def __init__(self, order: list[int], parents: np.ndarray, children: np.ndarray):
        n_labels = len(order)
        self._graph = (
            np.array(order, np.int64),
            _starts(children, n_labels),
            parents[np.argsort(children, kind="stable")],
            _starts(parents, n_labels),
            children[np.argsort(parents, kind="stable")],
        )

    def draw(self, proba: np.ndarray, n_draws: int, n_sweeps: int, seed: int) -> np.ndarray:
        """Return draws (n_draws, L) with the marginals `proba` (L,), which obey the graph.

        Equal seeds give equal random numbers. See `skcrbm.kernels.ordered_labels.draw_tables`.
        """
        from skcrbm.kernels.ordered_labels import LabelOrder, draw_tables

        table = np.empty((len(proba), n_draws), bool)
        draw_tables(LabelOrder(*self._graph), proba, n_sweeps, seed, table)
        return table.T


def _starts(labels, n_labels):
    """Return the position (L + 1,) of the first edge of each label, after sorting by `labels`."""
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_labels))])
