"""The disk cache of compiled kernels: it may cost a compilation, never an error.

Every case runs in processes of its own, as the cache is read once per process. Most use
the house decorator on two small functions, which compile in a moment.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skcrbm

PACKAGE = Path(skcrbm.__file__).parent
COMPILATION = (
    "__init__.py",
    "cache.py",
    "compiler.py",
    "interrupts.py",
    "jit.py",
    "numba_private.py",
)
pytestmark = pytest.mark.compiled

CALLEE = """
from skcrbm.kernels.jit import jit

@jit
def double(x):
    return x * x.dtype.type(2)
"""
CALLER = """
from skcrbm.kernels.jit import jit
from skcrbm.kernels.callee import double

@jit
def total(x):
    out = x.dtype.type(0)
    for i in range(x.shape[0]):
        out += double(x)[i]
    return out
"""
# For each dtype: the result. Last, how many compiled versions came from the cache.
CALL = """
import sys
import numpy as np
from skcrbm.kernels.caller import total

for dtype in sys.argv[1:]:
    print(float(total(np.array([1, 2, 3], dtype))))
print(sum(total.stats.cache_hits.values()))
"""
INFER = """
import numpy as np
from skcrbm.energies import RBMEnergy
from skcrbm.inference import infer

energy = RBMEnergy([[1.0], [-2.0]], [0.3, 0.2], [0.5])
result = infer(energy, "sum_product", returns=("marginals", "log_partition"))
v = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
weight = np.exp(v @ [0.3, 0.2]) * (1 + np.exp(v @ [1.0, -2.0] + 0.5))
assert np.allclose(result.marginals[0, :2], weight @ v / weight.sum())
assert np.allclose(result.log_partition, np.log(weight.sum()))
"""


@pytest.fixture
def site(tmp_path):
    """A folder with the house decorator and two small kernels."""
    kernels = tmp_path / "site" / "skcrbm" / "kernels"
    kernels.mkdir(parents=True)
    for name in COMPILATION:
        shutil.copy(PACKAGE / "kernels" / name, kernels)
    (kernels.parent / "__init__.py").touch()
    (kernels / "callee.py").write_text(CALLEE)
    (kernels / "caller.py").write_text(CALLER)
    return tmp_path / "site"


@pytest.fixture
def blocker(tmp_path):
    """A path that cannot become a folder, whoever runs the tests: it leads through a file."""
    (tmp_path / "file").write_text("not a folder")
    return tmp_path / "file" / "folder"


def start(code, site, *args, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    # Python's own cache is off, so that everything written is Numba's.
    env |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {k: str(v) for k, v in variables.items()}
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        cwd=site,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert not err
    return out.split()


def call(site, *dtypes, expected="12.0", **variables):
    """Run the small kernels in a process; return how many versions came from the cache."""
    dtypes = dtypes or ("float64",)
    *values, hits = finish(start(CALL, site, *dtypes, **variables))
    assert values == [expected] * len(dtypes)
    return int(hits)


def cached(folder):
    """{path: modification time} of the files of the cache, without the test of the compiler."""
    found = [p for p in folder.rglob("*") if p.suffix in (".nbc", ".nbi")]
    found = [p for p in found if not p.name.startswith("compiler.")]
    return {p: p.stat().st_mtime_ns for p in found}


@pytest.mark.deep
def test_second_process_hits_the_cache(site, tmp_path):
    cache = tmp_path / "cache"
    assert call(site, NUMBA_CACHE_DIR=cache) == 0
    first = cached(cache)
    assert len(first) == 1  # of the callee no machine code is kept
    assert call(site, NUMBA_CACHE_DIR=cache) == 1
    assert cached(cache) == first


@pytest.mark.deep
def test_damaged_files_are_compiled_again_and_replaced(site, tmp_path):
    cache = tmp_path / "cache"
    dtypes = ("int8", "int16", "int32", "int64", "float32", "float64")
    damage = [
        lambda content: b"",
        lambda content: content[:30],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"neither a pickle nor ours",
        lambda content: b"\x80\x05N.",  # a pickle, of None
    ]
    call(site, *dtypes, NUMBA_CACHE_DIR=cache)
    files = sorted(cached(cache))
    assert len(files) == len(damage)
    for path, change in zip(files, damage, strict=True):
        path.write_bytes(change(path.read_bytes()))
    assert call(site, *dtypes, NUMBA_CACHE_DIR=cache) == 0
    assert sorted(cached(cache)) == files
    assert call(site, *dtypes, NUMBA_CACHE_DIR=cache) == len(dtypes)
    # Folders in place of the files: neither reading nor replacing them works.
    for path in files:
        path.unlink()
        path.mkdir()
    assert call(site, *dtypes, NUMBA_CACHE_DIR=cache) == 0


@pytest.mark.deep
def test_exchanged_files_are_not_trusted(site, tmp_path):
    """A file tells which kernel and types it holds; its name alone could be wrong."""
    cache = tmp_path / "cache"
    assert call(site, "int64", "float64", NUMBA_CACHE_DIR=cache) == 0
    first, second = sorted(cached(cache))
    content = first.read_bytes(), second.read_bytes()
    first.write_bytes(content[1])
    second.write_bytes(content[0])
    assert call(site, "int64", "float64", NUMBA_CACHE_DIR=cache) == 0
    assert call(site, "int64", "float64", NUMBA_CACHE_DIR=cache) == 2


@pytest.mark.deep
def test_cache_beside_the_sources_by_default(site):
    call(site)
    assert {p.parent for p in cached(site)} == {site / "skcrbm" / "kernels" / "__pycache__"}


@pytest.mark.deep
def test_what_killed_processes_left_is_removed_when_it_is_old(site, tmp_path):
    cache = tmp_path / "cache"
    call(site, NUMBA_CACHE_DIR=cache)
    (folder,) = {path.parent for path in cached(cache)}
    old = folder / "caller.total-10.py311.0123.nbc.tmp.0123456789abcdef"
    young = folder / "caller.total-10.py311.0123.nbc.tmp.fedcba9876543210"
    foreign = folder / "notes.tmp.0"
    locked = folder / "folder.nbc.tmp.0"
    for path in (old, young, foreign):
        path.write_bytes(b"half a fi")
    locked.mkdir()
    for path in (old, foreign, locked):
        os.utime(path, (path.stat().st_mtime - 3700,) * 2)
    assert call(site, NUMBA_CACHE_DIR=cache) == 1
    assert not old.exists()
    assert young.exists()
    assert foreign.exists()
    assert locked.exists()


@pytest.mark.deep
@pytest.mark.parametrize("beside_the_sources", [False, True])
@pytest.mark.parametrize("home", [False, True])
def test_a_folder_that_was_filled_before_serves_where_nothing_can_be_written(
    site, tmp_path, blocker, beside_the_sources, home
):
    """A container image may be built by another user, with or without a writable home folder."""
    cache = {} if beside_the_sources else {"NUMBA_CACHE_DIR": tmp_path / "cache"}
    call(site, **cache)
    before = cached(tmp_path)
    assert len(before) == 1
    # Whoever runs the tests, root too: nothing can be written to these two folders.
    forbid = f"""
