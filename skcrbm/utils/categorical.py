"""Variables with classes: their 0/1 units, side by side, and the log-odds of their states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class OutputUnits:
    """Layout of the 0/1 units that encode L outputs with classes.

    An output of two classes has a single unit, which is on for the second class. An output of k > 2
    classes has k units, exactly one of which is on. An output with a single class has no unit.

    `n_classes` (L,) has the number of classes of each output. If `one_hot` is True, each output has
    a unit for each class, even if it has two classes or one.
    """

    def __init__(self, n_classes: Any, one_hot: bool = False):
        self.n_classes = np.asarray(n_classes, np.int64)
        grouped = (self.n_classes > 2) | one_hot
        self.sizes = np.where(grouped, self.n_classes, self.n_classes - 1)
        outputs = np.arange(len(self.sizes))
        self.output = np.repeat(outputs, self.sizes)  # (V,), index of the output of each unit
        # (L + 1,): output i has the units start[i] to start[i + 1] - 1
        self.start = np.concatenate([[0], np.cumsum(self.sizes)])
        # (L + 1,): number of classes of all outputs before output i
        self.first = np.concatenate([[0], np.cumsum(self.n_classes)])
        # (V,): True for the units of an output with a unit for each class. Exactly one unit of such
        # an output is on.
        self.exclusive = grouped[self.output]
        #: Index (V,) of the class of each unit, among the classes of all outputs side by side.
        self.place = np.arange(len(self.output)) - self.start[self.output]
        self.place += self.first[self.output] + ~self.exclusive
        # (G,): the outputs with a unit for each class
        self._grouped = outputs[grouped]
        # (V, G): 1 if unit v belongs to output g of these outputs
        self.member = (self.output[:, None] == self._grouped).astype(np.float64)

    def __eq__(self, other: object) -> bool:
        """Return True if the outputs have the same numbers of classes and of units."""
        if not isinstance(other, OutputUnits):
            return False
        pairs = (self.n_classes, other.n_classes), (self.sizes, other.sizes)
        return all(np.array_equal(one, two) for one, two in pairs)

    __hash__ = None  # type: ignore[assignment]  # equality compares arrays

    @property
    def n_units(self) -> int:
        """Number of units V."""
        return int(self.start[-1])

    @property
    def n_states(self) -> int:
        """Total number of classes, summed over the outputs."""
        return int(self.first[-1])

    @property
    def log2_vectors(self) -> float:
        """Binary logarithm of the number of vectors that hold a class for each output."""
        return math.fsum(math.log2(k) for k in self.n_classes.tolist())

    @property
    def groups(self) -> list[slice]:
        """Slice of the units of each output that has a unit for each class."""
        return [slice(int(self.start[i]), int(self.start[i + 1])) for i in self._grouped]

    def are_valid(self, units: np.ndarray) -> np.ndarray:
        """Return True (...,) for unit vectors (..., V) with one unit on in each of the `groups`."""
        return (units @ self.member == 1).all(axis=-1)

    def units_of(self, codes: np.ndarray) -> np.ndarray:
        """Return the units (..., V) for codes (..., L) of classes; NaN for missing codes.

        The units are int8 if the codes are integers; otherwise they have the dtype of the codes.
        """
        codes = np.asarray(codes)
        dtype = codes.dtype if codes.dtype.kind == "f" else np.dtype(np.int8)
        own = codes[..., self.output]
        units = (own == self.place - self.first[self.output]).astype(dtype)
        if dtype.kind == "f":
            units[np.isnan(own)] = np.nan
        return units

    def codes_of(self, units: np.ndarray) -> np.ndarray:
        """Return the codes (..., L), float64, of the classes for units (..., V).

        The code of an output is NaN if a unit of the output is NaN, or if the output has more than
        two classes and all units of the output are off.
        """
        units = np.asarray(units)
        codes = np.zeros((*units.shape[:-1], len(self.sizes)))
        for i, (start, size) in enumerate(zip(self.start.tolist(), self.sizes.tolist())):
            own = units[..., start : start + size]
            if size == 1:
                codes[..., i] = own[..., 0]
            elif size > 1:
                known = ~np.isnan(own).any(axis=-1) & (own == 1).any(axis=-1)
                codes[..., i] = np.where(known, np.argmax(own == 1, axis=-1), np.nan)
        return codes


def one_against_rest(log_weights: np.ndarray) -> np.ndarray:
    """Return the log-odds (..., K) of each state against all other states.

    `log_weights` (..., K) holds the log-weights of the K states. The log-odds are -inf for a state
    of weight 0, and inf if all other states have weight 0.
    """
    # Add the log-sums over the states before and after each state. Subtracting the weight of a
    # state with probability near 1 from the total would lose nearly all significant digits.
    empty = np.full((*log_weights.shape[:-1], 1), -np.inf)
    below = np.logaddexp.accumulate(np.concatenate([empty, log_weights], axis=-1), axis=-1)
    back = np.concatenate([empty, log_weights[..., ::-1]], axis=-1)
    above = np.logaddexp.accumulate(back, axis=-1)[..., ::-1]
    others = np.logaddexp(below[..., :-1], above[..., 1:])
    possible = log_weights > -np.inf
    return np.subtract(log_weights, others, out=np.full(others.shape, -np.inf), where=possible)
