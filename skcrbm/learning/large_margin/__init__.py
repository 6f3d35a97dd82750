"""Solvers for max-margin training of chains, graphs, and models with pair weights or cliques."""
