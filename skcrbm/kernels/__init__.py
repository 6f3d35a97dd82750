"""Compiled kernels: functions that take arrays and return or fill arrays.

Kernels import only NumPy, Numba and each other, but no other module of the package.
"""
