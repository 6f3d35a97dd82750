"""Loaders of the image sets."""

from skcrbm.datasets import _specs
from skcrbm.datasets._read import load


def load_mnist(
    *, data_home=None, download_if_missing=True, return_X_y=False, as_frame=False, subset="all"
):
    """Load MNIST: 70000 handwritten digits of 28 x 28 pixels.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``mnist.npz``. If None, the environment variable
        ``SKCRBM_DATA``, else the folder ``skcrbm`` in the cache folder of the user.
    download_if_missing : bool, default=True
        Whether to fetch a missing file from OpenML, and keep it in `data_home`.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether `data`, `target` and their parts are pandas objects, with names of columns; the
        Bunch then has a `frame` of both, too.
    subset : {"all", "train", "test"}, default="all"
        With ``return_X_y=True``: all rows, or those of a part of the published split.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With `data` of shape (70000, 784), uint8 in 0..255, and `target` of shape (70000,),
        int64 in 0..9, the 60000 train rows first; the views `X_train`, `X_test`,
        `y_train`, `y_test`; `class_names`, `image_shape` (28, 28), `image_order` "C",
        `DESCR` and `filename`.
    (data, target) : tuple of ndarray or of pandas objects
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        If the file is missing and ``download_if_missing=False``.
    DataFileError
        A ValueError and an OSError: if the file is damaged or not the expected one.
    OSError
        If the download fails.

    Examples
    --------
    >>> from skcrbm.datasets import load_mnist
    >>> mnist = load_mnist()  # doctest: +SKIP
    >>> mnist.X_test[0].reshape(mnist.image_shape).shape  # doctest: +SKIP
    (28, 28)
    """
    return load(
        _specs.MNIST,
        data_home=data_home,
        download_if_missing=download_if_missing,
        return_X_y=return_X_y,
        as_frame=as_frame,
        subset=subset,
    )


def load_fashion_mnist(
    *, data_home=None, download_if_missing=True, return_X_y=False, as_frame=False, subset="all"
):
    """Load Fashion-MNIST: 70000 pictures of clothes of 28 x 28 pixels.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``fashion_mnist.npz``. If None, the environment variable
        ``SKCRBM_DATA``, else the folder ``skcrbm`` in the cache folder of the user.
    download_if_missing : bool, default=True
        Whether to fetch a missing file from OpenML, and keep it in `data_home`.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether `data`, `target` and their parts are pandas objects, with names of columns; the
        Bunch then has a `frame` of both, too.
    subset : {"all", "train", "test"}, default="all"
        With ``return_X_y=True``: all rows, or those of a part of the published split.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With `data` of shape (70000, 784), uint8 in 0..255, and `target` of shape (70000,),
        int64 in 0..9, the 60000 train rows first; the views `X_train`, `X_test`,
        `y_train`, `y_test`; `class_names`, `image_shape` (28, 28), `image_order` "C",
        `DESCR` and `filename`.
    (data, target) : tuple of ndarray or of pandas objects
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        If the file is missing and ``download_if_missing=False``.
    DataFileError
        A ValueError and an OSError: if the file is damaged or not the expected one.
    OSError
        If the download fails.

    Examples
    --------
    >>> from skcrbm.datasets import load_fashion_mnist
    >>> fashion = load_fashion_mnist()  # doctest: +SKIP
    >>> fashion.class_names[fashion.y_test[0]]  # doctest: +SKIP
    'Ankle boot'
    """
    return load(
        _specs.FASHION_MNIST,
        data_home=data_home,
        download_if_missing=download_if_missing,
        return_X_y=return_X_y,
        as_frame=as_frame,
        subset=subset,
    )


def load_caltech101_silhouettes(*, data_home=None, return_X_y=False, as_frame=False, subset="all"):
    """Load Caltech 101 Silhouettes (28 x 28, split 1): 8671 binary images.

    Nothing is downloaded; Notes shows how to make the file.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``caltech101_silhouettes.npz``. If None, the environment variable
        ``SKCRBM_DATA``, else the folder ``skcrbm`` in the cache folder of the user.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether `data`, `target` and their parts are pandas objects, with names of columns; the
        Bunch then has a `frame` of both, too.
    subset : {"all", "train", "val", "test"}, default="all"
        With ``return_X_y=True``: all rows, or those of a part of the published split.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With `data` of shape (8671, 784), uint8 in {0, 1}, and `target` of shape (8671,),
        int64 in 1..101: 4100 train, then 2264 validation, then 2307 test rows; the views
        `X_train`, `X_val`, `X_test`, `y_train`, `y_val`, `y_test`; `class_names` (that of
        class c is ``class_names[c - 1]``), `image_shape` (28, 28), `image_order` "F",
        `DESCR` and `filename`.
    (data, target) : tuple of ndarray or of pandas objects
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    DataFileError
        A ValueError and an OSError: if the file is damaged or not the expected one.

    Notes
    -----
    Values are as published: 1 is the background and 0 the object (many papers use 1 - X),
    and the pixels of a row are in column-major order.

    The file is made from the published MATLAB file by ::

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
    return load(
        _specs.CALTECH101_SILHOUETTES,
        data_home=data_home,
        return_X_y=return_X_y,
        as_frame=as_frame,
        subset=subset,
    )
