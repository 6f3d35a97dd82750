"""LabelConfusionDisplay: plot the labels that are predicted in place of missed labels."""

import numpy as np

from skcrbm.inspection._label_sets import SharesDisplay
from skcrbm.targets.indicator import indicator_by_name, indicator_with_nan
from skcrbm.targets.names import label_names_of
from skcrbm.utils.sklearn_private import check_matplotlib_support
from skcrbm.utils.validation import check_order


class LabelConfusionDisplay(SharesDisplay):
    """Plot of found labels, and of the labels that are predicted in place of missed labels.

    Create it with `from_predictions` or `from_estimator`. Cell (i, k) refers to the rows of data
    that truly have label i. On the diagonal it is the share of these rows for which label i is
    predicted, that is, the recall of label i. Off the diagonal it is the share of these rows for
    which label i is not predicted, and label k is predicted although k is off.

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
    CooccurrenceDisplay : Labels that occur together.

    Examples
    --------
    >>> from skcrbm.inspection import LabelConfusionDisplay
    >>> y_true, y_pred = [[1, 0], [1, 0], [0, 1]], [[1, 0], [0, 1], [0, 1]]
    >>> LabelConfusionDisplay.from_predictions(y_true, y_pred).share
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    _label = "share of the rows with the true label"
    _axes = {"xlabel": "predicted (off the diagonal: in its place)", "ylabel": "true label"}

    @classmethod
    def from_estimator(cls, estimator, X, y, *, label_names=None, ax=None, **image_kw):
        """Predict labels for X and draw how they differ from y.

        Parameters
        ----------
        estimator : classifier
            Fitted multi-label classifier, of this package or of scikit-learn.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the model was not fitted on.
        y : array-like of shape (n_samples, n_labels)
            Labels 0 or 1, NaN if missing.
        label_names : sequence of str, default=None
            Names of the labels; None uses the columns of a data frame, or else label indices.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **image_kw : dict
            Arguments of ``ax.imshow``.

        Returns
        -------
        display : LabelConfusionDisplay
            Display with the matrix drawn.
        """
        model = cls._fitted_model(estimator)[0]
        check_order(X=X, y=y)
        names = getattr(model, "label_names_", None)
        if names is not None:
            y = indicator_by_name(y, names, len(names))
            label_names = names if label_names is None else label_names
        return cls.from_predictions(
            y, estimator.predict(X), label_names=label_names, ax=ax, **image_kw
        )

    @classmethod
    def from_predictions(cls, y_true, y_pred, *, label_names=None, ax=None, **image_kw):
        """Draw how predicted labels differ from true labels.

        Parameters
        ----------
        y_true : array-like of shape (n_samples, n_labels)
            True labels 0 or 1, NaN if missing. A cell counts only the rows in which both labels of
            the cell are observed.
        y_pred : array-like of shape (n_samples, n_labels)
            Predicted labels 0 or 1.
        label_names : sequence of str, default=None
            Names of the labels; None uses the columns of a data frame, or else label indices.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **image_kw : dict
            Arguments of ``ax.imshow``.

        Returns
        -------
        display : LabelConfusionDisplay
            Display with the matrix drawn.

        Raises
        ------
        ValueError
            If `y_true` and `y_pred` differ in shape, or contain values that are not labels.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        check_order(y_true=y_true, y_pred=y_pred)
        columns = label_names_of(y_true, "y_true")
        true = indicator_with_nan(y_true, "y_true")
        predicted = indicator_by_name(y_pred, columns, true.shape[1], "y_pred")
        if predicted.shape != true.shape:
            raise ValueError(
                f"y_pred must have the shape of y_true, {true.shape}, got {predicted.shape}"
            )
        on, observed = (true == 1).astype(float), (~np.isnan(true)).astype(float)
        false = ((true == 0) & (predicted == 1)).astype(float)
        with np.errstate(invalid="ignore"):
            share = ((on * (predicted != 1)).T @ false) / (on.T @ observed)
            np.fill_diagonal(share, (on * predicted).sum(axis=0) / on.sum(axis=0))
        names = columns if label_names is None else label_names
        return cls(share, label_names=names).plot(ax=ax, **image_kw)
