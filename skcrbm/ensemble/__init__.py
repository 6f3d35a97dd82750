"""Stacking: predictions of other classifiers as inputs."""

from skcrbm.ensemble._out_of_bag import OutOfBagLogOdds

__all__ = ["OutOfBagLogOdds"]
