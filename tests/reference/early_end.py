"""The warning that training ended at `max_iter`, for tests of others that use few epochs."""

EARLY_END = "Training ended after max_iter="


def others(record):
    """Return the recorded warnings without those about an early end."""
    return [warning for warning in record if not str(warning.message).startswith(EARLY_END)]
