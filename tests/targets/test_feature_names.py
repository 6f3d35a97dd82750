"""Names of columns in tables and in lists of tables: the same rules for every estimator."""

import warnings

import numpy as np
import pandas as pd
import pytest
from reference.every_estimator import MODELS, PATH, data_of, model_of, of_form, public_estimators
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skcrbm import ChainCRF, Graph, GraphCRF
from skcrbm.pipeline import SequenceTransformer, make_pipeline

METHODS = ("predict", "predict_proba", "predict_topk", "sample", "score", "score_samples")
OF_LISTS = of_form("sequences", "graphs")
OF_TABLES = of_form("rows", "states", "images")


def pandas_frame(values):
    return pd.DataFrame(np.asarray(values), columns=list("uvw")[: values.shape[1]])


def polars_frame(values):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(np.asarray(values), schema=list("uvw")[: values.shape[1]])


def framed(X, frame):
    """Return X with data frames in place of arrays."""
    return on_tables(X, frame)


def reversed_columns(X):
    return on_tables(X, lambda table: table[list(reversed(table.columns))])


def on_tables(X, change):
    if not isinstance(X, list):
        return change(X)
    return [
        part._replace(nodes=change(part.nodes)) if isinstance(part, Graph) else change(part)
        for part in X
    ]


def asked(model, X, y):
    """Yield a function without arguments for each method that takes X; densities draw alone."""
    for name in (*METHODS, "transform", "impute"):
        if not hasattr(model, name) or (name == "sample" and y is None):
            continue
        more = (y,) if y is not None and name.startswith("score") else ()
        more = (2,) if name == "predict_topk" else more
        yield name, lambda name=name, more=more: getattr(model, name)(X, *more)


def test_every_estimator_has_a_configuration():
    assert set(public_estimators()) == set(MODELS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*rows were seen by every tree")
@pytest.mark.parametrize("name", OF_TABLES + OF_LISTS)
@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
def test_columns_in_another_order_are_refused(name, frame):
    X, y = data_of(name)
    X = framed(X, frame)
    model = model_of(name)
    if hasattr(model, "cv"):
        model.set_params(cv=2)
    model.fit(X) if y is None else model.fit(X, y)
    n = 2 if isinstance(X, list) else 3
    assert model.feature_names_in_.tolist() == list("uvw")[:n]
    other = reversed_columns(X)
    n_methods = 0
    for _, ask in asked(model, other, y):
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            ask()
        n_methods += 1
    assert n_methods
    if hasattr(model, "partial_fit"):
        solver = {"solver": "adam"} if name in OF_LISTS else {}
        args = (X,) if y is None else (X, y)
        model = model_of(name).set_params(**solver).partial_fit(*args)
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            model.partial_fit(other, *args[1:])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", OF_LISTS)
def test_lists_of_frames(name):
    X, y = data_of(name)
    frames = framed(X, pandas_frame)
    other = reversed_columns(frames)
    model = model_of(name).fit(frames, y)
    if name == "SequenceTransformer":
        ask, owner = model.transform, "SequenceTransformer"
    else:
        ask, owner = model.predict, name
    word = "graph" if name == "GraphCRF" else "sequence"
    with pytest.raises(ValueError, match=f"{word} 3 of X"):
        ask(frames[:3] + other[3:4])
    with pytest.raises(ValueError, match=rf"{word} 1 of X has the columns 'v', 'u', but {word} 0"):
        model_of(name).fit([frames[0], *other[1:]], y)
    with pytest.raises(ValueError, match=rf"{word} 2 of X has no names of columns, but {word} 0"):
        model_of(name).fit([*frames[:2], *X[2:]], y)
    renamed = on_tables(frames, lambda table: table.rename(columns={"u": "w"}))
    with pytest.raises(ValueError, match=r"unseen at fit time:\s- w\s.*missing:\s- u"):
        ask(renamed)
    with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {owner} was"):
        ask(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(frames)
    if name != "SequenceTransformer":
        plain = model_of(name).fit(X, y)
        assert not hasattr(plain, "feature_names_in_")
        np.testing.assert_array_equal(plain.coef_, model.coef_)
        with pytest.warns(
            UserWarning, match=f"X has feature names, but {owner} was fitted without"
        ):
            plain.predict(frames)
        numbered = on_tables(X, pd.DataFrame)  # names that are no strings are no names
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plain.predict(numbered)
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


def test_columns_of_edges():
    rng = np.random.default_rng(0)
    features = [pd.DataFrame(rng.normal(size=(3, 2)), columns=["near", "far"]) for _ in range(8)]
    edges = pd.DataFrame(PATH, columns=["from", "to"])
    X = [Graph(rng.normal(size=(4, 2)), edges, part) for part in features]
    y = [["a", "b", "a", "b"]] * 8
    model = GraphCRF(alpha=0.1, directed=True).fit(X, y)
    changed = [x._replace(edge_features=x.edge_features[["far", "near"]]) for x in X]
    with pytest.raises(ValueError, match=r"^edge_features of graph 0 of X: The feature names"):
        model.predict(changed)
    with pytest.raises(ValueError, match="edge_features of graph 1 of X has the columns 'far'"):
        model.fit([X[0], *changed[1:]], y)
    with pytest.raises(ValueError, match=r"^edges of graph 0 of X: The feature names"):
        model.predict([x._replace(edges=edges[["to", "from"]]) for x in X])
    model.predict([x._replace(edges=np.array(PATH)) for x in X])
    one = [x._replace(edge_features=part["near"].to_numpy()) for x, part in zip(X, features)]
    with pytest.raises(ValueError, match=r"got \(3,\); for a single feature write np\.reshape"):
        model.fit(one, y)


def test_columns_by_name_in_a_pipeline():
    """The numbers alone, with a missing value, and the words alone tell the classes apart."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 4))
    y = [np.where(row > 0, "b", "a") for row in values]
    X = [
        pd.DataFrame({"noise": rng.normal(size=4), "number": row, "word": labels})
        for row, labels in zip(values, y)
    ]
    X[3].loc[1, "number"] = np.nan
    numbers = ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["number"])
    words = ("words", OneHotEncoder(sparse_output=False), ["word"])
    for parts, names in (
        ([numbers], ["numbers__number"]),
        ([words], ["words__word_a", "words__word_b"]),
    ):
        columns = ColumnTransformer(parts).set_output(transform="pandas")
        model = make_pipeline(SequenceTransformer(columns), ChainCRF(alpha=0.001)).fit(X, y)
        assert model.score(X, y) > 0.95
        assert model[0].get_feature_names_out().tolist() == names
        assert model[1].feature_names_in_.tolist() == names
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            model.predict(reversed_columns(X))


def test_missing_values_of_pandas():
    values = pd.array([0.5, None, 1.0], dtype="Float64")
    X = [pd.DataFrame({"u": [1.0, 2.0, 3.0]}), pd.DataFrame({"u": values})]
    with pytest.raises(ValueError, match="sequence 1 of X contains NaN or infinity"):
        ChainCRF(alpha=0.1).fit(X, [["a", "b", "a"]] * 2)
