"""IsingModel: a density that couples all pairs of columns, or the pairs of a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skcrbm.density._base import BaseDensity, Rows, density_plan, start_log_odds
from skcrbm.density._documentation import document_density
from skcrbm.energies import IsingEnergy, SparseIsingEnergy
from skcrbm.inference import InferenceMethod
from skcrbm.learning.fit import Plan
from skcrbm.learning.rules import LearningRule
from skcrbm.learning.solvers import LossPlateau, Solver


class IsingParams(NamedTuple):
    """Parameters of an Ising model with centred variables.

    There are L variables y_i in {-1, +1} and E coupled pairs, the edges. The score is
    ``sum_i field_i y_i + sum_ik coupling_ik (y_i - c_i) (y_k - c_k)``, where the second sum is over
    the edges. The centres c_i are constants near the means of the variables. A change of a coupling
    then hardly changes the means of the model, so training needs fewer steps.
    """

    coupling: Any  # ndarray (E,)
    field: Any  # ndarray (L,)


def _ising_gradient(unary, pairs, edges, center):
    """Return the gradient with respect to the parameters, computed from differences of moments.

    The moments are E[u_i] of each of L 0/1 variables u, and E[u_i u_k] of each of E edges (i, k).
    `unary` (n_rows, L), whose rows are added up, and `pairs` (E,) hold the moments of the model
    minus the moments of the data. The differences are converted, because the parameters belong to y
    = 2 u - 1.
    """
    means = 2 * unary.sum(axis=0)
    i, k = edges.T
    coupling = 4 * pairs - (1 + center[k]) * means[i] - (1 + center[i]) * means[k]
    return IsingParams(coupling, means)


class DenseIsingModel(NamedTuple):
    """An Ising model with couplings between all pairs of variables."""

    params: IsingParams  # couplings in the order of `edges`
    edges: np.ndarray  # int (L (L - 1) / 2, 2): all pairs i < k, sorted
    center: np.ndarray  # c (L,), near the means of the data

    def energy(self, X: Any) -> IsingEnergy:
        """Return the energy: a single model, which does not depend on X."""
        coupling, field = self.params
        matrix = np.zeros((len(field), len(field)), field.dtype)
        i, k = self.edges.T
        matrix[i, k] = matrix[k, i] = coupling
        return IsingEnergy(matrix, field - matrix @ self.center)

    def gradient(
        self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]
    ) -> IsingParams:
        """Turn differences of moments into a gradient; see `ConditionalRBM.gradient`."""
        i, k = self.edges.T
        return _ising_gradient(unary, statistics[0][i, k], self.edges, self.center)


class SparseIsingModel(NamedTuple):
    """An Ising model with couplings on the edges of a graph."""

    params: IsingParams
    base: IsingEnergy  # energy of one model, which holds the graph
    center: np.ndarray  # c (L,), near the means of the data

    @property
    def edges(self) -> np.ndarray:
        """Coupled pairs (E, 2), with i < k in each row."""
        return self.base.edges

    def energy(self, X: Any) -> IsingEnergy:
        """Return the energy: a single model, which does not depend on X."""
        coupling, field = self.params
        energy = self.base.with_edge_coupling(coupling)
        return energy.with_fields((field - energy.coupling @ self.center)[None])

    def gradient(
        self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]
    ) -> IsingParams:
        """Turn differences of moments into a gradient; see `ConditionalRBM.gradient`."""
        return _ising_gradient(unary, statistics[0], self.edges, self.center)


@document_density
class IsingModel(BaseDensity):
    """Ising model over binary columns, learned from rows with or without missing values.

    ``p(y) ∝ exp(f' y + 1/2 y' S y)`` for y in {-1, +1}, with fields f and couplings S. In X, 0
    stands for -1 and 1 for +1.

    Parameters
    ----------
    edges : array-like of int (n_edges, 2) or None, default=None
        Pairs of columns that are coupled; None couples all pairs.
    learning : str or object, default="pcd"
        Learning rule, by name or as an object from `skcrbm.learning`. Training compares
        moments of the data with moments of the model, which the rules compute differently:

    <rules and inference>
    solver : str or object, default="adam"
        Solver: "adam" or "sgd", or an object of class `Adam` or `SGD`. The automatic
        `batch_size` is all rows, because moments of complete rows are computed only once. The
        automatic `average` is True for all rules but "mle", because states drawn from the model
        make the iterates circle around the solution. With averaging, training needs more epochs to
        come near the solution. The step size of the fields is four times as large as the step size
        of the couplings.
    max_iter : int, default=100
        Maximum number of epochs. Training stops earlier only if the learning rule computes a loss
        ("mle"), or if rows are held out for validation, see `early_stopping`.
    alpha, alpha_l1 : float, default=0.0
        L2 and L1 penalties on the couplings, each pair counted once. The L1 penalty is minimised by
        subgradient steps.
    <preparation and end of training>

    Attributes
    ----------
    energy_ : IsingEnergy
        Learned model, for `skcrbm.inference.infer`. Its couplings are sparse if `edges` is given.
    coupling_ : ndarray or CSR array (n_features, n_features)
        Couplings S, symmetric.
    field_ : ndarray (n_features,)
        Fields f of the columns.
    <curves>
    <results of training>

    References
    ----------
    <papers>

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.density import IsingModel
    >>> X = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [4, 1, 1, 4], axis=0)
    >>> model = IsingModel(learning="mle").fit(X)
    >>> round(float(model.coupling_[0, 1]), 1)  # log(4 / 1) / 2
    0.7
    """

    _structural = ("edges",)
    _saved = ("n_features_in_", "energy_", "n_iter_", "coupling_", "field_")

    _parameter_constraints: dict = {
        **BaseDensity._parameter_constraints,
        "edges": ["array-like", None],
    }

    def __init__(
        self,
        edges=None,
        *,
        learning: str | LearningRule = "pcd",
        inference: str | InferenceMethod = "auto",
        solver: str | Solver = "adam",
        max_iter: int = 100,
        alpha: float = 0.0,
        alpha_l1: float = 0.0,
        binarize: float | None = 0.5,
        early_stopping: bool | LossPlateau = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.edges = edges
        self.learning = learning
        self.inference = inference
        self.solver = solver
        self.max_iter = max_iter
        self.alpha = alpha
        self.alpha_l1 = alpha_l1
        self.binarize = binarize
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _plan(self, rows: Rows, rng) -> Plan:
        model = self._model if self.__sklearn_is_fitted__() else self._initial_model(rows)
        # The fields take larger steps: all couplings of a variable together change its mean, and
        # its field alone has to compensate for this.
        rates = IsingParams(1.0, 4.0)
        penalised = IsingParams(1.0, 0.0)
        return density_plan(self, rows, model, rng, penalised=penalised, rate_factors=rates)

    def _shape_of(self, name, value):
        base = _graph(value, self.n_features_in_, np.dtype(np.float64))
        return None if base is None else base.edges

    def _initial_model(self, rows: Rows) -> DenseIsingModel | SparseIsingModel:
        visible, weight = rows.visible, rows.weight
        dtype, n_features = visible.dtype, visible.shape[1]
        field = (0.5 * start_log_odds(visible, weight)).astype(dtype)
        center = np.tanh(field)
        base = _graph(self.edges, n_features, dtype)
        if base is None:
            edges = np.column_stack(np.triu_indices(n_features, 1))
            return DenseIsingModel(IsingParams(np.zeros(len(edges), dtype), field), edges, center)
        return SparseIsingModel(IsingParams(np.zeros(len(base.edges), dtype), field), base, center)

    def _parameter_attributes(self, model):
        energy = model.energy(None)
        return {"coupling_": energy.coupling, "field_": energy.field[0]}


def _graph(edges, n_features, dtype):
    """Return an energy with couplings of 0 on the given edges, or None if `edges` is None."""
    if edges is None:
        return None
    try:
        return SparseIsingEnergy.from_edges(edges, dtype.type(0), np.zeros(n_features, dtype))
    except ValueError as error:
        raise ValueError(
            f"edges must be pairs of the {n_features} columns, each pair once: {error}"
        ) from error
