"""What the methods share that bound the maximum of models of pairs."""

from typing import ClassVar

from skcrbm.inference._base import InferenceMethod


class PairMaximiser(InferenceMethod):
    """Base of methods for models without terms of more than two variables."""

    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")
    restriction: ClassVar = "it takes tables of one or two variables, and no OR or AND"

    def supports(self, energy):
        """Return what this method answers; nothing if the energy has larger factors."""
        return super().supports(energy) if energy.is_pairwise else frozenset()
