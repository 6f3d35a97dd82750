"""Search for the labels of an Ising model with the highest score or the lowest hinge loss.

`infer` searches for the highest score. The decoding rule of the large margin machine searches for
the lowest hinge loss with the same methods.

`cliques.py` searches for the same labels in models with larger cliques. For 30 labels with weak
couplings, the search of this module is 4 times faster for the highest score, and 5 times for the
lowest hinge loss (`examples/speed/benchmark_special_kernels.py`). If couplings are as strong as
fields and there are at most 20 labels, the search over cliques is up to twice as fast for the
highest score.
"""

import numpy as np

from skcrbm.energies import IsingEnergy
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.inference.search.found import FoundLabels
from skcrbm.kernels.ising_search import (
    HINGE,
    MAP,
    PLAIN_NODES,
    ROUNDING,
    SCORE_ROUNDING,
    TIE_SHARE,
    SearchAnswers,
    SearchLimits,
    SearchWork,
    branch_and_bound,
    icm,
)
from skcrbm.utils.limits import (
    FEW_LABELS,
    MAX_TIE_LABELS,
    ONE_MODEL_ENTRIES,
    ROWS_PER_CHUNK,
    TIE,
)
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils.validation import kernel_array

# When states are enumerated, the rows are split into chunks. This is the target size of a chunk:
# the number of rows times the number of states.
_STATES_PER_CHUNK = 2**14
# If there are at least this many labels, a search for the highest score first finds the labels of a
# row whose signs follow from bounds, and visits only the other labels. A search of all labels would
# take time in proportion to the square of their number.
_MANY_LABELS = 64


def find_labels(energy, method, margin=None, *, start=None, n_jobs=None):
    """Find labels y in {-1, +1}^L with the highest score or, given a margin, the lowest loss.

    Without a margin, return ``argmax_y f.y + y'Sy / 2``; ties are broken by lexicographic order.
    With a margin, return ``argmin_y sum_i max(margin - y_i (f_i + sum_k s_ik y_k), 0)``; ties are
    broken by the highest score, then by lexicographic order. With more than 20 labels, ties are
    broken by the order of the search, which is deterministic.

    Clamped labels keep their values, and the loss includes their margins. `start` is an
    `InferenceResult` or None. The method "icm" starts from the signs of the log-odds of `start` or,
    if `start` is None, from the signs of the fields. `n_jobs` is ignored by "milp".
    """
    problem = _Problem(energy, margin)
    if energy.n_variables == 0:  # the only state is empty and has value 0
        found = problem.empty()
        return found._replace(lower=found.value.copy(), converged=~found.converged)
    found = _SEARCHES[method.name](problem, method, start, n_jobs)
    return found._replace(value=found.value - problem.offset, lower=found.lower - problem.offset)


class _Problem:
    """The models and the objective of a search, in the form that kernels take.

    `held` (N, L) is -1 or +1 for clamped labels, and 0 for free labels. If there is no margin, so
    that the score is maximised, labels whose sign follows from their field alone are clamped, too.
    The scores that the fields of clamped labels give are then moved to `offset` (N,), because the
    rounding error of a search is relative to the largest field.
    """

    def __init__(self, energy, margin):
        self.energy, self.margin = energy, margin
        self.fields = kernel_array(energy.field, np.float64)
        self.coupling = kernel_array(energy.coupling_matrix(), np.float64)
        self.held = np.zeros(self.fields.shape, np.int8)
        if energy.evidence is not None:
            self.held[energy.evidence == 0] = -1
            self.held[energy.evidence == 1] = 1
        self.offset = np.zeros(len(self.fields))
        if margin is None:
            self._clamp_decided()

    def _clamp_decided(self):
        """Clamp labels whose sign follows from their field.

        The fields of all clamped labels are set to 0, and their scores are added to `offset`.
        """
        outweighed = np.abs(self.fields) <= (1 + TIE) * np.abs(self.coupling).sum(axis=0)
        decided = (self.held == 0) & ~outweighed
        self.held[decided] = np.sign(self.fields[decided])
        self.offset += (self.fields * self.held).sum(axis=1)
        self.fields = np.where(self.held == 0, self.fields, 0.0)

    def empty(self):
        """Allocate a `FoundLabels` for the results of a search, with lower bounds of -inf."""
        n_rows = len(self.fields)
        return FoundLabels(
            np.zeros(self.fields.shape, np.int8),
            np.zeros(n_rows),
            np.full(n_rows, -np.inf),
            np.zeros(n_rows, np.int64),
            np.zeros(n_rows, bool),
        )

    def kernel_arguments(self, rows):
        """Return the leading arguments that all search kernels share, for the given rows."""
        kind, gamma = (MAP, 0.0) if self.margin is None else (HINGE, float(self.margin))
        return kind, self.fields[rows], self.coupling, gamma, self.held[rows]


