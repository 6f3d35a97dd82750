"""Exact answers about labels in trees, with limits on the number of labels that are 1.

The kernels are in `skcrbm.kernels.counted_trees`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skcrbm.kernels.counted_trees import Walks


def make_walks(after, on_step, off_step, low, top, stops, begins) -> Walks:
    """Return the named tuple `skcrbm.kernels.counted_trees.Walks` of contiguous arrays."""
    from skcrbm.kernels.counted_trees import Walks

    arrays = after, on_step, off_step, low, top, stops, begins
    return Walks(*(np.ascontiguousarray(array) for array in arrays))


class CountedTreeModels:
    """A batch of n models of L labels, with the log-odds `scores` (n, L).

    `walks`, a `skcrbm.kernels.counted_trees.Walks`, describes the trees and the limits. Column i of
    `scores` belongs to the label at position i of `walks`. `known` (n, L) holds the values of known
    labels, and NaN for all other labels. If no label vector of a model is allowed, its log-weight
    is -inf, and its other answers have no meaning.
    """

    def __init__(self, walks: Walks, scores: np.ndarray, known: np.ndarray | None):
        self.walks, self.scores = walks, np.ascontiguousarray(scores)
        if known is None:
            self.may_on = self.may_off = np.ones(scores.shape, bool)
        else:
            self.may_on = np.ascontiguousarray(known != 0)
            # A label is 1 if the label itself or one of its descendants is known to be 1.
            n_on = np.zeros((len(known), known.shape[1] + 1), np.int64)
            np.cumsum(known == 1, axis=1, out=n_on[:, 1:])
            self.may_off = np.ascontiguousarray(n_on[:, walks.after] == n_on[:, :-1])

    def sums(self, with_marginals: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return log Z (n,) and the marginals (n, L); if not requested, they are empty (0, L)."""
        from skcrbm.kernels.counted_trees import sum_walks

        n, n_labels = self.scores.shape
        log_z, proba = np.empty(n), np.empty((n if with_marginals else 0, n_labels))
        sum_walks(self.walks, self.scores, self.may_on, self.may_off, log_z, proba)
        return log_z, proba

    def best(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best label vectors (n, k, L) and their log-weights (n, k).

        If fewer than k vectors are allowed, the remaining vectors are filled with -1, and their
        log-weights are -inf.
        """
        from skcrbm.kernels.counted_trees import best_walks

        n, n_labels = self.scores.shape
        labels, scores = np.empty((n, k, n_labels), np.int64), np.empty((n, k))
        best_walks(self.walks, self.scores, self.may_on, self.may_off, labels, scores)
        return labels, scores

    def draw(
        self, n_samples: int, rng: np.random.RandomState, alike: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log Z (n,) and draws of label vectors (n, n_samples, L).

        If `alike` is True, all models use the same random numbers.
        """
        from skcrbm.kernels.counted_trees import draw_walks

        n, n_labels = self.scores.shape
        log_z, drawn = np.empty(n), np.empty((n, n_samples, n_labels), np.int8)
        for i in range(n):
            if i == 0 or not alike:
                uniform = rng.random_sample((n_samples, n_labels))
            model = self.scores[i], self.may_on[i], self.may_off[i]
            log_z[i] = draw_walks(self.walks, *model, uniform, drawn[i])
        return log_z, drawn
