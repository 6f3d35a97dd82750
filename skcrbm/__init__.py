"""Multi-label classification and structured prediction for scikit-learn."""

from importlib import import_module

from skcrbm._version import __version__
from skcrbm.utils.advice import SUPPORT

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
    "__version__",
    "grid_graph",
    "region_graph",
]


_SUBPACKAGES = (
    "annotation",
    "calibration",
    "compile",
    "constraints",
    "datasets",
    "decoding",
    "density",
    "energies",
    "ensemble",
    "exceptions",
    "inference",
    "inspection",
    "layers",
    "learning",
    "metrics",
    "model_selection",
    "pipeline",
)


# Messages of the low parts of the package name these estimators.
_MISSING = "CRBMClassifier", "MSSVMCRBM", "LMBMClassifier", "LabelGraphCRF", "LayeredGMClassifier"
_STACK = "a stack from skcrbm.ensemble.make_stacked"
_TREES = "DecodedClassifier(OneVsRestClassifier(HistGradientBoostingClassifier()))"
SUPPORT.update(
    {
        "columns of classes": ("CRBMClassifier", "LabelGraphCRF"),
        "any columns of classes": ("LabelGraphCRF",),
        "images": ("ImageCRBM",),
        "images of classes": ("GridCRF",),
        "known labels": ("CRBMClassifier", "MSSVMCRBM", "LMBMClassifier"),
        "missing features": (_TREES,),
        "missing labels": (*_MISSING, _STACK),
        "new labels": ("CRBMClassifier", "MSSVMCRBM"),
        "weights of single labels": (*_MISSING, _STACK),
    }
)


def __getattr__(name):
    # Import on first use, because these modules import scikit-learn, which takes time.
    if name in _SUBPACKAGES:
        return import_module(f"skcrbm.{name}")
    if name in __all__:
        return getattr(import_module("skcrbm.estimators"), name)
    raise AttributeError(f"module 'skcrbm' has no attribute {name!r}")


def __dir__():
    return [*__all__, *_SUBPACKAGES]
