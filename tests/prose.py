"""Count habits of style that make prose hard to read, per 10,000 words.

Run `python -m tests.prose [--list] [PATH...]` in the root of the repository. A path is a folder or
a file; of Python files the docstrings and comments are counted, of Markdown files the text outside
code blocks. Without paths the package, the tests, the examples and the pages are counted, each
against the limits:

- "what": at most 8,
- "none", "one", "ones", "that of" and "those of" in place of a noun: at most 4,
- descriptions that begin with "Of": none.

The program exits with 1 if a limit is exceeded. With `--list` it prints each line found.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import NamedTuple

MAX_WHAT = 8.0
MAX_PRONOUNS = 4.0
ROOT = Path(__file__).resolve().parents[1]
DEFAULT = (["skcrbm"], ["tests"], ["examples"], ["README.md", "CONTRIBUTING.md", "doc"])

WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
WHAT = re.compile(r"\bwhat\b", re.IGNORECASE)
# "one" is a pronoun before punctuation, at the end, and before words that no noun begins with.
_AFTER_ONE = (
    "a|after|an|and|are|as|at|because|before|below|above|beside|but|by|can|cannot|does|for|from|"
    "given|had|has|have|if|in|into|is|it|less|like|may|more|must|not|of|on|once|only|or|over|so|"
    "than|that|the|then|they|to|under|until|was|we|were|when|where|which|while|who|whose|will|"
    "with|within|without|would|you"
)
PRONOUN = re.compile(
    # "none", but not `None`; "none of" and "none is" as well
    r"(?<![\w`\"'-])none(?![\w`\"'-])"
    rf"|(?<![\w`\"'.-])(?:one|ones)(?=\s*[,;:.!?)]|\s*$|\s+(?:{_AFTER_ONE})\b)"
    r"|\b(?:that|those) of\b",
)
# "one" as a number ("one of the labels", "one by one") and "ones" as entries ("zeros and ones").
NUMBER = re.compile(
    r"one (?:of|or (?:more|two|several)|by one|and|after the other|at a time|to)\b|by one\b"
    r"|(?:zeros and|share of|number of|of|all|array of|three) ones\b"
)
OF = re.compile(r"Of\b")
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)


class Line(NamedTuple):
    """A line of prose; `begins` if a description may begin here."""

    path: Path
    number: int
    text: str
    begins: bool


class Count(NamedTuple):
    """Words, and the lines where something was found."""

    words: int
    what: list
    pronouns: list
    of: list

    def per_10000(self, found):
        return 1e4 * len(found) / max(self.words, 1)

    @property
    def too_many(self):
        return (
            self.per_10000(self.what) > MAX_WHAT
            or self.per_10000(self.pronouns) > MAX_PRONOUNS
            or bool(self.of)
        )


def docstring_lines(path, source):
    for node in ast.walk(ast.parse(source)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if not isinstance(node, kinds) or ast.get_docstring(node, clean=False) is None:
            continue
        value = node.body[0].value
        indent = None
        for offset, text in enumerate(value.value.split("\n")):
            stripped = text.strip()
            if stripped.startswith((">>>", "...")):
                indent = None
                continue
            own = len(text) - len(text.lstrip())
            # A description begins at the first line and where the indentation changes.
            begins = offset == 0 or indent is None or own != indent
            indent = own if stripped else None
            yield Line(path, value.lineno + offset, stripped, begins)


def comment_lines(path, source):
    last = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#:").strip()
            yield Line(path, token.start[0], text, last != token.start[0] - 1)
            last = token.start[0]


def page_lines(path, source):
    source = FENCE.sub(lambda m: "\n" * m[0].count("\n"), source)
    blank = True
    for number, text in enumerate(source.split("\n"), 1):
        stripped = text.strip().lstrip("|*-#> ").strip()
        begins = blank or text.lstrip().startswith(("|", "*", "-", "#"))
        blank = not stripped
        yield Line(path, number, stripped, begins)
        for cell in stripped.split("|")[1:]:
            if OF.match(cell.strip()):
                yield Line(path, number, cell.strip(), True)


def lines_of(path):
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return list(page_lines(path, source))
    return [*docstring_lines(path, source), *comment_lines(path, source)]


def pronouns_in(text):
    """Return the pronouns of a line: matches that are not a number."""
    text = re.sub(r"`[^`]*`|\"[^\"]*\"", "x", text)
    numbers = {m.start() + m[0].rindex("one") for m in NUMBER.finditer(text)}
    numbers |= {m.start() for m in NUMBER.finditer(text)}
    return [m for m in PRONOUN.finditer(text) if m.start() not in numbers]


def files_of(paths):
    for path in map(Path, paths):
        if path.is_file():
            yield path
        elif path.is_dir():
            kinds = (p for p in sorted(path.rglob("*")) if p.suffix in (".py", ".md"))
            built = {"__pycache__", "_build", "generated", "auto_examples"}
            yield from (p for p in kinds if not built & set(p.parts))
        else:
            raise FileNotFoundError(path)


def count(paths):
    """Return the `Count` of files and folders."""
    total = Count(0, [], [], [])
    for path in files_of(paths):
        if path.resolve() == Path(__file__).resolve():
            continue  # these words are its topic
        for line in lines_of(path):
            total = total._replace(words=total.words + len(WORD.findall(line.text)))
            total.what.extend([line] * len(WHAT.findall(line.text)))
            total.pronouns.extend([line] * len(pronouns_in(line.text)))
            if line.begins and OF.match(line.text):
                total.of.append(line)
    return total


def show(name, total, all_lines):
    print(
        f"{name:24s} {total.words:7d} words   what {total.per_10000(total.what):5.1f}   "
        f"pronouns {total.per_10000(total.pronouns):5.1f}   "
        f'"Of ..." {len(total.of)} ({total.per_10000(total.of):.1f})'
        f"{'   TOO MANY' if total.too_many else ''}"
    )
    if all_lines:
        for kind in ("what", "pronouns", "of"):
            for line in getattr(total, kind):
                print(f"    {kind:8s} {line.path}:{line.number}: {line.text}")
    elif total.too_many:
        worst = Counter(line.path for line in [*total.what, *total.pronouns, *total.of])
        for path, number in worst.most_common(10):
            print(f"    {number:4d} {path}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--list", action="store_true", help="print each line")
    options = parser.parse_args(arguments)
    groups = [[path] for path in options.paths]
    if not groups:
        groups = [[str(ROOT / path) for path in group] for group in DEFAULT]
    totals = [count(group) for group in groups]
    for group, total in zip(groups, totals):
        names = [str(Path(path)).removeprefix(str(ROOT) + "/") for path in group]
        show(" ".join(names)[:24], total, options.list)
    return int(any(total.too_many for total in totals))


if __name__ == "__main__":
    sys.exit(main())
