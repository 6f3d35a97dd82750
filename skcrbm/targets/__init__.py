"""Targets: validate y, encode it as 0/1 visible units, and decode predictions in the form of y.

`kinds.make_targets` returns a `Targets` object for a given y. It distinguishes three kinds of y,
each with its own subclass of `Targets`: a 2-D matrix of labels, a vector of two classes, and a
vector of more classes. For images, call `images.make_image_targets`. All code that depends on the
kind of y is a method of the `Targets` object, so that classifiers need no case distinctions.
`kinds.TargetsMixin` is a base class of all classifiers.
"""
