"""Each output on its own: the mode of its marginal."""

from skcrbm.decoding._empty import with_a_label


def decode_marginal(posterior):
    """Switch on the outputs with ``P(v_i = 1 | x) >= 0.5``: least expected Hamming loss.

    Where there is none and the empty vector is excluded, the most probable one goes on.

    Parameters
    ----------
    posterior : Posterior

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    log_odds = posterior.log_odds()
    return with_a_label(posterior.energy.marginal_modes(log_odds), log_odds, posterior.allow_empty)
