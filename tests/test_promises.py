"""The promises of `doc/promises.md`: things that the package never does."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from skcrbm import CRBMClassifier

ROOT = Path(__file__).parents[1]

# Everything that is public, imported, and a fit with inference in threads; every file that is
# opened for writing, made, moved or removed, and every use of the network, is printed.
CODE = """
import importlib, os, pkgutil, sys, tempfile

events = []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
PROBES = {"lscpu", "ldconfig"}  # by which old joblib and threadpoolctl look at the machine

def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, str) and flags & WRITES:
            events.append((event, path))
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link"):
        events.append((event, str(arguments[0])))
    elif event == "subprocess.Popen" and os.path.basename(arguments[0]) in PROBES:
        return
    elif event.startswith("socket.") or event in ("subprocess.Popen", "os.system"):
        events.append((event, str(arguments)))

sys.addaudithook(hook)
import skcrbm
for module in pkgutil.walk_packages(skcrbm.__path__, "skcrbm."):
    importlib.import_module(module.name)
events_of_import = list(events)
del events[:]

import numpy as np
from skcrbm import CRBMClassifier
from skcrbm.energies import IsingEnergy
from skcrbm.inference import infer

rng = np.random.default_rng(0)
infer(IsingEnergy([[0, 1.0], [1.0, 0]], rng.normal(size=(500, 2))), "mean_field", n_jobs=2)
X = rng.normal(size=(50, 3))
Y = (X > 0).astype(int)
CRBMClassifier(
    n_hidden=2, inference="mean_field", solver="adam", alpha=0.1, alpha_hidden=0.0, max_iter=2
).fit(X, Y).predict(X)
cache = os.environ["NUMBA_CACHE_DIR"]
for event, path in events_of_import:
    print("import", event, path)
n_cached = 0
for event, path in events:
    inside = os.path.abspath(path).startswith(cache)
    n_cached += inside
    if not inside and path != os.devnull:
        print("run", event, path)
print("cached" if n_cached else "nothing was cached")
"""


@pytest.mark.deep
@pytest.mark.compiled
def test_files_are_written_in_the_cache_only_and_nothing_asks_the_network(tmp_path):
    cache, home = tmp_path / "cache", tmp_path / "home"
    home.mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "COVERAGE"))}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(home)}
    env |= {"NUMBA_CACHE_DIR": str(cache), "MPLCONFIGDIR": str(home), "TMPDIR": str(home)}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE],
        capture_output=True,
        text=True,
        cwd=home,
        env=env,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    *lines, last = run.stdout.splitlines()
    # Numba makes its folder, and tries whether it can be written, when kernels are imported.
    outside = [line for line in lines if str(cache) not in line]
    assert not outside
    assert last == "cached"
    assert not list(home.iterdir())


def test_predictions_from_several_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    Y = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
    model = CRBMClassifier(n_hidden=2, solver="adam", alpha=0.05, max_iter=3, random_state=0).fit(
        X, Y
    )
    alone = model.predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.predict_proba(X), range(12)):
            np.testing.assert_array_equal(found, alone)
