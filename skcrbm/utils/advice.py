"""Names of estimators in error messages.

The low parts of the package know no estimator. The package itself tells them, when it is imported,
which estimators support what, so that their messages can name an estimator to use.
"""

from __future__ import annotations

#: Maps what an estimator may support, such as "missing labels", to the names of the estimators.
SUPPORT: dict[str, tuple[str, ...]] = {}


def supporting(what: str, last: str = "or") -> str:
    """Return the names of the estimators that support something, as in "A, B or C".

    `last` is the word before the last name.
    """
    *names, final = SUPPORT[what]
    return f"{', '.join(names)} {last} {final}" if names else final
