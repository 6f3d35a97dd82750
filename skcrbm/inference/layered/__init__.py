"""Layered models: truncated inference, the gradient through its iterations, and solvers."""
