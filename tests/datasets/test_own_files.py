"""Users' own files: ARFF of Mulan, MEKA and Weka, svmlight and CSV."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from skcrbm.datasets import load_mulan, read_arff, read_csv, read_svmlight
from skcrbm.exceptions import DataFileError

XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="sad, lonely"><label name="calm"></label></label>
</labels>
"""
HEADER = """% a comment, with @data
@relation 'songs: -C 2'

@ATTRIBUTE\tcalm {0,1}
@attribute 'sad, lonely' {1, 0}
% another comment
@attribute "beats per minute" NUMERIC
@attribute instrument {lute,'bass drum',harp}
@attribute live {no, yes}
@attribute stars {1,2,3}
@data
"""
DENSE = HEADER + "% rows\n1,0,90.5,'bass drum',yes,3\n\n?,1,?,?,?,?\n0, 0, 1e2, lute, no, 1\n"
# An attribute that a sparse row does not mention has its first value.
SPARSE = HEADER + "{0 1, 1 0, 2 90.5, 3 'bass drum', 4 yes, 5 3}\n{}\n{2 ?, 0 ?}\n"
FEATURES = [
    "beats per minute",
    "instrument=lute",
    "instrument=bass drum",
    "instrument=harp",
    "live=yes",
    "stars",
]
NAN = np.nan
NAMES = ["calm", "sad, lonely", "beats per minute", "instrument", "live", "stars"]


@pytest.fixture
def file(tmp_path):
    def write(text, name="songs.arff"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_dense_arff(file):
    songs = read_arff(file(DENSE))
    assert songs.feature_names == FEATURES
    assert songs.label_names == ["calm", "sad, lonely"]
    expected = [[90.5, 0, 1, 0, 1, 3], [NAN] * 6, [100, 1, 0, 0, 0, 1]]
    np.testing.assert_array_equal(songs.data, expected)
    np.testing.assert_array_equal(songs.target, [[1, 0], [NAN, 1], [0, 0]])
    assert songs.data.dtype == songs.target.dtype == np.float64
    assert "1 missing labels" in songs.DESCR
    X, y = read_arff(file(DENSE), return_X_y=True, dtype=np.float32)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(y, songs.target)


def test_sparse_arff(file):
    songs = read_arff(file(SPARSE))
    assert sparse.issparse(songs.data)
    assert songs.data.format == "csr"
    expected = [[90.5, 0, 1, 0, 1, 3], [0, 1, 0, 0, 0, 1], [NAN, 1, 0, 0, 0, 1]]
    np.testing.assert_array_equal(songs.data.toarray(), expected)
    np.testing.assert_array_equal(songs.target, [[1, 0], [0, 1], [NAN, 1]])
    frames = read_arff(file(SPARSE), as_frame=True)
    assert list(frames.frame.columns) == [*FEATURES, "calm", "sad, lonely"]
    np.testing.assert_array_equal(frames.data.to_numpy(), expected)


@pytest.mark.parametrize("labels", [2, ["calm", "sad, lonely"], "xml", "beside"])
def test_where_the_labels_are(file, labels):
    text = DENSE.replace(": -C 2", "").replace("?,1", "0,1")
    xml = file(XML, "songs.xml" if labels == "beside" else "other.xml")
    path = file(text, "songs-train.arff")
    songs = read_arff(path, {"xml": xml, "beside": None}.get(str(labels), labels))
    assert songs.label_names == ["calm", "sad, lonely"]  # in the order of the file
    assert songs.target.dtype == np.int64
    np.testing.assert_array_equal(songs.target, [[1, 0], [0, 1], [0, 0]])


def test_labels_at_the_end_and_dropped_columns(file):
    text = "@relation 'x: -C -1'\n@attribute id string\n@attribute a real\n@attribute b {no,yes}\n"
    path = file(text + "@data\n'r 1',2,yes\nr2,0,no\n")
    with pytest.warns(UserWarning, match=r"text attributes \['id'\] are not read"):
        found = read_arff(path)
    assert (found.feature_names, found.label_names) == (["a"], ["b"])
    np.testing.assert_array_equal(read_arff(path, drop=["id"]).target, [[1], [0]])


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("1,0,90.5,", "1,0,", 13, "lacks the value of an attribute"),
        ("90.5", "fast", 13, "not a number"),
        ("yes,3", "maybe,3", 13, "'maybe' is not in the list of values"),
        ("'bass drum',yes", "'bass drum,yes", 13, "cannot be parsed"),
        ("NUMERIC", "DATE", 7, "is not numeric"),
        ('"beats per minute"', "calm", 7, "used before"),
        ("@relation 'songs: -C 2'", "@relation songs: -C 2", 2, "in quotes"),
        ("@relation 'songs: -C 2'", "", 4, "must hold @relation"),
        ("@data\n", "", 15, "must hold @relation"),
        ("{0,1}", "{0,2}", None, "'1' is not in the list"),
        ("calm {0,1}", "calm numeric", None, None),
        ("1,0,90.5", "{0 1}", None, "parsed|value of an attribute"),
        ("no, 1\n", "no, 1, {2.5}\n", 16, r"weight in braces, \{2\.5\}, .* as sample_weight"),
    ],
)
def test_damaged_arff(file, old, new, line, words):
    assert old in DENSE
    before, after = DENSE.rsplit(old, 1) if old == "@data\n" else DENSE.split(old, 1)
    path = file(before + new + after)
    if words is None:
        read_arff(path)
        return
    with pytest.raises(DataFileError, match=words) as info:
        read_arff(path)
    number = r"\d+" if line is None else line
    assert re.match(rf"{re.escape(str(path))}, line {number}: ", str(info.value))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{2 ?, 0 ?}", "{2 1, 0 1, 2 3}", "line 14: the row has several values of attribute 2"),
        ("{2 ?, 0 ?}", "{0 1,02 1, 0 0}", "line 14: the row has several values of attribute 0"),
        ("{2 ?, 0 ?}", "{2 1, 0 1}, {2.5}", r"line 14: .* weight in braces, \{2\.5\}"),
        ("harp}", "lute}", "the attribute 'instrument' lists the value 'lute' twice"),
        ("live {no, yes}", "'instrument=harp' numeric", "several columns of the name 'instrum"),
    ],
)
def test_repeated_parts_of_sparse_arff(file, old, new, words):
    assert old in SPARSE
    path = file(SPARSE.replace(old, new))
    with pytest.raises(DataFileError, match=words):
        read_arff(path)


