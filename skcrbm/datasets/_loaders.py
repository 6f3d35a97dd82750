"""Loaders of the data sets. A decorator inserts the docstring sections that loaders share."""

from __future__ import annotations

import os

from sklearn.utils import Bunch

from skcrbm.datasets import _specs
from skcrbm.datasets._mulan import load_mulan_files
from skcrbm.datasets._read import load
from skcrbm.utils.documentation import documented

_DATA_HOME = """\
data_home : str or path-like, default=None
    Folder that holds the data file. None means the folder in the environment variable
    ``SKCRBM_DATA`` if it is set, else the folder ``skcrbm`` in the cache folder of the user."""
_DOWNLOAD = """
download_if_missing : bool, default=True
    True to fetch a missing file from OpenML and keep it in `data_home`."""
_FORM = """
return_X_y : bool, default=False
    True to return ``(data, target)`` instead of a Bunch.
as_frame : bool, default=False
    True to return `data`, `target` and their parts as pandas objects with names of columns. The
    Bunch then also has a `frame` of both.
subset : {"all", "train", "test"}, default="all"
    Part of the published split that ``return_X_y=True`` returns; "all" returns all rows."""
_TUPLE = """\
(data, target) : tuple of ndarray or of pandas objects
    If ``return_X_y=True``."""
_RAISES = """\
FileNotFoundError
    If the file is missing and cannot or must not be fetched.
DataFileError
    If the file is damaged or not the expected file. It is a ValueError and an OSError."""
_FAILS = """
OSError
    If the download fails."""
_documented = documented(
    {
        "<download parameters>": _DATA_HOME + _DOWNLOAD + _FORM,
        "<parameters>": _DATA_HOME + _FORM,
        "<parameters with val>": _DATA_HOME + _FORM.replace('"train", ', '"train", "val", '),
        "<tuple>": _TUPLE,
        "<raises>": _RAISES,
        "<download raises>": _RAISES + _FAILS,
    }
)


# ------------------------------------------------------------------- multi-label sets


@_documented
def load_scene(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    subset: str = "all",
) -> Bunch | tuple:
    """Load Scene: 2407 photographs, 294 features, 6 labels.

    The split is the published split (1211 train, 1196 test rows). If ``scene.npz`` is missing, the
    data is fetched from OpenML and split by position. The loader then compares the labels with the
    published split, writes the result into ``DESCR``, and warns if they differ.

    Parameters
    ----------
    <download parameters>

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` of shape (2407, 294), float32, and `target` of shape (2407, 6), int64 0/1 labels,
        train rows first; the views `X_train`, `X_test`, `y_train`, `y_test`; `feature_names`,
        `label_names`, `DESCR` and `filename`.
    <tuple>

    Raises
    ------
    <download raises>

    Examples
    --------
    >>> from skcrbm.datasets import load_scene
    >>> scene = load_scene()  # doctest: +SKIP
    >>> scene.X_train.shape, scene.y_train.shape  # doctest: +SKIP
    ((1211, 294), (1211, 6))
    """
    return load(_specs.SCENE, data_home, return_X_y, as_frame, subset, download_if_missing)


@_documented
def load_yeast(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    subset: str = "all",
) -> Bunch | tuple:
    """Load Yeast: 2417 genes, 103 features, 14 labels.

    The split is the published split (1500 train, 917 test rows). If ``yeast.npz`` is missing, the
    data is fetched from OpenML and split by position. The loader then compares the labels with the
    published split, writes the result into ``DESCR``, and warns if they differ.

    Parameters
    ----------
    <download parameters>

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` of shape (2417, 103), float32, and `target` of shape (2417, 14), int64 0/1 labels,
        train rows first; the views `X_train`, `X_test`, `y_train`, `y_test`; `feature_names`,
        `label_names`, `DESCR` and `filename`.
    <tuple>

    Raises
    ------
    <download raises>

    Examples
    --------
    >>> from skcrbm.datasets import load_yeast
    >>> X, y = load_yeast(return_X_y=True, subset="train")  # doctest: +SKIP
    >>> X_test, y_test = load_yeast(return_X_y=True, subset="test")  # doctest: +SKIP
    >>> y_test.shape  # doctest: +SKIP
    (917, 14)
    """
    return load(_specs.YEAST, data_home, return_X_y, as_frame, subset, download_if_missing)


