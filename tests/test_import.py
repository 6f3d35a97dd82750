"""`import skcrbm` alone: fast, and every public name is at hand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import skcrbm

REFERENCE = Path(__file__).parents[1] / "doc" / "api.md"
PUBLIC = re.findall(r"^ +(skcrbm\.[\w.]+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
FRESH = """
import sys
import skcrbm
assert not {"numpy", "sklearn", "numba", "scipy"} & set(sys.modules)
for name in %r:
    found = skcrbm
    for part in name.split(".")[1:]:
        found = getattr(found, part)
assert sorted(skcrbm.metrics.__all__)[0] == "MultilabelReport"
"""


def test_every_public_name_after_a_plain_import():
    program = FRESH % PUBLIC
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_dir_lists_what_there_is():
    names = dir(skcrbm)
    assert {name.split(".")[1] for name in PUBLIC} <= set(names)
    for name in names:
        assert getattr(skcrbm, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'metric'"):
        skcrbm.metric  # noqa: B018
