"""The label sets seen in training: those that agree with what is known, and the best one."""

import numpy as np

from skcrbm.utils.indicator import distinct_rows
from skcrbm.utils.limits import BLOCK_ENTRIES
from skcrbm.utils.parallel import row_chunks

# Lower than the score of any label set, but higher than that of one that is impossible.
_LAST = np.finfo(np.float64).min


def weighted_label_sets(posterior, hidden):
    """Go through the rows with the label sets that they can choose from.

    Known outputs restrict the sets to those that agree with them. Where none does, all
    sets compete with the known outputs written over them.

    Parameters
    ----------
    posterior : Posterior
    hidden : {"marginal", "max"}
        Whether a score sums the hidden units out or takes their best values.

    Yields
    ------
    rows : slice or list of int
    sets : ndarray (K, V) of 0/1
        Distinct.
    log_weight : ndarray (len(rows), K)
        ``-F(v | x)``, and -inf where a set contradicts what is known. One per row is finite.
    """
    sets, known, energy = posterior.label_sets, posterior.known, posterior.energy
    if not len(sets):
        raise ValueError("there are no label sets to choose from: no row of y was complete in fit")
    for rows in row_chunks(energy.n_models, max(1, BLOCK_ENTRIES // max(1, len(sets)))):
        score = energy.rows(rows).log_weight_of_sets(sets, hidden)
        if known is None:
            yield rows, sets, score
            continue
        given = known[rows]
        contradicts = (given == 1) @ (1.0 - sets).T + (given == 0) @ sets.astype(float).T > 0
        score[contradicts] = -np.inf
        none_left = contradicts.all(axis=1)
        index = np.arange(rows.start, rows.stop)
        if not none_left.all():
            yield index[~none_left], sets, score[~none_left]
        for row in index[none_left]:
            overwritten = np.where(np.isnan(known[row]), sets, known[row])
            candidates = distinct_rows(overwritten)
            yield [row], candidates, energy.rows([row]).log_weight_of_sets(candidates, hidden)


def decode_label_set(posterior):
    """Best score over the label sets of the training data, ``-F(v | x)``: no inference.

    Where the empty vector is excluded, it is only chosen if no other agrees with what is known.

    Parameters
    ----------
    posterior : Posterior

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    result = np.empty((posterior.energy.n_models, posterior.label_sets.shape[1]), np.int8)
    for rows, sets, log_weight in weighted_label_sets(posterior, posterior.hidden):
        if not posterior.allow_empty:
            log_weight = np.where(sets.any(axis=1), log_weight, np.fmin(log_weight, _LAST))
        result[rows] = sets[log_weight.argmax(axis=1)]
    return result
