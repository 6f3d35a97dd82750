"""Plots of fitted estimators, of labels and of inference results."""

from skcrbm.inspection._confusion import LabelConfusionDisplay
from skcrbm.inspection._convergence import ConvergenceDisplay
from skcrbm.inspection._graph import GraphDisplay
from skcrbm.inspection._label_dependency import LabelDependencyDisplay
from skcrbm.inspection._label_sets import CooccurrenceDisplay, LabelSetsDisplay
from skcrbm.inspection._reliability import ReliabilityDisplay
from skcrbm.inspection._training import TrainingCurveDisplay

__all__ = [
    "ConvergenceDisplay",
    "CooccurrenceDisplay",
    "GraphDisplay",
    "LabelConfusionDisplay",
    "LabelDependencyDisplay",
    "LabelSetsDisplay",
    "ReliabilityDisplay",
    "TrainingCurveDisplay",
]