def _branch_and_bound(problem, method, start, n_jobs):
    if not problem.coupling.any():
        return _without_couplings(problem)
    if problem.margin is None and len(problem.coupling) >= _MANY_LABELS:
        return _search_open_labels(problem, method, n_jobs)
    return _search_all_labels(problem, method, n_jobs)


def score_share(n_labels: int) -> float:
    """Return the rounding error of a score of labels, as a share of the largest margin."""
    return min(ROUNDING, SCORE_ROUNDING * n_labels**2)


def _without_couplings(problem):
    """Return the best labels if all couplings are 0: each label has the sign of its field."""
    found = problem.empty()
    signs = np.where(problem.held != 0, problem.held, np.where(problem.fields > 0, 1.0, -1.0))
    margins = signs * problem.fields
    if problem.margin is None:
        value = 0.0 - margins.sum(axis=1)
    else:
        value = np.maximum(problem.margin - margins, 0.0).sum(axis=1)
    return FoundLabels(
        (signs > 0).astype(np.int8), value, value.copy(), found.n_iter + 1, ~found.converged
    )


def _search_open_labels(problem, method, n_jobs):
    """Find the labels with the highest score, row by row, among the open labels of each row.

    A label is called decided if its sign is the same for all values of the labels that are not
    decided. A decided label may decide further labels. Labels that are not decided are called open.
    A row has few open labels, unless the couplings are strong.
    """
    found = problem.empty()
    coupling = problem.coupling
    strength = np.abs(coupling)

    def search(rows):
        for n in range(len(found.value))[rows]:
            signs, fields = _decided(problem.fields[n], problem.held[n], coupling, strength)
            index = np.flatnonzero(signs == 0)
            gap = 0.0
            if len(index):
                part = IsingEnergy(coupling[np.ix_(index, index)], fields[None, index])
                best = _search_all_labels(_Problem(part, None), method, None)
                signs[index] = 2.0 * best.labels[0] - 1.0
                found.n_iter[n], gap = best.n_iter[0], best.gap[0]
            found.labels[n] = signs > 0
            found.value[n] = 0.0 - signs @ (problem.fields[n] + 0.5 * (coupling @ signs))
            found.lower[n] = found.value[n] - gap

    with one_blas_thread():
        _in_chunks(search, found, n_jobs)
    return found._replace(converged=found.gap == 0)


def _decided(fields, held, coupling, strength):
    """Return the signs (L,) of decided labels, and the fields (L,) given the decided labels.

    The sign of an open label is 0. `fields` (L,) and `held` (L,) describe a row, and `strength`
    (L, L) is the absolute value of `coupling`.
    """
    signs = held.astype(np.float64)
    given = fields + coupling @ signs
    reach = strength @ (held == 0)
    rounding = TIE * (np.abs(fields) + strength.sum(axis=0))
    while True:
        new = np.flatnonzero((signs == 0) & (np.abs(given) > reach + rounding))
        if not len(new):
            return signs, given
        signs[new] = np.sign(given[new])
        given += signs[new] @ coupling[new]
        reach -= strength[new].sum(axis=0)


