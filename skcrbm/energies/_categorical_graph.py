"""The name under which pickled models find the class of graphs with any number of states."""

from skcrbm.energies.graph import FactorGraphEnergy as CategoricalGraphEnergy

__all__ = ["CategoricalGraphEnergy"]
