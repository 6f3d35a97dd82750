"""The matrix form of Ping and Ihler (2017); it is written once, in the benchmark."""

from examples.speed.benchmark_inference import matrix_sum_product

__all__ = ["matrix_sum_product"]