def _search_all_labels(problem, method, n_jobs):
    found = problem.empty()
    n_rows, n_labels = found.labels.shape
    n_states = 1 << n_labels
    in_numpy = n_labels <= FEW_LABELS if n_rows > 1 else n_states * n_labels <= ONE_MODEL_ENTRIES
    if in_numpy and n_states <= method.node_limit:
        for rows in row_chunks(n_rows, max(1, _STATES_PER_CHUNK // n_states)):
            _visit_all(problem, rows, found)
        return found._replace(converged=np.ones(n_rows, bool))
    ties = n_labels <= MAX_TIE_LABELS
    plain = min(method.node_limit, PLAIN_NODES * n_labels)

    def search(rows):
        left = np.empty(len(found.labels[rows]), bool)
        answers = SearchAnswers(
            found.labels[rows], found.value[rows], found.lower[rows], found.n_iter[rows], left
        )
        work = SearchWork(
            np.empty((10, n_labels)),
            np.empty((3, n_labels), np.intp),
            np.empty((3, n_labels + 1, n_labels)),
        )
        limits = SearchLimits(ties, plain, method.node_limit)
        arguments = (*problem.kernel_arguments(rows), limits, answers, work)
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


def _visit_all(problem, rows, found):
    """Solve the problem for some rows by enumeration in NumPy, to save the time of compilation.

    The results are written to `found`. They equal the results of the kernel, even if there are
    ties, and the result for a row does not depend on the other rows.
    """
    fields, held, coupling = problem.fields[rows], problem.held[rows], problem.coupling
    n_labels = len(coupling)
    # All states in lexicographic order.
    bits = (np.arange(2**n_labels)[:, None] >> np.arange(n_labels)[::-1]) & 1
    signs = 2.0 * bits - 1.0
    with one_blas_thread():
        pull = signs @ coupling
    margin = 0.0 if problem.margin is None else problem.margin
    score = np.zeros((len(fields), len(signs)))
    loss = np.zeros_like(score) if problem.margin is not None else None
    for i in range(n_labels):
        own = signs[:, i] * fields[:, i, None]
        drawn = signs[:, i] * pull[:, i]
        score += own + 0.5 * drawn
        if loss is not None:
            loss += np.maximum(margin - (own + drawn), 0.0)
    open_ = np.ones(score.shape, bool)  # states that agree with the clamped labels
    for i in np.flatnonzero(held.any(axis=0)):
        open_ &= (held[:, i, None] == 0) | (held[:, i, None] == signs[:, i])
    found.n_iter[rows] = open_.sum(axis=1)
    slack = margin + np.abs(coupling).sum(axis=0).max() + np.abs(fields).max(axis=1)
    share = score_share(n_labels) if loss is None else TIE_SHARE
    for value in (-score,) if loss is None else (loss, -score):
        least = np.where(open_, value, np.inf)
        open_ &= least <= (least.min(axis=1) + share * slack)[:, None]
    if loss is None:
        _keep_highest(open_, fields, coupling, signs)
    best = open_.argmax(axis=1)
    found.labels[rows] = bits[best]
    value = -score if loss is None else loss
    found.value[rows] = found.lower[rows] = value[np.arange(len(best)), best]


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounded sum of two arrays, and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _keep_highest(kept, fields, coupling, signs):
    """Keep the states with the highest scores, which are computed to twice the precision.

    `kept` (N, S) is True for the states of each row that may have the highest score up to rounding,
    and changes in place.
    """
    tied = np.flatnonzero(kept.sum(axis=1) > 1)
    if not len(tied):
        return
    total, error = (np.zeros((len(tied), len(signs))) for _ in range(2))
    for i in range(len(coupling)):
        terms = [signs[:, i] * fields[tied, i, None]]
        terms += [signs[:, i] * signs[:, k] * coupling[i, k] for k in range(i)]
        for term in terms:
            total, lost = _two_sum(total, term)
            error += lost
    total, error = _two_sum(total, error)
    for part in (total, error):
        largest = np.where(kept[tied], part, -np.inf).max(axis=1, keepdims=True)
        kept[tied] &= part == largest


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
    from skcrbm.inference.search.milp import solve_rows  # only this method needs HiGHS

    return solve_rows(problem, problem.empty())


_SEARCHES = {
    "branch_and_bound": _branch_and_bound,
    "icm": _icm,
    "milp": _mixed_integer_programs,
}


def _in_chunks(search, found, n_jobs):
    for _ in ordered_map(search, row_chunks(len(found.labels), ROWS_PER_CHUNK), n_jobs):
        pass
