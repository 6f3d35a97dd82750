"""The name under which pickled models find the class of factor graphs over 0/1 variables."""

from skcrbm.energies.graph import FactorGraphEnergy

__all__ = ["FactorGraphEnergy"]
