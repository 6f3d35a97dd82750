"""Define the base class of the conditional random fields of sequences, graphs and images.

A row is a whole sequence, graph or image; its items are the positions, nodes or pixels, each of
which has a class. The base class contains training and all answers of a fitted model. A subclass
reads X and y, makes its model and its objective, and answers questions about a batch of rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding.rules import DecodingRule, decoder_constraint
from skcrbm.learning.data import Design
from skcrbm.learning.fit import NO_PROGRESS, Plan, begin_partial_fit, train, train_one_epoch
from skcrbm.learning.large_margin.frank_wolfe import FrankWolfeFit, fit_frank_wolfe
from skcrbm.learning.large_margin.structured_blocks import dual_blocks
from skcrbm.learning.solvers import (
    GRADIENT_SOLVERS,
    LBFGS,
    FrankWolfe,
    Solver,
    refuse_early_stopping,
    resolve_solver,
    resolve_stopping,
    solver_constraint,
    stopping_constraint,
)
from skcrbm.learning.structured.penalty import PLAIN_ALPHA, search_alpha, structured_penalty
from skcrbm.learning.structured.rows import StructureSource
from skcrbm.targets.codes import MISSING, UNKNOWN, LabelCoder, warn_of_new_label
from skcrbm.targets.names import in_rows_of
from skcrbm.targets.sequences import Structure, flat_labels, item_weights, split_rows
from skcrbm.utils.columns import warn_of_scales
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    pass_hooks,
    skip_empty_batches,
    warn_of_early_end,
    with_callbacks,
)
from skcrbm.utils.options import Integer, check_parameters, is_auto, option_name
from skcrbm.utils.parallel import one_blas_thread, ordered_map
from skcrbm.utils.pickling import SavedModel
from skcrbm.utils.sklearn_private import Interval, StrOptions, fit_context
from skcrbm.utils.validation import (
    NothingToLearnError,
    check_count,
    check_order,
    check_sample_weight,
)
from skcrbm.utils.warnings import warn_user

# Names of the solvers of `ChainCRF` and `GraphCRF`.
_SOLVERS = (*GRADIENT_SOLVERS, "frank_wolfe")

#: Constraints of the hyperparameters that all structured estimators share.
SHARED_CONSTRAINTS: dict[str, Any] = {
    "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "max_iter": [Integer(1)],
    "early_stopping": stopping_constraint(auto=False),
    # "map" suits the share of rows without a wrong label, "marginal" the share of right labels.
    "decode": decoder_constraint(("map", "marginal")),
    "warm_start": ["boolean"],
    "n_jobs": [Integer(), None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
#: Constraints of the hyperparameters that `ChainCRF` and `GraphCRF` share.
LINEAR_CONSTRAINTS: dict[str, Any] = {
    **SHARED_CONSTRAINTS,
    "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    "solver": solver_constraint(_SOLVERS, auto=True),
    "features": [StrOptions({"observed", "all"})],
}
_NO_MARGINALS = (
    "decode='marginal' needs probabilities, which learning='max_margin' does not learn; set "
    "decode='map' or learning='mle'"
)
# Advice in the warning about columns of X that have different scales.
_SCALE = "Put SequenceTransformer(StandardScaler()) of skcrbm.pipeline before it"


class TopPaths(NamedTuple):
    """The k most probable label sequences of a sequence, or label vectors of a graph.

    The label sequences (or vectors) are in decreasing order of probability.
    """

    labels: np.ndarray  # (k, n): classes of the n positions or nodes
    log_proba: np.ndarray  # (k,): log-probabilities of the rows of `labels`


def offers(name: str, for_margins: bool = False) -> Callable[[Any], bool]:
    """Return the condition under which an estimator has the method `name`.

    scikit-learn's `available_if` calls the condition, which raises an AttributeError if a class
    lacks the method, or if the method needs probabilities and the model has none. `for_margins` is
    True for a method that needs no probabilities.
    """

    def offered(crf: StructuredCRF) -> bool:
        if name in crf._lacks:
            raise AttributeError(f"{type(crf).__name__} has no {name}, because {crf._lacks[name]}")
        margin = option_name(crf.learning) == "max_margin"
        if not for_margins and getattr(crf, "_hinge", margin):
            raise AttributeError(
                f"{type(crf).__name__} gives no probabilities after learning='max_margin', "
                "because its scores only serve to find the best labels; use learning='mle'"
            )
        return True

    return offered


class StructuredCRF(CallbackSupportMixin, SavedModel, BaseEstimator):
    """Base class of the conditional random fields of sequences, graphs and images.

    All of them keep the same contracts. A row without items, such as an empty sequence, is left out
    of training, and its predictions are arrays without items. Missing labels are None or NaN;
    training needs an observed label in a row of positive weight, and `partial_fit` skips batches
    without such a label. Labels that training did not have are an error, except in `score`, where
    they count as wrong. Labels that `forbidden` excludes raise an error that names the row, and
    have the log-likelihood -inf. A warm start, or another call of `partial_fit`, raises an error if
    a hyperparameter that shapes the model has changed.
    """

    classes_: np.ndarray
    loss_curve_: list[float]
    convergence_curve_: list[float]
    alpha_: float
    alpha: float | str
    solver: str | Solver
    max_iter: int
    early_stopping: Any
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: bool | int
    decode: str | DecodingRule
    # Values of the hyperparameters that some subclasses do not have.
    learning: Any = "mle"
    l1_ratio: float = 0.0

    _model: Any
    _rows: Any  # converter of X into arrays
    _coder: LabelCoder
    _progress: Any
    _hinge: bool  # True if the model was trained for a large margin
    _dual: Any
    _state = ("_model", "_rows", "_coder", "_progress", "_rng", "_dual", "_hinge", "_structure")

    _parameter_constraints: ClassVar[dict] = SHARED_CONSTRAINTS
    # Hyperparameters that shape the model, see `utils/warm_start.py`.
    _structural: ClassVar[tuple[str, ...]] = ()
    # Hyperparameters that predictions read.
    _prediction_parameters: ClassVar[tuple[str, ...]] = ("decode", "n_jobs")
    # Words for a row and an item in messages.
    _words: ClassVar[Structure]
    # Names of methods that the class lacks, and the reason in the message.
    _lacks: ClassVar[dict[str, str]] = {}
    # Number of rows in a mini-batch if the batch size of a stochastic solver is "auto".
    _batch_rows: ClassVar[int] = 16
    # Advice on dicts in `partial_fit`.
    _hashing: ClassVar[str] = ""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")

    # ------------------------------------------------------------------------------- training

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Iterable, y: Iterable, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : list of sequences, graphs or images
            Rows, in a form that the class describes. Rows without items, such as empty sequences,
            are left out.
        y : list of labels of the rows
            A label for each item. None or NaN is a missing label, and None in place of the labels
            of a row means that all of them are missing.
        sample_weight : array-like of shape (n_rows,), or list of weights of items, default=None
            Non-negative weights. With a given alpha a row of weight k counts as k copies of the
            row. If ``alpha="auto"``, alpha is chosen by held-out rows, and copies may fall into
            other folds than the row; only the ratios of the weights count in this choice. A list
            with an array (n_items,) for each row holds weights of single labels: a row with the
            weights (1, 3) of its items counts as a copy of weight 1 with both labels, and a copy of
            weight 2 in which only the second label is observed. A label of weight 0 is missing.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid, no row of positive weight has an
            observed label, labels break a constraint, or inference is not possible because a graph
            is too wide.
        FloatingPointError
            If training diverges.

        Warns
        -----
        ConvergenceWarning
            If "frank_wolfe" did not reach its tolerance, or its searches for labels were not exact,
            or inference on graphs converged for less than 90 % of them in the last iteration.
        """
        resume, rng = begin_fit(self)
        solver = self._solver()
        batch = self._training_batch(X, y, sample_weight, resume)
        if solver.dual:
            self._fit_dual(batch, solver, rng, resume, (X, y, sample_weight))
            return self
        plan = self._plan(batch, solver, rng, resume)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        train(self, plan, rng, callbacks)
        callbacks.end()
        self._warn_of_convergence()
        return self

    @skip_empty_batches
    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Iterable,
        y: Iterable,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ):
        """Train for one epoch on the given rows, with a stochastic solver.

        X must be arrays with the same number of features in each call, so turn dicts into arrays
        first. All coefficients are learned, as with ``features="all"``. A call in which no row of
        positive weight has an observed label does nothing.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes; required in the first call if `y` does not contain all of them.

        Returns
        -------
        self
        """
        return self._train_one_epoch(X, y, classes, sample_weight)

    def _train_one_epoch(self, X, y, classes, sample_weight, **reading):
        """Train for one epoch; `reading` are further arguments of `_first_rows`."""
        resume, rng = begin_partial_fit(self)
        solver = self._solver()
        if not solver.stochastic:
            raise ValueError(
                "partial_fit needs a stochastic solver, for example solver='adam'; "
                f"{solver.name!r} needs all {self._words.whole}s at once"
            )
        batch = self._training_batch(X, y, sample_weight, resume, classes, **reading)
        if self._rows.index is not None:
            raise ValueError(
                "partial_fit cannot take dicts, because later batches may hold new features; turn "
                f"{self._hashing}"
            )
        train_one_epoch(self, self._plan(batch, solver, rng, resume, partial=True), rng)
        return self

    def _training_batch(self, X, y, sample_weight, resume, classes=None, **reading) -> Any:
        """Validate X, y and the weights; set the attributes that describe classes and features."""
        X, y = _listed(X), _listed(y)
        check_order(X=X, y=y, sample_weight=sample_weight)
        if resume:
            arrays = self._rows.transform(X)
        else:
            self._rows, arrays = self._first_rows(X, classes, sample_weight, **reading)
        weight = self._weights(sample_weight, arrays)
        labels = self._training_labels(y, arrays, weight)
        if not resume:
            self._coder = self._first_coder(labels, arrays, classes)
            self.classes_ = self._coder.classes
        elif classes is not None:
            self._coder.require(classes)
        batch = self._batch(arrays, self._codes(labels, arrays), weight)
        items = self._weights_of_items(sample_weight, arrays)
        batch = batch if items is None else batch.with_item_weights(items)
        used = (batch.weight > 0) & (np.diff(batch.start) > 0)
        if not (np.repeat(used, np.diff(batch.start)) & (batch.path != MISSING)).any():
            raise NothingToLearnError(
                f"y holds no observed label in any {self._words.whole} of positive weight"
            )
        if not used.all():
            batch = batch.take(np.flatnonzero(used))
        self._require_possible(batch, "y")
        return batch

    def _solver(self) -> Any:
        """Return the solver; raise a ValueError if the learning rule cannot use it.

        "auto" stands for "frank_wolfe" in max-margin learning, and else for "lbfgs".
        """
        learning = option_name(self.learning)
        margin = learning == "max_margin"
        if is_auto(self.solver):
            return FrankWolfe() if margin else LBFGS()
        solver = resolve_solver(self.solver, _SOLVERS)
        if margin and isinstance(solver, LBFGS):
            raise ValueError(
                "solver='lbfgs' needs a smooth loss; learning='max_margin' needs "
                "solver='frank_wolfe' or a stochastic solver such as 'adam'"
            )
        if solver.dual and not margin:
            raise ValueError(
                f"solver={solver.name!r} is for learning='max_margin' only; use solver='lbfgs' "
                f"with learning={learning!r}"
            )
        return solver

    def _problem(self, batch, rng, resume, partial=False) -> tuple[Any, Any]:
        """Return the model from which a fit starts, and the objective that the fit minimises."""
        self._hinge = self._trains_margin()
        model = self._model if resume else self._first_model(batch, rng, partial)
        model, objective = self._objective(model, batch)
        if objective.needs_complete and (batch.path == MISSING).any():
            raise ValueError(
                f"learning={option_name(self.learning)!r} needs complete labels with equal "
                f"weights in each {self._words.whole}, but labels are missing or have different "
                "weights; learning='mle' supports them"
            )
        return model, objective

    def _trains_margin(self) -> bool:
        """Return True if the learning rule is the hinge loss; check the options that go with it.

        Attributes that describe the dual solution of an earlier fit are deleted.
        """
        for name in ("objective_", "duality_gap_", "certified_"):
            vars(self).pop(name, None)
        if option_name(self.learning) != "max_margin":
            return False
        if self.l1_ratio != 0:
            raise ValueError(
                f"learning='max_margin' needs an L2 penalty, l1_ratio=0; got {self.l1_ratio!r}"
            )
        if option_name(self.decode) == "marginal":
            raise ValueError(_NO_MARGINALS)
        return True

    def _plan(self, batch, solver, rng, resume, partial=False) -> Plan:
        """Return the `Plan` (model, objective, solver, penalty and stopping rule) of a fit.

        `resume` is True if training continues from the fitted model, and `partial` is True in
        `partial_fit`.
        """
        model, objective = self._problem(batch, rng, resume, partial)
        alpha = float(self._chosen_alpha(model, batch, objective, rng, resume, partial))
        source = StructureSource(batch)
        stochastic: dict[str, Any] = {}
        if solver.stochastic:
            stochastic = {
                "stopping": resolve_stopping(self.early_stopping, False),
                "batch_size": solver.rows_per_step(source.n_originals, self._batch_rows),
                "average": solver.keeps_average(False),
                "rate_factors": type(model.params)(*map(float, objective.trained)),
                "mean_square": self._mean_square(batch),
            }
        else:
            refuse_early_stopping(self.early_stopping, solver)
        return Plan(
            model=model,
            design=Design(np.empty((0, 0))),
            rows=source,
            objective=objective,
            penalty=structured_penalty(
                model.params, alpha, self.l1_ratio, objective.penalises_intercept
            ),
            solver=solver,
            max_iter=self.max_iter,
            verbose=int(self.verbose),
            progress=self._progress if resume else NO_PROGRESS,
            attributes=lambda model, epoch: self._model_attributes(model, alpha),
            **stochastic,
        )

    def _chosen_alpha(self, model, batch, objective, rng, resume, partial=False) -> Any:
        """Return the penalty alpha of a fit; warn if the columns of X have different scales."""
        if not (resume or issparse(batch.X)):
            weight = np.repeat(batch.weight, np.diff(batch.start))
            warn_of_scales(batch.X, weight, type(self).__name__, partial, _SCALE)
        if not is_auto(self.alpha):
            return self.alpha
        if hasattr(self, "alpha_"):
            return self.alpha_
        return PLAIN_ALPHA if partial else search_alpha(model, batch, objective, self.l1_ratio, rng)

    def _mean_square(self, batch) -> float:
        """Return the mean, over all rows, of the sum of squares of all features."""
        X = batch.X
        squares = X.multiply(X).sum() if hasattr(X, "multiply") else np.square(X, dtype=float).sum()
        return float(squares) / len(batch)

    def _warn_of_convergence(self) -> None:
        """Warn if inference did not converge in the last iteration of a fit."""

    def _fit_dual(self, batch, solver, rng, resume, data: tuple) -> None:
        """Train for a large margin in the dual problem, and set the fitted attributes.

        `data` are the arguments X, y and `sample_weight` of `fit`, for callbacks. A warm start
        begins with the dual variables of the earlier fit if the labels are the same, else with
        parameters of 0. The optimum does not depend on the start.
        """
        model, objective = self._problem(batch, rng, resume)
        refuse_early_stopping(self.early_stopping, solver)
        alpha = float(self._chosen_alpha(model, batch, objective, rng, resume))
        if alpha == 0:
            raise ValueError(f"alpha must be positive with solver={solver.name!r}; got 0")

        def attributes(fitted: FrankWolfeFit) -> dict[str, Any]:
            return {
                **self._model_attributes(model._replace(params=fitted.params), alpha),
                "objective_": fitted.objective,
                "duality_gap_": fitted.gap,
                "certified_": fitted.proven == 1.0,
                "loss_curve_": list(fitted.losses),
                "n_iter_": fitted.n_iter,
                "_progress": NO_PROGRESS,  # a stochastic solver can start from these parameters
            }

        X, y, sample_weight = data
        callbacks = EpochCallbacks(self, self.max_iter, X, y, sample_weight, "pass")
        blocks = dual_blocks(model, batch, objective, alpha * batch.weight.sum())
        if getattr(self, "_dual", None) is not None:
            blocks.restore(self._dual)
        with pass_hooks(self, "pass", callbacks, attributes, _loss_and_gap) as hooks:
            fitted = fit_frank_wolfe(
                blocks, rng=rng, tol=solver.tol, max_iter=self.max_iter, **hooks
            )
        dual = blocks.state() if self.warm_start else None
        vars(self).update({**attributes(fitted), "_rng": rng, "_dual": dual})
        _warn_of_gap(fitted, self.max_iter, solver)
        callbacks.end()

    # ------------------------------------------------------------------------------- answers

    def predict(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Predict the labels of all items.

        Parameters
        ----------
        X : list of sequences, graphs or images
            Rows, in the same form as in `fit`.
        y_known : list of labels of the rows, default=None
            Labels that are known beforehand, and None or NaN for the other labels, which are
            predicted given the known labels.

        Returns
        -------
        ndarray of object (n_rows,)
            Array of labels (n_items,) for each row. `GridCRF` returns images of labels, as one
            array if X is an array.
        """
        batch = self._given(X, y_known)
        return self._like(X, self.classes_[self._of_items(batch, self._decoded)], batch)

    @available_if(offers("predict_proba"))
    def predict_proba(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Return the probability of each class at each item.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray of object (n_rows,)
            Array (n_items, n_classes) for each row, with columns in the order of `classes_`.
            `GridCRF` returns images with a last axis for the classes, as one array if X is an
            array.
        """
        batch = self._given(X, y_known)
        return self._like(X, self._of_items(batch, self._marginals, len(self.classes_)), batch)

    @available_if(offers("predict_log_proba"))
    def predict_log_proba(self, X: Iterable, y_known: Iterable | None = None) -> np.ndarray:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        ndarray
            Log-probabilities in the form of `predict_proba`.
        """
        batch = self._given(X, y_known)
        log_p = self._of_items(batch, self._log_marginals, len(self.classes_))
        return self._like(X, log_p, batch)

    @available_if(offers("predict_topk", for_margins=True))
    def predict_topk(self, X: Iterable, k: int, y_known: Iterable | None = None) -> list[TopPaths]:
        """Return the k most probable label vectors of each row exactly.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        k : int
            Number of label vectors. If a small row has fewer possible label vectors, all of them
            are returned.

        Returns
        -------
        list of TopPaths
            Named tuples with `labels` (k, n_items) and `log_proba` (k,), in decreasing order of
            probability. `log_proba` is NaN after ``learning="max_margin"``.

        Raises
        ------
        ValueError
            If a graph is too wide for variable elimination, or has latent states.
        """
        k = check_count("k", k)
        of_empty = np.empty((1, 0), np.int64), np.array([np.nan if self._hinge else 0.0])
        batch = self._given(X, y_known)
        found = self._by_rows(batch, lambda rows: self._best_paths(rows, k), of_empty)
        return [TopPaths(self.classes_[paths], log_p) for paths, log_p in found]

    @available_if(offers("sample"))
    def sample(
        self,
        X: Iterable,
        n_samples: int = 1,
        y_known: Iterable | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Draw independent label vectors of each row exactly from p(y | x).

        If a graph is too wide for variable elimination, use
        ``skcrbm.inference.sample(model.factor_graph(graph), "gibbs")`` instead.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        n_samples : int, default=1
            Number of label vectors to draw for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of object (n_rows,)
            Array of labels (n_samples, n_items) for each row.
        """
        n_samples = check_count("n_samples", n_samples)
        rng = check_random_state(random_state)
        batch = self._given(X, y_known)
        parts = np.empty(len(batch), object)
        of_empty = np.empty((n_samples, 0), np.int64)
        drawn = self._by_rows(batch, lambda rows: self._draws(rows, n_samples, rng), of_empty)
        for c, paths in enumerate(drawn):
            parts[c] = self.classes_[paths]
        return parts

    @available_if(offers("score_samples"))
    def score_samples(self, X: Iterable, y: Iterable) -> np.ndarray:
        """Return the log-likelihood (n_rows,) of the labels of each row.

        Parameters
        ----------
        X : list of sequences, graphs or images
        y : list of labels of the rows
            Missing labels (None or NaN) are summed out.

        Returns
        -------
        ndarray of shape (n_rows,)
            Log-likelihoods, -inf for labels that `forbidden` excludes. They are approximate if the
            inference of the model is approximate; in `GridCRF` they are the sums of the
            log-probabilities of the observed labels.
        """
        X, y = _listed(X), _listed(y)
        check_order(X=X, y=y)
        batch = self._coded(X, y, "y")
        with one_blas_thread():
            return np.array(self._by_rows(batch, self._log_likelihoods, 0.0))

    def score(
        self,
        X: Iterable,
        y: Iterable,
        sample_weight: ArrayLike | None = None,
        y_known: Iterable | None = None,
    ) -> float:
        """Return the share of correctly predicted labels, over all items with observed labels.

        Labels that did not occur in training count as wrong.

        Parameters
        ----------
        X, y
            As in `fit`.
        sample_weight : array-like of shape (n_rows,), or list of weights of items, default=None
            Weights of rows or of single labels, as in `fit`.
        y_known : list of labels of the rows, default=None
            Labels that are known beforehand, as in `predict`; they do not count in the score.

        Returns
        -------
        float
        """
        X, y = _listed(X), _listed(y)
        check_order(X=X, y=y, sample_weight=sample_weight)
        batch = self._given(X, y_known)
        labels = self._labels(y, batch.arrays)
        path = self._codes(labels, batch.arrays, allow_unknown=True)
        if (path == UNKNOWN).any():
            warn_of_new_label(self._first_label(labels, path == UNKNOWN))
        weight = self._item_weights(sample_weight, batch.arrays)
        weight = weight * ((path != MISSING) & (batch.path == MISSING))
        if not weight.any():
            raise ValueError("y holds no observed label with a positive weight")
        return float(weight @ (self._of_items(batch, self._decoded) == path) / weight.sum())

    def _given(self, X, y_known) -> Any:
        """Validate X and `y_known`, and return the rows and known labels as a batch.

        Labels that are not known get the code `MISSING`. Known labels must agree with the
        constraints.
        """
        X = _listed(X)
        known = None if y_known is None else in_rows_of(_listed(y_known), X)
        batch = self._coded(X, known, "y_known")
        self._require_possible(batch, "y_known")
        return batch

    def _single(self, row) -> Any:
        """Validate a single row, which must have items, and return it as a batch."""
        batch = self._given([row], None)
        if not len(batch.path):
            raise ValueError(
                f"the {self._words.whole} is empty; a factor graph needs at least one "
                f"{self._words.part}"
            )
        return batch

    def _coded(self, X, y, name) -> Any:
        """Validate X and labels or None, and return them as a batch; see `_given`."""
        check_is_fitted(self, "classes_")
        check_parameters(self, self._prediction_parameters)
        arrays = self._rows.transform(X)
        path = np.full(arrays.start[-1], MISSING)
        if y is not None:
            path = self._codes(self._labels(y, arrays, name), arrays, name)
        return self._batch(arrays, path, self._weights(None, arrays))

    def _decoded(self, batch) -> np.ndarray:
        """Return the class (T,) of each item that `decode` chooses."""
        if option_name(self.decode) != "marginal":
            return self._best_path(batch)
        if self._hinge:
            raise ValueError(_NO_MARGINALS)
        return self._marginals(batch).argmax(axis=1)

    def _log_marginals(self, batch) -> np.ndarray:
        """Return the log-probabilities (T, K) of the classes of all items."""
        with np.errstate(divide="ignore"):
            return np.log(self._marginals(batch))

    def _by_rows(self, batch, answer: Callable[[Any], Any], of_empty) -> Any:
        """Return ``answer(batch)`` (n,), with `of_empty` for rows without items."""
        used = np.flatnonzero(np.diff(batch.start))
        if len(used) == len(batch):
            return answer(batch)
        found = [of_empty] * len(batch)
        if len(used):
            for c, value in zip(used.tolist(), answer(batch.take(used)), strict=True):
                found[c] = value
        return found

    def _of_items(self, batch, answer: Callable[[Any], np.ndarray], *shape: int) -> np.ndarray:
        """Return ``answer(batch)`` (T, ...), computed for the rows with items.

        `shape` is the shape of the answer for an item, if all rows are empty.
        """
        used = np.flatnonzero(np.diff(batch.start))
        if not len(used):
            return np.empty((0, *shape), np.float64 if shape else np.int64)
        return answer(batch if len(used) == len(batch) else batch.take(used))

    def _by_pieces(self, batch, answer: Callable[[Any], Any]) -> tuple[list, list]:
        """Split the batch; return its parts, and ``answer(part)`` of each, computed in threads."""
        pieces = batch.pieces(self._model.n_entries)
        with one_blas_thread():
            return pieces, list(ordered_map(answer, pieces, self.n_jobs))

    def _by_items(self, batch, answer: Callable[[Any], np.ndarray]) -> np.ndarray:
        """Return ``answer(part)`` (T_p, ...) of all parts of a batch as one array (T, ...)."""
        return batch.joined(*self._by_pieces(batch, answer))

    # ------------------------------------------------------------- the rows of a subclass

    @abstractmethod
    def _first_rows(self, X, classes, sample_weight, **reading) -> tuple[Any, Any]:
        """Return a converter fitted to X, and the arrays of X; set attributes about features."""

    def _note_features(self, rows, arrays):
        """Set `n_features_in_`, and the names of features in dicts, strings or data frames."""
        self.n_features_in_ = arrays.X.shape[1]
        if rows.names is not None:
            self.feature_names_in_ = rows.names

    def _weights(self, sample_weight, arrays) -> np.ndarray:
        """Return the weights of the rows (n,), or ones if single items have weights."""
        if sample_weight is None or self._weights_of_items(sample_weight, arrays) is not None:
            return np.ones(len(arrays.start) - 1)
        return check_sample_weight(sample_weight, arrays.start[1:, None])

    def _weights_of_items(self, sample_weight, arrays) -> np.ndarray | None:
        """Return the weights of single items (T,), or None if rows have weights."""
        return item_weights(sample_weight, arrays.start, self._words)

    def _item_weights(self, sample_weight, arrays) -> np.ndarray:
        """Return the weights of the items (T,) in `score`."""
        items = self._weights_of_items(sample_weight, arrays)
        if items is not None:
            return items
        return np.repeat(self._weights(sample_weight, arrays), np.diff(arrays.start))

    def _labels(self, y, arrays, name="y") -> Any:
        """Return the labels of all items, with None for missing labels."""
        return flat_labels(y, arrays.start, name, self._words)

    def _training_labels(self, y, arrays, weight) -> Any:
        """Return the labels of all items, in the form of `_labels`."""
        return self._labels(y, arrays)

    def _first_coder(self, labels, arrays, classes) -> LabelCoder:
        """Find the classes in the labels, or take them from the argument `classes`."""
        return LabelCoder.of(labels, given=classes)

    def _codes(self, labels, arrays, name="y", allow_unknown=False) -> np.ndarray:
        """Return the class (T,) of each label as an index, `MISSING` or `UNKNOWN`."""
        return self._coder.codes(labels, None, name, allow_unknown)

    def _first_label(self, labels, mask) -> Any:
        """Return the first of the labels for which the mask (T,) is True."""
        return labels[int(mask.argmax())]

    @abstractmethod
    def _batch(self, arrays, path, weight) -> Any:
        """Return the batch of all rows, with the classes `path` (T,) and the weights."""

    def _require_possible(self, batch, name) -> None:
        """Raise a NoLabelsError if constraints exclude all labels that agree with known labels.

        `name` is the argument of the known labels, "y" or "y_known".
        """

    def _like(self, X, values, batch) -> Any:
        """Return values (T, ...) of all items row by row, in the form of X."""
        return split_rows(values, batch.start)

    # ------------------------------------------------------------ the model of a subclass

    @abstractmethod
    def _first_model(self, batch, rng, partial) -> Any:
        """Return the model from which a first fit starts."""

    @abstractmethod
    def _objective(self, model, batch) -> tuple[Any, Any]:
        """Return the model with the present constraints and settings, and its objective."""

    @abstractmethod
    def _model_attributes(self, model, alpha) -> dict[str, Any]:
        """Return the fitted attributes of a model."""

    # ----------------------------------------------------------- the engine of a subclass

    @abstractmethod
    def _marginals(self, batch) -> np.ndarray:
        """Return the probabilities (T, K) of the classes of all items, given the known labels."""

    @abstractmethod
    def _best_path(self, batch) -> np.ndarray:
        """Return the most probable classes (T,) of all rows, given the known labels."""

    # A subclass that names a method in `_lacks` does not need the hook of this method.

    def _best_paths(self, batch, k) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the k best label vectors (k, n) of each row, and their log-probabilities (k,)."""
        raise NotImplementedError

    def _draws(self, batch, n_samples, rng) -> list[np.ndarray]:
        """Draw classes (n_samples, n) of each row."""
        raise NotImplementedError

    @abstractmethod
    def _log_likelihoods(self, batch) -> np.ndarray:
        """Return the log-likelihood (n,) of the known labels of each row."""


def _listed(rows):
    """Return an iterator as a list, because it can be read only once; keep other rows."""
    return list(rows) if isinstance(rows, Iterator) else rows


def _loss_and_gap(loss, gap):
    return f"loss {loss:.4f}  gap {gap:.1e}"


def _warn_of_gap(fitted, max_iter, solver):
    """Warn if training ended early, or if searches did not prove that their labels are optimal."""
    share = fitted.gap / fitted.objective if fitted.objective > 0 else 0.0
    state = f"a relative duality gap of {share:.1e} (tol={solver.tol:g})"
    advice = f"Raise alpha, tol of {type(solver).__name__}, or max_iter."
    warn_of_early_end(fitted, "pass", "passes", max_iter, state, advice)
    if fitted.proven < 1:
        warn_user(
            f"The duality gap is not a proven bound: for {1 - fitted.proven:.0%} of the graphs, "
            "max-product has not proven that its labels violate the margin most. objective_ "
            "and duality_gap_ use the labels found by max-product. If the graphs are narrow "
            "enough, inference='exact' gives a proven bound.",
            ConvergenceWarning,
        )
