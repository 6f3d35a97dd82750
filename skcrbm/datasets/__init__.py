"""Loaders for the public data sets used in the structured-prediction literature.

Nothing is shipped with the package: the files are read from a folder of the user
(``data_home``) and, for four of the sets, fetched from OpenML when they are missing.
"""

from skcrbm.datasets._images import (
    load_caltech101_silhouettes,
    load_fashion_mnist,
    load_mnist,
)
from skcrbm.datasets._multilabel import load_mediamill, load_scene, load_yeast

__all__ = [
    "load_caltech101_silhouettes",
    "load_fashion_mnist",
    "load_mediamill",
    "load_mnist",
    "load_scene",
    "load_yeast",
]
