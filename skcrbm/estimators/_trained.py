"""What the estimators share that the training loop trains."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcrbm.estimators._callbacks import CallbackSupportMixin

_FULL_BATCH_ROWS = 200
_EARLY_STOPPING_ROWS = 1000


class TrainedMixin(CallbackSupportMixin):
    """Hyperparameters of the training, and what goes on from one call to the next."""

    _parameter_constraints: dict = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "solver": [StrOptions({"adam", "sgd"})],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "alpha_hidden": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "refit": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    #: Attributes without a trailing underscore that belong to a fit.
    _state = ()

    def _forget(self):
        """Drop what an earlier fit learned."""
        for name in [name for name in vars(self) if name.endswith("_") or name in self._state]:
            delattr(self, name)

    def _training_options(self, X, visible, weight, rng, first_epoch):
        """Keyword arguments of a `Training`, with everything resolved that says "auto"."""
        n = len(weight)
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = n if n <= _FULL_BATCH_ROWS else 20
        early_stopping = self.early_stopping
        if early_stopping == "auto":
            early_stopping = n >= _EARLY_STOPPING_ROWS
        return {
            "X": X,
            "visible": visible,
            "weight": weight,
            "stratify": self._targets.kind != "multilabel",
            "solver": self.solver,
            "learning_rate": self.learning_rate_init,
            "momentum": self.momentum,
            "batch_size": min(batch_size, n),
            "max_iter": self.max_iter,
            "early_stopping": early_stopping,
            "refit": self.refit,
            "validation_fraction": self.validation_fraction,
            "n_iter_no_change": self.n_iter_no_change,
            "tol": self.tol,
            "first_epoch": first_epoch,
            "rng": rng,
            "verbose": self.verbose,
        }

    def _check_no_early_stopping(self):
        """Refuse what `partial_fit` cannot do, as it does one epoch on the rows it is given."""
        if self.early_stopping is True:
            raise ValueError(
                "partial_fit does not support early_stopping=True; use 'auto' or False"
            )

    def _check_same_classes(self, classes):
        """Refuse a later call to `partial_fit` that names other classes."""
        if classes is None:
            return
        if self._targets.kind == "multilabel" or not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes={list(classes)} differs from the classes of the first call to "
                f"partial_fit: {self.classes_.tolist()}"
            )
