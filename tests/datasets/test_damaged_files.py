"""Damaged and hostile files and folders: one error, which names the file."""

import re
import warnings

import numpy as np
import pytest

from skcrbm.datasets import load_mulan, load_scene
from skcrbm.exceptions import DataFileError
from tests.stress._files import DAMAGES, NAME, flipped, good_arrays, overwritten, write_good


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_file_ends_in_one_error(tmp_path, damage):
    path = tmp_path / f"{NAME}.npz"
    for seed in range(12):
        if path.is_dir():
            path.rmdir()
        write_good(path)
        damage(path, np.random.default_rng(seed))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", message="The labels of")
                read = load_mulan(NAME, data_home=tmp_path)
        except DataFileError as error:
            assert isinstance(error, ValueError)  # noqa: PT017
            assert str(error).startswith(str(path))  # noqa: PT017
        else:  # a changed date of a member is no damage
            assert damage in (flipped, overwritten)
            assert not read.data.any()
        assert not list(tmp_path.glob("*.executed"))


@pytest.mark.parametrize("kind", [MemoryError, EOFError])
def test_an_error_without_words(tmp_path, monkeypatch, kind):
    def fail(*args, **options):
        raise kind

    write_good(tmp_path / f"{NAME}.npz")
    monkeypatch.setattr("numpy.lib.format.read_array", fail)
    with pytest.raises(DataFileError, match=rf"no reason given \({kind.__name__}\)"):
        load_mulan(NAME, data_home=tmp_path)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_damage(tmp_path, monkeypatch, kind):
    def stop(*args, **options):
        raise kind

    write_good(tmp_path / f"{NAME}.npz")
    monkeypatch.setattr("numpy.lib.format.read_array", stop)
    with pytest.raises(kind):
        load_mulan(NAME, data_home=tmp_path)


def test_the_good_file_is_read(tmp_path):
    write_good(tmp_path / f"{NAME}.npz")
    with pytest.warns(UserWarning, match="differ from the"):
        assert load_mulan(NAME, data_home=tmp_path).data.shape == (593, 72)


@pytest.mark.parametrize(
    ("home", "words"),
    [
        ("~no_such_user_here", "home directory"),
        ("a\0b", r"a\\x00b/emotions\.npz' has a null"),
        ("x" * 300, "too long"),
        (3, "3 is not the path of a folder"),
        (b"folder", "is not the path of a folder"),
    ],
)
def test_a_folder_that_cannot_be(home, words):
    with pytest.raises(ValueError, match=words) as info:
        load_mulan("emotions", data_home=home)
    assert isinstance(info.value, DataFileError)


def test_a_user_without_a_home(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("SKCRBM_DATA", "~no_such_user_here/data")
    with pytest.raises(ValueError, match=r"'~no_such_user_here/data' is not the path of a folder"):
        load_scene()
    monkeypatch.delenv("SKCRBM_DATA")

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(ValueError, match=r"user cache folder.*data_home.*SKCRBM_DATA"):
        load_scene()


def test_a_file_in_place_of_the_folder(tmp_path):
    path = tmp_path / "data"
    path.write_text("not a folder")
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))} \(argument data_home\) is not"):
        load_scene(data_home=path)


def test_a_folder_in_place_of_the_file_is_not_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr("skcrbm.datasets._files.fetch_openml", None)
    (tmp_path / "scene.npz").mkdir()
    with pytest.raises(ValueError, match=r"scene\.npz is not a file"):
        load_scene(data_home=tmp_path)


def test_names_as_bytes(tmp_path):
    """Names may be bytes, as in `np.array(names, dtype="S")` and in HDF5 files."""
    path = tmp_path / f"{NAME}.npz"
    arrays = good_arrays()
    label = "caf\u00e9"
    arrays["label_names"] = np.array([label, *arrays["label_names"][1:]])
    for name in ("label_names", "origin"):
        arrays[name] = np.char.encode(arrays[name], "utf-8")
    np.savez(path, **arrays)
    with pytest.warns(UserWarning, match="from [^b].* differ from the"):
        assert load_mulan(NAME, data_home=tmp_path).label_names[0] == label
    arrays["label_names"] = np.char.encode(np.char.decode(arrays["label_names"], "utf-8"), "latin1")
    np.savez(path, **arrays)
    with pytest.raises(DataFileError, match="label_names should be text in UTF-8"):
        load_mulan(NAME, data_home=tmp_path)
