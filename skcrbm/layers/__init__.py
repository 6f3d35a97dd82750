"""Layers of categorical nodes for `LayeredGMClassifier`: descriptions, without fitted state."""

from skcrbm.layers._layers import Conv2d, Dense, Layer, Local2d

__all__ = ["Conv2d", "Dense", "Layer", "Local2d"]
