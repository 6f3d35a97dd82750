"""RBMs whose visible units are the classes of several outputs."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from skcrbm.energies.base import Block
from skcrbm.energies.rbm import RBMEnergy
from skcrbm.energies.states import infinite_where_held, unchecked
from skcrbm.utils.categorical import OutputUnits, one_against_rest


class GroupedRBMEnergy(RBMEnergy):
    """A batch of RBMs over outputs with classes.

    An output of more than two classes is a group of visible units, exactly one of which is on. An
    output of two classes is an ordinary unit. Given the hidden units, the outputs are independent,
    and p(class | h) is a softmax of the inputs of the units. Evidence of 0 excludes a class. The
    parameters that are not listed here are described in `RBMEnergy`.

    `units` describes how the outputs and their classes are mapped to visible units.
    """

    _saved = (*RBMEnergy._saved, "units")

    def __init__(
        self,
        weights: ArrayLike,
        visible_bias: ArrayLike,
        hidden_bias: ArrayLike,
        units: OutputUnits,
    ):
        super().__init__(weights, visible_bias, hidden_bias)
        if units.n_units != self.n_visible:
            needed = f"units must describe the {self.n_visible} rows of weights"
            raise ValueError(f"{needed}, got n_units={units.n_units}")
        self.units = units

    @property
    def exclusive(self) -> np.ndarray:
        """Bool array (V,), True for the units of groups."""
        return self.units.exclusive

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Return log2 of the number of states that "exact" enumerates, rounded up.

        The method enumerates the states of the hidden units or the vectors of classes, whichever
        are fewer. For the query "marginal_map" it must enumerate the vectors of classes.
        """
        n_bits = math.ceil(self.units.log2_vectors)
        return n_bits if query == "marginal_map" else min(n_bits, self.n_hidden)

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds of each unit without couplings, and the influence of couplings.

        The influence, a bound on the change of the log-odds by couplings, is infinite for the units
        of groups, and as in `RBMEnergy` for other units.
        """
        log_odds, influence = super().own_log_odds()
        influence[: self.n_visible][self.exclusive] = np.inf
        return log_odds, influence

    def state_fields(self) -> np.ndarray:
        """Return the log-weights of the classes of all outputs, concatenated, (N, S).

        S is the total number of classes of all outputs. The log-weight of a class is the bias of
        its unit, or 0 for the first class of an output with two classes, which has no unit. Classes
        that contradict the evidence have the log-weight -inf.
        """
        fields = np.zeros((self.n_models, self.units.n_states))
        fields[:, self.units.place] = self.visible_bias
        if self.evidence is not None:
            held = self._held()[0]
            on, off = held == 1, held == 0
            first = self.units.place[~self.exclusive] - 1
            fields[:, first] = np.where(on[:, ~self.exclusive], -np.inf, fields[:, first])
            for group in self.units.groups:
                chosen = on[:, group].any(axis=1, keepdims=True)
                off[:, group] |= chosen & ~on[:, group]
            place = self.units.place
            fields[:, place] = np.where(off, -np.inf, fields[:, place])
        return fields

    def marginal_modes(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the most probable class of each output as visible units (N, V)."""
        modes = super().marginal_modes(log_odds)
        for group in self.units.groups:
            own = log_odds[:, group]
            modes[:, group] = np.eye(own.shape[1], dtype=np.int8)[own.argmax(axis=1)]
        return modes

    # ------------------------------------------------------------------ weights of states

    def _check_evidence(self):
        held = self._held()[0]
        for group in self.units.groups:
            own = held[:, group]
            if (((own == 1).sum(axis=1) > 1) | (own == 0).all(axis=1)).any():
                raise ValueError(
                    "clamp contradicts the model: exactly one unit of each group must be 1, but it "
                    f"sets two of the units {group.start} to {group.stop - 1} to 1, or all to 0"
                )

    def _score(self, states):
        valid = self.units.are_valid(states[:, : self.n_visible])
        return np.where(valid, super()._score(states), -np.inf)

    def _log_weight_of(self, visible, inputs, hidden):
        weights = super()._log_weight_of(visible, inputs, hidden)
        return np.where(self.units.are_valid(visible), weights, -np.inf)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the negative free energy (N, S) of S visible states; -inf if impossible."""
        weights = unchecked(super().log_weight_of_sets)(visible_sets, hidden)
        return np.where(self.units.are_valid(visible_sets), weights, -np.inf)

    # ------------------------------------------------------------------ conditionals

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds (N, V) of each visible unit given all other visible units.

        The log-odds of units of groups are ±inf, because the other units of a group determine the
        unit.
        """
        log_odds = unchecked(super().visible_log_odds)(visible, hidden)
        for group in self.units.groups:
            others = visible[:, group].sum(axis=1, keepdims=True) - visible[:, group]
            log_odds[:, group] = np.where(others == 0, np.inf, -np.inf)
        return log_odds

    def conditional_log_odds(self, states: np.ndarray, block: Block) -> np.ndarray:
        """Return the log-odds of each variable in a block given the variables outside the block.

        The log-odds of a unit of a group are the log-odds of its class against all other classes.
        """
        if not self._is_visible(block):
            return unchecked(super().conditional_log_odds)(states, block)
        scores = self._conditional_log_odds(states, slice(0, self.n_visible))
        log_odds = scores
        if self.evidence is not None:
            log_odds = infinite_where_held(scores, self._held()[0][:, None])
        for group in self.units.groups:
            own = scores[..., group]
            if self.evidence is not None:
                held = self._held()[0][:, None, group]
                chosen = (held == 1).any(axis=2, keepdims=True)
                own = np.where((held == 0) | (chosen & (held != 1)), -np.inf, own)
            log_odds[..., group] = one_against_rest(own)
        return log_odds

    def draw(self, log_odds: np.ndarray, u: np.ndarray, block: Block) -> np.ndarray:
        """Draw the variables of a block.

        `u` holds a uniform random number for each variable. To draw the class of a group, only the
        number of its first unit is used.
        """
        drawn = super().draw(log_odds, u, block)
        if self._is_visible(block):
            u = np.broadcast_to(u, log_odds.shape)
            for group in self.units.groups:
                mass = expit(log_odds[..., group]).cumsum(axis=2)
                index = (u[..., group][..., :1] * mass[..., -1:] > mass[..., :-1]).sum(axis=2)
                drawn[..., group] = np.eye(mass.shape[2], dtype=bool)[index]
        return drawn

    def _is_visible(self, block):
        return isinstance(block, slice) and block.start == 0 and block.stop == self.n_visible


