"""scikit-learn compatible Boltzmann-machine models for structured prediction."""

from skcrbm._version import __version__

__all__ = [
    "MSSVMCRBM",
    "CRBMClassifier",
    "DecodedClassifier",
    "LMBMClassifier",
    "LayeredGMClassifier",
    "__version__",
]


def __getattr__(name):
    # Estimators load scikit-learn and, on first use, Numba: not before they are asked for.
    if name in __all__:
        from skcrbm import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'skcrbm' has no attribute {name!r}")


def __dir__():
    return __all__
