"""Solvers, stopping rules and learning rules: everything that trains the parameters of a model.

Users pass these objects to an estimator as `solver=`, `early_stopping=` and `learning=`. Inside
the package, an estimator describes its training in a `Plan` and passes the plan to a function of
`fit.py`. Large margin machines need no plan, because they have their own solvers in
`large_margin/`.
"""

from skcrbm.learning.label_noise import NoisyLikelihood
from skcrbm.learning.large_margin.max_margin import MaxMargin
from skcrbm.learning.rules import (
    CDPercLoss,
    ContrastiveDivergence,
    Likelihood,
    PersistentContrastiveDivergence,
    PseudoLikelihood,
)
from skcrbm.learning.sampled_rules import BPChainLearning, BPLearning, PMPLearning
from skcrbm.learning.solvers import (
    LBFGS,
    SGD,
    Adam,
    AveragedSGD,
    EarlyStopping,
    FrankWolfe,
    LossPlateau,
)
from skcrbm.learning.truncated import AnalyticGradient, Backpropagation

__all__ = [
    "Adam",
    "AnalyticGradient",
    "AveragedSGD",
    "BPChainLearning",
    "BPLearning",
    "Backpropagation",
    "CDPercLoss",
    "ContrastiveDivergence",
    "EarlyStopping",
    "FrankWolfe",
    "LBFGS",
    "Likelihood",
    "LossPlateau",
    "MaxMargin",
    "NoisyLikelihood",
    "PMPLearning",
    "PersistentContrastiveDivergence",
    "PseudoLikelihood",
    "SGD",
]
