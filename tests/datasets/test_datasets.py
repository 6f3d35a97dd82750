import hashlib
import os
from functools import partial
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from skcrbm.datasets import (
    _files,
    _read,
    _specs,
    load_caltech101_silhouettes,
    load_fashion_mnist,
    load_mediamill,
    load_mnist,
    load_mulan,
    load_scene,
    load_yeast,
)

REAL = Path(
    os.environ.get("SKCRBM_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data"
)
FETCHED = [load_scene, load_yeast, load_mnist, load_fashion_mnist]


@pytest.fixture(scope="module")
def real():
    if not REAL.is_dir():
        pytest.skip(f"the data files are not part of the repository, and {REAL} does not exist")

    def load(loader, filename, **kwargs):
        if not (REAL / filename).is_file():
            pytest.skip(f"{filename} is not in {REAL}")
        return loader(data_home=REAL, **kwargs)

    return load


@pytest.fixture
def no_network(monkeypatch):
    def refuse(**kwargs):
        raise AssertionError("fetch_openml was called")

    monkeypatch.setattr(_files, "fetch_openml", refuse)


def fake_multilabel(spec, seed=0, target=None):
    """Return a Bunch as fetch_openml does for a multi-label data set: labels are strings."""
    rng = np.random.default_rng(seed)
    if target is None:
        target = rng.random((spec.n_rows, spec.n_labels)) < 0.3
    return Bunch(
        data=rng.normal(size=(spec.n_rows, spec.n_features)),
        target=np.where(target, "TRUE", "FALSE").astype(object),
        feature_names=[f"f{j}" for j in range(spec.n_features)],
        target_names=[f"l{j}" for j in range(spec.n_labels)],
    )


class FakeOpenML:
    def __init__(self, bunch):
        self.bunch, self.calls = bunch, []

    def __call__(self, **kwargs):
        self.calls.append(kwargs)
        return self.bunch


@pytest.fixture
def openml(monkeypatch):
    def install(bunch):
        fake = FakeOpenML(bunch)
        monkeypatch.setattr(_files, "fetch_openml", fake)
        return fake

    return install


# --- the real files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    (
        "loader",
        "kwargs",
        "filename",
        "n_train",
        "n_test",
        "p",
        "n_labels",
        "cardinalities",
        "first",
    ),
    [
        (load_scene, {}, "scene.npz", 1211, 1196, 294, 6, (1.0619, 1.0861), "Beach"),
        (load_yeast, {}, "yeast.npz", 1500, 917, 103, 14, (4.228, 4.2519), "Class1"),
        (
            load_mediamill,
            {"variant": "sample"},
            "mediamill_reduced.npz",
            1500,
            500,
            120,
            101,
            (4.437, 4.264),
            "Class1",
        ),
    ],
)
def test_real_multilabel(
    real, no_network, loader, kwargs, filename, n_train, n_test, p, n_labels, cardinalities, first
):
    b = real(loader, filename, **kwargs)
    assert b.X_train.shape == (n_train, p)
    assert b.X_test.shape == (n_test, p)
    assert b.y_train.shape == (n_train, n_labels)
    assert b.y_test.shape == (n_test, n_labels)
    assert b.data.shape == (n_train + n_test, p)
    assert b.data.dtype == np.float32
    assert b.target.dtype == np.int64
    assert set(np.unique(b.target)) == {0, 1}
    found = b.y_train.sum(axis=1).mean(), b.y_test.sum(axis=1).mean()
    np.testing.assert_allclose(found, cardinalities, atol=5.1e-4)
    assert len(b.feature_names) == p
    assert len(b.label_names) == n_labels
    assert b.label_names[0] == first
    assert Path(b.filename) == REAL / filename
    assert "checked" in b.DESCR
    with np.load(REAL / filename) as z:
        np.testing.assert_array_equal(b.X_test, z["X_test"])
        np.testing.assert_array_equal(b.y_train, z["Y_train"])


