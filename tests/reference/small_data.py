"""The words of errors about a few rows."""

import re

# Errors that tell nothing to a user.
RAW = re.compile(r"zero-size|out of bounds|broadcast|not aligned|divi|empty|must be non-?zero")
REASONS = re.compile(
    r"^cv=\d|confidence=|risk=|needs rows of both values|at least 2 classes|n_splits=|two columns"
    r"|2-D y with more than one column"
)
