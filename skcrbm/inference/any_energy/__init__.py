"""Solvers that use only the members that the base class of all energies declares."""
