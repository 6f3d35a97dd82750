"""The one number that `random_state` decides, from which all draws of a call follow."""

import numpy as np
from sklearn.utils import check_random_state


def random_key(random_state):
    """Draw the uint64 key of one call or fit from `random_state`."""
    return np.uint64(check_random_state(random_state).randint(2**63 - 1, dtype=np.int64))
