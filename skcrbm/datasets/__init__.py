"""Readers of data files, loaders of public data sets, and generators of data and graphical models.

`read_arff`, `read_csv` and `read_svmlight` read your own multi-label files. The package ships no
data, so the loaders read published data sets from a folder of the user (``data_home``). If the
file of Scene, Yeast, MNIST or Fashion-MNIST is missing, its loader fetches the file from OpenML.
"""

from skcrbm.datasets._arff import read_arff
from skcrbm.datasets._corruption import flip_pixels, occlude_patch
from skcrbm.datasets._graphical import (
    make_ising_lattice,
    make_random_factor_graph,
    make_random_ising,
    make_structured_sequences,
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
from skcrbm.datasets._own_files import read_csv, read_svmlight
from skcrbm.datasets._structured import make_structured_labels

__all__ = [
    "flip_pixels",
    "load_caltech101_silhouettes",
    "load_fashion_mnist",
    "load_mediamill",
    "load_mnist",
    "load_mulan",
    "load_scene",
    "load_yeast",
    "make_ising_lattice",
    "make_random_factor_graph",
    "make_random_ising",
    "make_structured_labels",
    "make_structured_sequences",
    "occlude_patch",
    "read_arff",
    "read_csv",
    "read_svmlight",
]
