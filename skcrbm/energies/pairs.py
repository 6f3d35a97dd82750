"""Ising models: pairwise models of 0/1 variables, with couplings as a matrix or as edges."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from skcrbm.energies._couplings import (
    EdgeCouplings,
    MatrixCouplings,
    couplings_of,
    with_own_values,
)
from skcrbm.energies._factors import as_variables
from skcrbm.energies._labelled import (
    LabelledModel,
    energy_of_model,
    model_of_bqm,
    model_of_energy,
    model_of_graph,
)
from skcrbm.energies._sparse_graph import ColourLanes, Neighbours, SparseGraph
from skcrbm.energies.base import QUERIES, BaseEnergy, Block, checked_beta
from skcrbm.energies.states import infinite_where_held, unchecked
from skcrbm.utils.labels import by_label, matrix_with_labels, with_new_labels
from skcrbm.utils.limits import MAX_ELIMINATED_ENTRIES, MAX_ENUMERATED, MAX_MATRIX_ENTRIES
from skcrbm.utils.validation import (
    as_float_array,
    as_real,
    as_row_fields,
    check_index,
    has_labels,
    kernel_array,
    own_array,
)

# Largest number of 0/1 variables of a table that "exact" accepts by default.
_MOST_IN_TABLE = MAX_ELIMINATED_ENTRIES.bit_length() - 1
# An entry of a table of an elimination takes about 2^6 times as long as an enumerated state.
_ELIMINATION_BITS = 6


class PairwiseEnergy(BaseEnergy):
    """A batch of models whose couplings multiply products of two variables.

    A clamped variable shifts the fields of the free variables. After this shift, solvers leave out
    the clamped variables and do not need their values.
    """

    @property
    def is_pairwise(self) -> bool:
        """True, because all terms depend on one or two variables."""
        return True

    @abstractmethod
    def fold_evidence(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Add the effect of clamped variables to the fields of free variables, and to an offset.

        Returns
        -------
        fields : tuple of ndarray
            Arrays with the shapes of `fields`, which are 0 for clamped variables.
        offset : ndarray (N,), float64
            Sum of the terms of the score that depend only on clamped variables. The caller adds it
            to log Z.
        """

    @abstractmethod
    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return arrays whose products are expected statistics of pairs with a clamped variable.

        Parameters
        ----------
        values : ndarray (N, n_variables)
            Values of the clamped variables, 0 for free variables.
        free : ndarray (N, n_variables)
            Marginals of the free variables, 0 for clamped variables.

        Returns
        -------
        tuple of (left, right)
            The statistics are the sum of ``left[:, :, None] * right[:, None, :]`` over the tuple.
            If couplings are stored as edges, they are the sum of ``left * right`` for each edge.
        """

    def add_held_pairs(
        self,
        statistics: tuple[np.ndarray, ...],
        values: np.ndarray,
        free: np.ndarray,
        weight: np.ndarray | None,
    ) -> None:
        """Add the statistics of pairs with a clamped variable to `statistics`, in place.

        Parameters
        ----------
        statistics : tuple of ndarray
            Arrays with the shapes in `statistic_shapes`, or with an additional first axis N.
        values, free : ndarray (N, n_variables)
            See `held_pairs`.
        weight : ndarray (N,) or None
            Weights of the models in a sum over the models, or None if `statistics` holds the
            statistics of each model.
        """
        (pairs,) = statistics
        for left, right in self.held_pairs(values, free):
            if weight is None:
                pairs += left[:, :, None] * right[:, None, :]
            else:
                pairs += (weight[:, None] * left).T @ right


class IsingEnergy(PairwiseEnergy):
    """A batch of pairwise Boltzmann machines that share their couplings.

    The score is ``-E_n(y) = f_n' y + 1/2 y' S y`` for y in {-1, +1}^L. Given the features x_n, a
    large margin Boltzmann machine [1]_ is this energy with the fields ``f_n = A x_n + b``.

    As in all energies, states in arguments and results are 0/1: 0 represents y = -1, and 1
    represents y = +1. Marginals are P(y_i = +1).

    Couplings are stored as they are given: an array as a matrix (L, L), a sparse matrix as a list
    of edges. All methods of inference work with both, and choose their computation by the number of
    labels and couplings, whatever the storage is. Edges take memory in proportion to their number,
    and a matrix in proportion to L^2. Statistics have the form of the couplings.

    Parameters
    ----------
    coupling : array-like or sparse matrix of shape (L, L)
        Couplings S, symmetric with a zero diagonal. Each stored entry of a sparse matrix is an
        edge, including stored zeros.
    field : array-like of shape (L,) or (N, L), default=None
        Fields f, with a row per model. None means a single model with fields of 0.

    Attributes
    ----------
    coupling : ndarray or CSR array (L, L)
        Couplings S.
    field : ndarray (N, L)
        Fields f of each model.
    couplings_are_sparse : bool
        True if the couplings are stored as a list of edges.
    edges : ndarray of int64 (E, 2)
        Pairs i < k of neighbours, sorted: the stored edges, or the nonzero entries of a matrix.
    edge_coupling : ndarray (E,)
        Coupling of each edge.
    neighbours : Neighbours
        The edges in both directions, with the arrays ``start`` (L + 1,), and ``variables``,
        ``edge`` and ``reverse`` (2 E,).
    labels : tuple (L,) or None
        Labels of the variables, if the model was converted from another package (`from_ising`), or
        if `coupling` or `field` has labels, as a data frame or Series. See `BaseEnergy`.
    offset : float
        Constant of the energy of a converted model. Scores do not include it.
    n_models, n_variables : int
        Number of models N and of labels L.
    dtype : numpy dtype
        Dtype of inference: float32 if both inputs are float32, else float64.

    Raises
    ------
    ValueError
        If an array has the wrong shape or is not finite, or `coupling` is not symmetric
        with a zero diagonal.

    See Also
    --------
    SparseIsingEnergy : Ising model with couplings on the edges of a graph.

    References
    ----------
    .. [1] Miao and Rao (2009). Large margin Boltzmann machines. IJCAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> energy = IsingEnergy([[0.0, 1.0], [1.0, 0.0]], [[0.5, 0.0], [0.0, 0.0]])
    >>> infer(energy, "exact").marginals.round(3)
    array([[0.731, 0.676],
           [0.5  , 0.5  ]])
    """

    _saved = ("_pairs", "field")

    queries = QUERIES - {"marginal_map"}
    offset: float = 0.0
    _constants = ("offset",)

    def __init__(self, coupling: Any, field: ArrayLike | None = None):
        labels = None
        if has_labels(coupling):
            coupling, labels, _ = matrix_with_labels(coupling, "coupling", symmetric=True)
        self._set(couplings_of(coupling), field, labels)

    def _set(self, pairs, field, labels=None):
        if has_labels(field):
            field, labels = with_new_labels(field, "field", labels)
        self.labels = labels
        field = np.zeros((1, pairs.n_variables), pairs.values.dtype) if field is None else field
        field = as_row_fields(field, "field", pairs.n_variables, "L")
        dtype = np.result_type(pairs.values, field)
        self._pairs: MatrixCouplings | EdgeCouplings = with_own_values(pairs, dtype)
        self.field = own_array(field, dtype)

    @classmethod
    def _of_pairs(cls, pairs, field, labels=None):
        energy = cls.__new__(cls)
        energy._set(pairs, field, labels)
        return energy

    @classmethod
    def from_edges(cls, edges: ArrayLike, weights: ArrayLike, field: ArrayLike) -> IsingEnergy:
        """Create an energy from a list of edges.

        Parameters
        ----------
        edges : array-like of int (E, 2)
            Pairs of different variables, in any order and without repeated pairs.
        weights : array-like (E,) or float
            Coupling of each pair, or a number for all pairs. A mapping or Series with pairs as
            labels is read by these pairs.
        field : array-like (L,) or (N, L)
            Fields, with a row per model. If they have labels, as a Series or a data frame, the
            variables have these labels and this order; integers must be indices of variables.

        Returns
        -------
        IsingEnergy
            Energy whose edges are sorted.

        Raises
        ------
        ValueError
            If a pair occurs twice or joins a variable to itself, or an array has a wrong shape.
        """
        labels = None
        if has_labels(field):
            field, labels = with_new_labels(field, "field")
        check_index(edges, weights, "weights", "edges")
        listed = has_labels(edges)
        empty = np.empty((0, 2), np.int64)
        pairs = as_variables(empty if _is_empty(edges) else edges, "edges", "(E, 2)")
        if pairs.shape[1] != 2:
            raise ValueError(f"edges must have shape (E, 2), got {pairs.shape}")
        if has_labels(weights) and not listed:
            weights = by_label(weights, "weights", len(pairs), tuple(map(tuple, pairs.tolist())))
        weights = as_real(weights, "weights", "(E,) or ()")
        if weights.ndim == 0:
            weights = np.full(len(pairs), weights)
        weights = as_float_array(weights, "weights", "(E,)")
        if weights.shape != (len(pairs),):
            raise ValueError(f"weights must have shape ({len(pairs)},), got {weights.shape}")
        field = as_real(field, "field", "(L,) or (N, L)")
        if field.ndim not in (1, 2):
            raise ValueError(f"field must have shape (L,) or (N, L), got {field.shape}")
        width = field.shape[-1]
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
        couplings = EdgeCouplings(SparseGraph(pairs, width), weights[order])
        return cls._of_pairs(couplings, field, labels)

    # ------------------------------------------------- models of other packages

    @classmethod
    def from_ising(cls, h: Mapping | ArrayLike, J: Mapping, offset: float = 0.0) -> IsingEnergy:
        """Create an energy from labelled fields and couplings with the signs of D-Wave's tools.

        The probability of spins s of -1/+1 is proportional to ``exp(-E(s))`` with
        ``E(s) = sum_i h_i s_i + sum_(i, j) J_ij s_i s_j + offset``. Therefore `field` is -h,
        `edge_coupling` is -J, and the best state of `infer` is the state with the lowest E.

        Parameters
        ----------
        h : mapping of {label: float}, or array-like (L,)
            Fields. Labels may be any hashable objects; the labels of an array are 0 to L - 1.
            Labels that occur only in J have a field of 0. Any object with the method ``items`` is
            a mapping, such as a pandas Series, whose index holds the labels.
        J : mapping of {(label, label): float}
            Couplings. The couplings of (i, j) and (j, i) are added up. A Series needs an index of
            pairs.
        offset : float, default=0.0
            Constant of E. Scores and log Z do not include it: ``E(s) = offset - score``.

        Returns
        -------
        IsingEnergy
            Energy with the attributes `labels`, in the order of h followed by J, and `offset`.

        Raises
        ------
        ValueError
            If a value is not a finite number, h holds a label twice, or J joins a label to itself.

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
    def from_bqm(cls, bqm: Any) -> IsingEnergy:
        """Create an energy from a binary quadratic model such as ``dimod.BinaryQuadraticModel``.

        Parameters
        ----------
        bqm : object
            Model with the mappings `linear` and `quadratic`, the number `offset`, and the `vartype`
            SPIN (-1/+1) or BINARY (0/1). The energy of the model is minimised, see `from_ising`.
            States of the new energy are 0/1; for a SPIN model 0 represents the spin -1.

        Returns
        -------
        IsingEnergy
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
    def from_networkx(cls, graph: Any, weight: str = "weight", field: str = "field") -> IsingEnergy:
        """Create an energy from a networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            Undirected graph whose nodes are the labels of the variables.
        weight : str, default="weight"
            Name of the edge attribute with the coupling. A positive coupling makes the two
            neighbours tend to be equal. If no edge has the attribute "weight", all couplings are 1.
        field : str, default="field"
            Name of the node attribute with the field. Nodes without the attribute have a field
            of 0.

        Returns
        -------
        IsingEnergy
            Energy with `labels` in the order of the nodes.

        Raises
        ------
        ValueError
            If the graph is directed, has loops or several edges for a pair, if a value is not a
            finite number, if only some edges have the attribute `weight`, or if no edge or no node
            has an attribute that is named in the call.
        """
        return cls._from_labelled(model_of_graph(graph, weight, field))

    @classmethod
    def from_triangle(cls, triangle: Any, field: ArrayLike | None = None) -> IsingEnergy:
        """Create an energy from a triangular matrix of couplings.

        Parameters
        ----------
        triangle : sparse matrix or array (L, L)
            Upper or lower triangle. Entry (i, k) is the coupling s_ik.
        field : array-like (L,) or (N, L), default=None
            Fields f, with a row per model. None means a single model with fields of 0.

        Returns
        -------
        IsingEnergy
            Energy with a symmetric coupling matrix.

        Raises
        ------
        ValueError
            If both (i, k) and (k, i) have nonzero entries, or an argument is invalid.
        """
        triangle, labels, _ = matrix_with_labels(triangle, "triangle", symmetric=True)
        if not sparse.issparse(triangle):
            triangle = as_float_array(triangle, "triangle", "(L, L)")
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
        return cls._of_pairs(EdgeCouplings.of(triangle), field, labels)

    @classmethod
    def _from_labelled(cls, model: LabelledModel) -> IsingEnergy:
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
        field = self.field[self._checked_row(model, "model")]
        h, J = energy_of_model(labels, self.edges, self.edge_coupling, field)
        return h, J, self.offset

    # ------------------------------------------------------------ couplings

    @property
    def couplings_are_sparse(self) -> bool:
        """True if the couplings are stored as a list of edges, False if they are a matrix."""
        return self._pairs.is_sparse

    @property
    def coupling(self) -> Any:
        """Couplings S as a symmetric ndarray or, if they are sparse, as a CSR array (L, L)."""
        return self._pairs.matrix

    @property
    def edges(self) -> np.ndarray:
        """Sorted pairs i < k of neighbours, ndarray (E, 2) of int64."""
        return self._pairs.graph.edges

    @property
    def edge_coupling(self) -> np.ndarray:
        """Coupling of each edge, ndarray (E,)."""
        return self._pairs.edge_values

    @property
    def neighbours(self) -> Neighbours:
        """The edges in both directions: ``start``, ``variables``, ``edge``, ``reverse``."""
        return self._pairs.neighbours

    @property
    def lanes(self) -> ColourLanes:
        """Memory layout for compiled sweeps, in which the variables are sorted by colour."""
        return self._pairs.graph.lanes

    def coupling_lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the neighbours of each variable, with their couplings, as CSR arrays.

        Returns
        -------
        start : ndarray of int64 (L + 1,)
            Variable i has the entries start[i] to start[i + 1] - 1 of the other arrays.
        variables : ndarray of int64 (2 E,)
            The neighbours, in increasing order for each variable.
        coupling : ndarray of float64 (2 E,)
            Coupling with each neighbour.
        """
        return self._pairs.lists()

    def coupling_matrix(self) -> np.ndarray:
        """Return the couplings as an ndarray (L, L), also if they are sparse.

        Raises
        ------
        ValueError
            If couplings are sparse, and the matrix would have more than 2^27 entries.
        """
        if self.couplings_are_sparse and self.n_variables**2 > MAX_MATRIX_ENTRIES:
            raise ValueError(
                f"the couplings of {self.n_variables} variables as a matrix would have more than "
                f"{MAX_MATRIX_ENTRIES} entries; use 'map_search', 'icm' or 'simulated_annealing' "
                "for the best state of a model of this size"
            )
        return self._pairs.as_matrix()

    def as_sparse(self) -> Self:
        """Return the energy with its nonzero couplings as a list of edges, or itself if sparse."""
        return (
            self if self.couplings_are_sparse else self._copy_with(_pairs=self._pairs.as_sparse())
        )

    def as_dense(self) -> Self:
        """Return the energy with its couplings as a matrix, or itself if they are a matrix."""
        if not self.couplings_are_sparse:
            return self
        return self._copy_with(_pairs=MatrixCouplings(self.coupling_matrix()))

    @property
    def n_couplings(self) -> int:
        """Number of edges, or of pairs with a coupling other than 0 if couplings are a matrix."""
        return self._pairs.n_pairs

    def with_edge_coupling(self, weights: ArrayLike) -> Self:
        """Return the energy with new couplings (E,), and the same graph, fields and evidence.

        Raises
        ------
        ValueError
            If the shape is wrong, or a value is not finite.
        """
        if has_labels(weights):
            labels = range(self.n_variables) if self.labels is None else self.labels
            pairs = tuple((labels[i], labels[k]) for i, k in self.edges.tolist())
            weights = by_label(weights, "weights", len(pairs), pairs)
        weights = as_float_array(weights, "weights", "(E,)")
        if weights.shape != self.edge_coupling.shape:
            raise ValueError(
                f"weights must have shape {self.edge_coupling.shape}, got {weights.shape}"
            )
        pairs = self._pairs.with_edge_values(own_array(weights, self.dtype))
        return self._copy_with(_pairs=pairs)

    # ------------------------------------------------------------------ shape

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `field`."""
        return (self.field,)

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the stored couplings: a matrix, or a value for each edge."""
        return (self._pairs.values,)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds (N, L) of the fields, and the influence (L,) of the couplings.

        If all couplings were 0, the log-odds of the labels would be twice the fields. The influence
        is the largest amount by which the other labels can change the log-odds of a label: twice
        the sum of the absolute couplings of the label.
        """
        return 2.0 * self.field, 2 * self._pairs.strengths()

    @property
    def n_variables(self) -> int:
        """Number of labels L."""
        return self.field.shape[1]

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Return the number of labels or, if "exact" eliminates, of variables of the largest table.

        See `is_eliminated`.
        """
        return self._table_size if self.is_eliminated else self.n_variables

    @property
    def max_enumerated(self) -> int:
        """Largest `n_enumerated` that the method "exact" accepts by default."""
        return _MOST_IN_TABLE if self.is_eliminated else super().max_enumerated

    @property
    def is_eliminated(self) -> bool:
        """True if "exact" eliminates the labels one by one, False if it enumerates their states.

        Labels are eliminated if this takes less time, or if there are too many of them to enumerate
        their states. If most labels are clamped, "exact" may enumerate the states of the others.
        """
        if self.elimination_is_cheaper:
            return True
        return self.n_variables > MAX_ENUMERATED and self._has_tables_of(_MOST_IN_TABLE + 1)

    @property
    def elimination_is_cheaper(self) -> bool:
        """True if an elimination of all labels takes less time than an enumeration."""
        n = self.n_variables
        return self._has_tables_of(n - _ELIMINATION_BITS - math.log2(max(1, n)))

    def _has_tables_of(self, most):
        """Return True if an elimination has tables of fewer variables than the number `most`."""
        n, m = self.n_variables, max(1, math.ceil(most) - 1)
        # A graph in which the largest table has m < n variables has at most as many edges.
        if most <= 1 or (m < n and self.n_couplings > (m - 1) * n - m * (m - 1) // 2):
            return False
        return self._table_size < most

    @property
    def _table_size(self):
        """Number of variables of the largest table of an elimination."""
        found = self._pairs.graph.elimination
        return found.width + 1 if found.complete else self.n_variables

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics.

        There is one array with P(y_i = +1, y_k = +1), of shape (L, L) with the marginals on the
        diagonal or, if couplings are sparse, of shape (E,) for the edges.
        """
        return (self._pairs.statistic_shape,)

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    def scaled(self, beta: float) -> Self:
        """Return the energy with the couplings multiplied by `beta`."""
        return self._copy_with(
            _pairs=self._pairs.with_values(self._pairs.values * self.dtype.type(checked_beta(beta)))
        )

    def tilted(self, shift: np.ndarray) -> tuple[Self, np.ndarray]:
        """Multiply the weight of each state by ``exp(shift' v)``, where v are the labels as 0/1."""
        half = np.broadcast_to(np.asarray(shift, np.float64) / 2, self.field.shape)
        return self.with_fields(self.field + half), half.sum(axis=1)

    # -------------------------------------------------------------- evidence

    def fold_evidence(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Add the effect of clamped labels to the fields of free labels, and to an offset.

        The first result is a tuple with the new fields (N, L), which are 0 for clamped labels. The
        second is the offset (N,): the sum of the terms of the score that depend only on clamped
        labels.
        """
        if self.evidence is None:
            return self.fields, np.zeros(self.n_models)
        held = ~np.isnan(self.evidence)
        signs = np.where(held, 2 * np.nan_to_num(self.evidence) - 1, 0.0)
        pull = self._pairs.pull_of_rows(signs)
        offset = (signs * (self.field + 0.5 * pull)).sum(axis=1)
        field = np.where(held, 0.0, self.field + pull)
        return (kernel_array(field, self.dtype),), offset

    def held_pairs(
        self, values: np.ndarray, free: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return arrays whose products are the probabilities that two labels are both 1.

        The probabilities are 0 for two free labels, so that they belong to the pairs with a clamped
        label alone. The result has two items (left, right) with arrays (N, L) or, if couplings are
        sparse, (N, E); see `PairwiseEnergy.held_pairs`.
        """
        return self._pairs.held_pairs(values, free)

    def add_held_pairs(
        self,
        statistics: tuple[np.ndarray, ...],
        values: np.ndarray,
        free: np.ndarray,
        weight: np.ndarray | None,
    ) -> None:
        """Add the statistics of pairs with a clamped label to `statistics`, in place."""
        if not self.couplings_are_sparse:
            super().add_held_pairs(statistics, values, free, weight)
            return
        for left, right in self.held_pairs(values, free):
            both = left * right
            statistics[0][...] += both if weight is None else weight @ both

    # ----------------------------------------------------- weights of states

    def _score(self, states):
        y = 2 * np.asarray(states).astype(np.float64) - 1
        return (y * self.field).sum(axis=1) + self._pairs.scores(y)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N,) of a state of each model; `visible` (N, L) holds the states."""
        return unchecked(self.score)(visible)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N, K), float64, of K states (K, L) under each of N models."""
        y = 2 * np.asarray(visible_sets).astype(np.float64) - 1
        scores = self.field.astype(np.float64) @ y.T + self._pairs.scores(y)
        return self._without_contradictions(scores, np.asarray(visible_sets, np.float64))

    # ----------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Blocks of labels without couplings among them.

        Each label is a block or, if couplings are sparse, the labels of each colour.
        """
        return self._pairs.graph.blocks if self.couplings_are_sparse else super().sampling_blocks

    def _conditional_log_odds(self, states, block):
        pull = self._pairs.pull(2.0 * np.asarray(states).astype(np.float64) - 1.0, block)
        return 2 * (self.field[:, None, block] + pull)

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds ``2 (f_i + S_i y)`` (N, L) of each label given the other labels."""
        y = 2 * np.asarray(visible).astype(self.dtype) - 1
        log_odds = 2 * (self.field + self._pairs.pull(y))
        if self.evidence is not None:
            log_odds = infinite_where_held(log_odds, self.evidence)
        return log_odds.astype(self.dtype, copy=False)

    # ------------------------------------------------- sufficient statistics

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a tuple with the weighted sums of products of pairs of labels.

        Each row u of `means` is a 0/1 state (or its mean), and `weight` holds the weights of the
        rows. The array holds the sums of ``u_i u_k``, in a shape of `statistic_shapes`.
        """
        means = np.asarray(means).astype(self.dtype, copy=False)
        return (self._pairs.sum_products(means, weight),)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean score over a distribution of states, computed from its moments."""
        linear = self.field[0].astype(np.float64) @ (2 * means.astype(np.float64) - 1)
        return float(linear + self._pairs.expected_score(means, statistics[0]))


def _is_empty(edges):
    """Return True for a list of no edges, of any shape."""
    return hasattr(edges, "__len__") and len(edges) == 0


if TYPE_CHECKING:
    SparseIsingEnergy = IsingEnergy
else:

    class _StoredAsEdges(type):
        """Let `isinstance` find the energies that `SparseIsingEnergy` makes.

        All other attributes of `SparseIsingEnergy` are attributes of `IsingEnergy`.
        """

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, IsingEnergy) and instance.couplings_are_sparse

        def __getattr__(cls, name: str) -> Any:
            return getattr(IsingEnergy, name)

    class SparseIsingEnergy(metaclass=_StoredAsEdges):
        """Constructor of an `IsingEnergy` whose couplings are stored as the edges of a graph.

        The score is ``-E_n(y) = f_n' y + sum_(i<k) s_ik y_i y_k`` for y in {-1, +1}^L, with the sum
        over the edges of the graph. Use it for lattices and other sparse graphs, because the cost
        of edges is proportional to their number. States in arguments and results are 0/1: 0 stands
        for y = -1, and 1 for y = +1. The attribute `couplings_are_sparse` of the energy is True.

        Parameters
        ----------
        coupling : sparse matrix or array (L, L)
            Couplings S, symmetric with a zero diagonal. Each stored entry of a sparse matrix is an
            edge, including stored zeros, and each nonzero entry of an array.
        field : array-like (L,) or (N, L), default=None
            Fields f, with a row per model. None means a single model with fields of 0.

        Raises
        ------
        ValueError
            If an array has the wrong shape or is not finite, or `coupling` is not symmetric with a
            zero diagonal.

        See Also
        --------
        IsingEnergy : The class of the energy, with its attributes.

        Examples
        --------
        >>> from skcrbm.energies import SparseIsingEnergy
        >>> from skcrbm.inference import infer
        >>> ring = SparseIsingEnergy.from_edges([[0, 1], [1, 2], [2, 3], [0, 3]], 0.5, [1, 0, 0, 0])
        >>> infer(ring, "exact").marginals.round(3)
        array([[0.881, 0.704, 0.656, 0.704]])
        """

        from_edges = IsingEnergy.from_edges
        from_ising = IsingEnergy.from_ising
        from_bqm = IsingEnergy.from_bqm
        from_networkx = IsingEnergy.from_networkx
        from_triangle = IsingEnergy.from_triangle

        def __new__(cls, coupling: Any, field: ArrayLike | None = None) -> IsingEnergy:
            """Return the energy."""
            coupling, labels, _ = matrix_with_labels(coupling, "coupling", symmetric=True)
            return IsingEnergy._of_pairs(EdgeCouplings.of(coupling), field, labels)