import tempfile
real = tempfile.TemporaryFile

def refuse(*args, dir=None, **options):
    if str(dir).startswith(({str(site)!r}, {str(tmp_path / "cache")!r})):
        raise PermissionError
    return real(*args, dir=dir, **options)

tempfile.TemporaryFile = refuse
"""
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), tmp_path / "home" if home else blocker)
    result = finish(start(forbid + CALL, site, "float64", **cache, **homes))
    assert result == ["12.0", "1"]
    assert cached(tmp_path) == before


@pytest.mark.deep
def test_a_named_folder_is_the_only_one(site, tmp_path):
    call(site)
    assert call(site, NUMBA_CACHE_DIR=tmp_path / "cache") == 0


@pytest.mark.deep
def test_unusable_cache_folder(site, blocker):
    call(site, NUMBA_CACHE_DIR=blocker)
    call(site, NUMBA_CACHE_DIR=blocker.parent)


@pytest.mark.deep  # compiles real kernels
def test_nowhere_to_write(site, blocker):
    """The package works if no folder for the cache is writable; so do the real kernels."""
    variables = {"HOME": blocker, "XDG_CACHE_HOME": blocker, "NUMBA_CACHE_DIR": blocker}
    shutil.copytree(
        PACKAGE,
        site / "whole" / "skcrbm",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for folder in (site, site / "whole"):
        in_tree = folder / "skcrbm" / "kernels" / "__pycache__"
        in_tree.write_text("a file where a folder should be")
    assert call(site, **variables) == 0
    assert finish(start(INFER, site / "whole", **variables)) == []
    assert not cached(site.parent)


@pytest.mark.deep
def test_folder_lost_between_import_and_compilation(site, tmp_path):
    cache = tmp_path / "cache"
    lose = f"""
