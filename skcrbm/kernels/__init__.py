"""Compiled kernels: functions that take arrays and return or fill arrays.

Modules of kernels import NumPy, Numba and other modules of kernels, but no other module of the
package.
"""
