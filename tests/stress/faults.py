"""Faults around the library: damaged files, a cache in disorder, little memory, signals, threads.

``python -m tests.stress.faults --cases N --seed S [--case K]``. Every fiftieth case is a process
of its own; the others damage data files, texts and pickles, or let threads fail to start. After a
fault there is the right answer, or an error that names the cause: no other answer, no other
error, no process that ends or hangs.
"""

import pickle
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.exceptions import NotFittedError

from skcrbm import CRBMClassifier, LMBMClassifier
from skcrbm.datasets import load_mulan, make_random_factor_graph
from skcrbm.energies import FactorGraphEnergy, RBMEnergy
from skcrbm.exceptions import DataFileError
from skcrbm.inference import infer
from skcrbm.utils import parallel
from tests.stress import _files, _process
from tests.stress._program import main

CASES_BETWEEN_PROCESSES = 50


def damaged_file(rng, folder):
    """A loader and a damaged or hostile file."""
    path = folder / f"{_files.NAME}.npz"
    _files.write_good(path)
    damage = _files.DAMAGES[rng.integers(len(_files.DAMAGES))]
    damage(path, rng)
    try:
        read = load_mulan(_files.NAME, data_home=folder)
    except DataFileError as error:
        if not str(error).startswith(str(path)):
            return [f"{damage.__name__}: the error does not name the file: {error}"]
    else:
        if read.data.any() or read.data.shape != (593, 72):
            return [f"{damage.__name__}: other data were read"]
    return ["a pickle of a data file was executed"] if list(folder.glob("*.executed")) else []


def hostile_folder(rng, folder):
    """A loader is called with a path that cannot be a folder."""
    (folder / "file").write_text("not a folder")
    letters = "".join(map(chr, rng.integers(1, 0x2FF, size=rng.integers(1, 400))))
    homes = ["~" + letters, "a\0b", folder / "file", folder / "file" / "below", letters, b"bytes"]
    homes += [3, 2.5, "/dev/null", "/proc/self/mem", "\ud800", str(folder) + "/" * 5000, ["a"]]
    home = homes[rng.integers(len(homes))]
    try:
        load_mulan(_files.NAME, data_home=home)
    except (DataFileError, FileNotFoundError):
        return []
    return [f"data was read from {home!r}"]


ODD_WORDS = ["-1", "1e999", "nan", "inf", "2.5", "9" * 30, "9" * 5000, "٣", "x", "MARKOV", "0x1"]
ODD_WORDS += ["1_0", "+1", "1e-400", "\x00", "0", "7", "65536"]


def damaged_text(rng, folder):
    """A model as text, some words of which are others."""
    n = int(rng.integers(6, 9))
    words = make_random_factor_graph(n, random_state=int(rng.integers(100))).to_uai().split(" ")
    for _ in range(rng.integers(1, 4)):
        place = rng.integers(len(words))
        change = rng.integers(4)
        if change == 0:
            words[place] = str(rng.choice(ODD_WORDS))
        elif change == 1:
            del words[place:]
        elif change == 2:
            del words[place]
        else:
            words[place:place] = words[rng.integers(len(words)) :][:3]
        words = words or [""]
    text = " ".join(words)
    try:
        energy = FactorGraphEnergy.from_uai(text)
    except ValueError:
        return []
    again = FactorGraphEnergy.from_uai(energy.to_uai())
    same = np.allclose(again.log_potentials, energy.log_potentials, rtol=1e-12, equal_nan=True)
    return [] if same else [f"another model came of writing what was read: {text!r}"]


_MODELS = {}


def models():
    """Small fitted models and energies with their answers, computed once in a process."""
    if not _MODELS:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(30, 3))
        Y = (X @ rng.normal(size=(3, 3)) > 0).astype(int)
        settings = {"solver": "adam", "alpha": 0.1, "alpha_hidden": 0.0, "max_iter": 2}
        crbm = CRBMClassifier(n_hidden=2, inference="mean_field", random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for model in (crbm, LMBMClassifier(C=1.0, pairwise_penalty=1.0)):
                model.fit(X, Y)
                _MODELS[type(model).__name__] = model, lambda m: m.predict(X)
        energy = RBMEnergy(rng.normal(size=(3, 2)), np.zeros((4, 3)), np.zeros(2))
        _MODELS["RBMEnergy"] = energy, lambda e: infer(e, "mean_field").marginals
        _MODELS["InferenceResult"] = infer(energy, "mean_field"), lambda r: r.marginals
    return _MODELS


def pickle_of_another_version(rng, folder):
    """A state that another version saved, with attributes missing; and half a pickle."""
    name = rng.choice(sorted(models()))
    thing, ask = models()[name]
    content = pickle.dumps(thing)
    try:
        pickle.loads(content[: rng.integers(len(content))])
    except (pickle.UnpicklingError, EOFError, ValueError):
        pass
    else:
        return [f"half a pickle of {name} was loaded"]
    state = thing.__getstate__()
    state["_skcrbm_version"] = str(rng.choice(["0.0.1", "99.0"]))
    gone = rng.choice(sorted(state), size=rng.integers(3), replace=False)
    for key in gone:
        del state[key]
    new = type(thing).__new__(type(thing))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            new.__setstate__(state)
        except ValueError as error:
            named = all(word in str(error) for word in ("skcrbm", name, "Load it with"))
            return [] if named else [f"{name} without {gone}: {error}"]
    if not caught and type(thing)._warns_of_version:  # parts of a model do not warn
        return [f"{name} of another version without {gone} was loaded without a word"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            same = np.array_equal(ask(new), ask(thing))
        except (AttributeError, NotFittedError):
            return []
    return [] if same else [f"{name} without {gone} answers otherwise"]


def failed_thread_starts(rng, folder):
    """Inference where only so many threads can be started."""
    rows = int(rng.integers(1, 2000))
    energy = RBMEnergy(rng.normal(size=(4, 3)), rng.normal(size=(rows, 4)), np.zeros(3))
    method = str(rng.choice(["mean_field", "icm"]))
    expected = infer(energy, method, n_jobs=1)
    left = [int(rng.integers(3))]
    start = parallel.start_new_thread

    def fail(function, arguments):
        if left[0] == 0:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        return start(function, arguments)

    parallel._pool.cache_clear()
    parallel.start_new_thread = fail
    try:
        found = infer(energy, method, n_jobs=int(rng.integers(2, 5)))
    finally:
        parallel.start_new_thread = start
        parallel._pool.cache_clear()
    pairs = [(found.marginals, expected.marginals), (found.assignment, expected.assignment)]
    same = all(a is b or a.tobytes() == b.tobytes() for a, b in pairs)
    return [] if same else [f"{method} on {rows} rows: other bits"]


IN_PROCESS = [
    damaged_file,
    hostile_folder,
    damaged_text,
    pickle_of_another_version,
    failed_thread_starts,
]


def run_case(rng, case):
    if case % CASES_BETWEEN_PROCESSES == 0:
        kinds = _process.KINDS
        kind = kinds[case // CASES_BETWEEN_PROCESSES % len(kinds)]
    else:
        kind = IN_PROCESS[case % len(IN_PROCESS)]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The labels of")
        return [f"{kind.__name__}: {line}" for line in kind(rng, Path(folder))]


if __name__ == "__main__":
    if not find_spec("distributed"):
        print("dask.distributed is not installed: joblib's dask backend is left out")
    main("faults", run_case, CASES_BETWEEN_PROCESSES * len(_process.KINDS), __doc__)
