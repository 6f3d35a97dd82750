"""Density estimators: a Boltzmann machine of the columns of X, without a y."""

from skcrbm.density._ising import IsingModel
from skcrbm.density._markov import MarkovRandomField
from skcrbm.density._rbm import RBM

__all__ = ["RBM", "IsingModel", "MarkovRandomField"]
