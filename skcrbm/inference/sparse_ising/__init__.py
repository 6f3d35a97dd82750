"""Solvers of `SparseIsingEnergy`."""
