"""Compile kernels ahead of time: ``python -m skcrbm.compile``.

Numba compiles a kernel at its first call, which takes seconds, and caches it on disk. This module
fits a tiny model with each estimator and predicts with it, so that later processes find all kernels
in the cache.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np

import skcrbm

__all__ = ["compile_kernels"]

# Branch and bound calls another kernel for the rows that its first search does not finish. With a
# limit of one search node, no row is finished, so that this kernel is compiled, too.
_HARD_ROWS = {"inference": skcrbm.inference.BranchAndBound(node_limit=1)}
# With 1024 levels of clamping, the first layer has a weight for each level of each input, and a
# batch of rows uses only few of these weights. Adam then updates only the used weights, by a kernel
# for sparse updates.
_MANY_LEVELS = {
    "max_iter": 2,
    "clamping": skcrbm.layers.HardClamping(tuple(np.arange(1, 1024) / 1024)),
    "layers": (skcrbm.layers.Dense(700),),
}
# Settings of each estimator. Fits with all of these settings together call all kernels of the
# estimator.
_SETTINGS = {
    "CRBMClassifier": (
        {"n_hidden": 2},
        {"n_hidden": 2, "inference": "sum_product", "max_iter": 2},
    ),
    "ImageCRBM": ({"n_hidden": 11, "max_iter": 2},),
    "MSSVMCRBM": ({"n_hidden": 2, "max_iter": 2},),
    "LMBMClassifier": ({}, _HARD_ROWS),
    "SSVMClassifier": ({}, _HARD_ROWS, {"inference": "linear_program"}),
    "LayeredGMClassifier": ({"max_iter": 2}, _MANY_LEVELS),
}
_DTYPES = ("float64", "float32")
_QUESTIONS = ("predict", "predict_proba")


def compile_kernels(
    estimators: Sequence[str] = tuple(_SETTINGS), dtypes: Sequence[str] = _DTYPES
) -> dict[str, float]:
    """Compile the kernels that estimators with default parameters need, and cache them on disk.

    Parameters
    ----------
    estimators : sequence of str, default=all estimators with kernels
        Names of estimators: "CRBMClassifier", "ImageCRBM", "MSSVMCRBM", "LMBMClassifier",
        "SSVMClassifier" or "LayeredGMClassifier".
    dtypes : sequence of {"float64", "float32"}, default=both
        Data types of X in later calls of `fit` and `predict`; each has its own kernels.

    Returns
    -------
    seconds : dict of {str: float}
        Compilation time of each estimator.

    Raises
    ------
    ValueError
        If a name is unknown.

    Examples
    --------
    >>> from skcrbm.compile import compile_kernels
    >>> list(compile_kernels(["LMBMClassifier"], dtypes=["float64"]))
    ['LMBMClassifier']
    """
    for name, values, known in (
        ("estimators", estimators, _SETTINGS),
        ("dtypes", dtypes, _DTYPES),
    ):
        if isinstance(values, str) or not set(values) <= set(known):
            raise ValueError(f"{name} must be a list of names from {list(known)}, got {values!r}")
    rng = np.random.RandomState(0)
    X = rng.standard_normal((40, 3))
    y = (X @ rng.standard_normal((3, 4)) > 0).astype(int)
    seconds = {}
    for name in estimators:
        start = time.perf_counter()
        for dtype in dtypes:
            for settings in _SETTINGS[name]:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # so few epochs do not converge
                    model = getattr(skcrbm, name)(random_state=0, **settings)
                    model.fit(X.astype(dtype), y)
                    for question in _QUESTIONS:
                        if hasattr(model, question):
                            getattr(model, question)(X.astype(dtype))
        seconds[name] = time.perf_counter() - start
    return seconds


def main(arguments=None):
    """Run the command line interface."""
    parser = argparse.ArgumentParser(
        prog="python -m skcrbm.compile",
        description="Compile kernels and store them in Numba's cache (NUMBA_CACHE_DIR), so that "
        "the first call in a new process does not wait for the compiler. Run it, for example, "
        "when a container image is built.",
    )
    for name, known, text in (
        ("estimators", _SETTINGS, "estimators whose kernels are compiled"),
        ("dtypes", _DTYPES, "data types of X in later calls"),
    ):
        parser.add_argument(
            f"--{name}", nargs="+", choices=list(known), default=list(known), help=text
        )
    chosen = parser.parse_args(arguments)
    for name in chosen.estimators:
        seconds = compile_kernels([name], chosen.dtypes)[name]
        sys.stdout.write(f"{name}: {seconds:.1f} s\n")


if __name__ == "__main__":
    main()
