"""Print the answers that are held against enumeration: ``python -m tests.conformance``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # as the tests import their helpers

from reference.energy_cases import CASES
from reference.proofs import LETTERS, table

if __name__ == "__main__":
    print(*table(CASES), sep="\n")
    print("\nAnswers:", ", ".join(f"{letter} {name}" for name, letter in LETTERS.items()))
    print("Relations: see PROOFS in tests/reference/proofs.py")
