"""Energy functions, which define the models. Inference and learning are in other folders."""

from skcrbm.energies._factors import AndFactors, OrFactors, TableFactors
from skcrbm.energies._layered import LayeredEnergy
from skcrbm.energies._uai_problem import UAIProblem, read_uai
from skcrbm.energies.base import BaseEnergy
from skcrbm.energies.graph import FactorGraphEnergy
from skcrbm.energies.grouped_rbm import OneHotRBMEnergy
from skcrbm.energies.layered_structure import LayeredStructure
from skcrbm.energies.pairs import IsingEnergy, PairwiseEnergy, SparseIsingEnergy
from skcrbm.energies.rbm import RBMEnergy
from skcrbm.formats.evidence import (
    read_uai_evidence,
    read_uai_query,
    read_uai_solution,
    write_uai_evidence,
    write_uai_query,
    write_uai_solution,
)

__all__ = [
    "AndFactors",
    "BaseEnergy",
    "FactorGraphEnergy",
    "IsingEnergy",
    "LayeredEnergy",
    "LayeredStructure",
    "OneHotRBMEnergy",
    "OrFactors",
    "PairwiseEnergy",
    "RBMEnergy",
    "SparseIsingEnergy",
    "TableFactors",
    "UAIProblem",
    "read_uai",
    "read_uai_evidence",
    "read_uai_query",
    "read_uai_solution",
    "write_uai_evidence",
    "write_uai_query",
    "write_uai_solution",
]
