"""Run inference in the programs of this package."""

from __future__ import annotations

from typing import Any

from skcrbm.inference._infer import run_query
from skcrbm.inference.base import InferenceResult


def run_inference(energy: Any, method: Any, **arguments: Any) -> InferenceResult:
    """Do the same as `infer`, without an estimate of errors or a warning about convergence.

    An estimate takes several times as long as the answer. Training and predictions ask for the
    answers of many models, and report by other means how good the model is.
    """
    return run_query(energy, method, **arguments)
