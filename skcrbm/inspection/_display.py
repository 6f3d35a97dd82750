"""Base class of the displays."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from skcrbm.targets.wrapped import final_model
from skcrbm.utils.sklearn_private import check_matplotlib_support


class Display:
    """Base class of the displays, which hold numbers and draw them with `plot`."""

    ax_: Any
    figure_: Any

    @classmethod
    def _fitted_model(cls, estimator, X=None):
        """Return the model inside a fitted estimator, and X as this model takes it."""
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        return final_model(estimator, X)

    def _set_axes(self, ax, **options):
        """Set the axes to draw on: the given axes, or the axes of a new figure with `options`."""
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(**options)
        self.ax_, self.figure_ = ax, ax.figure
        return ax
