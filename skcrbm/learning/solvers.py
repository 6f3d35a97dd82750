"""Solvers and stopping rules: the objects that users pass as `solver=` and `early_stopping=`."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from skcrbm.learning.optimizers import AdamSteps, GradientSteps, Optimizer, PolynomialAverage
from skcrbm.utils.options import Integer, Options, Registry, options_constraint, resolve_options
from skcrbm.utils.sklearn_private import Interval, StrOptions

# Automatic step sizes of Adam and of gradient descent. The first number is the usual step size of
# Adam. With the second number, gradient descent learns about as fast as Adam.
_ADAM_RATE, _SGD_RATE = 0.001, 0.05
# The automatic step size of averaged gradient descent is this number divided by (1 + the mean
# squared length of a row of X). It is cautious: a logistic regression with full gradients and
# momentum 0.9 begins to diverge only at seven times this step size.
_AVERAGED_RATE = 2.0
# If an epoch has fewer steps than this number, Adam's automatic step size is multiplied by this
# number divided by the number of steps, so that parameters move about as far in each epoch.
# `Plan.max_speedup` limits the factor.
_STEPS_PER_EPOCH = 60
# Values of `n_iter_no_change="auto"`, the number of epochs without an improvement after which
# training stops. The first number is for averaged gradient descent, the second for all other
# solvers.
_AVERAGED_PATIENCE, _PATIENCE = 10, 25
_AUTO = StrOptions({"auto"})


class Solver(Options):
    """Base class of the solvers."""

    #: True if the solver visits the rows in mini-batches.
    stochastic: ClassVar[bool] = True
    #: True if the solver bounds the optimum of max-margin learning by a dual problem.
    dual: ClassVar[bool] = False


class LBFGS(Solver):
    """L-BFGS on the exact likelihood of all rows at once.

    An iteration counts as an epoch. This solver needs ``learning="mle"`` and exact inference.

    Parameters
    ----------
    tol : float, default=0.0
        Training stops when ten iterations have lowered the objective by no more than `tol`, or by
        no more than 5e-4 of its value (1e-8 without hidden units).

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.learning import LBFGS
    >>> CRBMClassifier(solver=LBFGS(tol=1e-4)).get_params()["solver__tol"]
    0.0001
    """

    name = "lbfgs"
    stochastic = False
    _parameter_constraints: ClassVar = {"tol": [Interval(Real, 0, None, closed="left")]}

    def __init__(self, tol: float = 0.0):
        self.tol = tol


class StochasticSolver(Solver):
    """Base class of the solvers that make a step for each mini-batch."""

    #: True for averaged gradient descent, in which "auto" has a different value for some options.
    averaged: ClassVar[bool] = False

    learning_rate: float | Literal["auto"]
    batch_size: int | Literal["auto"]

    _parameter_constraints: ClassVar = {
        "learning_rate": [Interval(Real, 0, None, closed="neither"), _AUTO],
        "batch_size": [Integer(1), _AUTO],
    }

    @property
    def settings(self) -> tuple:
        """Settings on which the optimizer depends: the name and all options except `batch_size`."""
        options = {k: v for k, v in vars(self).items() if k != "batch_size"}
        return self.name, *sorted(options.items())

    def rows_per_step(self, n_rows: int, automatic: int) -> int:
        """Return the number of rows per mini-batch; "auto" stands for the number `automatic`."""
        size = automatic if isinstance(self.batch_size, str) else self.batch_size
        return min(size, n_rows)

    def keeps_average(self, automatic: bool) -> bool:
        """Return True if the iterates are averaged; "auto" stands for the bool `automatic`."""
        average = getattr(self, "average", True)
        return automatic if isinstance(average, str) else average

    def step_size(self, scale: StepScale) -> float:
        """Return the step size; if it is "auto", compute it from the quantities in `scale`."""
        if not isinstance(self.learning_rate, str):
            return self.learning_rate
        return self._automatic_step_size(scale)

    def _automatic_step_size(self, scale: StepScale) -> float:
        return _SGD_RATE

    def optimizer(self, rates, average: bool) -> Optimizer:
        """Return a new optimizer; `rates` has a learning rate per parameter array."""
        return GradientSteps(rates, self._momentum, PolynomialAverage() if average else None)

    @property
    def _momentum(self):
        return getattr(self, "momentum", 0.0)


@dataclass(frozen=True)
class StepScale:
    """Quantities on which automatic step sizes depend."""

    n_steps: int  # number of mini-batches in an epoch
    max_speedup: int  # limit of the factor by which Adam's step size is raised
    mean_square: float  # mean squared length of a row of X
    curvature: float  # largest factor of the penalty


class Adam(StochasticSolver):
    """Adam (Kingma and Ba 2015) on mini-batches.

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        Step size. "auto" is 0.001 if an epoch has at least 60 steps. If an epoch has fewer steps,
        "auto" is larger by the factor ``60 / steps``, but at most by 50 (by 20 in `IsingModel` and
        `MarkovRandomField` with a rule other than "mle").
    batch_size : int or "auto", default="auto"
        Number of rows per step. The documentation of each estimator gives the value of "auto".
    average : bool or "auto", default="auto"
        Keep a running average of the iterates, in which late iterates have larger weights, instead
        of the last iterate. "auto" averages if the steps of the learning rule do not become smaller
        near the optimum: in `MSSVMCRBM`, and in densities with a rule other than "mle".

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.learning import Adam
    >>> model = CRBMClassifier(solver=Adam(learning_rate=0.01, batch_size=64))
    >>> model.set_params(solver__learning_rate=0.003).solver
    Adam(batch_size=64, learning_rate=0.003)
    """

    name = "adam"
    _parameter_constraints: ClassVar = {
        **StochasticSolver._parameter_constraints,
        "average": ["boolean", _AUTO],
    }

    def __init__(
        self,
        learning_rate: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        average: bool | Literal["auto"] = "auto",
    ):
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.average = average

    def _automatic_step_size(self, scale: StepScale) -> float:
        factor = float(np.clip(_STEPS_PER_EPOCH / scale.n_steps, 1, scale.max_speedup))
        return _ADAM_RATE * factor

    def optimizer(self, rates, average: bool) -> Optimizer:
        """Return a new optimizer; `rates` has a learning rate per parameter array."""
        return AdamSteps(rates, PolynomialAverage() if average else None)


class SGD(StochasticSolver):
    """Gradient descent on mini-batches, with optional classical momentum.

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        Step size; "auto" is 0.05.
    momentum : float in [0, 1), default=0.0
        Share of the previous step that is added to the next step.
    batch_size : int or "auto", default="auto"
        Number of rows per step, as in `Adam`.
    average : bool or "auto", default="auto"
        Keep a running average of the iterates, as in `Adam`.

    Examples
    --------
    >>> from skcrbm.learning import SGD
    >>> SGD(learning_rate=0.1, momentum=0.9)
    SGD(learning_rate=0.1, momentum=0.9)
    """

    name = "sgd"
    _parameter_constraints: ClassVar = {
        **StochasticSolver._parameter_constraints,
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "average": ["boolean", _AUTO],
    }

    def __init__(
        self,
        learning_rate: float | Literal["auto"] = "auto",
        momentum: float = 0.0,
        batch_size: int | Literal["auto"] = "auto",
        average: bool | Literal["auto"] = "auto",
    ):
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.batch_size = batch_size
        self.average = average


class AveragedSGD(StochasticSolver):
    """Gradient descent with momentum that keeps an average of its iterates.

    Late iterates have larger weights in the average. This solver suits models with hundreds of
    outputs, such as images.

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        Step size. "auto" is 2 / (1 + the mean squared length of a row of X). If the estimator
        standardises the columns of X, the lengths of the standardised rows are used.
    momentum : float in [0, 1), default=0.9
        Share of the previous step that is added to the next step.
    batch_size : int or "auto", default="auto"
        Number of rows per step, as in `Adam`.

    Examples
    --------
    >>> from skcrbm import ImageCRBM
    >>> from skcrbm.learning import AveragedSGD
    >>> model = ImageCRBM(solver=AveragedSGD(batch_size=50))
    """

    name = "asgd"
    averaged = True
    _parameter_constraints: ClassVar = {
        **StochasticSolver._parameter_constraints,
        "momentum": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        learning_rate: float | Literal["auto"] = "auto",
        momentum: float = 0.9,
        batch_size: int | Literal["auto"] = "auto",
    ):
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.batch_size = batch_size

    def _automatic_step_size(self, scale: StepScale) -> float:
        # The curvature of a logistic regression is a quarter of the first argument of `max`, so the
        # curvature of the penalty is multiplied by four.
        return _AVERAGED_RATE / max(1 + scale.mean_square, 4 * scale.curvature)


class FrankWolfe(Solver):
    """Block-coordinate Frank-Wolfe for max-margin learning of chains and graphs [1]_.

    A pass goes through all examples in random order. For each example, the solver finds the labels
    that violate the margin most. It then moves dual weight to these labels from the labels that
    violate the margin least (a pairwise step [2]_). An exact line search determines how much weight
    is moved, so there is no step size.

    Parameters
    ----------
    tol : float, default=0.01
        Training stops when the duality gap is at most `tol` times the objective. The gap is
        computed in a pass over all examples with fixed parameters. It bounds the distance from the
        optimum if all searches for labels are exact.

    References
    ----------
    .. [1] Lacoste-Julien, Jaggi, Schmidt and Pletscher (2013). Block-coordinate Frank-Wolfe
       optimization for structural SVMs. ICML.
    .. [2] Osokin, Alayrac, Lukasewitz, Dokania and Lacoste-Julien (2016). Minding the gaps for
       block Frank-Wolfe optimization of structured SVMs. ICML.

    Examples
    --------
    >>> from skcrbm import ChainCRF
    >>> from skcrbm.learning import FrankWolfe
    >>> model = ChainCRF(learning="max_margin", solver=FrankWolfe(tol=1e-4))
    """

    name = "frank_wolfe"
    stochastic = False
    dual = True
    _parameter_constraints: ClassVar = {"tol": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, tol: float = 0.01):
        self.tol = tol


#: Solvers by the name that `solver=` takes.
SOLVERS = Registry(
    "solver",
    {
        "lbfgs": "skcrbm.learning.solvers:LBFGS",
        "asgd": "skcrbm.learning.solvers:AveragedSGD",
        "adam": "skcrbm.learning.solvers:Adam",
        "sgd": "skcrbm.learning.solvers:SGD",
        "frank_wolfe": "skcrbm.learning.solvers:FrankWolfe",
    },
)
STOCHASTIC_SOLVERS = ("asgd", "adam", "sgd")
#: Solvers that follow gradients. "frank_wolfe" solves a dual problem.
GRADIENT_SOLVERS = ("lbfgs", *STOCHASTIC_SOLVERS)


def resolve_solver(solver: str | Solver, names=GRADIENT_SOLVERS) -> Any:
    """Return the solver that a name stands for, or the given object, with its options checked."""
    return resolve_options(solver, SOLVERS, Solver, "solver", names)


def solver_constraint(names=GRADIENT_SOLVERS, *, auto: bool = False) -> list:
    """Return the constraint of a hyperparameter that accepts the solvers `names`."""
    kinds = tuple(SOLVERS.get(name) for name in names)
    return options_constraint(names, kinds, "Adam(learning_rate=0.01)", auto=auto)


# ------------------------------------------------------------------- stopping rules


class LossPlateau(Options):
    """Stop when the training loss no longer falls; no rows are held out.

    Rules without a loss, such as "cd", "pcd" and "pmp", do all `max_iter` epochs.

    Parameters
    ----------
    n_iter_no_change : int or "auto", default="auto"
        Stop after this number of epochs in which the loss has not fallen by more than `tol`. "auto"
        is 10 with averaged gradient descent, else 25.
    tol : float, default=0.0
        Largest decrease of the loss that does not count as an improvement.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.learning import LossPlateau
    >>> model = CRBMClassifier(solver="adam", early_stopping=LossPlateau(n_iter_no_change=5))
    """

    name = "loss_plateau"
    _parameter_constraints: ClassVar = {
        "n_iter_no_change": [Integer(1), _AUTO],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, n_iter_no_change: int | Literal["auto"] = "auto", tol: float = 0.0):
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol

    def patience(self, solver: StochasticSolver) -> int:
        """Return the number of epochs without an improvement after which training stops."""
        if isinstance(self.n_iter_no_change, str):
            return _AVERAGED_PATIENCE if solver.averaged else _PATIENCE
        return self.n_iter_no_change


class EarlyStopping(LossPlateau):
    """Hold out a part of the rows, and keep the epoch with the best score on this part.

    Parameters
    ----------
    validation_fraction : float in (0, 1), default=0.15
        Share of the rows that is held out.
    n_iter_no_change : int or "auto", default="auto"
        Stop after this number of epochs in which the validation score has not risen by more than
        `tol`. "auto" is 10 with averaged gradient descent, else 25.
    tol : float, default=0.0
        Largest increase of the score that does not count as an improvement.
    refit : bool, default=True
        Train again from the start on all rows, for the best number of epochs.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.learning import EarlyStopping
    >>> model = CRBMClassifier(early_stopping=EarlyStopping(validation_fraction=0.2))
    >>> model.set_params(early_stopping__refit=False).early_stopping
    EarlyStopping(refit=False, validation_fraction=0.2)
    """

    name = "early_stopping"
    _parameter_constraints: ClassVar = {
        **LossPlateau._parameter_constraints,
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "refit": ["boolean"],
    }

    def __init__(
        self,
        validation_fraction: float = 0.15,
        n_iter_no_change: int | Literal["auto"] = "auto",
        tol: float = 0.0,
        refit: bool = True,
    ):
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.refit = refit


def stopping_constraint(*, auto: bool = True) -> list:
    """Return the constraint of `early_stopping`: a bool, "auto" or a configured object."""
    _, objects = options_constraint((), (LossPlateau,), "EarlyStopping(validation_fraction=0.2)")
    return ["boolean", *([_AUTO] if auto else []), objects]


def resolve_stopping(
    early_stopping: bool | str | LossPlateau,
    automatic: bool,
    held_out: EarlyStopping | None = None,
    plateau: LossPlateau | None = None,
) -> LossPlateau:
    """Return the stopping rule that the hyperparameter `early_stopping` stands for.

    "auto" stands for the bool `automatic`, True for the rule `held_out` and False for the rule
    `plateau`. The defaults of these two rules are ``EarlyStopping()`` and ``LossPlateau()``.
    """
    if isinstance(early_stopping, LossPlateau):
        early_stopping.check_options()
        return early_stopping
    hold_out = automatic if isinstance(early_stopping, str) else early_stopping
    if hold_out:
        return EarlyStopping() if held_out is None else held_out
    return LossPlateau() if plateau is None else plateau


def holds_out_rows(early_stopping: bool | str | LossPlateau) -> bool:
    """Return True if `early_stopping` is True or an `EarlyStopping`, which hold rows out."""
    return early_stopping is True or isinstance(early_stopping, EarlyStopping)


def refuse_held_out_rows(early_stopping) -> None:
    """Raise a ValueError if `partial_fit` is asked to hold rows out."""
    if isinstance(early_stopping, LossPlateau):
        early_stopping.check_options()
    if holds_out_rows(early_stopping):
        raise ValueError(
            f"partial_fit does not support early_stopping={early_stopping!r}, because it does one "
            "epoch on the given rows; set early_stopping=False"
        )


def refuse_early_stopping(early_stopping, solver: Solver) -> None:
    """Raise a ValueError if a solver that takes all rows at once is asked to stop early."""
    if early_stopping is not False:
        raise ValueError(
            "early_stopping is for stochastic solvers; set early_stopping=False with "
            f"solver={solver.name!r}"
        )
