"""Variables that their field alone decides: they are held while the others are inferred.

Beside a field of 1e16, what tells the states of the other variables apart is lost in the rounding
of a sum. Where no coupling can turn a variable, it need not be in any sum.
"""

import numpy as np

from skcrbm.utils.limits import LARGE_FIELD

# Times all that couplings can do: their part in the log-odds is not even seen in a float32.
_OUTWEIGHS = 2.0**20


def hold_decided(energy, largest):
    """Return an energy with large fields that decide their variable as evidence.

    Parameters
    ----------
    energy : BaseEnergy
    largest : float
        Largest magnitude of its fields.

    Returns
    -------
    energy : BaseEnergy
    decided : ndarray (N, n_variables) of bool, or None
        Which variables are held in addition; None if there are none.
    log_odds : ndarray (N, n_variables), or None
        Theirs, by their fields alone.
    """
    if largest < LARGE_FIELD:
        return energy, None, None
    log_odds, influence = energy.own_log_odds()
    decided = energy.free & (np.abs(log_odds) >= np.maximum(LARGE_FIELD, _OUTWEIGHS * influence))
    if not decided.any():
        return energy, None, None
    return energy.condition(np.where(decided, log_odds > 0, np.nan)), decided, log_odds