def test_quoted_values_of_sparse_arff(file):
    """Numbers after a comma in a quoted value are no attributes."""
    text = SPARSE.replace("'bass drum'", r"'bass, 3 \', 3 drum'")
    assert read_arff(file(text)).data.toarray()[0].tolist() == [90.5, 0, 1, 0, 1, 3]


def test_labels_that_are_not_binary(file):
    path = file(DENSE.replace("{0,1}", "{0,1,2}").replace("\n1,0,", "\n2,0,"))
    with pytest.raises(DataFileError, match=r"line 13: label 'calm' has the value '2'; a label is"):
        read_arff(path)
    with pytest.raises(DataFileError, match=r"line 13: label 'beats per minute' has .*'90.5'"):
        read_arff(file(DENSE), ["beats per minute"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": 7}, "labels=7 does not fit the 6 columns"),
        ({"labels": 0}, "labels=0 does not fit"),
        ({"labels": ["loud"]}, r"`labels` has names that are not columns .*'loud'"),
        ({"labels": ["calm", "calm"]}, "`labels` has the name of a column twice"),
        ({"labels": []}, "`labels` must contain the name of at least one"),
        ({"labels": 1.5}, "labels must be a list"),
        ({"drop": ["loud"]}, "`drop` has names"),
        ({"drop": "calm"}, "drop must be a list"),
        ({"dtype": int}, "dtype must be float32 or float64"),
        ({"as_frame": 1}, "as_frame must be True or False"),
        (
            {"labels": ["calm"], "drop": [name for name in NAMES if name != "calm"]},
            "has no feature",
        ),
    ],
)
def test_arguments_of_arff(file, options, words):
    with pytest.raises(ValueError, match=words):
        read_arff(file(DENSE), **options)


