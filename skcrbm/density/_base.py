"""What the density estimators trained epoch by epoch share."""

from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.density._questions import DensityQuestions, is_small, too_large
from skcrbm.energies import RBMEnergy
from skcrbm.inference import Gibbs, available_methods, infer
from skcrbm.inference.choice import method_constraint, methods_for, resolve_method, seeded_copy
from skcrbm.inference.random_numbers import uniforms
from skcrbm.inference.registry import METHODS
from skcrbm.learning import (
    NEGATIVE_PHASES,
    ElasticNet,
    ModelStates,
    MomentMatching,
    StochasticFit,
    Training,
    warn_of_convergence,
    with_callbacks,
)
from skcrbm.utils.fitting import all_or_nothing, forget, resolved
from skcrbm.utils.parameters import Integer
from skcrbm.utils.random import random_key
from skcrbm.utils.warnings import warn_user

_UNCONVERGED = "its marginals may be off", "inference='exact' if the model is small"


class BaseDensity(StochasticFit, DensityQuestions):
    """Base of the density estimators that are trained epoch by epoch.

    A subclass has the hyperparameters of its `__init__`, among them all that
    `_parameter_constraints` names here, and says what the model is.
    """

    _parameter_constraints: dict = {
        "learning": [StrOptions(set(NEGATIVE_PHASES))],
        "inference": method_constraint(
            methods_for(RBMEnergy, {"statistics", "log_partition"}),
            auto=True,
            also=methods_for(RBMEnergy, {"marginals"}, {"log_partition"}),
        ),
        "sampler": [*method_constraint(methods_for(RBMEnergy, {"samples"})), None],
        "n_chains": [Integer(1)],
        "n_gibbs_steps": [Integer(1)],
        "max_iter": [Integer(1)],
        "batch_size": [Integer(1), StrOptions({"auto"})],
        "solver": [StrOptions({"adam", "sgd"})],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "average": ["boolean", StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "alpha_l1": [Interval(Real, 0, None, closed="left")],
        "binarize": [Interval(Real, None, None, closed="neither"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Integer(1)],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    # Steps by few states of the model: at 50 times Adam's usual size they outrun the chains, and
    # the averaged iterates of hard data end far from the maximum.
    _sampled_speedup = 20
    _state = ("_model", "_structure", "_learning", "_sampler", "_progress", "_rng")

    # ---------------------------------------------------------- what the model is

    @abstractmethod
    def _structure_of(self, n_features):
        """Return what the fitted model and the hyperparameters must agree in."""

    @abstractmethod
    def _penalised(self, model):
        """Params of 0 and 1: which parameters the penalties pull."""

    @abstractmethod
    def _model_attributes(self, model):
        """Fitted attributes of a model, as a dict."""

    def _automatic_batch_size(self, n_rows):
        """Return the rows of a step: all, as the data's moments are worked out once."""
        return n_rows

    def __sklearn_is_fitted__(self):
        return "_model" in vars(self)

    def _forget(self):
        forget(self, self._state)

    # ---------------------------------------------------------------- training

    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn the distribution of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Numbers, compared with `binarize`; NaN where not observed.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a weight k counts as k copies of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            On an invalid X, weight or hyperparameter, and if the model is too large for the
            inference that `learning` needs.
        FloatingPointError
            If the training diverges.
        """
        return self._fit(X, y, sample_weight)

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Do one epoch on the given rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        return self._fit_one_epoch(X, y, sample_weight)

    def _check_same_model(self):
        if self._structure_of(self.n_features_in_) != self._structure:
            raise ValueError(
                f"the hyperparameters of {type(self).__name__} say another structure than that of "
                "the fit so far; set warm_start=False, or keep them"
            )

    def _make_training(self, visible, rng, partial):
        n_rows = len(visible)
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = self._automatic_batch_size(n_rows)
        by_states = not NEGATIVE_PHASES.get(self.learning).is_loss
        speed = {"max_speedup": self._sampled_speedup} if by_states else {}
        return Training(
            objective=None,  # they depend on the model: see `_settle`
            penalty=None,
            rate_factors=None,
            solver=self.solver,
            learning_rate=self.learning_rate_init,
            momentum=0.0,
            # Gradients that go by few states of the model make the iterates go round the solution.
            average=resolved(self.average, by_states),
            batch_size=min(batch_size, n_rows),
            max_iter=self.max_iter,
            early_stopping=self.early_stopping,
            refit=False,
            validation_fraction=self.validation_fraction,
            stratify=False,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            verbose=self.verbose,
            **speed,
        )

    def _settle(self, training, model, design, source, rng, go_on, partial):
        energy = model.energy(design.X)
        rule = NEGATIVE_PHASES.get(self.learning)
        method = self._training_method(energy, bool(np.isnan(source.all.visible).any()))
        method = seeded_copy(method, rng)
        sampler = self._checked_sampler(rule, energy)
        states = ModelStates(method, sampler, self.n_chains, self.n_gibbs_steps, self.n_jobs)
        which = self._penalised(model)
        penalty = None
        if self.alpha or self.alpha_l1:
            penalty = ElasticNet(
                type(which)(*(self.alpha * part for part in which)),
                type(which)(*(self.alpha_l1 * part for part in which)),
            )
        training = replace(
            training,
            objective=MomentMatching(self.learning, method, states),
            penalty=penalty,
            rate_factors=self._rate_factors(model),
        )
        attributes = {
            "_learning": self.learning,
            "_sampler": sampler,
            "_structure": self._structure_of(self.n_features_in_),
        }
        return training, model, attributes

    def _rate_factors(self, model):
        """Factors of the step size of each group of parameters."""
        return type(model.params)(*(1.0 for _ in model.params))

    def _training_method(self, energy, missing):
        """Return the method of the phases that use one; "auto" resolved.

        Parameters
        ----------
        energy : BaseEnergy
        missing : bool
            Whether there are entries to be marginalised.
        """
        if not self._is_auto():
            answers = {"mle": {"statistics", "log_partition"}, "bp": {"marginals"}}
            return self._able(energy, answers.get(self.learning, set()))
        wanted = self.learning == "mle" or (missing and self.learning != "bp")
        if wanted and is_small(energy):
            return resolve_method("exact")
        if self.learning == "mle":
            raise ValueError(too_large(energy, "learning='mle'"))
        return resolve_method("sum_product")

    def _checked_sampler(self, rule, energy):
        """Return a copy of the sampler, or None where the rule has no use for one."""
        if rule.sampler is None:
            return None
        sampler = self.sampler
        sampler = clone(resolve_method(rule.sampler if sampler is None else sampler, "sampler"))
        lacking = rule.answers - sampler.supports(energy)
        if lacking or "random_state" not in sampler.get_params(deep=False):
            raise ValueError(
                f"sampler={self.sampler!r} cannot be used with learning={self.learning!r} on "
                f"{type(energy).__name__}: it must answer {sorted(rule.answers)} and have an "
                f"option random_state, as {_samplers(energy, rule.answers)} do"
            )
        return sampler

    def _fitted_model(self, X):
        return self._model

    def _fitted_attributes(self, model, epoch, X, visible):
        return {
            "_model": model,
            "energy_": model.energy(X[:0]),
            **self._model_attributes(model),
        }

    def _curves(self, epochs):
        curves = super()._curves(epochs)
        if self.learning == "weighted_bp_chain":
            curves["effective_sample_size_curve_"] = [epoch.effective_share for epoch in epochs]
        return curves

    def _publish(self, attributes):
        super()._publish(attributes)
        if self.learning in ("mle", "bp"):
            method = resolve_method("sum_product") if self._is_auto() else self._named()
            share = self.convergence_curve_[-1]
            warn_of_convergence(share, method, *_UNCONVERGED)

    # --------------------------------------------------------------- questions

    def score_samples(self, X):
        """Log-probability of the observed entries of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`; entries that are NaN are summed out.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; an approximation where `inference` is one.

        Raises
        ------
        ValueError
            With ``inference="auto"``, if the model is too large for exact inference.

        Warns
        -----
        UserWarning
            If the model was learned by "pmp": its parameters are those of the sampler, under
            which the probabilities given here, of the Gibbs distribution, are not the data's.
        """
        found = super().score_samples(X)
        if self._learning == "pmp":
            warn_user(
                "the parameters were learned for samples by perturb-and-max-product; they are no "
                "parameters of the Gibbs distribution, whose log-probabilities these are"
            )
        return found

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw rows from the model, by the sampler that it was learned with.

        That is Gibbs chains for "cd" and "pcd", every variable alone for "bp", `sampler` for
        "bp_chain" and "pmp". For "mle" and "weighted_bp_chain" it is exact up to the sizes that
        "exact" takes, and Gibbs chains beyond.

        Parameters
        ----------
        n_samples : int, default=1
        given : array-like of shape (n_features,), default=None
            0 or 1 where a value is given, NaN where it is drawn.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of int of shape (n_samples, n_features)
        """
        clamp = self._checked_given(n_samples, given)
        if self._learning == "bp":
            energy, n_features = self.energy_, self.n_features_in_
            method = resolve_method("sum_product") if self._is_auto() else self._named()
            p = infer(energy, method, clamp=clamp, returns="marginals").marginals[0, :n_features]
            u = uniforms(random_key(random_state), np.arange(n_samples), 0, n_features)
            return (u < p).astype(np.int64)
        return self._draw(self._sampling_method(n_samples), n_samples, clamp, random_state)

    def _sampling_method(self, n_samples):
        if self._sampler is not None and self._learning != "weighted_bp_chain":
            return self._sampler
        if self._learning in ("mle", "weighted_bp_chain") and is_small(self.energy_):
            return resolve_method("exact")
        return Gibbs(n_chains=n_samples)


def start_log_odds(visible, weight):
    """Log-odds (V,) of each column's share of ones, half a row on and half a row off added.

    Parameters
    ----------
    visible : ndarray (N, V)
        NaN where not observed.
    weight : ndarray (N,)
        As numbers of copies.
    """
    on = weight @ np.nan_to_num(visible) + 0.5
    off = weight @ (1 - np.nan_to_num(visible, nan=1.0)) + 0.5
    return np.log(on) - np.log(off)


def _samplers(energy, answers):
    """Names of the methods that answer this by random numbers of their own, for an error."""
    names = available_methods(energy, answers)
    return ", ".join(repr(n) for n in names if "random_state" in vars(METHODS.get(n)()))
