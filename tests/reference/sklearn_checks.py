"""scikit-learn's checks of an estimator, none skipped."""

import os
import subprocess
import sys
from unittest import SkipTest

# One array-API check is skipped unless SciPy was told at its import to support array APIs.
RUN_CHECK = """
import importlib, sys
from sklearn.utils.estimator_checks import estimator_checks_generator
done = 0
module = importlib.import_module(sys.argv[2])
for estimator, check in estimator_checks_generator(getattr(module, sys.argv[3])()):
    if check.func.__name__ == sys.argv[1]:
        check(estimator)
        done += 1
sys.exit(0 if done else "no such check")
"""


def run_check(estimator, check):
    """No check is skipped: the one that asks for an environment variable gets it."""
    try:
        check(estimator)
    except SkipTest as skip:
        name = check.func.__name__
        if "SCIPY_ARRAY_API is not set" not in str(skip):
            raise AssertionError(f"{name} was skipped: {skip}") from skip
        environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
        kind = type(estimator)
        where = [kind.__module__, kind.__name__]
        command = [sys.executable, "-W", "ignore", "-c", RUN_CHECK, name, *where]
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert result.returncode == 0, result.stderr
