"""Solvers of `IsingEnergy` and `SparseIsingEnergy`."""
