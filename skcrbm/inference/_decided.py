"""Variables that their field alone decides: they are held while the others are inferred.

Beside a field of 1e16, what tells the states of the other variables apart is lost in the rounding
of a sum. Where no coupling can turn a variable, it need not be in any sum.
"""

import numpy as np

from skcrbm.utils.limits import LARGE_FIELD, UNDECIDED_FIELD

# Times all that couplings can do: what is left is large enough to be certain.
_OUTWEIGHS = 2.0


class MagnitudeError(ValueError):
    """A field or coupling is larger than what `infer` takes, or not finite."""


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

    Raises
    ------
    MagnitudeError
        If a large field does not decide its variable, and would hide everything else.
    """
    if largest < LARGE_FIELD:
        return energy, None, None
    log_odds, influence = energy.own_log_odds()
    decided = energy.free & (np.abs(log_odds) >= np.maximum(LARGE_FIELD, _OUTWEIGHS * influence))
    lost = energy.free & ~decided & energy.lost_beside()
    if lost.any():
        n, i = np.argwhere(lost)[0]
        raise MagnitudeError(
            f"energy has a field beyond {UNDECIDED_FIELD:.0e} in magnitude, of variable {i} of "
            f"model {n}, that does not decide the variable: weights of 0, or other states of its "
            "node, do, and beside it nothing else can be told apart. Hold the variable by clamp "
            "instead"
        )
    if not decided.any():
        return energy, None, None
    return energy.condition(np.where(decided, log_odds > 0, np.nan)), decided, log_odds
