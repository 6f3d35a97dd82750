"""Base class of the densities, with the training and sampling that all densities share.

A density has the method `_plan`, which makes a model to start from and calls `density_plan`.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial as bind
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.density._questions import DensityQuestions, is_small, too_large
from skcrbm.energies import RBMEnergy
from skcrbm.energies.states import independent_states
from skcrbm.inference import (
    BPChain,
    Gibbs,
    InferenceMethod,
    PerturbAndMAP,
    PerturbAndMaxProduct,
)
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import (
    available_methods,
    method_constraint,
    methods_for,
    refuse_method,
)
from skcrbm.inference.random_numbers import random_key, uniforms
from skcrbm.inference.running import run_inference
from skcrbm.learning.data import ArraySource, Design
from skcrbm.learning.fit import (
    NO_PROGRESS,
    Plan,
    Progress,
    begin_partial_fit,
    train,
    train_one_epoch,
    warn_of_convergence,
)
from skcrbm.learning.objectives import energy_at_any_time
from skcrbm.learning.penalties import ElasticNet
from skcrbm.learning.rules import LearningRule, Likelihood, resolve_rule, rule_constraint
from skcrbm.learning.sampled_rules import BPChainLearning, BPLearning, PMPLearning
from skcrbm.learning.solvers import (
    EarlyStopping,
    LossPlateau,
    Solver,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.targets.indicator import require_observed
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    skip_empty_batches,
    with_callbacks,
)
from skcrbm.utils.options import Integer, is_auto
from skcrbm.utils.sklearn_private import Interval, fit_context
from skcrbm.utils.warnings import warn_user

SOLVERS = ("adam", "sgd")
_PATIENCE = 50
# Largest factor by which Adam's step size is raised if the learning rule samples a few states of
# the model. With the limit of other rules, 50, the parameters change faster than the chains can
# follow, and on hard data the averaged iterates end far from the maximum.
SAMPLED_SPEEDUP = 20
_UNCONVERGED = "its marginals may be off", "inference='exact' if the model is small"


class Rows(NamedTuple):
    """Validated training rows; rows of weight 0 have been dropped."""

    X: np.ndarray  # (N, 0): a density has no inputs
    visible: np.ndarray  # (N, n_features): 0, 1, or NaN if not observed
    weight: np.ndarray  # (N,), positive


class BaseDensity(CallbackSupportMixin, DensityQuestions):
    """Base class of the densities that are trained epoch by epoch."""

    _parameter_constraints: dict = {
        "learning": rule_constraint("density", "ContrastiveDivergence(n_chains=50)"),
        "inference": method_constraint(
            methods_for(RBMEnergy, {"statistics", "log_partition"}),
            auto=True,
            also=methods_for(RBMEnergy, {"marginals"}, {"log_partition"}),
        ),
        "solver": solver_constraint(SOLVERS),
        "max_iter": [Integer(1)],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "alpha_l1": [Interval(Real, 0, None, closed="left")],
        "binarize": [Interval(Real, None, None, closed="neither"), None],
        "early_stopping": stopping_constraint(auto=False),
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    learning: str | LearningRule
    inference: str | InferenceMethod
    solver: str | Solver
    max_iter: int
    alpha: float
    alpha_l1: float
    early_stopping: bool | LossPlateau
    warm_start: bool
    random_state: Any
    verbose: int

    _model: Any
    _rule: LearningRule
    _sampler: InferenceMethod | None
    _progress: Progress
    convergence_curve_: list[float]

    #: Hyperparameters that shape the model, see `utils/warm_start.py`.
    _structural: ClassVar[tuple[str, ...]] = ()
    _state = ("_model", "_structure", "_rule", "_sampler", "_progress", "_rng")

    @abstractmethod
    def _plan(self, rows: Rows, rng: np.random.RandomState) -> Plan:
        """Return the plan of a fit, which continues from the fitted model if there is one."""

    @abstractmethod
    def _parameter_attributes(self, model) -> dict[str, Any]:
        """Return the fitted attributes that hold the parameters of a model."""

    def __sklearn_is_fitted__(self):
        return "_model" in vars(self)

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None):
        """Learn the distribution of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Numbers that are compared with `binarize`, or categories if the density takes them. NaN
            stands for missing values.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, a weight or a hyperparameter is invalid, or if the model is too large for the
            inference that `learning` needs.
        FloatingPointError
            If the training diverges.
        """
        resume, rng = begin_fit(self)
        rows = Rows(*self._check_training_data(X, None, sample_weight, reset=not resume))
        plan = self._plan(rows, rng)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        train(self, plan, rng, callbacks)
        self._warn_of_convergence()
        callbacks.end()
        return self

    @skip_empty_batches
    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None):
        """Do one epoch on the given rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self

        Notes
        -----
        A call does nothing if no row of positive weight has an observed entry. The model is fitted
        by the first call that has a row with an observed entry.
        """
        resume, rng = begin_partial_fit(self)
        rows = Rows(*self._check_training_data(X, None, sample_weight, reset=not resume))
        require_observed(~np.isnan(rows.visible), "X")
        train_one_epoch(self, self._plan(rows, rng), rng)
        self._warn_of_convergence()
        return self

    # ------------------------------------------------------------- steps of a fit

    def _warn_of_convergence(self) -> None:
        """Warn if inference did not converge in training."""
        if isinstance(self._rule, (Likelihood, BPLearning)):
            warn_of_convergence(self.convergence_curve_[-1], self._belief_method(), *_UNCONVERGED)

    def _belief_method(self) -> InferenceMethod:
        """Return the method that computes beliefs: `inference`, or sum-product if it is "auto"."""
        return resolve_method("sum_product") if is_auto(self.inference) else self._given_method()

    def _model_attributes(
        self, model, epoch: int, *, rule: LearningRule, sampler: InferenceMethod | None
    ) -> dict[str, Any]:
        """Return the fitted attributes of a model; `sampler` is None if the rule has no sampler."""
        return {
            "_model": model,
            "energy_": model.energy(np.empty((0, 0))),
            **self._parameter_attributes(model),
            "_rule": rule,
            "_sampler": sampler,
        }

    def _training_method(self, rule: LearningRule, energy, missing: bool) -> InferenceMethod:
        """Return the inference method for training, after resolving "auto".

        `missing` is True if rows have missing entries, which training marginalises.
        """
        if not is_auto(self.inference):
            method, needs = self._given_method(), set(rule.density_answers)
            if needs - method.supports(energy):
                owner = f"{type(self).__name__} with learning={self.learning!r}"
                refuse_method(method, available_methods(energy, needs), owner)
            return method
        likelihood = isinstance(rule, Likelihood)
        wanted = likelihood or (missing and not isinstance(rule, BPLearning))
        if wanted and is_small(energy):
            return resolve_method("exact")
        if likelihood:
            raise ValueError(too_large(energy, "learning='mle'"))
        return resolve_method("sum_product")

    # --------------------------------------------------------------- questions

    def score_samples(self, X):
        """Return the log-probability of the observed entries of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`; entries that are NaN are summed out.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-probabilities in nats. With ``inference="auto"`` the result is exact if the model is
            small enough. For larger models, the log-partition is estimated by annealed importance
            sampling with 100 chains and a fixed seed. The estimate takes seconds per call, and has
            an error of a few hundredths of a nat on models that are not too peaked. Missing entries
            are then summed out by "sum_product". `skcrbm.inference.estimate_log_partition` applied
            to `energy_` returns the standard error of the estimate, and lowers it with more chains
            and steps.

        Raises
        ------
        ValueError
            With ``inference="auto"``, if the model is too large for exact inference and has states
            of weight 0, so that its log-partition cannot be estimated.

        Warns
        -----
        UserWarning
            If the weights of a few chains dominate the estimate of the log-partition: the estimate
            is then probably too low, and the scores are too high. A warning is also given if the
            model was learned with a biased sampler, such as "pmp": the parameters were chosen such
            that samples by this sampler resemble the data, but the scores are log-probabilities of
            the Gibbs distribution, which may be low for the data.
        """
        found = super().score_samples(X)
        name = self._biased_sampler()
        if name is not None:
            warn_user(
                f"the parameters were learned such that samples drawn by {name} resemble the data. "
                "The scores are log-probabilities of the Gibbs distribution with these parameters, "
                "which is another distribution, so they may be lower than expected"
            )
        return found

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw rows from the model with the sampler of its learning rule.

        "cd" and "pcd" use Gibbs chains. "bp" draws every variable independently from its belief.
        "bp_chain" and "pmp" use the samplers for which the parameters were learned. "mle" and
        "weighted_bp_chain" draw exactly if the model is small enough for "exact", else with Gibbs
        chains.

        Parameters
        ----------
        n_samples : int, default=1
        given : array-like of shape (n_features,), default=None
            Value 0 or 1 of each column whose value is given, and NaN for the columns to draw.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of int of shape (n_samples, n_features)
        """
        clamp = self._check_given(n_samples, given)
        if isinstance(self._rule, BPLearning):
            energy, n_features = self.energy_, self.n_features_in_
            found = run_inference(energy, self._belief_method(), clamp=clamp, returns="marginals")
            p = found.marginals[:, :n_features]
            u = uniforms(random_key(random_state), np.arange(n_samples), 0, n_features)
            states = independent_states(energy, u[None], p)[0]
            return self._rows_of_states(states.astype(np.int64))
        return self._draw(self._sampling_method(n_samples), n_samples, clamp, random_state)

    def _biased_sampler(self):
        """Return the name of the biased sampler for which the parameters were learned, or None.

        A biased sampler does not draw from the Gibbs distribution. Training with a biased sampler
        finds parameters that compensate for the bias: samples drawn by the sampler resemble the
        data, but the Gibbs distribution of these parameters differs from the distribution of the
        data.
        """
        if isinstance(self._rule, PMPLearning):
            if isinstance(self._sampler, PerturbAndMaxProduct):
                return "perturb-and-max-product"
            if isinstance(self._sampler, PerturbAndMAP):
                return "perturb-and-MAP"
        if isinstance(self._rule, BPChainLearning) and not self._rule.weighted:
            return "chained belief propagation" if isinstance(self._sampler, BPChain) else None
        return None

    def _sampling_method(self, n_samples):
        weighted = isinstance(self._rule, BPChainLearning) and self._rule.weighted
        if self._sampler is not None and not weighted:
            return self._sampler
        if (isinstance(self._rule, Likelihood) or weighted) and is_small(self.energy_):
            return resolve_method("exact")
        return Gibbs(n_chains=n_samples)


def density_plan(
    density: BaseDensity,
    rows: Rows,
    model: Any,
    rng: np.random.RandomState,
    *,
    penalised: Any,
    rule: LearningRule | None = None,
    rate_factors: Any = None,
    batch_size: int | None = None,
    sampled_speedup: int = SAMPLED_SPEEDUP,
) -> Plan:
    """Return the plan of a fit with the hyperparameters of a density.

    Training starts from `model`, a named tuple with a field `params`; it is the fitted model if
    there is one. `rng` generates the seeds of inference methods, and `rule` replaces
    ``learning="auto"``. `penalised` and `rate_factors` are named tuples with the fields of
    `model.params`. For each array of parameters, `penalised` holds 1 if the whole array is
    penalised, 0 if it is not penalised, or an array of 1 and 0 if only the entries with 1 are
    penalised. `rate_factors` holds a relative learning rate for each array of parameters; if it is
    None, all rates are 1. `batch_size` is the number of rows per step if the solver leaves it to
    "auto"; None stands for all rows, because the moments of complete rows are computed only once.
    For rules that sample the model, Adam's step size is raised by a factor of at most
    `sampled_speedup`.
    """
    rule = resolve_rule(density.learning if rule is None else rule, "density")
    solver = resolve_solver(density.solver, SOLVERS)
    n_rows, by_states = len(rows.visible), not rule.has_density_loss
    energy = model.energy(rows.X)
    missing = bool(np.isnan(rows.visible).any())
    largest = energy_at_any_time(model, rows.X)
    method = density._training_method(rule, largest, missing).seeded(rng)
    sampler = rule.density_sampler(energy)
    penalty = None
    if density.alpha or density.alpha_l1:
        penalty = ElasticNet(
            type(penalised)(*(density.alpha * part for part in penalised)),
            type(penalised)(*(density.alpha_l1 * part for part in penalised)),
        )
    if rate_factors is None:
        rate_factors = type(model.params)(*(1.0 for _ in model.params))
    held_out = EarlyStopping(n_iter_no_change=_PATIENCE, refit=False)
    return Plan(
        model=model,
        design=Design(rows.X),
        rows=ArraySource(rows.X, rows.visible, rows.weight),
        objective=rule.density(method, sampler, density.n_jobs),
        penalty=penalty,
        solver=solver,
        max_iter=density.max_iter,
        verbose=density.verbose,
        progress=density._progress if density.__sklearn_is_fitted__() else NO_PROGRESS,
        attributes=bind(density._model_attributes, rule=rule, sampler=sampler),
        stopping=resolve_stopping(
            density.early_stopping, False, held_out, LossPlateau(n_iter_no_change=_PATIENCE)
        ),
        batch_size=solver.rows_per_step(n_rows, n_rows if batch_size is None else batch_size),
        # If gradients come from a few sampled states, the iterates keep moving around the solution.
        # Therefore the default is to average them.
        average=solver.keeps_average(by_states),
        rate_factors=rate_factors,
        max_speedup=sampled_speedup if by_states else 50,
    )


def start_log_odds(visible: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return, for each of V columns, the log-odds of the share of rows in which it is 1.

    Half a row of 1 and half a row of 0 are added to each column, so that the log-odds are finite.
    Missing entries of `visible` (N rows, V columns) are NaN. A row of weight k counts as k copies
    of the row.
    """
    on = weight @ np.nan_to_num(visible) + 0.5
    off = weight @ (1 - np.nan_to_num(visible, nan=1.0)) + 0.5
    return np.log(on) - np.log(off)
