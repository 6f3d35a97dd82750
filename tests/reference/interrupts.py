"""Ctrl-C at a chosen line: a KeyboardInterrupt like a signal's, but at a known place."""

import dis
import functools
import linecache
import os
import sys
import types

import skcrbm

HERE = os.path.dirname(skcrbm.__file__) + os.sep


def count_lines(call, within=HERE):
    """Return how many lines of files `within` a folder `call()` runs in this thread."""
    return _traced(call, None, within)


def interrupted_at(call, line, within=HERE):
    """Call, raise KeyboardInterrupt at the line of that number (from 1); return if it was raised.

    Exceptions of the call are passed on, the interrupt too.
    """
    return _traced(call, line, within) >= line


def _traced(call, wanted, within):
    seen = 0

    def on_line(frame, event, _):
        nonlocal seen
        if event == "line" and frame.f_lasti not in _releases(frame.f_code):
            seen += 1
            if seen == wanted:
                sys.settrace(None)
                raise KeyboardInterrupt
        return on_line

    def on_call(frame, event, _):
        return on_line if frame.f_code.co_filename.startswith(within) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


@functools.cache
def _releases(code: types.CodeType):
    """Offsets at which a lock is about to be released: no signal is handled there."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    found = set()
    for k, step in enumerate(steps[:-3]):
        leaves = [(s.opname, s.argval) for s in steps[k : k + 3]] == [("LOAD_CONST", None)] * 3
        if step.starts_line and leaves:
            line = step.starts_line
            line = line if isinstance(line, int) and line is not True else step.line_number
            if "lock" in linecache.getline(code.co_filename, line):
                found.add(step.offset)
    return frozenset(found)
