"""Joint models beside scikit-learn's usual multi-label classifiers, on five data sets.

Every method is fitted once for each data set and read by every decoder it allows, rivals
included: marginals and distributions over label sets are decoded for each metric in the same way.
Settings are searched by fits on 70% of the training rows, scored on the others; the best is fitted
on all. A finished fit is kept in the output folder, so that the program can be stopped and started
again. Then it writes a CSV file with a line for each metric of each decoder, Markdown tables, and
a picture of metrics against time.

Times are processor seconds of one thread, searches and first fits of forests included.

    python -m examples.studies.multilabel_benchmark --quick
    python -m examples.studies.multilabel_benchmark --only Scene forests
"""

import time
import warnings
from functools import cache, partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from examples._harness import Arrays, make_parser, results_path, run_missing
from examples._multilabel import LabelPowerset, marginals
from examples.studies._benchmark_report import Report
from skcrbm import MSSVMCRBM, CRBMClassifier, LayeredGMClassifier, LMBMClassifier
from skcrbm.datasets import load_mediamill, load_scene, load_yeast, make_structured_labels
from skcrbm.decoding import apply_thresholds, decode_label_sets, decode_marginals, fit_thresholds
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.metrics import masked_scorer
from skcrbm.model_selection import MultilabelStratifiedShuffleSplit

# --- data -----------------------------------------------------------------------------------


def generated(structure):
    """1500 and 1000 rows of a known model, with the distribution of the test rows."""
    X, Y, sets, proba = make_structured_labels(
        2500, 20, 10, structure=structure, random_state=0, return_distribution=True
    )
    return X[:1500], X[1500:], Y[:1500], Y[1500:], (sets, proba[1500:])


def published(load, **options):
    """Training and test part, of the labels that are in the training part."""
    data = load(**options)
    seen = data.y_train.any(axis=0) & ~data.y_train.all(axis=0)
    X, X_test = (np.asarray(part, float) for part in (data.X_train, data.X_test))
    return X, X_test, data.y_train[:, seen], data.y_test[:, seen], None


DATA = {
    "Scene": lambda: published(load_scene),
    "Yeast": lambda: published(load_yeast),
    "Mediamill sample": lambda: published(load_mediamill, variant="sample"),
    "pairs": lambda: generated("pairs"),
    "groups": lambda: generated("groups"),
}
GENERATED = ("pairs", "groups")  # whose distribution is known


class ChainEnsemble(ClassifierMixin, BaseEstimator):
    """Mean of classifier chains in random orders."""

    def __init__(self, classifier, n_chains=10):
        self.classifier = classifier
        self.n_chains = n_chains

    def fit(self, X, Y):
        """Fit the chains."""
        self.classes_ = np.tile([0, 1], (Y.shape[1], 1))
        self.chains_ = [
            ClassifierChain(self.classifier, order="random", random_state=k).fit(X, Y)
            for k in range(self.n_chains)
        ]
        return self

    def predict_proba(self, X):
        """Mean P(y_i = 1 | x)."""
        return np.mean([chain.predict_proba(X) for chain in self.chains_], axis=0)

    def predict(self, X):
        """Labels that are on in the mean."""
        return (self.predict_proba(X) >= 0.5).astype(int)


# --- methods ----------------------------------------------------------------------------------
# Each builds an estimator from (quick, number of features) and says how it is read:
# "energy" by the `decode` names of its last step, "sets" by its distribution over label sets,
# "marginals" by predict_proba, "labels" by predict alone.

METRICS = ("jaccard", "f1")  # whose expectation marginals or label sets are decoded for
ENERGY_DECODERS = ("label_set", "expected_jaccard", "expected_f1")
OWN_DECODERS = {"energy": ENERGY_DECODERS, "hinge": ("hinge", "map", *ENERGY_DECODERS)}


def scaled(*steps):
    """Make a pipeline on standardised inputs."""
    return make_pipeline(StandardScaler(), *steps)


