"""Loaders of the multi-label sets."""

from skcrbm.datasets import _specs
from skcrbm.datasets._read import load


def load_scene(
    *, data_home=None, download_if_missing=True, return_X_y=False, as_frame=False, subset="all"
):
    """Load Scene: 2407 photographs, 294 features, 6 labels.

    The split is the published one (1211 train, 1196 test rows). Where ``scene.npz`` is
    missing, the data is fetched from OpenML and cut by position; whether the labels then
    agree with those of the published split is checked, written into ``DESCR``, and warned
    about if they do not.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``scene.npz``. If None, the environment variable
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
        With `data` of shape (2407, 294), float32, and `target` of shape (2407, 6), int64
        indicators, train rows first; the views `X_train`, `X_test`, `y_train`, `y_test`;
        `feature_names`, `label_names`, `DESCR` and `filename`.
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
    >>> from skcrbm.datasets import load_scene
    >>> scene = load_scene()  # doctest: +SKIP
    >>> scene.X_train.shape, scene.y_train.shape  # doctest: +SKIP
    ((1211, 294), (1211, 6))
    """
    return load(
        _specs.SCENE,
        data_home=data_home,
        download_if_missing=download_if_missing,
        return_X_y=return_X_y,
        as_frame=as_frame,
        subset=subset,
    )


def load_yeast(
    *, data_home=None, download_if_missing=True, return_X_y=False, as_frame=False, subset="all"
):
    """Load Yeast: 2417 genes, 103 features, 14 labels.

    The split is the published one (1500 train, 917 test rows). Where ``yeast.npz`` is
    missing, the data is fetched from OpenML and cut by position; whether the labels then
    agree with those of the published split is checked, written into ``DESCR``, and warned
    about if they do not.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder that holds ``yeast.npz``. If None, the environment variable
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
        With `data` of shape (2417, 103), float32, and `target` of shape (2417, 14), int64
        indicators, train rows first; the views `X_train`, `X_test`, `y_train`, `y_test`;
        `feature_names`, `label_names`, `DESCR` and `filename`.
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
    >>> from skcrbm.datasets import load_yeast
    >>> X, y = load_yeast(return_X_y=True, subset="train")  # doctest: +SKIP
    >>> X_test, y_test = load_yeast(return_X_y=True, subset="test")  # doctest: +SKIP
    >>> y_test.shape  # doctest: +SKIP
    (917, 14)
    """
    return load(
        _specs.YEAST,
        data_home=data_home,
        download_if_missing=download_if_missing,
        return_X_y=return_X_y,
        as_frame=as_frame,
        subset=subset,
    )


def load_mediamill(
    *, variant="full", data_home=None, return_X_y=False, as_frame=False, subset="all"
):
    """Load Mediamill: 43907 video shots, 120 features, 101 labels.

    Nothing is downloaded: the full set has to be converted from the ARFF files of the Mulan
    library's data set collection into ``mediamill.npz`` with the arrays ``X_train``
    (30993, 120), ``Y_train`` (30993, 101), ``X_test`` (12914, 120), ``Y_test``
    (12914, 101), ``feature_names`` and ``label_names``.

    Parameters
    ----------
    variant : {"full", "sample"}, default="full"
        "sample" reads ``mediamill_reduced.npz``: 1500 + 500 rows that someone drew from the
        test part of the full set. Results on it must not be reported as Mediamill results.
    data_home : str or path-like, default=None
        Folder that holds the file. If None, the environment variable ``SKCRBM_DATA``, else
        the folder ``skcrbm`` in the cache folder of the user.
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
        With `data` (float32) and `target` (int64 indicators), train rows first; the views
        `X_train`, `X_test`, `y_train`, `y_test`; `feature_names`, `label_names`, `DESCR`
        and `filename`.
    (data, target) : tuple of ndarray or of pandas objects
        If ``return_X_y=True``.

    Raises
    ------
    ValueError
        If `variant` or `subset` is unknown.
    FileNotFoundError
        If the file is missing.
    DataFileError
        A ValueError and an OSError: if the file is damaged or not the expected one.

    Examples
    --------
    >>> from skcrbm.datasets import load_mediamill
    >>> sample = load_mediamill(variant="sample")  # doctest: +SKIP
    >>> sample.data.shape, sample.target.shape  # doctest: +SKIP
    ((2000, 120), (2000, 101))
    """
    variants = {"full": _specs.MEDIAMILL, "sample": _specs.MEDIAMILL_SAMPLE}
    if variant not in variants:
        raise ValueError(f"variant should be one of {sorted(variants)}, got {variant!r}")
    return load(
        variants[variant],
        data_home=data_home,
        return_X_y=return_X_y,
        as_frame=as_frame,
        subset=subset,
    )


def load_mulan(name, *, data_home=None, return_X_y=False, as_frame=False, subset="all"):
    """Load a small multi-label set of the Mulan library.

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

    The split is the one that Mulan ships; "cal500" has none. Nothing is downloaded: a set has
    to be converted from Mulan's ARFF files into ``NAME.npz`` with the arrays ``X_train``,
    ``Y_train``, ``X_test``, ``Y_test`` ("cal500": ``X``, ``Y``), ``feature_names`` and
    ``label_names``.

    Parameters
    ----------
    name : {"emotions", "birds", "medical", "enron", "genbase", "cal500"}
        Of the set.
    data_home : str or path-like, default=None
        Folder that holds the file. If None, the environment variable ``SKCRBM_DATA``, else
        the folder ``skcrbm`` in the cache folder of the user.
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
        With `data` (float32) and `target` (int64 indicators), train rows first; the views
        `X_train`, `X_test`, `y_train`, `y_test`, but of "cal500"; `feature_names`,
        `label_names`, `DESCR` and `filename`.
    (data, target) : tuple of ndarray or of pandas objects
        If ``return_X_y=True``.

    Raises
    ------
    ValueError
        If `name` or `subset` is unknown.
    FileNotFoundError
        If the file is missing.
    DataFileError
        A ValueError and an OSError: if the file is damaged or not the expected one.

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
    if name not in _specs.MULAN:
        raise ValueError(f"name should be one of {sorted(_specs.MULAN)}, got {name!r}")
    return load(
        _specs.MULAN[name],
        data_home=data_home,
        return_X_y=return_X_y,
        as_frame=as_frame,
        subset=subset,
    )
