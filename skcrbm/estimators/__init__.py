"""Public classifiers. Each classifier has its own file; the base classes are in `_base.py`."""

from skcrbm.estimators._chain_crf import ChainCRF
from skcrbm.estimators._crbm import CRBMClassifier
from skcrbm.estimators._decoded import DecodedClassifier
from skcrbm.estimators._graph_crf import GraphCRF
from skcrbm.estimators._grid_crf import GridCRF
from skcrbm.estimators._image_crbm import ImageCRBM
from skcrbm.estimators._label_graph_crf import LabelGraphCRF
from skcrbm.estimators._layered_gm import LayeredGMClassifier
from skcrbm.estimators._lmbm import LMBMClassifier
from skcrbm.estimators._mssvm import MSSVMCRBM
from skcrbm.estimators._ssvm import SSVMClassifier
from skcrbm.targets.graphs import Graph, grid_graph, region_graph

__all__ = [
    "MSSVMCRBM",
    "CRBMClassifier",
    "ChainCRF",
    "DecodedClassifier",
    "Graph",
    "GraphCRF",
    "GridCRF",
    "ImageCRBM",
    "LMBMClassifier",
    "LabelGraphCRF",
    "LayeredGMClassifier",
    "SSVMClassifier",
    "grid_graph",
    "region_graph",
]
