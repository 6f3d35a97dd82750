"""ConvergenceDisplay: plot how inference converged, during training or in a call of `infer`."""

import numpy as np

from skcrbm.inspection._display import Display
from skcrbm.utils.sklearn_private import check_matplotlib_support


class ConvergenceDisplay(Display):
    """Plot of the convergence of inference.

    Create it with `from_estimator`, which draws the share of rows for which inference converged in
    each training epoch (Ping and Ihler 2017, Figure 4), or with `from_result`, which draws the
    residuals of each iteration of a call of `infer`.

    Parameters
    ----------
    values : ndarray (n_points,) or (n_models, n_points)
        A single curve, or a curve for each model. Values after the last iteration of a model are
        NaN.
    ylabel, xlabel : str
        Labels of the axes.
    log_scale : bool, default=False
        True to use a logarithmic y axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the curves.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    lines_ : list of matplotlib Line2D
        The curves.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import infer
    >>> from skcrbm.inspection import ConvergenceDisplay
    >>> energy = RBMEnergy(np.ones((3, 2)), np.zeros(3), np.zeros((5, 2)))
    >>> display = ConvergenceDisplay.from_result(infer(energy, return_trace=True))
    >>> display.ax_.get_xlabel()
    'iteration'
    """

    def __init__(self, values, *, ylabel, xlabel, log_scale=False):
        self.values = values
        self.ylabel = ylabel
        self.xlabel = xlabel
        self.log_scale = log_scale

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **line_kw):
        """Draw the share of rows whose inference converged, for each epoch of a fit.

        Parameters
        ----------
        estimator : CRBMClassifier
            Fitted estimator, or a `Pipeline` or search that contains it.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **line_kw : dict
            Arguments of ``ax.plot``.

        Returns
        -------
        display : ConvergenceDisplay
            Display with the curves drawn.
        """
        estimator = cls._fitted_model(estimator)[0]
        curve = getattr(estimator, "convergence_curve_", None)
        if curve is None:
            raise ValueError(
                f"{type(estimator).__name__} has no convergence_curve_, because its training uses "
                "no iterative inference"
            )
        display = cls(np.asarray(curve), xlabel="epoch", ylabel="share of converged inference")
        return display.plot(ax=ax, **line_kw)

    @classmethod
    def from_result(cls, result, *, ax=None, **line_kw):
        """Draw the residuals of the iterations of `infer`, with a line for each model.

        Parameters
        ----------
        result : InferenceResult
            Result of ``infer(..., return_trace=True)``.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **line_kw : dict
            Arguments of ``ax.plot``.

        Returns
        -------
        display : ConvergenceDisplay
            Display with the curves drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_result")
        trace = getattr(result, "trace", None)
        if trace is None:
            raise ValueError("result has no trace: call infer with return_trace=True")
        length = int(result.n_iter.max(initial=1))
        display = cls(
            trace[:, :length],
            xlabel="iteration",
            ylabel="largest change of a belief",
            log_scale=True,
        )
        return display.plot(ax=ax, **line_kw)

    def plot(self, ax=None, **line_kw):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        **line_kw : dict
            Arguments of ``ax.plot``.

        Returns
        -------
        self : object
            This object.
        """
        ax = self._set_axes(ax)
        curves = np.atleast_2d(self.values)
        x = np.arange(1, curves.shape[1] + 1)
        many = {"color": "C0", "alpha": max(0.1, 1 / np.sqrt(len(curves)))}
        self.lines_ = ax.plot(x, curves.T, **{**(many if len(curves) > 1 else {}), **line_kw})
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        if self.log_scale:
            ax.set_yscale("log")
        else:
            ax.set_ylim(-0.02, 1.05)
        return self
