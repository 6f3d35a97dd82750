"""Damaged and hostile data files: each function writes a bad file in place of a data set.

They take the path of a good file (the small set "emotions", as arrays of zeros), which they
replace, and a random generator. Reading the file must raise ValueError, however it is damaged.
"""

import io
import pickle
import re
import struct
import zipfile

import numpy as np

NAME = "emotions"
SHAPES = {"X_train": (391, 72), "Y_train": (391, 6), "X_test": (202, 72), "Y_test": (202, 6)}


def good_arrays():
    """The arrays of a file that is read without complaint."""
    arrays = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    arrays["feature_names"] = np.array([f"f{i}" for i in range(72)])
    arrays["label_names"] = np.array([f"l{i}" for i in range(6)])
    arrays["origin"] = np.array("a test")
    return arrays


def write_good(path):
    np.savez_compressed(path, **good_arrays())


class Bomb:
    """Leaves a file behind when a pickle of it is loaded."""

    def __init__(self, path):
        self.path = str(path) + ".executed"

    def __reduce__(self):
        return open, (self.path, "w")


def write_members(path, changed, method=zipfile.ZIP_DEFLATED):
    """Write the good arrays with the bytes of some members replaced."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in good_arrays().items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", changed.get(name, stream.getvalue()))


def npy(header, content=b""):
    """An array file with a header of our own."""
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def header(shape, descr="'<f4'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def truncated(path, rng):
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(len(content))])


def flipped(path, rng):
    """Some bytes of the directory or of the headers of members, where they are not data."""
    content = bytearray(path.read_bytes())
    starts = [m.start() for m in _finditer(content)]
    for _ in range(rng.integers(1, 4)):
        content[rng.choice(starts) + rng.integers(4, 30)] = rng.integers(256)
    path.write_bytes(bytes(content))


def _finditer(content):
    return re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", bytes(content[:-30]))


def overwritten(path, rng):
    content = bytearray(path.read_bytes())
    start = int(rng.integers(len(content)))
    content[start : start + 200] = rng.bytes(200)
    path.write_bytes(bytes(content))


def garbage(path, rng):
    path.write_bytes(rng.bytes(rng.integers(0, 2000)))


def a_single_array(path, rng):
    with path.open("wb") as stream:
        np.save(stream, np.zeros((391, 72)))


def a_pickle(path, rng):
    path.write_bytes(pickle.dumps(Bomb(path)))


def objects(path, rng):
    arrays = good_arrays()
    name = rng.choice(list(arrays))
    array = np.empty(arrays[name].shape, object)
    array[...] = [Bomb(path)]
    np.savez(path, **{**arrays, name: array})


def broken_header(path, rng):
    texts = [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (391, 72), ",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (391L, 72L), (",
        "__import__('os')",
        "{'descr': '<f4'}",
        "(" * 5000,
        "{'descr': '<f4', 'fortran_order': 'no', 'shape': (391, 72)}",
        header("(-391, 72)"),
        header("(391, 'x')"),
        header("(391, 72)", "'<x9'"),
        header("(391, 72)", "[('a', '<f4'), ('a', '<f4')]"),
        "\x00" * 64,
    ]
    write_members(path, {"X_train": npy(rng.choice(texts))})


def claimed_shape(path, rng):
    shapes = ["(10**15,)", "(1000000000000000,)", "(30000000000, 2)", f"({2**62}, 9)", "(0, 72)"]
    shapes += ["()", "(391, 0)", "(391, 72, 10)"]
    write_members(path, {"X_train": npy(header(rng.choice(shapes)), bytes(391 * 72 * 4))})


def wrong_version(path, rng):
    content = b"\x93NUMPY" + rng.bytes(2) + bytes(64)
    write_members(path, {"X_train": content})


def compressed_otherwise(path, rng):
    """LZMA or bzip2, with bytes of the data damaged."""
    write_members(path, {}, rng.choice([zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        first = archive.infolist()[0]
    start = first.header_offset + 30 + len(first.filename)
    content[start + 4 : start + 12] = rng.bytes(8)
    path.write_bytes(bytes(content))


def _directory(path, offset_local, offset_central, value):
    """Set a 16-bit field of all members, in both places that have it."""
    content = bytearray(path.read_bytes())
    for match in list(_finditer(content)):
        kind = content[match.start() + 2]
        offset = {1: offset_central, 3: offset_local}.get(kind)
        if offset is not None:
            struct.pack_into("<H", content, match.start() + offset, value)
    path.write_bytes(bytes(content))


def unknown_method(path, rng):
    _directory(path, 8, 10, int(rng.choice([1, 6, 9, 93, 99])))


def unknown_zip_version(path, rng):
    _directory(path, 4, 6, 99)


def encrypted(path, rng):
    _directory(path, 6, 8, 1)


def patched(path, rng):
    """Zip's flag of "compressed patched data"."""
    _directory(path, 6, 8, 0x20)


