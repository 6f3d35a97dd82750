"""Density estimators: Boltzmann machines that learn the distribution of the columns of X."""

from skcrbm.density._clauses import ClauseCliques, from_clauses
from skcrbm.density._ising import IsingModel
from skcrbm.density._large_margin import LargeMarginMarkovNetwork
from skcrbm.density._markov import MarkovRandomField
from skcrbm.density._rbm import RBM

__all__ = [
    "RBM",
    "ClauseCliques",
    "IsingModel",
    "LargeMarginMarkovNetwork",
    "MarkovRandomField",
    "from_clauses",
]
