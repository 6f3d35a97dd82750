"""Scale the whole score of a model by an inverse temperature."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np


class Tempered:
    """Base class of all energies; it defines the method `tempered`."""

    #: Names of the attributes, besides fields and couplings, that `tempered` must also scale.
    _constants: ClassVar[tuple[str, ...]] = ()

    def tempered(self, beta: float) -> Self:
        """Return the energy with its whole score multiplied by an inverse temperature `beta`.

        The weight of a state becomes ``exp(beta * score)``: fields, couplings, log-potentials and
        constants are multiplied by `beta`. States of weight 0 and the evidence do not change. The
        method `scaled`, by contrast, multiplies only the couplings and not the fields.

        Parameters
        ----------
        beta : float
            Inverse temperature, at least 0. With 0 all possible states are equally probable; with a
            large number the best states have nearly all of the probability.

        Returns
        -------
        BaseEnergy
            Energy of the same class with the same evidence.

        Raises
        ------
        ValueError
            If `beta` is negative or not finite.

        Examples
        --------
        >>> from skcrbm.energies import SparseIsingEnergy
        >>> from skcrbm.inference import infer
        >>> energy = SparseIsingEnergy.from_edges([[0, 1]], 0.5, [0.2, 0.0])
        >>> for beta in (0.0, 1.0, 5.0):
        ...     print(infer(energy.tempered(beta), "exact").marginals.round(3))
        [[0.5 0.5]]
        [[0.599 0.546]]
        [[0.881 0.876]]
        """
        if not (isinstance(beta, Real) and 0 <= beta < np.inf):
            raise ValueError(f"beta must be a finite number of at least 0, got {beta!r}")
        value = np.float64(beta)
        energy: Any = self
        scaled = energy.scaled(float(value))
        fields = (f * energy.dtype.type(value) for f in energy.fields)
        constants = {name: getattr(energy, name) for name in self._constants}
        other = scaled.with_fields(*fields)
        return other._copy_with(
            **{name: part * value for name, part in constants.items() if part is not None}
        )
