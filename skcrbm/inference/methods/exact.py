"""Options of "exact", and functions that split a query into parts and estimate the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies import BaseEnergy, FactorGraphEnergy
from skcrbm.energies.base import QUERIES
from skcrbm.inference.base import InferenceMethod, Query, empty_result
from skcrbm.utils.limits import (
    EXACT_NANOSECONDS,
    MAX_ELIMINATED_ENTRIES,
    MAX_ENUMERATED,
    MAX_EXACT_SECONDS,
    MAX_UNITS,
)
from skcrbm.utils.sklearn_private import Interval

_SUMS = frozenset({"marginals", "statistics", "log_partition"})
_STATES = frozenset({"map", "marginal_map"})
_SAMPLES = frozenset({"samples", "sample_log_prob"})


class Exact(InferenceMethod):
    """Exact inference by enumerating states or eliminating variables.

    For an `RBMEnergy` the states of the smaller layer are enumerated, and the other layer is
    summed out analytically. For an `IsingEnergy` all states of the free labels are enumerated. For
    an energy without a special solver all states of the free variables are enumerated.

    For a `FactorGraphEnergy` or `SparseIsingEnergy` variables are eliminated one by one, by the
    min-fill rule: the next variable is always a variable whose elimination adds the fewest edges
    between its neighbours. Clamped variables are removed first. The width is the largest number of
    neighbours that a variable has when it is eliminated. The largest table has width + 1 variables,
    and its size determines the cost.

    "map" is the best joint state. "marginal_map" is the visible state with the largest sum over
    hidden states; the visible layer is enumerated to find it. If several states are equally good,
    the first of them in binary order is returned. "samples" are independent. "best_states" are the
    `n_best` best joint states. To find them, variables are eliminated; pairwise energies and RBMs
    are converted to factor graphs for this purpose.

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
        computed.
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
            from skcrbm.inference.k_best import best_states

            fields = empty_result(energy, query) | fields
            fields |= best_states(self, energy, query)
        return fields


def checked_variables(variables: Any, n_variables: int) -> np.ndarray:
    """Return the option `map_variables` as an array of int, or raise a ValueError."""
    try:
        given = np.asarray(variables)
    except ValueError:  # lists of different lengths
        given = np.array(variables, object)
    if given.shape == (0,):
        return np.empty(0, np.int64)
    whole = given.ndim == 1 and given.dtype.kind in "iu"
    if not whole or given.min() < 0 or given.max() >= n_variables:
        raise ValueError(
            "map_variables must hold indices of variables, integers from 0 to "
            f"{n_variables - 1}; got {variables!r}"
        )
    return np.unique(given).astype(np.int64)


def answer_in_parts(
    method: Exact,
    energy: BaseEnergy,
    query: Query,
    *,
    sums: Callable[..., dict],
    best: Callable[..., dict],
    draw: Callable[..., dict],
) -> dict[str, Any]:
    """Split a query into up to three parts, call a solver for each part, and merge the answers.

    - `sums` computes marginals, statistics and log Z.
    - `best` computes "map" and "marginal_map", with max-marginals.
    - `draw` computes samples.

    The log-odds of the result belong to the marginals if marginals are requested; otherwise they
    belong to the max-marginals.
    """
    _check_time(energy, query)
    fields = {}
    parts = [(best, _STATES), (sums, _SUMS), (draw, _SAMPLES)]
    # Each part overwrites the log-odds of the previous parts. The log-odds of `best` are
    # max-marginals, so `best` must come last unless marginals are requested.
    if "marginals" not in query.returns:
        parts.reverse()
    for solve, part in parts:
        asked = query.returns & part
        if asked:
            fields |= solve(method, energy, replace(query, returns=asked))
    if "map_bound" in query.returns:
        fields["map_bound"] = _score(energy, query, fields["assignment"])
        fields["gap"] = np.zeros(energy.n_models)
    return fields


def exact_seconds(energy: BaseEnergy, returns: Iterable[str]) -> float:
    """Estimate the time that "exact" takes to enumerate states, in seconds on one core."""
    total = 0.0
    for part, nanoseconds in zip((_SUMS, _STATES, _SAMPLES), EXACT_NANOSECONDS):
        for query in part & set(returns):
            n_visited, n_others = _sizes(energy, query)
            with np.errstate(over="ignore"):  # the caller treats an infinite time as a long time
                n_states = 2.0**n_visited * n_others
            total = max(total, nanoseconds * 1e-9 * float(n_states.sum()))
    return total


def _sizes(energy, query):
    """Return the number of enumerated variables (N,) of N models, and the cost of a state.

    The cost of a state is the number of variables that are not enumerated, at least 1.
    """
    free, k = energy.free, energy.n_enumerated(query)
    n_free = free.sum(axis=1)
    if energy.n_hidden == 0:
        n_visited = np.minimum(k, n_free)
        return n_visited, np.maximum(1, n_free - n_visited)
    # The states of a layer are enumerated. Clamped units of the other layer cost as much as free
    # units. Clamped units of the enumerated layer save time only in the search for the best state.
    n_visited = np.full(len(free), k)
    if query in _STATES:
        visible_first = query == "marginal_map" or energy.n_visible < energy.n_hidden
        layer = slice(energy.n_visible) if visible_first else slice(energy.n_visible, None)
        n_visited = free[:, layer].sum(axis=1)
    return n_visited, max(1, energy.n_variables - k)


def _check_time(energy, query):
    seconds = exact_seconds(energy, query.returns)
    if seconds <= MAX_EXACT_SECONDS:
        return
    n_units = max(_sizes(energy, part)[0].max() for part in query.returns)
    if n_units <= MAX_UNITS:  # else the solver raises an error about the number of units
        raise ValueError(
            f"'exact' would enumerate 2^{n_units} states of each of {energy.n_models} models, "
            f"about {seconds / 3600:.0f} hours on one core. Use 'sum_product' or another "
            "approximate method, or pass fewer models in a call"
        )


def _score(energy, query, states):
    """Return the scores (N,) of states, or the log-weights if "marginal_map" is requested."""
    if energy.evidence is not None:
        states = np.where(energy.free, states, energy.evidence).astype(energy.state_dtype)
    if "map" in query.returns:
        return energy.score(states)
    return energy.log_weight(states[:, : energy.n_visible])
