"""Solvers of `IsingEnergy`."""
