"""Count the work of a search, and say when it must end."""

from __future__ import annotations

import math
import time

# A slice of work is the share 1 / _SHARE of all work so far, but at least _LEAST and at most _MOST
# nodes, which take some hundredths of a second. So a search ends soon after it reaches a limit.
_SHARE, _LEAST, _MOST = 16, 2**10, 2**17


class Budget:
    """The numbers of nodes and seconds that a search may use; None means no limit.

    `begun` is the time at which the seconds begin, by `time.monotonic`. None: now.

    Attributes
    ----------
    used : int
        Number of nodes used so far.
    """

    def __init__(self, nodes: int | None, seconds: float | None, begun: float | None = None):
        self.used = 0
        self.timed = seconds is not None
        self._nodes = math.inf if nodes is None else nodes
        begun = time.monotonic() if begun is None else begun
        self._end = math.inf if seconds is None else begun + seconds

    @property
    def slice(self) -> int:
        """Number of nodes of a slice of work; it depends on the work so far alone."""
        return min(_MOST, max(_LEAST, self.used // _SHARE))

    @property
    def seconds(self) -> float:
        """Number of seconds that are left."""
        return self._end - time.monotonic()

    @property
    def stopped_by(self) -> str:
        """The limit that is reached, "max_nodes" or "time_limit", or "" if the search may go on."""
        if self.used >= self._nodes:
            return "max_nodes"
        return "time_limit" if self.timed and self.seconds <= 0 else ""
