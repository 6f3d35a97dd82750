"""Solvers for factor graphs, and for other energies that are solved as factor graphs."""
