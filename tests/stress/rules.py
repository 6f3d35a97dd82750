"""Random rules between labels, against brute force: ``python -m tests.stress.rules``.

Each case draws up to four rules of up to 14 labels. In every fourth case the rules are trees of
labels with counts, which have a method of their own. The program compares probabilities, best
vectors, the k best vectors, samples and scores of `Constrained` with sums over all label vectors,
with and without known labels. Contradictions must be found.
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `reference`, as for the tests

from reference.label_rules import check_random_rules

from tests.stress._program import main


def run_case(rng, case):
    """Compare a random set of rules with brute force; a failure is an AssertionError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_random_rules(rng, 14, trees=case % 4 == 0)
    return []


if __name__ == "__main__":
    main("rules", run_case, 3_000, __doc__)