@pytest.mark.parametrize(
    ("name", "n_train", "n_test", "p", "n_labels", "cardinality", "n_sets", "n_empty", "first"),
    [
        ("emotions", 391, 202, 72, 6, 1.8685, 27, 0, "amazed-suprised"),
        ("birds", 322, 323, 260, 19, 1.014, 133, 294, "Brown Creeper"),
        ("medical", 333, 645, 1449, 45, 1.2454, 94, 0, "Class-0-593_70"),
        ("enron", 1123, 579, 1001, 53, 3.3784, 753, 0, "A.A8"),
        ("genbase", 463, 199, 1185, 27, 1.2523, 32, 0, "PDOC00154"),
    ],
)
def test_real_mulan(
    real, no_network, name, n_train, n_test, p, n_labels, cardinality, n_sets, n_empty, first
):
    b = real(partial(load_mulan, name), f"{name}.npz")
    assert b.X_train.shape == (n_train, p)
    assert b.y_test.shape == (n_test, n_labels)
    assert b.data.dtype == np.float32
    assert b.target.dtype == np.int64
    assert b.target.sum(axis=1).mean() == pytest.approx(cardinality, abs=5.1e-5)
    assert len(np.unique(b.target, axis=0)) == n_sets
    assert (b.target.sum(axis=1) == 0).sum() == n_empty
    assert len(b.feature_names) == p
    assert b.label_names[0] == first
    assert "checked" in b.DESCR
    with np.load(REAL / f"{name}.npz") as z:
        np.testing.assert_array_equal(b.X_train, z["X_train"])
        np.testing.assert_array_equal(b.y_test, z["Y_test"])


def test_a_set_without_a_split(real, no_network):
    b = real(partial(load_mulan, "cal500"), "cal500.npz")
    assert b.data.shape == (502, 68)
    assert b.target.shape == (502, 174)
    assert len(np.unique(b.target, axis=0)) == 502
    assert "X_train" not in b
    assert "Published split: the set has no split." in b.DESCR
    X, y = real(partial(load_mulan, "cal500"), "cal500.npz", return_X_y=True)
    np.testing.assert_array_equal(X, b.data)
    np.testing.assert_array_equal(y, b.target)
    with np.load(REAL / "cal500.npz") as z:
        np.testing.assert_array_equal(X, z["X"])
        np.testing.assert_array_equal(y, z["Y"])


def test_a_wrong_array_of_a_set_without_a_split(tmp_path):
    names = {"feature_names": np.array(["a"]), "label_names": np.array(["b"]), "origin": "a test"}
    np.savez(tmp_path / "cal500.npz", X=np.zeros((502, 67)), Y=np.zeros((502, 174)), **names)
    with pytest.raises(ValueError, match=r"X should have the shape \(502, 68\), but has"):
        load_mulan("cal500", data_home=tmp_path)
    np.savez(tmp_path / "cal500.npz", X=np.zeros((502, 68)), **names)
    with pytest.raises(ValueError, match=r"should hold the arrays \['Y'\]"):
        load_mulan("cal500", data_home=tmp_path)


def test_real_label_sets(real):
    for loader, name, n_sets in ((load_scene, "scene.npz", 15), (load_yeast, "yeast.npz", 198)):
        assert len(np.unique(real(loader, name).target, axis=0)) == n_sets


@pytest.mark.deep
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("loader", "filename", "mean", "std", "class_7"),
    [
        (load_mnist, "mnist.npz", 0.1307, 0.3081, "7"),
        (load_fashion_mnist, "fashion_mnist.npz", 0.2860, 0.3530, "Sneaker"),
    ],
)
def test_real_images(real, no_network, loader, filename, mean, std, class_7):
    b = real(loader, filename)
    assert b.X_train.shape == (60000, 784)
    assert b.X_test.shape == (10000, 784)
    assert b.data.dtype == np.uint8
    assert b.target.dtype == np.int64
    pixels = b.X_train.astype(np.float32) / 255
    assert abs(pixels.mean(dtype=np.float64) - mean) < 1e-4
    assert abs(pixels.std(dtype=np.float64) - std) < 1e-4
    assert set(np.unique(b.y_test)) == set(range(10))
    assert b.class_names[7] == class_7
    assert b.image_shape == (28, 28)
    assert b.image_order == "C"
    with np.load(REAL / filename) as z:
        row = b.X_test[5].reshape(b.image_shape, order=b.image_order)
        np.testing.assert_array_equal(row, z["X_test"][5])


