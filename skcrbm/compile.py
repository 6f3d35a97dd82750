"""Compile kernels before they are needed: ``python -m skcrbm.compile``.

Kernels are compiled at their first call, which takes seconds, and cached on disk. This module fits
a tiny model of every kind and predicts with it, so that later processes find the kernels there.
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

# A search of a single node ends on no row, so that the kernel for hard rows is compiled, too.
_HARD_ROWS = {"inference": skcrbm.inference.BranchAndBound(node_limit=1)}
# With this many weights of inputs, of which a batch reads few, Adam updates them row by row.
_MANY_LEVELS = {
    "max_iter": 2,
    "clamping": skcrbm.layers.HardClamping(tuple(np.arange(1, 1024) / 1024)),
    "layers": (skcrbm.layers.Dense(700),),
}
# Settings of every estimator that need their own kernels.
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
    """Compile the kernels that estimators with default parameters need, into Numba's cache.

    Parameters
    ----------
    estimators : sequence of str, default=all that have kernels
        Names among "CRBMClassifier", "ImageCRBM", "MSSVMCRBM", "LMBMClassifier", "SSVMClassifier"
        and "LayeredGMClassifier".
    dtypes : sequence of {"float64", "float32"}, default=both
        Data types of the X that `fit` and `predict` will get.

    Returns
    -------
    seconds : dict of {str: float}
        Time of each estimator.

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
            raise ValueError(f"{name} must be a list of some of {list(known)}, got {values!r}")
    rng = np.random.RandomState(0)
    X = rng.standard_normal((40, 3))
    y = (X @ rng.standard_normal((3, 4)) > 0).astype(int)
    seconds = {}
    for name in estimators:
        start = time.perf_counter()
        for dtype in dtypes:
            for settings in _SETTINGS[name]:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # so few iterations do not converge
                    model = getattr(skcrbm, name)(random_state=0, **settings)
                    model.fit(X.astype(dtype), y)
                    for question in _QUESTIONS:
                        if hasattr(model, question):
                            getattr(model, question)(X.astype(dtype))
        seconds[name] = time.perf_counter() - start
    return seconds


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m skcrbm.compile",
        description="Compile kernels into Numba's cache (NUMBA_CACHE_DIR), as when an image is "
        "built, so that the first call in a new process does not wait for the compiler.",
    )
    for name, known, text in (
        ("estimators", _SETTINGS, "which estimators"),
        ("dtypes", _DTYPES, "data types of the X that they will get"),
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
