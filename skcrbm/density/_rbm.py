"""RBM: a density of binary columns, which depend on each other through hidden units."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from skcrbm.density._base import SOLVERS, BaseDensity, Rows, density_plan
from skcrbm.density._documentation import document_density
from skcrbm.energies import RBMEnergy
from skcrbm.energies.states import unchecked
from skcrbm.inference import InferenceMethod
from skcrbm.learning.data import crbm_params
from skcrbm.learning.fit import Plan
from skcrbm.learning.rules import LearningRule, PersistentContrastiveDivergence
from skcrbm.learning.solvers import LossPlateau, Solver, resolve_solver
from skcrbm.utils.options import Integer, is_auto
from skcrbm.utils.sklearn_private import StrOptions

# Each training step reads all rows if there are at most _FULL_BATCH_ROWS rows, else a batch of
# _BATCH_ROWS rows.
_FULL_BATCH_ROWS, _BATCH_ROWS = 200, 100
# Gibbs sweeps per step of learning="auto" if each step reads all rows. The parameters then take
# large steps, and chains with a single sweep per step could not follow them.
_SWEEPS_OF_FULL_BATCH = 5
# The automatic number of hidden units is _HIDDEN_PER_COLUMN for each column, at most _MOST_HIDDEN.
_HIDDEN_PER_COLUMN, _MOST_HIDDEN = 4, 256
# Largest factor by which Adam's step size is raised. It is larger than in other densities, because
# it takes many steps until the hidden units differ from each other.
_SAMPLED_SPEEDUP = 50


class RBMParams(NamedTuple):
    """Parameters of a restricted Boltzmann machine."""

    weights: Any  # ndarray (V, H)
    visible_intercept: Any  # ndarray (V,)
    hidden_intercept: Any  # ndarray (H,)


class RBMModel(NamedTuple):
    """A restricted Boltzmann machine: a `ConditionalRBM` without inputs X."""

    params: RBMParams

    def energy(self, X: Any) -> RBMEnergy:
        """Return the energy: a single model, which does not depend on X."""
        return RBMEnergy(*self.params)

    def gradient(self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]) -> RBMParams:
        """Turn differences of moments into a gradient; see `ConditionalRBM.gradient`."""
        total = unary.sum(axis=0)
        n_visible = len(self.params.visible_intercept)
        return RBMParams(statistics[0], total[:n_visible], total[n_visible:])


@document_density
class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseDensity):
    """Restricted Boltzmann machine: learns the density of binary columns, and features of rows.

    ``p(v, h) ∝ exp(v' W h + v' b + h' c)``, where the columns are the visible units v, and h are
    hidden units. `transform` returns the means of h given v as features of a row, and `sample`
    draws visible units.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Number of hidden units. "auto" is four times the number of columns, at most 256.
    learning : str or object, default="auto"
        Learning rule, by name or as an object from `skcrbm.learning`. "auto" is "pcd" with one
        sweep per step. If each step reads all rows (by default if there are up to 200 rows), "auto"
        is "pcd" with five sweeps per step, because the parameters then take large steps, which the
        chains must follow. Training compares moments of the data with moments of the model, which
        the rules compute differently:

    <rules and inference>
    solver : str or object, default="adam"
        Solver: "adam" or "sgd", or an object of class `Adam` or `SGD`. The automatic `batch_size`
        is the number of rows if there are at most 200 rows, else 100. The automatic `average` is
        True for all rules but "mle", because states drawn from the model make the iterates circle
        around the solution. With averaging, training needs more epochs to come near the solution.
    max_iter : int, default=200
        Maximum number of epochs. Training stops earlier only if the learning rule computes a loss
        ("mle"), or if rows are held out for validation, see `early_stopping`.
    alpha, alpha_l1 : float, default=0.0
        L2 and L1 penalties on the couplings W. The L1 penalty is minimised by subgradient steps.
    <preparation and end of training>

    Attributes
    ----------
    energy_ : RBMEnergy
        Learned model, for `skcrbm.inference.infer`.
    weights_ : ndarray (n_features, n_hidden)
        Couplings W of the columns with the hidden units.
    intercept_, hidden_intercept_ : ndarray (n_features,), (n_hidden,)
        Biases b of the columns and c of the hidden units.
    <curves>
    <results of training>

    References
    ----------
    <papers>

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.density import RBM
    >>> X = np.repeat([[0, 0, 1], [1, 1, 0]], 20, axis=0)
    >>> model = RBM(n_hidden=2, learning="mle", random_state=0).fit(X)
    >>> model.transform(X).shape
    (40, 2)
    >>> model.marginals([[0, np.nan, np.nan]]).round(1)
    array([[0., 0., 1.]])
    """

    _structural = ("n_hidden",)
    _saved = ("n_features_in_", "energy_", "n_iter_", "weights_", "intercept_", "hidden_intercept_")

    weights_: np.ndarray

    _parameter_constraints: dict = {
        **BaseDensity._parameter_constraints,
        "n_hidden": [Integer(0), StrOptions({"auto"})],
        "learning": [StrOptions({"auto"}), *BaseDensity._parameter_constraints["learning"]],
    }

    def __init__(
        self,
        n_hidden: int | Literal["auto"] = "auto",
        *,
        learning: str | LearningRule = "auto",
        inference: str | InferenceMethod = "auto",
        solver: str | Solver = "adam",
        max_iter: int = 200,
        alpha: float = 0.0,
        alpha_l1: float = 0.0,
        binarize: float | None = 0.5,
        early_stopping: bool | LossPlateau = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.n_hidden = n_hidden
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
        model = self._model if self.__sklearn_is_fitted__() else self._initial_model(rows, rng)
        n_rows = len(rows.visible)
        return density_plan(
            self,
            rows,
            model,
            rng,
            penalised=RBMParams(1.0, 0.0, 0.0),
            rule=self._automatic_rule(n_rows) if is_auto(self.learning) else None,
            batch_size=n_rows if n_rows <= _FULL_BATCH_ROWS else _BATCH_ROWS,
            sampled_speedup=_SAMPLED_SPEEDUP,
        )

    def _automatic_rule(self, n_rows):
        """Return the rule that ``learning="auto"`` stands for."""
        solver = resolve_solver(self.solver, SOLVERS)
        step = solver.rows_per_step(n_rows, n_rows if n_rows <= _FULL_BATCH_ROWS else _BATCH_ROWS)
        return PersistentContrastiveDivergence(_SWEEPS_OF_FULL_BATCH if step >= n_rows else 1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.weights_.shape[1]

    def _shape_of(self, name, value):
        """Return the number of hidden units for a value of `n_hidden`."""
        if isinstance(value, str):
            return min(_HIDDEN_PER_COLUMN * self.n_features_in_, _MOST_HIDDEN)
        return value

    def _initial_model(self, rows: Rows, rng) -> RBMModel:
        n_hidden = self._shape_of("n_hidden", self.n_hidden)
        start = crbm_params(rows.visible, rows.weight, 0, n_hidden, rng)
        return RBMModel(RBMParams(start.weights, start.visible_intercept, start.hidden_intercept))

    def _parameter_attributes(self, model):
        return {
            "weights_": model.params.weights,
            "intercept_": model.params.visible_intercept,
            "hidden_intercept_": model.params.hidden_intercept,
        }

    def transform(self, X):
        """Return P(h_j = 1) of each hidden unit, given the observed entries of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
            Probabilities, which are exact for complete rows. For rows with missing entries, they
            are computed by `inference`.
        """
        visible = self._check_rows(X)
        energy = self.energy_.rows(np.zeros(len(visible), int))
        means = unchecked(energy.hidden_given_visible)(np.nan_to_num(visible))
        partly = np.isnan(visible).any(axis=1)
        if partly.any():
            means[partly] = self._beliefs(visible[partly], "transform")[:, visible.shape[1] :]
        return means.astype(visible.dtype, copy=False)