def test_files_that_are_missing_or_are_no_text(file, tmp_path):
    for reader in (read_arff, read_svmlight, lambda path: read_csv(path, 1)):
        with pytest.raises(FileNotFoundError, match=r"none\.txt was not found"):
            reader(tmp_path / "none.txt")
        with pytest.raises(DataFileError, match="is not a file"):
            reader(tmp_path)
        with pytest.raises(DataFileError, match="is not the path of a file"):
            reader(3)
    with pytest.raises(FileNotFoundError, match=r"no\.xml was not found"):
        read_arff(file(DENSE), "no.xml")
    with pytest.raises(DataFileError, match="is not an XML file of labels"):
        read_arff(file(DENSE), file("<labels>", "broken.xml"))
    with pytest.raises(DataFileError, match="should hold elements <label"):
        read_arff(file(DENSE), file("<labels/>", "empty.xml"))
    with pytest.raises(ValueError, match=r"does not say which .* there is no songs\.xml"):
        read_arff(file(DENSE.replace(": -C 2", "")))
    latin = DENSE.replace("calm", "caf\u00e9").encode("latin-1")
    with pytest.raises(DataFileError, match="encoding='latin-1'"):
        read_arff(file(latin))
    assert read_arff(file(latin), encoding="latin-1").label_names[0] == "caf\u00e9"
    assert read_arff(file(b"\xef\xbb\xbf" + DENSE[HEADER.index("@rel") :].encode())).data.size
    with pytest.raises(DataFileError, match="has no rows"):
        read_arff(file(HEADER))


# ------------------------------------------------------------------------------ load_mulan


def parts_of(n_train, n_test, n_features, n_labels):
    rng = np.random.RandomState(0)
    head = ["@relation any"]
    head += [f"@attribute f{k} numeric" for k in range(n_features)]
    head += [f"@attribute l{k} {{0,1}}" for k in range(n_labels)]
    for n in (n_train, n_test):
        x = rng.randint(9, size=(n, n_features))
        rows = np.hstack([x, np.arange(n * n_labels).reshape(n, n_labels) % 3 == 0]).astype(int)
        yield "\n".join([*head, "@data", *(",".join(map(str, row)) for row in rows)])


def test_any_set_of_mulan(file, tmp_path):
    train, test = parts_of(5, 4, 3, 2)
    (tmp_path / "corel").mkdir()
    for text, name in ((train, "train"), (test, "test")):
        file(text, f"corel/corel-{name}.arff")
    file('<labels><label name="l0"/><label name="l1"/></labels>', "corel/corel.xml")
    found = load_mulan("corel", data_home=tmp_path)
    assert found.data.shape == (9, 3)
    assert found.X_test.shape == (4, 3)
    assert found.y_train.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert found.data.dtype == np.float32
    X, _ = load_mulan("corel", data_home=tmp_path, return_X_y=True, subset="test")
    np.testing.assert_array_equal(X, found.X_test)
    frames = load_mulan("corel", data_home=tmp_path, as_frame=True)
    assert list(frames.y_test.columns) == ["l0", "l1"]
    with pytest.raises(ValueError, match="subset must be one of"):
        load_mulan("corel", data_home=tmp_path, return_X_y=True, subset="val")
    file(test.replace("f2", "g2"), "corel/corel-test.arff")
    with pytest.raises(DataFileError, match="feature_names differ"):
        load_mulan("corel", data_home=tmp_path)


def test_a_sparse_set_without_a_split(file, tmp_path):
    file(SPARSE, "tunes.arff")
    found = load_mulan("tunes", data_home=tmp_path)
    assert found.data.format == "csr"
    assert np.isnan(found.target).sum() == 1
    assert "X_train" not in found


