"""Warnings that point at the line of the user's program, however deep they arise."""

import contextlib
import os
import sys
import warnings

import joblib
import sklearn

# Files between a user's call and the place of a warning: this package, the wrappers that
# scikit-learn puts around methods, context managers used as decorators, parallel calls.
_INNER = (
    *(
        os.path.dirname(os.path.abspath(file)) + os.sep
        for file in (os.path.dirname(__file__), sklearn.__file__, joblib.__file__)
    ),
    contextlib.__file__,
)


def warn_user(message, category=UserWarning):
    """Issue a warning at the innermost line outside of this package and its wrappers.

    `warnings.warn` counts frames instead, and every change of the call path would shift
    the line (``skip_file_prefixes`` needs Python 3.12).

    Parameters
    ----------
    message : str
    category : type of Warning, default=UserWarning
    """
    frame = sys._getframe(1)
    # The outermost frame of a thread may be within the package: nothing is left to point at.
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
