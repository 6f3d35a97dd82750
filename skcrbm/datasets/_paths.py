"""Where the data files live."""

import os
import sys
from pathlib import Path

from skcrbm.exceptions import DataFileError

ENV_VARIABLE = "SKCRBM_DATA"


def user_cache():
    """Return the folder in which this platform keeps the caches of a user."""
    if sys.platform == "win32":
        variable, default = "LOCALAPPDATA", Path("AppData", "Local")
    elif sys.platform == "darwin":
        variable, default = None, Path("Library", "Caches")
    else:
        variable, default = "XDG_CACHE_HOME", Path(".cache")
    value = os.environ.get(variable) if variable else None
    return Path(value) if value else Path.home() / default


def find_data_home(data_home=None):
    """Return the folder of the data files and a word on how it was chosen."""
    named = os.environ.get(ENV_VARIABLE)
    try:
        if data_home is not None:
            return Path(data_home).expanduser(), "argument data_home"
        if named:
            return Path(named).expanduser(), f"environment variable {ENV_VARIABLE}"
        return user_cache() / "skcrbm", "user cache folder"
    except (RuntimeError, TypeError) as error:  # no such user, no home, no path
        folder = named or "the user cache folder" if data_home is None else data_home
        raise DataFileError(
            f"{folder!r} does not lead to a folder of data files: {error}. Name one with data_home "
            f"or the environment variable {ENV_VARIABLE}."
        ) from error
