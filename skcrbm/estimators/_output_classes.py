"""Support for a y whose columns hold classes, in classifiers that predict by a conditional RBM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skcrbm.decoding.rules import resolve_decoder
from skcrbm.estimators._rbm import RBMClassifier
from skcrbm.inference import Exact
from skcrbm.inference.base import resolve_method
from skcrbm.targets.multioutput import make_unit_targets
from skcrbm.utils.limits import AUTO_EXACT_UNITS, ESTIMATOR_TOL
from skcrbm.utils.output_units import OutputUnits

# Names of the decoding rules for a y whose columns hold classes.
_RULES_OF_CLASSES = ("marginal", "marginal_map", "map")


class OutputClassesMixin(RBMClassifier):
    """Mixin of classifiers that also take a y whose columns hold classes, as `UnitTargets`."""

    _targets: Any

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def _units(self) -> OutputUnits | None:
        """Units of the outputs if the columns of y hold classes, else None."""
        return getattr(self._targets, "units", None)

    @property
    def _exclusive(self) -> bool | np.ndarray:
        """True for units that are classes of an output, of which one is on: a bool, or (V,)."""
        return self._targets.one_hot if self._units is None else self._units.exclusive

    @property
    def _n_output_bits(self) -> int:
        """Number of bits that count all label vectors, or vectors of classes."""
        units = self._units
        return self._targets.n_visible if units is None else math.ceil(units.log2_vectors)

    def _make_targets(self, y, classes):
        return make_unit_targets(y, classes, self)

    def _check_decode(self) -> None:
        """Raise a ValueError if the decoding rule is not possible for this y."""
        if self._units is not None:
            resolve_decoder(self._decoding_rule(), possible=_RULES_OF_CLASSES)

    def _posterior_options(self) -> dict[str, Any]:
        if self._units is None:
            return super()._posterior_options()
        # Neither search is followed by flips of single units, which could leave the possible states
        large = self._n_output_bits > AUTO_EXACT_UNITS and self.n_hidden_ > AUTO_EXACT_UNITS
        options = {"n_restarts": 10, "max_iter": 50, "tol": ESTIMATOR_TOL, "random_state": 0}
        best = resolve_method("max_product").with_options(**options) if large else Exact()
        return {"state_methods": {"map": best, "marginal_map": Exact()}}

    def _labels(self, posterior):
        self._check_decode()
        return super()._labels(posterior)
