"""Loaders for public data sets, corrupted and generated data, and graphical models.

No data is shipped with the package. Loaders read the files from a folder of the user
(``data_home``); missing files of four sets are fetched from OpenML.
"""

from skcrbm.datasets._corruption import flip_pixels, occlude_patch
from skcrbm.datasets._deconvolution import (
    deconvolution_energy,
    digit_contours,
    make_deconvolution,
)
from skcrbm.datasets._graphical import (
    make_ising_lattice,
    make_random_factor_graph,
    make_random_ising,
    make_structured_sequences,
    make_weighted_3sat,
)
from skcrbm.datasets._loaders import (
    load_caltech101_silhouettes,
    load_fashion_mnist,
    load_mediamill,
    load_mnist,
    load_mulan,
    load_scene,
    load_yeast,
)
from skcrbm.datasets._structured import make_structured_labels

__all__ = [
    "deconvolution_energy",
    "digit_contours",
    "flip_pixels",
    "load_caltech101_silhouettes",
    "load_fashion_mnist",
    "load_mediamill",
    "load_mnist",
    "load_mulan",
    "load_scene",
    "load_yeast",
    "make_deconvolution",
    "make_ising_lattice",
    "make_random_factor_graph",
    "make_random_ising",
    "make_structured_labels",
    "make_structured_sequences",
    "make_weighted_3sat",
    "occlude_patch",
]
