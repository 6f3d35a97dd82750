"""Solvers of `RBMEnergy`."""
