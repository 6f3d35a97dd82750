"""Docstrings that share sections, such as the same parameters of several functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_Documented = TypeVar("_Documented", bound="Callable[..., Any]")


def documented(sections: Mapping[str, str]) -> Callable[[_Documented], _Documented]:
    """Return a decorator that replaces each marker in a docstring by its section.

    The keys of `sections` are the markers, such as "<parameters>". A marker stands alone on a line
    without indentation.
    """

    def complete(public: _Documented) -> _Documented:
        if public.__doc__:  # absent under python -OO
            text = inspect.cleandoc(public.__doc__)
            for marker, section in sections.items():
                text = text.replace(marker, section.strip("\n"))
            public.__doc__ = text
        return public

    return complete