@_documented
def load_mediamill(
    *,
    variant: str = "full",
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    subset: str = "all",
) -> Bunch | tuple:
    """Load Mediamill: 43907 video shots, 120 features, 101 labels.

    This loader cannot download the set. Take the ARFF files of the full set from the data set
    collection of the Mulan library, and convert them into a file ``mediamill.npz`` with the arrays
    ``X_train`` (30993, 120), ``Y_train`` (30993, 101), ``X_test`` (12914, 120), ``Y_test`` (12914,
    101), ``feature_names`` and ``label_names``.

    Parameters
    ----------
    variant : {"full", "sample"}, default="full"
        Set to load. "sample" reads ``mediamill_reduced.npz``, a published sample of 1500 + 500 rows
        from the test part of the full set. Results on the sample must not be reported as Mediamill
        results.
    <parameters>

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` (float32) and `target` (int64 0/1 labels), train rows first; the views `X_train`,
        `X_test`, `y_train`, `y_test`; `feature_names`, `label_names`, `DESCR` and `filename`.
    <tuple>

    Raises
    ------
    ValueError
        If `variant` or `subset` is unknown.
    <raises>

    Examples
    --------
    >>> from skcrbm.datasets import load_mediamill
    >>> sample = load_mediamill(variant="sample")  # doctest: +SKIP
    >>> sample.data.shape, sample.target.shape  # doctest: +SKIP
    ((2000, 120), (2000, 101))
    """
    variants = {"full": _specs.MEDIAMILL, "sample": _specs.MEDIAMILL_SAMPLE}
    if not isinstance(variant, str) or variant not in variants:
        raise ValueError(f"variant should be one of {sorted(variants)}, got {variant!r}")
    return load(variants[variant], data_home, return_X_y, as_frame, subset)


@_documented
def load_mulan(
    name: str,
    *,
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    subset: str = "all",
) -> Bunch | tuple:
    """Load a multi-label set of the Mulan library from files in ``data_home``.

    Any set of Mulan can be loaded if its files are in ``data_home``, or in its subfolder `name`:
    ``NAME-train.arff`` and ``NAME-test.arff`` (``NAME.arff`` if the set has no split), and the
    label file ``NAME.xml``. A set in the table may also be a file ``NAME.npz``. The sizes and
    labels of the sets in the table are compared with the published set.

    ========== ===== ======== ====== ==================================================
    name       rows  features labels rows are
    ========== ===== ======== ====== ==================================================
    emotions   593   72       6      songs, with moods
    birds      645   260      19     recordings, with species; 294 rows have no label
    medical    978   1449     45     reports as 0/1 words, with codes of diagnoses
    enron      1702  1001     53     messages as 0/1 words, with topics
    genbase    662   1185     27     proteins as 0/1 motifs, with families
    cal500     502   68       174    songs, with moods, genres, instruments, uses
    ========== ===== ======== ====== ==================================================

    The split is the split that Mulan ships; "cal500" has no split. These sets cannot be downloaded.
    A file ``NAME.npz`` holds the arrays ``X_train``, ``Y_train``, ``X_test``, ``Y_test`` ("cal500":
    ``X``, ``Y``), ``feature_names`` and ``label_names``.

    Parameters
    ----------
    name : str
        Name of the set, such as "emotions" or "corel5k".
    <parameters>

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` (float32) and `target` (int64 0/1 labels), train rows first; the parts `X_train`,
        `X_test`, `y_train`, `y_test`, if the set has a split; `feature_names`, `label_names`,
        `DESCR` and `filename`. For a set that the table does not list, `data` is a CSR array if the
        rows of the files are sparse, and `target` is float64 with NaN if labels are missing.
    <tuple>

    Raises
    ------
    ValueError
        If `name` is not the name of a file, or `subset` is unknown.
    <raises>

    See Also
    --------
    read_arff : Reader of a single ARFF file, in which MEKA's header may mark the labels.

    References
    ----------
    .. [1] Tsoumakas, Spyromitros-Xioufis, Vilcek and Vlahavas (2011). Mulan: a Java library
       for multi-label learning. JMLR 12.

    Examples
    --------
    >>> from skcrbm.datasets import load_mulan
    >>> emotions = load_mulan("emotions")  # doctest: +SKIP
    >>> emotions.X_train.shape, emotions.y_train.shape  # doctest: +SKIP
    ((391, 72), (391, 6))
    """
    return load_mulan_files(name, data_home, return_X_y, as_frame, subset)


