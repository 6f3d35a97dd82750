"""Read text files that consist of words, such as the files of factor graphs."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.utils.labels import with_indices
from skcrbm.utils.limits import MAX_FILE_BYTES
from skcrbm.utils.warnings import warn_user

# A str with more characters than this is always read as text, and never as the name of a file.
_MAX_PATH = 4096
# First bytes of a file compressed by gzip.
_GZIP = b"\x1f\x8b"
# Comment lines: optional blanks, "#" or the word "c", and the rest of the line.
_COMMENT = {
    "#": re.compile(r"^[^\S\n]*#[^\n]*", re.MULTILINE),
    "c": re.compile(r"^[^\S\n]*c(?![^\s])[^\n]*", re.MULTILINE),
}
# A decimal number that is not 0: its digits before the exponent have one that is not 0.
_NONZERO = re.compile(r"[-+]?[0.]*[1-9]")
# Characters that Python accepts in numbers but the file formats forbid: non-ASCII digits and "_".
_ODD = re.compile(r"[^\x00-\x7f]|_")


class Words:
    """Reads the words of a text in order; error messages show the wrong word and its line.

    `source` is a path, or a str that is the name of an existing file, or the text itself. `format`
    is the name of the format in error messages. `comments` is the word "#" or "c" with which the
    lines of comments begin. The first `n_names` words are names, which may hold any characters.
    """

    def __init__(
        self, source: str | os.PathLike, format: str, *, comments: str = "", n_names: int = 0
    ):
        text, path = _load(source, format)
        self.name = f"{format} in {path}" if path else format
        if comments:
            text = _COMMENT[comments].sub("", text)
        self.text = text
        self.words = text.split()
        self.place = 0  # position in `words` of the next word to read
        # A text of a single word may be a misspelt file name, so error messages say that there is
        # no such file.
        self._hint = " (no file has this name, either)" if not path and len(self.words) == 1 else ""
        if not text.isascii() or "_" in text:
            for place, word in enumerate(self.words):
                if place >= n_names and _ODD.search(word):
                    raise self.error("a number or a name in ASCII", place)

    # ------------------------------------------------------------------- errors

    def position(self, place: int) -> str:
        """Return the position of a word as text, such as "word 3 (line 2)"."""
        end = len(self.text.rstrip())
        for number, match in enumerate(re.finditer(r"\S+", self.text)):
            if number == place:
                end = match.start()
                break
        line = len((self.text[:end] + "x").splitlines())
        return f"word {min(place + 1, len(self.words))} (line {line})"

    def error(self, expected: str, place: int | None = None) -> ValueError:
        """Return an error about the word at position `place`, by default the next word.

        `expected` describes the valid word, such as "the number of tables".
        """
        place = self.place if place is None else place
        if place >= len(self.words):
            where = f"after {self.position(place)}" if self.words else "before its first word"
            return ValueError(f"{self.name} ends {where}, but {expected} was expected")
        return ValueError(
            f"{self.name} must have {expected} as {self.position(place)}, got "
            f"{self._shown(place)}{self._hint}"
        )

    def _shown(self, place):
        word = self.words[place]
        return repr(word if len(word) <= 30 else word[:30] + "...")

    # ------------------------------------------------------------------ reading

    @property
    def n_left(self) -> int:
        """Number of words that have not been read."""
        return len(self.words) - self.place

    def name_of(self, names: Sequence[str]) -> str:
        """Read the next word, which must be in `names` (in upper or lower case), and return it."""
        if self.n_left and self.words[self.place].upper() in names:
            self.place += 1
            return self.words[self.place - 1].upper()
        raise self.error(" or ".join(map(repr, names)))

    def take(self, count: int, expected: str) -> range:
        """Skip the next `count` words, and return their positions in the list of all words."""
        if self.n_left < count:
            raise self.error(expected, len(self.words))
        self.place += count
        return range(self.place - count, self.place)

    def exactly(self, value: int, expected: str) -> None:
        """Read an integer that must be equal to `value`."""
        places = self.take(1, f"{value}, {expected},")
        word = self.words[places[0]]
        if not _converts(int, word) or int(word) != value:
            raise self.error(f"{value}, {expected},", places[0])

    def integer(self, expected: str, least: int = 0, most: int | None = None) -> int:
        """Read an integer from `least` to `most`."""
        return self.integers(1, expected, least, most)[0]

    def integers(
        self, count: int, expected: str, least: int = 0, most: int | None = None
    ) -> list[int]:
        """Read `count` integers from `least` to `most`."""
        return self.integers_at(self.take(count, expected), expected, least, most)

    def distinct(self, count: int, expected: str, most: int) -> list[int]:
        """Read `count` distinct integers from 0 to `most`."""
        return self.distinct_at(self.take(count, expected), expected, most)

    def numbers(
        self, count: int, expected: str, least: float = 0.0, most: float = np.inf
    ) -> np.ndarray:
        """Read `count` numbers from `least` to `most`; +inf is invalid."""
        return self.numbers_at(self.take(count, expected), expected, least, most)

    def integers_at(
        self, places: Sequence[int], expected: str, least: int = 0, most: int | None = None
    ) -> list[int]:
        """Convert the words at the positions `places` to integers from `least` to `most`.

        A ValueError is raised if a word is invalid.
        """
        words = [self.words[place] for place in places]
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        try:
            values = list(map(int, words))
        except ValueError:
            bad = next(i for i, word in enumerate(words) if not _converts(int, word))
            raise self.error(f"{expected}, an integer {limits},", places[bad]) from None
        if values and (min(values) < least or (most is not None and max(values) > most)):
            bad = next(
                i for i, v in enumerate(values) if v < least or (most is not None and v > most)
            )
            raise self.error(f"{expected}, an integer {limits},", places[bad])
        return values

    def distinct_at(self, places: Sequence[int], expected: str, most: int) -> list[int]:
        """Convert the words at the positions `places` to distinct integers from 0 to `most`.

        A ValueError is raised if a word is invalid.
        """
        values = self.integers_at(places, expected, 0, most)
        if len(set(values)) < len(values):
            seen: set[int] = set()
            for i, value in enumerate(values):
                if value in seen:
                    raise self.error(f"{expected} that occurs only once,", places[i])
                seen.add(value)
        return values

    def numbers_at(
        self, places: Sequence[int], expected: str, least: float = 0.0, most: float = np.inf
    ) -> np.ndarray:
        """Convert the words at the positions `places` to numbers from `least` to `most`.

        A ValueError is raised if a word is invalid; +inf is always invalid.
        """
        words = [self.words[place] for place in places]
        limits = f"a number from {least:g} to {most:g}"
        if most == np.inf:
            limits = f"a finite number of at least {least:g}"
        if least == -np.inf:
            limits = "a finite number or -inf"
        try:
            values = np.fromiter(map(float, words), np.float64, len(words))
        except ValueError:
            bad = next(i for i, word in enumerate(words) if not _converts(float, word))
            raise self.error(f"{expected}, {limits},", places[bad]) from None
        if (least, most) == (0.0, np.inf):
            self._warn_of_underflow(places, words, values)
        valid = (values >= least) & (values <= most) & (values < np.inf)
        if not valid.all():
            raise self.error(f"{expected}, {limits},", places[int(np.argmin(valid))])
        return values

    def _warn_of_underflow(self, places, words, values):
        """Warn if a weight that is not 0 is too small for a float."""
        small = [
            place
            for place, word, value in zip(places, words, values.tolist(), strict=True)
            if value == 0 and _NONZERO.match(word)
        ]
        if small:
            warn_user(
                f"{self.name} has {len(small)} numbers that are too small for a float and are read "
                f"as 0, which forbids a state; the first is {self._shown(small[0])}, "
                f"{self.position(small[0])}"
            )

    def end(self, last: str) -> None:
        """Raise a ValueError unless all words have been read; `last` describes the last word."""
        if self.n_left:
            raise ValueError(
                f"{self.name} must end after {last}, but has {self._shown(self.place)} as "
                f"{self.position(self.place)}"
            )

    def line_lengths(self) -> list[int]:
        """Return the number of unread words in each line that still has unread words."""
        lengths, before = [], 0
        for line in self.text.splitlines():
            n = len(line.split())
            left = min(n, before + n - self.place)
            if left > 0:
                lengths.append(left)
            before += n
        return lengths


def _converts(kind, word):
    try:
        kind(word)
    except ValueError:
        return False
    return True


def _load(source, format):
    """Return the text of a source, and its path (None if the source is the text itself)."""
    if isinstance(source, str):
        short = len(source) <= _MAX_PATH and "\n" not in source
        if not (short and os.path.isfile(source)):
            return source.removeprefix("\ufeff"), None
    elif not isinstance(source, os.PathLike):
        raise ValueError(
            f"{format} must be a str or a path (os.PathLike), got {type(source).__name__}"
        )
    path = Path(os.fsdecode(source))
    try:
        with path.open("rb") as file:
            start = file.read(len(_GZIP))
            file.seek(0)
            if start == _GZIP:
                with gzip.open(file) as unpacked:
                    data = unpacked.read(MAX_FILE_BYTES + 1)
            else:
                data = file.read(MAX_FILE_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{format} in {path} is a damaged gzip file: {error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{format} in {path} is larger than the limit of {MAX_FILE_BYTES} bytes")
    # Invalid bytes become non-ASCII characters, for which `Words` raises an error.
    return data.decode("utf-8-sig", errors="replace"), path


def checked_n_states(n_states: ArrayLike) -> np.ndarray:
    """Validate an argument `n_states` and return it as an int64 array (n,)."""
    try:
        values = np.asarray(with_indices(n_states, "n_states"))
        if np.ma.is_masked(n_states):
            raise ValueError("it has masked entries")
    except ValueError as error:
        raise ValueError(f"n_states must be integers of shape (n,): {error}") from error
    if values.size == 0 and values.ndim == 1:
        return np.zeros(0, np.int64)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise ValueError(
            "n_states must be integers of shape (n,), with the number of states of each variable; "
            f"got {values.dtype} of shape {values.shape}"
        )
    if values.min() < 1:
        raise ValueError(f"n_states must be at least 1 for each variable, got {values.min()}")
    return values.astype(np.int64)


def joined(numbers) -> str:
    """Return numbers as a text, separated by spaces. Floats are written with all digits."""
    return " ".join(map(repr, np.asarray(numbers).ravel().tolist()))
