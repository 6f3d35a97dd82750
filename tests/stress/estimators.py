"""Odd data, odd hyperparameters and odd lives of all estimators.

A call either works and gives a plausible answer, or is refused by an error that names an
argument or a hyperparameter; a fit that fails leaves the estimator unchanged.
"""

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from threadpoolctl import threadpool_info

import skcrbm
from skcrbm.calibration import CalibratedMarginals
from skcrbm.decoding import ExpectedMetric, Threshold
from skcrbm.density import RBM, IsingModel, LargeMarginMarkovNetwork, MarkovRandomField
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.inference import (
    ICM,
    BranchAndBound,
    Gibbs,
    MeanField,
    MixedProduct,
    SumProduct,
    TruncatedInference,
)
from skcrbm.layers import Dense, HardClamping
from skcrbm.learning import (
    LBFGS,
    SGD,
    Adam,
    AnalyticGradient,
    AveragedSGD,
    Backpropagation,
    BPChainLearning,
    BPLearning,
    CDPercLoss,
    ContrastiveDivergence,
    EarlyStopping,
    LossPlateau,
    PersistentContrastiveDivergence,
    PMPLearning,
)
from tests.reference.interrupts import interrupted_at
from tests.stress._odd_data import features, indicator, pick, plain_features, targets, weights
from tests.stress._program import main