def searched(model, grid, scoring="jaccard_samples"):
    """Search a grid for the best on 30% of the training rows, fitted on 70%; refit on all."""
    split = MultilabelStratifiedShuffleSplit(1, test_size=0.3, random_state=0)
    return GridSearchCV(model, grid, scoring=masked_scorer(scoring), cv=split)


def logistic(C=1.0):
    """Logistic regression on standardised inputs."""
    return LogisticRegression(C=C, max_iter=300)


def kernel(quick, n_features):
    """Nystroem features of an rbf kernel, standardised."""
    components = 50 if quick else 500
    gamma = 1 / n_features  # as that of SVC on standardised inputs
    return Nystroem(gamma=gamma, n_components=components, random_state=0), StandardScaler()


def forests(quick):
    """Out-of-bag log-odds of four forests: two kinds, on labels and on label sets."""
    trees = {"n_estimators": 20 if quick else 300, "bootstrap": True}
    return make_union(
        *(
            OutOfBagLogOdds(forest(**trees), label_powerset=powerset, random_state=seed)
            for seed, (forest, powerset) in enumerate(
                (f, p)
                for f in (ExtraTreesClassifier, RandomForestClassifier)
                for p in (False, True)
            )
        )
    )


def crbm(**options):
    """Build the conditional RBM; its defaults but for `options`."""
    return CRBMClassifier(random_state=0, **options)


# The argument of a chain was called base_estimator before scikit-learn 1.7.
ESTIMATOR = next(n for n in ClassifierChain(logistic()).get_params(deep=False) if "estimator" in n)
C_GRID = [0.001, 0.01, 0.1, 1.0]
LMBM_GRID = {
    "lmbmclassifier__C": [0.01, 0.1],
    "lmbmclassifier__pairwise_penalty": [1.0, 10.0, 100.0],
}
ALPHA_GRID = [0.01, 0.03, 0.1, 0.3]
SVM_GRID = [1.0, 10.0]
LMBM = LMBMClassifier(decode="hinge", random_state=0, node_limit=2000)

OURS = {
    "CRBM": ("energy", lambda q, d: scaled(crbm())),
    "CRBM, searched": (
        "energy",
        lambda q, d: searched(
            scaled(crbm()), {"crbmclassifier__alpha": ALPHA_GRID}, "neg_log_loss"
        ),
    ),
    "CRBM without hidden units": ("energy", lambda q, d: scaled(crbm(n_hidden=0))),
    "CRBM on Nystroem": ("energy", lambda q, d: scaled(*kernel(q, d), crbm())),
    "CRBM on forests": (
        "energy",
        lambda q, d: make_pipeline(forests(q), crbm(alpha=0.03)),
    ),
    "CRBM on forests and Nystroem": (
        "energy",
        lambda q, d: make_pipeline(make_union(forests(q), scaled(*kernel(q, d))), crbm(alpha=0.03)),
    ),
    "MSSVM": ("energy", lambda q, d: scaled(MSSVMCRBM(random_state=0))),
    "MSSVM on forests": (
        "energy",
        lambda q, d: make_pipeline(forests(q), StandardScaler(), MSSVMCRBM(random_state=0)),
    ),
    "LMBM": ("hinge", lambda q, d: searched(scaled(LMBM), LMBM_GRID)),
    "LMBM on Nystroem": (
        "hinge",
        lambda q, d: scaled(*kernel(q, d), searched(scaled(LMBM), LMBM_GRID)),
    ),
    "LMBM on forests": (
        "hinge",
        lambda q, d: make_pipeline(forests(q), searched(scaled(LMBM), LMBM_GRID)),
    ),
    "layered model": (
        "marginals",
        lambda q, d: scaled(LayeredGMClassifier(max_iter=50, random_state=0)),
    ),
    "layered model on forests": (
        "marginals",
        lambda q, d: make_pipeline(
            forests(q), StandardScaler(), LayeredGMClassifier(max_iter=50, random_state=0)
        ),
    ),
}
RIVALS = {
    "logistic regression": (
        "marginals",
        lambda q, d: scaled(OneVsRestClassifier(logistic())),
    ),
    "logistic regression, searched": (
        "marginals",
        lambda q, d: searched(
            scaled(OneVsRestClassifier(logistic())),
            {"onevsrestclassifier__estimator__C": C_GRID},
            "neg_log_loss",
        ),
    ),
    "classifier chain": (
        "marginals",
        lambda q, d: searched(
            scaled(ClassifierChain(logistic(), order="random", random_state=0)),
            {f"classifierchain__{ESTIMATOR}__C": C_GRID},
        ),
    ),
    "ensemble of 10 chains": ("marginals", lambda q, d: scaled(ChainEnsemble(logistic(0.01)))),
    "random forest": (
        "forest",
        lambda q, d: RandomForestClassifier(
            20 if q else 500, oob_score=True, min_samples_leaf=2, random_state=0
        ),
    ),
    "label-powerset extra trees": (
        "sets",
        lambda q, d: LabelPowerset(ExtraTreesClassifier(20 if q else 500, random_state=0)),
    ),
    "label-powerset SVM": (
        "labels",
        lambda q, d: searched(
            scaled(LabelPowerset(SVC())), {"labelpowerset__classifier__C": SVM_GRID}
        ),
    ),
    "one-vs-rest SVM": (
        "labels",
        lambda q, d: searched(
            scaled(OneVsRestClassifier(SVC())), {"onevsrestclassifier__estimator__C": SVM_GRID}
        ),
    ),
    "k nearest neighbours": (
        "marginals",
        lambda q, d: searched(
            scaled(KNeighborsClassifier()), {"kneighborsclassifier__n_neighbors": [5, 10, 20, 40]}
        ),
    ),
    "multilayer perceptron": (
        "marginals",
        lambda q, d: scaled(MLPClassifier(early_stopping=True, random_state=0)),
    ),
}
METHODS = {**OURS, **RIVALS}
TRUTH = "the distribution itself"

