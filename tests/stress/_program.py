"""Shared parts of the stress programs: command line, a seed for every case, summary."""

import argparse
import sys
import time
import traceback

import numpy as np

SECONDS_BETWEEN_REPORTS = 60


def main(name, run_case, default_cases, doc, argv=None):
    """Run the cases of one program, and end the process with the status 1 if one failed.

    Parameters
    ----------
    name : str
        The program's name: it is run as ``python -m tests.stress.NAME``.
    run_case : callable
        ``run_case(rng, case)`` attacks with the random generator of the case and returns a list of
        lines, each of which describes a failure. An exception is a failure too, so `run_case`
        catches errors that are expected.
    default_cases : int
        How many cases are run without ``--cases``.
    doc : str
        Text for ``--help``.
    argv : list of str, optional
        Arguments of the command line, default `sys.argv`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.stress.{name}", description=doc)
    parser.add_argument("--cases", type=int, default=default_cases, help="how many cases to run")
    parser.add_argument("--seed", type=int, default=0, help="seed of all cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="run this case alone")
    options = parser.parse_args(argv)
    if options.case is None:
        cases = range(options.first, options.first + options.cases)
    else:
        cases = range(options.case, options.case + 1)
    n_failures, started = 0, time.monotonic()
    reported = started
    for n_done, case in enumerate(cases, 1):
        lines = _failures_of(run_case, options.seed, case)
        n_failures += bool(lines)
        for line in lines:
            print(f"FAILED --seed {options.seed} --case {case}: {line}", flush=True)
        if time.monotonic() - reported > SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            seconds = reported - started
            print(f"{n_done} of {len(cases)}, {n_failures} failures, {seconds:.0f} s", flush=True)
    print(f"{len(cases)} cases, {n_failures} failures", flush=True)
    sys.exit(int(n_failures > 0))


def _failures_of(run_case, seed, case):
    """Return the failures of a case; an exception counts as a failure, with its traceback."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, case)))
    try:
        return run_case(rng, case)
    except Exception as error:  # whatever it is, the other cases are to run
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"]
