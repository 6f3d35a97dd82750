"""Build pairwise models of outputs with two or more classes, a model for each row of X."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from skcrbm.energies._factors import TableFactors
from skcrbm.energies.graph import FactorGraphEnergy
from skcrbm.energies.pairs import IsingEnergy
from skcrbm.utils.graphs import min_fill
from skcrbm.utils.limits import AUTO_EXACT_LABELS, MAX_ELIMINATED_ENTRIES, MAX_ENUMERATED

# If there are at most _FEW outputs with two classes each, all states are enumerated, because this
# costs less than variable elimination. A graph is called narrow if exact inference is cheap. This
# is the case if the largest table that variable elimination creates has at most 2^_NARROW entries.
# It is also the case if this table is no larger than the largest table of an edge, as in a forest,
# because approximate message passing would read the tables of the edges, too.
_FEW, _NARROW = 10, 12
# Even if an edge has a table of more than 2^_NARROW entries, training by the exact likelihood is
# called cheap if the number of rows times the number of entries of all tables is at most this
# number. 200 iterations of training then take minutes.
_MOST_ENTRIES = 2**26


class OutputGraph:
    """Outputs with their numbers of classes, and the edges between outputs.

    A *state* is a class of an output. Arrays have a column for each of the C states: first the
    classes of output 0, then the classes of output 1, and so on. The tables of all edges are stored
    as one array of P entries. Entry (k, l) of an edge (a, b) belongs to class k of output a and
    class l of output b.

    `n_classes` (L,) has the number of classes of each output, and `edges` (E, 2) has pairs a < b of
    outputs.
    """

    def __init__(self, n_classes: np.ndarray, edges: np.ndarray):
        self.n_classes = np.asarray(n_classes, np.int64)
        self.edges = np.asarray(edges, np.int64).reshape(-1, 2)
        # `first` (L + 1,) has the first state of each output, and then C. `output` (C,) has the
        # output of each state.
        self.first = np.concatenate([[0], np.cumsum(self.n_classes)])
        self.output = np.repeat(np.arange(len(self.n_classes)), self.n_classes)
        # `scored` (U,) are the states that have parameters. An output of two classes has parameters
        # only for its second class, as in logistic regression.
        place = np.arange(self.first[-1]) - self.first[:-1][self.output]
        size = self.n_classes[self.output]
        self.scored = np.flatnonzero((size > 2) | ((size == 2) & (place == 1)))
        sizes = [self.n_classes[a] * self.n_classes[b] for a, b in self.edges]
        # `start` (E + 1,) has the first entry of each edge's table, and then P.
        self.start = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        grids = [
            np.meshgrid(self._states_of(a), self._states_of(b), indexing="ij")
            for a, b in self.edges
        ]
        # For each of the P entries of the tables, `rows` (P,) has the state of the first output of
        # the edge, and `columns` (P,) the state of the second output.
        self.rows, self.columns = (
            np.concatenate([np.empty(0, np.int64), *(grid[side].ravel() for grid in grids)])
            for side in (0, 1)
        )

    def _states_of(self, output):
        return np.arange(int(self.first[output]), int(self.first[output + 1]))

    @property
    def n_states(self) -> int:
        """Number of states of all outputs, C."""
        return int(self.first[-1])

    @property
    def n_entries(self) -> int:
        """Number of entries of all tables, P."""
        return len(self.rows)

    @property
    def binary(self) -> bool:
        """True if all outputs have two classes."""
        return bool((self.n_classes == 2).all())

    @cached_property
    def padded(self) -> np.ndarray:
        """Index (C,) of each state in a flattened array (L, K).

        K is the largest number of classes of an output.
        """
        most = int(self.n_classes.max(initial=1))
        place = np.arange(self.n_states) - self.first[:-1][self.output]
        return self.output * most + place

    @cached_property
    def _log_size(self) -> float:
        """Log2 of the number of entries of the largest table that variable elimination creates."""
        counts = self.n_classes.tolist()
        found = min_fill(self.edges.tolist(), range(len(counts)), counts)
        if not found.complete:
            return np.inf
        scopes = ({v, *near} for v, near in zip(found.order, found.neighbours))
        return max((sum(math.log2(counts[v]) for v in scope) for scope in scopes), default=0.0)

    @cached_property
    def narrow(self) -> bool:
        """True if exact inference by elimination or enumeration is cheap."""
        few = self.binary and len(self.n_classes) <= AUTO_EXACT_LABELS
        limit = max(2**_NARROW, min(self._largest, MAX_ELIMINATED_ENTRIES))
        return few or self._log_size <= math.log2(limit) + 1e-9

    @property
    def _largest(self) -> int:
        """Number of entries of the largest table of an edge, or 1 if there are no edges."""
        return int(np.diff(self.start).max(initial=1))

    def cheap_for(self, n_rows: int) -> bool:
        """Return True if training by the exact likelihood is cheap for `n_rows` rows."""
        small = self._largest <= 2**_NARROW or self.n_entries * n_rows <= _MOST_ENTRIES
        return self.narrow and small

    @cached_property
    def enumerated(self) -> bool:
        """True if `energy` returns an `IsingEnergy`, whose exact inference enumerates all states.

        Otherwise `energy` returns a factor graph, and exact inference eliminates one output after
        the other.
        """
        if not self.binary:
            return False
        n = len(self.n_classes)
        return n <= _FEW or self._log_size > (_FEW if n <= MAX_ENUMERATED else _NARROW)

    @property
    def energy_type(self) -> type:
        """Class of the energies that `energy` returns."""
        return IsingEnergy if self.enumerated else FactorGraphEnergy

    # ---------------------------------------------------------------- energies and their answers

    def scores(self, fields: np.ndarray) -> np.ndarray:
        """Return log-weights (N, C) of all states, given scores (N, U) of the states `scored`."""
        scores = np.zeros((len(fields), self.n_states))
        scores[:, self.scored] = fields
        return scores

    def energy(self, scores: np.ndarray, pairs: np.ndarray) -> Any:
        """Return an energy with N models, given log-weights of states (N, C) and of pairs (P,)."""
        if not self.enumerated:
            return self._factor_graph(scores, pairs)
        n = len(self.n_classes)
        tables = pairs.reshape(-1, 2, 2)
        a, b = self.edges.T
        quarter = (tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]) / 4
        coupling, shift = np.zeros((n, n)), np.zeros(n)
        coupling[a, b] = coupling[b, a] = quarter
        np.add.at(shift, a, (tables[:, 1, 0] - tables[:, 0, 0]) / 2 + quarter)
        np.add.at(shift, b, (tables[:, 0, 1] - tables[:, 0, 0]) / 2 + quarter)
        return IsingEnergy(coupling, 0.5 * (scores[:, 1::2] - scores[:, ::2]) + shift)

    def _factor_graph(self, scores, pairs):
        factors = [
            TableFactors(self.edges[[e]], pairs[i:j].reshape(1, *self.n_classes[self.edges[e]]))
            for e, (i, j) in enumerate(zip(self.start, self.start[1:]))
        ]
        n = len(self.n_classes)
        if self.binary:
            return FactorGraphEnergy(factors, scores[:, 1::2] - scores[:, ::2], n_variables=n)
        most = int(self.n_classes.max(initial=1))
        field = np.zeros((len(scores), n * most))
        field[:, self.padded] = scores
        field = field.reshape(-1, n, most)
        return FactorGraphEnergy(factors, field, n_states=self.n_classes)

    def state_chances(self, found: Any) -> np.ndarray:
        """Return the probabilities (N, C) of all states from the result of `infer`."""
        marginals = np.asarray(found.marginals, np.float64)
        if self.binary:
            return np.stack([1.0 - marginals, marginals], axis=2).reshape(len(marginals), -1)
        return marginals.reshape(len(marginals), -1)[:, self.padded]

    def pair_chances(self, found: Any, weight: np.ndarray) -> np.ndarray:
        """Return the probability of each of the P entries of the tables, summed over the N rows.

        The sum over the rows is weighted with `weight` (N,). `found` is the result of `infer` with
        the queries "marginals" (per row) and "statistics" (already summed with these weights).
        """
        (statistics,) = found.statistics
        if not self.enumerated:
            return np.asarray(statistics, np.float64)
        a, b = self.edges.T
        both = np.asarray(statistics, np.float64)[a, b]
        mean = weight @ np.asarray(found.marginals, np.float64)
        rest = weight.sum() - mean[a] - mean[b] + both
        return np.stack([rest, mean[b] - both, mean[a] - both, both], axis=1).ravel()
