"""Predictions under rules that overlap too much for elimination, by search and by draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array
from scipy.special import logsumexp

from skcrbm.constraints._conditions import Conditions
from skcrbm.constraints._distributions import (
    factor_graph,
    impossible_row,
    only_known,
    padded,
    weights_of,
)
from skcrbm.constraints._marginals import EdgeFields, ordered_probabilities
from skcrbm.inference.ordered_labels import OrderedLabels
from skcrbm.inference.running import run_inference
from skcrbm.utils.warnings import warn_user

# Number of columns of a table of draws. If a user asks for n samples of a row, the table has at
# least _CHOICES * n columns.
N_DRAWS, _CHOICES = 2000, 4
# Number of sweeps of random permutations over the labels of a table.
_SWEEPS = 10
# Number of nodes of the search tree of an integer program. A limit on nodes, in contrast to a limit
# on time, gives the same answers on all machines.
_NODES = 2000
_INFEASIBLE = 2  # status of `scipy.optimize.milp`
# If fewer draws satisfy the rules, the user is warned: 20 draws give an error of some 22 %.
_DOUBTFUL = 20
# Seed of the draws for probabilities.
_SEED = 0


class Certified(NamedTuple):
    """The best label vector that was found, and an upper bound of the score of all vectors."""

    labels: np.ndarray  # (L,) of 0 and 1
    score: float  # sum of the weights of the labels
    bound: float


class IntegerProgram:
    """The conditions as linear constraints of an integer program.

    The variables are the labels, and for some tables a variable for each allowed combination.
    """

    def __init__(self, conditions: Conditions):
        self.n_labels = self.n_variables = conditions.n_labels
        self.rows: list[tuple] = []  # (variables, coefficients, low, high)
        for parent, child in set(conditions.edges):
            self._add([child, parent], [1, -1], -np.inf, 0)
        for count in conditions.counts:
            sign = 2 * count.values - 1
            n_off = (1 - count.values).sum()  # literals that are true if a label is off
            self._add(count.labels, sign, count.low - n_off, count.high - n_off)
        for scope, allowed in conditions.tables:
            self._add_table(scope, allowed)

    def _add(self, variables, coefficients, low, high):
        self.rows.append((np.array(variables), np.array(coefficients, float), low, high))

    def _add_table(self, scope, allowed):
        """Add the condition of a table, by constraints or by additional variables.

        There is a constraint for each forbidden combination, or a variable for each allowed
        combination, whichever are fewer.
        """
        forbidden = np.argwhere(~allowed)
        if len(forbidden) <= allowed.sum():
            for values in forbidden:
                self.exclude(scope, values)
            return
        states = np.argwhere(allowed)
        chosen = self.n_variables + np.arange(len(states))
        self.n_variables += len(states)
        self._add(chosen, np.ones(len(states)), 1, 1)
        for label, values in zip(scope, states.T):
            self._add([label, *chosen], [-1, *values], 0, 0)

    def exclude(self, labels, values):
        """Require that at least one of the labels differs from its value in `values`."""
        values = np.asarray(values)
        self._add(labels, 1 - 2 * values, 1 - values.sum(), np.inf)

    def best(self, weights, known=None) -> Certified | None:
        """Return the allowed label vector with the largest sum of the weights of its labels.

        The result is None if no label vector is allowed. `weights` (L,) has an entry for each
        label.

        `known` (L,) holds known labels, and NaN for the other labels.
        """
        objective = np.zeros(self.n_variables)
        objective[: self.n_labels] = -weights
        low, high = np.zeros(self.n_variables), np.ones(self.n_variables)
        if known is not None:
            held = np.flatnonzero(~np.isnan(known))
            low[held] = high[held] = known[held]
        found = milp(
            objective,
            integrality=np.ones(self.n_variables),
            bounds=Bounds(low, high),
            constraints=self._constraints(),
            options={"node_limit": _NODES, "mip_rel_gap": 0.0},
        )
        if found.status == _INFEASIBLE:
            return None
        if found.x is None:
            raise ValueError(
                f"rules: a search of {_NODES} nodes found no label vector that satisfies them. "
                "Leave out rules that share many labels with other rules"
            )
        labels = np.round(found.x[: self.n_labels]).astype(np.int64)
        score = float(labels @ weights)
        return Certified(labels, score, max(score, -float(found.mip_dual_bound)))

    def _constraints(self):
        if not self.rows:
            return ()
        variables, coefficients, low, high = zip(*self.rows)
        index = np.repeat(np.arange(len(variables)), [len(v) for v in variables])
        # SciPy 1.11 solves programs with 32-bit indices only.
        places = index.astype(np.int32), np.concatenate(variables).astype(np.int32)
        entries = np.concatenate(coefficients), places
        matrix = coo_array(entries, (len(variables), self.n_variables)).tocsr()
        return LinearConstraint(matrix, low, high)


class LabelTables:
    """Draws of labels under implications, with given marginals.

    A table has a row for each label and a column for each draw. All tables are equally probable
    whose columns satisfy the implications, and whose rows have the sums that the marginals
    determine. The more columns a table has, the closer is their distribution to the distribution
    with these marginals that has the largest entropy.
    """

    def __init__(self, conditions: Conditions):
        parents, children = conditions.edge_arrays()
        self.parents: list[list[int]] = [[] for _ in range(conditions.n_labels)]
        for parent, child in zip(parents.tolist(), children.tolist()):
            self.parents[child].append(parent)
        order = conditions.parents_first()
        if order is None:
            raise ValueError(
                "rules: implications form a cycle, and the rules overlap too much for exact answers"
            )
        self.order = order.tolist()
        self._labels = OrderedLabels(self.order, parents, children)

    def forced(self, known):
        """Return the `known` labels (L,) of a row, extended by labels that follow from the edges.

        All ancestors of a label that is 1 are 1, and all descendants of a label that is 0 are 0.
        """
        held = known.copy()
        for label in self.order[::-1]:
            if held[label] == 1:
                held[self.parents[label]] = 1
        for label in self.order:
            if any(held[parent] == 0 for parent in self.parents[label]):
                held[label] = 0
        return held

    def draw(self, proba, n_draws, seed):
        """Return draws (n_draws, L) with the marginals (L,); equal seeds give equal numbers."""
        return self._labels.draw(proba, n_draws, _SWEEPS, seed)


class Wide:
    """Distribution of a block of rows under rules that overlap too much for elimination.

    The best vectors come from integer programs, with a bound. Without further conditions the
    marginals are `proba`; draws, and probabilities under further conditions, are estimates from
    `LabelTables`, with the same random numbers for all rows. Log-probabilities are
    lower bounds under implications, and estimates under further conditions.

    Parameters
    ----------
    rows : slice
        Place of the block among all rows.
    wide : WideRules
    fields : EdgeFields
    proba : ndarray (n, L)
        Marginals under the implications, from `ordered_probabilities`.
    known : ndarray (n, L) or None
        Known labels, and NaN for the other labels.
    is_given : bool
        True if `proba` are probabilities given the known labels.
    """

    def __init__(self, rows, wide: WideRules, fields: EdgeFields, proba, known, is_given):
        self.rows, self.wide, self.fields, self.known = rows, wide, fields, known
        self.proba = proba if known is None else self._given(proba, is_given)
        self.log_odds = fields(self.proba)

    def _given(self, proba, is_given):
        """Return the marginals given the known labels, by tree-reweighted messages if necessary."""
        held = np.stack([self.wide.tables.forced(row) for row in self.known])
        clash = ((held != self.known) & ~np.isnan(self.known)).any(axis=1)
        if clash.any():
            raise impossible_row(self.rows, int(np.flatnonzero(clash)[0]))
        if not is_given:
            energy = factor_graph(self.wide.conditions.edges_only(), self.fields(proba))
            answer = run_inference(energy, "tree_reweighted", returns="marginals", clamp=held)
            proba = answer.marginals.astype(np.float64)
        proba = np.where(np.isnan(held), proba, held)
        return ordered_probabilities(proba, self.wide.conditions)

    def certified(self):
        """Return the best label vectors (n, L) of n rows, their scores (n,) and bounds (n,).

        The score of a vector is the sum of the log-odds of its labels that are 1. The bounds are
        upper bounds of the scores of all vectors of a row.
        """
        found = [self._best(i, self.log_odds[i]) for i in range(len(self.log_odds))]
        labels, score, bound = zip(*found)
        return np.stack(labels), np.array(score), np.array(bound)

    def best(self):
        return self.certified()[0]

    def heaviest(self, weights):
        return np.stack([self._best(i, w).labels for i, w in enumerate(weights)])

    def marginals(self):
        if self.wide.conditions.only_edges:
            return self.proba
        return np.stack([drawn.mean(axis=0) for drawn, _ in self._draws(_SEED)])

    def top(self, k):
        log_z = self._log_z()
        labels, scores = [], []
        for i, weights in enumerate(self.log_odds):
            program = IntegerProgram(self.wide.conditions)
            known = None if self.known is None else self.known[i]
            found = []
            while len(found) < k:
                best = program.best(weights, known)
                if best is None:
                    break
                found.append(best)
                program.exclude(np.arange(len(weights)), best.labels)
            if not found:
                raise impossible_row(self.rows, i)
            # The vectors can be out of order, because a search that stops at its limit of nodes may
            # miss the best vector, and the next search may find it.
            found.sort(key=lambda best: -best.score)
            part = np.stack([best.labels for best in found])[None]
            part_scores = np.array([[best.score for best in found]])
            # The sum over the listed vectors is a lower bound of the sum over all vectors, and
            # equals it if the list is complete.
            listed = logsumexp(part_scores)
            total = listed if len(found) < k else max(log_z[i], listed)
            part, part_scores = padded(part, part_scores - total, k)
            labels.append(part)
            scores.append(part_scores)
        return np.concatenate(labels), np.concatenate(scores)

    def draw(self, n_samples, rng, alike=False):
        """Return `n_samples` draws of the labels of each of n rows, as an array (n, n_samples, L).

        The same random numbers are used for all rows. The draws are chosen from a table of more
        draws. A vector may occur several times if few draws satisfy further conditions.
        """
        seed = rng.randint(np.iinfo(np.int32).max)
        result = []
        for drawn, _ in self._draws(seed, _CHOICES * n_samples):
            own = np.random.RandomState(seed + 1)
            place = (own.permutation(n_samples) + own.random_sample()) / n_samples * len(drawn)
            result.append(drawn[place.astype(np.int64)].astype(np.int8))
        return np.stack(result)

    def log_proba(self, labels):
        return self._log_p((labels * self.log_odds).sum(axis=1)[:, None])[:, 0]

    def log_proba_of_draws(self, drawn):
        return self._log_p(weights_of(drawn, self.log_odds))

    def log_proba_of_sets(self, label_sets):
        return only_known(self._log_p(self.log_odds @ label_sets.T), label_sets, self.known)

    def _log_p(self, log_weight):
        """Return the log-probabilities (n, m) of m label vectors in each of n rows.

        `log_weight` (n, m) holds the sums of the log-odds of the labels that are 1. The results are
        cut off at 0, because the estimated sum over all vectors may be too small.
        """
        return np.minimum(log_weight - self._log_z()[:, None], 0.0)

    def _best(self, i, weights):
        found = self.wide.program.best(weights, None if self.known is None else self.known[i])
        if found is None:
            raise impossible_row(self.rows, i)
        return found

    def _log_z(self):
        """Return estimates of log(sum of exp(labels @ log_odds)) for each of n rows, (n,).

        The sum runs over the label vectors that satisfy the rules.
        """
        log_z = self.fields.log_z(self.proba)
        if self.wide.conditions.only_edges:
            return log_z
        return log_z + np.log([share for _, share in self._draws(_SEED)])

    def _draws(self, seed, n_draws=N_DRAWS):
        """Yield the draws (m, L) of each row that satisfy all conditions, and their share."""
        n_draws = max(n_draws, N_DRAWS)
        for i, proba in enumerate(self.proba):
            drawn = self.wide.tables.draw(proba, n_draws, seed)
            good = self.wide.conditions.satisfied(drawn)
            n_good, row = int(good.sum()), self.rows.start + i
            if n_good == 0:
                self._best(i, self.log_odds[i])  # raises an error if no vector is possible
                raise ValueError(
                    f"rules overlap too much for exact answers, and none of {n_draws} draws "
                    f'satisfies them in row {row}. Use decode="map", which searches for the best '
                    "vector, or leave out rules"
                )
            if n_good < _DOUBTFUL:
                warn_user(
                    f"probabilities and samples of row {row} under the rules are inaccurate: only "
                    f"{n_good} of {n_draws} draws satisfy all rules"
                )
            yield drawn[good], n_good / n_draws


class WideRules(NamedTuple):
    """Rules that overlap too much for elimination, in the forms that `Wide` needs."""

    conditions: Conditions
    program: IntegerProgram
    tables: LabelTables


def wide_rules(conditions: Conditions) -> WideRules:
    """Return the conditions in the forms that `Wide` needs."""
    return WideRules(conditions, IntegerProgram(conditions), LabelTables(conditions))
