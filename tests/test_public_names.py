"""The `__all__` of each package lists the names that the API reference documents, and no others."""

import importlib
import re
from pathlib import Path

import pytest

import skcrbm

API = (Path(__file__).resolve().parents[1] / "doc" / "api.md").read_text(encoding="utf-8")


def documented_names():
    """Map each public module to its names in `doc/api.md`: listed, or named under "Extending"."""
    names = {}
    full = re.findall(r"^   (skcrbm(?:\.\w+)+)$", API, re.MULTILINE)
    extending = API[API.index("Extending\n---") :].partition("\n\n\n")[0]
    extending = re.split(r"\n[A-Z][\w ]*\n-+\n", extending.partition("\n---")[2])[0]
    module = None
    for word in re.findall(r"``([\w.]+)``", extending):
        if word.startswith("skcrbm."):
            module = word.rpartition(".")[0]
            full.append(word)
        elif module is not None:
            full.append(f"{module}.{word}")
    for name in full:
        module, _, last = name.rpartition(".")
        names.setdefault(module, set()).add(last)
    return names


DOCUMENTED = documented_names()


@pytest.mark.parametrize("module", sorted(DOCUMENTED))
def test_all_lists_the_documented_names(module):
    public = set(importlib.import_module(module).__all__)
    assert public - {"__version__"} == DOCUMENTED[module]


def test_every_package_with_public_names_is_documented():
    for name in skcrbm.__dir__():
        if not name.startswith("_") and hasattr(getattr(skcrbm, name), "__all__"):
            assert f"skcrbm.{name}" in DOCUMENTED, name
