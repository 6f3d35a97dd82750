"""What `verbose` prints: one live line, or a line for each step."""

import sys
import time

# A live line is written at most so often, in seconds: terminals are slow.
_PAUSE = 0.1


def say(verbose, line):
    """Print a line that stays, if anything is to be printed."""
    if verbose:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LiveLine:
    """How far a loop is.

    With ``verbose=1`` one line that is written over, with 2 or more a line for each step, with
    0 nothing.

    Parameters
    ----------
    verbose : bool or int
    unit : str, default=""
        What is counted.
    total : int or None, default=None
        Steps at most.
    first : int, default=0
        Steps done before, of an earlier call.
    """

    def __init__(self, verbose, unit="", total=None, first=0):
        self.verbose = int(verbose)
        self.unit, self.total, self.first = unit, total, first
        self._started = time.monotonic()
        self._written, self._text, self._last = 0, None, -_PAUSE

    def step(self, number, figures, seconds):
        """Tell of a step.

        Parameters
        ----------
        number : int
            0-based, counted with those before.
        figures : str
            What there is to tell, two spaces between.
        seconds : float
            What it took.
        """
        if self.verbose > 1:
            self.show(f"{self.unit} {number + 1}  {figures}  {seconds:.2f} s")
        elif self.verbose:
            done = number + 1 - self.first
            spent = max(time.monotonic() - self._started, 1e-9)
            text = f"{self.unit} {number + 1}"
            if self.total is not None:
                text += f"/{self.first + self.total}"
            text += f"  {_rate(done / spent)}  {figures}"
            if self.total is not None and done < self.total:
                text += f"  at most {_clock((self.total - done) * spent / done)} left"
            self.show(text)

    def show(self, text):
        """Write a text over the last one."""
        if self.verbose > 1:
            say(self.verbose, text)
        elif self.verbose:
            self._text = text
            if time.monotonic() - self._last >= _PAUSE:
                self._write()

    def end(self):
        """Leave the last text standing."""
        if self._text is not None:
            self._write()
        if self._written:
            say(True, "")
        self._written = 0

    def _write(self):
        sys.stdout.write("\r" + self._text.ljust(self._written))
        sys.stdout.flush()
        self._written, self._text, self._last = len(self._text), None, time.monotonic()


def _rate(per_second):
    if per_second >= 1:
        return f"{per_second:.0f}/s" if per_second >= 100 else f"{per_second:.3g}/s"
    return f"{1 / per_second:.3g} s each"


def _clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
