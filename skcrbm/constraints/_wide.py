"""Predictions under rules that overlap too much for elimination, by search and weighted draws."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array
from scipy.special import log_expit, logsumexp

from skcrbm.constraints._conditions import Conditions
from skcrbm.constraints._distributions import impossible_row, only_known, padded, weights_of
from skcrbm.utils.warnings import warn_user

# The probabilities of a row are estimated from N_WEIGHTED weighted draws. If a user asks for n
# samples of a row, they are chosen among at least _CHOICES * n weighted draws.
N_WEIGHTED, _CHOICES = 2000, 4
# Number of nodes of the search tree of an integer program. A limit on nodes, in contrast to a limit
# on time, gives the same answers on all machines.
_NODES = 2000
_INFEASIBLE = 2  # status of `scipy.optimize.milp`
# If the sum of the weights of the draws of a row is below the first number, an error is raised, and
# below the second number, a warning is given. Weights are at most 1, so the relative variance of
# their mean is at most 1 / (sum of weights): a sum of 20 bounds the relative error of probabilities
# by some 22 %.
_REFUSED, _DOUBTFUL = 1.0, 20.0
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


class WeightedDraws:
    """Draws of labels from the top of an acyclic graph to its bottom, with weights of at most 1.

    The target is the function ``exp(labels @ log_odds)`` of the label vectors that satisfy all
    conditions. Labels are drawn in the order of the graph: if all parents of a label are 1, the
    label is drawn from P(label | first parent is 1), else it is 0. If the first parent is 1 but
    another parent is 0, the label is 0 without a draw, but the target has the factor P(label is 0 |
    first parent is 1). The product of these factors is the weight of a draw. The weight is 0 for
    draws that violate further conditions. The mean weight is an unbiased estimate of the sum of the
    target, up to a constant factor.
    """

    def __init__(self, conditions: Conditions):
        self.conditions = conditions
        self.parents: list[list[int]] = [[] for _ in range(conditions.n_labels)]
        for parent, child in sorted(set(conditions.edges)):
            self.parents[child].append(parent)
        graph = dict(enumerate(self.parents))
        try:
            self.order = list(TopologicalSorter(graph).static_order())
        except CycleError:
            raise ValueError(
                "rules: implications form a cycle, and the rules overlap too much for exact answers"
            ) from None

    def given(self, log_odds):
        """Return the log-probabilities that labels are 1, and that labels are 0, if parents are 1.

        Both arrays and `log_odds` are (n, L), for n rows and L labels.
        """
        first = self.conditions.parent
        field = log_odds.copy()
        on, off = np.empty_like(field), np.empty_like(field)
        for label in self.order[::-1]:
            on[:, label], off[:, label] = log_expit(field[:, label]), log_expit(-field[:, label])
            if first[label] >= 0:
                field[:, first[label]] -= off[:, label]
        return on, off

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

    def draw(self, log_on, log_off, held, uniform):
        """Return S draws (S, L) of the labels of a row, their log-weights (S,), and a constant.

        The constant is the logarithm of a factor that all weights have in common.

        `uniform` (L, S) holds uniform random numbers, and `held` (L,) is the result of `forced`.
        """
        first, chance = self.conditions.parent, np.exp(log_on)
        drawn = np.empty(uniform.shape, bool)
        log_weight, constant = np.zeros(uniform.shape[1]), 0.0
        for label in self.order:
            parents = self.parents[label]
            if held[label] == 1:
                drawn[label] = True
                constant += log_on[label]
                continue
            open_ = np.full(uniform.shape[1], held[label] != 0)
            for parent in parents:
                open_ &= drawn[parent]
            np.less(uniform[label], chance[label], out=drawn[label])
            drawn[label] &= open_
            always = first[label] < 0 or held[first[label]] == 1  # the first parent is on
            if held[label] == 0 and always:
                constant += log_off[label]
            elif parents and (held[label] == 0 or len(parents) > 1):
                log_weight += np.where(drawn[first[label]] & ~open_, log_off[label], 0.0)
        if self.conditions.counts or self.conditions.tables:
            log_weight[~self.conditions.satisfied(drawn.T)] = -np.inf
        return drawn.T, log_weight, constant

    def root_terms(self, log_off):
        """Return the log-probability (n,) that all labels without a parent are 0.

        The logarithm of the probability of a label vector, before further conditions, is the
        logarithm of the target plus this number.
        """
        return log_off[:, self.conditions.parent < 0].sum(axis=1)


class Wide:
    """Distribution of a block of rows under rules that overlap too much for elimination.

    The best vectors come from integer programs, with a bound. Probabilities and draws come from
    weighted draws, with the same random numbers for all rows, and are estimates.
    """

    def __init__(self, rows, wide: WideRules, log_odds, known):
        self.rows, self.wide, self.log_odds, self.known = rows, wide, log_odds, known

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
        return Wide(self.rows, self.wide, weights, self.known).best()

    def marginals(self):
        found = []
        for drawn, log_weight, _ in self._draws(_SEED):
            weight = np.exp(log_weight - log_weight.max())
            found.append(weight @ drawn / weight.sum())
        proba = np.stack(found)
        if self.wide.conditions.counts or self.wide.conditions.tables:
            return proba
        # In a hierarchy each label can be 1, so no probability is 0, even if a label is 0 in all
        # draws. Clipped probabilities still agree with the hierarchy.
        least = 0.5 / N_WEIGHTED
        return np.clip(proba, least, 1 - least)

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

        The same random numbers are used for all rows. The draws are chosen among weighted draws
        with probabilities proportional to the weights, so a vector may occur several times.
        """
        seed = rng.randint(np.iinfo(np.int32).max)
        result = []
        for drawn, log_weight, _ in self._draws(seed, _CHOICES * n_samples):
            weight = np.exp(log_weight - log_weight.max()).cumsum()
            own = np.random.RandomState(seed + 1)
            u = (own.permutation(n_samples) + own.random_sample()) / n_samples * weight[-1]
            chosen = np.minimum(np.searchsorted(weight, u, side="right"), len(weight) - 1)
            result.append(drawn[chosen].astype(np.int8))
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

        The sum runs over the label vectors that satisfy the rules; its estimate is unbiased.
        """
        _, log_off = self.wide.draws.given(self.log_odds)
        log_mean = [
            logsumexp(log_weight) - np.log(len(log_weight)) + constant
            for _, log_weight, constant in self._draws(_SEED)
        ]
        return np.array(log_mean) - self.wide.draws.root_terms(log_off)

    def _draws(self, seed, n_draws=N_WEIGHTED):
        """Yield the draws of each row, their log-weights, and the log of their common factor."""
        sampler = self.wide.draws
        n_draws = max(n_draws, N_WEIGHTED)
        log_on, log_off = sampler.given(self.log_odds)
        free = np.full(self.log_odds.shape[1], np.nan)
        uniform = np.random.RandomState(seed).random_sample((len(free), n_draws))
        for i, (on, off) in enumerate(zip(log_on, log_off)):
            held = free if self.known is None else sampler.forced(self.known[i])
            if self.known is not None and (held != self.known[i])[~np.isnan(self.known[i])].any():
                raise impossible_row(self.rows, i)
            drawn, log_weight, constant = sampler.draw(on, off, held, uniform)
            total = np.exp(log_weight).sum()
            row = self.rows.start + i
            if total < _REFUSED:
                self._best(i, self.log_odds[i])  # raises an error if no vector is possible
                raise ValueError(
                    f"rules overlap too much for exact answers, and hardly any of {n_draws} draws "
                    f'satisfies them in row {row}. Use decode="map", which searches for the best '
                    "vector, or leave out rules"
                )
            if total < _DOUBTFUL:
                warn_user(
                    f"probabilities and samples of row {row} under the rules are inaccurate: the "
                    f"{n_draws} weighted draws count as {total:.1f} draws"
                )
            yield drawn, log_weight, constant


class WideRules(NamedTuple):
    """Rules that overlap too much for elimination, as an integer program and as a sampler."""

    conditions: Conditions
    program: IntegerProgram
    draws: WeightedDraws


def wide_rules(conditions: Conditions) -> WideRules:
    """Return the conditions in the forms that `Wide` needs."""
    return WideRules(conditions, IntegerProgram(conditions), WeightedDraws(conditions))
