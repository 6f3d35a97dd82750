"""LabelDependencyDisplay: plot the pairwise dependence of labels in a fitted model."""

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.utils.extmath import safe_sparse_dot

from skcrbm.inspection._display import Display


class LabelDependencyDisplay(Display):
    """Plot of the pairwise dependence of labels, as a coloured matrix.

    Create it with `from_estimator`. Positive weights (labels that occur together) and negative
    weights (labels that exclude each other) have opposite colours. Labels are ordered such that
    labels that occur together are neighbours, as in Figure 2 of Miao and Rao (2009).

    The weight of two labels is a quarter of the logarithm of their odds ratio, given all other
    labels. This is the weight s_ik of a pairwise Boltzmann machine with labels -1 and +1.

    Parameters
    ----------
    dependency : ndarray (L, L)
        Symmetric matrix of weights; the diagonal is not drawn.
    label_names : sequence of L str, default=None
        Names of the labels; None uses the indices of the labels.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the matrix.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    image_ : matplotlib AxesImage
        Image of the matrix.
    colorbar_ : matplotlib Colorbar or None
        Colour bar, or None if it was not drawn.
    order_ : ndarray (L,)
        Indices of the labels from top to bottom, and from left to right.

    References
    ----------
    Miao and Rao (2009). Large margin Boltzmann machines. IJCAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.inspection import LabelDependencyDisplay
    >>> weights = np.array([[0.0, -0.5, 0.3], [-0.5, 0.0, 0.1], [0.3, 0.1, 0.0]])
    >>> display = LabelDependencyDisplay(weights, label_names=["sun", "snow", "beach"]).plot()
    >>> [display.label_names[i] for i in display.order_]
    ['snow', 'beach', 'sun']
    """

    def __init__(self, dependency, *, label_names=None):
        self.dependency = dependency
        self.label_names = label_names

    @classmethod
    def from_estimator(
        cls, estimator, X=None, *, label_names=None, order="auto", ax=None, **image_kw
    ):
        """Draw the dependence between the labels of a fitted estimator.

        Parameters
        ----------
        estimator : LMBMClassifier, CRBMClassifier or MSSVMCRBM
            Fitted estimator, or a `Pipeline` or search that contains it. For an LMBMClassifier the
            weights are its `pairwise_coef_`. In a conditional RBM, which must have been fitted on a
            2-D y, labels depend on each other through the hidden units. The weight of labels i and
            k is then ``1/4 sum_j [sp(c_j + W_ij + W_kj) - sp(c_j + W_ij) - sp(c_j + W_kj) +
            sp(c_j)]``, where c_j is the input of hidden unit j from x and all other labels, and sp
            is the softplus, or max(0, .) for an MSSVMCRBM with ``hidden="max"``.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows over which the weights of a conditional RBM are averaged, with the other labels at
            their predicted values. The time is proportional to n_samples L^2, and a few hundred
            rows are enough. If X is None, the weights are computed at x = 0 with all other labels
            0, which is representative if features are centred and labels are rare. For an
            LMBMClassifier the weights do not depend on x.
        label_names : sequence of L str, default=None
            Names of the labels. None uses the attribute `label_names_` of the estimator, the
            classes of a 1-D y, or the indices of the labels.
        order, ax, **image_kw
            Arguments of `plot`.

        Returns
        -------
        display : LabelDependencyDisplay
            Display with the matrix drawn.

        Raises
        ------
        ValueError
            If the model has no dependence between labels, or `label_names` has the wrong length.
        """
        estimator, X = cls._fitted_model(estimator, X)
        if hasattr(estimator, "pairwise_coef_"):
            dependency = np.asarray(estimator.pairwise_coef_)
        elif hasattr(estimator, "hidden_coef_"):
            dependency = _through_hidden_units(estimator, X)
        else:
            raise ValueError(
                "estimator must have pairwise_coef_ or hidden units, as LMBMClassifier, "
                f"CRBMClassifier and MSSVMCRBM do; got {type(estimator).__name__}"
            )
        if label_names is None and estimator._targets.multilabel:
            label_names = getattr(estimator, "label_names_", None)
        elif label_names is None and len(estimator.classes_) == len(dependency):
            label_names = [str(c) for c in estimator.classes_]
        display = cls(dependency, label_names=label_names)
        return display.plot(ax=ax, order=order, **image_kw)

    def plot(self, ax=None, *, order="auto", cmap="RdBu_r", colorbar=True, **image_kw):
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes, whose size grows with the number of labels.
        order : {"auto"} or None, default="auto"
            Order of the labels. "auto" places labels with large positive weights next to each
            other, by hierarchical clustering with average linkage; None keeps the given order.
        cmap : str or matplotlib Colormap, default="RdBu_r"
            Diverging colour map, whose middle colour is used for the weight 0.
        colorbar : bool, default=True
            True to draw a colour bar.
        **image_kw : dict
            Arguments of ``ax.imshow``, such as ``vmin`` and ``vmax``.

        Returns
        -------
        self : object
            This object.
        """
        weights = np.asarray(self.dependency, dtype=np.float64)
        n_labels = len(weights)
        names = [str(i) for i in range(n_labels)] if self.label_names is None else self.label_names
        if len(names) != n_labels:
            raise ValueError(f"label_names must have {n_labels} entries, got {len(names)}")
        if order not in ("auto", None):
            raise ValueError(f"order must be 'auto' or None, got {order!r}")
        self.order_ = np.arange(n_labels) if order is None else _cluster_order(weights)
        drawn = np.ma.masked_array(weights[np.ix_(self.order_, self.order_)], np.eye(n_labels))
        side = min(16.0, max(3.6, 0.24 * n_labels))
        ax = self._set_axes(ax, figsize=(side + 1.6, side + 0.6), layout="compressed")
        bound = float(np.abs(drawn.filled(0)).max(initial=0)) or 1.0
        limits = {"vmin": -bound, "vmax": bound}
        self.image_ = ax.imshow(drawn, **{"cmap": cmap, **limits, **image_kw})
        ax.set_facecolor("0.85")
        cell = 72 / ax.figure.dpi * ax.get_window_extent().height / max(1, n_labels)
        size = np.clip(0.8 * cell, 4.0, 10.0)
        ticks = [names[i] for i in self.order_]
        ax.set_yticks(range(n_labels), ticks, fontsize=size)
        ax.set_xticks(
            range(n_labels), ticks, fontsize=size, rotation=45, ha="right", rotation_mode="anchor"
        )
        ax.tick_params(length=0)
        self.colorbar_ = None
        if colorbar:
            # With this fraction of the width, the colour bar is as high as the square matrix.
            self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax, fraction=0.046, pad=0.04)
            self.colorbar_.set_label("pairwise weight")
        return self


def _through_hidden_units(estimator, X):
    """Return the pairwise dependences (L, L) of labels caused by hidden units of an RBM.

    The dependences are averaged over the rows of X, with the other labels at their predicted
    values. If X is None, they are computed at x = 0 with all other labels 0.
    """
    if not estimator._targets.multilabel:
        raise ValueError(
            f"{type(estimator).__name__} must have been fitted on 2-D y; the classes of a 1-D y "
            "always exclude each other"
        )
    weights = np.asarray(estimator.weights_, dtype=np.float64)
    labels = np.zeros((1, len(weights)))
    inputs = np.asarray(estimator.hidden_intercept_, dtype=np.float64)[None]
    if X is not None:
        labels = np.asarray(estimator.predict(X), dtype=np.float64)
        X = estimator._check_predict_data(X)
        inputs = (
            inputs
            + safe_sparse_dot(X, estimator.hidden_coef_.T, dense_output=True)
            + labels @ weights
        )
    maximised = getattr(estimator, "hidden_", "marginal") == "max"  # the value of `hidden` in fit
    dependency = np.zeros((len(weights), len(weights)))
    for i in range(len(weights)):
        without = inputs - labels[:, i, None] * weights[i]
        for k in range(i):
            off = without - labels[:, k, None] * weights[k]
            both = [off + weights[i] + weights[k], off, off + weights[i], off + weights[k]]
            gain = [np.maximum(x, 0) if maximised else np.logaddexp(x, 0) for x in both]
            total = (gain[0] + gain[1] - gain[2] - gain[3]).sum(1).mean()
            dependency[i, k] = dependency[k, i] = total / 4
    return dependency


def _cluster_order(weights):
    """Return an order (L,) of the labels that places labels with large weights side by side."""
    n_labels = len(weights)
    if n_labels < 3:
        return np.arange(n_labels)
    distance = weights.max(initial=0) - weights
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return leaves_list(tree)
