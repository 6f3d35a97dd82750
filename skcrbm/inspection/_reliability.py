"""ReliabilityDisplay: plot the share of true labels against predicted probabilities."""

import numpy as np

from skcrbm.inspection._display import Display
from skcrbm.targets.indicator import indicator_by_name, indicator_with_nan
from skcrbm.targets.names import is_frame, label_names_of
from skcrbm.targets.proba import label_marginals
from skcrbm.targets.wrapped import call_given
from skcrbm.utils.sklearn_private import check_matplotlib_support
from skcrbm.utils.validation import check_count, check_order


class ReliabilityDisplay(Display):
    """Reliability diagram: the share of true labels for each predicted probability.

    Create it with `from_estimator` or `from_predictions`. If probabilities are reliable, the curve
    lies on the diagonal: for example, 80% of the labels with a predicted probability of 0.8 are
    true.

    Parameters
    ----------
    probability : list of ndarray
        Mean predicted probability of each bin. The list has an array for each curve.
    share : list of ndarray
        Share of the entries in each bin for which the event occurred. By default, the event is
        that the label is true.
    count : list of ndarray
        Number of entries (predicted probabilities) in each bin.
    names : list of str
        Name of each curve.
    event : str, default="a label"
        Name of the event whose probability is drawn, for the labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the curves.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    lines_ : list of matplotlib Line2D
        The curves, without the diagonal.

    See Also
    --------
    skcrbm.metrics.expected_calibration_error : Mean distance from the diagonal.
    skcrbm.calibration.CalibratedMarginals : Calibration of each label.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.inspection import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.random((1000, 2))
    >>> y = rng.random((1000, 2)) < proba ** [1, 2]
    >>> display = ReliabilityDisplay.from_predictions(y, proba, labels="each", n_bins=4)
    >>> [share.round(1).tolist() for share in display.share]
    [[0.1, 0.4, 0.7, 0.9], [0.0, 0.1, 0.3, 0.8]]
    """

    def __init__(self, probability, share, count, names, *, event="a label"):
        self.probability = probability
        self.share = share
        self.count = count
        self.names = names
        self.event = event

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, labels="together", n_bins=10, strategy="quantile", ax=None
    ):
        """Draw the reliability of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with `predict_proba`, of this package or of scikit-learn.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the model was not fitted on.
        y : array-like of shape (n_samples, n_labels)
            Labels 0 or 1, NaN if missing.
        labels : {"together", "each", "sets"} or list, default="together"
            "together" draws a single curve of all labels, "each" a curve per label, and a list of
            names or indices draws a curve for each of these labels. "sets" compares the probability
            of the most probable label set with the share of rows in which this whole set is right.
            The model needs `predict_topk`, and rows with missing labels are left out.
        n_bins : int, default=10
            Number of bins.
        strategy : {"quantile", "uniform"}, default="quantile"
            "quantile" makes bins with about equal numbers of entries, "uniform" makes bins of equal
            width.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.

        Returns
        -------
        display : ReliabilityDisplay
            Display with the curves drawn.

        Raises
        ------
        ValueError
            If an argument is invalid, or the model has no probabilities of label sets.
        """
        model = cls._fitted_model(estimator)[0]
        check_order(X=X, y=y)
        names = label_names_of(y)
        own = getattr(getattr(model, "_targets", None), "names", None)
        if own is not None and is_frame(y):
            y, names = indicator_by_name(y, own, len(own)), own
        if isinstance(labels, str) and labels == "sets":
            target = indicator_with_nan(y)
            whole = ~np.isnan(target).any(axis=1)
            try:
                sets, proba = call_given(estimator, "predict_topk", X, None, k=1)
            except TypeError as error:
                raise ValueError(
                    f"{type(estimator).__name__} has no predict_topk, which labels='sets' needs; "
                    "CRBMClassifier, MSSVMCRBM and LMBMClassifier have it"
                ) from error
            right = (np.asarray(sets)[:, 0] == target).all(axis=1)
            found = _bins(np.asarray(proba)[whole, 0], right[whole], n_bins, strategy)
            parts = [[values] for values in found]
            return cls(*parts, ["most probable label set"], event="a label set").plot(ax=ax)
        proba = label_marginals(
            estimator.predict_proba(X),
            getattr(estimator, "classes_", None),
            "predict_proba(X)",
            np.shape(y)[1],
            names if own is None else own,
        )
        return cls.from_predictions(
            y,
            proba,
            labels=labels,
            label_names=names,
            n_bins=n_bins,
            strategy=strategy,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_prob,
        *,
        labels="together",
        label_names=None,
        n_bins=10,
        strategy="quantile",
        ax=None,
    ):
        """Draw the reliability of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples, n_labels)
            Labels 0 or 1, NaN if missing.
        y_prob : array-like of shape (n_samples, n_labels)
            Predicted probabilities of the labels.
        labels : {"together", "each"} or list, default="together"
            Curves to draw, as in `from_estimator`.
        label_names : sequence of str, default=None
            Names of the labels; None uses the columns of a data frame, or else label indices.
        n_bins, strategy, ax
            As in `from_estimator`.

        Returns
        -------
        display : ReliabilityDisplay
            Display with the curves drawn.

        Raises
        ------
        ValueError
            If shapes differ, or an argument is invalid.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        check_order(y_true=y_true, y_prob=y_prob)
        columns = label_names_of(y_true)
        names = columns if label_names is None else label_names
        y_true = indicator_with_nan(y_true)
        y_prob = label_marginals(y_prob, None, "y_prob", y_true.shape[1], columns)
        if y_prob.shape != y_true.shape:
            raise ValueError(f"y_prob must have the shape {y_true.shape}, got {y_prob.shape}")
        names = [str(i) for i in range(y_true.shape[1])] if names is None else list(map(str, names))
        if len(names) != y_true.shape[1]:
            raise ValueError(f"label_names must have {y_true.shape[1]} entries, got {len(names)}")
        if isinstance(labels, str) and labels == "together":
            curves = {"all labels": slice(None)}
        else:
            curves = {names[i]: i for i in _label_columns(labels, names)}
        found = [
            _bins(y_prob[:, part].ravel(), y_true[:, part].ravel(), n_bins, strategy)
            for part in curves.values()
        ]
        return cls(*(list(parts) for parts in zip(*found, strict=True)), list(curves)).plot(ax=ax)

    def plot(self, ax=None):
        """Draw the curves and the diagonal.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.

        Returns
        -------
        self : object
            This object.
        """
        ax = self._set_axes(ax, figsize=(4.6, 4.4), layout="constrained")
        ax.plot([0, 1], [0, 1], color="0.6", linestyle=":", zorder=0)
        self.lines_ = []
        for probability, share, name in zip(self.probability, self.share, self.names, strict=True):
            self.lines_ += ax.plot(probability, share, marker="o", markersize=4, label=name)
        ax.set(
            xlabel=f"predicted probability of {self.event}",
            ylabel=f"share of rows in which {self.event} is right",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
        ax.set_aspect("equal")
        if len(self.names) <= 12:
            ax.legend(fontsize="small")
        return self


def _label_columns(labels, names):
    """Return the columns of all labels for "each", or of the labels in a list."""
    if isinstance(labels, str):
        if labels != "each":
            raise ValueError(
                f"labels must be 'together', 'each', 'sets' or a list of labels; got {labels!r}"
            )
        return list(range(len(names)))
    columns = []
    for label in labels:
        if not isinstance(label, str) and label in range(len(names)):
            columns.append(int(label))
        elif str(label) in names:
            columns.append(names.index(str(label)))
        else:
            raise ValueError(
                f"labels contains {label!r}, which is not a label; the labels are {names[:10]}"
            )
    return columns


def _bins(probability, event, n_bins, strategy):
    """Return the mean probability, the share of events and the count of each non-empty bin."""
    n_bins = check_count("n_bins", n_bins, 1)
    if strategy not in ("quantile", "uniform"):
        raise ValueError(f"strategy must be 'quantile' or 'uniform', got {strategy!r}")
    observed = ~np.isnan(event.astype(np.float64))
    probability, event = probability[observed], event[observed]
    if not len(event):
        raise ValueError("a curve has no observed entry in y: all its labels are missing (NaN)")
    if strategy == "uniform":
        edges = np.linspace(0, 1, n_bins + 1)[1:-1]
    else:
        edges = np.unique(np.quantile(probability, np.linspace(0, 1, n_bins + 1)[1:-1]))
    part = np.searchsorted(edges, probability, side="right")
    count = np.bincount(part, minlength=len(edges) + 1)
    total = np.maximum(count, 1)
    mean = np.bincount(part, weights=probability, minlength=len(count)) / total
    share = np.bincount(part, weights=event.astype(np.float64), minlength=len(count)) / total
    return mean[count > 0], share[count > 0], count[count > 0]
