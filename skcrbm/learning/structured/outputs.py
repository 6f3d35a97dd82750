"""Train pairwise models of several outputs per row: parameters, batches of rows, objectives.

The outputs y_1, ..., y_L of a row x have the log-weight

``sum_a (coef x + intercept)[y_a] + sum_(a, b) pairs_ab[y_a, y_b]``

for the edges (a, b) of an `OutputGraph`. The tables of pairs do not depend on x, so that all rows
share them, and inference can run for many rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import xlogy

from skcrbm.energies.output_graph import OutputGraph
from skcrbm.inference import InferenceMethod
from skcrbm.inference.running import run_inference
from skcrbm.learning.lbfgs import column_moments, descend
from skcrbm.learning.penalties import L2
from skcrbm.learning.penalty_path import geometric_penalties, penalty_at, penalty_path
from skcrbm.learning.structured.objective import LogWeightObjective, Residuals
from skcrbm.learning.structured.rows import StoredBatch
from skcrbm.targets.codes import MISSING
from skcrbm.utils.limits import ESTIMATOR_TOL, MIN_SEARCH_ROWS
from skcrbm.utils.parallel import linear_fields, row_chunks

# Largest number of log-weights in a part of a batch (4 MB). A batch with more log-weights is split
# into parts.
_PART_ENTRIES = 2**19
# Number added to the variance of each class, so that it is not 0 if the class occurs in all rows or
# in no row.
_LEAST = 1e-3
# Factor of the weak L2 penalty on intercepts if the losses of all rows are added up.
_WEAK = 0.1


class OutputParams(NamedTuple):
    """Parameters of a model of outputs.

    A state is a class of an output, and there are C states in total (see `OutputGraph`). U states
    have parameters: all classes of an output with more than two classes, but only the second class
    of an output with two classes. The log-weight of a state without parameters is 0.
    """

    coef: Any  # (U, D) coefficients of the inputs
    intercept: Any  # (U,) intercepts
    pairs: Any  # (P,) log-weights of the entries of all tables


@dataclass(frozen=True, eq=False)
class OutputBatch(StoredBatch):
    """Batch of N rows."""

    X: Any  # (N, D) ndarray or CSR matrix of float64
    codes: np.ndarray  # (N, L) class of each output, or `MISSING`
    weight: np.ndarray  # (N,) weights of the rows
    origin: np.ndarray | None = None  # (N,) number of the row of each copy; None without copies
    _cache: dict = field(default_factory=dict, init=False, repr=False)

    def take(self, numbers: Any) -> OutputBatch:
        """Return a batch of the rows with the indices `numbers`."""
        origin = None if self.origin is None else self.origin[numbers]
        return OutputBatch(self.X[numbers], self.codes[numbers], self.weight[numbers], origin)

    def _groups(self, n_entries):
        """Return parts with a bounded number of log-weights, `n_entries` per row."""
        return row_chunks(len(self), max(1, _PART_ENTRIES // n_entries))

    @cached_property
    def complete(self) -> bool:
        """True if all outputs are observed."""
        return bool((self.codes != MISSING).all())

    @cached_property
    def evidence(self) -> np.ndarray:
        """The values (N, L) to clamp: the observed classes, and NaN for missing outputs."""
        return np.where(self.codes == MISSING, np.nan, self.codes)

    def one_hot(self, graph: OutputGraph) -> np.ndarray:
        """Return an array (N, C) with 1 for each observed class, and 0 for all other classes.

        It has a column for each class of each output. For a missing output all columns are 0.
        """
        key = "one_hot", graph.n_states
        if key not in self._cache:
            place = np.arange(graph.n_states) - graph.first[:-1][graph.output]
            self._cache[key] = (self.codes[:, graph.output] == place).astype(np.float64)
        return self._cache[key]


class OutputModel(NamedTuple):
    """Pairwise model of several outputs: its parameters and its graph."""

    params: OutputParams
    graph: OutputGraph

    @property
    def n_entries(self) -> int:
        """Number of log-weights per row."""
        return self.graph.n_states

    def scores(self, X: Any) -> np.ndarray:
        """Return the log-weights (N, C) of all classes of all outputs."""
        p = self.params
        return self.graph.scores(linear_fields(X, p.coef, p.intercept))

    def energy(self, X: Any) -> Any:
        """Return the distribution of the outputs of each row, as a batch of models."""
        return self.graph.energy(self.scores(X), self.params.pairs)

    def add_gradient(self, batch: OutputBatch, states, pairs, total: OutputParams) -> None:
        """Convert a gradient for log-weights to a gradient for parameters; add it to `total`.

        `states` (N, C) is the gradient for the log-weights of classes, and `pairs` (P,) for the
        entries of the tables.
        """
        own = states[:, self.graph.scored]
        total.coef[...] += (batch.X.T @ own).T if issparse(batch.X) else own.T @ batch.X
        total.intercept[...] += own.sum(axis=0)
        total.pairs[...] += pairs


class CentredOutputs:
    """Linear conversion from parameters to a vector that L-BFGS optimises in fewer iterations.

    As in `CenteredCoordinates`, columns of X and states are centred at their means, which changes
    the intercepts. Each entry of the vector is a parameter times the square root of the curvature
    of the loss. The curvature is estimated from the frequencies of the classes.
    """

    def __init__(self, model: OutputModel, batch: OutputBatch, penalty: L2):
        graph = model.graph
        weight = batch.weight / batch.weight.sum()
        self.x_mean, x_variance = column_moments(batch.X, weight)
        one_hot = batch.one_hot(graph)
        observed = weight @ (batch.codes != MISSING)
        seen = np.maximum(observed, np.finfo(float).tiny)[graph.output]
        share = weight @ one_hot / seen
        spread = share * (1.0 - share) + _LEAST
        own = spread[graph.scored]
        coef = own[:, None] * x_variance + penalty.factors.coef
        first, second = spread[graph.rows], spread[graph.columns]
        self.scales = OutputParams(
            np.sqrt(np.where(coef > 0, coef, 1.0)),
            np.sqrt(own),
            np.sqrt(first * second + penalty.factors.pairs),
        )
        entry = np.arange(graph.n_entries)
        shift = csr_matrix(
            (
                np.concatenate([share[graph.columns], share[graph.rows]]),
                (np.concatenate([graph.rows, graph.columns]), np.concatenate([entry, entry])),
            ),
            shape=(graph.n_states, graph.n_entries),
        )
        # Centring the indicators of the states at their means changes the intercepts by `shift` (U,
        # P) times the entries of the tables.
        two = graph.n_classes[graph.output[graph.scored]] == 2
        base = shift[np.maximum(graph.scored - 1, 0)].multiply(two[:, None])
        self.shift = csr_matrix(shift[graph.scored] - base)
        self.shapes = [p.shape for p in model.params]

    def vector(self, params: OutputParams) -> np.ndarray:
        """Convert parameters to a vector."""
        p = params
        intercept = p.intercept + p.coef @ self.x_mean + self.shift @ p.pairs
        parts = zip(p._replace(intercept=intercept), self.scales)
        return np.concatenate([(part * scale).ravel() for part, scale in parts])

    def params(self, vector: np.ndarray) -> OutputParams:
        """Convert a vector to parameters."""
        parts, first = [], 0
        for shape, scale in zip(self.shapes, self.scales):
            size = int(np.prod(shape))
            parts.append(vector[first : first + size].reshape(shape) / scale)
            first += size
        coef, intercept, pairs = parts
        return OutputParams(coef, intercept - coef @ self.x_mean - self.shift @ pairs, pairs)

    def gradient(self, gradient: OutputParams) -> np.ndarray:
        """Convert the gradient for the parameters to the gradient for the vector."""
        g = gradient
        centred = g._replace(
            coef=g.coef - np.outer(g.intercept, self.x_mean),
            pairs=g.pairs - self.shift.T @ g.intercept,
        )
        parts = zip(centred, self.scales)
        return np.concatenate([(part / scale).ravel() for part, scale in parts])


class _OutputObjective(LogWeightObjective):
    """Base class of the objectives that train an `OutputModel`."""

    share = 1e-5

    def __init__(self, n_jobs: int | None = None):
        super().__init__(OutputParams(True, True, True), n_jobs)

    def coordinates(self, model, batch, penalty):
        """Return the object that converts parameters to a vector for L-BFGS, and back."""
        return CentredOutputs(model, batch, penalty)


class OutputLikelihood(_OutputObjective):
    """Negative log-likelihood of the observed outputs; missing outputs are summed out.

    If `inference` is approximate, the loss and its gradient are approximate.
    """

    def __init__(self, inference: InferenceMethod, n_jobs: int | None = None):
        super().__init__()  # the threads work inside `infer`, where they share the rows of a part
        self.infer_jobs = n_jobs
        self.inference = inference.with_defaults(tol=ESTIMATOR_TOL)

    def _residuals(self, model, piece):
        graph, weight = model.graph, piece.weight
        energy = model.energy(piece.X)
        log_z, states, pairs, converged = self._expected(graph, energy, weight, None)
        if piece.complete:
            one_hot = piece.one_hot(graph)
            states -= one_hot
            pairs -= _pair_counts(graph, one_hot, one_hot * weight[:, None])
            loss = log_z - energy.score(piece.codes)
        else:
            observed = self._expected(graph, energy, weight, piece.evidence)
            loss = log_z - observed[0]
            states -= observed[1]
            pairs -= observed[2]
            converged &= observed[3]
        return Residuals(float(weight @ loss), states * weight[:, None], pairs, converged)

    def _expected(self, graph, energy, weight, clamp):
        """Return log Z (N,), probabilities of classes (N, C) and of pairs (P,), and convergence.

        The probabilities of a pair of classes are multiplied by `weight` (N,) and summed over the
        rows.
        """
        found = run_inference(
            energy,
            self.inference,
            returns=("log_partition", "marginals", "statistics"),
            clamp=clamp,
            sample_weight=weight,
            n_jobs=self.infer_jobs,
        )
        log_z = np.asarray(found.log_partition, np.float64)
        states = graph.state_chances(found)
        return log_z, states, graph.pair_chances(found, weight), bool(found.converged.all())


class OutputPseudoLikelihood(_OutputObjective):
    """Negative sum of the log-probabilities of each output given x and the neighbouring outputs.

    Without edges this is the likelihood of independent outputs, and outputs may be missing. With
    edges, all outputs must be observed.
    """

    needs_complete = True

    def _residuals(self, model, piece):
        graph = model.graph
        one_hot = piece.one_hot(graph)
        scores = model.scores(piece.X)
        if graph.n_entries:
            tables = np.zeros((graph.n_states, graph.n_states))
            tables[graph.rows, graph.columns] = model.params.pairs
            tables[graph.columns, graph.rows] = model.params.pairs
            scores += one_hot @ tables
        log_p = _log_chances(graph, scores)
        weight = piece.weight[:, None]
        loss = -float((piece.weight @ (one_hot * log_p)).sum())
        states = np.exp(log_p) - one_hot
        if not piece.complete:
            states *= (piece.codes != MISSING)[:, graph.output]
        states *= weight
        pairs = np.zeros(0)
        if graph.n_entries:
            sums = one_hot.T @ states
            pairs = sums[graph.rows, graph.columns] + sums[graph.columns, graph.rows]
        return Residuals(loss, states, pairs)


def _pair_counts(graph, one_hot, weighted):
    """For each of the P table entries, add up the weights of the rows that have both its classes.

    An entry of the table of edge (a, b) belongs to a class of output a and a class of output b.
    """
    if not graph.n_entries:
        return np.zeros(0)
    return (weighted.T @ one_hot)[graph.rows, graph.columns]


def _log_chances(graph, scores):
    """Return the log-probabilities (N, C) of all classes, if the outputs are independent."""
    if graph.binary:
        gap = scores[:, 1::2] - scores[:, ::2]
        rest = np.log1p(np.exp(-np.abs(gap)))
        logs = np.empty_like(scores)
        logs[:, 1::2] = np.minimum(gap, 0.0) - rest
        logs[:, ::2] = np.minimum(-gap, 0.0) - rest
        return logs
    # Put the classes on the first axis, because NumPy is slow at reductions over a short last axis.
    most = int(graph.n_classes.max(initial=1))
    wide = np.full((most, len(scores), len(graph.n_classes)), -np.inf)
    place = np.arange(graph.n_states) - graph.first[:-1][graph.output]
    wide[place, :, graph.output] = scores.T
    top = wide.max(axis=0)
    rest = np.log(np.exp(wide - top).sum(axis=0))
    return scores - top[:, graph.output] - rest[:, graph.output]


class OutputPenalty(NamedTuple):
    """Make L2 penalties that weakly pull the intercepts towards the class frequencies."""

    pull: np.ndarray  # (U,) factor of the squared penalty of each intercept
    # (U,) values towards which the intercepts are pulled. A model that has these intercepts, and no
    # other parameters, predicts the smoothed frequencies of the classes.
    centre: np.ndarray

    def __call__(self, alpha: float, pairs: float, scale: float = 1.0) -> L2:
        """Return the L2 penalty.

        Its factors are `alpha` for the coefficients, `pairs` for the entries of the tables, and
        `scale` times `self.pull` for the intercepts.
        """
        factors = OutputParams(alpha, scale * self.pull, pairs)
        return L2(factors, OutputParams(None, self.centre, None))


def make_penalty(model: OutputModel, batch: OutputBatch, every_intercept: bool) -> OutputPenalty:
    """Return the `OutputPenalty` of a fit that starts at `model`, the result of `first_model`.

    If `every_intercept` is True, the penalty pulls all intercepts. Otherwise it pulls only the
    intercepts of classes that are observed in all rows or in no row, because these intercepts would
    become infinite.
    """
    graph = model.graph
    one_hot = batch.one_hot(graph)
    seen = one_hot.any(axis=0)
    others = np.add.reduceat(seen, graph.first[:-1])[graph.output] - seen
    varying = (seen & (others > 0))[graph.scored]
    n_rows = len(batch) if every_intercept else float(batch.weight.sum())
    weak = _WEAK / max(n_rows, MIN_SEARCH_ROWS)
    return OutputPenalty(
        np.where(varying, weak if every_intercept else 0.0, weak), model.params.intercept
    )


def first_model(graph: OutputGraph, batch: OutputBatch) -> OutputModel:
    """Return a model with intercepts from the frequencies of classes; other parameters are 0."""
    counts = batch.weight @ batch.one_hot(graph) + 0.5
    log_counts = np.log(counts)
    base = np.where(graph.n_classes == 2, log_counts[graph.first[:-1]], 0.0)
    base = np.where(
        graph.n_classes > 2,
        np.add.reduceat(log_counts, graph.first[:-1]) / graph.n_classes,
        base,
    )
    intercept = (log_counts - base[graph.output])[graph.scored]
    coef = np.zeros((len(graph.scored), batch.X.shape[1]))
    return OutputModel(OutputParams(coef, intercept, np.zeros(graph.n_entries)), graph)


# ------------------------------------------------------------------- the penalty and the tree

# The search starts at a penalty of _START times the total variance of the columns, and makes at
# most _MOST_STEPS steps in each direction.
_START, _MOST_STEPS = 1e-3, 12
# A fit on a fold stops after _PATH_ITERATIONS iterations, or earlier, when ten iterations have
# lowered the objective by at most _PATH_SHARE times its value.
_PATH_SHARE, _PATH_ITERATIONS = 5e-4, 60


class HeldOut(NamedTuple):
    """Held-out rows, and the class probabilities that models of independent outputs predict."""

    rows: np.ndarray  # (M,) indices of the rows
    chances: np.ndarray  # (M, C) probabilities of all states


class IndependentSearch:
    """Search for the penalty of models without edges, by cross-validation.

    `batch` has all rows, `n_classes` (L,) the number of classes of each output, and `folds` the
    indices of the training rows and of the held-out rows of each fold.
    """

    def __init__(self, batch: OutputBatch, n_classes: np.ndarray, folds: list, n_jobs=None):
        self.graph = OutputGraph(n_classes, np.empty((0, 2), np.int64))
        self.objective = OutputPseudoLikelihood(n_jobs)
        self.parts = [(batch.take(train), batch.take(held)) for train, held in folds]
        self.rows = np.concatenate([held for _, held in folds])
        self.total = batch.weight.sum()
        self.penalty = make_penalty(first_model(self.graph, batch), batch, True)

    def best(self, variance: float) -> tuple[float, HeldOut]:
        """Return the best penalty alpha, and predictions for the held-out rows.

        Alpha is the minimum of a parabola through the held-out losses of the best penalty that was
        tried and of the two neighbours of this penalty. The predictions are made with the best
        penalty that was tried. `variance` is the total variance of the columns of X.
        """
        start = _START * (variance if variance > 0 else 1.0)
        first = [first_model(self.graph, train) for train, _ in self.parts]

        def train(alpha, neighbour):
            return self.fit(first if neighbour is None else neighbour[1], alpha)

        penalties = geometric_penalties(start, _MOST_STEPS, _MOST_STEPS)
        found = penalty_path(train, lambda fitted: -fitted[0], penalties, _MOST_STEPS)
        return float(penalty_at(start, found.vertex)), self.held_out(found.best.fitted[1])

    def fit(self, models: list, alpha: float) -> tuple[float, list]:
        """Fit a model to the training rows of each fold with the penalty `alpha`.

        `models` has a model for each fold, from which the fit on this fold starts. Return the sum
        of the losses of all held-out rows, and the fitted models.
        """
        loss, fitted = 0.0, []
        for (train, held), model in zip(self.parts, models):
            scale = self.total / train.weight.sum()
            penalty = self.penalty(alpha * scale, 0.0, scale)
            steps = descend(model, train, self.objective, penalty, _PATH_ITERATIONS, _PATH_SHARE)
            for function, minimizer, _ in steps:
                reached = function.coordinates.params(minimizer.x)
            fitted.append(model._replace(params=reached))
            loss -= self.objective.score(fitted[-1], held, 0) * held.weight.sum()
        return loss, fitted

    def first_fit(self, alpha: float) -> HeldOut:
        """Return the predictions for held-out rows by models fitted with the penalty `alpha`."""
        models = [first_model(self.graph, train) for train, _ in self.parts]
        return self.held_out(self.fit(models, alpha)[1])

    def held_out(self, models: list) -> HeldOut:
        """Return the class probabilities of held-out rows, predicted by the model of each fold."""
        parts = [
            np.exp(_log_chances(self.graph, model.scores(held.X)))
            for model, (_, held) in zip(models, self.parts)
        ]
        return HeldOut(self.rows, np.concatenate(parts))


def dependence(batch: OutputBatch, graph: OutputGraph, chances: np.ndarray) -> np.ndarray:
    """Measure how much each pair of outputs depends on each other beyond independent predictions.

    `chances` (N, C) are the predicted probabilities of all states of each output. The dependence of
    two outputs is ``sum O log(O / E)`` over the pairs of their classes, where O is the weighted
    number of rows with the two classes, and E is its expectation if the outputs were independent
    given x. If the chances are the frequencies of the classes, the dependence is the mutual
    information of the two outputs times the number of rows. The result has the shape (L, L).
    """
    one_hot, observed = batch.one_hot(graph), (batch.codes != MISSING)[:, graph.output]
    weight = batch.weight[:, None]
    chances = chances * observed
    seen = (one_hot * weight).T @ one_hot
    expected = (chances * weight).T @ chances
    ratio = np.divide(seen, expected, out=np.ones_like(seen), where=(expected > 0) & (seen > 0))
    terms = xlogy(seen, ratio)
    first = graph.first[:-1]
    shared = np.add.reduceat(np.add.reduceat(terms, first, axis=0), first, axis=1)
    return np.maximum(shared, 0.0)


def spanning_tree(shared: np.ndarray) -> np.ndarray:
    """Return the edges (L - 1, 2), sorted, of the spanning tree with the largest sum of `shared`.

    This is the tree of Chow and Liu (1968) if `shared` (L, L) is the mutual information.
    """
    # Costs must be positive, because 0 means that there is no edge.
    cost = 1.0 + shared.max(initial=0.0) - shared
    tree = minimum_spanning_tree(csr_matrix(np.triu(cost, 1))).tocoo()
    edges = np.sort(np.column_stack([tree.row, tree.col]), axis=1).astype(np.int64)
    return edges[np.lexsort(edges.T[::-1])]
