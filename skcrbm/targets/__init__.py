"""Targets: validate y, encode it as 0/1 visible units, and decode predictions in the form of y.

`kinds.make_targets` returns a `Targets` object for a given y, of a class for 2-D labels, for two
classes, or for more classes. For images, call `images.make_image_targets`. All code that depends on
the kind of y is a method of this object, so that classifiers need no case distinctions.
`kinds.TargetsMixin` is a base class of all classifiers.
"""
