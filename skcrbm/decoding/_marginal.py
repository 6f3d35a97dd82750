"""Each output on its own: the mode of its marginal."""


def decode_marginal(decoding):
    """Switch on the outputs with ``P(v_i = 1 | x) >= 0.5``: least expected Hamming loss.

    Parameters
    ----------
    decoding : Decoding

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    return decoding.energy.marginal_modes(decoding.log_odds())
