"""Inference in layered models: truncated inference and its gradient, and solvers for `infer`."""
