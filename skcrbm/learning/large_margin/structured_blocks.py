"""Dual variables of chains and graphs in max-margin learning, for `fit_frank_wolfe`.

The labels of an example are an array with a class for each of its positions or nodes. The
parameters are

``w = 1/(alpha W) sum_i c_i sum_v dual_i(v) [psi_i(y_i) - psi_i(v)]``

where psi_i(v) is the vector of feature sums of example i with the labels v.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from skcrbm.kernels.chain_margins import Atoms, Forbidden, Sequences, Weights, visit_chains
from skcrbm.learning.large_margin.frank_wolfe import ROUNDING, DualBlocks, Visited
from skcrbm.learning.large_margin.max_margin import HingeObjective
from skcrbm.learning.structured.chain import SequenceBatch
from skcrbm.learning.structured.chain_model import (
    ChainModel,
    DenseColumns,
    PackedColumns,
    csr_arrays,
)
from skcrbm.utils.parallel import ordered_map

# Number of steps for each example after a search for its labels. Several steps pay off, because a
# search takes longer than a step.
_STEPS = 2
# `ChainBlocks` has arrays for _ATOMS label sequences for each sequence of the data. If the arrays
# are full for some sequence, their size is doubled, until there is room for _MOST_ATOMS.
_ATOMS, _MOST_ATOMS = 8, 256


class StructuredBlocks(DualBlocks):
    """Base class of the dual variables of chains and graphs.

    `params` are the parameters w in the form of ``model.params``. `total` is ``alpha W``.
    """

    def __init__(self, model: Any, batch: Any, objective: HingeObjective, total: float):
        self.batch = batch
        self.objective = objective
        self.total = total
        self.weight = float(batch.weight.sum())
        self.model = model
        self.params = type(model.params)(*map(np.zeros_like, model.params))

    @property
    def alpha(self) -> float:
        """Factor alpha of the penalty, which is ``alpha / 2 |w|^2``."""
        return self.total / self.weight

    @abstractmethod
    def state(self) -> Any:
        """Return the dual variables, from which a later fit may start."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Start from the dual variables `state` of an earlier fit to examples with equal labels.

        If the labels of the examples differ, nothing changes.
        """

    @abstractmethod
    def labels(self) -> Any:
        """Yield all positive dual variables, with their labels.

        Each item is a triple: a part of the batch with n examples and T positions or nodes, labels
        (T,) of the part, and dual variables (n,). Entry i of the dual variables belongs to the
        labels of example i in the part. Each positive dual variable occurs in one triple.
        """

    @abstractmethod
    def dual_loss(self) -> float:
        """Return ``sum_i c_i sum_v dual_i(v) D(v, y_i)``; D is the number of wrong labels in v."""

    def rescale(self, total: float) -> None:
        """Set ``alpha W`` to `total` and scale the parameters; dual variables do not change."""
        for part in self.params:
            part *= self.total / total
        self.total = total

    def rebuild(self) -> None:
        """Compute the parameters from the dual variables; see `DualBlocks`."""
        params = type(self.params)(*map(np.zeros_like, self.params))
        for piece, path, dual in self.labels():
            factor = piece.weight * dual / self.total
            self.objective.add_difference(self.model, piece, piece.path, path, factor, params)
        for part, used in zip(params, self.objective.trained):
            part *= used
        for part, new in zip(self.params, params):
            part[...] = new

    def penalty(self, params: Any) -> float:
        """Return the penalty of the parameters."""
        return 0.5 * self.alpha * sum(float(np.vdot(part, part)) for part in params)

    def primal(self, params: Any) -> tuple[float, float]:
        """Return the objective of the parameters, and the share of examples with a proven search.

        The search of an example is proven if it shows that no other labels violate the margin more.
        """
        model = self.model._replace(params=params)
        pieces = self._pieces()

        def part(p):
            loss, _, proven = self.objective.losses(model, pieces[p])
            if not proven:
                loss = np.maximum(loss, self._known_losses(model, p))
            return float(loss @ pieces[p].weight), len(pieces[p]) * proven

        found = list(ordered_map(part, range(len(pieces)), self.objective.n_jobs))
        loss, n_proven = (sum(column) for column in zip(*found))
        return loss / self.weight + self.penalty(params), n_proven / len(self.batch)

    def _pieces(self) -> list:
        """Split the batch into parts; one call of the search in `primal` handles one part."""
        return self.batch.pieces(self.model.n_entries)

    def _known_losses(self, model: Any, p: int) -> np.ndarray:
        """For each example of part p, find the largest violation by labels of earlier searches."""
        return np.zeros(len(self._pieces()[p]))

    def dual(self) -> float:
        """Return the dual objective, a lower bound of the objective of all parameters."""
        return self.dual_loss() / self.weight - self.penalty(self.params)


class Blocks(StructuredBlocks):
    """Dual variables of chains or graphs of any kind. Frank-Wolfe steps are computed with NumPy."""

    def __init__(self, model, batch, objective, total):
        super().__init__(model, batch, objective, total)
        self.pieces = objective.visits(model, batch)
        self.examples = [list(piece.single()) for piece in self.pieces]
        self.n_steps = _STEPS if max(map(len, self.examples)) > 1 else 1
        # Labels (m, T) and dual variables (m,) of each example; the observed labels come first.
        self.found = [[one.path[None] for one in group] for group in self.examples]
        self.mass = [[np.ones(1) for _ in group] for group in self.examples]

    def visit(self, rng):
        """Visit the parts of the batch, and the examples of each part, in random order."""
        loss = gap = 0.0
        for p in rng.permutation(len(self.pieces)):
            piece = self.pieces[p]
            _, path, _ = self.objective.losses(self._model(), piece)
            for c in rng.permutation(len(piece)):
                new = path[piece.start[c] : piece.start[c + 1]]
                violated, expected = self._visit_one(p, c, new)
                weight = float(piece.weight[c])
                loss += weight * violated
                gap += weight * (violated - expected)
        return Visited(loss / self.weight, gap / self.weight)

    def state(self):
        """Return the labels and dual variables of each example; see `StructuredBlocks`."""
        return self.found, self.mass

    def restore(self, state):
        """Start from earlier dual variables; see `StructuredBlocks`."""
        found, mass = state
        if [len(group) for group in found] != [len(group) for group in self.examples]:
            return
        old = (labels[0] for group in found for labels in group)
        new = (one.path for group in self.examples for one in group)
        if all(map(np.array_equal, old, new)):
            self.found, self.mass = [list(g) for g in found], [[m.copy() for m in g] for g in mass]
            self.rebuild()

    def _pieces(self):
        return self.pieces

    def _known_losses(self, model, p):
        examples = zip(self.examples[p], self.found[p])
        return np.array([self._gains(model, one, labels).max() for one, labels in examples])

    def _gains(self, model, one, labels):
        """Return how much each of m label vectors violates the margin.

        `labels` (m, T) holds the vectors; row 0 must hold the observed labels of the example.
        """
        scores = self.objective.scores_of(self.objective.energies(model, one), one, labels)
        return (labels != one.path).sum(axis=1) + scores - scores[0]

    def _model(self):
        return self.model._replace(params=self.params)

    def _visit_one(self, p, c, new):
        """Make steps for example c of part p, for which the search found the labels `new`.

        Return the largest and the expected violation (see `Visited`) before the first step.
        """
        one = self.examples[p][c]
        labels, mass = self.found[p][c], self.mass[p][c]
        keep = mass > 0
        keep[0] = True
        labels, mass = labels[keep], mass[keep]
        same = (labels == new).all(axis=1)
        known = int(same.argmax()) if same.any() else len(labels)
        if known == len(labels):
            labels, mass = np.vstack([labels, new[None]]), np.append(mass, 0.0)
        first = 0.0, 0.0
        for step in range(self.n_steps):
            model = self._model()
            gains = self._gains(model, one, labels)
            if step == 0:
                first = float(gains.max()), float(mass @ gains)
            best = int(gains.argmax())
            if step == 0 and gains[known] >= gains[best]:  # prefer `new` in a tie
                best = known
            worst = int(np.where(mass > 0, gains, np.inf).argmin())
            rise = gains[best] - gains[worst]
            if rise <= ROUNDING * (1.0 + np.abs(gains).max()):
                break
            direction = self._direction(model, one, labels[worst], labels[best])
            square = sum(float(np.vdot(part, part)) for part in direction)
            scale = float(one.weight[0]) / self.total
            most = mass[worst]
            size = min(most, rise / (scale * square)) if square > 0 else most
            mass[best] += size
            mass[worst] -= size
            for part, change in zip(self.params, direction):
                part += size * scale * change
        self.found[p][c], self.mass[p][c] = labels, mass
        return first

    def _direction(self, model, one, plus, minus):
        """Return the feature sums of the labels `plus` minus the feature sums of `minus`."""
        direction = type(self.params)(*map(np.zeros_like, self.params))
        self.objective.add_difference(model, one, plus, minus, np.ones(1), direction)
        for part, used in zip(direction, self.objective.trained):
            part *= used
        return direction

    def labels(self):
        """Yield a triple for each positive dual variable; see `StructuredBlocks`."""
        for group, found, mass in zip(self.examples, self.found, self.mass):
            for one, labels, values in zip(group, found, mass):
                for path, value in zip(labels, values):
                    if value > 0:
                        yield one, path, np.array([value])

    def dual_loss(self):
        """Return the expected number of wrong labels; see `StructuredBlocks`."""
        return sum(
            float(piece.weight[0] * value[0] * np.count_nonzero(path != piece.path))
            for piece, path, value in self.labels()
        )


class ChainBlocks(StructuredBlocks):
    """Dual variables of sequences; the kernel `visit_chains` makes the steps of a whole pass.

    An atom is a label sequence with a dual variable. The model must be of first order and must not
    have features of transitions.
    """

    def __init__(self, model: ChainModel, batch: SequenceBatch, objective, total):
        super().__init__(model, batch, objective, total)
        n_columns, k = batch.X.shape[1], model.n_states
        columns = model.columns
        if isinstance(columns, DenseColumns):
            columns = PackedColumns.all(n_columns, k)
        p, packed = self.params, columns.packed
        self._sequences = Sequences(
            batch.start, *csr_arrays(batch.X), batch.path, batch.weight.astype(np.float64)
        )
        self._weights = Weights(
            packed.first, packed.labels, p.coef.reshape(-1), p.intercept, p.transition, p.first,
            p.last,
        )  # fmt: skip
        shape = len(batch), _ATOMS
        path = np.zeros((_ATOMS, len(batch.path)), np.int32)
        path[0] = batch.path
        self.atoms = Atoms(path, np.zeros(shape), np.zeros(shape))
        self.atoms.value[:, 0] = 1.0

    def visit(self, rng):
        """Visit the sequences in random order.

        If the arrays of atoms had no room for new labels of a sequence, double the size of the
        arrays afterwards.
        """
        order = rng.permutation(len(self.batch))
        own = bool(self.objective.trained[1])
        forbidden = Forbidden(*self.model.forbidden)
        losses, gaps = np.zeros((2, len(self.batch)))
        n_full = visit_chains(
            order, self.total, own, self._sequences, self._weights, forbidden, self.atoms, losses,
            gaps,
        )  # fmt: skip
        if n_full and len(self.atoms.path) < _MOST_ATOMS:
            path, value, loss = self.atoms
            self.atoms = Atoms(
                np.concatenate([path, np.zeros_like(path)]),
                np.hstack([value, np.zeros_like(value)]),
                np.hstack([loss, np.zeros_like(loss)]),
            )
        weight = self.batch.weight / self.weight
        return Visited(float(losses @ weight), float(gaps @ weight))

    def state(self):
        """Return the observed labels and the atoms of the sequences; see `StructuredBlocks`."""
        return self.batch.start, self.batch.path, self.atoms

    def restore(self, state):
        """Start from earlier dual variables; see `StructuredBlocks`."""
        start, path, atoms = state
        if np.array_equal(start, self.batch.start) and np.array_equal(path, self.batch.path):
            self.atoms = Atoms(*(part.copy() for part in atoms))
            self.rebuild()

    def labels(self):
        """For each number k, yield the batch, and the labels and values of all atoms number k."""
        for path, value in zip(self.atoms.path, self.atoms.value.T):
            if value.any():
                yield self.batch, path.astype(np.int64), value

    def dual_loss(self):
        """Return the expected number of wrong labels; see `StructuredBlocks`."""
        return float((self.atoms.value * self.atoms.loss).sum(axis=1) @ self.batch.weight)


def dual_blocks(
    model: Any, batch: Any, objective: HingeObjective, total: float
) -> StructuredBlocks:
    """Return the initial dual variables of a batch, which are 1 for the observed labels."""
    plain = isinstance(model, ChainModel) and model.pair_columns is None and model.order == 1
    return (ChainBlocks if plain else Blocks)(model, batch, objective, total)