def zip_bomb(path, rng):
    size = 2**24
    write_members(path, {"X_train": npy(header(f"({size // 4},)"), bytes(size))})


def left_over(path, rng):
    stream = io.BytesIO()
    np.save(stream, good_arrays()["X_train"])
    write_members(path, {"X_train": stream.getvalue() + b"more"})


def missing_array(path, rng):
    arrays = good_arrays()
    arrays.pop(rng.choice([name for name in arrays if name != "origin"]))
    np.savez(path, **arrays)


def no_origin(path, rng):
    arrays = good_arrays()
    del arrays["origin"]
    np.savez(path, **arrays)


def wrong_shape(path, rng):
    arrays = good_arrays()
    name = rng.choice(list(arrays))
    change = rng.choice(["short", "flat", "deep", "scalar", "transposed"])
    array = arrays[name]
    if change == "transposed" and array.ndim < 2:
        change = "deep"
    if change == "scalar" and array.ndim == 0:
        change = "short"
    arrays[name] = {
        "short": lambda: array[:0] if array.ndim else np.repeat(array, 2),
        "flat": lambda: np.repeat(array.ravel(), 2),
        "deep": lambda: np.stack([array, array]),
        "scalar": lambda: array.ravel()[0],
        "transposed": lambda: array.T,
    }[change]()
    np.savez(path, **arrays)


def wrong_type(path, rng):
    arrays = good_arrays()
    name = rng.choice(list(arrays))
    if arrays[name].dtype.kind == "U":
        dtype = rng.choice(["i4", "c16", "M8[s]", "V8", "?", "m8[D]"])
        arrays[name] = np.zeros(arrays[name].shape, dtype)
    else:
        dtype = rng.choice(["S8", "U8", "c16", "M8[s]", "m8[D]", "V8", "i4,f4"])
        arrays[name] = np.ones(arrays[name].shape, dtype)
    np.savez(path, **arrays)


def wrong_value(path, rng):
    arrays = good_arrays()
    name = rng.choice(list(SHAPES))
    bad = [np.nan, np.inf, -np.inf] if name[0] == "X" else [np.nan, np.inf, 2, -1, 0.5, 1e30]
    array = arrays[name]
    array[rng.integers(array.shape[0]), rng.integers(array.shape[1])] = rng.choice(bad)
    np.savez(path, **arrays)


def a_folder(path, rng):
    path.unlink()
    path.mkdir()


DAMAGES = (
    truncated,
    flipped,
    overwritten,
    garbage,
    a_single_array,
    a_pickle,
    objects,
    broken_header,
    claimed_shape,
    wrong_version,
    compressed_otherwise,
    unknown_method,
    unknown_zip_version,
    encrypted,
    patched,
    zip_bomb,
    left_over,
    missing_array,
    no_origin,
    wrong_shape,
    wrong_type,
    wrong_value,
    a_folder,
)
