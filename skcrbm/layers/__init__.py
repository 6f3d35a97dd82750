"""Options of `LayeredGMClassifier`: layers of categorical nodes, and clamping of the inputs."""

from skcrbm.layers.clamping import HardClamping
from skcrbm.layers.layers import Conv2d, Dense, Local2d, Skip

__all__ = ["Conv2d", "Dense", "HardClamping", "Local2d", "Skip"]
