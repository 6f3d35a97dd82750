"""Solvers for any energy: they use only attributes and methods of the base class `BaseEnergy`."""
