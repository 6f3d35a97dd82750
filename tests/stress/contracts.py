"""Contracts that all public estimators share: ``python -m tests.stress.contracts``.

The kinds of cases are data of 2 to 60 rows, whose labels may be constant; data frames whose columns
or rows are in another order; and classifiers inside of other estimators, which return the same
probabilities in many forms. Every call gives the right answer, or is refused by an error that names
the cause.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `reference`, as for the tests

from reference.every_estimator import MODELS, data_of, model_of, of_form
from reference.small_data import RAW, REASONS
from reference.wrapped_answers import FORMS, NAMES, Answers, by_name

from skcrbm import DecodedClassifier
from skcrbm.calibration import CalibratedMarginals, ConformalLabelSets, ConformalRiskControl
from skcrbm.constraints import Constrained, Implies
from skcrbm.ensemble import OutOfBagLogOdds
from tests.stress._odd_data import pick
from tests.stress._program import main

# Estimators whose folds and fits take most of the time of a case are drawn less often.
SLOW = "BlendedLabelSets", "ImageCRBM"


def _fit(model, X, y):
    return model.fit(X) if y is None else model.fit(X, y)


def _draw_name(rng, names):
    name = pick(rng, names)
    return pick(rng, names) if name in SLOW else name


def small_data(rng):
    """A few rows: the estimator is fitted and answers, or an error says which rows are missing."""
    name, n = _draw_name(rng, sorted(MODELS)), int(rng.integers(2, 61))
    X, y = data_of(name, n, int(rng.integers(10**6)))
    form, model = MODELS[name][1], model_of(name)
    if form in ("rows", "states") and rng.random() < 0.5:
        labels = X if y is None else y
        labels[:, rng.integers(3)] = rng.integers(2)
    if form == "rows" and rng.random() < 0.3:
        X[:, rng.integers(3)] = rng.choice([0.0, 1.0, -7.5])
    title = f"{name}, {n} rows"
    try:
        _fit(model, X, y)
    except ValueError as error:
        if RAW.search(str(error)) or not REASONS.search(str(error)):
            return [f"{title}: {error}"]
        return []
    failures = []
    for method in ("predict", "predict_proba", "transform", "score_samples"):
        if not hasattr(model, method):
            continue
        more = (y,) if method == "score_samples" and y is not None else ()
        found = getattr(model, method)(X, *more)
        if len(found) != len(X):
            failures.append(f"{title}: {method} has {len(found)} rows")
        parts = found if isinstance(found, list) else [found]
        numbers = [part for part in parts if getattr(part, "dtype", np.dtype(object)).kind == "f"]
        if any(np.isnan(part).any() for part in numbers):
            failures.append(f"{title}: {method} is NaN")
    return failures


def permuted_frames(rng):
    """Columns or rows in another order than before are refused, and no answer mixes them up."""
    names = [name for name in of_form("rows", "states") if name != "BlendedLabelSets"]
    name, n = _draw_name(rng, names), 24
    X, y = data_of(name, n, int(rng.integers(10**6)))
    index = pd.Index(rng.permutation(n) if rng.random() < 0.5 else [f"row {i}" for i in range(n)])
    X = pd.DataFrame(X, index, columns=list("uvw"))
    y = None if y is None else pd.DataFrame(y, index, columns=list("abc"))
    model = model_of(name)
    if hasattr(model, "cv"):
        model.set_params(cv=2)
    try:
        _fit(model, X, y)
    except ValueError as error:  # of a classifier whose fold has a single class
        return [] if "class" in str(error) else [f"{name}: {error}"]
    columns = list("uvw")
    while columns == list("uvw"):
        columns = rng.permutation(list("uvw")).tolist()
    failures = []
    for method in ("predict", "predict_proba", "transform", "marginals", "score_samples"):
        if not hasattr(model, method) or (method == "score_samples" and y is not None):
            continue
        ask = getattr(model, method)
        rows = rng.permutation(n)
        some, other = np.asarray(ask(X)), np.asarray(ask(X.iloc[rows]))
        if not np.allclose(some[rows], other, atol=1e-6):
            failures.append(f"{name}: {method} depends on the order of rows")
        try:
            ask(X[columns])
        except ValueError as error:
            if "must be in the same order as they were in fit" not in str(error):
                failures.append(f"{name}: {method}: {error}")
        else:
            failures.append(f"{name}: {method} takes columns in another order")
    rows = np.roll(np.arange(n), int(rng.integers(1, n)))
    if y is not None:
        try:
            model_of(name).fit(X, y.iloc[rows])
        except ValueError as error:
            if "in another order" not in str(error):
                failures.append(f"{name}: fit: {error}")
        else:
            failures.append(f"{name}: fit takes rows of y in another order")
    return failures


WRAPPERS = {
    "decoded": lambda m, X, y: DecodedClassifier(m, decode="expected_f1").fit(X, y).predict(X),
    "thresholds": lambda m, X, y: DecodedClassifier(m, decode="threshold").fit(X, y).predict(X),
    "calibrated": lambda m, X, y: CalibratedMarginals(m, cv=3).fit(X, y).predict_proba(X),
    "sets": lambda m, X, y: (
        ConformalLabelSets(m, cv=3, random_state=0).fit(X, y).set_sizes(X)[:, None]
    ),
    "risk": lambda m, X, y: ConformalRiskControl(m, cv=3, risk=0.3).fit(X, y).predict_proba(X),
    "constrained": lambda m, X, y: Constrained(m, [Implies(0, 1)]).fit(X, y).predict_proba(X),
    "log-odds": lambda m, X, y: OutOfBagLogOdds(m, cv=3).fit_transform(X, y),
}


def wrapped(rng):
    """The same probabilities in any form give the same result."""
    n = int(rng.integers(30, 80))
    X = rng.uniform(0.05, 0.95, size=(n, 4))
    y = (rng.random(X.shape) < X).astype(int)
    name, form = pick(rng, list(WRAPPERS)), pick(rng, list(FORMS))
    if by_name(form):
        y = pd.DataFrame(y, columns=NAMES)
        if name == "log-odds":
            return []  # the inner classifier gets an array
    if form == "float32":  # the same numbers in both forms
        X = X.astype(np.float32).astype(float)
    model = Answers(form)
    if rng.random() < 0.3:
        model = FrozenEstimator(model)
    expected = WRAPPERS[name](Answers(), X, y)
    found = WRAPPERS[name](model, X, y)
    if np.shape(found) != np.shape(expected):
        return [f"{name}, {form}: shape {np.shape(found)} instead of {np.shape(expected)}"]
    share = np.isclose(found, expected, rtol=1e-3, atol=1e-6).mean()
    # In float32, rounding may move a number across a threshold.
    if share < (0.99 if form == "float32" else 1.0):
        return [f"{name}, {form}: {100 * (1 - share):.1f}% of the answers differ"]
    return []


KINDS = small_data, permuted_frames, wrapped, small_data, wrapped


def run_case(rng, case):
    """Draw a case of a kind, and return the failures."""
    kind = KINDS[case % len(KINDS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [f"{kind.__name__}: {line}" for line in kind(rng)]


if __name__ == "__main__":
    main("contracts", run_case, 500, __doc__)
