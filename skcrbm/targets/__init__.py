"""What y may be: its encoding as 0/1 visible units, and the way back to labels and scores.

`make_targets` finds out which of the three kinds a y is; for `make_image_targets` a 2-D y is flat
images. Whatever depends on the kind is a method of its object, so that classifiers need not ask
which one they have.
"""

from skcrbm.targets._base import Targets
from skcrbm.targets._classes import BinaryTargets, MulticlassTargets
from skcrbm.targets._images import ImageTargets, flat_images, make_image_targets
from skcrbm.targets._make import make_targets
from skcrbm.targets._mixin import TargetsMixin, label_output
from skcrbm.targets._multilabel import MultilabelTargets

__all__ = [
    "BinaryTargets",
    "ImageTargets",
    "MulticlassTargets",
    "MultilabelTargets",
    "Targets",
    "TargetsMixin",
    "flat_images",
    "label_output",
    "make_image_targets",
    "make_targets",
]
