"""Registries: a name, and where the thing behind it lives."""

import difflib
from importlib import import_module


class Registry:
    """Names mapped to ``"module:attribute"`` locations that are imported on first use.

    Adding an entry is one file and one line.

    Parameters
    ----------
    kind : str
        What the entries are and the argument that takes them, for error messages.
    locations : dict of str to str
    """

    def __init__(self, kind, locations):
        self.kind = kind
        self.locations = dict(locations)

    def __iter__(self):
        return iter(self.locations)

    def __contains__(self, name):
        return name in self.locations

    def register(self, name, location):
        """Add an entry of another package; ValueError if the name stands for something else."""
        if self.locations.get(name, location) != location:
            raise ValueError(f"{name!r} is taken: it is {self.locations[name]}")
        self.locations[name] = location

    def names(self):
        """Names in the order of registration."""
        return list(self.locations)

    def get(self, name, argument=None, able=None):
        """Return the thing behind `name`; ValueError naming what there is otherwise.

        Parameters
        ----------
        name : str
        argument : str, default=None
            Name of the argument that took it, `kind` by default.
        able : callable, default=None
            Returns the names that work where this one was given, all by default.
        """
        if not isinstance(name, str) or name not in self.locations:
            names = self.names() if able is None else able()
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{argument or self.kind} must be one of {', '.join(map(repr, names))}; "
                f"got {name!r}.{hint}"
            )
        module, _, attribute = self.locations[name].partition(":")
        return getattr(import_module(module), attribute)
