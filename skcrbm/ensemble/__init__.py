"""Stacking: train a model on the predictions of forests, and blend its distribution with trees."""

from skcrbm.ensemble._blend import BlendedLabelSets
from skcrbm.ensemble._out_of_bag import OutOfBagLogOdds
from skcrbm.ensemble._stacked import make_stacked

__all__ = ["BlendedLabelSets", "OutOfBagLogOdds", "make_stacked"]
