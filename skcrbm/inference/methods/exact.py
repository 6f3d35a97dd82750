"""Options of "exact"."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies import BaseEnergy, FactorGraphEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.inference.base import InferenceMethod, Query, empty_result
from skcrbm.utils.limits import (
    MAX_ELIMINATED_ENTRIES,
    MAX_ENUMERATED,
    MAX_UNITS,
)
from skcrbm.utils.sklearn_private import Interval


class Exact(InferenceMethod):
    """Exact inference by enumerating states or eliminating variables.

    For an `RBMEnergy` the states of the smaller layer are enumerated, and the other layer is
    summed out analytically. For an `IsingEnergy` with a matrix of couplings all states of the free
    labels are enumerated. For an energy without a special solver all states of the free variables
    are enumerated.

    For a `FactorGraphEnergy`, and an `IsingEnergy` with sparse couplings, variables are eliminated
    one by one, by the min-fill rule: the next variable is always a variable whose elimination adds
    the fewest edges between its neighbours. Clamped variables are removed first. The width is the
    largest number of neighbours that a variable has when it is eliminated. The largest table has
    width + 1 variables, and its size determines the cost.

    "map" is the best joint state. "marginal_map" is the visible state with the largest sum over
    hidden states; the visible layer is enumerated to find it. If several states are equally good,
    the first of them in binary order is returned. "samples" are independent. "best_states" are the
    `n_best` best joint states. They are found by the enumeration or elimination that answers "map",
    with the same `max_units` and `max_entries`. If most couplings of an RBM or of a matrix are 0,
    elimination may be cheaper: convert the energy with `FactorGraphEnergy.from_energy`.

    In a `FactorGraphEnergy`, "marginal_map" maximises over the variables in `map_variables` and
    sums over all other variables. The variables of the sum are eliminated first, which may need
    larger tables than other orders. After the values of `map_variables` have been found, all other
    variables get their best joint state given these values. `map_bound` is the log-weight of the
    values of `map_variables`.

    All numbers are computed in float64 for every dtype of the energy. The cost is 2^min(V, H)
    max(V, H) for an RBM, 2^V H for its "marginal_map", and 2^L for an Ising model with L free
    labels.

    Parameters
    ----------
    max_units : int, default=20
        Largest number of units in the enumerated layer, or of free labels. For larger models an
        error is raised.
    random_state : int, RandomState or None, default=None
        Seed of "samples".
    max_entries : int, default=2**24
        Largest number of entries of a table of an elimination, at 8 bytes each. All tables together
        may have 16 times as many entries. For larger models an error is raised before any table is
        computed. The "best_states" of a model may have at most as many entries, too.
    map_variables : array-like of int, default=None
        Indices of the variables over which "marginal_map" of a `FactorGraphEnergy` maximises, such
        as the variables that `skcrbm.energies.read_uai_query` reads. Clamped variables may be among
        them. All other queries ignore this option.

    Raises
    ------
    ValueError
        Raised by `infer` if the layer to be enumerated is larger than `max_units`, if the tables of
        an elimination are larger than `max_entries` (the message contains the width), if
        enumeration would take more than a day on one core, or if no state has a positive weight.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> energy = RBMEnergy([[0.0, 0.0]], [0.0], [0.0, 0.0])
    >>> infer(energy, "exact", returns=("log_partition",)).log_partition.round(4)
    array([2.0794])

    Marginal MAP of variable 0 of a factor graph:

    >>> from skcrbm.energies import FactorGraphEnergy
    >>> graph = FactorGraphEnergy.from_tables([[0, 1]], [[[0.0, 1.4], [1.0, 1.2]]])
    >>> found = infer(graph, "exact", returns=("marginal_map", "map_bound"), map_variables=[0])
    >>> found.assignment, found.map_bound.round(4)
    (array([[1, 1]], dtype=int8), array([1.7981]))
    """

    name: ClassVar = "exact"
    refuses_contradictions: ClassVar = True
    answers: ClassVar = QUERIES
    hints: ClassVar = {
        "marginal_map": "'exact' needs map_variables, the indices of the variables to maximise over"
    }
    _parameter_constraints: ClassVar = {
        "max_units": [Interval(Integral, 0, MAX_UNITS, closed="both")],
        "max_entries": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "map_variables": ["array-like", None],
    }

    def __init__(
        self,
        max_units: int = MAX_ENUMERATED,
        random_state: int | np.random.RandomState | None = None,
        max_entries: int = MAX_ELIMINATED_ENTRIES,
        map_variables: ArrayLike | None = None,
    ):
        self.max_units = max_units
        self.max_entries = max_entries
        self.random_state = random_state
        self.map_variables = map_variables

    def supports(self, energy: BaseEnergy) -> frozenset:
        """Return the answers for an energy.

        The answers for a factor graph contain "marginal_map" only if `map_variables` is given.
        """
        found = super().supports(energy)
        if self.map_variables is None and isinstance(energy, FactorGraphEnergy):
            return found - {"marginal_map"}
        return found

    def solve(self, energy: BaseEnergy, query: Query) -> dict[str, Any]:
        """Compute the answers. A ValueError is raised if `map_variables` is not allowed."""
        asked = "marginal_map" in query.returns and self.map_variables is not None
        if asked and not isinstance(energy, FactorGraphEnergy):
            raise ValueError(
                "map_variables must be None for 'marginal_map' if the energy is not a "
                f"FactorGraphEnergy; the energy is of type {type(energy).__name__}"
            )
        rest = query.returns - {"best_states"}
        solved = bool(rest) or "best_states" not in query.returns
        fields = super().solve(energy, replace(query, returns=rest)) if solved else {}
        if rest != query.returns:
            from skcrbm.inference.exact.k_best import best_states

            fields = empty_result(energy, query) | fields
            fields |= best_states(self, energy, query)
        return fields
