"""Solvers of `RBMEnergy` and `GroupedRBMEnergy`, except "exact"."""