DENSITIES = (RBM, IsingModel, MarkovRandomField, LargeMarginMarkovNetwork)
METRICS = ["f1_samples", "jaccard_samples", "f1_micro", "f1_macro", "neg_hamming_loss"]
RULES = [
    *("marginal", "label_set", "expected_f1", "expected_jaccard", "threshold"),
    *(Threshold(metric) for metric in METRICS),
]
NONSENSE = [None, "best", -1, 0, 1.5, np.nan, np.inf, True, [], {}, object, "auto", 10**12]
SOLVERS = [
    *("adam", "sgd", Adam(batch_size=1), Adam(batch_size=7, average=True), SGD(momentum=0.9)),
    *(Adam(learning_rate=1e-12), SGD(learning_rate=0.1, batch_size=1000), Adam(learning_rate=1e6)),
]
AVERAGED = ["asgd", AveragedSGD(batch_size=7), AveragedSGD(learning_rate=0.1, momentum=0.0)]
STOPPING = [
    *(True, False, EarlyStopping(0.5, n_iter_no_change=1), EarlyStopping(0.99, tol=1e-3)),
    *(EarlyStopping(1e-3, refit=False), LossPlateau(3), LossPlateau(1, tol=1e6)),
]
SHARED = {
    "max_iter": [1, 2, 5],
    "early_stopping": ["auto", *STOPPING],
    "warm_start": [False, True],
    "n_jobs": [None, None, 2, -1, np.int8(1)],
    "random_state": [0, 1, np.int64(2)],
}
DENSITY = {
    **SHARED,
    "learning": [
        *("mle", "cd", "pcd", "bp", "pmp", "bp_chain", "weighted_bp_chain"),
        *(ContrastiveDivergence(2, 3), PersistentContrastiveDivergence(n_chains=1)),
        *(BPLearning(1), BPChainLearning(n_samples=3, weighted=True), PMPLearning(n_samples=1)),
    ],
    "inference": ["auto", "auto", "exact", "sum_product", "mean_field", Gibbs(max_iter=5)],
    "solver": SOLVERS,
    "alpha": [0.0, 0.1, 1e3],
    "alpha_l1": [0.0, 0.1],
    "binarize": [0.5, 0.0, None],
    "early_stopping": STOPPING,
}
SPACES = {
    skcrbm.CRBMClassifier: {
        **SHARED,
        "n_hidden": [0, 1, 2, 5],
        "learning": [
            *("mle", "mle", "cd", "pcd", "cd_percloss", "pmp"),
            *(ContrastiveDivergence(2), CDPercLoss(3)),
        ],
        "inference": [
            *("auto", "auto", "exact", "sum_product", "mean_field", "tree_reweighted"),
            *(SumProduct(max_iter=3, damping=0.5), Gibbs(max_iter=5, n_chains=2)),
        ],
        "decode": [*RULES, "map", "marginal_map"],
        "solver": ["auto", "auto", "lbfgs", LBFGS(tol=1e-3), *SOLVERS, *AVERAGED],
        "alpha": ["auto", 0.1, 0.0, 1e6],
        "alpha_hidden": ["auto", 0.0, 0.1],
    },
    skcrbm.ImageCRBM: {
        **SHARED,
        "n_hidden": [0, 1, 2, 12],
        "inference": ["auto", "exact", "sum_product", "mean_field", SumProduct(max_iter=3)],
        "alpha": ["auto", 0.1, 0.0, 1e6],
        "solver": [*AVERAGED, *SOLVERS],
        "early_stopping": STOPPING,
    },
    skcrbm.MSSVMCRBM: {
        **SHARED,
        "n_hidden": [0, 1, 2, 5],
        "hidden": ["marginal", "max"],
        "inference": [
            *("mixed_product", "max_product", "icm", "exact"),
            *(MixedProduct(max_iter=4), ICM(n_restarts=2)),
            *(["mixed_product", "mean_field"], ["icm", "exact"]),
        ],
        "decode": ["auto", *RULES, "map", "marginal_map"],
        "solver": ["auto", *SOLVERS, *AVERAGED],
        "alpha": ["auto", 0.1, 0.0],
    },
    skcrbm.LMBMClassifier: {
        "C": ["auto", 1.0, 1e-8, 1e8],
        "margin": [1.0, 1e-6, 1e6],
        "pairwise_penalty": ["auto", 1.0, 1e-6, np.inf],
        "tol": [1e-4, 1e-12, 10.0],
        "max_iter": [1, 5, 100],
        "inference": [
            *("branch_and_bound", "milp", "icm"),
            *(ICM(n_restarts=2), BranchAndBound(node_limit=3), BranchAndBound(node_limit=1)),
            *(["icm", "exact"], ["branch_and_bound", "mean_field"], ["icm", "sum_product"]),
            *(["milp", "tree_reweighted"], [ICM(), MeanField(max_iter=2)]),
        ],
        "cliques": [None, 2, 3],
        "decode": [*RULES, "map", "marginal_map", "hinge"],
        "class_weight": [None, "balanced", [1.0, 2.0], {0: 1, 1: 5}],
        "warm_start": [False, True],
        "n_jobs": [None, 2],
        "random_state": [0, 1],
    },
    skcrbm.SSVMClassifier: {
        "C": [0.1, 1e-8, 1e8],
        "pairwise_penalty": [1.0, 1e-6, np.inf],
        "tol": [1e-3, 1e-12, 10.0],
        "max_iter": [1, 5, 100],
        "inference": [
            *("branch_and_bound", "linear_program", "icm"),
            *(ICM(n_restarts=2), BranchAndBound(node_limit=3), ["icm", "sum_product"]),
        ],
        "decode": [*RULES[:4], "map"],
        "n_jobs": [None, 2],
        "random_state": [0, 1],
    },
    skcrbm.LayeredGMClassifier: {
        **SHARED,
        "layers": [(), (Dense(2),), (Dense(3, n_states=3),), (Dense(2), Dense(2))],
        "clamping": ["soft", "hard", HardClamping(0.0), HardClamping([0.0, 0.5])],
        "inference": [
            *("tree_reweighted", "sum_product", "mean_field"),
            *(TruncatedInference(n_iter=3), TruncatedInference("sum_product", "parallel", 1)),
        ],
        "learning": ["backprop", "analytic", Backpropagation(0.1), AnalyticGradient(0.1)],
        "solver": SOLVERS,
    },
    RBM: {**DENSITY, "n_hidden": [0, 1, 3]},
    IsingModel: {**DENSITY, "edges": [None, None, [[0, 1]]]},
    LargeMarginMarkovNetwork: {
        "cliques": ["pairwise", "pairwise", 1, 3, [[0, 1], [0]], [[0]]],
        "ties": [None, None, None, [0, 0]],
        "inputs": [None, None, [0]],
        "C": [1.0, 1e-8, 1e8],
        "margin": [1.0, 1e-6, 1e6],
        "alpha_l1": [0.0, 0.1, 1e6],
        "tol": [1e-4, 1e-12, 10.0],
        "max_iter": [1, 5, 100],
        "inference": ["auto", "auto", "exact", "sum_product", "icm", Gibbs(max_iter=5)],
        "binarize": [0.5, 0.0, None],
        "warm_start": [False, True],
        "n_jobs": [None, 2],
        "random_state": [0, 1],
    },
    MarkovRandomField: {**DENSITY, "factors": ["pairwise", "pairwise", [[0, 1], [0]], [[0]]]},
}
#: A refusal must contain at least one of these words or the name of a hyperparameter.
ARGUMENTS = {"X", "y", "classes", "sample_weight", "y_known", "n_samples", "given", "k"}
ARGUMENTS |= {"n_splits", "inconsistent"}  # in scikit-learn's words about `cv`, X and y


