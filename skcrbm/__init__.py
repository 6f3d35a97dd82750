"""scikit-learn compatible Boltzmann-machine models for structured prediction."""

from skcrbm._version import __version__

__all__ = ["__version__"]
