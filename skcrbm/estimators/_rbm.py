"""Base class of `CRBMClassifier`, `MSSVMCRBM` and `ImageCRBM`, which predict by a conditional RBM.

Each of the three classifiers has its own method `fit`. Steps that the three methods share are the
last methods of the class `RBMClassifier` and the functions below the class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial as bind
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.posterior import Posterior
from skcrbm.decoding.rules import Marginal, resolve_decoder
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.energies.grouped_rbm import GroupedRBMEnergy
from skcrbm.energies.rbm import ConditionalRBM, CRBMParams
from skcrbm.estimators._base import (
    JointClassifier,
    Rows,
    linear_coef,
    linear_intercept,
    training_rows,
    with_class_weight,
)
from skcrbm.estimators._crbm_auto import path_record
from skcrbm.estimators._new_labels import add_labels_to_model, add_labels_to_targets
from skcrbm.estimators._thresholds import refuse_thresholds
from skcrbm.inference import Exact, InferenceMethod
from skcrbm.inference.accuracy import checked_rows, marginal_error
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import methods_for, refuse_method
from skcrbm.inference.exact.parts import exact_seconds
from skcrbm.inference.rbm.mixture import drawn_log_proba, rows_with_few_products
from skcrbm.inference.registry import answers_of
from skcrbm.inference.running import run_inference
from skcrbm.learning.data import ArraySource, Design, crbm_params, crbm_rate_factors, mean_square
from skcrbm.learning.fit import (
    Plan,
    Progress,
    begin_partial_fit,
    train_one_epoch,
    warn_of_convergence,
)
from skcrbm.learning.loop import INTERRUPTED
from skcrbm.learning.solvers import StochasticSolver, resolve_stopping
from skcrbm.targets.label_sets import distinct_rows, label_sets_of
from skcrbm.targets.weights import refuse_balanced_weights
from skcrbm.utils.columns import Columns, in_faster_storage
from skcrbm.utils.fitting import CallbackSupportMixin, only_when_fitted
from skcrbm.utils.limits import (
    AUTO_EXACT_UNITS,
    ESTIMATOR_TOL,
    LONG_EXACT_SECONDS,
    MAX_EXACT_SECONDS,
    MAX_MAGNITUDE,
)
from skcrbm.utils.options import is_auto
from skcrbm.utils.parallel import one_blas_thread
from skcrbm.utils.warnings import warn_user

# `fit` warns that belief propagation is unreliable if the mean absolute error of a marginal is
# larger than this number.
_TRUSTED_ERROR = 0.1
# If the solver has batch_size="auto", each step reads all rows if there are at most
# _FULL_BATCH_ROWS rows; otherwise it reads a mini-batch of BATCH_ROWS rows.
_FULL_BATCH_ROWS, BATCH_ROWS = 200, 20
# early_stopping="auto" holds out validation rows if there are at least this many training rows. The
# second number is for solvers that average their iterates. It is smaller, because the validation
# scores of averaged iterates vary less from epoch to epoch, so that fewer validation rows are
# enough.
_EARLY_STOPPING_ROWS, _AVERAGED_STOPPING_ROWS = 1000, 200
# Names of the decoding rules for a y whose columns hold classes.
_RULES_OF_CLASSES = ("marginal", "marginal_map", "map")


class Methods(NamedTuple):
    """Inference methods of a conditional RBM."""

    training: InferenceMethod  # MSSVMCRBM also predicts labels by this method
    marginals: InferenceMethod  # method of `predict_proba`


class RBMClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, JointClassifier
):
    """Base class of classifiers that predict by a conditional RBM. Subclasses add `fit`."""

    n_hidden: int
    alpha: float | str
    inference: Any
    early_stopping: Any
    max_iter: int
    decode: Any
    class_weight: Any
    n_jobs: int | None
    verbose: bool | int

    visible_coef_: np.ndarray
    hidden_coef_: np.ndarray
    weights_: np.ndarray
    visible_intercept_: np.ndarray
    hidden_intercept_: np.ndarray
    n_hidden_: int
    n_features_in_: int
    alpha_: float
    inference_: str
    label_sets_: Any
    convergence_curve_: list[float]
    _columns: Any
    _progress: Progress
    _prediction_method: Any
    _prediction_marginals: Any

    _saved = (
        *("n_features_in_", "classes_", "_targets", "n_iter_", "inference_", "label_sets_"),
        *("visible_coef_", "hidden_coef_", "weights_", "visible_intercept_", "hidden_intercept_"),
    )
    _structural: ClassVar[tuple[str, ...]] = ("n_hidden",)
    # Consequence and remedies in the warning that inference did not converge.
    _unconverged: ClassVar[tuple[str, ...]] = (
        "gradients and probabilities may be off",
        "inference='exact' if a layer is small",
        "a solver with a smaller learning_rate",
    )
    _state = (
        *("_targets", "_prediction_method", "_prediction_marginals", "_columns", "_stream"),
        *("_progress", "_rng", "_structure"),
    )

    def __sklearn_is_fitted__(self):
        # `classes_` is not used here, because it exists even if the first fit failed.
        return hasattr(self, "visible_coef_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _label_scores(self, posterior):
        return posterior.log_odds()

    def _binary_scores(self, posterior):
        return posterior.log_odds()

    def _class_scores(self, posterior):
        return posterior.energy.class_log_weights()

    @property
    def _n_features_out(self):
        return self.weights_.shape[1]

    coef_ = linear_coef
    intercept_ = linear_intercept

    @property
    def _why_not_linear(self):
        if not self.weights_.shape[1]:
            return None
        return "hidden units", "for the outputs and hidden_{name} for the hidden units"

    def _model(self, params: CRBMParams) -> ConditionalRBM:
        units = self._targets.units
        if units is not None and units.exclusive.any():
            return ConditionalRBM(params, GroupedRBMEnergy, units)
        return ConditionalRBM(params, OneHotRBMEnergy if self._targets.one_hot else RBMEnergy)

    def _fitted_model(self) -> ConditionalRBM:
        return self._model(
            CRBMParams(
                self.weights_,
                self.visible_coef_,
                self.hidden_coef_,
                self.visible_intercept_,
                self.hidden_intercept_,
            )
        )

    def _decoding_rule(self):
        """Return the decoding rule for a 2-D y, as a name or an object."""
        return self.decode

    def _check_decode(self) -> None:
        """Raise a ValueError if the decoding rule is not possible for this y."""
        if self._targets.units is not None:
            resolve_decoder(self._decoding_rule(), possible=_RULES_OF_CLASSES)

    def _posterior_options(self) -> dict[str, Any]:
        """Return further arguments of the `Posterior`; subclasses override this."""
        if self._targets.units is None:
            return {}
        # Do not improve the found states by flips of single units, because an output of several
        # classes could then have two classes or no class.
        large = self._targets.n_bits > AUTO_EXACT_UNITS and self.n_hidden_ > AUTO_EXACT_UNITS
        options = {"n_restarts": 10, "max_iter": 50, "tol": ESTIMATOR_TOL, "random_state": 0}
        best = resolve_method("max_product").with_options(**options) if large else Exact()
        return {"state_methods": {"map": best, "marginal_map": Exact()}}

    def _posterior_of(self, X, known):
        energy = self._fitted_model().energy(X)
        if max(np.abs(field).max(initial=0) for field in energy.fields) > MAX_MAGNITUDE:
            raise ValueError(
                "X times visible_coef_ or hidden_coef_ is too large; scale the columns of X"
            )
        method = self._prediction_marginals
        return self._posterior_with(energy, method, known, **self._posterior_options())

    def _labels(self, posterior):
        self._check_decode()
        return resolve_decoder(self._decoding_rule()).decode(posterior)

    def _drawn_log_proba(self, X, n_draws, seed, labels=None):
        """Return the log-probabilities of draws from p(y | x); see `drawn_log_proba`.

        The third result is a mask (N,), True for the rows that `drawn_log_proba` supports; the
        other results have entries for these rows only. None is returned if it supports no row, for
        example because the model has too many hidden units, or if y had columns of classes.
        """
        with one_blas_thread():
            posterior = self._posterior(X, None)
        energy = posterior.energy
        rows = rows_with_few_products(energy)
        if not (self._targets.indicator and rows.any()):
            return None
        if not rows.all():
            energy, labels = energy.rows(rows), None if labels is None else labels[rows]
        return *drawn_log_proba(energy, n_draws, seed, self.n_jobs, labels), rows

    def transform(self, X, y_known=None):
        """Return the probabilities P(h_j = 1 | x) of the hidden units, as features of each row.

        Inference uses the same method as `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels; the result is then
            P(h_j = 1 | x, y_known).

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
        """
        with one_blas_thread():
            posterior = self._posterior(X, y_known)
            return posterior.infer().marginals[:, posterior.energy.n_visible :]

    @only_when_fitted
    def sparsify(self, threshold: float = 0.0):
        """Store the coefficients of the inputs as CSR matrices, without small entries.

        This saves memory and pickled bytes if most coefficients are 0 or small. With
        ``threshold=0`` predictions stay the same up to rounding. Later calls of `partial_fit`, and
        of `fit` with a warm start, convert the coefficients back to dense arrays.

        Parameters
        ----------
        threshold : float, default=0.0
            Entries of `visible_coef_` and `hidden_coef_` with an absolute value of at most this
            number are set to 0. The coefficients apply to the given columns of X. If a column is
            multiplied by 10, its coefficients are divided by 10, so choose the threshold for the
            scale of X.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If the threshold is negative or not finite.

        Examples
        --------
        >>> from sklearn.datasets import make_multilabel_classification
        >>> from skcrbm import CRBMClassifier
        >>> X, Y = make_multilabel_classification(n_samples=150, random_state=0)
        >>> model = CRBMClassifier(random_state=0).fit(X, Y).sparsify(0.05)
        >>> model.visible_coef_.shape, model.visible_coef_.nnz < 100
        ((5, 20), True)
        """
        if not isinstance(threshold, Real) or not 0 <= threshold < np.inf:
            raise ValueError(f"threshold must be a nonnegative finite number, got {threshold!r}")
        for name in ("visible_coef_", "hidden_coef_"):
            coef = getattr(self, name)
            coef = coef.toarray() if issparse(coef) else coef
            small = np.abs(coef) <= threshold
            setattr(self, name, csr_matrix(np.where(small, coef.dtype.type(0), coef)))
        return self

    def densify(self):
        """Store the coefficients of the inputs as arrays, which undoes `sparsify`.

        Entries that `sparsify` has set to 0 stay 0.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        check_is_fitted(self)
        for name in ("visible_coef_", "hidden_coef_"):
            coef = getattr(self, name)
            if issparse(coef):
                setattr(self, name, coef.toarray())
        return self

    # ------------------------------------------------------------- steps of a fit

    def _fold_settings(self, rows: Rows):
        """Return X, y and a dict of changed hyperparameters, for fits to folds of the rows."""
        changes = {"class_weight": None}  # the row weights already include the class weights
        X = rows.X
        if self._columns is not None:
            # alpha_ and n_hidden_ apply to scaled columns, so the folds get scaled columns.
            changes = {**changes, "alpha": self.alpha_, "n_hidden": self.n_hidden_}
            X = in_faster_storage(X)
            X = self._columns.for_rows(X).transform(X)
        return X, rows.visible, changes

    def _train_one_epoch(self, X, y, classes, sample_weight):
        """Train for one epoch; the arguments are those of `partial_fit`."""
        resume, rng = begin_partial_fit(self)
        if resume:
            add_labels_to_targets(self, y, classes)
        refuse_balanced_weights(self.class_weight)
        refuse_thresholds(self.decode)
        rows = training_rows(
            self, X, y, sample_weight, reset=not resume, classes=classes, partial=True
        )
        rows = with_class_weight(self, rows)
        if resume:
            add_labels_to_model(self, rows, rng)
        train_one_epoch(self, self._stream_plan(rows, rng), rng)
        self._warn_of_convergence()
        return self

    @abstractmethod
    def _stream_plan(self, rows: Rows, rng) -> Plan:
        """Return the plan of an epoch of `partial_fit`, from the fitted model if there is one."""

    def _warn_of_convergence(self) -> None:
        """Warn if inference did not converge for many rows in the last iteration or epoch."""
        warn_of_convergence(
            self.convergence_curve_[-1], self._prediction_method, *self._unconverged
        )

    def _resume(self) -> None:
        """Prepare a fit that continues the earlier fit."""
        self.densify()
        vars(self).pop("thresholds_", None)  # thresholds of the earlier fit

    def _stream_design(self, rows: Rows) -> Design:
        """Return the inputs of `partial_fit`, which are scaled only if an earlier fit scaled X."""
        X = in_faster_storage(rows.X, not is_auto(self.alpha))
        columns = getattr(self, "_columns", None)
        return Design(X, None if columns is None else columns.for_rows(X))

    def _first_model(
        self, rows: Rows, design: Design, methods: Methods, rng, *scales: float
    ) -> ConditionalRBM:
        """Return a model with new parameters, for the inputs `design.X`.

        `scales` are the last arguments of `crbm_params`.
        """
        n_features = design.X.shape[1]
        model = self._model(
            crbm_params(rows.visible, rows.weight, n_features, self.n_hidden, rng, *scales)
        )
        check_inference_cost(model, design.X, methods, self.max_iter)
        return model

    def _resumed_model(self, design: Design, methods: Methods) -> ConditionalRBM:
        """Return the fitted model for the inputs `design.X`."""
        model = design.inner(self._fitted_model())
        check_inference_cost(model, design.X, methods, self.max_iter)
        return model

    def _stochastic_fields(
        self,
        rows: Rows,
        design: Design,
        solver: StochasticSolver,
        *,
        hold_out: bool | None = None,
        full_batch_rows: int = _FULL_BATCH_ROWS,
        average: bool = False,
    ) -> dict[str, Any]:
        """Return the fields of a `Plan` that only stochastic solvers use.

        The last three arguments are the values of options that are "auto": `hold_out` is True if
        validation rows are held out (None decides by the number of rows), each step reads all rows
        if there are at most `full_batch_rows`, and `average` is True if iterates are averaged.
        """
        n_rows = rows.n_originals
        if hold_out is None:
            least = _AVERAGED_STOPPING_ROWS if solver.averaged else _EARLY_STOPPING_ROWS
            hold_out = n_rows >= least
        batch_size = n_rows if n_rows <= full_batch_rows else BATCH_ROWS
        return {
            "stopping": resolve_stopping(self.early_stopping, hold_out),
            "batch_size": solver.rows_per_step(n_rows, batch_size),
            "average": solver.keeps_average(average),
            "rate_factors": crbm_rate_factors(solver),
            "mean_square": mean_square(design.X, rows.weight) if solver.averaged else 0.0,
        }

    def _conditional_plan(
        self,
        rows: Rows,
        design: Design,
        model: ConditionalRBM,
        methods: Methods,
        *,
        alpha: float,
        points: Sequence = (),
        label_sets: np.ndarray | None = None,
        found: dict[str, Any],
        **training: Any,
    ) -> Plan:
        """Return the plan of a fit to `rows`, from a model for the inputs `design.X`.

        `points` describe the search for the penalty `alpha`. `label_sets` and `found` are arguments
        of `_model_attributes`, and `training` has the other fields of the plan.
        """
        found = {
            "alpha_": float(alpha),
            "alpha_path_": path_record(points),
            "_columns": design.columns,
            **found,
        }
        return Plan(
            model=model,
            design=design,
            rows=source_of(rows, design),
            max_iter=self.max_iter,
            verbose=self.verbose,
            attributes=bind(
                self._model_attributes,
                rows=rows,
                methods=methods,
                label_sets=label_sets,
                found=found,
            ),
            stratify=not self._targets.multilabel,
            **training,
        )

    def _model_attributes(
        self,
        model: ConditionalRBM,
        epoch: int,
        *,
        rows: Rows,
        methods: Methods,
        label_sets: np.ndarray | None,
        found: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the fitted attributes for a model at the end of an epoch.

        The coefficients of `model` apply to X before any scaling, as the X of `rows` is.
        `label_sets` are the label sets of earlier calls of `partial_fit`, and `found` holds the
        attributes that are known before training, such as `alpha_`.
        """
        params = model.params
        method, marginals = (m.at_epoch(epoch) for m in methods)
        sets = self._label_sets(model, marginals, rows.first)
        if label_sets is not None:
            sets = distinct_rows(np.vstack([label_sets, sets]))
        return {
            "weights_": params.weights,
            "visible_coef_": params.visible_coef,
            "hidden_coef_": params.hidden_coef,
            "visible_intercept_": params.visible_intercept,
            "hidden_intercept_": params.hidden_intercept,
            "n_hidden_": params.weights.shape[1],
            "label_sets_": sets,
            "inference_": method.name,
            "n_inference_iter_": getattr(method, "max_iter", None),
            "_prediction_method": method,
            "_prediction_marginals": marginals,
            **found,
        }

    def _label_sets(self, model, method, rows: Rows):
        """Return the distinct label vectors of the rows.

        If some labels of a row are missing, they are replaced by the predictions of the model.
        """
        sets = label_sets_of(rows.visible)
        missing = np.isnan(rows.visible)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if not partly.any():
            return sets
        with one_blas_thread():
            posterior = Posterior(
                model.energy(rows.X[partly]),
                method,
                rows.visible[partly],
                sets,
                self.n_jobs,
                allow_empty=self.allow_empty_,
                unseen_share=self.unseen_share_,
            )
            completed = Marginal().decode(posterior)
        return distinct_rows(np.vstack([sets, completed]))

    def _warn_of_strong_couplings(self, rows: Rows) -> bool:
        """Warn if the weights W are so large that belief propagation is inaccurate.

        Return True if the user interrupted this check, else False. In both cases the model is
        trained and can be used.
        """
        if self.inference_ != "sum_product":
            return False
        some = checked_rows(self.weights_.shape, rows.X.shape[0])
        if len(some) == 0:
            return False
        try:
            energy = self._fitted_model().energy(rows.X[some])
            error = marginal_error(energy, self._prediction_marginals)
        except KeyboardInterrupt:
            warn_user(INTERRUPTED)
            return True
        if error > _TRUSTED_ERROR:
            warn_user(
                "the couplings between outputs and hidden units are too strong for belief "
                f"propagation: the probabilities of one output are off by {error:.2f} on average "
                f"(max|weights_| is {np.abs(self.weights_).max():.1f}). Use inference='exact', "
                f"which is possible because the smaller layer has only {min(self.weights_.shape)} "
                "units, or a positive alpha_hidden",
                ConvergenceWarning,
            )
        return False


def marginal_method(
    inference: str | InferenceMethod,
    n_visible: int,
    n_hidden: int,
    owner: str,
    needs: Iterable[str] = ("marginals",),
) -> InferenceMethod:
    """Convert the argument `inference` to an inference method for an `RBMEnergy`.

    An `InferenceMethod` is returned unchanged. "auto" stands for "exact" if one of the two layers
    is small, else for "sum_product". `needs` are the answers that the method must give, such as
    "marginals". A ValueError is raised if the method does not exist, or does not give these answers
    for an `RBMEnergy`; it names `owner`, the estimator and its settings.
    """
    if is_auto(inference):
        small = min(n_visible, n_hidden) <= AUTO_EXACT_UNITS
        inference = "exact" if small else "sum_product"
    valid_names = bind(methods_for, RBMEnergy, needs)
    method = resolve_method(inference, valid_names=valid_names)
    # Skip this check for a method that overrides `solve`. Such a method is not in the table of
    # solvers, and its possible answers are known only when it gets an energy object.
    has_table = type(method).solve is InferenceMethod.solve
    lacking = set(needs) - answers_of(method.name, RBMEnergy, method.answers)
    if has_table and lacking:
        refuse_method(method, valid_names(), owner)
    return method


def likelihood_methods(model: RBMClassifier, needs: Iterable[str], rng) -> Methods:
    """Return the inference methods of a fit; the method of training gives the answers `needs`.

    Both are the same method with different seeds.
    """
    owner = type(model).__name__
    learning = getattr(model, "learning", None)
    if learning is not None:
        owner += f" with learning={learning!r}"
    method = marginal_method(
        model.inference, model._targets.n_bits, model.n_hidden, owner, needs=needs
    )
    if model._targets.one_hot:
        method = resolve_method("exact")
    return Methods(method.seeded(rng), method.seeded(rng))


def scaled_design(rows: Rows, alpha: float | str, centre: bool, full_batch: bool = False) -> Design:
    """Return the inputs of a fit: scaled columns if alpha is "auto", else X as given."""
    X = in_faster_storage(rows.X, not (full_batch or is_auto(alpha)))
    columns = Columns(X, rows.weight, centre) if is_auto(alpha) else None
    return Design(X, columns, double=full_batch, rotate=full_batch)


def check_inference_cost(model, X, methods: Methods, max_iter: int) -> None:
    """Raise an error before training if inference is not possible; warn if it will be slow."""
    method = methods.training
    row = X[:1] if issparse(X) else np.asarray(X[:1])
    run_inference(model.energy(row[:0]), methods.marginals, returns="marginals")
    if method.name != "exact" or model.energy_type is OneHotRBMEnergy:
        return
    energy, n_rows = model.energy(row), X.shape[0]
    seconds = max_iter * n_rows * exact_seconds(energy, ("statistics",))
    if seconds < LONG_EXACT_SECONDS:
        return
    message = (
        f"inference='exact' enumerates 2^{energy.n_enumerated()} states for each of "
        f"{n_rows} rows: {max_iter} iterations may take "
        f"{seconds / 3600:.1f} hours on one core. Use inference='sum_product', or at most 10 "
        "hidden units"
    )
    if seconds > MAX_EXACT_SECONDS:
        raise ValueError(message)
    warn_user(message)


def source_of(rows: Rows, design: Design) -> ArraySource:
    """Return the training rows with their inputs `design.X`."""
    return ArraySource(design.X, rows.visible, rows.weight, origin=rows.origin)


def variance_of(design: Design) -> float:
    """Return the total variance of the scaled columns."""
    return 0.0 if design.columns is None else design.columns.variance
