"""Random models with many ties, against enumeration: ``python -m tests.stress.ties``.

The tables of the models are -1, 0 or 1, or weights of 0. "max_product" has to be exact on trees,
and the states of "max_product", "mplp" and "linear_program" must not be worse than the states of
"icm". Every fourth case checks the bounds of the last two.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `reference`, as for the tests

from reference.integer_models import check_bounds, check_max_product, integer_model

from tests.stress._program import main


def run_case(rng, case):
    """Check the states of a random model; a failure is an AssertionError."""
    energy, is_tree = integer_model(int(rng.integers(2**32)))
    check_max_product(energy, is_tree)
    if case % 4 == 0:
        check_bounds(energy)
    return []


if __name__ == "__main__":
    main("ties", run_case, 10_000, __doc__)
