"""scikit-learn's checks of an estimator, with no check skipped."""

import functools
import json
import os
import subprocess
import sys
from unittest import SkipTest

# One array-API check is skipped unless SciPy was told at its import to support array APIs. It runs
# in one process for all estimators of a package, as a process takes seconds to start.
RUN_CHECK = """
import importlib, inspect, json, sys, traceback
from sklearn.utils.estimator_checks import estimator_checks_generator
package = importlib.import_module(sys.argv[2])
errors = {}
for name in package.__all__:
    kind = getattr(package, name)
    if not hasattr(kind, "fit") or name == "DecodedClassifier":
        continue
    done = 0
    for estimator, check in estimator_checks_generator(kind()):
        if check.func.__name__ == sys.argv[1]:
            try:
                check(estimator)
                done += 1
            except Exception:
                errors[name] = traceback.format_exc()
    if name not in errors:
        errors[name] = None if done else "no such check"
print("errors:", json.dumps(errors))
"""


@functools.cache
def errors_with_array_api(package, check):
    """The error, or None, of a check of each estimator of a package."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN_CHECK, check, package],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.rpartition("errors:")[2])


def run_check(estimator, check):
    """Run a check; the check that asks for an environment variable runs in a process with it."""
    try:
        check(estimator)
    except SkipTest as skip:
        name = check.func.__name__
        if "SCIPY_ARRAY_API is not set" not in str(skip):
            raise AssertionError(f"{name} was skipped: {skip}") from skip
        kind = type(estimator)
        package = kind.__module__.rpartition(".")[0]
        error = errors_with_array_api(package, name)[kind.__name__]
        assert error is None, error