# ------------------------------------------------------------------------- image sets


@_documented
def load_mnist(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    subset: str = "all",
) -> Bunch | tuple:
    """Load MNIST: 70000 handwritten digits of 28 x 28 pixels, from ``mnist.npz``.

    Parameters
    ----------
    <download parameters>

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` of shape (70000, 784), uint8 in 0..255, and `target` of shape (70000,), int64 in
        0..9, the 60000 train rows first; the views `X_train`, `X_test`, `y_train`, `y_test`;
        `class_names`, `image_shape` (28, 28), `image_order` "C", `DESCR` and `filename`.
    <tuple>

    Raises
    ------
    <download raises>

    Examples
    --------
    >>> from skcrbm.datasets import load_mnist
    >>> mnist = load_mnist()  # doctest: +SKIP
    >>> mnist.X_test[0].reshape(mnist.image_shape).shape  # doctest: +SKIP
    (28, 28)
    """
    return load(_specs.MNIST, data_home, return_X_y, as_frame, subset, download_if_missing)


@_documented
def load_fashion_mnist(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
    subset: str = "all",
) -> Bunch | tuple:
    """Load Fashion-MNIST: 70000 pictures of clothes of 28 x 28 pixels, from ``fashion_mnist.npz``.

    Parameters
    ----------
    <download parameters>

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` of shape (70000, 784), uint8 in 0..255, and `target` of shape (70000,), int64 in
        0..9, the 60000 train rows first; the views `X_train`, `X_test`, `y_train`, `y_test`;
        `class_names`, `image_shape` (28, 28), `image_order` "C", `DESCR` and `filename`.
    <tuple>

    Raises
    ------
    <download raises>

    Examples
    --------
    >>> from skcrbm.datasets import load_fashion_mnist
    >>> fashion = load_fashion_mnist()  # doctest: +SKIP
    >>> fashion.class_names[fashion.y_test[0]]  # doctest: +SKIP
    'Ankle boot'
    """
    return load(_specs.FASHION_MNIST, data_home, return_X_y, as_frame, subset, download_if_missing)


@_documented
def load_caltech101_silhouettes(
    *,
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    subset: str = "all",
) -> Bunch | tuple:
    """Load Caltech 101 Silhouettes (28 x 28, split 1): 8671 binary images.

    This set cannot be downloaded; the Notes show how to make ``caltech101_silhouettes.npz``.

    Parameters
    ----------
    <parameters with val>

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        `data` of shape (8671, 784), uint8 in {0, 1}, and `target` of shape (8671,), int64 in
        1..101: 4100 train, then 2264 validation, then 2307 test rows; the views `X_train`,
        `X_val`, `X_test`, `y_train`, `y_val`, `y_test`; `class_names` (class c has the name
        ``class_names[c - 1]``), `image_shape` (28, 28), `image_order` "F", `DESCR` and `filename`.
    <tuple>

    Raises
    ------
    <raises>

    Notes
    -----
    Values are as published: 1 is the background and 0 the object (many papers use 1 - X), and the
    pixels of a row are in column-major order.

    This code makes the file from the published MATLAB file::

        m = scipy.io.loadmat("caltech101_silhouettes_28_split1.mat")
        arrays = {f"X_{p}": m[f"{p}_data"] for p in ("train", "val", "test")}
        arrays |= {f"y_{p}": m[f"{p}_labels"].ravel() for p in ("train", "val", "test")}
        names = [str(name[0]) for name in m["classnames"].ravel()]
        np.savez_compressed(
            "caltech101_silhouettes.npz", class_names=names, origin="the .mat file", **arrays
        )

    Examples
    --------
    >>> from skcrbm.datasets import load_caltech101_silhouettes
    >>> silhouettes = load_caltech101_silhouettes()  # doctest: +SKIP
    >>> image = silhouettes.X_train[0].reshape((28, 28), order="F")  # doctest: +SKIP
    """
    return load(_specs.CALTECH101_SILHOUETTES, data_home, return_X_y, as_frame, subset)
