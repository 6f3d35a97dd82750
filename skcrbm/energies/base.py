"""What every energy declares: all that inference, learning and decoding ask of a model.

An energy is a batch of N models ``p(s) ∝ exp(-E(s))`` over 0/1 variables that share their
couplings and differ in their *fields* (the terms linear in one variable) and in their
*evidence* (the variables that are held at a value). Inputs x, loss augmentation and
perturbation noise act on the fields alone, so one signature carries every learner and every
inference method.

`tests/reference/conformance.py` compares every member of an energy with enumeration.
"""

import copy
import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp

from skcrbm.utils.limits import MAX_ENUMERATED, MAX_GENERIC_UNITS
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import as_real

#: What `infer` may be asked about a model; a kind of energy may have no answer to some.
QUERIES = frozenset(
    {
        "marginals",
        "statistics",
        "log_partition",
        "map",
        "marginal_map",
        "map_bound",
        "samples",
        "sample_log_prob",
    }
)


class BaseEnergy(Versioned, ABC):
    """A batch of N models over n 0/1 variables, visible ones first.

    Subclasses store arrays of one floating dtype, C-contiguous, and define the abstract
    members. The others follow from these; a subclass overrides what it can do faster.

    Attributes
    ----------
    evidence : ndarray (N, n_variables) or None
        Values 0 and 1 of the variables that are held, NaN where free; None without evidence.
    """

    #: What `infer` may be asked about this kind of energy.
    queries: ClassVar[frozenset] = QUERIES
    #: Whether the visible variables are the states of one categorical variable: one is on.
    categorical: ClassVar[bool] = False
    evidence = None

    # ------------------------------------------------------------------ shape

    @property
    @abstractmethod
    def fields(self):
        """Tuple of (N, ...) arrays, the part of the energy that differs from row to row."""

    @property
    def couplings(self):
        """Tuple of arrays: the part of the energy that all models share, by default nothing."""
        return ()

    def own_log_odds(self):
        """Log-odds (N, n_variables) of each variable by its field alone, and what may change them.

        Returns
        -------
        log_odds : ndarray (N, n_variables), float64
        influence : ndarray (n_variables,), float64
            Couplings move no log-odds by more; infinite where nothing is known, the default.
        """
        shape = self.n_models, self.n_variables
        return np.zeros(shape), np.full(shape[1], np.inf)

    def lost_beside(self):
        """Which fields (N, n_variables) are too large unless they decide their variable.

        Beside one nothing else would be told apart. By default none is: solvers take such fields
        out of their sums, or rounding is relative to couplings of that size.
        """
        return np.zeros((self.n_models, self.n_variables), bool)

    @property
    @abstractmethod
    def n_variables(self):
        """Number of variables of one model."""

    @property
    def n_visible(self):
        """Number of visible variables, which come first; all of them by default."""
        return self.n_variables

    @property
    def n_hidden(self):
        """Number of hidden variables."""
        return self.n_variables - self.n_visible

    def n_enumerated(self, query="log_partition"):
        """Return how many variables are enumerated by "exact" to answer a query.

        Its cost is exponential in this number alone.
        """
        return self.n_variables

    @property
    def max_enumerated(self):
        """Largest `n_enumerated` of a model that "exact" does not refuse unless told to."""
        return MAX_ENUMERATED

    def __repr__(self):
        return f"{type(self).__name__}({self.n_models} models of {self.n_variables} variables)"

    @property
    def n_models(self):
        """Number of models N in the batch."""
        return self.fields[0].shape[0]

    @property
    def dtype(self):
        """float32 if all inputs are float32, else float64; inference runs in it."""
        return self.fields[0].dtype

    # ------------------------------------------------------- changing the batch

    @abstractmethod
    def _with_fields(self, *fields):
        """Return the same couplings with other fields."""

    def with_fields(self, *fields):
        """Return the same couplings, and evidence, with other fields of the same shapes."""
        other = self._with_fields(*fields)
        if self.evidence is not None and len(self.evidence) != other.n_models:
            raise ValueError(
                f"fields must have {len(self.evidence)} rows, as the evidence has; got "
                f"{other.n_models}"
            )
        return other

    def tilted(self, shift):
        """Return the models with the weight of each state times ``exp(shift' v)``, v visible.

        By default the first of `fields` is taken to hold the factors of the 0/1 variables.

        Parameters
        ----------
        shift : ndarray (N, V) or broadcast to that

        Returns
        -------
        energy : BaseEnergy
            Of the same kind, with the same evidence.
        offset : ndarray (N,), float64
            To be added to its log-weights and log Z.
        """
        first, *others = self.fields
        first = first.copy()
        first[:, : self.n_visible] += shift
        return self.with_fields(first, *others), np.zeros(self.n_models)

    def without_held_fields(self):
        """Return the same models with fields of 0 for held variables, and what these gave.

        So that large ones are in no sum of scores. By default nothing changes.

        Returns
        -------
        energy : BaseEnergy
            With the same evidence.
        offset : ndarray (N,), float64
            To be added to its scores, log-weights and log Z.
        """
        return self, np.zeros(self.n_models)

    @property
    def has_zeros(self):
        """Whether some states have weight 0, also those of ``scaled(0)``."""
        return False

    def scaled(self, beta):
        """Return the same fields, and evidence, with the couplings times a number.

        Without couplings, ``scaled(0)``, the variables are independent, but for states of weight
        0: these keep it, whatever the number.

        Parameters
        ----------
        beta : float
            At least 0.

        Returns
        -------
        BaseEnergy
            Of the same kind.

        Raises
        ------
        NotImplementedError
            If this kind of energy does not say what its couplings are.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define scaled")

    def rows(self, index):
        """Return the models of the given rows, sharing the couplings."""
        other = self._with_fields(*(f[index] for f in self.fields))
        if self.evidence is not None:
            other.evidence = self.evidence[index]
        return other

    def condition(self, evidence):
        """Return the models given the values of some variables.

        Parameters
        ----------
        evidence : array-like (N, n_variables) or (n_variables,)
            0 or 1 holds a variable, NaN leaves it as it is: free, or held already.

        Returns
        -------
        BaseEnergy
            Of the same kind, with the same fields. States that contradict the evidence have
            weight 0.

        Raises
        ------
        ValueError
            On another shape, another value, or evidence that contradicts what is held.
        """
        shape = self.n_models, self.n_variables
        expected = f"({shape[0]}, {shape[1]}) or ({shape[1]},)"
        evidence = as_real(evidence, "clamp", expected)
        if evidence.shape not in (shape, shape[1:]):
            raise ValueError(f"clamp must have shape {expected}, got {evidence.shape}")
        if not (np.isnan(evidence) | (evidence == 0) | (evidence == 1)).all():
            raise ValueError(
                "clamp must hold 0 or 1 where a unit is fixed and NaN where it is free"
            )
        evidence = np.broadcast_to(evidence, shape)
        if self.evidence is not None:
            if (evidence + self.evidence == 1).any():
                raise ValueError("clamp contradicts the evidence that the energy carries already")
            evidence = np.where(np.isnan(evidence), self.evidence, evidence)
        other = copy.copy(self)
        other.evidence = np.array(evidence, np.float64)
        other._check_evidence()
        return other

    def _check_evidence(self):
        """Raise a ValueError if no state agrees with the evidence."""

    @property
    def is_pairwise(self):
        """Whether the score is a sum of terms of one or two variables, each of them 0/1."""
        return False

    @property
    def free(self):
        """Which variables are free, (N, n_variables) of bool."""
        if self.evidence is None:
            return np.ones((self.n_models, self.n_variables), bool)
        return np.isnan(self.evidence)

    def _agrees(self, states, first=0):
        """Whether 0/1 states (N or 1, ..., k) of variables `first` and on agree with evidence."""
        held = self.evidence[:, first : first + states.shape[-1]]
        held = held.reshape(len(held), *(1,) * (states.ndim - 2), held.shape[1])
        return ~(states + held == 1).any(axis=-1)

    def _without_contradictions(self, log_weight, sets):
        """Log-weights (N, K) of visible states (K, V), -inf where these contradict evidence."""
        if self.evidence is not None:
            held, off = self.evidence[:, : self.n_visible], 1.0 - sets
            log_weight[(held == 1) @ off.T + (held == 0) @ (1.0 - off).T > 0] = -np.inf
        return log_weight

    # ----------------------------------------------------- weights of states

    @abstractmethod
    def _score(self, states):
        """``-E`` of 0/1 states (N, n_variables), float64, without regard to evidence."""

    def score(self, states):
        """``-E`` of joint 0/1 states (N, n_variables), one per model.

        Returns
        -------
        ndarray (N,), float64
            -inf where a state contradicts the evidence.
        """
        states = np.asarray(states)
        scores = self._score(states)
        if self.evidence is not None:
            scores = np.where(self._agrees(states), scores, -np.inf)
        return scores

    def log_weight_of_sets(self, visible_sets, hidden="marginal"):
        """Log-weight (negative free energy) of each of K visible states under each model.

        By default the hidden variables are enumerated, which takes few of them.

        Parameters
        ----------
        visible_sets : ndarray of shape (K, V)
            0/1.
        hidden : {"marginal", "max"}, default="marginal"
            Whether the hidden variables are summed out or take their best values.

        Returns
        -------
        ndarray of shape (N, K), float64
            -inf where a state contradicts the evidence.

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
                scores = self.rows(np.full(k * h, n)).score(joint)
                weights[n, part] = reduce(scores.reshape(k, h), axis=1)
        return weights

    def _hidden_states(self):
        """All 0/1 states (2^H, H) of the hidden variables; a ValueError if they are too many."""
        if self.n_hidden > MAX_GENERIC_UNITS:
            raise ValueError(
                f"{type(self).__name__} enumerates its hidden variables for this, of which there "
                f"are {self.n_hidden}; the limit is {MAX_GENERIC_UNITS}"
            )
        return _binary_states(self.n_hidden)

    def log_weight(self, visible, hidden="marginal"):
        """Log-weight (N,), float64, of visible states (N, V), one per model.

        See `log_weight_of_sets` for `hidden`.
        """
        parts = [self.rows([n]) for n in range(self.n_models)]
        weights = [p.log_weight_of_sets(v[None], hidden)[0, 0] for p, v in zip(parts, visible)]
        return np.array(weights, np.float64)

    # ----------------------------------------------------- conditionals

    @property
    def sampling_blocks(self):
        """Tuple of slices or index arrays: blocks that are drawn in turn, each variable once.

        The variables of a block are independent given those outside of it, or the energy
        draws them together by a `draw` of its own. By default they are drawn one by one.
        """
        return tuple(slice(i, i + 1) for i in range(self.n_variables))

    def _conditional_log_odds(self, states, block):
        """`conditional_log_odds` without regard to evidence; here of a block of one variable."""
        n, n_chains, width = states.shape
        flat = states.reshape(n * n_chains, width)
        off, on = np.array(flat, np.float64), np.array(flat, np.float64)
        off[:, block], on[:, block] = 0, 1
        models = self._with_fields(*(np.repeat(f, n_chains, axis=0) for f in self.fields))
        return (models._score(on) - models._score(off)).reshape(n, n_chains, 1)

    def conditional_log_odds(self, states, block):
        """Log-odds of each variable of a block given those outside of it.

        Parameters
        ----------
        states : ndarray (N, C, n_variables)
            C states of 0/1 of each model.
        block : slice or ndarray of int
            One of `sampling_blocks`.

        Returns
        -------
        ndarray (N, C, size of the block)
            ±inf where a variable is held.
        """
        log_odds = self._conditional_log_odds(states, block)
        if self.evidence is not None:
            held = self.evidence[:, None, block]
            log_odds = np.where(np.isnan(held), log_odds, np.where(held == 1, np.inf, -np.inf))
        return log_odds

    def draw(self, log_odds, u, block):
        """Draw the variables of a block from `conditional_log_odds` and uniform numbers u.

        Returns
        -------
        ndarray of bool (N, C, size of the block)
        """
        return u < expit(log_odds)

    def hidden_given_visible(self, visible, hidden="marginal"):
        """P(h_j = 1 | v) or, with ``hidden="max"``, the most probable h given v.

        Where the hidden variables are one of `sampling_blocks`, they are independent given v
        and each has its own mode; elsewhere they are enumerated, which takes few of them.

        Parameters
        ----------
        visible : ndarray of shape (N, V)
            0/1, one per model.
        hidden : {"marginal", "max"}, default="marginal"

        Returns
        -------
        ndarray of shape (N, H)

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
        log_odds = self.conditional_log_odds(states, block)[:, 0]
        found = expit(log_odds) if hidden == "marginal" else log_odds > 0
        return found.astype(self.dtype)

    def _enumerate_hidden(self, visible, hidden):
        """`hidden_given_visible` by a sum or maximum over all hidden states."""
        states = self._hidden_states()
        found = np.empty((len(visible), self.n_hidden), self.dtype)
        for n, v in enumerate(visible):
            part = self.rows(np.full(len(states), n))
            scores = part._score(np.hstack([np.tile(v, (len(states), 1)), states]))
            if self.evidence is not None:  # of the hidden variables: v is what is given
                scores[~part._agrees(states, self.n_visible)] = -np.inf
            if hidden == "max":
                found[n] = states[scores.argmax()]
            else:
                found[n] = np.minimum(np.exp(scores - logsumexp(scores)) @ states, 1)
        return found

    def hidden_and_log_weight(self, visible, hidden="marginal"):
        """Return `hidden_given_visible` and `log_weight` of visible states (N, V) at once."""
        return self.hidden_given_visible(visible, hidden), self.log_weight(visible, hidden)

    def visible_log_odds(self, visible, hidden="marginal"):
        """Log-odds of each visible variable given all other visible ones.

        Parameters
        ----------
        visible : ndarray of shape (N, V)
            0/1, one per model.
        hidden : {"marginal", "max"}, default="marginal"
            Whether hidden variables are summed out or take their best values.

        Returns
        -------
        ndarray of shape (N, V)
            ±inf where held.
        """
        log_odds = np.empty(visible.shape, np.float64)
        free = self.free
        for i in range(visible.shape[1]):
            on, off = visible.copy(), visible.copy()
            on[:, i], off[:, i] = 1, 0
            with np.errstate(invalid="ignore"):
                log_odds[:, i] = self.log_weight(on, hidden) - self.log_weight(off, hidden)
            if not free[:, i].all():
                held = self.evidence[:, i]
                sides = np.where(held == 1, np.inf, -np.inf)
                log_odds[:, i] = np.where(np.isnan(held), log_odds[:, i], sides)
        return log_odds.astype(self.dtype)

    def marginal_modes(self, log_odds):
        """0/1 outputs (N, V) of belief log-odds (N, V), ties on."""
        return (log_odds >= 0).astype(np.int8)

    # ------------------------------------------------- sufficient statistics

    @property
    @abstractmethod
    def statistic_shapes(self):
        """Shapes of the sufficient statistics of one model, the couplings' gradients.

        A tuple with the shape of each array: ``((V, H),)`` of an RBM. The statistics of the
        fields are the variables themselves and not among them.
        """

    @property
    def n_statistics(self):
        """Number of sufficient statistics."""
        return sum(math.prod(shape) for shape in self.statistic_shapes)

    @abstractmethod
    def sum_statistics(self, means, weight):
        """Sum the sufficient statistics of K states (K, n_variables) with weights (K,).

        If the states are means of independent variables, the statistics are expectations.

        Returns
        -------
        tuple of ndarray
            Arrays of the shapes in `statistic_shapes`.
        """

    def statistics(self, states, sample_weight=None):
        """Weighted means of the sufficient statistics of K 0/1 states (K, n_variables)."""
        weight = np.ones(len(states)) if sample_weight is None else np.asarray(sample_weight)
        total = weight.sum()
        return tuple(part / total for part in self.sum_statistics(states, weight))

    def expected_score(self, means, statistics):
        """Mean of ``-E`` over states whose variables and statistics have these means.

        Raises
        ------
        NotImplementedError
            If this kind of energy is not linear in its statistics.
        """
        raise NotImplementedError(f"{type(self).__name__} has no score of moments")

    def _copy_with(self, **attributes):
        other = copy.copy(self)
        other.__dict__.update(attributes)
        return other


def _binary_states(k):
    """All 0/1 states (2^k, k), the first variable fastest."""
    return (np.arange(2**k)[:, None] >> np.arange(k)) & 1


class PairwiseEnergy(BaseEnergy):
    """A batch of models whose couplings are products of two variables.

    What a held variable says to a free one is then a shift of its field, so that solvers need
    not know of values, only of which variables are left out.
    """

    @property
    def is_pairwise(self):
        """True."""
        return True

    @abstractmethod
    def fold_evidence(self):
        """Fields of the free variables, with the pull of the held ones in them.

        Returns
        -------
        fields : tuple of ndarray
            As `fields`, 0 where a variable is held: with `free` at hand it is to be left out.
        offset : ndarray (N,), float64
            Score of the held variables among themselves, to be added to log Z.
        """

    @abstractmethod
    def held_pairs(self, values, free):
        """Return the expected statistics of the pairs with a held variable, as products.

        Parameters
        ----------
        values, free : ndarray (N, n_variables)
            The held values, 0 where free; the marginals, 0 where held.

        Returns
        -------
        tuple of (left, right)
            Each stands for the products ``left[:, :, None] * right[:, None, :]``, which are
            to be added; of a sparse energy for those edge by edge, ``left * right``.
        """

    def add_held_pairs(self, statistics, values, free, weight):
        """Add the pairs with a held variable, plain products of means, to statistics.

        Parameters
        ----------
        statistics : tuple of ndarray
            Of `statistic_shapes`, or with a leading axis N; changed.
        values, free : ndarray (N, n_variables)
            As of `held_pairs`.
        weight : ndarray (N,) or None
            To sum over the models; None: statistics of each.
        """
        (pairs,) = statistics
        for left, right in self.held_pairs(values, free):
            if weight is None:
                pairs += left[:, :, None] * right[:, None, :]
            else:
                pairs += (weight[:, None] * left).T @ right