def test_real_caltech(real):
    b = real(load_caltech101_silhouettes, "caltech101_silhouettes.npz")
    assert b.X_train.shape == (4100, 784)
    assert b.X_val.shape == (2264, 784)
    assert b.X_test.shape == (2307, 784)
    assert b.data.dtype == np.uint8
    for y in (b.y_train, b.y_val, b.y_test):
        assert set(np.unique(y)) == set(range(1, 102))
    np.testing.assert_array_equal(b.target, np.concatenate([b.y_train, b.y_val, b.y_test]))
    assert len(b.class_names) == 101
    assert b.image_order == "F"
    # background is 1 and fills most of the border, as the docstring says
    images = b.data.reshape(-1, 28, 28)
    assert images[:, 0, 0].mean() > 0.9
    for part in ("train", "val", "test"):
        X, y = real(
            load_caltech101_silhouettes,
            "caltech101_silhouettes.npz",
            return_X_y=True,
            subset=part,
        )
        np.testing.assert_array_equal(X, b[f"X_{part}"])
        np.testing.assert_array_equal(y, b[f"y_{part}"])


def test_parts_are_views(real):
    b = real(load_caltech101_silhouettes, "caltech101_silhouettes.npz")
    for part in ("train", "val", "test"):
        assert np.shares_memory(b[f"X_{part}"], b.data)
        assert np.shares_memory(b[f"y_{part}"], b.target)
    assert b.data.flags.c_contiguous


def test_return_X_y_is_scikit_learns(real):
    b = real(load_scene, "scene.npz")
    X, y = real(load_scene, "scene.npz", return_X_y=True)
    np.testing.assert_array_equal(X, b.data)
    np.testing.assert_array_equal(y, b.target)
    for part in ("train", "test"):
        X, y = real(load_scene, "scene.npz", return_X_y=True, subset=part)
        np.testing.assert_array_equal(X, b[f"X_{part}"])
        np.testing.assert_array_equal(y, b[f"y_{part}"])
    with pytest.raises(
        ValueError, match=r"subset must be one of \['all', 'train', 'test'\], got 'v"
    ):
        real(load_scene, "scene.npz", return_X_y=True, subset="val")
    with pytest.raises(ValueError, match=r"subset must be one of \['all'\], got 'train'"):
        real(partial(load_mulan, "cal500"), "cal500.npz", return_X_y=True, subset="train")
    with pytest.raises(ValueError, match="subset needs return_X_y=True"):
        real(load_scene, "scene.npz", subset="train")


def test_as_frame_is_scikit_learns(real):
    plain = real(load_scene, "scene.npz")
    b = real(load_scene, "scene.npz", as_frame=True)
    assert b.data.columns.tolist() == b.feature_names
    assert b.target.columns.tolist() == b.label_names == b.y_test.columns.tolist()
    assert b.frame.shape == (2407, 300)
    for name in ("data", "target", "X_train", "X_test", "y_train", "y_test"):
        np.testing.assert_array_equal(b[name].to_numpy(), plain[name])
        assert b[name].to_numpy().dtype == plain[name].dtype
    X, y = real(load_scene, "scene.npz", as_frame=True, return_X_y=True, subset="test")
    pd.testing.assert_frame_equal(X, b.X_test)
    pd.testing.assert_frame_equal(y, b.y_test)
    X, y = real(
        load_caltech101_silhouettes,
        "caltech101_silhouettes.npz",
        as_frame=True,
        return_X_y=True,
        subset="test",
    )
    assert isinstance(y, pd.Series)
    assert y.name == "class"
    assert X.columns[:2].tolist() == ["pixel_0_0", "pixel_1_0"]  # a row goes down the columns


# --- folders -------------------------------------------------------------------------------


