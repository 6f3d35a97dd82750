"""Faults that need a process of their own: each case starts a process and checks how it ends."""

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SECONDS = 300  # a process that takes longer hangs; compilation may take a minute

# Work of all processes: a compiled kernel in threads, a fit in threads.
WORK = """
import hashlib
import sys
import warnings
import numpy as np
from skcrbm import CRBMClassifier
from skcrbm.energies import IsingEnergy
from skcrbm.inference import infer

def work(n_jobs=2):
    rng = np.random.default_rng(0)
    S = np.triu(rng.normal(size=(5, 5)), 1)
    energy = IsingEnergy(S + S.T, rng.normal(size=(600, 5)))
    found = infer(energy, "mean_field", n_jobs=n_jobs).marginals
    X = rng.normal(size=(300, 3))
    Y = (X @ rng.normal(size=(3, 3)) > 0).astype(int)
    model = CRBMClassifier(
        n_hidden=2, inference="mean_field", solver="adam", alpha=0.1, alpha_hidden=0.0,
        max_iter=3, n_jobs=n_jobs, random_state=0,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        weights = model.fit(X, Y).weights_
    bits = hashlib.sha256(found.tobytes() + weights.tobytes()).hexdigest()
    return f"{bits} {found.sum():.6f} {weights.sum():.6f}"
"""
SHOW = WORK + "\nprint(work())\n"


