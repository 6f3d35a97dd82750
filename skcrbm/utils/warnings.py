"""Warnings that show the line of the user's program that called the library."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

import joblib
import sklearn

# Files whose frames may lie between the line of the user and the warning: this package, wrappers of
# scikit-learn and joblib, and context managers.
_INNER = (
    *(
        os.path.dirname(os.path.abspath(file)) + os.sep
        for file in (os.path.dirname(__file__), sklearn.__file__, joblib.__file__)
    ),
    contextlib.__file__,
)


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that is attributed to the innermost line outside of the files in `_INNER`.

    `warnings.warn` cannot do this: its `stacklevel` would depend on the number of calls between the
    user and the warning, and its ``skip_file_prefixes`` needs Python 3.12.
    """
    frame = sys._getframe(1)
    # In a thread, all frames may belong to the package. The warning then shows the outermost frame.
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
