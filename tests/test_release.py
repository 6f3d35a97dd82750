"""Links of the README, the content of the source distribution, and the tests that CI names."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def file_of_checkout(name):
    """Return the path of a file in .ci; skip the test in a source distribution, which lacks it."""
    path = ROOT / ".ci" / name
    if not path.exists():
        pytest.skip("not in a checkout")
    return path


@pytest.fixture(scope="module")
def absolute():
    path = file_of_checkout("absolute_links.py")
    spec = importlib.util.spec_from_file_location("absolute_links", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.absolute


def test_links_of_the_readme_become_absolute(absolute):
    text, missing = absolute(README, "https://example.org/skcrbm/", "v1", ROOT)
    assert not missing
    assert "](https://example.org/skcrbm/blob/v1/doc/decoding.md)" in text
    assert "](https://example.org/skcrbm/raw/v1/doc/known_labels.png)" in text
    assert not re.search(r"\]\((?!https?:|#)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    again, _ = absolute(text, "https://example.org/other", "v1", ROOT)
    assert again == text


def test_a_link_to_a_missing_file_is_reported(absolute):
    text = "[a](nowhere.md) [b](#b) [c](README.md#x)\n```python\nd[0](e)\n```\n"
    found, missing = absolute(text, "https://example.org/x", "main", ROOT)
    assert missing == ["nowhere.md"]
    assert found.endswith(
        "[b](#b) [c](https://example.org/x/blob/main/README.md#x)\n```python\nd[0](e)\n```\n"
    )


def test_the_source_distribution_lists_what_its_tests_need():
    listed = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    for name in ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "graft doc", "graft tests"):
        assert name in listed
    for folder in re.findall(r"^graft (\S+)$", listed, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_the_readme_begins_with_claim_installation_and_example():
    first = README.splitlines()
    assert first[2].startswith("Multi-label classification and structured prediction")
    screen = "\n".join(first[:45])
    assert "pip install" in screen
    assert "make_structured_labels" in screen
    for mark in ("<!-- main-job -->", "<!-- tests -->"):
        assert f"{mark}\n```sh\n" in README


def test_continuous_integration_names_tests_that_exist():
    text = file_of_checkout("run").read_text(encoding="utf-8")
    listed = re.findall(r"^  (tests/\S+)$", text, re.MULTILINE)
    assert len(listed) > 20
    for name in listed:
        file, _, function = name.partition("::")
        assert (ROOT / file).exists(), name
        if function:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {function}(" in text, name
