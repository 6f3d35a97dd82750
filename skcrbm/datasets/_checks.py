"""Checks of arguments that several generators share."""

from numbers import Integral


def check_size(name, value, least):
    """Return an int argument; ValueError unless it is an int of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}")
    return int(value)
