"""The code in the README and in the pages of `doc/` runs as it stands and prints the shown output.

The blocks of a page are run one after the other, as a reader would paste them.
"""

import contextlib
import io
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("SKCRBM_DATA") or ROOT.parent / "shared" / "data")
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "doc").glob("*.md")))
}
FENCE = re.compile(
    r"^```python\n(.*?)^```\n(?:\n+(?:[^`\n]+\n)*\n*```text\n(.*?)^```$)?", re.M | re.S
)


def blocks(page):
    """Code blocks of a page, each with its printed output, or None."""
    return [(match[1], match[2]) for match in FENCE.finditer(page)]


def words_and_numbers(text):
    """Words of a text, decimals left out, the decimals, and the units of their last digits."""
    decimal = re.compile(r"-?\d+\.(\d*)(?:e([-+]?\d+))?")
    found = list(decimal.finditer(text))
    numbers = [float(match[0]) for match in found]
    units = [10.0 ** (int(match[2] or 0) - len(match[1])) for match in found]
    return decimal.sub(" ", text).split(), numbers, units


def test_words_and_numbers():
    words, numbers, units = words_and_numbers("[[0.82 1.  -3.5e-2] 4]")
    assert words == ["[[", "]", "4]"]
    assert numbers == [0.82, 1.0, -0.035]
    np.testing.assert_allclose(units, [0.01, 1.0, 0.001])


def test_code_and_what_it_prints_are_found():
    page = (
        "```python\na\n```\n\n```text\nb\n```\n\n```python\nc\n```\n\nprints\n\n```text\nd\n```\n"
    )
    assert blocks(page + "\n```python\ne\n```\ntext\n") == [
        ("a\n", "b\n"),
        ("c\n", "d\n"),
        ("e\n", None),
    ]
    for name in ("README.md", "doc/index.md", "doc/getting_started.md"):
        assert any(printed for _, printed in blocks(PAGES[name])), name


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page)])
def test_code_of_a_page(name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("matplotlib.pyplot")  # whose import may warn
    monkeypatch.chdir(tmp_path)  # some pages write a picture
    monkeypatch.setenv("SKCRBM_DATA", str(DATA))
    needed = re.findall(r"\bload_(scene|yeast)\(", "".join(code for code, _ in blocks(PAGES[name])))
    missing = [data for data in needed if not (DATA / f"{data}.npz").exists()]
    if missing:
        pytest.skip(f"{missing[0]}.npz is not in {DATA}")
    for package in ("imblearn", "mlflow", "optuna", "shap", "skops"):
        if re.search(rf"^(import|from) {package}\b", PAGES[name], re.M):
            pytest.importorskip(package)
    names = {"__name__": "__main__"}
    for code, printed in blocks(PAGES[name]):
        output = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(output):
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", ".*AnyType")  # MLflow, of its own code
            if "max_iter" in code:  # a few epochs, so that a reader does not wait for long
                warnings.filterwarnings("ignore", "Training ended after max_iter")
            exec(compile(code, name, "exec"), names)
        if printed is not None:
            words, numbers, units = words_and_numbers(output.getvalue())
            expected_words, expected, expected_units = words_and_numbers(printed)
            assert words == expected_words, code
            # Rounding errors of another processor change the last printed digit by at most 1. NumPy
            # prints the entries of an array with as many digits as the longest entry needs.
            unit = np.minimum(0.1, np.minimum(units, expected_units))
            wrong = np.abs(np.subtract(numbers, expected)) > 1.01 * unit
            assert not wrong.any(), f"{code}\nprints {output.getvalue()}"
