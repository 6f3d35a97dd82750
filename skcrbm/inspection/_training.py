"""TrainingCurveDisplay: plot the loss and the validation score of each epoch of a fit."""

import numpy as np

from skcrbm.inspection._display import Display


class TrainingCurveDisplay(Display):
    """Plot of the loss and the validation score of each epoch of a fit.

    Create it with `from_estimator`. If the loss still falls at the end, more epochs may help. If
    the validation score falls while the loss falls, the model overfits.

    Parameters
    ----------
    loss : ndarray (n_epochs,)
        Training loss of each epoch or iteration.
    validation_scores : ndarray (n_epochs,) or None, default=None
        Score of the held-out rows in each epoch; higher is better.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the loss.
    score_ax_ : matplotlib Axes or None
        Axes of the validation score, on the right; None without scores.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    lines_ : list of matplotlib Line2D
        The curve of the loss, followed by the curve of the validation score if it is drawn.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.datasets import make_structured_labels
    >>> from skcrbm.inspection import TrainingCurveDisplay
    >>> X, y = make_structured_labels(100, random_state=0)
    >>> model = CRBMClassifier(n_hidden=2, alpha=0.1, max_iter=30, random_state=0).fit(X, y)
    >>> display = TrainingCurveDisplay.from_estimator(model)
    >>> len(display.loss) == model.n_iter_
    True
    """

    def __init__(self, loss, *, validation_scores=None):
        self.loss = loss
        self.validation_scores = validation_scores

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **line_kw):
        """Draw the curves of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with a `loss_curve_`
            Fitted classifier or density of this package, or a `Pipeline` or search that contains
            it.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **line_kw : dict
            Arguments of ``ax.plot`` for the loss.

        Returns
        -------
        display : TrainingCurveDisplay
            Display with the curves drawn.

        Raises
        ------
        ValueError
            If the estimator has no `loss_curve_`.
        """
        estimator = cls._fitted_model(estimator)[0]
        loss = getattr(estimator, "loss_curve_", None)
        if loss is None:
            raise ValueError(
                f"{type(estimator).__name__} has no loss_curve_; estimators that are trained epoch "
                "by epoch, such as CRBMClassifier, have it"
            )
        scores = getattr(estimator, "validation_scores_", None)
        display = cls(np.asarray(loss), validation_scores=scores)
        return display.plot(ax=ax, **line_kw)

    def plot(self, ax=None, **line_kw):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **line_kw : dict
            Arguments of ``ax.plot`` for the loss.

        Returns
        -------
        self : object
            This object.
        """
        ax = self._set_axes(ax)
        epochs = np.arange(1, len(self.loss) + 1)
        self.lines_ = ax.plot(epochs, self.loss, **{"color": "C0", "label": "loss", **line_kw})
        ax.set(xlabel="epoch", ylabel="training loss")
        self.score_ax_ = None
        if self.validation_scores is not None:
            scores = np.asarray(self.validation_scores, dtype=np.float64)
            self.score_ax_ = ax.twinx()
            numbers = np.arange(1, len(scores) + 1)
            self.lines_ += self.score_ax_.plot(numbers, scores, color="C1", label="validation")
            self.score_ax_.set_ylabel("validation score")
            ax.legend(handles=self.lines_)
        return self
