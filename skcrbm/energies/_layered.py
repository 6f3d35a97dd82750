"""Energy of layered models over outputs and hidden nodes, given the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.special import expit

from skcrbm.energies.base import BaseEnergy, Block, checked_beta
from skcrbm.energies.layered_structure import LayeredStructure
from skcrbm.energies.states import unchecked
from skcrbm.utils.categorical import one_against_rest
from skcrbm.utils.labels import by_label, with_new_labels
from skcrbm.utils.limits import CACHED_ENTRIES, UNDECIDED_FIELD
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import (
    as_float_array,
    as_real,
    as_row_fields,
    has_labels,
    kernel_array,
    own_array,
)


class LayeredEnergy(BaseEnergy):
    """A batch of N layered models over outputs and hidden nodes, given the inputs.

    A node with k states is represented by k - 1 units, which are 0/1 variables. In state s > 0 the
    s-th unit is on; in state 0 all units of the node are off. The units of the output layer are
    visible and come first. The units of the hidden layers follow, beginning with the layer next to
    the input.

    Parameters
    ----------
    structure : LayeredStructure
        Layers and connections. Connections to the input layer act only through `field`.
    weights : sequence of ndarray
        Flat pairwise scores of each connection that does not start at the input layer.
    field : array-like (n_variables,) or (N, n_variables)
        Unary scores, including the scores that come from the inputs.
    unaries : array-like (n_variables,), default=None
        Unary scores that all models share, without the scores that come from the inputs. If given,
        mean field and message passing start from these scores, so that their first iteration
        ignores the inputs, as in the training of `LayeredGMClassifier`. If None, they start from
        the fields. The distribution does not depend on this argument.

    Examples
    --------
    >>> from skcrbm.energies import LayeredEnergy, LayeredStructure
    >>> from skcrbm.inference import infer
    >>> from skcrbm.layers import Dense
    >>> structure = LayeredStructure([Dense(1)], (2,), 2, 1, 3)
    >>> energy = LayeredEnergy(structure, [[1.0, 2.0]], [0.0, -1.0, 0.5])
    >>> infer(energy, "exact").marginals.round(2)  # two units of the output, one hidden
    array([[0.42, 0.37, 0.82]])
    """

    _constants = ("unaries",)
    _saved = ("structure", "field", "unaries", "weights", "_slices", "_matrices", "_connections")

    def __init__(
        self,
        structure: LayeredStructure,
        weights: Sequence[ArrayLike],
        field: ArrayLike,
        unaries: ArrayLike | None = None,
    ):
        self.structure = structure
        self._slices = structure.unit_slices
        width = max(part.stop for part in self._slices[1:])
        if has_labels(field):
            field, self.labels = with_new_labels(field, "field")
        field = as_row_fields(field, "field", width, "n_variables")
        weights = [
            as_float_array(np.ravel(as_real(w, f"weights[{c}]", "(K,)")), f"weights[{c}]", "(K,)")
            for c, w in enumerate(weights)
        ]
        dtype = np.result_type(field, *weights, np.float32)
        self.field = own_array(field, dtype)
        self.unaries = None
        if unaries is not None:
            if has_labels(unaries):
                unaries = by_label(unaries, "unaries", width, self.labels)
            unaries = as_row_fields(unaries, "unaries", width, "n_variables")
            self.unaries = own_array(unaries[0], dtype)
        self.weights = tuple(own_array(w, dtype) for w in weights)
        self._connections = [structure.connections[c] for c in structure.inner]
        sizes = [c.n_weights for c in self._connections]
        if [len(w) for w in self.weights] != sizes:
            raise ValueError(
                f"weights must hold arrays of {sizes} scores, one for each connection that does "
                f"not start at the input; got {[len(w) for w in self.weights]}"
            )
        self._matrices = [c.matrix(w) for c, w in zip(self._connections, self.weights, strict=True)]

    def astype(self, dtype: DTypeLike) -> LayeredEnergy:
        """Return the energy, including its evidence, in another floating dtype."""
        other = LayeredEnergy(
            self.structure,
            [w.astype(dtype) for w in self.weights],
            self.field.astype(dtype),
            None if self.unaries is None else self.unaries.astype(dtype),
        )
        other.evidence, other.labels = self.evidence, self.labels
        return other

    def scaled(self, beta: float) -> LayeredEnergy:
        """Return the energy with all pairwise scores multiplied by `beta`."""
        weights = [w * self.dtype.type(checked_beta(beta)) for w in self.weights]
        other = LayeredEnergy(self.structure, weights, self.field, self.unaries)
        other.evidence, other.labels = self.evidence, self.labels
        return other

    # ------------------------------------------------------------------ shape

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """Tuple that holds only the array `field`."""
        return (self.field,)

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Tuple with the flat pairwise scores of each connection between variables."""
        return self.weights

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds of each unit without couplings, and the influence of couplings.

        The log-odds of a unit are the log-odds of its state against all other states of its node.
        The influence is a bound on the change of the log-odds by couplings. It is the same for all
        units of a node: sum the absolute couplings of each unit, and take twice the largest sum.
        The factor 2 is needed because couplings may raise the score of a state and lower the score
        of another state.
        """
        log_odds = np.empty(self.field.shape)
        reach = np.zeros(self.n_variables)
        for connection, matrix in zip(self._connections, self._matrices, strict=True):
            left, right = self._slices[connection.source], self._slices[connection.target]
            size = abs(matrix.astype(np.float64))
            reach[left] += size.sum(axis=1)
            reach[right] += size.sum(axis=0)
        for layer, block in enumerate(self._slices[1:], 1):
            scores = self._of_states(self.field[:, None, block].astype(np.float64), layer)[:, 0]
            log_odds[:, block] = one_against_rest(scores)[..., 1:].reshape(self.n_models, -1)
            most = reach[block].reshape(self._shape(layer)).max(axis=1, initial=0)
            reach[block] = np.repeat(2 * most, self._shape(layer)[1])
        return log_odds, reach

    def dominant_fields(self) -> np.ndarray:
        """Return a mask (N, n_variables): True for fields far above the influence of couplings.

        Even a field above the influence need not determine the state of its node, because two
        states of the node may have equal fields.
        """
        influence = self.own_log_odds()[1]
        return np.abs(self.field) > np.maximum(UNDECIDED_FIELD, 4 * influence)

    @property
    def n_variables(self) -> int:
        """Number of units of all nodes except the inputs."""
        return self.field.shape[1]

    @property
    def n_visible(self) -> int:
        """Number of units of the output layer."""
        return self._slices[-1].stop

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    def without_held_fields(self) -> tuple[LayeredEnergy, np.ndarray]:
        """Return the energy with fields of 0 for clamped units, and the removed scores (N,)."""
        if self.evidence is None:
            return self, np.zeros(self.n_models)
        given = np.nan_to_num(self.evidence) * self.field.astype(np.float64)
        return self.with_fields(np.where(self.free, self.field, 0)), given.sum(axis=1)

    def _shape(self, layer: int) -> tuple[int, int]:
        """Return the number of nodes of a layer, and the number of units of each node."""
        return self.structure.n_nodes[layer], self.structure.n_states[layer] - 1

    def _check_evidence(self):
        assert self.evidence is not None
        if (self._most_on(np.nan_to_num(self.evidence)) > 1).any():
            raise ValueError("clamp contradicts itself: it clamps two units of a node to 1")

    def _most_on(self, states, layers=None):
        """Return, for each state of the model, the largest number of units of one node that are 1.

        `states` (..., n) holds states of all n units; the result has an entry for each state. A
        number above 1 shows that the state is impossible. `layers` selects the layers whose nodes
        are counted, by default all layers except the input.
        """
        most = np.zeros(states.shape[:-1])
        for layer in layers or range(1, self.structure.depth + 1):
            nodes = states[..., self._slices[layer]]
            nodes = nodes.reshape(*states.shape[:-1], *self._shape(layer))
            most = np.maximum(most, nodes.sum(axis=-1).max(axis=-1, initial=0))
        return most

    def connection_weights(self) -> list[np.ndarray | None]:
        """Return the flat pairwise scores of each connection; None if it starts at the input."""
        weights: list[np.ndarray | None] = [None] * len(self.structure.connections)
        for c, flat in zip(self.structure.inner, self.weights, strict=True):
            weights[c] = flat
        return weights

    def layer_unaries(self) -> list[Any] | None:
        """Return a list with an array (n_nodes, k - 1) of `unaries` for each layer.

        The item of the input layer is None. The whole result is None if the energy has no
        `unaries`.
        """
        if self.unaries is None:
            return None
        parts = self.by_layer(self.unaries)[1:]
        return [None, *(u.reshape(self._shape(n)) for n, u in enumerate(parts, 1))]

    def by_layer(self, values: np.ndarray) -> list[Any]:
        """Split an array (..., n_variables) by layers; the first item, for the input, is None."""
        return [None, *(values[..., part] for part in self._slices[1:])]

    # ----------------------------------------------------- weights of states

    def _score(self, states):
        states = np.asarray(states, np.float64)
        scores = (states * self.field).sum(axis=1)
        layers = self.by_layer(states)
        for connection, matrix in zip(self._connections, self._matrices, strict=True):
            left, right = layers[connection.source], layers[connection.target]
            scores += ((left @ matrix.astype(np.float64)) * right).sum(axis=1)
        return np.where(self._most_on(states) > 1, -np.inf, scores)

    def _log_weight(self, visible, hidden):
        """Return the log-weight (N, C) of each of C visible states under each of N models.

        `visible` is (N, C, V), or (1, C, V) if the states are the same for all models. The model
        must have at most one hidden layer.
        """
        weights = np.empty((self.n_models, visible.shape[1]))
        output, possible = self._slices[-1], self._most_on(visible, [self.structure.depth]) <= 1
        width = max(1, visible.shape[1] * self.n_variables)
        for rows in row_chunks(self.n_models, max(1, CACHED_ENTRIES // width)):
            part = self.rows(rows)
            here = visible[rows] if len(visible) > 1 else visible
            here = np.broadcast_to(here, (part.n_models, *visible.shape[1:]))
            found = (here * part.field[:, None, output]).sum(axis=2, dtype=np.float64)
            if self.n_hidden:
                states = np.concatenate([here, np.zeros((*here.shape[:2], self.n_hidden))], axis=2)
                scores = part._node_scores(states, 1)
                reduce = np.maximum if hidden == "max" else np.logaddexp
                found += reduce.reduce(scores, axis=3).sum(axis=2)
            if self.evidence is not None:
                found[~part._agrees(here)] = -np.inf
            weights[rows] = found
        return np.where(possible, weights, -np.inf)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the negative free energy (N,) of visible states (N, V), one per model."""
        if self.structure.depth > 2:
            return unchecked(super().log_weight)(visible, hidden)
        return self._log_weight(visible[:, None], hidden)[:, 0]

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the negative free energy (N, K) of K visible states (K, V).

        A single hidden layer is summed out in closed form. Several hidden layers are enumerated.
        """
        if self.structure.depth > 2:
            return unchecked(super().log_weight_of_sets)(visible_sets, hidden)
        return self._log_weight(visible_sets[None], hidden)

    # --------------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Slices of units, one for each layer: the output layer first, then the hidden layers."""
        return (self._slices[-1], *self._slices[1:-1])

    def _layer_of(self, block):
        return self._slices.index(block)

    def _conditional_log_odds(self, states, block):
        """Return the scores of the units of a layer given the states of the other layers.

        The result is (N, C, n_units), for C states of each of N models. The score of a unit is the
        log-odds of its state against state 0 of the same node.
        """
        layer = self._layer_of(block)
        n, n_chains, width = states.shape
        flat = states.reshape(n * n_chains, width).astype(self.dtype, copy=False)
        layers = self.by_layer(flat)
        scores = np.repeat(self.field[:, block], n_chains, axis=0)
        for connection, matrix in zip(self._connections, self._matrices, strict=True):
            if connection.target == layer:
                scores += layers[connection.source] @ matrix
            if connection.source == layer:
                scores += layers[connection.target] @ matrix.T
        return scores.reshape(n, n_chains, scores.shape[1])

    def _node_scores(self, states, layer):
        """Return the scores of all k states of each node of a layer, (N, C, n_nodes, k).

        The scores are conditional on the states of the other layers. `states` holds C states of
        each of N models.
        """
        block = self._slices[layer]
        return self._of_states(self._conditional_log_odds(states, block).astype(np.float64), layer)

    def _of_states(self, scores, layer):
        """Convert the scores of units (N, C, n_units) to the scores of states (N, C, n_nodes, k).

        State 0 has score 0, and states that contradict the evidence have score -inf.
        """
        block = self._slices[layer]
        scores = scores.reshape(*scores.shape[:2], *self._shape(layer))
        scores = np.concatenate([np.zeros((*scores.shape[:3], 1)), scores], axis=3)
        if self.evidence is not None:
            held = self.evidence[:, None, block].reshape(len(scores), 1, *self._shape(layer))
            chosen = (held == 1).any(axis=3, keepdims=True)
            excluded = np.concatenate([chosen, (held == 0) | (chosen & (held != 1))], axis=3)
            scores = np.where(excluded, -np.inf, scores)
        return scores

    def conditional_log_odds(self, states: np.ndarray, block: Block) -> np.ndarray:
        """Return the log-odds of each unit of a layer given the states of the other layers."""
        layer = self._layer_of(block)
        if self._shape(layer)[1] == 1:
            return unchecked(super().conditional_log_odds)(states, block)
        log_odds = one_against_rest(self._node_scores(states, layer))[..., 1:]
        return log_odds.reshape(*states.shape[:2], -1)

    def draw(self, log_odds: np.ndarray, u: np.ndarray, block: Block) -> np.ndarray:
        """Draw the units of a layer.

        `u` holds a random number for each unit; a node uses only the number of its first unit.
        """
        n_nodes, n_units = self._shape(self._layer_of(block))
        if n_units == 1:
            return super().draw(log_odds, u, block)
        shape = (*log_odds.shape[:-1], n_nodes, n_units)
        mass = expit(log_odds.reshape(shape)).cumsum(axis=-1)
        u = np.broadcast_to(u, log_odds.shape).reshape(shape)[..., :1]
        below = np.concatenate([np.zeros((*shape[:-1], 1)), mass[..., :-1]], axis=-1)
        return ((below <= u) & (u < mass)).reshape(log_odds.shape)

    def hidden_given_visible(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return P(h_j = 1 | v), or the most probable h given v if `hidden` is "max"."""
        if hidden == "max" and self.structure.depth == 2 and self._shape(1)[1] > 1:
            states = np.zeros((len(visible), 1, self.n_variables), self.dtype)
            states[:, 0, : self.n_visible] = visible
            return _modes(self._node_scores(states, 1)[:, 0]).astype(self.dtype)
        return unchecked(super().hidden_given_visible)(visible, hidden)

    def marginal_modes(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the units (N, V) of the most probable state of each output.

        If state 0 and another state are equally probable, the other state is returned.
        """
        n_nodes, n_units = self._shape(self.structure.depth)
        if n_units == 1:
            return super().marginal_modes(log_odds)
        mass = expit(np.asarray(log_odds, np.float64)).reshape(-1, n_nodes, n_units)
        scores = np.concatenate([1 - mass.sum(axis=2, keepdims=True), mass], axis=2)
        return _modes(scores).astype(np.int8)

    # ------------------------------------------------- sufficient statistics

    @property
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes (n_tables, l - 1, k - 1) of the statistics of each connection between variables.

        The connection joins nodes with l states to nodes with k states. The statistics of edges
        that share a table are added up.
        """
        return tuple(
            (c.n_tables, c.n_left_states - 1, c.n_right_states - 1) for c in self._connections
        )

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return an array of statistics for each connection between variables.

        An edge joins two nodes. Its statistics are the products of a unit of the first node and a
        unit of the second node, added up over the rows of `means` with the given weights. The
        statistics of edges that share a table are added up.
        """
        layers = self.by_layer(means.astype(self.dtype, copy=False))
        weight = weight[:, None].astype(self.dtype)
        return tuple(
            c.sum_tables(layers[c.source].T @ (weight * layers[c.target]))
            for c in self._connections
        )


def _modes(scores: np.ndarray) -> np.ndarray:
    """Choose the state with the largest score for each node, and return the states as 0/1 units.

    `scores` (N, n_nodes, k) holds the scores of the states of each node. The result has the shape
    (N, n_nodes (k - 1)).
    """
    # Move state 0 to the last position: `argmax` returns the first of equal scores, and state 0
    # must not win ties.
    best = np.roll(scores, -1, axis=2).argmax(axis=2)
    return (best[..., None] == np.arange(scores.shape[2] - 1)).reshape(len(scores), -1)
