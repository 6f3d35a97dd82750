"""Options of the methods that search for the best state."""

from numbers import Integral
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skcrbm.inference.base import InferenceMethod, IterativeMethod


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


class MixedIntegerProgram(InferenceMethod):
    """Best state of an `IsingEnergy` by mixed integer programs of HiGHS [1]_.

    One program a model, with a binary variable for each label and one for the product of each
    coupled pair: slow, and independent of "branch_and_bound", which it is there to check. Its
    bound is that of HiGHS less what the tolerances of HiGHS allow, so that the `gap` of the best
    state is about 1e-8 of the largest field and not 0, unless fields alone decide all labels.
    `n_iter` counts nodes.

    References
    ----------
    .. [1] Huangfu and Hall (2018). Parallelizing the dual revised simplex method. Mathematical
       Programming Computation 10.

    Examples
    --------
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> energy = IsingEnergy([[0.0, -2.0], [-2.0, 0.0]], [1.0, 0.5])
    >>> infer(energy, "milp").assignment
    array([[1, 0]], dtype=int8)
    """

    name: ClassVar = "milp"
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")


class ICM(IterativeMethod):
    """Joint MAP by iterated conditional modes (Besag 1986).

    One iteration replaces all visible units by their best values given the hidden ones, then
    the hidden ones given the visible ones: on an RBM each half is one exact coordinate step,
    so the score never goes down. Ends at a state that no change of one layer improves. The
    log-odds are those of each unit given the other layer. On an `IsingEnergy` an iteration goes
    over the labels one by one, and the log-odds are those of each label given the others. On a
    `FactorGraphEnergy` or `SparseIsingEnergy` variables that share no factor move at once; a
    model that ends at an impossible state has not converged.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    n_restarts : int, default=1
        Number of runs: the first starts from the biases (fields), the others from random states.
        Each model keeps the best state.
    random_state : int, RandomState or None, default=None
        Draws the random starts.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import ICM, infer
    >>> energy = RBMEnergy([[2.0], [-3.0]], [-1.0, 1.0], [0.5])
    >>> infer(energy, ICM(n_restarts=5, random_state=0)).assignment
    array([[1, 0, 1]], dtype=int8)
    """

    name: ClassVar = "icm"
    answers: ClassVar = frozenset({"map"})
    default_returns: ClassVar = ("map",)
    accepts: ClassVar = frozenset({"init"})
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=None, n_restarts=1, random_state=None):
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state

    @property
    def draws(self):
        """Whether there are random starts."""
        return self.n_restarts > 1