def test_a_set_of_the_table_is_checked(file, tmp_path):
    train, test = parts_of(391, 202, 72, 6)
    file(train, "emotions-train.arff")
    file(test, "emotions-test.arff")
    names = "".join(f'<label name="l{k}"/>' for k in range(6))
    file(f"<labels>{names}</labels>", "emotions.xml")
    with pytest.warns(UserWarning, match=r"from emotions-train\.arff and .* differ from the"):
        found = load_mulan("emotions", data_home=tmp_path)
    assert found.data.shape == (593, 72)
    assert found.filename.endswith("emotions-train.arff")
    file(train, "emotions-test.arff")
    with pytest.raises(DataFileError, match=r"X of the test part should have the shape"):
        load_mulan("emotions", data_home=tmp_path)


def test_the_real_set_from_arff_files(file, tmp_path):
    """The same arrays from ARFF and from .npz, whose labels agree with the published split."""
    home = os.environ.get("SKCRBM_DATA")
    if not home or not Path(home, "emotions.npz").is_file():
        pytest.skip("needs emotions.npz in SKCRBM_DATA")
    expected = load_mulan("emotions", data_home=home)
    head = ["@relation emotions", *(f'@attribute "{n}" numeric' for n in expected.feature_names)]
    head += [f'@attribute "{name}" {{0,1}}' for name in expected.label_names]
    for part in ("train", "test"):
        rows = np.hstack([expected[f"X_{part}"], expected[f"y_{part}"]])
        lines = [",".join(f"{v:.9g}" for v in row) for row in rows]
        file("\n".join([*head, "@data", *lines]), f"emotions-{part}.arff")
    names = "".join(f'<label name="{name}"/>' for name in reversed(expected.label_names))
    file(f"<labels>{names}</labels>", "emotions.xml")
    found = load_mulan("emotions", data_home=tmp_path)
    np.testing.assert_array_equal(found.data, expected.data)
    np.testing.assert_array_equal(found.target, expected.target)
    assert found.label_names == expected.label_names
    assert "agree, row by row, with the published split" in found.DESCR


# -------------------------------------------------------------------------------- svmlight


def test_svmlight(file):
    text = "0,2 1:0.5 3:1 # a comment\n2 2:1.5\n 1:0.25\n"
    found = read_svmlight(file(text))
    assert found.label_names == ["0", "2"]
    assert found.target.tolist() == [[1, 1], [0, 1], [0, 0]]
    assert found.data.toarray().tolist() == [[0.5, 0, 1], [0, 1.5, 0], [0.25, 0, 0]]
    named = read_svmlight(file(text), ["a", "b", "c"], n_features=4, zero_based=True)
    assert named.data.shape == (3, 4)
    assert named.target.tolist() == [[1, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert named.label_names == ["a", "b", "c"]
    _, y = read_svmlight(file(text.replace("0,2", "1,2")), 2, first_label=1, return_X_y=True)
    assert y.tolist() == [[1, 1], [0, 1], [0, 0]]
    assert list(read_svmlight(file(text), as_frame=True).target.columns) == ["0", "2"]


def test_svmlight_with_declared_sizes(file):
    found = read_svmlight(file("2 5 3\n0 0:1\n2 3:2\n"))
    assert found.data.shape == (2, 5)
    assert found.target.tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(
        DataFileError, match="should hold 3 rows according to its first line, but holds 2"
    ):
        read_svmlight(file("3 5 3\n0 0:1\n\n2 3:2\n"))


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("0 1:1\n# none\n0 1:a\n", {}, "line 3: '1:a' is not a feature"),
        ("0 1:1\n0 1: 2:1\n", {}, "line 2: '1:' is not a feature; a feature is index:value"),
        ("0 1:1\n0 1\n", {}, "line 2: '1' is not a feature"),
        ("0 1:1\n0 :1\n", {}, "line 2: ':1' is not a feature"),
        ("2 5 3\n0 1:1\n0 1.5:1\n", {}, "line 3: '1.5:1' is not a feature"),
        ("x 1:1\n", {}, "line 1: 'x' in 'x' is not a label number"),
        ("0 1:1\n1, 2 1:1\n", {}, "line 2: '' in '1,' is not a label .* without spaces"),
        ("0 3:1 1:1\n", {}, "line 1: the index 1 follows the index 3"),
        ("0 1:1\n0 1:1 1:2\n", {}, "line 2: the index 1 follows the index 1; .* occur once"),
        ("0 1:1\n", {"zero_based": True, "n_features": 1}, "cannot be read: n_features was set"),
        ("0 1:1\n0.5 1:1\n", {}, "line 2: the label number 0.5 is not an integer"),
        ("0 1:1\n3,1,3 1:1\n", {}, "line 2: a label occurs twice in '3,1,3'"),
        ("-1 1:1\n1 1:1\n", {}, "a label number is negative.*load_svmlight_file"),
        ("0 1:1\n0 9999999999:1\n", {}, "line 2: the index 9999999999 is larger than 2147483647"),
        ("0 1:1\n", {"labels": ["a", "a"]}, r"`labels` has the name of a column twice: \['a'\]"),
        (" 1:1\n", {}, "contains no label; pass the number"),
        ("0 1:1\n7 1:1\n", {"labels": 3}, "row 2 has the label 7, but 3 labels are"),
        ("0 1:1\n", {"labels": 0}, "labels must be at least 1"),
        ("0 1:1\n", {"labels": "ab"}, "labels must be a number or a list"),
        ("0 1:1\n", {"first_label": 0.5}, "first_label must be an integer"),
    ],
)
def test_svmlight_errors(file, text, options, words):
    with pytest.raises(ValueError, match=words):
        read_svmlight(file(text), **options)


