"""Exact inference by enumeration."""

from numbers import Integral
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.energies import QUERIES
from skcrbm.inference._base import InferenceMethod
from skcrbm.utils.limits import MAX_ELIMINATED_ENTRIES, MAX_ENUMERATED, MAX_UNITS


class Exact(InferenceMethod):
    """Enumerate the states of the smaller layer; the other one sums out analytically.

    Of a `FactorGraphEnergy` or `SparseIsingEnergy`, variables are eliminated one by one, next the
    one that joins the fewest of its neighbours; held ones are left out first. The cost is that of
    a table of as many variables as the largest set of neighbours (the width) and one more.

    Of an `IsingEnergy`, all states of its free labels are enumerated; of an energy without a
    solver of its own, all states of its free variables.

    Log Z is exact, "map" the best joint state, found in the same way, and "marginal_map"
    the visible state with the largest sum over hidden states, for which the visible layer
    is enumerated; of equal states it is the first one in binary order. "samples" are
    independent. Computed in float64 whatever the dtype of the energy; the cost is
    2^min(V, H) max(V, H) per model, and 2^V H for "marginal_map"; 2^L per Ising model with L
    free labels.

    Parameters
    ----------
    max_units : int, default=20
        Refuse models whose smaller layer has more units, or with more free labels.
    max_entries : int, default=2**24
        Refuse an elimination with a larger table than this, 8 bytes an entry, or with tables of
        16 times as many entries in all. What it takes is known before any is made.
    random_state : int, RandomState or None, default=None
        For "samples", which are independent.

    Raises
    ------
    ValueError
        By `infer`, if the layer to be enumerated is larger than `max_units`, or the tables of an
        elimination larger than `max_entries`, with the width; if enumeration would take more than
        a day on one core; if no state has a positive weight.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> energy = RBMEnergy([[0.0, 0.0]], [0.0], [0.0, 0.0])
    >>> infer(energy, "exact", returns=("log_partition",)).log_partition.round(4)
    array([2.0794])
    """

    name: ClassVar = "exact"
    answers: ClassVar = QUERIES
    _parameter_constraints: ClassVar = {
        "max_units": [Interval(Integral, 0, MAX_UNITS, closed="both")],
        "max_entries": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, max_units=MAX_ENUMERATED, random_state=None, max_entries=MAX_ELIMINATED_ENTRIES
    ):
        self.max_units = max_units
        self.max_entries = max_entries
        self.random_state = random_state