import pathlib, shutil
import skcrbm.kernels.caller
shutil.rmtree({str(cache)!r})
pathlib.Path({str(cache)!r}).write_text("a file now")
"""
    assert finish(start(lose + CALL, site, "float64", NUMBA_CACHE_DIR=cache))[0] == "12.0"
    assert cache.is_file()


def test_editing_a_callee_changes_the_caller(site, tmp_path):
    """Numba's own key covers the caller's file only; here the callee is in another file."""
    cache = tmp_path / "cache"
    assert call(site, NUMBA_CACHE_DIR=cache) == 0
    callee = site / "skcrbm" / "kernels" / "callee.py"
    callee.write_text(CALLEE.replace("type(2)", "type(3)"))
    assert call(site, expected="18.0", NUMBA_CACHE_DIR=cache) == 0
    # After the edit is undone, the earlier compilation is still there and still right.
    callee.write_text(CALLEE)
    assert call(site, NUMBA_CACHE_DIR=cache) == 1


def test_keys_depend_on_imported_kernels_only(site):
    """A file's key changes with itself and with the files that it imports, even indirectly."""
    kernels = site / "skcrbm" / "kernels"
    sources = {
        "alone.py": "",
        "caller.py": "from skcrbm.kernels.callee import (\n    double,\n)\n",
        "top.py": "def late():\n    from skcrbm.kernels.parts.caller import total\n",
        "of_folder.py": "from skcrbm.kernels.parts import caller\n",
        "parts/__init__.py": "",
        "parts/caller.py": "import skcrbm.kernels.callee\n",
    }
    (kernels / "parts").mkdir()
    for name, source in sources.items():
        (kernels / name).write_text(source)
    # In a single process, which forgets what it has read; most of the time is spent in its imports.
    code = f"""
import sys
from pathlib import Path
from skcrbm.kernels import cache

kernels = Path({str(kernels)!r})

def keys():
    for part in (cache._source, cache._imported_files, cache._sources_fingerprint):
        part.cache_clear()
    return [cache._sources_fingerprint(kernels / name) for name in {list(sources)}]

for edited in sys.argv[1:]:
    before = keys()
    path = kernels / edited
    path.write_text(path.read_text() + "# edited\\n")
    print(*(int(a != b) for a, b in zip(before, keys(), strict=True)), sep="")
"""
    edited = ["callee.py", "alone.py", "parts/caller.py", *COMPILATION[1:]]
    changed = {
        name: {source for source, changes in zip(sources, line, strict=True) if changes == "1"}
        for name, line in zip(edited, finish(start(code, site, *edited)), strict=True)
    }
    callers = {"caller.py", "top.py", "of_folder.py", "parts/caller.py"}
    assert changed["callee.py"] == callers
    assert changed["alone.py"] == {"alone.py"}
    assert changed["parts/caller.py"] == {"top.py", "of_folder.py", "parts/caller.py"}
    for compilation in COMPILATION[1:]:
        assert changed[compilation] == set(sources)


FIELDS = """
import sys
from typing import NamedTuple
import numpy as np
from skcrbm.kernels.jit import jit
from skcrbm.kernels.caller import first

class Pair(NamedTuple):
    {}: float
    {}: float

print(first(Pair(1.0, 2.0)), sum(first.stats.cache_hits.values()))
"""


@pytest.mark.deep
def test_fields_of_named_tuples_are_in_the_key(site, tmp_path):
    """The class of a tuple is not imported by the kernel, and its fields may change places."""
    kernel = "from skcrbm.kernels.jit import jit\n@jit\ndef first(pair):\n    return pair.a\n"
    (site / "skcrbm" / "kernels" / "caller.py").write_text(kernel)
    for fields, value in [("ab", "1.0"), ("ba", "2.0")]:
        for hits in "01":
            code = FIELDS.format(*fields)
            assert finish(start(code, site, NUMBA_CACHE_DIR=tmp_path)) == [value, hits]


