"""Programs that attack the library with many random cases: ``python -m tests.stress.NAME``.

Each counts failures, prints a line that reproduces each, and ends with "N cases, M failures".
"""
