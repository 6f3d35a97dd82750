"""Ising models over -1/+1 variables on lattices and other sparse graphs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from skcrbm.energies._factors import as_variables
from skcrbm.energies._labelled import (
    LabelledModel,
    energy_of_model,
    model_of_bqm,
    model_of_energy,
    model_of_graph,
)
from skcrbm.energies._pairwise import PairwiseEnergy, symmetric_values
from skcrbm.energies._sparse_graph import ColourLanes, Neighbours, SparseGraph
from skcrbm.energies.base import QUERIES, Block
from skcrbm.energies.states import unchecked
from skcrbm.utils.limits import BLOCK_ENTRIES, MAX_ELIMINATED_ENTRIES
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_float_array, as_row_fields, kernel_array


class SparseIsingEnergy(PairwiseEnergy):
    """A batch of Ising models on a sparse graph that share their couplings.

    The score is ``-E_n(y) = f_n' y + sum_(i<k) s_ik y_i y_k`` for y in {-1, +1}^L, with the sum
    over the edges of the graph. Use this class instead of `IsingEnergy` for lattices and other
    sparse graphs, because its cost is proportional to the number of edges. States in arguments and
    results are 0/1: 0 represents y = -1, and 1 represents y = +1.

    Parameters
    ----------
    coupling : sparse matrix or array (L, L)
        Couplings S, symmetric with a zero diagonal. Each stored entry of a sparse matrix is an
        edge, including stored zeros.
    field : array-like (L,) or (N, L), default=None
        Fields f, with a row per model. None means a single model with fields of 0.

    Attributes
    ----------
    edges : ndarray of int64 (E, 2)
        Pairs i < k of neighbours, sorted.
    edge_coupling : ndarray (E,)
        Coupling of each edge.
    field : ndarray (N, L)
        Fields f of each model.
    neighbours : Neighbours
        The edges in both directions, with the arrays ``start`` (L + 1,), and ``variables``,
        ``edge`` and ``reverse`` (2 E,).
    labels : tuple (L,) or None
        Labels of the variables, if the model was converted from another package (`from_ising`).
    offset : float
        Constant of the energy of a converted model. Scores do not include it.
    n_models, n_variables : int
        Number of models N and of variables L.
    dtype : numpy dtype
        float32 if both inputs are float32, else float64.

    Raises
    ------
    ValueError
        If an array has the wrong shape or is not finite, or `coupling` is not symmetric with a
        zero diagonal.

    Examples
    --------
    >>> from skcrbm.energies import SparseIsingEnergy
    >>> from skcrbm.inference import infer
    >>> ring = SparseIsingEnergy.from_edges([[0, 1], [1, 2], [2, 3], [0, 3]], 0.5, [1, 0, 0, 0])
    >>> infer(ring, "exact").marginals.round(3)
    array([[0.881, 0.704, 0.656, 0.704]])
    """

    _saved = ("_graph", "edge_coupling", "field")

    queries = QUERIES - {"marginal_map"}
    labels: tuple[Hashable, ...] | None = None
    offset: float = 0.0
    _constants = ("offset",)

    def __init__(self, coupling: Any, field: ArrayLike | None = None):
        if not sparse.issparse(coupling):
            coupling = as_float_array(coupling, "coupling", "(L, L)")
        if coupling.ndim != 2 or coupling.shape[0] != coupling.shape[1]:
            raise ValueError(f"coupling must have shape (L, L), got {coupling.shape}")
        entries = sparse.coo_array(coupling)
        entries.sum_duplicates()
        values = as_float_array(entries.data, "coupling", "(E,)")
        row, column = (np.asarray(part, np.int64) for part in (entries.row, entries.col))
        if values[row == column].any():
            raise ValueError(
                "coupling must have a zero diagonal, because y_i y_i = 1 is a constant"
            )
        off = row != column
        ends = np.sort(np.column_stack([row, column])[off], axis=1)
        edges, which = np.unique(ends, axis=0, return_inverse=True)
        weights = np.zeros((len(edges), 2), values.dtype)
        weights[which.ravel(), (row < column)[off].astype(int)] = values[off]
        weights = symmetric_values(weights[:, 1], weights[:, 0])
        self._set(SparseGraph(edges.reshape(-1, 2), coupling.shape[0]), weights, field)

    def _set(self, graph, weights, field):
        width = graph.n_variables
        field = np.zeros((1, width), weights.dtype) if field is None else field
        field = as_row_fields(field, "field", width, "L")
        dtype = np.result_type(weights, field)
        self._graph = graph
        self.edge_coupling = kernel_array(weights, dtype)
        self.field = kernel_array(field, dtype)

    @classmethod
    def from_edges(
        cls, edges: ArrayLike, weights: ArrayLike, field: ArrayLike
    ) -> SparseIsingEnergy:
        """Create an energy from a list of edges.

        Parameters
        ----------
        edges : array-like of int (E, 2)
            Pairs of different variables, in any order and without repeated pairs.
        weights : array-like (E,) or float
            Coupling of each pair, or a number for all pairs.
        field : array-like (L,) or (N, L)
            Fields, with a row per model.

        Returns
        -------
        SparseIsingEnergy
            Energy whose edges are sorted.

        Raises
        ------
        ValueError
            If a pair occurs twice or joins a variable to itself, or an array has a wrong shape.
        """
        edges = np.empty((0, 2), np.int64) if np.size(edges) == 0 else edges
        pairs = as_variables(edges, "edges", "(E, 2)")
        if pairs.shape[1] != 2:
            raise ValueError(f"edges must have shape (E, 2), got {pairs.shape}")
        if np.ndim(weights) == 0:
            weights = np.full(len(pairs), weights)
        weights = as_float_array(weights, "weights", "(E,)")
        if weights.shape != (len(pairs),):
            raise ValueError(f"weights must have shape ({len(pairs)},), got {weights.shape}")
        if np.ndim(field) not in (1, 2):
            raise ValueError(f"field must have shape (L,) or (N, L), got {np.shape(field)}")
        width = np.shape(field)[-1]
        if pairs.max(initial=-1) >= width:
            raise ValueError(
                f"edges hold variable {pairs.max()}, but field has only the variables 0 to "
                f"{width - 1}"
            )
        if (pairs[:, 0] == pairs[:, 1]).any():
            raise ValueError("edges must join different variables")
        pairs = np.sort(pairs, axis=1)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        pairs = np.ascontiguousarray(pairs[order])
        twice = np.flatnonzero((pairs[1:] == pairs[:-1]).all(axis=1))
        if len(twice):
            raise ValueError(
                f"edges must not repeat a pair; {pairs[twice[0]].tolist()} occurs twice"
            )
        energy = cls.__new__(cls)
        energy._set(SparseGraph(pairs, width), weights[order], field)
        return energy

    # ------------------------------------------------- models of other packages

    @classmethod
    def from_ising(
        cls, h: Mapping | ArrayLike, J: Mapping, offset: float = 0.0
    ) -> SparseIsingEnergy:
        """Create an energy from labelled fields and couplings with the signs of D-Wave's tools.

        The probability of spins s of -1/+1 is proportional to ``exp(-E(s))`` with
        ``E(s) = sum_i h_i s_i + sum_(i, j) J_ij s_i s_j + offset``. Therefore `field` is -h,
        `edge_coupling` is -J, and the best state of `infer` is the state with the lowest E.

        Parameters
        ----------
        h : mapping of {label: float}, or array-like (L,)
            Fields. Labels may be any hashable objects; the labels of an array are 0 to L - 1.
            Labels that occur only in J have a field of 0.
        J : mapping of {(label, label): float}
            Couplings. The couplings of (i, j) and (j, i) are added up.
        offset : float, default=0.0
            Constant of E. Scores and log Z do not include it: ``E(s) = offset - score``.

        Returns
        -------
        SparseIsingEnergy
            Energy with the attributes `labels`, in the order of h followed by J, and `offset`.

        Raises
        ------
        ValueError
            If a value is not a finite number, or J joins a label to itself.

        Examples
        --------
        >>> from skcrbm.energies import SparseIsingEnergy
        >>> from skcrbm.inference import infer
        >>> energy = SparseIsingEnergy.from_ising({"a": 0.5}, {("a", "b"): -1, ("b", "c"): 2})
        >>> best = infer(energy, "exact", returns="map").assignment[0]
        >>> dict(zip(energy.labels, (2 * best - 1).tolist()))
        {'a': -1, 'b': -1, 'c': 1}
        """
        return cls._from_labelled(model_of_energy(h, J, offset))

    @classmethod
    def from_bqm(cls, bqm: Any) -> SparseIsingEnergy:
        """Create an energy from a binary quadratic model such as ``dimod.BinaryQuadraticModel``.

        Parameters
        ----------
        bqm : object
            Model with the mappings `linear` and `quadratic`, the number `offset`, and the `vartype`
            SPIN (-1/+1) or BINARY (0/1). The energy of the model is minimised, see `from_ising`.
            States of the new energy are 0/1; for a SPIN model 0 represents the spin -1.

        Returns
        -------
        SparseIsingEnergy
            Energy with the `labels` of the model. The energy of a sample in the given model is
            `offset` minus the score. For a BINARY model, `offset` also includes the constant that
            arises from the conversion to spins.

        Raises
        ------
        ValueError
            If the model has another vartype, or a value is not finite.
        """
        return cls._from_labelled(model_of_bqm(bqm))

    @classmethod
    def from_networkx(
        cls, graph: Any, weight: str = "weight", field: str = "field"
    ) -> SparseIsingEnergy:
        """Create an energy from a networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            Undirected graph whose nodes are the labels of the variables.
        weight : str, default="weight"
            Name of the edge attribute with the coupling. A positive coupling makes the two
            neighbours tend to be equal. Edges without the attribute have a coupling of 1.
        field : str, default="field"
            Name of the node attribute with the field. Nodes without the attribute have a field
            of 0.

        Returns
        -------
        SparseIsingEnergy
            Energy with `labels` in the order of the nodes.

        Raises
        ------
        ValueError
            If the graph is directed, has loops or several edges for a pair, or a value is not a
            finite number.
        """
        return cls._from_labelled(model_of_graph(graph, weight, field))

    @classmethod
    def from_triangle(cls, triangle: Any, field: ArrayLike | None = None) -> SparseIsingEnergy:
        """Create an energy from a triangular matrix of couplings.

        Parameters
        ----------
        triangle : sparse matrix or array (L, L)
            Upper or lower triangle. Entry (i, k) is the coupling s_ik.
        field : array-like (L,) or (N, L), default=None
            Fields f, with a row per model. None means a single model with fields of 0.

        Returns
        -------
        SparseIsingEnergy
            Energy with a symmetric coupling matrix.

        Raises
        ------
        ValueError
            If both (i, k) and (k, i) have nonzero entries, or an argument is invalid.
        """
        triangle = sparse.csr_array(triangle)
        if triangle.ndim == 2 and triangle.shape[0] == triangle.shape[1]:
            twice = triangle.multiply(triangle.T)
            twice.setdiag(0)
            if twice.nnz and twice.data.any():
                i, k = (int(part[0]) for part in twice.nonzero())
                raise ValueError(
                    f"triangle must hold each pair once, but both {i, k} and {k, i} are not 0"
                )
            triangle = triangle + triangle.T
        return cls(triangle, field)

    @classmethod
    def _from_labelled(cls, model: LabelledModel) -> SparseIsingEnergy:
        energy = cls.from_edges(model.edges, model.weights, model.field)
        return energy._copy_with(labels=model.labels, offset=model.offset)

    def to_ising(self, model: int = 0) -> tuple[dict, dict, float]:
        """Return a model as arguments of `from_ising` or ``dimod.BinaryQuadraticModel.from_ising``.

        If the energy has no `labels`, the labels are the indices of the variables. The evidence is
        ignored.

        Parameters
        ----------
        model : int, default=0
            Index of the model in the batch.

        Returns
        -------
        h : dict of {label: float}
            Fields, with the sign of an energy that is minimised.
        J : dict of {(label, label): float}
            Couplings, with the sign of an energy that is minimised.
        offset : float
            Constant of the energy.

        Examples
        --------
        >>> from skcrbm.energies import SparseIsingEnergy
        >>> SparseIsingEnergy.from_edges([[0, 1]], 2.0, [0.5, -1.0]).to_ising()
        ({0: -0.5, 1: 1.0}, {(0, 1): -2.0}, 0.0)
        """
        labels = range(self.n_variables) if self.labels is None else self.labels
        h, J = energy_of_model(labels, self.edges, self.edge_coupling, self.field[model])
        return h, J, self.offset

    @property
    def edges(self) -> np.ndarray:
        """Sorted pairs i < k of neighbours, ndarray (E, 2) of int64."""
        return self._graph.edges

    @property
    def neighbours(self) -> Neighbours:
        """The edges in both directions: ``start``, ``variables``, ``edge``, ``reverse``."""
        return self._graph.neighbours

    @property
    def lanes(self) -> ColourLanes:
        """Memory layout for compiled sweeps, in which the variables are sorted by colour."""
        return self._graph.lanes

    @property
    def coupling(self) -> sparse.csr_array:
        """Couplings S as a symmetric CSR array (L, L)."""
        neighbours = self.neighbours
        shape = self.n_variables, self.n_variables
        return sparse.csr_array(
            (self.edge_coupling[neighbours.edge], neighbours.variables, neighbours.start),
            shape=shape,
        )

    def with_edge_coupling(self, weights: ArrayLike) -> SparseIsingEnergy:
        """Return the energy with new couplings (E,), and the same graph, fields and evidence.

        Raises
        ------
        ValueError
            If the shape is wrong, or a value is not finite.
        """
        weights = as_float_array(weights, "weights", "(E,)")
        if weights.shape != self.edge_coupling.shape:
            raise ValueError(
                f"weights must have shape {self.edge_coupling.shape}, got {weights.shape}"
            )
        return self._copy_with(edge_coupling=kernel_array(weights, self.dtype))

    # ------------------------------------------------------------------ shape

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `field`."""
        return (self.field,)

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `edge_coupling`."""
        return (self.edge_coupling,)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds (N, L) of the fields, and the influence (L,) of the couplings.

        If all couplings were 0, the log-odds of the variables would be twice the fields. The
        influence is the largest amount by which the neighbours can change the log-odds of a
        variable: twice the sum of the absolute couplings of the variable.
        """
        size = np.repeat(2 * np.abs(self.edge_coupling).astype(np.float64), 2)
        influence = np.bincount(self.edges.ravel(), size, self.n_variables)
        return 2.0 * self.field, influence

    @property
    def n_variables(self) -> int:
        """Number of variables L."""
        return self._graph.n_variables

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Return the number of variables of the largest table that variable elimination makes."""
        found = self._graph.elimination
        return found.width + 1 if found.complete else self.n_variables

    @property
    def max_enumerated(self) -> int:
        """Largest `n_enumerated` that the method "exact" accepts by default."""
        return MAX_ELIMINATED_ENTRIES.bit_length() - 1

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics.

        There is one array, of shape (E,), with P(y_i = +1, y_k = +1) for each edge.
        """
        return (self.edge_coupling.shape,)

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    def scaled(self, beta: float) -> Self:
        """Return the energy with the couplings multiplied by `beta`."""
        return self._copy_with(edge_coupling=self.edge_coupling * self.dtype.type(beta))

    def tilted(self, shift: np.ndarray) -> tuple[Self, np.ndarray]:
        """Multiply the weight of each state by ``exp(shift' v)``, where v is the state as 0/1."""
        half = np.broadcast_to(np.asarray(shift, np.float64) / 2, self.field.shape)
        return self.with_fields(self.field + half), half.sum(axis=1)

    # -------------------------------------------------------------- evidence

    def fold_evidence(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Add the effect of clamped variables to the fields of free variables, and to an offset.

        The first result is a tuple with the new fields (N, L), which are 0 for clamped variables.
        The second is the offset (N,): the sum of the terms of the score that depend only on clamped
        variables.
        """
        if self.evidence is None:
            return self.fields, np.zeros(self.n_models)
        held = ~np.isnan(self.evidence)
        signs = np.where(held, 2 * np.nan_to_num(self.evidence) - 1, 0.0)
        pull = self._pull(signs)
        offset = (signs * (self.field + 0.5 * pull)).sum(axis=1)
        field = np.where(held, 0.0, self.field + pull)
        return (kernel_array(field, self.dtype),), offset

    def _pull(self, y, variables=None):
        """Return, for each variable i, the sum of ``s_ik y_k`` over its neighbours k.

        `y` (K, L) holds K states of L variables, -1 or +1, and s_ik are the couplings. `variables`
        (B,) selects variables i, by default all of them. The result is (K, B).
        """
        coupling: Any = self.coupling.astype(np.float64)
        if variables is not None:
            coupling = coupling[variables]
        return np.ascontiguousarray((coupling @ y.T).T)

    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return arrays whose products are the probability that both variables of an edge are 1.

        `values` (N, L) holds the values of clamped variables and 0 for free variables. `free` (N,
        L) holds the means of free variables and 0 for clamped variables. The result is a tuple of
        two pairs of arrays (N, E). The probability is the product of the first pair plus the
        product of the second pair. It is 0 for edges without a clamped variable.
        """
        i, k = self.edges.T
        return ((values[:, i], values[:, k] + free[:, k]), (free[:, i], values[:, k]))

    def add_held_pairs(
        self,
        statistics: tuple[np.ndarray, ...],
        values: np.ndarray,
        free: np.ndarray,
        weight: np.ndarray | None,
    ) -> None:
        """Add the statistics of edges with a clamped variable to `statistics`, in place."""
        for left, right in self.held_pairs(values, free):
            both = left * right
            statistics[0][...] += both if weight is None else weight @ both

    # ----------------------------------------------------- weights of states

    def _edge_scores(self, y):
        """Return the sum (K,) of the scores of all edges, for each of K states (K, L) of -1/+1."""
        total = np.empty(len(y))
        weights = self.edge_coupling.astype(np.float64)
        i, k = self.edges.T
        for rows in row_chunks(len(y), max(1, BLOCK_ENTRIES // max(1, len(weights)))):
            total[rows] = ((y[rows][:, i] * y[rows][:, k]) * weights).sum(axis=1)
        return total

    def _score(self, states):
        y = 2 * np.asarray(states).astype(np.float64) - 1
        return (y * self.field).sum(axis=1) + self._edge_scores(y)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N,) of a state of each model; `visible` (N, L) holds the states."""
        return unchecked(self.score)(visible)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N, K), float64, of K states (K, L) under each of N models."""
        y = 2 * np.asarray(visible_sets).astype(np.float64) - 1
        scores = self.field.astype(np.float64) @ y.T + self._edge_scores(y)
        return self._without_contradictions(scores, np.asarray(visible_sets, np.float64))

    # ----------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Tuple of blocks (index arrays). Variables of the same block are not neighbours."""
        return self._graph.blocks

    def _conditional_log_odds(self, states, block):
        n, n_chains, width = states.shape
        y = 2.0 * np.asarray(states).reshape(n * n_chains, width).astype(np.float64) - 1.0
        variables = np.arange(width)[block]
        pull = self._pull(y, variables).reshape(n, n_chains, len(variables))
        return 2 * (self.field[:, None, variables] + pull)

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds ``2 (f_i + S_i y)`` (N, L) of each variable given all others."""
        states = np.asarray(visible)[:, None]
        log_odds = unchecked(self.conditional_log_odds)(states, slice(0, self.n_variables))
        return log_odds[:, 0].astype(self.dtype)

    # ------------------------------------------------- sufficient statistics

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a tuple with a single array (E,), which holds a weighted sum for each edge.

        The sum of the edge (i, k) runs over the rows of `means`. Each row adds its weight times the
        product of the means of variables i and k.
        """
        i, k = self.edges.T
        total = np.zeros(len(self.edge_coupling))
        means = np.asarray(means).astype(self.dtype, copy=False)
        for rows in row_chunks(len(means), max(1, BLOCK_ENTRIES // max(1, len(total)))):
            total += np.asarray(weight[rows], np.float64) @ (means[rows][:, i] * means[rows][:, k])
        return (total.astype(self.dtype),)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean score over a distribution of states, computed from its moments."""
        i, k = self.edges.T
        products = 4 * statistics[0] - 2 * (means[i] + means[k]) + 1
        linear = self.field[0].astype(np.float64) @ (2 * means - 1)
        return float(linear + self.edge_coupling.astype(np.float64) @ products)
