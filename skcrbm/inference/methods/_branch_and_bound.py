"""Branch and bound over partial labels."""

from numbers import Integral
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference._base import InferenceMethod


class BranchAndBound(InferenceMethod):
    """Best state of an `IsingEnergy` or `FactorGraphEnergy` by branch and bound, with a proof.

    Depth-first over labels in the order in which the others can least change them. On an
    `IsingEnergy` it starts from the local optimum that "icm" finds; bounds are those of the fields,
    where these decide little also those of reparametrised costs of pairs [1]_. Factor graphs, of
    tables without weights of 0, are taken as products over cliques of -1/+1 variables: bounds are
    those of the fields, with all that larger cliques may add. Exact up to rounding, 1e-11 of
    the largest field, unless a model takes more nodes than the limit: its `gap` is then positive,
    and it has not converged. `n_iter` counts nodes.

    Parameters
    ----------
    node_limit : int, default=50_000
        Nodes of the search tree of one model at most. Models that need more get the best state
        found until then.

    References
    ----------
    .. [1] Tourani, Shekhovtsov, Rother and Savchynskyy (2018). MPLP++: fast, parallel dual
       block-coordinate ascent for dense graphical models. ECCV.

    Examples
    --------
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> energy = IsingEnergy([[0.0, -2.0], [-2.0, 0.0]], [1.0, 0.5])
    >>> result = infer(energy, "branch_and_bound")
    >>> result.assignment, result.map_bound, result.gap
    (array([[1, 0]], dtype=int8), array([2.5]), array([0.]))
    """

    name: ClassVar = "branch_and_bound"
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")
    restriction: ClassVar = "it takes no weights of 0, OR or AND"
    _parameter_constraints: ClassVar = {
        "node_limit": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, node_limit=50_000):
        self.node_limit = node_limit

    def supports(self, energy):
        """Nothing where there are states of weight 0; see the base."""
        return frozenset() if energy.has_zeros else super().supports(energy)
