"""What searches for labels judge them by."""

import numpy as np


def hinge_losses_and_scores(signs, fields, coupling, margin):
    """Hinge losses (N,) and scores (N,) of labels (N, L) in {-1, +1}."""
    pull = signs @ coupling
    loss = np.maximum(margin - signs * (fields + pull), 0.0).sum(axis=1)
    return loss, (signs * (fields + 0.5 * pull)).sum(axis=1)
