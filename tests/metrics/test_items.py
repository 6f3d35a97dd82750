"""Scorers of the labels of sequences, graphs and images."""

import pickle

import numpy as np
import pytest
from sklearn import metrics as skm
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from skcrbm import ChainCRF, Graph, GraphCRF, GridCRF
from skcrbm.metrics import item_scorer
from skcrbm.pipeline import SequenceTransformer, make_pipeline

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(14, 4, 2))
LABELS = [
    np.array(list("abc"), object)[np.digitize(v[:, 0] + 0.7 * RNG.normal(size=4), [-0.5, 0.5])]
    for v in VALUES
]


@pytest.fixture(scope="module", params=["chain", "graph", "grid", "pipeline"])
def fitted(request):
    """A fitted estimator, rows and labels; some labels are missing."""
    y = [labels.copy() for labels in LABELS]
    y[0][1] = y[3][2] = None
    if request.param == "grid":
        X = [v.reshape(2, 2, 2) for v in VALUES]
        y = [labels.reshape(2, 2) for labels in y]
        model = GridCRF(window=1, alpha=0.1, max_iter=60)
    elif request.param == "graph":
        X = [Graph(v, [[0, 1], [1, 2]]) for v in VALUES]
        model = GraphCRF(alpha=0.1)
    else:
        X, model = list(VALUES), ChainCRF(alpha=0.1)
        if request.param == "pipeline":
            model = make_pipeline(SequenceTransformer(StandardScaler()), model)
    return model.fit(X, y), X, y


def flat(rows):
    return np.concatenate([np.ravel(row) for row in rows])


FUNCTIONS = {"f1": skm.f1_score, "precision": skm.precision_score}


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn_on_the_observed_items(fitted, weighted):
    model, X, y = fitted
    weight = np.arange(len(X)) + 0.5 if weighted else None
    items = np.repeat(np.ones(len(X)) if weight is None else weight, 4)
    seen = flat(y) != np.array(None)
    true, predicted = flat(y)[seen].astype(str), flat(model.predict(X))[seen].astype(str)

    def found(name, **options):
        return item_scorer(name, **options)(model, X, y, sample_weight=weight)

    accuracy = skm.accuracy_score(true, predicted, sample_weight=items[seen])
    assert found("accuracy") == pytest.approx(accuracy, rel=1e-12)
    assert found("accuracy") == pytest.approx(model.score(X, y, sample_weight=weight), rel=1e-12)
    balanced = skm.balanced_accuracy_score(true, predicted, sample_weight=items[seen])
    assert found("balanced_accuracy") == pytest.approx(balanced, rel=1e-12)
    for name, function in FUNCTIONS.items():
        for average in ("micro", "macro", "weighted"):
            for labels in (None, ["b", "c"]):
                options = {"average": average, "labels": labels, "zero_division": 0}
                expected = function(true, predicted, sample_weight=items[seen], **options)
                assert found(f"{name}_{average}", labels=labels) == pytest.approx(expected)
    proba = np.concatenate([p.reshape(-1, 3) for p in model.predict_proba(X)])[seen]
    loss = skm.log_loss(true, proba, sample_weight=items[seen], labels=["a", "b", "c"])
    assert found("neg_log_loss") == pytest.approx(-loss, rel=1e-9)
    right = [
        all(p == t for p, t in zip(flat([a]), flat([b])) if t is not None)
        for a, b in zip(model.predict(X), y)
    ]
    assert 0 < found("row_accuracy") < 1
    assert found("row_accuracy") == pytest.approx(np.average(right, weights=weight))


def test_weights_of_items_and_known_labels(fitted):
    model, X, y = fitted
    weight = [np.random.default_rng(i).uniform(size=labels.shape) for i, labels in enumerate(y)]
    seen = flat(y) != np.array(None)
    right = flat(model.predict(X))[seen] == flat(y)[seen]
    scorer = item_scorer("accuracy")
    expected = np.average(right, weights=flat(weight)[seen])
    assert scorer(model, X, y, sample_weight=weight) == pytest.approx(expected, rel=1e-12)
    known = [labels.copy() for labels in y]
    for labels in known:
        labels.ravel()[1:] = None
    if hasattr(model, "classes_") and not hasattr(model, "steps"):
        expected = model.score(X, y, y_known=known)
        assert scorer(model, X, y, y_known=known) == pytest.approx(expected, rel=1e-12)


def test_searches_and_cross_validation():
    scorer = item_scorer("f1_macro")
    X, y = list(VALUES), LABELS
    search = GridSearchCV(ChainCRF(), {"alpha": [0.1, 10.0]}, scoring=scorer, cv=KFold(2))
    search.fit(X, y)
    by_hand = []
    for train, test in KFold(2).split(X):
        model = ChainCRF(alpha=0.1).fit([X[i] for i in train], [y[i] for i in train])
        predicted = flat(model.predict([X[i] for i in test]))
        true = flat([y[i] for i in test]).astype(str)
        by_hand.append(skm.f1_score(true, predicted.astype(str), average="macro"))
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))
    restored = pickle.loads(pickle.dumps(scorer))
    scores = cross_val_score(ChainCRF(alpha=0.1), X, y, scoring=restored, cv=KFold(2))
    np.testing.assert_allclose(scores, by_hand)


def test_labels_that_training_did_not_have():
    model = ChainCRF(alpha=0.1).fit(list(VALUES), LABELS)
    new = [np.where(labels == "c", "d", labels) for labels in LABELS]
    for name in ("accuracy", "f1_macro", "row_accuracy", "neg_log_loss"):
        with pytest.warns(UserWarning, match="y holds the label 'd', which training did not have"):
            assert item_scorer(name)(model, list(VALUES), new) < 1


def test_empty_rows_have_no_effect():
    model = ChainCRF(alpha=0.1).fit(list(VALUES), LABELS)
    for name in ("accuracy", "row_accuracy", "neg_log_loss"):
        scorer = item_scorer(name)
        expected = scorer(model, list(VALUES), LABELS)
        assert scorer(model, [[], *VALUES], [[], *LABELS]) == expected


def test_errors():
    with pytest.raises(ValueError, match="Did you mean 'f1_macro'"):
        item_scorer("f1_makro")
    with pytest.raises(ValueError, match="labels is for the scores f1_micro"):
        item_scorer("accuracy", labels=["a"])
    model, scorer = ChainCRF(alpha=0.1).fit(list(VALUES), LABELS), item_scorer("accuracy")
    with pytest.raises(ValueError, match="y has 3 rows, but X has 14"):
        scorer(model, list(VALUES), LABELS[:3])
    with pytest.raises(ValueError, match=r"row 0 of y should have the shape \(4,\), got \(1,\)"):
        scorer(model, list(VALUES), [["a"], *LABELS[1:]])
    with pytest.raises(ValueError, match="no observed label"):
        scorer(model, list(VALUES), [None] * 14)