class Attack:
    """One estimator and the attacks on it.

    Attributes
    ----------
    failures : list of str
    """

    def __init__(self, rng):
        self.rng = rng
        self.failures = []
        self.model = self._model(pick(rng, [*SPACES, *SPACES, "around"]))
        self.is_density = isinstance(self.model, DENSITIES)
        self.history = [repr(self.model)]
        n_rows = int(pick(rng, [1, 2, 3, 6, 12, 20, 40]))
        self.n_columns = int(pick(rng, [1, 2, 3, 5]))
        if self.is_density:
            X = indicator(rng, n_rows, self.n_columns).astype(float)
            if rng.random() < 0.3:
                X[rng.random(X.shape) < 0.3] = np.nan
            self.plain = X
        else:
            self.plain = plain_features(rng, n_rows, self.n_columns)
        self.y, kind = targets(rng, n_rows, badly=False)
        self.history.append(f"{n_rows} x {self.n_columns}, y: {kind}")

    def _model(self, kind):
        rng = self.rng
        if kind == "around":
            inner = pick(
                rng,
                [
                    skcrbm.CRBMClassifier(n_hidden=1, alpha=0.1, max_iter=3, random_state=0),
                    skcrbm.LMBMClassifier(C=1.0, pairwise_penalty=1.0, random_state=0),
                    MultiOutputClassifier(LogisticRegression()),
                    RandomForestClassifier(3, random_state=0),
                ],
            )
            cv = pick(rng, [None, 2, 3, 50])
            if rng.random() < 0.5:
                rules = ["expected_f1", "expected_jaccard", "label_set", Threshold(cv=cv)]
                rules += [ExpectedMetric(metric, n_samples=5) for metric in ("f1", "jaccard")]
                rules += ["map", "marginal_map", "hinge"]
                return skcrbm.DecodedClassifier(inner, decode=pick(rng, rules), random_state=0)
            if rng.random() < 0.5:
                return CalibratedMarginals(inner, cv=cv, method=pick(rng, ["sigmoid", "isotonic"]))
            cv = pick(rng, ["oob", "oob", cv])
            powerset = pick(rng, [True, False])
            return OutOfBagLogOdds(inner, cv=cv, label_powerset=powerset, random_state=0)
        model = kind()
        small = {name: values[0] for name, values in SPACES[kind].items()}
        drawn = {name: pick(rng, v) for name, v in SPACES[kind].items() if rng.random() < 0.35}
        options = {**small, **drawn}
        return model.set_params(**{k: v for k, v in options.items() if k in model.get_params()})

    # ------------------------------------------------------------------ calls

    def fail(self, what):
        """Record a failure, with the calls before it."""
        self.failures.append(f"{what} | {'; '.join(self.history)}"[:1500])

    def attempt(self, what, call):
        """Return whether a call worked, and its result; an unexpected error is a failure."""
        self.history.append(what)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = True, call()
            except (NotFittedError, FloatingPointError):
                result = False, None
            except (ValueError, TypeError) as error:
                if not self._names_something(str(error)):
                    self.fail(f"{what}: {type(error).__name__} names nothing: {error}")
                result = False, None
            except MemoryError:
                result = False, None
            except Exception as error:
                self.fail(f"{what}: {type(error).__name__}: {error}")
                result = False, None
        for warning in caught:
            ours = "skcrbm" in warning.filename or not self._is_around_others()
            if ours and issubclass(warning.category, RuntimeWarning):
                where = f"{warning.filename}:{warning.lineno}"
                self.fail(f"{what}: RuntimeWarning {warning.message} ({where})")
                break
        return result

    def _is_around_others(self):
        inner = self.model.get_params(deep=False).get("estimator", self.model)
        return not type(inner).__module__.startswith("skcrbm")

    def _names_something(self, message):
        if self._is_around_others():
            return True  # scikit-learn's own words
        names = ARGUMENTS | set(self.model.get_params(deep=True))
        return bool(names & set(re.findall(r"\w+", message)))

    def learn(self, how, X, y=None, interrupt=None, **options):
        """`fit` or `partial_fit`; whatever does not work must leave no trace."""
        model = self.model
        before, limits = dict(vars(model)), blas_threads()
        arguments = {} if self.is_density else {"y": y}
        arguments.update({k: v for k, v in options.items() if v is not None})

        def call():
            return getattr(model, how)(X, **arguments)

        def interrupted():
            try:
                interrupted_at(call, interrupt)
            except KeyboardInterrupt:
                raise NotFittedError from None

        done, _ = self.attempt(how, call if interrupt is None else interrupted)
        if blas_threads() != limits:
            self.fail(f"{how} changed the number of BLAS threads")
        if not done:
            after = vars(model)
            if after.keys() != before.keys() or any(after[k] is not before[k] for k in before):
                self.fail(f"{how} did not work and left traces")
        return done

    # ---------------------------------------------------------------- answers

    def ask(self, X):
        """All questions to the model, fitted or not."""
        self.check_answers(X, {})
        if not self.is_density and self.rng.random() < 0.3:
            self.check_answers(X, {"y_known": self._known(X)})

    def _known(self, X):
        n_rows, n_labels = len(self.plain), np.shape(getattr(self.model, "classes_", [0, 0]))[0]
        known = indicator(self.rng, n_rows, n_labels).astype(float)
        known[self.rng.random(known.shape) < 0.5] = np.nan
        bad = [known[:, :1], known + 1, "all", known[:-1]]
        return pick(self.rng, [known, known.astype(object), pd.DataFrame(known), *bad])

    def check_answers(self, X, options):
        """Call the methods of the fitted model, and check shapes and ranges of their answers."""
        model = self.model
        if isinstance(model, OutOfBagLogOdds):
            done, found = self.attempt("transform", lambda: model.transform(X))
            if done and not np.isfinite(found).all():
                self.fail("transform is not finite")
            return
        if self.is_density:
            for name in ("marginals", "score_samples"):
                done, found = self.attempt(name, lambda name=name: getattr(model, name)(X))
                if done:
                    self._check_numbers(name, found, 0.0 if name == "marginals" else -np.inf)
            done, found = self.attempt("sample", lambda: model.sample(2, random_state=0))
            if done and not np.isin(found, (0, 1)).all():
                self.fail("sample is not of 0 and 1")
            for rule in ("hinge", "map") if hasattr(model, "impute") else ():
                done, found = self.attempt("impute", lambda rule=rule: model.impute(X, rule))
                if done and not np.isin(found, (0, 1)).all():
                    self.fail("impute does not give 0 and 1")
            return
        takes = isinstance(model, (skcrbm.LayeredGMClassifier, CalibratedMarginals))
        options = {} if takes else options
        done, labels = self.attempt("predict", lambda: model.predict(X, **options))
        if done:
            self._check_labels(labels)
        done, proba = self.attempt("predict_proba", lambda: model.predict_proba(X, **options))
        if done:
            self._check_numbers("predict_proba", proba, 0.0)
            if not self._multilabel() and not np.allclose(proba.sum(axis=1), 1, atol=1e-5):
                self.fail("probabilities of classes do not add up to 1")
        if hasattr(model, "decision_function"):
            done, scores = self.attempt(
                "decision_function", lambda: model.decision_function(X, **options)
            )
            if done and np.isnan(scores).any():
                self.fail("decision_function is NaN")

    def _multilabel(self):
        """Return True if the model was fitted on a 2-D y."""
        return self.model._targets.multilabel

    def _check_labels(self, labels):
        classes = self.model.classes_
        if self._multilabel():
            if labels.shape[1:] != (len(classes),) or not np.isin(labels, (0, 1)).all():
                self.fail(f"predict is no indicator matrix of shape {labels.shape}")
        elif not set(np.asarray(labels).tolist()) <= set(classes.tolist()):
            self.fail("predict names classes that were not seen")

    def _check_numbers(self, name, found, least):
        found = np.asarray(found)
        if np.isnan(found).any() or (found < least).any() or (least == 0 and (found > 1).any()):
            self.fail(f"{name} gives what cannot be: {found.tolist()}")

    # ------------------------------------------------------------------ lives

    def live(self):
        """A few steps, in random order."""
        rng = self.rng
        self._fit(bad=0.1)
        self.ask(self._features(bad=0.1))
        for _ in range(rng.integers(1, 4)):
            step = pick(rng, [self._fit, self._set, self._copy, self._partial, self._interrupt])
            step()
            self.ask(self._features(bad=0.05))

    def _features(self, bad):
        X, name = features(self.rng, self.plain, self.rng.random() < bad)
        self.history.append(f"X: {name}")
        return X

    def _fit(self, bad=0.05):
        y = self.y
        if self.rng.random() < bad:
            y, name = targets(self.rng, len(self.plain), badly=True)
            self.history.append(f"y: {name}")
        weight = weights(self.rng, len(self.plain))
        if isinstance(self.model, OutOfBagLogOdds):
            weight = None
        self.learn("fit", self._features(bad), y, sample_weight=weight)

    def _partial(self):
        if not hasattr(self.model, "partial_fit"):
            return
        classes = None
        if not self.is_density and self.rng.random() < 0.5:
            classes = self._classes()
        self.learn("partial_fit", self._features(0.05), self.y, classes=classes)

    def _classes(self):
        y = self.y
        if sparse.issparse(y) or np.ndim(y) == 2:
            return pick(self.rng, [[0, 1], None])
        seen = pd.unique(pd.Series(y))
        bad = pick(self.rng, [[0, np.nan], [[0, 1]], [], "ab", 3, [None]])
        return pick(self.rng, [seen, list(seen), bad])

    def _set(self):
        names = [name for name in self.model.get_params(deep=False) if name != "estimator"]
        name = pick(self.rng, names)
        space = SPACES.get(type(self.model), {})
        value = pick(self.rng, NONSENSE)
        if name in space and self.rng.random() < 0.5:
            value = pick(self.rng, space[name])
        if name in (
            "max_iter",
            "n_hidden",
        ):
            value = 2 if value == 10**12 else value  # which takes its time, or memory
        self.history.append(f"{name}={value!r}")
        self.model.set_params(**{name: value})

    def _copy(self):
        how = pick(self.rng, ["pickle", "deepcopy", "clone"])
        self.history.append(how)
        makers = {
            "pickle": lambda: pickle.loads(pickle.dumps(self.model)),
            "deepcopy": lambda: copy.deepcopy(self.model),
            "clone": lambda: clone(self.model),
        }
        done, model = self.attempt(how, makers[how])
        if done:
            self.model = model

    def _interrupt(self):
        line = int(10 ** self.rng.uniform(0, 4))
        how = pick(self.rng, ["fit", "fit", "partial_fit"])
        how = how if hasattr(self.model, how) else "fit"
        self.history.append(f"Ctrl-C at line {line}")
        self.learn(how, self._features(0), self.y, interrupt=line)


def blas_threads():
    """Numbers of threads of the BLAS libraries."""
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def run_case(rng, case):
    """Take an estimator through its life; return the first failure."""
    attack = Attack(rng)
    attack.live()
    return attack.failures[:1]  # later failures may be consequences


if __name__ == "__main__":
    main("estimators", run_case, 400, __doc__)
