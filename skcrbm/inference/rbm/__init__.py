"""Solvers of `RBMEnergy` and `GroupedRBMEnergy`."""
