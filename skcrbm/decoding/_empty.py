"""Rows in which a rule switches no label on, where the training rows say that some label is."""

import numpy as np


def with_a_label(labels, score, allow_empty):
    """Switch on, in each row without a label on, the one with the highest score.

    Parameters
    ----------
    labels : ndarray (N, L) of 0/1
        Left as it is.
    score : ndarray (N, L)
        -inf where a label cannot be on, such as one known to be off.
    allow_empty : bool
        Then, and with a single label, nothing is done.

    Returns
    -------
    ndarray (N, L) of 0/1
        Rows in which no label can be on are empty still. Among equals the first goes on.
    """
    n_labels = labels.shape[1]
    if allow_empty or n_labels < 2:
        return labels
    best = score.argmax(axis=1)
    rows = np.flatnonzero(~labels.any(axis=1) & (score[np.arange(len(score)), best] > -np.inf))
    labels = labels.copy()
    labels[rows, best[rows]] = 1
    return labels


def check_zero_division(value):
    """Raise a ValueError unless the value of a ratio 0 / 0 is 0 or 1."""
    if value not in (0, 1):
        raise ValueError(f"zero_division must be 0 or 1, got {value!r}")
