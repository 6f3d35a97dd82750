"""Messages as the state of a method: what a later call goes on from."""

from typing import NamedTuple

import numpy as np

from skcrbm.utils.validation import kernel_array

# A log-odds may change by this many times the tolerance of the probabilities: below it, only
# beliefs beyond 0.999 are held back, whose log-odds the probabilities do not show.
_SLACK_PER_TOL = 1000.0
# Rounding of a sum of messages, in eps of the largest that it can become.
_SLACK_ROUNDING = 32.0


def convergence_slack(tol, norm, dtype):
    """Largest change of a belief log-odds of a model that has converged.

    Parameters
    ----------
    tol : float
        Largest change of a belief, as a probability.
    norm : float
        Largest |log-odds| that the messages to one unit can add up to.
    dtype : numpy dtype
    """
    return _SLACK_PER_TOL * tol + _SLACK_ROUNDING * float(np.finfo(dtype).eps) * norm


class Beliefs(NamedTuple):
    """The state of a method that goes on from its beliefs alone, such as mean field.

    Attributes
    ----------
    log_odds : ndarray (N, n_variables)
    """

    log_odds: np.ndarray


class Messages(NamedTuple):
    """Messages and beliefs of a batch of models.

    Attributes
    ----------
    method : str
        Name of the method that they are messages of.
    values : ndarray (N, V, H), (N, L, L) or (N, E)
        Messages visible -> hidden, k -> i in ``values[n, i, k]``, or factor -> variable.
    log_odds : ndarray (N, n_variables)
        Beliefs, finite; 0 where a variable was held.
    in_logs : bool
        Whether messages are log-odds, not odds.
    """

    method: str
    values: np.ndarray
    log_odds: np.ndarray
    in_logs: bool

    def values_for(self, rows, in_logs, dtype):
        """Return the messages of some models in the form that a kernel takes."""
        values = self.values[rows]
        if self.in_logs and not in_logs:
            with np.errstate(over="ignore"):  # kernels keep messages below their couplings
                values = np.exp(values)
        elif in_logs and not self.in_logs:
            values = np.log(values)
        with np.errstate(over="ignore"):
            return kernel_array(values, dtype)


def earlier_messages(query, method, shape, width):
    """Return the messages that a query starts from, None if there are none.

    Parameters
    ----------
    query : Query
    method : str
    shape : tuple
        Of the messages.
    width : int
        Number of variables.

    Raises
    ------
    ValueError
        If what it starts from has a state alone, and one that does not fit.
    """
    if query.start is None:
        return None
    state = query.start.state
    if (
        isinstance(state, Messages)
        and state.method == method
        and state.values.shape == shape
        and state.log_odds.shape == (shape[0], width)
    ):
        return state
    if query.start.log_odds is None:
        raise ValueError(
            f"init has a state and no log_odds; the state is not one of messages {shape} of "
            f"{method!r}"
        )
    return None
