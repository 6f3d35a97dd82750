"""A small fit of every kind of estimator, for properties that all of them share."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from skcrbm import (
    MSSVMCRBM,
    CRBMClassifier,
    DecodedClassifier,
    ImageCRBM,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.calibration import CalibratedMarginals
from skcrbm.decoding import Threshold
from skcrbm.density import RBM, IsingModel, LargeMarginMarkovNetwork, MarkovRandomField
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.inference import TruncatedInference
from skcrbm.layers import Dense
from skcrbm.learning import (
    Adam,
    BPChainLearning,
    ContrastiveDivergence,
    Likelihood,
    PersistentContrastiveDivergence,
)

N_COLUMNS, N_LABELS = 3, 3

DENSITIES = (RBM, IsingModel, MarkovRandomField, LargeMarginMarkovNetwork)


class Fit(NamedTuple):
    """An estimator, data, and how it is to learn from them.

    Attributes
    ----------
    model : estimator
    how : {"fit", "refit", "partial_fit", "fit_transform"}
        "refit" and "partial_fit" go on from a first fit.
    target : {"labels", "class", "classes"}
    n_rows : int
    """

    model: object
    how: str = "fit"
    target: str = "labels"
    n_rows: int = 24

    def data(self):
        """X and y, the same in each call."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.n_rows, N_COLUMNS))
        hidden = X @ rng.normal(size=(N_COLUMNS, N_LABELS)) + rng.normal(size=(self.n_rows, 1))
        Y = (hidden + 0.5 * rng.normal(size=hidden.shape) > 0).astype(int)
        if isinstance(self.model, DENSITIES):
            return Y, None
        y = {"labels": Y, "class": Y[:, 0], "classes": hidden.argmax(axis=1)}[self.target]
        return X, y

    def start(self):
        """Return a model as it is before the call in question."""
        model = clone(self.model)
        if self.how in ("refit", "partial_fit"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                X, y = self.data()
                model.fit(X, y)
        return model

    def run(self, model):
        """Make the call in question."""
        X, y = self.data()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(model, "fit" if self.how == "refit" else self.how)(X, y)
        return model

    def answer(self, model):
        """Return answers of a fitted model: labels and probabilities, or similar arrays."""
        X, _ = self.data()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(model, DENSITIES):
                return [model.marginals(X)]
            if isinstance(model, OutOfBagLogOdds):
                return [model.transform(X)]
            return [model.predict(X), model.predict_proba(X)]


_FOREST = ExtraTreesClassifier(3, bootstrap=True, max_depth=2, random_state=0)


def _crbm(**options):
    return CRBMClassifier(**{"n_hidden": 2, "max_iter": 2, "random_state": 0, **options})


def _mssvm(**options):
    return MSSVMCRBM(**{"n_hidden": 2, "max_iter": 2, "random_state": 0, **options})


def _layered(**options):
    return LayeredGMClassifier(
        **{
            "layers": (Dense(2),),
            "inference": TruncatedInference(n_iter=2),
            "max_iter": 2,
            "random_state": 0,
            **options,
        }
    )


def _lmbm(**options):
    return LMBMClassifier(**{"max_iter": 30, "random_state": 0, **options})


def _density(kind, **options):
    return kind(**{"max_iter": 2, "random_state": 0, **options})


def _all():
    fits = {}
    for learning in ("mle", "cd", "pcd", "cd_percloss", "pmp"):
        fits[f"crbm-{learning}"] = Fit(_crbm(learning=learning, alpha=0.1))
    for name, options in {
        "crbm-auto": {},
        "crbm-adam": {"solver": Adam(batch_size=8), "alpha": 0.1},
        "crbm-stopped": {"solver": "adam", "early_stopping": True, "alpha": 0.1},
        "crbm-asgd": {"solver": "asgd", "inference": "sum_product"},
        "crbm-threshold": {"decode": "threshold", "alpha": 0.1},
    }.items():
        fits[name] = Fit(_crbm(**options))
    threads = {"inference": "sum_product", "alpha": 0.1, "n_jobs": 2}
    fits["crbm-threads"] = Fit(_crbm(**threads, solver=Adam(batch_size=200)), n_rows=150)
    fits["crbm-class"] = Fit(_crbm(alpha=0.1), target="class")
    fits["crbm-classes"] = Fit(_crbm(alpha=0.1), target="classes")
    fits["crbm-refit"] = Fit(_crbm(alpha=0.1), "refit")
    fits["crbm-warm"] = Fit(_crbm(alpha=0.1, solver="adam", warm_start=True), "refit")
    fits["crbm-threshold-warm"] = Fit(
        _crbm(alpha=0.1, solver="adam", warm_start=True, decode="threshold"), "refit"
    )
    fits["crbm-partial"] = Fit(
        _crbm(alpha=0.1, learning="cd", solver=Adam(batch_size=8)), "partial_fit"
    )
    images = ImageCRBM(n_hidden=2, max_iter=2, random_state=0)
    fits["images"] = Fit(images)
    fits["images-partial"] = Fit(images, "partial_fit")
    for hidden in ("marginal", "max"):
        fits[f"mssvm-{hidden}"] = Fit(_mssvm(hidden=hidden))
    fits["mssvm-asgd"] = Fit(_mssvm(solver="asgd"))
    fits["mssvm-threshold"] = Fit(_mssvm(decode="threshold"))
    fits["mssvm-refit"] = Fit(_mssvm(), "refit")
    fits["mssvm-partial"] = Fit(_mssvm(solver=Adam(batch_size=8)), "partial_fit")
    fits["lmbm"] = Fit(_lmbm())
    fits["lmbm-fixed"] = Fit(_lmbm(C=1.0, pairwise_penalty=10.0))
    fits["lmbm-class"] = Fit(_lmbm(), target="class")
    fits["lmbm-threshold"] = Fit(_lmbm(decode="threshold", C=1.0, pairwise_penalty=10.0))
    fits["lmbm-warm"] = Fit(_lmbm(C=1.0, pairwise_penalty=10.0, warm_start=True), "refit")
    fits["ssvm"] = Fit(SSVMClassifier())
    fits["ssvm-threads"] = Fit(SSVMClassifier(max_iter=30, n_jobs=2), n_rows=150)
    fits["ssvm-classes"] = Fit(SSVMClassifier(), target="classes")
    fits["layered"] = Fit(_layered())
    fits["layered-threads"] = Fit(_layered(n_jobs=2), target="classes", n_rows=150)
    fits["layered-analytic"] = Fit(_layered(learning="analytic"))
    fits["layered-stopped"] = Fit(_layered(early_stopping=True))
    fits["layered-warm"] = Fit(_layered(warm_start=True), "refit")
    fits["layered-partial"] = Fit(_layered(solver=Adam(batch_size=8)), "partial_fit")
    inner = _crbm(alpha=0.1)
    fits["decoded"] = Fit(DecodedClassifier(inner))
    fits["decoded-refit"] = Fit(DecodedClassifier(inner), "refit")
    fits["decoded-threshold"] = Fit(DecodedClassifier(inner, decode=Threshold(cv=2)))
    fits["calibrated"] = Fit(CalibratedMarginals(inner, cv=2))
    fits["calibrated-refit"] = Fit(
        CalibratedMarginals(LogisticRegression(), cv=2), "refit", target="class"
    )
    fits["bagged"] = Fit(OutOfBagLogOdds(_FOREST))
    fits["bagged-refit"] = Fit(OutOfBagLogOdds(_FOREST, label_powerset=True), "refit")
    fits["bagged-transform"] = Fit(OutOfBagLogOdds(inner, cv=2), "fit_transform")
    for kind in (IsingModel, MarkovRandomField, RBM):
        size = {"n_hidden": 2} if kind is RBM else {}
        third = BPChainLearning(n_samples=5) if kind is not RBM else ContrastiveDivergence(1, 5)
        for learning in (Likelihood(), PersistentContrastiveDivergence(1, 5), third):
            fits[f"{kind.__name__.lower()}-{learning.name}"] = Fit(
                _density(kind, learning=learning, **size)
            )
        fits[f"{kind.__name__.lower()}-warm"] = Fit(
            _density(kind, learning="mle", warm_start=True, **size), "refit"
        )
        fits[f"{kind.__name__.lower()}-partial"] = Fit(
            _density(kind, learning="mle", **size), "partial_fit"
        )
    network = LargeMarginMarkovNetwork(3, random_state=0)
    fits["largemarginmarkovnetwork"] = Fit(network)
    fits["largemarginmarkovnetwork-warm"] = Fit(clone(network).set_params(warm_start=True), "refit")
    return fits


FITS = _all()
