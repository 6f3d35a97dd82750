"""The most probable of the output vectors seen in training."""

import numpy as np


def decode_label_set(decoding):
    """Best score over the label sets of the training data, ``-F(v | x)``: no inference.

    Known outputs restrict the sets to those that agree with them. Where none does, all
    sets compete with the known outputs written over them.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    sets, known, energy = decoding.label_sets, decoding.known, decoding.energy
    score = energy.log_weight_of_sets(sets, decoding.hidden)
    if known is None:
        return sets[score.argmax(axis=1)]
    contradictions = (known == 1) @ (1.0 - sets).T + (known == 0) @ sets.astype(float).T
    score[contradictions > 0] = -np.inf
    result = sets[score.argmax(axis=1)]
    for row in np.flatnonzero((contradictions > 0).all(axis=1)):
        candidates = np.where(np.isnan(known[row]), sets, known[row])
        best = energy.rows([row]).log_weight_of_sets(candidates, decoding.hidden)[0].argmax()
        result[row] = candidates[best]
    return result
