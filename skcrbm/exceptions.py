"""Exceptions and warnings that users may want to catch."""

from sklearn import exceptions

__all__ = ["DataFileError", "InaccurateInferenceWarning", "InconsistentVersionWarning"]


class DataFileError(ValueError, OSError):
    """Error raised if a data file or folder is damaged, unexpected, or cannot be read.

    The message begins with the path. Missing files raise a `FileNotFoundError` instead.

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


class InaccurateInferenceWarning(UserWarning):
    """Warning that messages have converged to marginals that are probably wrong.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.exceptions import InaccurateInferenceWarning
    >>> from skcrbm.inference import infer
    >>> frustrated = IsingEnergy(-1.0 * (1 - np.eye(4)), [[0.3, 0.1, -0.2, 0.1]])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = infer(frustrated, "sum_product", damping=0.5, max_iter=1000)
    >>> [warning.category is InaccurateInferenceWarning for warning in caught]
    [True]
    """


class InconsistentVersionWarning(exceptions.InconsistentVersionWarning):
    """Warning that a loaded object was saved by another version of skcrbm.

    This is a subclass of scikit-learn's warning of the same name. If the saved object lacks an
    attribute that the running version needs, loading raises a ValueError instead.

    Parameters
    ----------
    estimator_name : str
        Name of the class of the saved object, which may be an estimator or another object.
    current_version : str
        Version of skcrbm that loads the object.
    original_version : str
        Version of skcrbm that saved the object.

    Examples
    --------
    >>> import pickle, warnings
    >>> from skcrbm import LMBMClassifier
    >>> from skcrbm.exceptions import InconsistentVersionWarning
    >>> model = LMBMClassifier()
    >>> state = {**model.__getstate__(), "_skcrbm_version": "0.0.1"}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", InconsistentVersionWarning)
    ...     try:
    ...         model.__setstate__(state)
    ...     except InconsistentVersionWarning as warning:
    ...         print(warning.original_version)
    0.0.1
    """

    def __init__(self, *, estimator_name, current_version, original_version):
        self.estimator_name = estimator_name
        self.current_version = current_version
        self.original_version = original_version

    def __str__(self):
        return (
            f"{self.estimator_name} was saved by skcrbm {self.original_version} and is loaded by "
            f"skcrbm {self.current_version}. Its results may be different or wrong."
        )
