"""Solvers of `RBMEnergy` and `OneHotRBMEnergy`."""
