"""Plot labels that occur together (CooccurrenceDisplay) and label sets (LabelSetsDisplay)."""

import numpy as np

from skcrbm.inspection._display import Display
from skcrbm.targets.indicator import indicator_with_nan
from skcrbm.targets.names import label_names_of
from skcrbm.targets.wrapped import call_given
from skcrbm.utils.sklearn_private import check_matplotlib_support
from skcrbm.utils.validation import check_count


class SharesDisplay(Display):
    """Base class of plots of a matrix of shares, with a row and a column for each label."""

    _label = ""  # text beside the colour bar
    _axes: dict[str, str] = {}  # further settings of the axes

    def __init__(self, share, *, label_names=None):
        self.share = share
        self.label_names = label_names

    def plot(self, ax=None, *, cmap="Blues", **image_kw):
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        cmap : str or matplotlib Colormap, default="Blues"
            Colour map.
        **image_kw : dict
            Arguments of ``ax.imshow``.

        Returns
        -------
        self : object
            This object.
        """
        share = np.asarray(self.share, dtype=np.float64)
        names = _names(self.label_names, len(share))
        side = min(16.0, max(3.6, 0.3 * len(share)))
        ax = self._set_axes(ax, figsize=(side + 1.6, side + 0.6), layout="compressed")
        image = ax.imshow(share, **{"vmin": 0, "vmax": 1, "cmap": cmap, **image_kw})
        ax.set_yticks(range(len(share)), names)
        ax.set_xticks(range(len(share)), names, rotation=45, ha="right", rotation_mode="anchor")
        ax.tick_params(length=0)
        if len(share) <= 10:
            for (i, k), value in np.ndenumerate(share):
                if not np.isnan(value):
                    colour = "white" if value > 0.6 else "black"
                    ax.text(k, i, f"{value:.2f}", ha="center", va="center", color=colour, size=7)
        ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04, label=self._label)
        ax.set(**self._axes)
        self.image_ = image
        return self


class CooccurrenceDisplay(SharesDisplay):
    """Plot of how often labels occur together, as conditional shares P(column | row).

    Create it with `from_labels`, for true labels or for predictions. Cell (i, k) of the matrix
    shows, among the rows of data with label i, the share of rows that also have label k.

    Parameters
    ----------
    share : ndarray (L, L)
        Shares of rows of data, see above. The row of a label that never occurs is NaN.
    label_names : sequence of L str, default=None
        Names of the labels; None uses their indices.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the matrix.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    image_ : matplotlib AxesImage
        Image of the matrix.

    See Also
    --------
    LabelDependencyDisplay : Dependence given the inputs, in a fitted model.

    Examples
    --------
    >>> from skcrbm.inspection import CooccurrenceDisplay
    >>> display = CooccurrenceDisplay.from_labels([[1, 1, 0], [1, 0, 0], [0, 0, 1]])
    >>> display.share.round(1)
    array([[1. , 0.5, 0. ],
           [1. , 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    _label = "P(column | row)"

    @classmethod
    def from_labels(cls, y, *, label_names=None, ax=None, **image_kw):
        """Draw how often each pair of labels occurs together, given a matrix of labels.

        Parameters
        ----------
        y : array-like of shape (n_samples, n_labels)
            Labels 0 or 1, NaN if missing. The frequency of a pair of labels is taken over the rows
            in which both labels are observed.
        label_names : sequence of str, default=None
            Names of the labels; None uses the columns of a data frame, or else label indices.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **image_kw : dict
            Arguments of ``ax.imshow``.

        Returns
        -------
        display : CooccurrenceDisplay
            Display with the matrix drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_labels")
        names = label_names_of(y) if label_names is None else label_names
        y = indicator_with_nan(y)
        on, observed = (y == 1).astype(float), (~np.isnan(y)).astype(float)
        with np.errstate(invalid="ignore"):
            share = (on.T @ on) / (on.T @ observed)
        return cls(share, label_names=names).plot(ax=ax, **image_kw)


class LabelSetsDisplay(Display):
    """Bar chart of the most probable label sets of a row.

    Create it with `from_estimator`. The bars are probabilities of whole label sets. They show, for
    example, whether a model is undecided between two sets only, or uncertain about every label.

    Parameters
    ----------
    label_sets : ndarray (k, L)
        0/1 label sets, the most probable set first.
    probability : ndarray (k,)
        Probabilities of the sets.
    label_names : sequence of L str, default=None
        Names of the labels; None uses their indices.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the bars.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    bars_ : matplotlib BarContainer
        The bars.

    Examples
    --------
    >>> from skcrbm.inspection import LabelSetsDisplay
    >>> names = ["sun", "snow", "beach"]
    >>> display = LabelSetsDisplay([[1, 0, 1], [0, 0, 0]], [0.7, 0.2], label_names=names)
    >>> display.set_names()
    ['sun, beach', '(no label)']
    """

    def __init__(self, label_sets, probability, *, label_names=None):
        self.label_sets = label_sets
        self.probability = probability
        self.label_names = label_names

    @classmethod
    def from_estimator(
        cls, estimator, X, *, row=0, k=5, y_known=None, label_names=None, ax=None, **bar_kw
    ):
        """Draw the k most probable label sets of a row.

        Parameters
        ----------
        estimator : classifier with `predict_topk`
            Fitted joint model of a 2-D y, or a `Pipeline` or search that contains it.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        row : int, default=0
            Index of the row to draw.
        k : int, default=5
            Number of label sets.
        y_known : array-like of shape (n_samples, n_labels), default=None
            Known labels of the rows, NaN elsewhere.
        label_names : sequence of str, default=None
            Names of the labels; None uses the attribute `label_names_`, or else label indices.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **bar_kw : dict
            Arguments of ``ax.barh``.

        Returns
        -------
        display : LabelSetsDisplay
            Display with the bars drawn.

        Raises
        ------
        ValueError
            If the model has no `predict_topk`, or `row` is not a row of X.
        """
        model = cls._fitted_model(estimator)[0]
        if not hasattr(model, "predict_topk"):
            raise ValueError(
                f"{type(model).__name__} has no predict_topk; joint models such as CRBMClassifier "
                "and LMBMClassifier have it"
            )
        sets, probability = call_given(estimator, "predict_topk", X, y_known, k=check_count("k", k))
        sets, probability = np.asarray(sets), np.asarray(probability)
        if not 0 <= row < len(sets):
            raise ValueError(f"row must be from 0 to {len(sets) - 1}, got {row!r}")
        names = getattr(model, "label_names_", None) if label_names is None else label_names
        return cls(sets[row], probability[row], label_names=names).plot(ax=ax, **bar_kw)

    def set_names(self):
        """Return a text for each label set, such as "sun, beach"."""
        sets = np.asarray(self.label_sets)
        names = _names(self.label_names, sets.shape[1])
        return [
            ", ".join(name for name, on in zip(names, one, strict=True) if on) or "(no label)"
            for one in sets
        ]

    def plot(self, ax=None, **bar_kw):
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **bar_kw : dict
            Arguments of ``ax.barh``.

        Returns
        -------
        self : object
            This object.
        """
        texts = self.set_names()
        size = 6.4, 0.8 + 0.4 * len(texts)
        ax = self._set_axes(ax, figsize=size, layout="constrained")
        self.bars_ = ax.barh(range(len(texts)), self.probability, **bar_kw)
        ax.bar_label(self.bars_, fmt="%.2f", padding=3)
        ax.set_yticks(range(len(texts)), texts)
        ax.invert_yaxis()
        ax.set(xlabel="probability of the label set", xlim=(0, 1))
        return self


def _names(label_names, n_labels):
    """Return the names of the labels, or their indices if `label_names` is None."""
    names = range(n_labels) if label_names is None else label_names
    if len(names) != n_labels:
        raise ValueError(f"label_names must have {n_labels} entries, got {len(names)}")
    return [str(name) for name in names]
