"""The dependence of labels on each other in a fitted model, drawn as a matrix."""

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from skcrbm.utils.classifiers import final_model


class LabelDependencyDisplay:
    """Pairwise dependency of labels as a coloured matrix.

    Make it with `from_estimator`. Positive weights (labels that go together) and negative
    weights (labels that exclude each other) have opposite colours, and labels that attract each
    other are neighbours, as in Figure 2 of Miao and Rao (2009).

    All weights are on the scale of the couplings s_ik of a pairwise Boltzmann machine with
    labels -1/+1: a quarter of the log odds-ratio of two labels given all others.

    Parameters
    ----------
    dependency : ndarray (L, L)
        Symmetric weights; the diagonal is not drawn.
    label_names : sequence of L str, default=None
        Names of the labels; None uses their numbers.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the matrix.
    figure_ : matplotlib Figure
        Figure of the axes.
    image_ : matplotlib AxesImage
        The matrix.
    colorbar_ : matplotlib Colorbar or None
        The colour bar, if it was drawn.
    order_ : ndarray (L,)
        Labels from top to bottom, and from left to right.

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
            Fitted estimator, which may be the last step of a `Pipeline` or inside a search. An
            estimator with hidden units must have been fitted on a 2-D y. The weights of a large
            margin Boltzmann machine are its `pairwise_coef_`. In a conditional RBM labels depend
            on each other through the hidden units: with c the inputs of the hidden units without
            labels i and k, the weight is ``1/4 sum_j [sp(c_j + W_ij + W_kj) - sp(c_j + W_ij) -
            sp(c_j + W_kj) + sp(c_j)]`` (sp is the softplus; max(0, .) for an MSSVMCRBM with
            ``hidden="max"``).
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows over which the weights of a model with hidden units are averaged, with the other
            labels as predicted; the cost grows with n_samples L^2, and some hundred rows are
            enough. None uses the weight at x = 0 with all other labels 0, which is representative
            if features are centred and labels rare. Models without hidden units have the same
            weights at any x.
        label_names : sequence of L str, default=None
            Names of the labels; None uses `label_names_` of the estimator, the classes of a 1-D y,
            or the numbers of the labels.
        order, ax, **image_kw
            Arguments of `plot`.

        Returns
        -------
        display : LabelDependencyDisplay
            Display with the matrix drawn.

        Raises
        ------
        ValueError
            If the model has no dependency between labels, or `label_names` is too long or
            too short.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        estimator, X = final_model(estimator, X)
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
            Order of the labels. "auto" orders them by hierarchical clustering (average linkage,
            attraction as closeness); None keeps their order.
        cmap : str or matplotlib Colormap, default="RdBu_r"
            Diverging colour map; its middle is weight 0.
        colorbar : bool, default=True
            True to draw a colour bar.
        **image_kw : dict
            Arguments of ``ax.imshow``, such as ``vmin`` and ``vmax``.

        Returns
        -------
        self : object
            This object.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        weights = np.asarray(self.dependency, dtype=np.float64)
        n_labels = len(weights)
        names = [str(i) for i in range(n_labels)] if self.label_names is None else self.label_names
        if len(names) != n_labels:
            raise ValueError(f"label_names must have {n_labels} entries, got {len(names)}")
        if order not in ("auto", None):
            raise ValueError(f"order must be 'auto' or None, got {order!r}")
        self.order_ = np.arange(n_labels) if order is None else _cluster_order(weights)
        drawn = np.ma.masked_array(weights[np.ix_(self.order_, self.order_)], np.eye(n_labels))
        if ax is None:
            side = min(16.0, max(3.6, 0.24 * n_labels))
            _, ax = plt.subplots(figsize=(side + 1.6, side + 0.6), layout="compressed")
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
            # This share of the width makes the bar as high as a square matrix.
            self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax, fraction=0.046, pad=0.04)
            self.colorbar_.set_label("pairwise weight")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _through_hidden_units(estimator, X):
    """Return the pairwise weights (L, L) of labels with the hidden units summed out."""
    if not estimator._targets.multilabel:
        raise ValueError(
            f"{type(estimator).__name__} must have been fitted on 2-D y: a class excludes the "
            "others, whatever the hidden units are"
        )
    weights = np.asarray(estimator.weights_, dtype=np.float64)
    labels = np.zeros((1, len(weights)))
    inputs = np.asarray(estimator.hidden_intercept_, dtype=np.float64)[None]
    if X is not None:
        labels = np.asarray(estimator.predict(X), dtype=np.float64)
        X = estimator._check_predict_data(X)
        inputs = inputs + safe_sparse_dot(X, estimator.hidden_coef_.T) + labels @ weights
    maximised = getattr(estimator, "hidden_", "marginal") == "max"  # as fitted
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
    """Return an order (L,) of the labels in which labels that attract each other are neighbours."""
    n_labels = len(weights)
    if n_labels < 3:
        return np.arange(n_labels)
    distance = weights.max(initial=0) - weights
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return leaves_list(tree)
