"""The protocol that every energy follows.

An energy is a batch of N models ``p(s) ∝ exp(-E(s))`` that share their couplings
and differ in their *fields* (the terms linear in one variable). Inputs x,
loss augmentation, perturbation noise and clamps all act on the fields alone, so
one signature carries every learner and every inference method.
"""

import copy
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

#: Field that switches a variable off for good. Finite, so that 0 * field is 0;
#: exp of it, or of it plus any real field, is exactly 0 in both dtypes.
PINNED_OFF = -1e30


class Conditioned(NamedTuple):
    """An energy whose clamped variables have been folded into the fields of the others.

    Attributes
    ----------
    energy : BaseEnergy
        Same shape as before; clamped variables are pinned off and send nothing.
    values : ndarray (N, n_variables)
        The clamped values, 0 where free.
    clamped : ndarray of bool (N, n_variables)
    offset : ndarray (N,) float64
        Log-weight of the clamped part, to be added to log Z.
    """

    energy: "BaseEnergy"
    values: np.ndarray
    clamped: np.ndarray
    offset: np.ndarray


class BaseEnergy(ABC):
    """A batch of models that share couplings; see the module's text.

    Subclasses store arrays of one floating dtype, C-contiguous, and define the
    members below.
    """

    #: What `infer` may be asked about this kind of energy.
    queries = frozenset({"marginals", "pairwise", "log_partition", "map", "marginal_map"})

    @property
    @abstractmethod
    def fields(self):
        """Tuple of (N, ...) arrays, the part of the energy that differs from row to row."""

    @property
    @abstractmethod
    def n_variables(self):
        """Number of variables of one model."""

    @property
    @abstractmethod
    def pairwise_shape(self):
        """Shape of one model's pairwise probabilities."""

    @abstractmethod
    def with_fields(self, *fields):
        """Return the same couplings with other fields (same shapes but for N)."""

    @abstractmethod
    def condition(self, clamp):
        """Return the `Conditioned` energy given clamp (N, n_variables), NaN = free."""

    @abstractmethod
    def clamped_pairs(self, values, free):
        """Pairwise probabilities in which a clamped variable takes part.

        Parameters
        ----------
        values, free : ndarray (N, n_variables)
            The clamped values, 0 where free; the marginals, 0 where clamped.

        Returns
        -------
        tuple of (left, right)
            Each stands for the products ``left[:, :, None] * right[:, None, :]``, which are
            to be added.
        """

    def marginal_modes(self, log_odds):
        """0/1 outputs (N, V) of belief log-odds (N, V), ties on."""
        return (log_odds >= 0).astype(np.int8)

    @property
    def n_models(self):
        """Number of models N in the batch."""
        return self.fields[0].shape[0]

    @property
    def dtype(self):
        """The floating dtype of all arrays."""
        return self.fields[0].dtype

    def rows(self, index):
        """Return the models of the given rows, sharing the couplings."""
        return self.with_fields(*(f[index] for f in self.fields))

    def _copy_with(self, **attributes):
        other = copy.copy(self)
        other.__dict__.update(attributes)
        return other
