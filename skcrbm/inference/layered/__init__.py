"""Truncated inference on layered models, and the gradient through its iterations."""

from skcrbm.inference.layered._messages import MaxProductNetwork
from skcrbm.inference.layered._methods import make_network
from skcrbm.inference.layered._network import Held, LayeredInput, probabilities

__all__ = ["Held", "LayeredInput", "MaxProductNetwork", "make_network", "probabilities"]
