"""One step of a learning rule from a new state."""

from skcrbm.learning.data import Clock


def first_step(objective, model, batch, epoch=0, key=None):
    """Return the `Step` of a batch that is the first one of its rows."""
    state = objective.start(int(batch.index.max()) + 1)
    return objective.step(model, batch, Clock(epoch, 0, key), state)[0]
