"""Errors and warnings that users may want to catch."""

__all__ = ["DataFileError"]


class DataFileError(ValueError, OSError):
    """A data file or its folder is damaged, not the expected one, or cannot be read.

    The message begins with the path. Files that are not there raise `FileNotFoundError` instead.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skcrbm.datasets import load_scene
    >>> from skcrbm.exceptions import DataFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = Path(folder, "scene.npz").write_bytes(b"no archive")
    ...     try:
    ...         load_scene(data_home=folder)
    ...     except DataFileError as error:
    ...         print("is not the expected file" in str(error))
    True
    """
