"""Targets: validate y, encode it as 0/1 visible units, and decode predictions in the form of y.

A `Targets` object describes a y. `kinds.make_targets` distinguishes a 2-D matrix of labels, a
vector of two classes, and a vector of more classes; `multioutput.targets_of` also takes columns of
classes, and `images.make_image_targets` takes images. All code that depends on the kind of y is a
method of the `Targets` object, so that classifiers need no case distinctions.

`classifier.TargetsMixin` is a base class of all classifiers, and `wrapped.WrappingClassifier` of
classifiers around other classifiers. This part imports `skcrbm.utils` only.
"""
