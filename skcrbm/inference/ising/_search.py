"""Searches for the labels of an Ising model with the highest score or the least hinge loss.

The methods look for the highest score. The decoding rule of the large margin machine looks for
the least hinge loss, with the same methods: they say how to search, and the caller what for.
"""

import numpy as np

from skcrbm.inference.ising._milp import solve_rows
from skcrbm.inference.label_search import FoundLabels, hinge_losses_and_scores
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.kernels.ising_search import HINGE, MAP, PLAIN_NODES, TIE_SHARE, branch_and_bound, icm
from skcrbm.utils.limits import MAX_TIE_LABELS, ONE_MODEL_ENTRIES, ROWS_PER_CHUNK, TIE
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array


def solve(method, energy, query):
    """Answer "map" and "map_bound" by "branch_and_bound", "milp" or "icm"."""
    found = find_labels(energy, method, start=query.start, n_jobs=query.n_jobs)
    fields = found.fields(query.returns)
    if "init" in method.accepts:
        fields["log_odds"] = energy.visible_log_odds(found.labels)
    return fields


def find_labels(energy, method, margin=None, *, start=None, n_jobs=None):
    """Labels y in {-1, +1}^L of the highest score, or of the least hinge loss.

    Without a margin ``argmax_y f.y + y'Sy / 2``; among equals the first in lexicographic
    order. With one ``argmin_y sum_i max(margin - y_i (f_i + sum_k s_ik y_k), 0)``; among equals
    the highest score, then the first. Beyond 20 labels equals are left to the order of the
    search, which is fixed.

    Parameters
    ----------
    energy : IsingEnergy
        Held labels stay; the loss counts their margins, too.
    method : BranchAndBound, MixedIntegerProgram or ICM
    margin : float or None
    start : InferenceResult or None
        Of "icm": log-odds whose signs are the start, instead of the fields.
    n_jobs : int or None
        Threads over rows, for all but "milp".

    Returns
    -------
    FoundLabels
    """
    problem = _Problem(energy, margin)
    if energy.n_variables == 0:  # there is one state, of value 0
        found = problem.empty()
        return found._replace(lower=found.value.copy(), converged=~found.converged)
    found = _SEARCHES[method.name](problem, method, start, n_jobs)
    return found._replace(value=found.value - problem.offset, lower=found.lower - problem.offset)


class _Problem:
    """What is searched through and for, as the kernels take it.

    Attributes
    ----------
    energy : IsingEnergy
    fields : ndarray (N, L) float64
    coupling : ndarray (L, L) float64
    held : ndarray (N, L) int8
        -1 and +1 where a label is held, else 0. Without a margin, labels that their field
        decides, whatever the others are, are held, too.
    margin : float or None
        None: the score.
    offset : ndarray (N,)
        Score of the fields of held labels, which without a margin are taken out: searches know
        values up to a share of the largest field.
    """

    def __init__(self, energy, margin):
        self.energy, self.margin = energy, margin
        self.fields = kernel_array(energy.field, np.float64)
        self.coupling = kernel_array(energy.coupling, np.float64)
        self.held = np.zeros(self.fields.shape, np.int8)
        if energy.evidence is not None:
            self.held[energy.evidence == 0] = -1
            self.held[energy.evidence == 1] = 1
        self.offset = np.zeros(len(self.fields))
        if margin is None:
            self._take_decided_out()

    def _take_decided_out(self):
        outweighed = np.abs(self.fields) <= (1 + TIE) * np.abs(self.coupling).sum(axis=0)
        decided = (self.held == 0) & ~outweighed
        self.held[decided] = np.sign(self.fields[decided])
        self.offset += (self.fields * self.held).sum(axis=1)
        self.fields = np.where(self.held == 0, self.fields, 0.0)

    def empty(self):
        """FoundLabels to fill, of which nothing is known yet."""
        n_rows = len(self.fields)
        return FoundLabels(
            np.zeros(self.fields.shape, np.int8),
            np.zeros(n_rows),
            np.full(n_rows, -np.inf),
            np.zeros(n_rows, np.int64),
            np.zeros(n_rows, bool),
        )

    def kernel_arguments(self, rows):
        """Kind of the problem, and its arrays of some rows."""
        kind, gamma = (MAP, 0.0) if self.margin is None else (HINGE, float(self.margin))
        return kind, self.fields[rows], self.coupling, gamma, self.held[rows]


