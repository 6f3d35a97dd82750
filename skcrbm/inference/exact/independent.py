"""Find the k best joint states of variables that are independent given the enumerated variables."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the k largest values, in descending order of the values.

    Among equal values the smaller index comes first.
    """
    found = np.arange(len(values))
    if k < len(values):
        found = np.flatnonzero(values >= np.partition(values, -k)[-k])
    return found[np.argsort(-values[found], kind="stable")[:k]]


def k_best_joint(
    top: np.ndarray, scores_of: Callable[[int], np.ndarray], k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the k best joint states of enumerated states and m independent variables.

    Only the k enumerated states with the highest scores `top` can be part of the k best joint
    states, because each of them has a joint state of this score.

    Parameters
    ----------
    top : ndarray (M,)
        Score of the best joint state of each enumerated state.
    scores_of : callable
        Maps the index of an enumerated state to the scores (m, C) of the C states of each
        independent variable. The score of an impossible state is -inf.
    k : int
        Number of joint states.

    Returns
    -------
    ndarray (K,), ndarray (K, m) and ndarray (K,)
        For each joint state the index of the enumerated state, the states of the independent
        variables, and the score. There are fewer than k joint states if no others are possible.
    """
    # An entry is a joint state: its score with a minus sign, a number that orders equal scores, the
    # index of the enumerated state, and the variables that are not in their best state.
    heap = [(-float(top[i]), n, int(i), ()) for n, i in enumerate(largest(top, k))]
    heap = [entry for entry in heap if entry[0] < np.inf]
    numbers, ranked, found = count(len(heap)), {}, []
    while heap and len(found) < k:
        loss, _, i, changes = heapq.heappop(heap)
        if i not in ranked:
            ranked[i] = _Ranked(scores_of(i), k)
        found.append((i, ranked[i].states(changes), -loss))
        for more, others in ranked[i].next_changes(changes):
            heapq.heappush(heap, (loss + more, next(numbers), i, others))
    width = len(scores_of(0))
    states = np.array([states for _, states, _ in found], int).reshape(len(found), width)
    return np.array([i for i, *_ in found], int), states, np.array([score for *_, score in found])


class _Ranked:
    """The states of m independent variables, each variable's states in descending order of scores.

    Joint states are changes of the best joint state: a tuple of pairs (place, rank), in ascending
    order of the places. The variable at this place takes its state of this rank, where rank 0 is
    its best state. Variables with a small loss of their second state have the first places.
    """

    def __init__(self, scores: np.ndarray, k: int):
        self.order = np.argsort(-scores, axis=1, kind="stable")
        sorted_scores = np.take_along_axis(scores, self.order, axis=1)
        losses = sorted_scores[:, :1] - sorted_scores
        second = losses[:, 1] if losses.shape[1] > 1 else np.full(len(losses), np.inf)
        # Of the k best joint states, none changes a variable at a place after k.
        places = np.argsort(second, kind="stable")[:k]
        self.places = places[second[places] < np.inf]
        self.losses = losses[self.places].tolist()

    def states(self, changes: tuple) -> np.ndarray:
        """Return the states (m,) of the variables."""
        found = self.order[:, 0].copy()
        for place, rank in changes:
            v = self.places[place]
            found[v] = self.order[v, rank]
        return found

    def next_changes(self, changes: tuple) -> Any:
        """Yield the joint states that follow, and the loss of each compared with `changes`.

        Each joint state follows exactly one other joint state, whose score is not lower.
        """
        place, rank = changes[-1] if changes else (-1, 0)
        here = self.losses[place] if changes else [0.0]
        if changes and rank + 1 < len(here) and here[rank + 1] < np.inf:
            yield here[rank + 1] - here[rank], (*changes[:-1], (place, rank + 1))
        if place + 1 < len(self.losses):
            following = self.losses[place + 1][1], (place + 1, 1)
            yield following[0], (*changes, following[1])
            if rank == 1:
                yield following[0] - here[1], (*changes[:-1], following[1])