@pytest.mark.deep
def test_processes_that_compile_at_once(site, tmp_path):
    """Three processes, two dtypes, one empty cache; then each finds its own version."""
    cache = tmp_path / "cache"
    dtypes = ["float32", "float64", "float32"]
    processes = [start(CALL, site, dtype, NUMBA_CACHE_DIR=cache) for dtype in dtypes]
    for process, dtype in zip(processes, dtypes, strict=True):
        assert finish(process)[0] == "12.0", dtype
    before = cached(cache)
    assert len(before) == 2
    assert call(site, *dtypes[:2], NUMBA_CACHE_DIR=cache) == 2
    assert cached(cache) == before


def test_importing_the_package_is_quick_and_compiles_nothing():
    code = """
import sys, time
start = time.perf_counter()
import skcrbm
seconds = time.perf_counter() - start
assert "numba" not in sys.modules
import skcrbm.energies, skcrbm.inference
assert "numba" not in sys.modules
assert not [m for m in sys.modules if m.startswith("skcrbm.kernels")]
print(seconds)
"""
    (seconds,) = finish(start(code, PACKAGE.parent))
    assert float(seconds) < 1.5


INTERRUPTED = """
import signal
import sys
import numpy as np
from skcrbm.kernels.caller import total

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background may ignore it
# Ctrl-C while the compiler reads its registries: it would never read them again.
def interrupt(frame, event, arg):
    if frame.f_code.co_name == "stream_list":
        sys.settrace(None)
        signal.raise_signal(signal.SIGINT)
sys.settrace(interrupt)
try:
    total(np.ones(3))
except KeyboardInterrupt:
    print("interrupted")
print(float(total(np.ones(3))), float(total(np.ones(3, np.float32))))
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("again")
"""


@pytest.mark.deep
def test_an_interrupt_waits_for_the_compiler(site):
    assert finish(start(INTERRUPTED, site)) == ["interrupted", "6.0", "6.0", "again"]


IMPORTED = """
import signal
import sys

signal.signal(signal.SIGINT, signal.default_int_handler)
# Ctrl-C in the first import of kernels, while a module of Numba is halfway through its imports.
def interrupt(frame, event, arg):
    if "numba" in frame.f_code.co_filename and frame.f_code.co_filename.endswith("models.py"):
        sys.settrace(None)
        signal.raise_signal(signal.SIGINT)
sys.settrace(interrupt)
try:
    import skcrbm.kernels.caller
except KeyboardInterrupt:
    print("interrupted")
import numpy as np
from skcrbm.kernels.caller import total
print(float(total(np.ones(3))))
"""


@pytest.mark.deep
def test_an_interrupt_waits_for_the_import_of_numba(site):
    assert finish(start(IMPORTED, site)) == ["interrupted", "6.0"]


@pytest.mark.deep
def test_functions_that_kernels_call_may_print(site, tmp_path):
    """`print` reads globals of the function, of which Numba sets the address."""
    source = CALLEE.replace("    return", '    print("twice", x.shape[0])\n    return')
    (site / "skcrbm" / "kernels" / "callee.py").write_text(source)
    code = "import numpy as np\nfrom skcrbm.kernels.caller import total\nprint(total(np.ones(1)))"
    for _ in range(2):  # compiled, then read from the cache
        found = finish(start(code, site, NUMBA_CACHE_DIR=tmp_path / "cache"))
        assert found == ["twice", "1", "2.0"]


@pytest.mark.deep
def test_plain_numba_compiles_the_same_kernels(site, tmp_path):
    plain = {"SKCRBM_PLAIN_JIT": 1, "NUMBA_CACHE_DIR": tmp_path / "cache"}
    assert call(site, "float32", "float64", **plain) == 0
    assert call(site, "float32", "float64", **plain) == 2  # by Numba's own cache


# Changes of Numba that plain Numba survives: a missing name, and a method that returns two results.
CHANGES = {
    "name": "from numba.core import codegen; del codegen.JITCodeLibrary",
    "passes": """
from numba.core.compiler import Compiler
define = Compiler.define_pipelines
Compiler.define_pipelines = lambda compiler: define(compiler) * 2
""",
}


@pytest.mark.deep
@pytest.mark.parametrize("change", CHANGES)
def test_plain_numba_takes_over_with_a_warning(site, tmp_path, change):
    process = start(CHANGES[change] + CALL, site, "float64", NUMBA_CACHE_DIR=tmp_path / "cache")
    out, err = process.communicate(timeout=300)
    assert out.split()[0] == "12.0", err
    assert err.count("Warning") == 1
    assert "skcrbm's compiler does not work with Numba" in err