class OneHotRBMEnergy(GroupedRBMEnergy):
    """An RBM restricted to visible vectors in which exactly one unit is 1.

    With V = K visible units, unit k represents class k, and
    ``p(k) ∝ exp(b_k + sum_j softplus(W_kj + c_j))``. This is the classification RBM [1]_. All
    queries can be answered exactly at low cost. Parameters and attributes are as in `RBMEnergy`.
    Clamping a visible unit to 1 fixes the class, and clamping it to 0 excludes its class.

    References
    ----------
    .. [1] Larochelle and Bengio (2008). Classification using discriminative restricted
       Boltzmann machines. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import OneHotRBMEnergy
    >>> energy = OneHotRBMEnergy(np.zeros((3, 1)), [0.0, 0.0, np.log(2)], [0.0])
    >>> np.exp(energy.class_log_weights() - np.log(4 * 2)).round(2)
    array([[0.25, 0.25, 0.5 ]])
    """

    categorical = True
    _saved = RBMEnergy._saved

    def __init__(self, weights: ArrayLike, visible_bias: ArrayLike, hidden_bias: ArrayLike):
        RBMEnergy.__init__(self, weights, visible_bias, hidden_bias)
        if self.n_visible == 0:
            raise ValueError("weights must have a row for each class; got no rows")

    @cached_property
    def units(self) -> OutputUnits:
        """Layout of the visible units: a unit for each class of a single output."""
        return OutputUnits([self.n_visible], one_hot=True)

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Return 0, because all queries are answered by sums over the classes."""
        return 0

    # With a score of its own the class has only the methods that are registered for it. Sums over
    # the classes are so cheap that "exact" serves all purposes.
    def _score(self, states):
        return super()._score(states)

    def class_log_weights(self, hidden: str = "marginal") -> np.ndarray:
        """Return the log-weights (N, K) of the K classes, in float64."""
        return self.log_weight_of_sets(np.eye(self.n_visible), hidden)
