"""Factor graphs over variables with any number of states."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from skcrbm.energies._factor_graph import FactorGraphEnergy
from skcrbm.energies._factors import logic_table
from skcrbm.energies.base import BaseEnergy, Block
from skcrbm.energies.states import log_odds_of_weights
from skcrbm.utils.limits import BLOCK_ENTRIES, MAX_LOGIC_TABLE
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.validation import as_real, kernel_array


class CategoricalGraphEnergy(FactorGraphEnergy):
    """A batch of Markov random fields over variables with any number of states.

    The score is ``-E_n(x) = sum_i f_n[i, x_i] + sum_a log phi_a(x_a)``. The constructor of
    `FactorGraphEnergy` creates an object of this class if a variable has more or fewer than two
    states, so users do not need this class directly. The states of a variable are integers from 0
    to its number of states - 1.

    Arrays of beliefs have an axis of K states, where K is the largest number of states of a
    variable. For variables with fewer states, the remaining entries are 0 in fields and
    probabilities, and -inf in log-odds.

    Parameters
    ----------
    factors : sequence of TableFactors, OrFactors or AndFactors
        Factors that all models share. OR and AND factors need variables with two states.
    field : array-like (n, K) or (N, n, K), default=None
        Log-weights of the states of each variable, with a matrix per model. The score of a joint
        state includes the log-weight of each variable's state. None means a single model with
        fields of 0.
    n_variables : int, default=None
        Number of variables n. If None, it is the length of `n_states`, or follows from the shape of
        `field`, or is the largest index of a variable in the factors plus 1.
    n_states : int or array-like of int (n,), default=None
        Number of states of each variable. If None, it follows from the shapes of the tables, and is
        K for variables without tables.

    Attributes
    ----------
    n_states : ndarray of int64 (n,)
        Number of states of each variable.
    field : ndarray (N, n, K)
        Log-weights of the states.
    factors, log_potentials, tables, graph, n_models, n_variables, n_entries, dtype
        See `FactorGraphEnergy`.

    Raises
    ------
    ValueError
        If an array has the wrong shape or holds NaN or +inf, a factor has a variable that does not
        exist, or tables disagree about the number of states of a variable.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.energies import FactorGraphEnergy, TableFactors
    >>> like = TableFactors([[0, 1], [1, 2]], np.eye(3))
    >>> energy = FactorGraphEnergy([like], np.zeros((3, 3)))
    >>> energy.score([[2, 2, 0]])
    array([1.])
    """

    _saved = FactorGraphEnergy._saved
    _categorical = True

    def _checked_field(self, field, dtype):
        n, n_levels = self.graph.n_variables, self.n_levels
        if field is None:
            return np.zeros((1, n, n_levels), dtype)
        shape = f"({n}, {n_levels}) or (N, {n}, {n_levels})"
        values = as_real(field, "field", shape)
        if values.shape == (n, n_levels):
            values = values[None]
        if values.ndim != 3 or values.shape[1:] != (n, n_levels):
            raise ValueError(
                f"field must have shape {shape}, a number for each state of each variable; got "
                f"{values.shape}"
            )
        values = np.where(self._has_state, values, 0)
        if not np.isfinite(values).all():
            raise ValueError(
                "field must be finite; to forbid a state, add a table of one variable with -inf"
            )
        return values

    # ------------------------------------------------------------------ shape

    @property
    def n_states(self) -> np.ndarray:
        """Number of states (n,) of each variable."""
        return self.graph.n_states

    @property
    def state_counts(self) -> np.ndarray:
        """Number of states (n,) of each variable."""
        return self.graph.n_states

    @property
    def n_levels(self) -> int:
        """Largest number of states K of a variable."""
        return int(self.graph.n_states.max(initial=1))

    @property
    def _has_state(self) -> np.ndarray:
        """Bool array (n, K), True for the states that exist for each variable."""
        return np.arange(self.n_levels) < self.graph.n_states[:, None]

    @property
    def state_dtype(self) -> np.dtype:
        """Dtype of the states: int8, or int32 if a variable has more than 128 states."""
        return np.dtype(np.int8 if self.n_levels <= 128 else np.int32)

    @property
    def belief_shape(self) -> tuple[int, ...]:
        """Shape (N, n, K) of marginals and log-odds, with an entry for each state."""
        return self.n_models, self.n_variables, self.n_levels

    @property
    def n_variables(self) -> int:
        """Number of variables n."""
        return self.graph.n_variables

    @property
    def offset(self) -> np.ndarray:
        """Constant term (N,) of the score."""
        return np.full(self.n_models, self.constant)

    @property
    def is_pairwise(self) -> bool:
        """Always False, because only models of 0/1 variables count as pairwise."""
        return False

    def log_fields(self) -> np.ndarray:
        """Return the fields (N, n, K), float64, with -inf for impossible states.

        A state is impossible if it does not exist for the variable or contradicts the evidence.
        """
        found = np.where(self._has_state, self.field, -np.inf).astype(np.float64)
        if self.evidence is not None:
            held = self.evidence[..., None]
            found[(np.abs(held - np.arange(self.n_levels)) > 0)] = -np.inf
        return found

    def logic_tables(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return a pair for each OR and AND factor: its scope, and its log-potentials as a table.

        The table has the shape (2, ..., 2), with an axis for each variable of the scope.

        A ValueError is raised if a table would have more than `MAX_LOGIC_TABLE` entries.
        """
        found = []
        for group, kind in ((self.ors, "or"), (self.ands, "and")):
            for f, output in enumerate(group.outputs):
                inputs = group.inputs[group.start[f] : group.start[f + 1]]
                if 2 ** (len(inputs) + 1) > MAX_LOGIC_TABLE:
                    raise ValueError(
                        f"factors has an OR or AND of {len(inputs)} inputs. Because some variables "
                        "have more than two states, or a table has more than six variables, it "
                        f"must be converted to a table of 2^{len(inputs) + 1} entries; the limit "
                        f"is {MAX_LOGIC_TABLE} entries"
                    )
                with np.errstate(divide="ignore"):
                    logs = np.log(logic_table(len(inputs), kind))
                found.append((np.append(inputs, output), logs.reshape((2,) * (len(inputs) + 1))))
        return found

    # `infer` clamps 0/1 variables with very large fields, but it does not clamp categorical
    # variables. Therefore this class takes two methods from `BaseEnergy`, which give no bound on
    # the influence of the factors, and report that no field is very large.
    own_log_odds = BaseEnergy.own_log_odds
    dominant_fields = BaseEnergy.dominant_fields

    def held_log_odds(self, values: np.ndarray) -> np.ndarray:
        """Return the log-odds (M, K) of the K states of M clamped variables: inf or -inf.

        `values` (M,) holds the state to which each variable is clamped. This state has the log-odds
        inf, and all other states have -inf.
        """
        return np.where(np.arange(self.n_levels) == values[:, None], np.inf, -np.inf)

    def _check_values(self, evidence):
        with np.errstate(invalid="ignore"):
            wrong = (evidence < 0) | (evidence >= self.n_states) | (evidence != np.floor(evidence))
        wrong &= ~np.isnan(evidence)
        if wrong.any():
            v = int(np.argwhere(wrong)[0][-1])
            raise ValueError(
                f"clamp must hold states of the variables, such as 0 to {self.n_states[v] - 1} for "
                f"variable {v}, or NaN for free variables; got {evidence[wrong].flat[0]:g}"
            )

    def _checked_states(self, states: Any, name: str) -> np.ndarray:
        """Return states (..., n) as an array, or raise a ValueError if a value is not a state."""
        array = np.asarray(states)
        fits = array.dtype.kind in "biuf" and array.shape[-1:] == self.n_states.shape
        if not fits or not ((array >= 0) & (array < self.n_states) & (array == array // 1)).all():
            raise ValueError(
                f"{name} must hold states of {self.n_variables} variables, integers from 0 to the "
                "number of states of a variable minus 1 (see n_states)"
            )
        return array

    def _checked_means(self, means: Any, name: str) -> np.ndarray:
        """Validate states (S, n) or probabilities of states (S, n, K), and return an array."""
        array = np.asarray(means)
        if array.ndim != 3:
            return self._checked_states(array, name)
        if array.size and not (array.min() >= -1e-6 and array.max() <= 1 + 1e-6):
            raise ValueError(f"{name} must hold probabilities of the states, from 0 to 1")
        return array

    # ----------------------------------------------------- weights of states

    def _factor_scores(self, states):
        states = np.asarray(states).astype(np.int64)
        total = np.zeros(len(states))
        for group in self.tables:
            where = np.arange(len(group.variables))
            table = group.log_potentials.astype(np.float64, copy=False)
            for rows in row_chunks(len(states), max(1, BLOCK_ENTRIES // len(where))):
                code = states[rows][:, group.variables] @ group.strides
                total[rows] += table[where, code].sum(axis=1)
        for scope, table in self.logic_tables():
            total += table[tuple(states[:, scope].T)]
        return total

    def _score(self, states):
        states = np.asarray(states).astype(np.int64)
        own = np.take_along_axis(self.field, states[..., None], axis=2)[..., 0]
        return own.sum(axis=1, dtype=np.float64) + self.offset + self._factor_scores(states)

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the score (N, S), float64, of S states (S, n) under each of N models."""
        sets = np.asarray(visible_sets).astype(np.int64)
        fields, every = self.log_fields(), np.arange(self.n_variables)
        own = np.empty((self.n_models, len(sets)))
        for rows in row_chunks(len(sets), max(1, BLOCK_ENTRIES // max(1, fields[..., 0].size))):
            own[:, rows] = fields[:, every, sets[rows]].sum(axis=2)
        return own + self.offset[:, None] + self._factor_scores(sets)

    # ----------------------------------------------------- conditionals

    def conditional_log_weights(self, states: np.ndarray, block: Block) -> np.ndarray:
        """Return the log-weight of each state of a block's variables, given all other variables.

        `states` (N, C, n) holds C states of each model, and `block` is one of `sampling_blocks`.
        The result (N, C, size of the block, K) is float64. Entries are -inf for states that
        contradict the evidence.
        """
        n, n_chains, width = states.shape
        flat = np.asarray(states).reshape(n * n_chains, width).astype(np.int64)
        variables = np.arange(width)[block]
        levels = np.arange(self.n_levels)
        total = np.repeat(self.log_fields()[:, variables], n_chains, axis=0)
        edges = self.graph.edges_of(variables)
        for group, part in zip(self.tables, edges, strict=False):
            if not len(part.edge):
                continue
            place = np.repeat(part.where, np.diff(np.append(part.first, len(part.edge))))
            own = variables[place]
            code = flat[:, part.scopes] @ group.strides - flat[:, own] * part.bit
            inside = levels < self.n_states[own][:, None]
            entry = np.where(inside, part.bit[:, None] * levels, 0)
            logs = group.log_potentials[part.factor[:, None], code[..., None] + entry]
            logs = np.where(inside, logs, 0).astype(np.float64)
            total[:, part.where] += np.add.reduceat(logs, part.first, axis=1)
        if len(self.ors.outputs) + len(self.ands.outputs):
            place = {int(v): j for j, v in enumerate(variables)}
            for scope, table in self.logic_tables():
                for axis, v in enumerate(scope.tolist()):
                    if v in place:
                        index: list[Any] = list(flat[:, scope].T)
                        for value in (0, 1):
                            index[axis] = np.full(len(flat), value)
                            total[:, place[v], value] += table[tuple(index)]
        return total.reshape(n, n_chains, len(variables), self.n_levels)

    def conditional_log_odds(self, states: np.ndarray, block: Block) -> np.ndarray:
        """Return the log-odds of each state of the variables of a block, given all other variables.

        `states` (N, C, n) holds C states of each of N models. The result has the shape (N, C, size
        of the block, K).

        If all states of a variable have weight 0 given the other variables, its possible states
        are treated as equally probable.
        """
        logs = self.conditional_log_weights(states, block)
        return log_odds_of_weights(logs, self._allowed(block)[:, None])

    def _allowed(self, block):
        """Return a mask of the possible states of the variables of a block.

        The mask (N, size of the block, K) is True for states that exist and agree with the
        evidence.
        """
        return self.log_fields()[:, np.arange(self.n_variables)[block]] > -np.inf

    def draw(self, log_odds: np.ndarray, u: np.ndarray, block: Block) -> np.ndarray:
        """Draw states (N, C, size of the block) for the variables of a block.

        `log_odds` is the result of `conditional_log_odds`, and `u` holds a uniform random number
        for each variable.
        """
        return self._draw(expit(log_odds.astype(np.float64)), u)

    def _draw(self, chance, u):
        edges = np.cumsum(chance, axis=-1)
        # Because of rounding, the drawn index may lie beyond the last state with a positive
        # probability. So the index is limited to this state.
        last = chance.shape[-1] - 1 - (chance[..., ::-1] > 0).argmax(axis=-1)
        found = (np.asarray(u)[..., None] * edges[..., -1:] >= edges).sum(axis=-1)
        return np.minimum(found, last).astype(self.state_dtype)

    def draw_independent(self, u: np.ndarray, beliefs: np.ndarray | None = None) -> np.ndarray:
        """Draw states (N or 1, C, n) of independent variables with marginals (N, n, K).

        If `beliefs` is None, all states of a variable are equally probable.
        """
        chance = self._has_state if beliefs is None else np.where(self._has_state, beliefs, 0)
        return self._draw(np.asarray(chance, np.float64)[..., None, :, :], u)

    def best_states(
        self, log_odds: np.ndarray, ties: np.ndarray | None = None, block: Block = slice(None)
    ) -> np.ndarray:
        """Return the most probable state of each variable of a block, (..., size of the block).

        `log_odds` (..., size of the block, K) has an entry for each state. If `ties` is given, it
        holds a preferred state for each variable. The preferred state is returned if no other state
        is more probable.
        """
        log_odds = np.where(self._has_state[block], log_odds, -np.inf)
        best = log_odds.argmax(axis=-1)
        if ties is not None:
            kept = np.take_along_axis(log_odds, ties[..., None].astype(np.int64), -1)[..., 0]
            best = np.where(kept == log_odds.max(axis=-1), ties, best)
        return best.astype(self.state_dtype)

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds (N, n, K) of each state of a variable given all other variables."""
        states = np.asarray(visible)[:, None]
        found = self.conditional_log_odds(states, slice(0, self.n_variables))
        return found[:, 0].astype(self.dtype)

    def marginal_modes(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the most probable state (N, n) of each variable; the first state in a tie."""
        return log_odds.argmax(axis=-1).astype(self.state_dtype)

    # ------------------------------------------------- sufficient statistics

    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return a tuple with a single array (n_entries,): a weighted sum for each table entry.

        The sum runs over the rows of `means`: states (S, n), or the probabilities (S, n, K) of
        independent variables. Each row adds its weight times the probability of the entry.
        """
        means = np.asarray(means)
        flat = np.zeros(self.n_entries)
        for group in self.tables:
            n_factors, size = group.log_potentials.shape
            total = np.zeros((n_factors, size))
            for rows in row_chunks(len(means), max(1, BLOCK_ENTRIES // (n_factors * size))):
                here = np.asarray(weight[rows], np.float64)
                if means.ndim == 2:
                    codes = means[rows].astype(np.int64)[:, group.variables] @ group.strides
                    codes += np.arange(n_factors) * size
                    every = np.repeat(here, n_factors)
                    total += np.bincount(codes.ravel(), every, total.size).reshape(total.shape)
                else:
                    total += np.tensordot(here, _products(means[rows], group), 1)
            flat[group.entries[:, None] + np.arange(size)] = total
        return (flat.astype(self.dtype),)

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean score over a distribution of states, computed from its moments.

        `means` (n, K) holds the marginals, and `statistics` the probability of each table entry.
        """
        (entries,) = statistics
        seen = entries > 0  # avoids 0 * -inf = NaN for entries of weight 0
        score = self.log_potentials[seen].astype(np.float64) @ entries[seen]
        return float(score + (self.field[0].astype(np.float64) * means).sum() + self.offset[0])

    def _with_fields(self, field):
        return self._copy_with(field=kernel_array(field, self.dtype))

    @classmethod
    def from_binary(cls, energy: FactorGraphEnergy) -> CategoricalGraphEnergy:
        """Convert a `FactorGraphEnergy` of 0/1 variables, including its evidence.

        The field f of a variable becomes the log-weights (0, f) of its states. If the fields
        multiply -1/+1 variables, the log-weights are (-f/2, f/2).
        """
        other = cls.__new__(cls)
        zero = np.zeros_like(energy.field)
        field = np.stack([zero, energy.field], axis=2)
        vars(other).update(vars(energy) | {"field": kernel_array(field, energy.dtype)})
        if energy._centred:
            other.field = kernel_array(np.stack([-energy.field / 2, energy.field / 2], axis=2))
            other._centred = False
        return other


def _products(means, group):
    """Return the probability of each table entry if variables are independent, (S, F, size).

    Each of the S rows of `means` (S, n, K) holds the probability of each of K states of n
    variables. The group has F tables of `size` entries each.
    """
    found = np.ones((len(means), len(group.variables), 1))
    for column, k in zip(group.variables.T, group.shape, strict=True):
        part = means[:, column, :k].astype(np.float64)
        found = found[..., None] * part[:, :, None]
        found = found.reshape(len(means), len(group.variables), -1)
    return found
