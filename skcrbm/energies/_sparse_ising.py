"""Let old pickles of sparse Ising models find the class `IsingEnergy`."""

from skcrbm.energies.pairs import IsingEnergy as SparseIsingEnergy

__all__ = ["SparseIsingEnergy"]