# --- reading a fitted model ---------------------------------------------------------------------


def timed(function):
    """Return the result and the processor seconds of a call."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def by_marginals(p, seconds, readings, allow_empty, joint=False):
    """Add what marginals say; of a joint model, these are decoders with names of their own."""
    kind = "independent" if joint else "expected"
    option = {"allow_empty": allow_empty}
    rules = {
        f"{kind}_{metric}": lambda m=metric: decode_marginals(p, m, **option) for metric in METRICS
    }
    half = np.full(p.shape[1], 0.5)
    add(rules | {"marginal": lambda: apply_thresholds(p, half, **option)}, seconds, readings)


def by_sets(sets, proba, seconds, readings, allow_empty):
    """Add what can be decided from a distribution over label sets; return the marginals."""
    rules = {
        f"expected_{metric}": lambda m=metric: decode_label_sets(
            sets, proba, m, allow_empty=allow_empty
        )
        for metric in METRICS
    }
    add(rules | {"label_set": lambda: sets[proba.argmax(axis=1)]}, seconds, readings)
    p = np.clip(proba @ sets, 0, 1)
    by_marginals(p, seconds, readings, allow_empty, joint=True)
    return p


def last_step(model):
    """Return the fitted classifier inside pipelines and searches."""
    while isinstance(model, Pipeline | GridSearchCV):
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def by_decode(names, estimator, model, X_test, readings):
    """Add what the model predicts with each `decode` of its last step, the estimator."""
    for name in names:
        estimator.set_params(decode=name)
        readings[name] = timed(lambda: model.predict(X_test))


def add(rules, seconds, readings):
    """Add labels and seconds of each rule, after the seconds that the probabilities took."""
    for name, decode in rules.items():
        labels, more = timed(decode)
        readings[name] = labels, seconds + more


def read(kind, model, X, X_test, Y):
    """Labels and seconds of each decoder, and marginals if there are any.

    As our own models do, no decoder predicts the empty vector where no row of Y is empty.
    """
    readings, allow_empty = {}, not Y.any(axis=1).all()
    if kind == "labels":
        readings["labels"] = timed(lambda: model.predict(X_test))
        return readings, None
    if kind == "sets":
        proba, seconds = timed(lambda: model.classifier_.predict_proba(X_test))
        return readings, by_sets(model.sets_, proba, seconds, readings, allow_empty)
    p, seconds = timed(lambda: marginals(model, X_test))
    if kind in OWN_DECODERS:
        by_decode(OWN_DECODERS[kind], last_step(model), model, X_test, readings)
    by_marginals(p, seconds, readings, allow_empty, joint=kind in OWN_DECODERS)
    if kind == "forest":
        out_of_bag = model.oob_decision_function_[:, 1]
        option = {"allow_empty": allow_empty}
        threshold = fit_thresholds(Y, out_of_bag, "jaccard_samples", **option)
        labels, more = timed(lambda: apply_thresholds(p, threshold, **option))
        readings["threshold"] = labels, seconds + more
    return readings, p


def run_cell(load, quick, kind=None, build=None):
    """Fit one method on one data set; return what the decoders say, as arrays.

    Without a method, what is read is the distribution that the labels were drawn from.
    """
    X, X_test, Y, Y_test, truth = load()
    if quick:
        rng = np.random.RandomState(0)  # as rows may come in blocks
        rows, test = rng.permutation(len(X))[:400], rng.permutation(len(X_test))[:300]
        X, X_test, Y, Y_test = X[rows], X_test[test], Y[rows], Y_test[test]
        seen = Y.any(axis=0) & ~Y.all(axis=0)
        Y, Y_test = Y[:, seen], Y_test[:, seen]
        truth = truth and (truth[0][:, seen], truth[1][test])
    if build is None:
        readings, fit_seconds = {}, 0.0
        p = by_sets(*truth, 0.0, readings, not Y.any(axis=1).all())
    else:
        model, fit_seconds = timed(lambda: build(quick, X.shape[1]).fit(X, Y))
        readings, p = read(kind, model, X, X_test, Y)
        print(f"  fitted in {fit_seconds:.1f} s", flush=True)
    arrays = {"truth": Y_test, "fit_seconds": fit_seconds}
    if p is not None:
        arrays["marginals"] = p
    for name, (labels, seconds) in readings.items():
        arrays[f"labels {name}"], arrays[f"seconds {name}"] = labels.astype(np.int8), seconds
    return arrays


def warm_up():
    """Compile, so that nobody's seconds hold the compiler's."""
    rng = np.random.RandomState(0)
    X, Y = rng.normal(size=(60, 4)), rng.randint(0, 2, size=(60, 15))
    models = (
        (crbm(max_iter=2), ENERGY_DECODERS),
        (MSSVMCRBM(max_iter=2), ENERGY_DECODERS),
        (LMBM, OWN_DECODERS["hinge"]),
        (LayeredGMClassifier(max_iter=2), ()),
    )
    for n_labels in (3, 15):  # beyond 14, LMBM's marginals are those of another method
        for model, decoders in models:
            model = clone(model).fit(X, Y[:, :n_labels])
            model.predict_proba(X)
            for name in decoders:
                model.set_params(decode=name).predict(X)


def cells(quick):
    """Yield the key of every fit and what runs it."""
    for name, load in DATA.items():
        load = cache(load)
        for method in METHODS:
            yield f"{name}__{method}", partial(run_cell, load, quick, *METHODS[method])
        if name in GENERATED:
            yield f"{name}__{TRUTH}", partial(run_cell, load, quick)


def main():
    """Fit what is not done yet, write the tables and the picture."""
    parser = make_parser(__doc__, "multilabel_benchmark", "400 rows, small forests")
    arguments = parser.parse_args()
    fits = Arrays(results_path(arguments))
    if not arguments.no_run:
        warnings.filterwarnings("ignore")  # of rare labels, and of searches that reach limits
        with threadpool_limits(1):
            if not arguments.list:
                warm_up()
            run_missing(cells(arguments.quick), fits, arguments.only, arguments.list)
    if not arguments.list:
        report = Report(fits.folder, list(DATA), [*METHODS, TRUTH], set(OURS), TRUTH)
        report.write(fits.folder)


if __name__ == "__main__":
    main()
