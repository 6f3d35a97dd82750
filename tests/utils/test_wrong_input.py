"""Errors about X and parameters say where the fault is and what to write instead."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import skcrbm
from skcrbm import (
    MSSVMCRBM,
    ChainCRF,
    CRBMClassifier,
    DecodedClassifier,
    GraphCRF,
    LabelGraphCRF,
    LayeredGMClassifier,
    LMBMClassifier,
    SSVMClassifier,
)
from skcrbm.annotation import find_label_issues
from skcrbm.calibration import ConformalRiskControl
from skcrbm.constraints import Constrained, Implies
from skcrbm.density import RBM
from skcrbm.ensemble import OutOfBagLogOdds
from skcrbm.learning import Adam
from skcrbm.utils.parameters import _ELSEWHERE

RNG = np.random.RandomState(0)
X = RNG.normal(size=(20, 3))
Y = (RNG.random_sample((20, 3)) < 0.5).astype(int)
OWN = [
    CRBMClassifier(),
    LMBMClassifier(),
    MSSVMCRBM(),
    SSVMClassifier(),
    LabelGraphCRF(),
    LayeredGMClassifier(),
]
WRAPPED = DecodedClassifier(OneVsRestClassifier(LogisticRegression()))
by_name = pytest.mark.parametrize("model", [*OWN, WRAPPED], ids=lambda m: type(m).__name__)


def error_of(function, *args, kind=ValueError, **options):
    with pytest.raises(kind) as caught:
        function(*args, **options)
    return str(caught.value)


@by_name
def test_one_dimension(model):
    """The shape is shown, and no entry of X."""
    series = [] if model is WRAPPED else [pd.Series(X[:, 0])]
    for given in (X[:, 0], *series):
        text = error_of(clone(model).fit, given, Y)
        assert "Expected 2D array, got 1D array instead: X has the shape (20,)" in text
        assert "Reshape your data: X.reshape(-1, 1)" in text
        assert f"{X[0, 0]:.3f}" not in text


@by_name
def test_texts(model):
    """Texts need a vectoriser, and columns with text an encoder: the message names the columns."""
    texts = ["a good film", "a bad film"] * 10
    name = "OneVsRestClassifier" if model is WRAPPED else type(model).__name__
    given = [texts, np.array(texts), pd.Series(texts)]
    for part in given if model is not WRAPPED else given[1:]:
        text = error_of(clone(model).fit, part, Y)
        assert f"make_pipeline(TfidfVectorizer(), {name}())" in text
    frame = pd.DataFrame({"age": X[:, 0], "colour": ["red", "blue"] * 10, "size": ["s", "m"] * 10})
    for table in (frame, frame.assign(colour=frame.colour.astype("category"))):
        text = error_of(clone(model).fit, table, Y)
        assert "X holds text in the columns 'colour', 'size'" in text
        assert "OneHotEncoder(), ['colour', 'size'])" in text
    if model is not WRAPPED:
        text = error_of(clone(model).fit, frame.to_numpy()[:, :2].tolist(), Y)
        assert "X holds text in the column 1." in text


def test_numbers_in_text_are_no_text():
    model = CRBMClassifier(alpha=1.0, max_iter=2).fit(X.astype(str).astype(object), Y)
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("model", OWN, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("value", "word"), [(np.inf, "infinity"), (np.nan, "NaN")])
def test_the_column_of_infinity_and_nan(model, value, word):
    if word == "NaN" and type(model) is LayeredGMClassifier:
        pytest.skip("takes NaN")
    wrong = X.copy()
    wrong[4, 2] = wrong[7, 1] = value
    wrongs = [wrong, sparse.csr_matrix(wrong), sparse.csc_array(wrong), wrong.tolist()]
    for given in wrongs if word == "NaN" or type(model) is not LayeredGMClassifier else wrongs[:1]:
        text = error_of(clone(model).fit, given, Y)
        assert text.startswith(f"Input X contains {word}")
        assert " in column 2 (row 4)" in text
    text = error_of(clone(model).fit, pd.DataFrame(wrong, columns=["a", "b", "c"]), Y)
    assert " in column 'c' (row 4)" in text


def test_the_feature_of_infinity_in_a_sequence():
    rows = [X[:2], X[2:5]]
    rows[1] = rows[1].copy()
    rows[1][2, 1] = np.inf
    tags = [["a", "b"], ["a", "b", "a"]]
    expected = "sequence 1 of X contains NaN or infinity, in feature 1 of position 2"
    assert expected in error_of(ChainCRF().fit, rows, tags)
    stored = [sparse.csr_matrix(part) for part in rows]
    assert expected in error_of(ChainCRF().fit, stored, tags)


def test_a_flat_list_of_dicts_is_one_sequence():
    flat = [{"word": "the"}, {"word": "cat"}]
    assert error_of(ChainCRF().fit, flat, [["D", "N"]]).endswith(
        "got dict; if X holds the positions of a single sequence, pass [X]"
    )
    model = ChainCRF(alpha=0.1, max_iter=2).fit([flat], [["D", "N"]])
    assert "pass [X]" in error_of(model.predict, flat)
    assert "[[{'word': 'the'}, ...]]" in error_of(ChainCRF().fit, ["the", "cat"], ["D", "N"])


@pytest.mark.parametrize("rows", [[(0, 2), (1, 2)] * 10, [[0, 2, 4], [3, 1, 2]] * 10])
def test_lists_of_positive_labels_of_one_length(rows):
    for model in [*OWN[:4], WRAPPED]:
        text = error_of(clone(model).fit, X, rows)
        assert "y = MultiLabelBinarizer().fit_transform(y)" in text
        assert "cross_val_predict" not in text
    assert CRBMClassifier(alpha=1.0, max_iter=2).fit(X, [[0, 1], [1, 0]] * 10).n_features_in_ == 3


def wrappers():
    svm = OneVsRestClassifier(LinearSVC())
    yield lambda: DecodedClassifier(svm).fit(X, Y)
    yield lambda: Constrained(svm, [Implies(0, 1)]).fit(X, Y)
    yield lambda: ConformalRiskControl(svm).fit(X, Y)
    yield lambda: OutOfBagLogOdds(svm).fit(X, Y)
    yield lambda: find_label_issues(svm, X, Y)


@pytest.mark.parametrize("fit", wrappers())
def test_classifiers_without_probabilities(fit):
    text = error_of(fit)
    assert "OneVsRestClassifier(CalibratedClassifierCV(LinearSVC()))" in text


@pytest.mark.parametrize("rules", [Implies(0, 1), "a -> b", {0: 1}, None])
def test_rules_are_a_list(rules):
    example = [rules] if isinstance(rules, Implies) else "[Implies('a', 'b')]"
    text = error_of(Constrained(LogisticRegression(), rules).fit, X, Y)
    assert text == f"rules should be a list of rules, such as {example}; got {rules!r}"


# --------------------------------------------------------------- names of parameters

CLASSES = [
    value
    for value in (getattr(skcrbm, name) for name in skcrbm.__all__)
    if inspect.isclass(value) and issubclass(value, BaseEstimator)
] + [Constrained, OutOfBagLogOdds, RBM, Adam]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_unknown_parameters(cls):
    own = cls._get_param_names()
    text = error_of(cls, zzz=1, kind=TypeError)
    expected = f"'zzz'; the parameters are {', '.join(own)}."
    assert text == f"{cls.__name__}() got an unexpected keyword argument {expected}"
    close = f"{own[0]}s"
    assert f"Did you mean {own[0]!r}?" in error_of(cls, **{close: 1}, kind=TypeError)
    for name, (instead, _) in _ELSEWHERE.items():
        if instead in own and name not in own:
            assert f"{name!r}: use {instead}" in error_of(cls, **{name: 1}, kind=TypeError)
    needed = {"estimator": LogisticRegression()} if "estimator" in own else {}
    needed |= {"rules": []} if "rules" in own else {}
    model = cls(**needed)
    assert "Invalid parameter 'zzz'; the" in error_of(model.set_params, zzz=1)
    assert type(clone(model)) is type(pickle.loads(pickle.dumps(model))) is cls


def test_conversions_of_crfsuite_and_scikit_learn():
    for model, name, advice in (
        (ChainCRF, "c1", "alpha=c1 / n_sequences with l1_ratio=1"),
        (ChainCRF, "c2", "alpha=2 * c2 / n_sequences"),
        (ChainCRF, "max_iterations", "use max_iter"),
        (GraphCRF, "C", "a smaller C is a larger alpha"),
        (CRBMClassifier, "n", "use n_hidden"),
        (CRBMClassifier, "learning_rate", "solver=Adam(learning_rate=...)"),
    ):
        assert advice in error_of(model, **{name: 1}, kind=TypeError)


def test_a_subclass_with_parameters_of_its_own():
    class Wide(CRBMClassifier):
        def __init__(self, *, wide=1, **options):
            super().__init__(**options)
            self.wide = wide

    assert Wide(wide=2, alpha=0.5).alpha == 0.5
