"""The matrix form of Ping and Ihler (2017); it is written once, in the benchmark."""

import importlib.util
from pathlib import Path

_SCRIPT = Path(__file__).parents[2] / "examples" / "benchmark_inference.py"
_spec = importlib.util.spec_from_file_location("benchmark_inference", _SCRIPT)
_script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_script)

matrix_sum_product = _script.matrix_sum_product
