"""MarkovRandomField: a density with tables of log-potentials over sets of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.density._base import BaseDensity, Rows, density_plan, start_log_odds
from skcrbm.density._categories import decode, encode, find_categories, read_columns
from skcrbm.density._documentation import document_density
from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.inference import InferenceMethod
from skcrbm.learning.fit import Plan
from skcrbm.learning.rules import LearningRule
from skcrbm.learning.solvers import LossPlateau, Solver


class TableParams(NamedTuple):
    """Parameters of a Markov random field."""

    log_potentials: Any  # ndarray (K,): learned entries of the tables


class TableModel(NamedTuple):
    """A factor graph whose tables are learned.

    The fields of the variables, and the table entries of weight 0 (log-potential -inf), are
    constant.
    """

    params: TableParams
    base: FactorGraphEnergy  # energy of one model, with the graph and the initial tables
    learned: np.ndarray  # int (K,): positions of the learned (finite) entries

    @classmethod
    def from_energy(cls, base: FactorGraphEnergy) -> TableModel:
        """Return the model that starts from the tables of an energy."""
        learned = np.flatnonzero(np.isfinite(base.log_potentials))
        return cls(TableParams(base.log_potentials[learned]), base, learned)

    def energy(self, X: Any) -> FactorGraphEnergy:
        """Return the energy: a single model, which does not depend on X."""
        flat = self.base.log_potentials.copy()
        flat[self.learned] = self.params.log_potentials
        return self.base.with_log_potentials(flat)

    def gradient(
        self, X: Any, unary: np.ndarray, statistics: tuple[np.ndarray, ...]
    ) -> TableParams:
        """Turn differences of moments into a gradient; see `ConditionalRBM.gradient`.

        The gradient for a table entry is the expected number of rows with this entry under the
        model minus the number of rows with this entry in the data, if all rows have the weight 1.
        """
        return TableParams(statistics[0][self.learned])


@document_density
class MarkovRandomField(BaseDensity):
    """Markov random field over binary or categorical columns, which may have missing values.

    ``p(x) ∝ prod_a exp(t_a(x_a))``, where x_a are the columns in scope a, and t_a is a table of
    log-potentials.

    Parameters
    ----------
    factors : "pairwise", list of scopes, or FactorGraphEnergy, default="pairwise"
        Tables of the model:

        - "pairwise": a table for each column, and a table for each pair of columns. Training starts
          with the log-odds (or log-shares of the categories) of each column, and 0 for pairs.
        - A list of scopes, which are sequences of column indices: a table for each scope, with
          initial entries of 0.
        - An energy of a single model: training starts with the tables of the energy. Its fields, OR
          and AND factors, and table entries of weight 0 are not learned. If they give a complete
          row of X the weight 0, an error is raised.
    categories : "auto", list of array-like, or None, default=None
        Categories of each column: any hashable values, such as words or whole numbers. "auto"
        takes the sorted values of each column of X. Entries of X that are NaN or None are missing.
        None means that the columns are binary or, if `factors` is an energy with categorical
        variables, that the categories are their states 0, 1, .... If the columns have categories,
        `binarize` has no effect, and `marginals` has the shape (n_samples, n_features, K) unless
        all columns have two categories.
    learning : str or object, default="pcd"
        Learning rule, by name or as an object from `skcrbm.learning`. Training compares
        moments of the data with moments of the model, which the rules compute differently:

    <rules and inference>
    solver : str or object, default="adam"
        Solver: "adam" or "sgd", or an object of class `Adam` or `SGD`. The automatic
        `batch_size` is all rows, because moments of complete rows are computed only once. The
        automatic `average` is True for all rules but "mle", because states drawn from the model
        make the iterates circle around the solution. With averaging, training needs more epochs to
        come near the solution.
    max_iter : int, default=100
        Maximum number of epochs. Training stops earlier only if the learning rule computes a loss
        ("mle"), or if rows are held out for validation, see `early_stopping`.
    alpha, alpha_l1 : float, default=0.0
        L2 and L1 penalties on the log-potentials of tables over two or more columns. The L1
        penalty is minimised by subgradient steps.
    <preparation and end of training>

    Attributes
    ----------
    energy_ : FactorGraphEnergy
        Learned model, for `skcrbm.inference.infer`.
    log_potentials_ : ndarray (n_entries,)
        Log-potentials of all tables in the order of `energy_`. Tables over fewer columns come
        first, unless `factors` is an energy.
    <curves>
    categories_ : list of ndarray or None
        Categories of each column; None for binary columns.
    <results of training>

    References
    ----------
    <papers>

    Examples
    --------
    >>> from skcrbm.datasets import make_structured_sequences
    >>> from skcrbm.density import MarkovRandomField
    >>> scopes, sequences = make_structured_sequences(7)
    >>> model = MarkovRandomField(scopes, learning="mle", max_iter=300).fit(sequences)
    >>> round(model.score(sequences), 1)  # 16 equally likely sequences: -log 16 = -2.77
    -2.8
    """

    categories_: list[np.ndarray] | None

    _structural = ("factors", "categories")
    _saved = ("n_features_in_", "energy_", "n_iter_", "log_potentials_")

    _parameter_constraints: dict = {
        **BaseDensity._parameter_constraints,
        "factors": "no_validation",  # `_base_energy` has more specific messages
        "categories": "no_validation",  # `find_categories` validates it
    }

    def __init__(
        self,
        factors="pairwise",
        *,
        categories: str | Sequence[ArrayLike] | None = None,
        learning: str | LearningRule = "pcd",
        inference: str | InferenceMethod = "auto",
        solver: str | Solver = "adam",
        max_iter: int = 100,
        alpha: float = 0.0,
        alpha_l1: float = 0.0,
        binarize: float | None = 0.5,
        early_stopping: bool | LossPlateau = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.factors = factors
        self.categories = categories
        self.learning = learning
        self.inference = inference
        self.solver = solver
        self.max_iter = max_iter
        self.alpha = alpha
        self.alpha_l1 = alpha_l1
        self.binarize = binarize
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _plan(self, rows: Rows, rng) -> Plan:
        model = self._model if self.__sklearn_is_fitted__() else self._initial_model(rows)
        pulled = np.zeros(model.base.n_entries)
        for group in model.base.tables:
            if len(group.shape) > 1:
                pulled[group.entries[:, None] + np.arange(math.prod(group.shape))] = 1
        penalised = TableParams(pulled[model.learned])
        return density_plan(self, rows, model, rng, penalised=penalised)

    def _visible(self, X, reset):
        if reset:
            self.categories_ = None
        given: Any = self.categories
        base: Any = self.factors
        if given is None and getattr(base, "belief_shape", (0, 0))[2:]:
            given = [np.arange(k) for k in base.state_counts]
        if given is None:
            return super()._visible(X, reset)
        columns = read_columns(self, X, reset)
        if reset:
            self.categories_ = find_categories(given, columns)
        assert self.categories_ is not None
        return encode(columns, self.categories_)

    def _given_values(self, given):
        if self.categories_ is None:
            return super()._given_values(given)
        row = np.asarray(given, object)
        if row.shape != (self.n_features_in_,):
            raise ValueError(
                f"given must have shape ({self.n_features_in_},), with NaN for values to draw; "
                f"got {row.shape}"
            )
        return encode(row[None], self.categories_, "given")[0]

    def _rows_of_states(self, states):
        if self.categories_ is None:
            return super()._rows_of_states(states)
        return decode(states, self.categories_)

    def _base_energy(self, factors: Any, n_features, dtype):
        """Return the energy to start from: `factors` if it is an energy, else tables of 0."""
        if isinstance(factors, FactorGraphEnergy):
            if factors.n_models != 1 or factors.evidence is not None:
                raise ValueError(
                    "factors must be an energy of one model without evidence; got "
                    f"{factors.n_models} models"
                )
            if factors.n_variables != n_features:
                raise ValueError(
                    f"factors has {factors.n_variables} variables, but X has {n_features} columns"
                )
            if not np.array_equal(factors.state_counts, self._n_states(n_features)):
                raise ValueError(
                    "the variables of factors must have as many states as the columns have "
                    f"categories, {self._n_states(n_features).tolist()}; got "
                    f"{factors.state_counts.tolist()}"
                )
            return factors
        n_states = self._n_states(n_features)
        if isinstance(factors, str):
            if factors != "pairwise":
                raise ValueError(
                    "factors must be 'pairwise', a list of scopes or a FactorGraphEnergy; got "
                    f"{factors!r}"
                )
            pairs = np.column_stack(np.triu_indices(n_features, 1))
            if (n_states == 2).all():
                parts = [TableFactors(np.arange(n_features)[:, None], np.zeros(2, dtype))]
                if n_features > 1:
                    parts.append(TableFactors(pairs, np.zeros(4, dtype)))
                return FactorGraphEnergy(parts)
            factors = [*np.arange(n_features)[:, None], *pairs]
        try:
            scopes = [np.asarray(scope) for scope in factors]
            if (n_states == 2).all():
                tables = [np.zeros(2**scope.size, dtype) for scope in scopes]
                return FactorGraphEnergy.from_tables(scopes, tables, n_variables=n_features)
            tables = [np.zeros(tuple(n_states[scope]), dtype) for scope in scopes]
            return FactorGraphEnergy.from_tables(scopes, tables, n_states=n_states)
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(
                "factors must be 'pairwise', a FactorGraphEnergy, or a list of scopes of 1 to 6 "
                f"of the {n_features} columns: {error}"
            ) from error

    def _n_states(self, n_features):
        """Return the number of states (n_features,) of each column."""
        if self.categories_ is None:
            return np.full(n_features, 2)
        return np.array([len(values) for values in self.categories_])

    def _shape_of(self, name, value):
        """Return the scopes of the factors, or the categories of the columns."""
        if name == "categories":
            return value
        graph = self._base_energy(value, self.n_features_in_, np.float64).graph
        return tuple(tuple(scope.tolist()) for scope in graph.lists())

    def _initial_model(self, rows: Rows) -> TableModel:
        visible, weight = rows.visible, rows.weight
        base = self._base_energy(self.factors, visible.shape[1], visible.dtype)
        if isinstance(self.factors, str):
            flat = base.log_potentials.copy()
            if self.categories_ is None:
                flat[1 : 2 * visible.shape[1] : 2] = start_log_odds(visible, weight)
            else:
                for group in base.tables:
                    k = np.arange(group.shape[0])
                    for v, first in zip(group.variables[:, 0], group.entries, strict=True):
                        if len(group.shape) == 1:
                            flat[first + k] = start_log_shares(visible[:, v], weight, len(k))
            base = base.with_log_potentials(flat)
        _check_possible(base, visible, weight)
        return TableModel.from_energy(base)

    def _parameter_attributes(self, model):
        return {"log_potentials_": model.energy(None).log_potentials}


def start_log_shares(codes, weight, n_states):
    """Return the log-shares (K,) of the K states of a column, shifted such that their mean is 0.

    The share of a state is the share of rows with this state. Half a row is added for each state,
    so that the logarithms are finite. `codes` (N,) holds the state of the column in each row, or
    NaN.
    """
    seen = ~np.isnan(codes)
    count = np.bincount(codes[seen].astype(np.int64), weight[seen], n_states) + 0.5
    return np.log(count) - np.log(count).mean()


def _check_possible(energy, visible, weight):
    """Raise a ValueError if the model gives a row without missing values the weight 0.

    Training could not raise this weight, because it does not change fields and log-potentials of
    -inf. `visible` (N, V) holds the N rows of V columns.
    """
    rows = np.flatnonzero((weight > 0) & ~np.isnan(visible).any(axis=1))
    score = energy.rows(np.zeros(len(rows), int)).score(visible[rows])
    impossible = rows[score == -np.inf]
    if len(impossible):
        raise ValueError(
            f"factors give {len(impossible)} rows of X a weight of zero, and training cannot raise "
            f"a weight of zero; one of these rows is {visible[impossible[0]].astype(int).tolist()}"
        )
