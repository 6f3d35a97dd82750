"""Three classes, with the same methods, for the label distribution of some rows under rules."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from skcrbm.constraints._conditions import Conditions
from skcrbm.constraints._counted_trees import CountedTrees, counted_trees
from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.inference import sample
from skcrbm.inference.base import ContradictionError
from skcrbm.inference.exact.counted_trees import CountedTreeModels
from skcrbm.inference.exact.elimination import k_best_of_models
from skcrbm.inference.running import run_inference
from skcrbm.utils.parallel import row_chunks


class Listed:
    """Label distribution of a block of rows, as a list of the allowed vectors and probabilities."""

    def __init__(self, rows, log_p, vectors, known):
        self.rows, self.vectors = rows, vectors
        if known is not None:
            agrees = (np.isnan(known[:, None]) | (known[:, None] == vectors)).all(axis=2)
            if not agrees.any(axis=1).all():
                raise impossible_row(rows, int(np.flatnonzero(~agrees.any(axis=1))[0]))
            log_p = np.where(agrees, log_p, -np.inf)
        lost = np.flatnonzero(~(log_p > -np.inf).any(axis=1))
        if len(lost):
            raise ValueError(
                f"row {rows.start + lost[0]}: the classifier gives probability 0 to all label "
                "vectors that satisfy the rules"
            )
        self.log_p = log_p - logsumexp(log_p, axis=1, keepdims=True)

    def best(self):
        return self.vectors[self.log_p.argmax(axis=1)].astype(np.int64)

    def heaviest(self, weights):
        """Return, for each of n rows, the possible vector with the largest sum of label weights.

        `weights` (n, L) holds the weight of each label; the result is a 0/1 array (n, L).
        """
        total = np.where(self.log_p > -np.inf, weights @ self.vectors.T, -np.inf)
        return self.vectors[total.argmax(axis=1)].astype(np.int64)

    def marginals(self):
        return np.exp(self.log_p) @ self.vectors

    def top(self, k):
        order = np.argsort(-self.log_p, axis=1, kind="stable")[:, :k]
        log_p = np.take_along_axis(self.log_p, order, axis=1)
        labels = np.where((log_p > -np.inf)[:, :, None], self.vectors[order], -1)
        return padded(labels, log_p, k)

    def draw(self, n_samples, rng, alike=False):
        """Draw `n_samples` vectors of L labels for each of n rows, (n, n_samples, L).

        If `alike` is True, the same random numbers are used for all rows.
        """
        cumulative = np.exp(self.log_p).cumsum(axis=1)
        u = rng.random_sample((1 if alike else len(cumulative), n_samples)) * cumulative[:, -1:]
        index = np.stack([np.searchsorted(c, v, side="right") for c, v in zip(cumulative, u)])
        return self.vectors[np.minimum(index, len(self.vectors) - 1)]

    def log_weight(self, labels):
        return self.log_proba(labels)

    def log_proba(self, labels):
        same = (labels[:, None] == self.vectors).all(axis=2)
        found = np.where(same, self.log_p, -np.inf)
        return found.max(axis=1, initial=-np.inf)

    def log_proba_of_draws(self, drawn):
        bits = 1 << np.arange(self.vectors.shape[1])
        place = np.zeros(2 ** len(bits), np.int64)
        place[self.vectors @ bits] = np.arange(len(self.vectors))
        return np.take_along_axis(self.log_p, place[drawn @ bits], axis=1)

    def log_proba_of_sets(self, label_sets):
        bits = 1 << np.arange(self.vectors.shape[1])
        found = np.full((len(self.log_p), 2 ** len(bits)), -np.inf)
        found[:, self.vectors @ bits] = self.log_p
        return found[:, label_sets @ bits]


class Eliminated:
    """Distribution of a block of rows as a factor graph, for exact variable elimination."""

    def __init__(self, rows, conditions, log_odds, known):
        self.rows, self.log_odds, self.known = rows, log_odds, known
        self.conditions = conditions
        self.energy = energy = factor_graph(conditions, log_odds)
        self.n_labels = log_odds.shape[1]
        self.clamp = None
        if known is not None:
            free = np.full((len(known), energy.n_variables - self.n_labels), np.nan)
            self.clamp = np.hstack([known, free])

    def _ask(self, returns):
        try:
            return run_inference(self.energy, "exact", returns=returns, clamp=self.clamp)
        except ContradictionError as error:
            raise impossible_row(self.rows, error.model) from None

    def best(self):
        found = self._ask("map").assignment
        return found[:, : self.n_labels].astype(np.int64)

    def heaviest(self, weights):
        return Eliminated(self.rows, self.conditions, weights, self.known).best()

    def marginals(self):
        return self.sums()[1]

    def sums(self):
        """Return log Z (n,) and the marginals (n, L)."""
        answer = self._ask(["log_partition", "marginals"])
        found = answer.marginals
        found = found[..., 1] if found.ndim == 3 else found
        return answer.log_partition, found[:, : self.n_labels].astype(np.float64)

    def top(self, k):
        log_z = self._ask("log_partition").log_partition
        energy = self.energy if self.clamp is None else self.energy.condition(self.clamp)
        states, scores = k_best_of_models(energy, k)
        found = (scores > -np.inf)[:, :, None]
        labels = np.where(found, states[:, :, : self.n_labels], -1)
        return padded(labels, scores - log_z[:, None], k)

    def draw(self, n_samples, rng, alike=False):
        """Draw `n_samples` vectors of L labels for each of n rows, (n, n_samples, L).

        If `alike` is True, the same random numbers are used for all rows.
        """
        options = {"n_samples": n_samples, "random_state": rng.randint(np.iinfo(np.int32).max)}
        n = self.energy.n_models
        drawn = []
        # In a call with several rows, the sampler would use different random numbers for each row.
        # So if `alike` is True, call it for each row separately, with equal seeds.
        for rows in row_chunks(n, 1 if alike else n):
            clamp = None if self.clamp is None else self.clamp[rows]
            try:
                drawn.append(sample(self.energy.rows(rows), "exact", clamp=clamp, **options))
            except ContradictionError as error:
                raise impossible_row(self.rows, rows.start + error.model) from None
        return np.concatenate(drawn)[:, :, : self.n_labels].astype(np.int8)

    def log_weight(self, labels):
        return (labels * self.log_odds).sum(axis=1)

    def log_proba(self, labels):
        return self.log_weight(labels) - self._ask("log_partition").log_partition

    def log_proba_of_draws(self, drawn):
        return weights_of(drawn, self.log_odds) - self._ask("log_partition").log_partition[:, None]

    def log_proba_of_sets(self, label_sets):
        log_z = self._ask("log_partition").log_partition
        return only_known(self.log_odds @ label_sets.T - log_z[:, None], label_sets, self.known)


class Counted:
    """Distribution of a block of rows under trees of labels with counts, by dynamic programming."""

    def __init__(self, rows, trees: CountedTrees, log_odds, known):
        self.rows, self.trees, self.log_odds, self.known = rows, trees, log_odds, known
        held = None if known is None else known[:, trees.order]
        self.models = CountedTreeModels(trees.walks, log_odds[:, trees.order], held)

    def _log_z(self):
        return self._require_possible(self.models.sums(False)[0])

    def _by_label(self, values):
        """Reorder values (..., L) from the order of the positions to the order of the labels."""
        found = np.empty_like(values)
        found[..., self.trees.order] = values
        return found

    def _require_possible(self, log_z):
        """Return `log_z`, or raise an error if the rules exclude all label vectors of some row."""
        impossible = np.flatnonzero(log_z == -np.inf)
        if len(impossible):
            raise impossible_row(self.rows, int(impossible[0]))
        return log_z

    def possible(self):
        """Return True (n,) for the rows whose known labels do not contradict the conditions."""
        return self.models.sums(False)[0] > -np.inf

    def best(self):
        return self.top(1, normalised=False)[0][:, 0]

    def heaviest(self, weights):
        return Counted(self.rows, self.trees, weights, self.known).best()

    def marginals(self):
        return self.sums()[1]

    def sums(self):
        """Return log Z (n,) and the marginals (n, L)."""
        log_z, proba = self.models.sums(True)
        return self._require_possible(log_z), self._by_label(proba)

    def top(self, k, normalised=True):
        labels, scores = self.models.best(k)
        self._require_possible(scores[:, 0])
        log_z = self._log_z()[:, None] if normalised else 0.0
        return self._by_label(labels), scores - log_z

    def draw(self, n_samples, rng, alike=False):
        """Draw `n_samples` vectors of L labels for each of n rows, (n, n_samples, L).

        If `alike` is True, the same random numbers are used for all rows.
        """
        log_z, drawn = self.models.draw(n_samples, rng, alike)
        self._require_possible(log_z)
        return self._by_label(drawn)

    def log_weight(self, labels):
        return (labels * self.log_odds).sum(axis=1)

    def log_proba(self, labels):
        return self.log_weight(labels) - self._log_z()

    def log_proba_of_draws(self, drawn):
        return weights_of(drawn, self.log_odds) - self._log_z()[:, None]

    def log_proba_of_sets(self, label_sets):
        log_p = self.log_odds @ label_sets.T - self._log_z()[:, None]
        return only_known(log_p, label_sets, self.known)


def factor_graph(conditions: Conditions, log_odds, forbidden: float = -np.inf):
    """Return the factor graph of the conditions, with the log-odds (n, L) of the labels.

    `forbidden` is the log-potential of combinations that violate a condition.
    """
    n_states, tables = conditions.factor_tables(forbidden)
    by_shape: dict[tuple, list] = {}
    for scope, table in tables:
        by_shape.setdefault(table.shape, []).append((scope, table))
    factors = [
        TableFactors([scope for scope, _ in group], np.stack([table for _, table in group]))
        for group in by_shape.values()
    ]
    if (n_states == 2).all():
        factors = [
            TableFactors(f.variables, f.log_potentials.reshape(len(f.variables), -1))
            for f in factors
        ]
        counters = np.zeros((len(log_odds), len(n_states) - log_odds.shape[1]))
        return FactorGraphEnergy(factors, np.hstack([log_odds, counters]))
    field = np.zeros((len(log_odds), len(n_states), int(n_states.max())))
    field[:, : log_odds.shape[1], 1] = log_odds
    return FactorGraphEnergy(factors, field, n_states=n_states)


def is_possible(conditions: Conditions) -> bool:
    """Return True if some label vector satisfies the conditions.

    A ValueError is raised if the conditions overlap too much for elimination.
    """
    trees = counted_trees(conditions)
    log_odds = np.zeros((1, conditions.n_labels))
    try:
        if trees is not None:
            Counted(slice(0, 1), trees, log_odds, None).best()
        else:
            run_inference(factor_graph(conditions, log_odds), "exact", returns="log_partition")
    except (ContradictionError, Impossible):
        return False
    return True


def weights_of(drawn, log_odds):
    """Return, for each draw, the sum of the log-odds of the labels that are 1.

    `drawn` is (n, n_samples, L), `log_odds` (n, L) and the result (n, n_samples).
    """
    return (drawn.astype(np.float64) @ log_odds[:, :, None])[:, :, 0]


def only_known(log_p, label_sets, known):
    """Return `log_p` with -inf for label vectors that differ from the known labels of a row.

    `log_p` (n, M) holds log-probabilities of the M rows of `label_sets` (M, L) in each of n rows;
    `known` (n, L) is NaN for unknown labels.
    """
    if known is None:
        return log_p
    agrees = ((known == 1) @ (1 - label_sets.T) + (known == 0) @ label_sets.T) == 0
    return np.where(agrees, log_p, -np.inf)


def padded(labels, log_p, k):
    """Lengthen lists of m label vectors to k entries, with labels -1 and log-probabilities -inf.

    `labels` is (n, m, L) and `log_p` (n, m), for n rows and L labels.
    """
    missing = k - log_p.shape[1]
    labels = np.pad(labels.astype(np.int64), ((0, 0), (0, missing), (0, 0)), constant_values=-1)
    return labels, np.pad(log_p, ((0, 0), (0, missing)), constant_values=-np.inf)


class Impossible(ValueError):
    """The known labels of a row contradict the rules."""


def impossible_row(rows, index):
    """Return an error about known labels that contradict the rules, in row `index` of a block."""
    return Impossible(f"y_known contradicts the rules in row {rows.start + index}")
