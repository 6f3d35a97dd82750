"""Decoding: from a distribution over outputs to one output vector.

A rule is one file here and one line in `_registry.py`.
"""

from skcrbm.decoding._base import Decoding
from skcrbm.decoding._registry import DECODERS

__all__ = ["DECODERS", "Decoding"]