def start(code, folder, *options, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "COVERAGE"))}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    env |= {k: str(v) for k, v in variables.items() if v is not None}
    for name in [k for k, v in variables.items() if v is None]:
        env.pop(name, None)
    return subprocess.Popen(
        [sys.executable, *options, "-c", code],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Return (status, output, errors) of a process, with status "hangs" if it does not end."""
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return "hangs", out, err
    return process.returncode, out, err


@functools.cache
def warm_cache():
    """A folder with the kernels of WORK, and the printed output of WORK."""
    folder = tempfile.TemporaryDirectory()
    _, out, err = finish(start(SHOW, folder.name, NUMBA_CACHE_DIR=folder.name))
    if not out:
        raise RuntimeError(f"the work itself fails: {err}")
    return folder, out


def copy_of_the_cache(folder):
    return shutil.copytree(warm_cache()[0].name, folder / "cache")


def compare(ended, what, expected=None):
    """Return the failures of a process that should have printed the output of WORK."""
    status, out, err = ended
    if status != 0:
        return [f"{what}: status {status}: {err.strip()[-500:]}"]
    if out != (expected or warm_cache()[1]):
        return [f"{what}: another result: {out!r}"]
    return []


def damaged_cache(rng, folder):
    """Files of the kernel cache that are cut off, foreign, empty, folders, or not to be read."""
    cache = copy_of_the_cache(folder)
    files = sorted(cache.rglob("*.nbc"))
    for path in rng.choice(files, size=rng.integers(1, len(files) + 1), replace=False):
        content = path.read_bytes()
        change = rng.integers(5)
        if change == 0:
            path.write_bytes(content[: rng.integers(len(content))])
        elif change == 1:
            path.write_bytes(rng.bytes(rng.integers(200)))
        elif change == 2:
            path.write_bytes(b"\x80\x05N.")
        elif change == 3:
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(files[rng.integers(len(files))].read_bytes()[:-1])
    return compare(finish(start(SHOW, folder, NUMBA_CACHE_DIR=cache)), "damaged cache")


def unusable_cache(rng, folder):
    """The cache folder is a file, lies below a file, or is read-only; there is no home either."""
    (folder / "file").write_text("a file")
    read_only = folder / "read_only"
    read_only.mkdir()
    read_only.chmod(0o500)
    places = [folder / "file", folder / "file" / "below", read_only, folder / "missing" / "deep"]
    place = places[rng.integers(len(places))]
    home = [None, folder / "file", ""][rng.integers(3)]
    ended = finish(
        start(SHOW, folder, NUMBA_CACHE_DIR=place, HOME=home, XDG_CACHE_HOME=folder / "file")
    )
    return compare(ended, f"cache in {place.name}, home {home}")


def killed_process(rng, folder):
    """A process is killed while it compiles; the next process works and removes old files."""
    cache = folder / "cache"
    process = start(SHOW, folder, NUMBA_CACHE_DIR=cache)
    time.sleep(rng.uniform(0.5, 4))
    process.kill()
    process.communicate()
    kernels = [path for path in cache.glob("*") if path.is_dir()]
    old = [path / "f.nbc.tmp.0123456789abcdef" for path in kernels]
    for path in old:
        path.write_bytes(b"half a file")
        os.utime(path, (time.time() - 7200,) * 2)
    lines = compare(finish(start(SHOW, folder, NUMBA_CACHE_DIR=cache)), "after a killed process")
    return lines + [f"{path.name} is still there" for path in old if path.exists()]


def processes_at_once(rng, folder):
    """Three processes that compile into one cache."""
    at_once = [start(SHOW, folder, NUMBA_CACHE_DIR=folder / "cache") for _ in range(3)]
    return [line for process in at_once for line in compare(finish(process), "at once")]


LIMITED = """
import resource, threading
work()  # loaded and compiled
def used():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()
from skcrbm.energies import RBMEnergy
rng = np.random.default_rng(0)
rows, n = {rows}, 8
energy = RBMEnergy(rng.normal(size=(n, 4)), rng.normal(size=(rows, n)), np.zeros(4))
if {threads}:  # too large for any thread to be started
    threading.stack_size(2**30)
    from skcrbm.utils import parallel
    parallel._pool.cache_clear()
resource.setrlimit(resource.RLIMIT_AS, (used() + {room}, -1))
try:
    answer = infer(energy, "mean_field", n_jobs=2, max_iter=20).marginals
    text = "whole" if np.isfinite(answer).all() else "nonsense"
except MemoryError:
    text = "MemoryError"
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print(text)
"""


def little_memory(rng, folder):
    """A limit of memory that is too low for the answer, or nearly."""
    rows = int(rng.integers(10_000, 300_000))
    room = int(rng.integers(0, 4 * rows * 8 * 12))
    code = WORK + LIMITED.format(rows=rows, room=room, threads=False)
    status, out, err = finish(start(code, folder, NUMBA_CACHE_DIR=warm_cache()[0].name))
    if status != 0 or out.strip() not in ("whole", "MemoryError"):
        return [f"{rows} rows, room for {room} bytes: status {status}, {out!r}, {err[-500:]}"]
    return []


def no_thread_to_be_had(rng, folder):
    """No thread can be started, as the system has no room for its stack."""
    code = WORK + LIMITED.format(rows=2000, room=2**28, threads=True)
    status, out, err = finish(start(code, folder, NUMBA_CACHE_DIR=warm_cache()[0].name))
    return [] if (status, out) == (0, "whole\n") else [f"status {status}, {out!r}, {err[-500:]}"]


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background may ignore it
from sklearn.exceptions import NotFittedError
from skcrbm import LayeredGMClassifier
from skcrbm.layers import Dense
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 10))
Y = (X @ rng.normal(size=(10, 6)) > 0).astype(int)
common = {{"max_iter": 500, "n_jobs": 2, "random_state": 0}}
if {layered}:
    model = LayeredGMClassifier(layers=(Dense(20),), **common)
else:
    model = CRBMClassifier(
        n_hidden=12, inference="mean_field", solver="adam", alpha=0.1, alpha_hidden=0.0, **common
    )
try:
    print("begins", flush=True)
    model.fit(X, Y)
except KeyboardInterrupt:
    pass
try:
    text = "usable" if np.isfinite(model.predict_proba(X[:5])).all() else "nonsense"
except NotFittedError:
    text = "not fitted"
print(text)
model.set_params(max_iter=1).fit(X[:100], Y[:100]).predict(X[:5])
print("again")
"""


def interrupted_fit(rng, folder):
    """Ctrl-C at a random moment of a fit in threads."""
    layered = bool(rng.integers(2))
    cache = None if layered else warm_cache()[0].name
    process = start(WORK + INTERRUPTED.format(layered=layered), folder, NUMBA_CACHE_DIR=cache)
    process.stdout.readline()
    time.sleep(rng.uniform(0, 1.5))
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    if status == 0 and out in ("usable\nagain\n", "not fitted\nagain\n"):
        return []
    return [f"layered={layered}: status {status}, {out!r}, {err.strip()[-500:]}"]


FORKED = """
before = work()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that of newer Pythons about threads
    pid = __import__("os").fork()
if pid == 0:
    __import__("os")._exit(0 if work() == before else 1)
_, status = __import__("os").waitpid(pid, 0)
assert status == 0, status
print(work())
"""


def fork_after_threads(rng, folder):
    """A child of a process that has had threads, and the parent after it."""
    cache = warm_cache()[0].name
    return compare(finish(start(WORK + FORKED, folder, NUMBA_CACHE_DIR=cache)), "fork")


def other_modes(rng, folder):
    """Python with ``-O``, ``-OO``, ``-W error``, or without the compiler."""
    mode = ["-O", "-OO", "-W error", "NUMBA_DISABLE_JIT", "-X dev"][rng.integers(5)]
    cache = warm_cache()[0].name
    if mode == "NUMBA_DISABLE_JIT":
        status, out, err = finish(start(SHOW, folder, NUMBA_DISABLE_JIT=1))
        expected = warm_cache()[1].split()[1:]
        close = out and np.allclose(np.double(out.split()[1:]), np.double(expected), atol=1e-4)
        return [] if status == 0 and close else [f"{mode}: status {status}, {out!r}, {err[-500:]}"]
    options = mode.split()
    ended = finish(start(SHOW, folder, *options, NUMBA_CACHE_DIR=cache))
    return compare(ended, mode)


AT_ONCE = """
import threading
from importlib.util import find_spec
import joblib

def job():
    return work()

if __name__ == "__main__":
    answers, names = {}, ["loky", "threading", "sequential"]
    if find_spec("distributed"):
        from distributed import Client
        client = Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None)
        names.append("dask")
    def run(name):
        with joblib.parallel_config(name, n_jobs=2):
            answers[name] = joblib.Parallel()(joblib.delayed(job)() for _ in range(2))
    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if "dask" in names:
        client.close()
    (answer,) = {text for name in names for text in answers[name]}
    print(answer)
"""


def backends_at_once(rng, folder):
    """joblib's backends side by side in one process, each of them with threads of ours."""
    cache = warm_cache()[0].name
    variables = {"NUMBA_CACHE_DIR": cache, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
    return compare(finish(start(WORK + AT_ONCE, folder, **variables)), "backends")


KINDS = [
    damaged_cache,
    unusable_cache,
    killed_process,
    processes_at_once,
    little_memory,
    no_thread_to_be_had,
    interrupted_fit,
    fork_after_threads,
    other_modes,
    backends_at_once,
]
