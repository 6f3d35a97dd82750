"""Rules between labels: implications, exclusions, counts, hierarchies, forbidden combinations."""

from skcrbm.constraints._constrained import Constrained
from skcrbm.constraints._rules import (
    Allowed,
    Between,
    Clause,
    Excludes,
    Forbidden,
    Hierarchy,
    Implies,
)

__all__ = [
    "Allowed",
    "Between",
    "Clause",
    "Constrained",
    "Excludes",
    "Forbidden",
    "Hierarchy",
    "Implies",
]
