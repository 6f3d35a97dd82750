"""Solvers that need no more of an energy than its base class declares."""