def test_precedence_of_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("SKCRBM_DATA", str(tmp_path / "env"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(_files.sys, "platform", "linux")
    assert _files.find_data_home(tmp_path / "arg")[0] == tmp_path / "arg"
    assert _files.find_data_home()[0] == tmp_path / "env"
    monkeypatch.setenv("SKCRBM_DATA", "")
    assert _files.find_data_home()[0] == tmp_path / "xdg" / "skcrbm"


@pytest.mark.parametrize(
    ("platform", "variable", "tail"),
    [
        ("linux", None, Path(".cache", "skcrbm")),
        ("darwin", None, Path("Library", "Caches", "skcrbm")),
        ("win32", None, Path("AppData", "Local", "skcrbm")),
        ("win32", "LOCALAPPDATA", Path("set", "skcrbm")),
    ],
)
def test_user_cache_folder(tmp_path, monkeypatch, platform, variable, tail):
    for name in ("SKCRBM_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "set"))
    monkeypatch.setattr(_files.sys, "platform", platform)
    monkeypatch.setattr(_files.Path, "home", lambda: tmp_path)
    assert _files.find_data_home()[0] == tmp_path / tail


def test_the_environment_variable_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("SKCRBM_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="environment variable SKCRBM_DATA") as info:
        load_caltech101_silhouettes()
    assert str(tmp_path) in str(info.value)


# --- missing and wrong files ---------------------------------------------------------------


@pytest.mark.parametrize("loader", FETCHED)
def test_missing_without_download(tmp_path, no_network, loader):
    name = loader.__name__.removeprefix("load_") + ".npz"
    with pytest.raises(FileNotFoundError, match="OpenML") as info:
        loader(data_home=tmp_path, download_if_missing=False)
    assert name in str(info.value)
    assert str(tmp_path) in str(info.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("loader", "kwargs", "words"),
    [
        (load_caltech101_silhouettes, {}, ("caltech101_silhouettes.npz", "Marlin", "X_val")),
        (load_mediamill, {}, ("mediamill.npz", "Mulan", 'variant="sample"', "must not")),
        (load_mediamill, {"variant": "sample"}, ("mediamill_reduced.npz", "OnlineMLR")),
        (load_mulan, {"name": "birds"}, ("birds.npz", "data/multi-label/birds", "X_test")),
        (load_mulan, {"name": "cal500"}, ("cal500.npz", "the arrays X, Y, feature_names")),
    ],
)
def test_missing_and_not_fetched(tmp_path, no_network, loader, kwargs, words):
    with pytest.raises(FileNotFoundError) as info:
        loader(data_home=tmp_path, **kwargs)
    for word in (*words, str(tmp_path)):
        assert word in str(info.value)


def test_unknown_variant(tmp_path):
    with pytest.raises(ValueError, match=r"variant should be one of .*'smaple'"):
        load_mediamill(variant="smaple", data_home=tmp_path)


def test_unknown_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"bird-train\.arff .* \['birds', "):
        load_mulan("bird", data_home=tmp_path)
    with pytest.raises(ValueError, match=r"name must be the name of a data set.*'a/b'"):
        load_mulan("a/b", data_home=tmp_path)


@pytest.mark.parametrize("content", ["npz", "garbage"])
def test_wrong_checksum(tmp_path, no_network, content):
    path = tmp_path / "scene.npz"
    if content == "npz":
        np.savez(path, X_train=np.zeros((1211, 294)))
    else:
        path.write_bytes(b"not an archive")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(OSError, match="sha256") as info:
        load_scene(data_home=tmp_path)
    for word in (str(path), _specs.SCENE.sha256, found):
        assert word in str(info.value)


def test_a_file_without_known_checksum_must_be_readable(tmp_path):
    (tmp_path / "mediamill.npz").write_bytes(b"not an archive")
    with pytest.raises(OSError, match=r"mediamill\.npz cannot be read"):
        load_mediamill(data_home=tmp_path)
    np.savez(tmp_path / "mediamill.npz", X_train=np.zeros((2, 120)))
    with pytest.raises(ValueError, match=r"should hold the arrays .*Y_train"):
        load_mediamill(data_home=tmp_path)


def test_the_checksum_is_computed_once_per_version_of_a_file(tmp_path, monkeypatch):
    calls = []
    real_digest = hashlib.file_digest

    def digest(stream, name):
        calls.append(stream.name)
        return real_digest(stream, name)

    monkeypatch.setattr(_read.hashlib, "file_digest", digest)
    path = tmp_path / "scene.npz"
    path.write_bytes(b"one")
    for _ in range(3):
        with pytest.raises(OSError, match="sha256"):
            load_scene(data_home=tmp_path)
    assert len(calls) == 1
    path.write_bytes(b"three")
    with pytest.raises(OSError, match="sha256"):
        load_scene(data_home=tmp_path)
    assert len(calls) == 2


def full_mediamill(folder, **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "feature_names": np.array([f"Att{j}" for j in range(120)]),
        "label_names": np.array([f"Class{j}" for j in range(101)]),
    }
    for part, n_rows in (("train", 30993), ("test", 12914)):
        arrays[f"X_{part}"] = np.broadcast_to(rng.random(120, np.float32), (n_rows, 120))
        arrays[f"Y_{part}"] = np.eye(101, dtype=np.uint8)[np.arange(n_rows) % 101]
    np.savez(folder / "mediamill.npz", **{**arrays, **changes})


def test_full_mediamill_is_checked_by_shape(tmp_path):
    full_mediamill(tmp_path)
    b = load_mediamill(data_home=tmp_path)
    assert b.data.shape == (43907, 120)
    assert b.y_train.shape == (30993, 101)
    assert "no checksum is known" in b.DESCR
    full_mediamill(tmp_path, Y_test=np.zeros((12913, 101)))
    with pytest.raises(ValueError, match=r"test part should have the shape \(12914, 101\)"):
        load_mediamill(data_home=tmp_path)
    full_mediamill(tmp_path, Y_test=np.full((12914, 101), 0.5))
    with pytest.raises(ValueError, match="y of the test part should hold integers"):
        load_mediamill(data_home=tmp_path)
    full_mediamill(tmp_path, Y_test=np.full((12914, 101), 2))
    with pytest.raises(ValueError, match="y should hold integers from 0 to 1"):
        load_mediamill(data_home=tmp_path)
    full_mediamill(tmp_path, X_test=np.full((12914, 120), np.nan))
    with pytest.raises(ValueError, match="X should hold finite numbers"):
        load_mediamill(data_home=tmp_path)


def test_a_converted_caltech_file_is_accepted_with_its_origin(real, tmp_path):
    b = real(load_caltech101_silhouettes, "caltech101_silhouettes.npz")
    arrays = {f"{k}_{p}": b[f"{k}_{p}"] for k in "Xy" for p in ("train", "val", "test")}
    path = tmp_path / "caltech101_silhouettes.npz"
    np.savez_compressed(path, class_names=b.class_names, **arrays)
    with pytest.raises(OSError, match="'origin'"):
        load_caltech101_silhouettes(data_home=tmp_path)
    np.savez_compressed(path, class_names=b.class_names, origin="the .mat file", **arrays)
    again = load_caltech101_silhouettes(data_home=tmp_path)
    np.testing.assert_array_equal(again.data, b.data)
    assert "made from the .mat file" in again.DESCR
    assert "labels agree" in again.DESCR


# --- OpenML --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loader", "spec", "data_id"),
    [(load_scene, _specs.SCENE, 40595), (load_yeast, _specs.YEAST, 40597)],
)
def test_fetch_then_cache(tmp_path, openml, loader, spec, data_id):
    sent = fake_multilabel(spec)
    fake = openml(sent)
    home = tmp_path / "new" / "folder"
    with pytest.warns(UserWarning, match="differ from the published split"):
        b = loader(data_home=home)
    assert fake.calls[0]["data_id"] == data_id
    assert fake.calls[0]["as_frame"] is False
    np.testing.assert_array_equal(b.target, sent.target == "TRUE")
    np.testing.assert_array_equal(b.data, sent.data.astype(np.float32))
    assert len(b.y_train) == spec.rows["train"]
    assert b.data.dtype == np.float32
    assert b.target.dtype == np.int64
    assert b.label_names == sent.target_names
    assert "assumed, not verified" in b.DESCR
    assert "DIFFER" in b.DESCR
    assert [p.name for p in home.iterdir()] == [spec.filename]

    with pytest.warns(UserWarning, match="differ from the"):
        again = loader(data_home=home, download_if_missing=False)
    assert len(fake.calls) == 1
    np.testing.assert_array_equal(again.data, b.data)
    np.testing.assert_array_equal(again.target, b.target)
    assert again.DESCR == b.DESCR


@pytest.mark.filterwarnings("error")
def test_labels_in_the_published_order_are_recognised(real, tmp_path, openml):
    published = real(load_yeast, "yeast.npz")
    openml(fake_multilabel(_specs.YEAST, target=published.target == 1))
    b = load_yeast(data_home=tmp_path)
    np.testing.assert_array_equal(b.y_test, published.y_test)
    assert "The labels agree, row by row" in b.DESCR
    assert "assumed, not verified" in b.DESCR
    assert "checked." not in b.DESCR


def test_fetched_images(tmp_path, openml):
    data = np.zeros((70000, 784), dtype=np.uint8)
    data[60000, 3] = 255
    target = (np.arange(70000) % 10).astype(str).astype(object)
    fake = openml(Bunch(data=data, target=target))
    with pytest.warns(UserWarning, match="differ from the published split"):
        b = load_mnist(data_home=tmp_path)
    assert fake.calls[0]["data_id"] == 554
    assert b.X_test[0, 3] == 255
    assert b.data.dtype == np.uint8
    np.testing.assert_array_equal(b.target, np.arange(70000) % 10)
    with pytest.warns(UserWarning, match="differ from the"):
        again = load_mnist(data_home=tmp_path)
    assert len(fake.calls) == 1
    np.testing.assert_array_equal(again.X_test, b.X_test)


def test_unwritable_folder_warns_and_returns(tmp_path, openml):
    blocker = tmp_path / "file"
    blocker.write_text("")  # a folder below a file cannot be made, not even by root
    openml(fake_multilabel(_specs.SCENE))
    with (
        pytest.warns(UserWarning, match="could not be written"),
        pytest.warns(UserWarning, match="differ from the"),
    ):
        b = load_scene(data_home=blocker / "below")
    assert b.data.shape == (2407, 294)


def test_a_failed_write_leaves_nothing_behind(tmp_path, openml, monkeypatch):
    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(_files.os, "replace", fail)
    openml(fake_multilabel(_specs.SCENE))
    with (
        pytest.warns(UserWarning, match="disk full"),
        pytest.warns(UserWarning, match="differ from the"),
    ):
        load_scene(data_home=tmp_path)
    assert not list(tmp_path.iterdir())


def test_download_failure(tmp_path, monkeypatch):
    def fail(**kwargs):
        raise URLError("no route to host")

    monkeypatch.setattr(_files, "fetch_openml", fail)
    with pytest.raises(OSError, match=r"fetching OpenML data set 40597 failed") as info:
        load_yeast(data_home=tmp_path)
    for word in ("yeast.npz", str(tmp_path), "data_home", "SKCRBM_DATA", "no route to host"):
        assert word in str(info.value)
    assert isinstance(info.value.__cause__, URLError)


def wrong_rows(b):
    return {**b, "data": b.data[:-1], "target": b.target[:-1]}


def wrong_labels(b):
    target = b.target.copy()
    target[0, 0] = "maybe"
    return {**b, "target": target}


@pytest.mark.parametrize(
    ("change", "message"),
    [(wrong_rows, r"shape \(2406, 294\)"), (wrong_labels, "TRUE or FALSE.*MAYBE")],
)
def test_unexpected_download(tmp_path, openml, change, message):
    openml(Bunch(**change(fake_multilabel(_specs.SCENE))))
    with pytest.raises(OSError, match=message):
        load_scene(data_home=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_cache_file_is_refused(tmp_path, openml):
    fake = openml(fake_multilabel(_specs.SCENE))
    with pytest.warns(UserWarning, match="differ"):
        load_scene(data_home=tmp_path)
    path = tmp_path / "scene.npz"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(OSError, match="sha256"):
        load_scene(data_home=tmp_path)
    assert len(fake.calls) == 1