def _branch_and_bound(problem, method, start, n_jobs):
    found = problem.empty()
    n_rows, n_labels = found.labels.shape
    n_states = 1 << n_labels
    if n_rows == 1 and n_states <= min(ONE_MODEL_ENTRIES // n_labels, method.node_limit):
        with one_blas_thread():
            _visit_all(problem, found)
        return found._replace(converged=np.ones(1, bool))
    ties = n_labels <= MAX_TIE_LABELS
    plain = min(method.node_limit, PLAIN_NODES * n_labels)

    def search(rows):
        left = np.empty(len(found.labels[rows]), bool)
        arguments = (
            *problem.kernel_arguments(rows), ties, plain, method.node_limit, found.labels[rows],
            found.value[rows], found.lower[rows], found.n_iter[rows], left,
            np.empty((10, n_labels)), np.empty((3, n_labels), np.intp),
            np.empty((3, n_labels + 1, n_labels)),
        )  # fmt: skip
        branch_and_bound(*arguments, None)
        if left.any():
            branch_and_bound(
                *arguments,
                (
                    np.empty((n_labels, 2)),
                    np.empty((n_labels, n_labels, 2, 2)),
                    np.empty((n_labels + 1, 2, n_labels)),
                    np.zeros((n_labels, 2, 2, n_labels)),
                ),
            )

    _in_chunks(search, found, n_jobs)
    return found._replace(converged=found.gap == 0)


def _visit_all(problem, found):
    """Fill `found` of a single row by all its labels, without a kernel that must be compiled.

    Its search ends with the same labels, in the same order of equals.
    """
    fields, held = problem.fields[0], problem.held[0]
    free = np.flatnonzero(held == 0)
    # In lexicographic order.
    bits = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))[::-1]) & 1
    signs = np.tile(held.astype(np.float64), (len(bits), 1))
    signs[:, free] = 2 * bits - 1
    margin = 0.0 if problem.margin is None else problem.margin
    losses, scores = hinge_losses_and_scores(signs, fields, problem.coupling, margin)
    scale = margin + np.abs(problem.coupling).sum(axis=0).max() + np.abs(fields).max()
    best = np.arange(len(signs))
    for values in (-scores,) if problem.margin is None else (losses, -scores):
        best = best[values[best] <= values[best].min() + TIE_SHARE * scale]
    found.labels[0] = signs[best[0]] > 0
    found.value[0] = -scores[best[0]] if problem.margin is None else losses[best[0]]
    found.lower[0] = found.value[0]
    found.n_iter[0] = len(signs)


def _icm(problem, method, start, n_jobs):
    def ascend(log_odds):
        if log_odds is None:
            given = None if start is None else start.log_odds
            log_odds = problem.fields if given is None else given
        found = problem.empty()
        found.labels[...] = log_odds > 0

        def search(rows):
            icm(
                *problem.kernel_arguments(rows), method.iterations, found.labels[rows],
                found.value[rows], found.n_iter[rows], found.converged[rows],
            )  # fmt: skip

        _in_chunks(search, found, n_jobs)
        return found._asdict(), -found.value

    best = best_of_restarts(ascend, problem.energy, method.n_restarts, method.random_state)
    return FoundLabels(**best)


def _mixed_integer_programs(problem, method, start, n_jobs):
    return solve_rows(problem, problem.empty())


_SEARCHES = {
    "branch_and_bound": _branch_and_bound,
    "icm": _icm,
    "milp": _mixed_integer_programs,
}


def _in_chunks(search, found, n_jobs):
    for _ in ordered_map(search, row_chunks(len(found.labels), ROWS_PER_CHUNK), n_jobs):
        pass
