"""Interface of all energies: the members of a model that inference, learning and decoding use.

An energy is a batch of N models ``p(s) ∝ exp(-E(s))`` over 0/1 variables. The models share their
couplings and differ in their *fields* (the terms that are linear in a single variable) and in their
*evidence* (the values of clamped variables). Inputs x, loss augmentation and perturbation noise
change only the fields, so all learning rules and inference methods use the same interface.

`tests/reference/conformance.py` compares every member of an energy with enumeration.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logsumexp

from skcrbm.energies.states import (
    binary_states,
    check_methods_that_take_states,
    infinite_where_held,
    unchecked,
)
from skcrbm.utils.labels import Labels, by_label
from skcrbm.utils.limits import MAX_ENUMERATED, MAX_GENERIC_UNITS
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import as_real, has_labels, nested_with_nan, own_array

#: All queries that `infer` and `sample` can answer. An energy class may support only some of them.
QUERIES = frozenset({"marginals", "statistics", "log_partition", "map", "marginal_map"})
QUERIES |= {"map_bound", "best_states", "samples", "sample_log_prob"}

#: Type of the blocks of variables in `BaseEnergy.sampling_blocks`.
Block = slice | np.ndarray


class BaseEnergy(Versioned, ABC):
    """A batch of N models over 0/1 variables, of which the visible variables come first.

    Subclasses store C-contiguous arrays of the same floating dtype and define the abstract members.
    All other members are computed from the abstract members; a subclass overrides them if it has a
    faster implementation. All methods that take states, including methods of subclasses, raise a
    ValueError for values other than 0 and 1.

    Attributes
    ----------
    evidence : ndarray (N, n_variables) or None
        Values 0 and 1 of clamped variables, and NaN for free variables. None if no variable is
        clamped.
    labels : tuple (n_variables,) or None
        Labels of the variables, if they have labels. Series, data frames and mappings in arguments
        are read by these labels, or by the indices of the variables if they have no labels.
    """

    _warns_of_version = False

    #: Names of the attributes, besides fields and couplings, that `tempered` must also scale.
    _constants: ClassVar[tuple[str, ...]] = ()
    #: Queries that this class supports.
    queries: ClassVar[frozenset[str]] = QUERIES
    #: True if the visible variables are the classes of one output, so that exactly one is on.
    categorical: ClassVar[bool] = False
    evidence: np.ndarray | None = None
    labels: Labels = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        check_methods_that_take_states(cls)

    # ------------------------------------------------------------------ shape

    @property
    @abstractmethod
    def fields(self) -> tuple[np.ndarray, ...]:
        """Parameters that differ between the N models, as a tuple of arrays (N, ...)."""

    @property
    def couplings(self) -> tuple[np.ndarray, ...]:
        """Parameters that all models share, as a tuple of arrays; empty by default."""
        return ()

    def own_log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds of each variable without couplings, and the influence of couplings.

        `infer` clamps variables whose field is so large that couplings cannot change their value.

        Returns
        -------
        log_odds : ndarray (N, n_variables), float64
            Log-odds of each variable without couplings.
        influence : ndarray (n_variables,), float64
            Bound on the change of the log-odds by couplings, infinity by default (no known bound).
        """
        shape = self.n_models, self.n_variables
        return np.zeros(shape), np.full(shape[1], np.inf)

    def dominant_fields(self) -> np.ndarray:
        """Return a bool array (N, n_variables) that is True for dominant fields.

        A field is dominant if it is so large that the other terms of a sum are lost by rounding.
        `infer` raises an error about a dominant field, unless the field determines the value of its
        variable. By default no field is reported. This is correct if solvers keep large fields out
        of their sums, or if fields cause no larger rounding errors than couplings of the same size.
        """
        return np.zeros((self.n_models, self.n_variables), bool)

    @property
    @abstractmethod
    def n_variables(self) -> int:
        """Number of variables of each model."""

    @property
    def n_visible(self) -> int:
        """Number of visible variables, which come first; all variables by default."""
        return self.n_variables

    @property
    def n_hidden(self) -> int:
        """Number of hidden variables."""
        return self.n_variables - self.n_visible

    def n_enumerated(self, query: str = "log_partition") -> int:
        """Return the number of variables that "exact" enumerates to answer a query.

        The cost of "exact" is exponential in this number and linear in the number of all other
        variables.
        """
        return self.n_variables

    @property
    def max_enumerated(self) -> int:
        """Largest `n_enumerated` that "exact" accepts by default."""
        return MAX_ENUMERATED

    def __repr__(self):
        return f"{type(self).__name__}({self.n_models} models of {self.n_variables} variables)"

    @property
    def n_models(self) -> int:
        """Number of models N in the batch."""
        return self.fields[0].shape[0]

    @property
    def state_counts(self) -> np.ndarray:
        """Number of states (n_variables,) of each variable, two by default."""
        return np.full(self.n_variables, 2)

    @property
    def state_dtype(self) -> np.dtype:
        """Dtype of the states that `infer` returns."""
        return np.dtype(np.int8)

    @property
    def belief_shape(self) -> tuple[int, ...]:
        """Shape of arrays of marginals; by default (N, n_variables), for P(variable = 1)."""
        return self.n_models, self.n_variables

    def held_log_odds(self, values: np.ndarray) -> np.ndarray:
        """Return the log-odds (M,), inf or -inf, of M variables that are clamped to `values`."""
        return np.where(values == 1, np.inf, -np.inf)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of inference: float32 if all inputs are float32, else float64."""
        return self.fields[0].dtype

    # ------------------------------------------------------- changing the batch

    @abstractmethod
    def _with_fields(self, *fields: np.ndarray) -> Self:
        """Return the energy with new fields and the same couplings."""

    def with_fields(self, *fields: np.ndarray) -> Self:
        """Return the energy with new fields, and the same couplings and evidence.

        Raises
        ------
        ValueError
            If the number of arrays, or their shapes apart from the number of models, differ from
            `fields`, an array is not real-valued, or there are not as many models as rows of
            evidence.
        """
        if len(fields) == len(self.fields) and any(map(has_labels, fields)):
            fields = tuple(
                by_label(field, "fields", present.shape[-1], labels)
                for field, present, labels in zip(fields, self.fields, self._field_labels())
            )
        fields = tuple(as_real(field, "fields", "(N, ...)") for field in fields)
        given = [field.shape for field in fields]
        if [shape[1:] for shape in given] != [f.shape[1:] for f in self.fields] or () in given:
            shapes = ", ".join(str(f.shape).replace(f"({len(f)},", "(N,") for f in self.fields)
            raise ValueError(f"fields must be arrays of the shapes {shapes}; got {given}")
        if len({shape[0] for shape in given}) > 1:
            raise ValueError(f"fields must have the same number of rows; got {given}")
        other = self._with_fields(*map(own_array, fields))
        if self.evidence is not None and len(self.evidence) != other.n_models:
            raise ValueError(
                f"fields must have as many rows as the evidence, {len(self.evidence)}; got "
                f"{other.n_models}"
            )
        return other

    def _field_labels(self) -> tuple[Labels, ...]:
        """Return the labels of the last axis of each array of `fields`."""
        return (self.labels,) * len(self.fields)

    def tilted(self, shift: np.ndarray) -> tuple[Self, np.ndarray]:
        """Multiply the weight of each state by ``exp(shift' v)``; v are its visible variables.

        The default implementation adds `shift` to the first array of `fields`, which must hold the
        coefficients of the 0/1 variables.

        Parameters
        ----------
        shift : ndarray (N, V), or an array that broadcasts to that shape
            Coefficients of the visible variables.

        Returns
        -------
        energy : BaseEnergy
            Energy of the same class with the same evidence.
        offset : ndarray (N,), float64
            Number to add to the log-weights and log Z of the new energy.
        """
        first, *others = self.fields
        first = first.copy()
        first[:, : self.n_visible] += shift
        return self.with_fields(first, *others), np.zeros(self.n_models)

    def without_held_fields(self) -> tuple[Self, np.ndarray]:
        """Return the energy with fields of 0 for clamped variables, and the removed scores.

        Large fields of clamped variables then do not cause rounding errors in sums of scores. The
        default implementation changes nothing.

        Returns
        -------
        energy : BaseEnergy
            Energy with the same evidence.
        offset : ndarray (N,), float64
            Number to add to the scores, log-weights and log Z of the new energy.
        """
        return self, np.zeros(self.n_models)

    @property
    def has_zeros(self) -> bool:
        """True if states have weight 0 even in the energy ``scaled(0)``, whose couplings are 0."""
        return False

    def scaled(self, beta: float) -> Self:
        """Return the energy with its couplings multiplied by `beta`.

        In ``scaled(0)`` the variables are independent, apart from states of weight 0, which keep
        weight 0.

        Parameters
        ----------
        beta : float
            Nonnegative factor.

        Raises
        ------
        NotImplementedError
            If this class does not define `scaled`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define scaled")

    def tempered(self, beta: float) -> Self:
        """Return the energy with its whole score multiplied by an inverse temperature `beta`.

        The weight of a state becomes ``exp(beta * score)``: fields, couplings, log-potentials and
        constants are multiplied by `beta`. States of weight 0 and the evidence do not change. The
        method `scaled`, by contrast, multiplies only the couplings and not the fields.

        Parameters
        ----------
        beta : float
            Inverse temperature, at least 0. With 0 all possible states are equally probable; with a
            large number the best states have nearly all of the probability.

        Returns
        -------
        BaseEnergy
            Energy of the same class with the same evidence.

        Raises
        ------
        ValueError
            If `beta` is negative or not finite.

        Examples
        --------
        >>> from skcrbm.energies import SparseIsingEnergy
        >>> from skcrbm.inference import infer
        >>> energy = SparseIsingEnergy.from_edges([[0, 1]], 0.5, [0.2, 0.0])
        >>> for beta in (0.0, 1.0, 5.0):
        ...     print(infer(energy.tempered(beta), "exact").marginals.round(3))
        [[0.5 0.5]]
        [[0.599 0.546]]
        [[0.881 0.876]]
        """
        value = np.float64(checked_beta(beta))
        scaled = self.scaled(float(value))
        fields = (f * self.dtype.type(value) for f in self.fields)
        constants = {name: getattr(self, name) for name in self._constants}
        other = scaled.with_fields(*fields)
        return other._copy_with(
            **{name: part * value for name, part in constants.items() if part is not None}
        )

    def rows(self, index: Any) -> Self:
        """Return an energy that holds only the models in the given rows.

        Parameters
        ----------
        index : slice, int, array-like of int, or mask of bool (N,)
            The rows.

        Raises
        ------
        ValueError
            If `index` is of another kind, or a row does not exist.
        """
        index = index if isinstance(index, slice) else _checked_rows(index, self.n_models)
        other = self._with_fields(*(f[index] for f in self.fields))
        if self.evidence is not None:
            other.evidence = self.evidence[index]
        return other

    def _checked_row(self, row, name="row"):
        """Return the index of a model as int, or raise a ValueError if it does not exist."""
        if not isinstance(row, Integral) or not -self.n_models <= int(row) < self.n_models:
            raise ValueError(f"{name} must be the index of one of {self.n_models} models: {row!r}")
        return int(row)

    def condition(self, evidence: ArrayLike) -> Self:
        """Return the energy with some variables clamped.

        Parameters
        ----------
        evidence : array-like (N, n_variables) or (n_variables,)
            Values 0 or 1 of the variables to clamp. A variable with NaN does not change: it stays
            free, or clamped by earlier evidence. A Series, a mapping or the columns of a data frame
            are read by the `labels` of the energy (or by the indices of the variables) and may lack
            variables, which do not change.

        Returns
        -------
        BaseEnergy
            Energy of the same class with the same fields. States that contradict the evidence have
            weight 0.

        Raises
        ------
        ValueError
            If the evidence has a wrong shape or value, or contradicts the present evidence.
        """
        shape = self.n_models, self.n_variables
        expected = f"({shape[0]}, {shape[1]}) or ({shape[1]},)"
        if has_labels(evidence):
            evidence = by_label(evidence, "clamp", shape[1], self.labels, partial=True)
        evidence = as_real(nested_with_nan(evidence), "clamp", expected)
        if evidence.shape not in (shape, shape[1:]):
            raise ValueError(f"clamp must have shape {expected}, got {evidence.shape}")
        self._check_values(evidence)
        evidence = np.broadcast_to(evidence, shape)
        if self.evidence is not None:
            if (np.abs(evidence - self.evidence) > 0).any():  # False for free variables (NaN)
                raise ValueError("clamp contradicts the evidence that the energy already has")
            evidence = np.where(np.isnan(evidence), self.evidence, evidence)
        other = copy.copy(self)
        other.evidence = np.array(evidence, np.float64)
        other._check_evidence()
        return other

    def _check_values(self, evidence: np.ndarray) -> None:
        """Raise a ValueError unless evidence (..., n_variables) holds only states and NaN."""
        if not (np.isnan(evidence) | (evidence == 0) | (evidence == 1)).all():
            raise ValueError("clamp must hold 0 or 1 for clamped units and NaN for free units")

    def _check_evidence(self) -> None:
        """Raise a ValueError if no state agrees with the evidence."""

    @property
    def is_pairwise(self) -> bool:
        """True if the score is a sum of terms that depend on one or two 0/1 variables."""
        return False

    @property
    def free(self) -> np.ndarray:
        """Bool array (N, n_variables), True for variables that are not clamped."""
        if self.evidence is None:
            return np.ones(self.belief_shape[:2], bool)
        return np.isnan(self.evidence)

    def _agrees(self, states: np.ndarray, first: int = 0) -> np.ndarray:
        """Return a mask (N, ...), True for states that agree with the evidence of their model.

        `states` (N or 1, ..., k) holds states of k variables, from the index `first` on. The energy
        must have evidence.
        """
        assert self.evidence is not None
        held = self.evidence[:, first : first + states.shape[-1]]
        held = held.reshape(len(held), *(1,) * (states.ndim - 2), held.shape[1])
        differs = np.abs(states - held) > 0  # False for free variables, which are NaN
        return np.logical_not(differs.any(axis=-1))

    def _without_contradictions(self, log_weight: np.ndarray, sets: np.ndarray) -> np.ndarray:
        """Set `log_weight` (N, K) to -inf where a row of `sets` (K, V) contradicts the evidence."""
        if self.evidence is not None:
            held, off = self.evidence[:, : self.n_visible], 1.0 - sets
            log_weight[(held == 1) @ off.T + (held == 0) @ (1.0 - off).T > 0] = -np.inf
        return log_weight

    # ----------------------------------------------------- weights of states

    @abstractmethod
    def _score(self, states: np.ndarray) -> np.ndarray:
        """Return ``-E`` (N,) of `states` (N, n_variables), one per model; ignore the evidence."""

    def score(self, states: ArrayLike) -> np.ndarray:
        """Return ``-E`` of a joint 0/1 state for each of N models; `states` is (N, n_variables).

        Returns
        -------
        ndarray (N,), float64
            Scores; -inf for states that contradict the evidence.
        """
        states = np.asarray(states)
        scores = self._score(states)
        if self.evidence is not None:
            scores = np.where(self._agrees(states), scores, -np.inf)
        return scores

    def log_weight_of_sets(self, visible_sets: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-weight (negative free energy) of K visible states under each model.

        By default all states of the hidden variables are enumerated, which is possible only for few
        hidden variables.

        Parameters
        ----------
        visible_sets : ndarray of shape (K, V)
            0/1 states.
        hidden : {"marginal", "max"}, default="marginal"
            "marginal" sums over the hidden variables, "max" maximises over them.

        Returns
        -------
        ndarray of shape (N, K), float64
            Log-weights; -inf for states that contradict the evidence.

        Raises
        ------
        ValueError
            If there are too many hidden variables to enumerate.
        """
        hidden_states = self._hidden_states()
        h = len(hidden_states)
        weights = np.empty((self.n_models, len(visible_sets)))
        reduce = np.max if hidden == "max" else logsumexp
        for part in row_chunks(len(visible_sets), max(1, 2**MAX_GENERIC_UNITS // h)):
            sets = visible_sets[part]
            k = len(sets)
            joint = np.hstack([np.repeat(sets, h, axis=0), np.tile(hidden_states, (k, 1))])
            for n in range(self.n_models):
                scores = unchecked(self.rows(np.full(k * h, n)).score)(joint)
                weights[n, part] = reduce(scores.reshape(k, h), axis=1)
        return weights

    def _hidden_states(self) -> np.ndarray:
        """Return all 0/1 states (2^H, H) of the hidden variables, or raise a ValueError."""
        if self.n_hidden > MAX_GENERIC_UNITS:
            raise ValueError(
                f"{type(self).__name__} must enumerate the states of its {self.n_hidden} hidden "
                f"variables here; the limit is {MAX_GENERIC_UNITS} variables"
            )
        return binary_states(self.n_hidden)

    def log_weight(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-weight (N,) of a state of each model; `visible` (N, V) holds the states.

        See `log_weight_of_sets` for `hidden`.
        """
        parts = [self.rows([n]) for n in range(self.n_models)]
        weights = [
            unchecked(p.log_weight_of_sets)(v[None], hidden)[0, 0] for p, v in zip(parts, visible)
        ]
        return np.array(weights, np.float64)

    # ----------------------------------------------------- conditionals

    @property
    def sampling_blocks(self) -> tuple[Block, ...]:
        """Blocks of variables that samplers draw in turn, as slices or index arrays.

        Each variable is in exactly one block. The variables of a block must be independent given
        all variables outside of the block, unless the class overrides `draw` to draw them jointly.
        By default each variable is a block.
        """
        return tuple(slice(i, i + 1) for i in range(self.n_variables))

    def _conditional_log_odds(self, states: np.ndarray, block: Block) -> np.ndarray:
        """Compute `conditional_log_odds` without evidence. A block must be a single variable."""
        n, n_chains, width = states.shape
        flat = states.reshape(n * n_chains, width)
        off, on = np.array(flat, np.float64), np.array(flat, np.float64)
        off[:, block], on[:, block] = 0, 1
        models = self._with_fields(*(np.repeat(f, n_chains, axis=0) for f in self.fields))
        return (models._score(on) - models._score(off)).reshape(n, n_chains, 1)

    def conditional_log_odds(self, states: np.ndarray, block: Block) -> np.ndarray:
        """Return the log-odds of each variable in a block given the variables outside the block.

        Parameters
        ----------
        states : ndarray (N, C, n_variables)
            C 0/1 states of each model.
        block : slice or ndarray of int
            One of `sampling_blocks`.

        Returns
        -------
        ndarray (N, C, size of the block)
            Log-odds; ±inf for clamped variables.
        """
        log_odds = self._conditional_log_odds(states, block)
        if self.evidence is not None:
            log_odds = infinite_where_held(log_odds, self.evidence[:, None, block])
        return log_odds

    def draw(self, log_odds: np.ndarray, u: np.ndarray, block: Block) -> np.ndarray:
        """Draw the variables of a block.

        Parameters
        ----------
        log_odds : ndarray (N, C, size of the block)
            Result of `conditional_log_odds`.
        u : ndarray that broadcasts to the shape of `log_odds`
            Uniform random numbers.
        block : slice or ndarray of int
            One of `sampling_blocks`.

        Returns
        -------
        ndarray of bool (N, C, size of the block)
            Sampled states.
        """
        return u < expit(log_odds)

    def hidden_given_visible(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return P(h_j = 1 | v) or, with ``hidden="max"``, the most probable h given v.

        If the hidden variables are a block of `sampling_blocks`, they are independent given v.
        Otherwise their states are enumerated, which is possible only for few hidden variables.

        Parameters
        ----------
        visible : ndarray of shape (N, V)
            0/1 states, one per model.
        hidden : {"marginal", "max"}, default="marginal"
            "marginal" for probabilities, "max" for the most probable state.

        Returns
        -------
        ndarray of shape (N, H)
            Probabilities or 0/1 states.

        Raises
        ------
        ValueError
            If there are too many hidden variables to enumerate.
        """
        if self.n_hidden == 0:
            return np.empty((len(visible), 0), self.dtype)
        block = slice(self.n_visible, self.n_variables)
        if block not in self.sampling_blocks:
            return self._enumerate_hidden(visible, hidden)
        states = np.zeros((len(visible), 1, self.n_variables), self.dtype)
        states[:, 0, : self.n_visible] = visible
        log_odds = unchecked(self.conditional_log_odds)(states, block)[:, 0]
        found = expit(log_odds) if hidden == "marginal" else log_odds > 0
        return found.astype(self.dtype)

    def _enumerate_hidden(self, visible, hidden):
        """Compute `hidden_given_visible` by enumerating all hidden states."""
        states = self._hidden_states()
        found = np.empty((len(visible), self.n_hidden), self.dtype)
        for n, v in enumerate(visible):
            part = self.rows(np.full(len(states), n))
            scores = part._score(np.hstack([np.tile(v, (len(states), 1)), states]))
            if self.evidence is not None:  # check only the hidden variables, because v is given
                scores[~part._agrees(states, self.n_visible)] = -np.inf
            if hidden == "max":
                found[n] = states[scores.argmax()]
            else:
                found[n] = np.minimum(np.exp(scores - logsumexp(scores)) @ states, 1)
        return found

    def hidden_and_log_weight(
        self, visible: np.ndarray, hidden: str = "marginal"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the results of `hidden_given_visible` and `log_weight`, computed together."""
        means = unchecked(self.hidden_given_visible)(visible, hidden)
        return means, unchecked(self.log_weight)(visible, hidden)

    def visible_log_odds(self, visible: np.ndarray, hidden: str = "marginal") -> np.ndarray:
        """Return the log-odds (N, V) of each visible variable given all other visible variables.

        `visible` (N, V) holds 0/1 states, one per model. See `log_weight_of_sets` for `hidden`. The
        log-odds are ±inf for clamped variables.
        """
        log_odds = np.empty(visible.shape, np.float64)
        for i in range(visible.shape[1]):
            on, off = visible.copy(), visible.copy()
            on[:, i], off[:, i] = 1, 0
            with np.errstate(invalid="ignore"):
                weight = unchecked(self.log_weight)
                log_odds[:, i] = weight(on, hidden) - weight(off, hidden)
        if self.evidence is not None:
            log_odds = infinite_where_held(log_odds, self.evidence[:, : self.n_visible])
        return log_odds.astype(self.dtype)

    def marginal_modes(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the more probable value of each variable for log-odds (N, V); 1 in a tie."""
        return (log_odds >= 0).astype(np.int8)

    # ------------------------------------------------- sufficient statistics

    @property
    @abstractmethod
    def statistic_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the sufficient statistics of a model, such as ((V, H),) for an RBM.

        A statistic is the gradient of the score with respect to a coupling. The statistics of the
        fields, which are the variables themselves, are not included.
        """

    @property
    def n_statistics(self) -> int:
        """Number of sufficient statistics."""
        return sum(math.prod(shape) for shape in self.statistic_shapes)

    @abstractmethod
    def sum_statistics(self, means: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return weighted sums of the sufficient statistics of states.

        Parameters
        ----------
        means : ndarray (K, n_variables)
            0/1 states, or means of independent variables, for which the sums are expectations.
        weight : ndarray (K,)
            Weight of each state.

        Returns
        -------
        tuple of ndarray
            Arrays with the shapes in `statistic_shapes`.
        """

    def statistics(self, states: np.ndarray, sample_weight: ArrayLike | None = None) -> Any:
        """Return weighted means of the sufficient statistics of 0/1 states (K, n_variables)."""
        weight = np.ones(len(states))
        if sample_weight is not None:
            weight = as_real(sample_weight, "sample_weight", f"({len(states)},)")
        if weight.shape != (len(states),):
            raise ValueError(f"sample_weight must have shape ({len(states)},), got {weight.shape}")
        total = weight.sum()
        if total == 0:
            raise ValueError(
                "states must have at least one row, and sample_weight a sum other than 0"
            )
        return tuple(part / total for part in self.sum_statistics(states, weight))

    def expected_score(self, means: np.ndarray, statistics: tuple[np.ndarray, ...]) -> float:
        """Return the mean of ``-E`` over a distribution of states, given its moments.

        Parameters
        ----------
        means : ndarray (n_variables,)
            Means of the variables.
        statistics : tuple of ndarray
            Means of the sufficient statistics.

        Raises
        ------
        NotImplementedError
            If this class does not define `expected_score`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define expected_score")

    def _copy_with(self, **attributes) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self), **attributes)
        return other


def checked_beta(beta: Any) -> float:
    """Return an inverse temperature, or raise a ValueError if it is negative or not finite."""
    value = float(beta) if isinstance(beta, Real) else np.nan
    if not 0 <= value < np.inf:
        raise ValueError(f"beta must be a finite number of at least 0, got {beta!r}")
    return value


def _checked_rows(index, n_models):
    """Return the indices of rows as an array of int, or a mask of rows as it is."""
    try:
        rows = np.atleast_1d(np.asarray(index))
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"index must be a slice, indices or a mask of rows: {error}") from error
    if rows.dtype == bool and rows.shape == (n_models,):
        return rows
    rows = rows.astype(np.int64) if rows.size == 0 else rows
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"index must be a slice, indices of rows, or a mask of {n_models} rows; got {index!r}"
        )
    if rows.size and not -n_models <= rows.min() <= rows.max() < n_models:
        raise ValueError(f"index must hold rows from 0 to {n_models - 1}, got {index!r}")
    return rows


check_methods_that_take_states(BaseEnergy)
