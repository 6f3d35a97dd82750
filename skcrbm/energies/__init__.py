"""Energy functions: what a model is, apart from how it is inferred or learned."""

from skcrbm.energies._base import QUERIES, BaseEnergy
from skcrbm.energies._cliques import clique_energy, label_energy
from skcrbm.energies._conditional import ConditionalRBM, CRBMParams
from skcrbm.energies._densities import (
    DenseIsingModel,
    IsingParams,
    RBMModel,
    RBMParams,
    SparseIsingModel,
    TableModel,
    TableParams,
)
from skcrbm.energies._factor_graph import FactorGraphEnergy
from skcrbm.energies._factors import AndFactors, OrFactors, TableFactors
from skcrbm.energies._graph import LogicGroup, TableGroup
from skcrbm.energies._input_code import InputCode, check_thresholds
from skcrbm.energies._ising import IsingEnergy
from skcrbm.energies._layered import FittedLayer, LayeredModel
from skcrbm.energies._layered_energy import LayeredEnergy
from skcrbm.energies._layered_structure import Connection, LayeredParams, LayeredStructure
from skcrbm.energies._one_hot import OneHotRBMEnergy
from skcrbm.energies._pairwise import PairwiseEnergy
from skcrbm.energies._rbm import RBMEnergy
from skcrbm.energies._sparse_ising import Neighbours, SparseIsingEnergy

__all__ = [
    "QUERIES",
    "AndFactors",
    "BaseEnergy",
    "CRBMParams",
    "ConditionalRBM",
    "Connection",
    "DenseIsingModel",
    "FactorGraphEnergy",
    "FittedLayer",
    "InputCode",
    "IsingEnergy",
    "IsingParams",
    "LayeredEnergy",
    "LayeredModel",
    "LayeredParams",
    "LayeredStructure",
    "LogicGroup",
    "Neighbours",
    "OneHotRBMEnergy",
    "OrFactors",
    "PairwiseEnergy",
    "RBMEnergy",
    "RBMModel",
    "RBMParams",
    "SparseIsingEnergy",
    "SparseIsingModel",
    "TableFactors",
    "TableGroup",
    "TableModel",
    "TableParams",
    "check_thresholds",
    "clique_energy",
    "label_energy",
]
