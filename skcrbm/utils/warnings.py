"""Warnings that point at the line of the user's program, however deep they arise."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

import joblib
import sklearn

# Files between the call of a user and the place of a warning: this package, the wrappers of
# scikit-learn around methods, context managers used as decorators, parallel calls.
_INNER = (
    *(
        os.path.dirname(os.path.abspath(file)) + os.sep
        for file in (os.path.dirname(__file__), sklearn.__file__, joblib.__file__)
    ),
    contextlib.__file__,
)


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line outside of this package and its wrappers.

    `warnings.warn` counts frames instead, so that every change of the call path would shift the
    line (``skip_file_prefixes`` needs Python 3.12).
    """
    frame = sys._getframe(1)
    # The outermost frame of a thread may be within the package: no frame of the user is left.
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
