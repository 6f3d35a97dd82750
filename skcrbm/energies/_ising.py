"""Let old pickles find `IsingEnergy`, which is defined in `skcrbm.energies.pairs`."""

from skcrbm.energies.pairs import IsingEnergy

__all__ = ["IsingEnergy"]
