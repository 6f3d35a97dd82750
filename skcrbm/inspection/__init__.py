"""Plots of fitted estimators and of inference results."""

from skcrbm.inspection._convergence import ConvergenceDisplay
from skcrbm.inspection._label_dependency import LabelDependencyDisplay

__all__ = ["ConvergenceDisplay", "LabelDependencyDisplay"]