# ------------------------------------------------------------------------------------- CSV


CSV = 'id,"height, m",beach,town\na,1.5,yes,0\n\nb,,No,?\n"c\nd",2,TRUE,1.0\n'


def test_csv(file):
    found = read_csv(file(CSV), ["town", "beach"], drop=["id"])
    assert (found.feature_names, found.label_names) == (["height, m"], ["town", "beach"])
    np.testing.assert_array_equal(found.data, [[1.5], [NAN], [2]])
    np.testing.assert_array_equal(found.target, [[0, 1], [NAN, 0], [1, 1]])
    frames = read_csv(file(CSV), -2, as_frame=True)
    assert frames.data["id"].tolist() == ["a", "b", "c\nd"]
    assert list(frames.frame.columns) == ["id", "height, m", "beach", "town"]
    semicolons = "\ufeffx;y\n1;0\n2;1\n"
    X, y = read_csv(file(semicolons), ["y"], sep=";", dtype=np.float32, return_X_y=True)
    assert (X.dtype, y.dtype, y.tolist()) == (np.float32, np.int64, [[0], [1]])
    bools = read_csv(file("x,y,z\nTrue,0,1\nFalse,1,0\n"), 1)
    assert bools.label_names == ["x"]
    assert bools.target.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (CSV, {}, r"the columns \['id'\] hold text.*drop=\['id'\]"),
        (CSV.replace("yes", "maybe"), {}, "line 2: label 'beach' has the value 'maybe'"),
        (CSV.replace("1.0", "2"), {}, "line 6: label 'town' has the value '?2"),
        (CSV.replace("a,1.5", "a"), {}, "line 2: the row has 3 fields, but the header has 4"),
        (CSV.replace("a,1.5", "a,1,5"), {}, "line 2: the row has 5 fields"),
        (CSV.replace("id", "town"), {}, r"line 1: several columns have the same name: \['town'\]"),
        (CSV, {"labels": ["sea"]}, r"`labels` has names .*\['sea'\]; the file has \['id'"),
        (CSV, {"sep": ", "}, "sep must be a single character"),
        ("a,b\n", {"labels": 1}, "has no rows"),
        ("a,b\n1,0\n", {"labels": ["b"], "drop": ["a"]}, "has no feature"),
        (b"a,b\n1,\xff\n", {"labels": 1}, "encoding='latin-1'"),
    ],
)
def test_csv_errors(file, text, options, words):
    with pytest.raises(ValueError, match=words) as info:
        read_csv(file(text), **{"labels": ["beach", "town"], **options})
    assert isinstance(info.value, DataFileError) or "labels" in words or "sep" in words
