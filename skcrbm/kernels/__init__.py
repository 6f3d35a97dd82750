"""Compiled kernels: arrays in, arrays out.

Kernels import NumPy and Numba only and know nothing of the rest of the package.
"""
