"""Solvers of `OneHotRBMEnergy`."""
