"""GraphDisplay: draw a small graphical model, with the marginals of its variables."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np

from skcrbm.inspection._display import Display
from skcrbm.utils.sklearn_private import check_matplotlib_support

# Largest number of variables. Drawings of larger graphs are not readable.
_MOST_VARIABLES = 300
# Number of steps of the layout.
_LAYOUT_STEPS = 300


class GraphDisplay(Display):
    """Drawing of the variables of a graphical model and of their edges.

    Create it with `from_energy`. Two variables are joined if they occur in the same factor. The
    colour of a binary variable is the probability of state 1. A variable with more states is a pie
    with a slice for each state.

    Parameters
    ----------
    edges : array-like of int (n_edges, 2)
        Pairs of variables that are joined by an edge.
    marginals : array-like (n_variables,) or (n_variables, n_states), default=None
        Probability of state 1, or the probability of each state, which may be NaN for states that a
        variable does not have. None draws all variables in grey.
    labels : sequence of n_variables str, default=None
        Names of the variables; None uses their indices.
    positions : array-like (n_variables, 2), dict or None, default=None
        Places of the variables, for example from a layout function of networkx, which returns a
        dict from nodes (indices or labels) to places. None computes places by a simulation of
        forces: edges pull their variables together, and all pairs of variables push each other
        away.
    n_variables : int, default=None
        Number of variables; needed only if neither `marginals` nor `labels` is given.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the drawing.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    positions_ : ndarray (n_variables, 2)
        Places of the variables.

    Examples
    --------
    >>> from skcrbm.inspection import GraphDisplay
    >>> display = GraphDisplay(
    ...     [[0, 1], [0, 2]], [0.2, 0.7, 0.5], labels=["rain", "wet grass", "umbrella"]
    ... ).plot()
    >>> display.positions_.shape
    (3, 2)
    """

    def __init__(
        self,
        edges: Any,
        marginals: Any = None,
        *,
        labels: Any = None,
        positions: Any = None,
        n_variables: int | None = None,
    ):
        self.edges = edges
        self.marginals = marginals
        self.labels = labels
        self.positions = positions
        self.n_variables = n_variables

    @classmethod
    def from_energy(
        cls,
        energy: Any,
        result: Any = None,
        *,
        model: int = 0,
        labels: Any = None,
        positions: Any = None,
        ax: Any = None,
    ) -> GraphDisplay:
        """Draw an energy, with the marginals of a result of `infer`.

        Parameters
        ----------
        energy : FactorGraphEnergy, IsingEnergy or RBMEnergy
            Model of up to 300 variables.
        result : InferenceResult, default=None
            Result of ``infer(energy, method)`` with marginals; None draws the graph alone.
        model : int, default=0
            Index of the model, if the energy is a batch of models.
        labels : sequence of str, default=None
            Names of the variables; None uses ``energy.labels`` or the indices.
        positions : array-like, dict or None, default=None
            Places of the variables, as in the class.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.

        Returns
        -------
        display : GraphDisplay
            Display with the graph drawn.

        Raises
        ------
        ValueError
            If the energy has more than 300 variables, or the result has no marginals of this
            energy.
        """
        check_matplotlib_support(f"{cls.__name__}.from_energy")
        n = energy.n_variables
        if n > _MOST_VARIABLES:
            raise ValueError(
                f"energy has {n} variables; GraphDisplay draws at most {_MOST_VARIABLES}"
            )
        marginals = None
        if result is not None:
            if result.marginals is None or result.marginals.shape[1] != n:
                raise ValueError(
                    "result must contain the marginals of the energy: use infer(energy, method)"
                )
            marginals = result.marginals[model]
        if labels is None:
            labels = getattr(energy, "labels", None)
        edges = _edges_of(energy)
        display = cls(edges, marginals, labels=labels, positions=positions, n_variables=n)
        return display.plot(ax=ax)

    def plot(
        self,
        ax: Any = None,
        *,
        cmap: Any = "viridis",
        node_size: float = 0.06,
        font_size: float = 8.0,
        colorbar: bool = True,
    ) -> GraphDisplay:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes new axes.
        cmap : str or matplotlib Colormap, default="viridis"
            Colours of probabilities from 0 to 1, or of the states if there are more than two.
        node_size : float, default=0.06
            Radius of a variable, as a share of the width of the drawing.
        font_size : float, default=8.0
            Size of the names.
        colorbar : bool, default=True
            True to draw a colour bar for the probabilities of binary variables.

        Returns
        -------
        self : object
            This object.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib as mpl
        from matplotlib.patches import Circle, Wedge

        edges = np.asarray(self.edges, np.int64).reshape(-1, 2)
        marginals = None if self.marginals is None else np.asarray(self.marginals, np.float64)
        n = self._count(edges, marginals)
        names = [str(i) for i in range(n)] if self.labels is None else list(map(str, self.labels))
        if len(names) != n:
            raise ValueError(f"labels must have {n} entries, got {len(names)}")
        places = self._places(edges, n)
        ax = self._set_axes(ax, figsize=(5.5, 5.0), layout="constrained")
        ax.plot(places[edges, 0].T, places[edges, 1].T, color="0.6", lw=1.0, zorder=1)
        colours = mpl.colormaps.get_cmap(cmap)
        binary = marginals is not None and marginals.ndim == 1
        for i, (x, y) in enumerate(places):
            if marginals is None:
                face = "0.85"
            elif binary:
                face = colours(marginals[i])
            else:
                face = "white"
                _draw_slices(ax, Wedge, (x, y), node_size, marginals[i], colours)
            hollow = marginals is not None and not binary
            ax.add_patch(
                Circle((x, y), node_size, fc="none" if hollow else face, ec="0.2", lw=0.8, zorder=3)
            )
            ax.text(
                x, y - 1.25 * node_size, names[i], ha="center", va="top", fontsize=font_size,
                bbox={"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.8}, zorder=4,
            )  # fmt: skip
        ax.set(xlim=(-0.15, 1.15), ylim=(-0.2, 1.15), aspect="equal", xticks=[], yticks=[])
        ax.set_frame_on(False)
        if binary and colorbar:
            scale = mpl.cm.ScalarMappable(mpl.colors.Normalize(0, 1), colours)
            ax.figure.colorbar(scale, ax=ax, shrink=0.7).set_label("probability of state 1")
        self.positions_ = places
        return self

    def _count(self, edges, marginals):
        """Return the number of variables."""
        if self.n_variables is not None:
            return self.n_variables
        if marginals is not None:
            return len(marginals)
        return len(self.labels) if self.labels is not None else int(edges.max(initial=-1)) + 1

    def _places(self, edges, n):
        """Return the places (n, 2), scaled to the unit square."""
        given = self.positions
        if given is None:
            places = _layout(edges, n)
        elif isinstance(given, dict):
            labels = list(range(n)) if self.labels is None else list(self.labels)
            places = np.array([given[i] if i in given else given[v] for i, v in enumerate(labels)])
        else:
            places = np.asarray(given, np.float64)
        if places.shape != (n, 2):
            raise ValueError(f"positions must have the shape ({n}, 2), got {places.shape}")
        low, high = places.min(axis=0), places.max(axis=0)
        span = float((high - low).max()) or 1.0
        return 0.5 + (places - (low + high) / 2) / span


def _draw_slices(ax, wedge, centre, radius, shares, colours):
    """Draw a pie with a slice for each state of a variable."""
    shares = shares[~np.isnan(shares)]
    ends = 90 - 360 * np.concatenate([[0], np.cumsum(shares / max(shares.sum(), 1e-12))])
    for k, (start, stop) in enumerate(pairwise(ends)):
        face = colours(k / max(len(shares) - 1, 1))
        ax.add_patch(wedge(centre, radius, stop, start, fc=face, ec="none", zorder=2))


def _edges_of(energy) -> np.ndarray:
    """Return the pairs (E, 2) of variables that occur in the same factor."""
    if hasattr(energy, "factors"):
        pairs = {
            tuple(sorted(pair))
            for factor in energy.factors
            for scope in np.asarray(factor.variables).tolist()
            for pair in combinations(scope, 2)
        }
        return np.array(sorted(pairs), np.int64).reshape(-1, 2)
    if hasattr(energy, "edges"):
        return np.asarray(energy.edges)
    if hasattr(energy, "weights"):
        i, j = np.nonzero(energy.weights)
        return np.column_stack([i, j + energy.n_visible])
    raise ValueError(
        f"energy must be a FactorGraphEnergy, IsingEnergy or RBMEnergy, got {type(energy).__name__}"
    )


def _layout(edges, n):
    """Return places (n, 2) by the force-directed layout of Fruchterman and Reingold."""
    turn = 2 * np.pi * np.arange(n) / max(n, 1)
    places = np.column_stack([np.cos(turn), np.sin(turn)])
    distance = 1.5 / np.sqrt(max(n, 1))
    joined = np.zeros((n, n))
    joined[edges[:, 0], edges[:, 1]] = joined[edges[:, 1], edges[:, 0]] = 1.0
    for step in np.linspace(0.1, 0.002, _LAYOUT_STEPS):
        away = places[:, None] - places[None]
        length = np.maximum(np.linalg.norm(away, axis=2), 1e-3)
        strength = distance**2 / length**2 - joined * length / distance
        force = (away * strength[:, :, None]).sum(axis=1) - 0.3 * places
        size = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-12)
        places = places + force / size * np.minimum(size, step)
    return places
