"""Compiled kernels: functions that take arrays and return or fill arrays.

Kernels import only NumPy, Numba and each other, not the rest of the package.
"""
