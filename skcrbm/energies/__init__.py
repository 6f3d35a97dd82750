"""Energy functions: what a model is, apart from how it is inferred or learned."""

from skcrbm.energies._conditional import ConditionalRBM, CRBMParams
from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._one_hot import OneHotRBMEnergy
from skcrbm.energies._rbm import RBMEnergy

__all__ = ["CRBMParams", "ConditionalRBM", "IsingEnergy", "OneHotRBMEnergy", "RBMEnergy"]
