"""Search for the best output vector of each row.

The candidates are the label sets seen in fit or all output vectors. The objective is the
probability of the outputs, the score of the best joint state, or the hinge loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skcrbm.decoding.posterior import CertifiedLabels, ClassifierPosterior, Posterior
from skcrbm.energies import IsingEnergy
from skcrbm.energies.states import unchecked
from skcrbm.inference import Exact, MaxProduct, MixedProduct, available_methods
from skcrbm.inference.base import resolve_method
from skcrbm.inference.search.labels import find_labels
from skcrbm.targets.label_sets import distinct_rows
from skcrbm.utils.limits import AUTO_EXACT_UNITS, BLOCK_ENTRIES, ESTIMATOR_TOL
from skcrbm.utils.parallel import row_chunks

_RESTARTS = {"n_restarts": 10, "max_iter": 50, "tol": ESTIMATOR_TOL, "random_state": 0}
# Limits for the search by flips of single outputs, which would take too long for larger models. The
# result of inference is improved by flips if the model has at most _POLISHED_COUPLINGS couplings.
# The best label set seen in fit is then improved, too, if at most _POLISHED_SETS label sets were
# seen.
_POLISHED_COUPLINGS, _POLISHED_SETS = 2**12, 2**12
# Number of labels that are tried if the best output vector is empty, but `allow_empty` is False:
# the search is repeated for each of these labels, with the label clamped to 1.
_FIRST_LABELS = 10
# Score of the empty set if `allow_empty` is False. The score is lower than the scores of all other
# possible sets, but higher than -inf, the score of impossible sets.
_LAST = np.finfo(np.float64).min


# ------------------------------------------------------------- label sets seen in fit


def weighted_label_sets(posterior: Posterior | ClassifierPosterior, hidden: str) -> Iterator[tuple]:
    """Iterate over blocks of rows, with the candidate label sets of each block and their scores.

    Only label sets that agree with the known outputs of a row are possible. If no set agrees, the
    known outputs replace the corresponding entries of each label set, and all of these changed sets
    are candidates. `hidden` determines whether scores sum out the hidden units ("marginal") or
    maximise over them ("max").

    Yield the indices of the rows (a slice or a list), the distinct label sets (K, V) of 0/1, and
    the scores (n_rows, K). A score is an unnormalised log-probability, or -inf for a set that
    contradicts a known output. Each row has at least one possible set.
    """
    sets, known = posterior.label_sets, posterior.known
    if not len(sets):
        raise ValueError(
            "there are no label sets to choose from, because no row of y was complete in fit"
        )
    for rows in row_chunks(posterior.shape[0], max(1, BLOCK_ENTRIES // max(1, len(sets)))):
        score = posterior.log_weight_of_sets(rows, sets, hidden)
        if known is None:
            yield rows, sets, score
            continue
        given = known[rows]
        contradicts = (given == 1) @ (1.0 - sets).T + (given == 0) @ sets.astype(float).T > 0
        score[contradicts] = -np.inf
        impossible = contradicts.all(axis=1)
        index = np.arange(rows.start, rows.stop)
        if not impossible.all():
            yield index[~impossible], sets, score[~impossible]
        for row in index[impossible]:
            overwritten = np.where(np.isnan(known[row]), sets, known[row])
            candidates = distinct_rows(overwritten)
            yield [row], candidates, posterior.log_weight_of_sets([row], candidates, hidden)


def best_label_sets(posterior: Posterior | ClassifierPosterior, hidden: str) -> np.ndarray:
    """Return, for each of N rows, the label set seen in fit with the highest score.

    The scores come from `weighted_label_sets`. If `allow_empty` is False, the empty set is chosen
    only if no other set agrees with the known outputs.
    """
    result = np.empty((posterior.shape[0], posterior.label_sets.shape[1]), np.int8)
    for rows, sets, log_weight in weighted_label_sets(posterior, hidden):
        if not posterior.allow_empty:
            log_weight = np.where(sets.any(axis=1), log_weight, np.fmin(log_weight, _LAST))
        result[rows] = sets[log_weight.argmax(axis=1)]
    return result


# ------------------------------------------------------------- all output vectors


def best_outputs(posterior: Posterior, query: str, hidden: str) -> np.ndarray:
    """Return the most probable output vectors, or the outputs of the most probable states (N, V).

    The result is exact for at most 10 outputs (query "marginal_map") or at most 10 units in the
    smaller layer (query "map"). For larger models with strong couplings, message passing may find a
    bad vector. Therefore two vectors, the result of message passing and the best label set seen in
    fit, are improved by flips of single outputs up to a local optimum, and the better of the two is
    returned.

    If a model has more than 4096 couplings, the result of message passing is returned without
    flips. If there are more than 4096 label sets, the best label set is not tried. Energies without
    message passing use their first method that answers the query, such as branch and bound.

    If the best vector is empty, but `allow_empty` is False, the search is repeated for each of the
    ten labels that cost least to switch on, with this label clamped to 1. The result is exact
    for up to ten outputs.

    `query` is "marginal_map" or "map". `hidden` determines whether scores sum out the hidden units
    ("marginal") or maximise over them ("max").
    """
    visible = _search(posterior, query, hidden)
    if posterior.allow_empty:
        return visible
    energy = posterior.energy
    free = _free_outputs(posterior, visible.shape)
    rows = np.flatnonzero(~visible.any(axis=1) & free.any(axis=1))
    if not len(rows):
        return visible
    gain = energy.rows(rows).visible_log_odds(visible[rows], hidden)
    first = np.argsort(-np.where(free[rows], gain, -np.inf), axis=1, kind="stable")
    for label in first[:, :_FIRST_LABELS].T:  # clamp each label to 1 in turn
        possible = np.flatnonzero(free[rows, label])
        index = rows[possible]
        known = np.full(visible.shape, np.nan) if posterior.known is None else posterior.known
        known = known[index].copy()
        known[np.arange(len(index)), label[possible]] = 1
        rival = _search(posterior.rows(index)._replace(known=known), query, hidden)
        part, here = energy.rows(index), visible[index]
        better = unchecked(part.log_weight)(rival, hidden) > unchecked(part.log_weight)(
            here, hidden
        )
        better |= ~here.any(axis=1)
        visible[index] = np.where(better[:, None], rival, here)
    return visible


def best_outputs_with_gap(posterior: Posterior) -> CertifiedLabels:
    """Return the outputs of the best state, its negated score, and a bound on the optimality gap.

    The outputs, scores and bounds come from the inference method of the posterior. In contrast to
    `best_outputs`, the outputs are not improved by flips. If the best vector of a row is empty, but
    `allow_empty` is False, the search is repeated for each free label, with this label clamped to
    1, and the best answer is returned. Labels whose bound shows that they cannot give a better
    answer are left out. The answer is exact if the method is exact.
    """
    labels, value, gap = (np.array(part) for part in _certified(posterior))
    if posterior.allow_empty:
        return CertifiedLabels(labels, value, gap)
    free = _free_outputs(posterior, labels.shape)
    first = empty = np.flatnonzero(~labels.any(axis=1) & free.any(axis=1))
    # Lower bounds of the values of all vectors in which a given label is on.
    gained = _most_gained(posterior.energy.rows(first))
    bounds = np.where(free[first], value[first, None] - gained, np.inf)
    lower = value - gap
    lower[empty] = value[empty] = np.inf
    order = np.argsort(bounds, axis=1, kind="stable")
    bounds = np.take_along_axis(bounds, order, axis=1)
    for place in range(labels.shape[1]):  # the next label of each row that may still be better
        worth = bounds[:, place] < value[empty]
        empty, order, bounds = empty[worth], order[worth], bounds[worth]
        if not len(empty):
            break
        held = np.full(labels.shape, np.nan) if posterior.known is None else posterior.known
        held = held[empty].copy()
        held[np.arange(len(empty)), order[:, place]] = 1
        rival = _certified(posterior.rows(empty)._replace(known=held))
        lower[empty] = np.minimum(lower[empty], rival[1] - rival[2])
        better = rival[1] < value[empty]
        labels[empty[better]], value[empty[better]] = rival[0][better], rival[1][better]
    gap[first] = np.maximum(value[first] - lower[first], 0.0)
    return CertifiedLabels(labels, value, gap)


def _most_gained(energy):
    """Return upper bounds (N, V) of the gain in score over the empty vector with a given label on.

    The bound is infinite if the energy is not an `IsingEnergy`. Let g_k be the field of label k if
    all labels are off, and s_ik a coupling. If label i and the labels of a set A are switched on,
    the score rises by ``2 g_i + sum_{k in A} (2 g_k + 4 s_ik + 2 sum_{l in A, l != k} s_kl)``. The
    bound replaces the inner sum by the sum of the positive couplings s_kl over all labels l other
    than i and k. It then takes as A the labels k whose term of the outer sum is positive.
    """
    if not isinstance(energy, IsingEnergy):
        return np.full((energy.n_models, energy.n_visible), np.inf)
    coupling = energy.coupling_matrix()
    positive = np.maximum(coupling, 0.0)
    with_label = 4.0 * coupling - 2.0 * positive
    gained = 2.0 * (energy.field - coupling.sum(axis=0))
    terms = gained + 2.0 * positive.sum(axis=0)
    largest = terms + with_label.max(axis=1, initial=0.0)
    for row, term, most in zip(gained, terms, largest):
        labels = np.flatnonzero(most > 0)
        added = np.maximum(term[labels, None] + with_label[labels], 0.0)
        added[np.arange(len(labels)), labels] = 0.0
        row += added.sum(axis=0)
    return gained


def least_hinge_loss(posterior: Posterior) -> CertifiedLabels:
    """Return the labels with the least hinge loss, their loss, and a bound on the optimality gap.

    The loss is ``sum_i max(margin - y_i (f_i + sum_k s_ik y_k), 0)`` over y in {-1, +1}^L, with the
    fields f_i and the couplings s_ik. With cliques of more than two labels, the expression in
    parentheses is half of the log-odds of label i given the other labels. Known labels are clamped,
    and their terms are part of the loss. Among vectors of equal loss, the vector with the highest
    score is chosen. If the scores are equal, too, the choice follows the lexicographic order of the
    vectors, or with more than 20 labels the order in which the search visits the vectors. The
    search uses the posterior's method for "map", or branch and bound if there is no such method.
    """
    method = posterior.state_methods.get("map") or resolve_method("branch_and_bound")
    energy, evidence = posterior.energy, posterior.evidence()
    if evidence is not None:
        energy = energy.condition(evidence)
    found = find_labels(energy, method, posterior.margin, n_jobs=posterior.n_jobs)
    return CertifiedLabels(found.labels, found.value, found.gap)


def _free_outputs(posterior, shape):
    """Return a bool array of the given shape (N, V), True for outputs that are not known."""
    return np.ones(shape, bool) if posterior.known is None else np.isnan(posterior.known)


def _certified(posterior):
    """Return the outputs of the best state, its negated score, and a bound on the optimality gap.

    The bound is infinite if the method computes no bound.
    """
    energy = posterior.energy
    method = posterior.state_methods.get("map") or _method_for(energy, "map")[0]
    bounded = "map_bound" in method.supports(energy)
    result = posterior.infer(method, returns=("map", "map_bound") if bounded else "map")
    gap = result.gap if bounded else np.full(energy.n_models, np.inf)
    labels = result.assignment[:, : energy.n_visible]
    return labels, -energy.score(result.assignment), gap


def _search(posterior, query, hidden):
    energy = posterior.energy
    own = posterior.state_methods.get(query)
    method, improvable = (own, False) if own else _method_for(energy, query)
    visible = posterior.infer(method, returns=query).assignment[:, : energy.n_visible]
    if improvable and energy.n_statistics <= _POLISHED_COUPLINGS:
        return _best_after_flips(posterior, visible, hidden)
    return visible


def _method_for(energy, query):
    """Return the default inference method for a query, and False if its result is exact.

    A result that is not exact should be improved by flips of single outputs.
    """
    if energy.n_enumerated(query) <= AUTO_EXACT_UNITS:
        return Exact(), False
    if query == "map" and isinstance(energy, IsingEnergy):
        return resolve_method("branch_and_bound"), True  # it proves most of its states optimal
    passing = {"map": MaxProduct, "marginal_map": MixedProduct}[query](**_RESTARTS)
    if query in passing.supports(energy):
        return passing, True
    others = [name for name in available_methods(energy, query) if name != "exact"]
    return resolve_method((*others, "exact")[0]), True


def _best_after_flips(posterior, visible, hidden):
    """Improve the given outputs and the best label set by flips; return the better of the two."""
    energy = posterior.energy
    visible = _improve_by_flips(posterior, visible, hidden)
    if 0 < len(posterior.label_sets) <= _POLISHED_SETS:
        rival = _improve_by_flips(posterior, best_label_sets(posterior, hidden), hidden)
        better = unchecked(energy.log_weight)(rival, hidden) > unchecked(energy.log_weight)(
            visible, hidden
        )
        visible = np.where(better[:, None], rival, visible)
    return visible


def _improve_by_flips(posterior, visible, hidden):
    """Flip the free output that raises `log_weight` most, until no flip raises it."""
    energy = posterior.energy
    visible = visible.copy()
    free = _free_outputs(posterior, visible.shape)
    tolerance = 1e3 * np.finfo(energy.dtype).eps
    rows = np.arange(energy.n_models)
    while len(rows):
        part, here = energy.rows(rows), visible[rows]
        gain = np.where(here > 0, -1, 1) * unchecked(part.visible_log_odds)(here, hidden)
        gain[~free[rows]] = -np.inf
        best = gain.argmax(axis=1)
        scale = 1 + np.abs(unchecked(part.log_weight)(here, hidden))
        gains = gain[np.arange(len(rows)), best] > tolerance * scale
        rows, best = rows[gains], best[gains]
        visible[rows, best] = 1 - visible[rows, best]
    return visible
