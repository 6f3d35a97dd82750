"""Labels that first appear in a later call of `partial_fit`."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skcrbm import MSSVMCRBM, CRBMClassifier

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    odds = 2 * X @ rng.normal(size=(5, 4)) - 0.5
    Y = (odds + rng.logistic(size=odds.shape) > 0).astype(int)
    return X, Y


def passes(model, X, Y, n, **options):
    for _ in range(n):
        model.partial_fit(X, Y, **options)
    return model


def test_new_label_is_learned_and_known_labels_do_not_change_at_first(data):
    X, Y = data
    model = passes(CRBMClassifier(n_hidden=2, random_state=0), X, Y[:, :3], 3)
    before = {name: getattr(model, name).copy() for name in ("visible_coef_", "hidden_coef_")}
    steps = model._progress.optimizer.n_steps
    zero = np.zeros((0, 5))
    with pytest.raises(ValueError):
        model.partial_fit(zero, Y[:0], classes=range(5))
    assert model.predict_proba(X).shape == (120, 3)  # a failed call changes nothing
    model.partial_fit(X, Y, classes=range(4))
    assert model._progress.optimizer.n_steps > steps
    assert np.abs(model.visible_coef_[:3] - before["visible_coef_"]).max() < 0.4
    assert model.visible_coef_.shape == (4, 5)
    assert model.weights_.shape == (4, 2)
    assert model.hidden_coef_.shape == before["hidden_coef_"].shape
    assert model.label_sets_.shape[1] == 4
    assert model.classes_.tolist() == [0, 1, 2, 3]
    passes(model, X, Y, 30)
    whole = passes(CRBMClassifier(n_hidden=2, random_state=0), X, Y, 34)
    loss = [
        -np.log(np.where(Y == 1, p, 1 - p)).mean(axis=0)
        for p in (model.predict_proba(X), whole.predict_proba(X))
    ]
    np.testing.assert_allclose(*loss, atol=0.05)


def test_start_of_a_new_label(data):
    """A new label starts at the log-odds of its share, without coefficients and couplings."""
    from skcrbm.estimators._base import Rows
    from skcrbm.estimators._new_labels import add_labels_to_model

    X, Y = data
    model = passes(CRBMClassifier(n_hidden=2, random_state=0), X, Y[:, :3], 2)
    second = [s.copy() for s in model._progress.optimizer.second]
    add_labels_to_model(model, Rows(X, Y.astype(float), np.ones(120)), np.random.RandomState(0))
    share = Y[:, 3].mean()
    assert model.visible_intercept_[3] == pytest.approx(np.log(share / (1 - share)))
    assert not model.visible_coef_[3].any()
    assert not model.weights_[3].any()
    for new, old, n_new in zip(model._progress.optimizer.second, second, (1, 1, 0, 1, 0)):
        np.testing.assert_array_equal(new[: len(old)], old)
        np.testing.assert_array_equal(
            new[len(old) :], np.tile(old.mean(axis=0), (n_new, 1)[: new.ndim])
        )


def test_names_place_the_columns_of_arrays_and_frames(data):
    """A binarizer sorts its classes, so that a new label may come before a known label."""
    X, Y = data
    frame = pd.DataFrame(Y, columns=NAMES)
    first = frame[["b", "d"]]
    by_frame = passes(CRBMClassifier(n_hidden=2, random_state=0), X, first, 2)
    by_array = passes(CRBMClassifier(n_hidden=2, random_state=0), X, first.to_numpy(), 1,
                      classes=["b", "d"])  # fmt: skip
    by_array.partial_fit(X, sparse.csr_matrix(first.to_numpy()), classes=["b", "d"])
    by_frame.partial_fit(X, frame[["c", "b", "a", "d"]], classes=NAMES)
    by_array.partial_fit(X, Y, classes=NAMES)
    for model in (by_frame, by_array):
        assert model.label_names_.tolist() == ["b", "d", "a", "c"]
    np.testing.assert_array_equal(by_frame.predict_proba(X), by_array.predict_proba(X))
    by_frame.partial_fit(X, frame[["a"]])
    by_array.partial_fit(X, Y[:, [0, 2]] * np.array([1.0, np.nan]), classes=["a", "c"])
    np.testing.assert_array_equal(by_frame.predict_proba(X), by_array.predict_proba(X))


def test_labels_of_the_first_call_without_a_column_are_missing(data):
    X, Y = data
    frame = pd.DataFrame(Y, columns=NAMES)
    model = CRBMClassifier(n_hidden=0, random_state=0)
    model.partial_fit(X, frame[["a", "b"]], classes=NAMES)
    assert model.predict_proba(X).shape == (120, 4)
    assert not model.visible_coef_[2:].any()
    assert model.visible_coef_[:2].any()


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a", "b"], "no names"),
        (range(1, 5), "no names"),
        (range(2), "no names|must have shape"),
        ([0, 1, 1, 2], "distinct labels"),
        (3, "distinct labels"),
        ("abc", "distinct labels"),
        (range(5), "must have shape"),
    ],
)
def test_wrong_classes(data, classes, message):
    X, Y = data
    model = CRBMClassifier(n_hidden=0, random_state=0).partial_fit(X, Y[:, :3])
    if classes == range(2):  # the values 0 and 1, with the wrong number of columns
        message = "must have shape"
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, Y, classes=classes)
    assert model.predict_proba(X).shape == (120, 3)


def test_wrong_names(data):
    X, Y = data
    frame = pd.DataFrame(Y, columns=NAMES)
    model = CRBMClassifier(n_hidden=0, random_state=0).partial_fit(X, frame[["a", "b"]])
    with pytest.raises(ValueError, match="not labels of this model"):
        model.partial_fit(X, frame)
    with pytest.raises(ValueError, match="must be names"):
        model.partial_fit(X, Y, classes=range(4))
    with pytest.raises(ValueError, match="a column for each of the 3 labels"):
        model.partial_fit(X, Y, classes=["a", "b", "c"])
    for vector in (Y[:, 0], pd.Series(Y[:, 0], name="a")):
        with pytest.raises(ValueError, match="a column for each of the 2 labels"):
            model.partial_fit(X, vector, classes=["a", "b"])
    with pytest.raises(ValueError, match="y has 4 columns"):
        CRBMClassifier().partial_fit(X, Y, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="of the columns of y, or names"):
        CRBMClassifier().partial_fit(X, Y, classes=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="only CRBMClassifier and MSSVMCRBM"):
        model._targets.check_classes(NAMES)


def test_a_max_margin_model_learns_a_new_label(data):
    X, Y = data
    frame = pd.DataFrame(Y, columns=NAMES)
    options = {"hidden": "max", "n_hidden": 3, "random_state": 0}
    model = passes(MSSVMCRBM(**options), X, frame[["b", "c"]], 2)
    known = model.visible_coef_.copy()
    with pytest.raises(ValueError):
        model.partial_fit(X[:0], frame[:0].assign(e=0), classes=[*NAMES, "e", "e"])
    assert model.predict(X).shape == (120, 2)  # a failed call changes nothing
    model.partial_fit(X, frame, classes=NAMES)
    assert model.label_names_.tolist() == ["b", "c", "a", "d"]
    assert np.abs(model.visible_coef_[:2] - known).max() < 0.4
    assert model.weights_.shape == (4, 3)
    passes(model, X, frame, 40)
    whole = passes(MSSVMCRBM(**options), X, frame, 43)
    errors = [
        (m.predict(X) != frame[m.label_names_].to_numpy()).mean(axis=0)[m.label_names_.argsort()]
        for m in (model, whole)
    ]
    assert np.abs(errors[0] - errors[1]).max() < 0.06
    assert errors[0].max() < 0.25


def test_steps_with_an_average_start_anew(data):
    from skcrbm.learning import Adam

    X, Y = data
    model = CRBMClassifier(n_hidden=2, solver=Adam(average=True), random_state=0)
    passes(model, X, Y[:, :2], 2).partial_fit(X, Y, classes=range(4))
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("model", [CRBMClassifier(n_hidden=2), MSSVMCRBM(n_hidden=2)])
def test_errors_say_how_to_add_labels(data, model):
    X, Y = data
    frame = pd.DataFrame(Y, columns=NAMES)
    passes(model, X, frame[NAMES[:3]], 1)
    with pytest.raises(
        ValueError, match=r"not labels of this model: 'd'.* To add labels .*classes="
    ):
        model.partial_fit(X, frame)
    with pytest.raises(ValueError, match=r"not labels of this model: 'd'"):
        model.partial_fit(X, frame, classes=NAMES[:3])
    with pytest.raises(ValueError, match=r"got \(120, 4\)\. To add labels .* in classes by name"):
        model.partial_fit(X, Y)
    assert model.predict(X).shape == (120, 3)
    assert model.partial_fit(X, frame, classes=list(frame.columns)).predict(X).shape == (120, 4)
    unnamed = passes(type(model)(n_hidden=2), X, Y[:, :3], 1)
    for wide in (Y, Y.tolist(), sparse.csr_matrix(Y)):
        with pytest.raises(ValueError, match=r"To add labels .* as in classes=range\(4\)"):
            unnamed.partial_fit(X, wide)
