"""Learning: how the parameters of a model move.

Estimators take the objects below as `solver=`, `early_stopping=` and `learning=`. Inside the
package, an estimator builds a `Plan` and calls one function of `fit.py`; large margin machines,
which are trained by solvers of their dual problems, are in `large_margin/`.
"""

from skcrbm.learning.rules import (
    BPChainLearning,
    BPLearning,
    CDPercLoss,
    ContrastiveDivergence,
    Likelihood,
    PersistentContrastiveDivergence,
    PMPLearning,
    PseudoLikelihood,
)
from skcrbm.learning.solvers import (
    LBFGS,
    SGD,
    Adam,
    AveragedSGD,
    EarlyStopping,
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
    "LBFGS",
    "Likelihood",
    "LossPlateau",
    "PMPLearning",
    "PersistentContrastiveDivergence",
    "PseudoLikelihood",
    "SGD",
]
