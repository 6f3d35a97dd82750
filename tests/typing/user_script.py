"""A program as a user writes it, checked by mypy against the annotations of skcrbm; it runs too."""

import numpy as np

from skcrbm import MSSVMCRBM, CRBMClassifier, DecodedClassifier, LayeredGMClassifier
from skcrbm.decoding import ExpectedMetric, Threshold, decode_marginals, fit_thresholds
from skcrbm.density import IsingModel
from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference import SumProduct, TruncatedInference, available_methods, infer, sample
from skcrbm.layers import Dense, HardClamping
from skcrbm.learning import (
    LBFGS,
    Adam,
    ContrastiveDivergence,
    EarlyStopping,
    PersistentContrastiveDivergence,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = (X + rng.normal(size=X.shape) > 0).astype(int)

crbm = CRBMClassifier(
    n_hidden=2,
    learning=ContrastiveDivergence(n_steps=2),
    inference=SumProduct(max_iter=20),
    decode=Threshold("f1_macro"),
    solver=Adam(learning_rate=0.01, batch_size=16),
    max_iter=2,
    early_stopping=EarlyStopping(validation_fraction=0.2),
    random_state=0,
)
labels: np.ndarray = crbm.fit(X, y).predict(X)
CRBMClassifier(solver=LBFGS(tol=1e-3), alpha=0.1, max_iter=3).fit(X, y)
MSSVMCRBM(inference=["max_product", "exact"], max_iter=2).fit(X, y)
DecodedClassifier(crbm, decode=ExpectedMetric("jaccard", n_samples=10), random_state=0).fit(X, y)
LayeredGMClassifier(
    layers=(Dense(2),),
    clamping=HardClamping(0.5),
    inference=TruncatedInference(n_iter=2),
    max_iter=1,
).fit(X, y)
IsingModel(learning=PersistentContrastiveDivergence(n_chains=10), max_iter=2).fit(y)

rbm = RBMEnergy(rng.normal(size=(3, 2)), np.zeros(3), np.zeros(2))
result = infer(rbm, "sum_product", max_iter=50, returns=("marginals", "log_partition"))
assert result.marginals is not None
marginals: np.ndarray = result.marginals[:, :3]
ising = IsingEnergy(np.zeros((3, 3)), np.zeros((1, 3)))
names = available_methods(ising)
draws: np.ndarray = sample(ising, n_samples=4, random_state=0)
thresholds = fit_thresholds(y, np.full(y.shape, 0.4))
best: np.ndarray = decode_marginals(marginals)
