"""The kinds of y, their encoding as 0/1 visible units, and the way back to labels and scores.

`kinds.make_targets` finds out which kind a y is; for `images.make_image_targets` a 2-D y holds
flat images. All behaviour that depends on the kind is a method of the targets, so that
classifiers need not ask. `kinds.TargetsMixin` is the base of all classifiers.
"""
