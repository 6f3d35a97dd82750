"""Choose C and pairwise_penalty of LMBMClassifier, and validate its parameter cliques."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skcrbm.energies import BaseEnergy, IsingEnergy
from skcrbm.energies.cliques import clique_energy, n_table_entries
from skcrbm.energies.states import signs_of
from skcrbm.estimators._base import Rows
from skcrbm.inference import BranchAndBound
from skcrbm.inference.search.labels import find_labels
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem, fit_large_margin
from skcrbm.learning.penalty_path import geometric_penalties, penalty_path
from skcrbm.model_selection.folds import search_folds
from skcrbm.targets.label_sets import may_be_empty
from skcrbm.targets.weights import (
    count_rows_of,
    first_copies,
)
from skcrbm.utils.fitting import LiveLine
from skcrbm.utils.graphs import checked_cliques, cliques_of_sizes
from skcrbm.utils.limits import MAX_CLIQUE_ENTRIES
from skcrbm.utils.options import is_auto, option_name
from skcrbm.utils.parallel import linear_fields

# Minimum number of rows with an observed label for a search of C and eta (`pairwise_penalty`).
_FEW_ROWS = 50
# If there are too few rows for a search, C is _C divided by the total variance of the columns, and
# eta is _RATIO times C times the sum of the row weights. Otherwise the search for C starts at this
# value of C and tries smaller values first, because they are usually better. It goes at most
# _MOST_STEPS steps in each direction.
_C, _RATIO, _MOST_STEPS = 3.0, 3.0, 6
# The search evaluates as many folds as are needed for about this number of held-out rows.
_FOLD_ROWS = 3000
# Values of eta / (C N), where N is the sum of the row weights. The search tries the values in
# order. It stops when a value gives worse labels, or when a label search reaches its node limit.
_RATIOS = (10.0, 3.0, 1.0, 0.3, 0.1)
# Tolerance and maximum number of passes of the fits on folds. They are coarse, because the choice
# of C and eta needs no precise optimum.
_TOL, _MAX_ITER = 1e-2, 50
# Number of nodes that a label search may visit for each validation row. A value of eta that needs
# more nodes is rejected. The limit is a 50th of the default limit in prediction, so that the chosen
# model predicts quickly and with a proof of optimality.
_NODES = 1000


# -------------------------------------------------------------------------- cliques


def label_cliques(estimator) -> list[tuple[int, ...]]:
    """Return the cliques of three or more labels, as tuples of indices of labels.

    A ValueError is raised unless the parameter `cliques` of the estimator is None, a size, or a
    list of distinct sets of at least three labels. Lists are valid only for a 2-D y. A ValueError
    is also raised if the tables of all cliques would be too large for inference.
    """
    targets, cliques = estimator._targets, estimator.cliques
    n_labels = targets.n_visible
    words = "cliques must be None, an int of at least 2, or a list of sets of at least 3 labels"
    if cliques is None:
        return []
    if isinstance(cliques, Integral):
        if isinstance(cliques, bool) or cliques < 2:
            raise ValueError(f"{words}; got {cliques!r}")
        largest = min(int(cliques), n_labels) if targets.multilabel else 0
        sizes = range(3, largest + 1)
        return _with_small_tables(cliques_of_sizes(n_labels, sizes, f"cliques={cliques}", "labels"))
    targets.require_multilabel("cliques")
    names = {} if targets.names is None else {str(n): i for i, n in enumerate(targets.names)}
    try:
        cliques = cliques if isinstance(cliques, Set) else list(cliques)
        by_number = [[_label_number(label, names) for label in clique] for clique in cliques]
    except TypeError as error:
        raise ValueError(f"{words}: {error}") from error
    found = checked_cliques(by_number, n_labels, words, "labels")
    wrong = [j for j, clique in enumerate(found) if len(clique) < 3]
    if wrong:
        raise ValueError(
            f"{words}, because all pairs have a weight in any case; cliques[{wrong[0]}] is "
            f"{list(found[wrong[0]])}"
        )
    # Labels and cliques that the user gave as sets are sorted, because the order of a set of
    # strings differs between processes.
    found = [tuple(sorted(c)) if isinstance(g, Set) else c for c, g in zip(found, cliques)]
    return _with_small_tables(sorted(found) if isinstance(cliques, Set) else found)


def _with_small_tables(cliques):
    """Return the cliques; raise a ValueError if their tables would have too many entries.

    Training needs no tables, but all methods of the fitted model do.
    """
    n_entries = n_table_entries(cliques, np.ones(len(cliques)))
    if n_entries > MAX_CLIQUE_ENTRIES:
        raise ValueError(
            f"the tables of all cliques would have {n_entries} entries, 2^k for a clique of k "
            f"labels, but predictions are limited to {MAX_CLIQUE_ENTRIES}; choose fewer or smaller "
            "cliques"
        )
    return cliques


def _label_number(label, names):
    """Return the index of a label that the user gave by its index or its name.

    `names` maps the names of labels to their indices. An index is returned unchanged.
    """
    if isinstance(label, str):
        if label not in names:
            raise ValueError(
                f"cliques contains the unknown label {label!r}; labels are: "
                f"{', '.join(map(repr, names)) or 'numbers, because y has no names'}"
            )
        return names[label]
    return label


def label_energy(
    coupling: np.ndarray, fields: np.ndarray, cliques=(), weights: np.ndarray | tuple = ()
) -> BaseEnergy:
    """Return an energy of N models with L labels, which differ only in the fields (N, L).

    The weights of pairs, `coupling` (L, L), and the weights `weights` of the `cliques` are the same
    in all models.
    """
    if not len(cliques):
        return IsingEnergy(coupling, fields)
    first, second = np.triu_indices(len(coupling), 1)
    pairs = list(zip(first.tolist(), second.tolist()))
    weights = np.concatenate([coupling[first, second], weights])
    return clique_energy([*pairs, *cliques], weights, len(coupling), fields)


# ---------------------------------------------------------------- C and pairwise_penalty


def weights_of_search(estimator, visible, weight, origin) -> tuple[np.ndarray, float]:
    """Return the row weights, and the mean by which they were divided.

    If C is searched, the weights are divided by their mean and rounded to single precision.
    Multiplying all weights by a constant then gives exactly the same fit. If C is given, or there
    are too few rows for a search, the weights are returned unchanged, together with the number 1,
    so that a row of weight 2 counts as two copies of the row.
    """
    if not is_auto(estimator.C) or _has_few_rows(visible[first_copies(origin)]):
        return weight, 1.0
    mean = float(weight.sum() / count_rows_of(origin, len(weight)))
    return (weight / mean).astype(np.float32).astype(weight.dtype), mean


def _has_few_rows(visible):
    """Return True if there are too few rows with an observed label for a search."""
    return np.count_nonzero(~np.isnan(visible).all(axis=1)) < _FEW_ROWS


class ChosenPenalties(NamedTuple):
    """Chosen values of C and eta. `tried` and `dual` are None if there was no search."""

    C: float
    penalty: float  # eta
    tried: dict | None = None  # see the attribute `path_`
    dual: np.ndarray | None = None  # (N, L): initial dual variables of the fit


def choose_penalties(estimator, rows: Rows, factors, columns, cliques, rng) -> ChosenPenalties:
    """Return C and eta: the given numbers, or the values that are best in cross-validation.

    If C is "auto", the columns of X must be scaled, and `columns` describes the scales; otherwise
    `columns` is None. `factors`, of shape (N, L) or (N, 1), holds the factors by which
    `class_weight` multiplies the weights of the L labels in the N rows.
    """
    X, visible, weight, origin = rows
    one_hot = estimator._targets.one_hot
    C, penalty = estimator.C, estimator.pairwise_penalty
    # If y is one-hot, pairs of labels get no weights. The weights would only learn that exactly one
    # label is 1.
    if one_hot or (visible.shape[1] == 1 and is_auto(penalty)):
        penalty = np.inf
    find_C, find_penalty = columns is not None, is_auto(penalty)
    if not find_C and not find_penalty:
        return ChosenPenalties(C, penalty)
    if find_C:
        C = _C / columns.variance if columns.variance > 0 else _C
    first = visible[first_copies(origin)]
    if _has_few_rows(first):
        return ChosenPenalties(C, _RATIO * C * weight.sum() if find_penalty else penalty)
    seed = rng.randint(np.iinfo(np.int32).max)
    rule = "map" if option_name(estimator.decode) == "map" else "hinge"
    line = LiveLine(estimator.verbose)
    search = PenaltySearch(
        X,
        signs_of(visible),
        weight,
        factors,
        estimator.margin,
        "one_hot" if one_hot else rule,
        rule == "hinge" or may_be_empty(first),
        cliques,
        search_folds(visible, origin, _FOLD_ROWS, seed),
        rng,
        estimator.n_jobs,
        lambda row: line.show(_progress_text(row)),
    )
    try:
        if find_C:
            C = search.choose_C(C, np.inf if find_penalty else penalty)
        if find_penalty:
            penalty = search.choose_penalty(C)
    finally:
        line.end()
    tried = {name: np.array([row[name] for row in search.tried]) for name in search.tried[0]}
    return ChosenPenalties(C, penalty, tried, search.mean_dual(C))


def _progress_text(row):
    return (
        f"C {row['C']:.3g}  pairwise_penalty {row['pairwise_penalty']:.3g}  "
        f"Hamming {row['hamming']:.4f}  Jaccard {row['jaccard']:.4f}"
    )


@dataclass
class PenaltySearch:
    """Search for C and eta by cross-validation of the predicted labels.

    The best values minimise ``log(Hamming loss) - log(Jaccard index)`` of the test rows. A change
    of C often improves one of the two metrics and harms the other. Because of the logarithms, a
    relative change of 1 % in either metric has the same effect. Each fit starts from the dual
    variables of the previous fit on the same fold.
    """

    X: np.ndarray | sparse.csr_matrix  # (N, D): features of the rows
    signs: np.ndarray  # (N, L) int8: labels -1 and 1, and 0 for missing labels
    weight: np.ndarray  # (N,): weights of the rows
    factors: np.ndarray  # (N, L) or (N, 1): weights of the loss and of the errors of each label
    margin: float
    rule: str  # "map", "hinge" or "one_hot" (the label with the highest score)
    allow_empty: bool  # True if predicted rows may have no label 1
    cliques: list
    folds: list  # pairs (train, test) of row indices
    rng: np.random.RandomState
    n_jobs: int | None = None
    report: Callable[[dict], None] | None = None  # called with each new dict in `tried`
    # A dict for each pair of tried values: "C" and "pairwise_penalty" (for a fit on all rows), and
    # the scores "hamming" and "jaccard" of the test rows.
    tried: list = field(default_factory=list)

    def __post_init__(self):
        # Dual variables of the latest fit on each fold, divided by C.
        self._dual: list[Any] = [None] * len(self.folds)
        tests = np.concatenate([test for _, test in self.folds])
        self._share = self.weight[tests] / self.weight[tests].sum()
        self._errors_without_pairs = {}  # dict {C: errors (n, 2) of the n test rows}

    def choose_C(self, center: float, penalty: float = np.inf) -> float:
        """Find the best C for a given eta among `center` times powers of sqrt(10)."""
        return penalty_path(
            lambda C, _: self._errors_of(C, penalty, proven=False),
            lambda errors: -self._value(errors),
            geometric_penalties(center, _MOST_STEPS, _MOST_STEPS)[::-1],
            _MOST_STEPS,
        ).penalty

    def choose_penalty(self, C: float) -> float:
        """Return the best eta for a given C.

        If weights of pairs do not improve the score by more than its standard error, eta is
        infinite.
        """

        def errors_with(penalty, _):
            if penalty == np.inf and C in self._errors_without_pairs:
                return self._errors_without_pairs[C]
            return self._errors_of(C, penalty, proven=penalty < np.inf)

        weight = self.weight.sum()
        found = penalty_path(
            errors_with,
            lambda errors: -np.inf if errors is None else -self._value(errors),
            [np.inf, *(ratio * C * weight for ratio in _RATIOS)],
            ends=lambda trial, best: (
                trial.fitted is None or self._gain(trial.fitted, best.fitted) > 0
            ),
        )
        improved = self._gain(self._errors_without_pairs[C], found.best.fitted) > 0
        return found.penalty if improved else np.inf

    def mean_dual(self, C: float) -> np.ndarray:
        """Average the dual variables (N, L) over the folds, as a start for the fit on all rows.

        No method may be called after this method, because it overwrites the dual variables to save
        memory.
        """
        count = np.zeros(len(self.signs))
        for train, _ in self.folds:
            count[train] += 1
        dual = self._dual.pop(0)
        while self._dual:
            dual += self._dual.pop()
        dual *= (C / np.maximum(count, 1))[:, None]
        return dual

    def _means(self, errors):
        """Return the weighted means of the Hamming loss and the Jaccard index, plus constants.

        `errors` (n, 2) holds both metrics for each test row. The small constants make both means
        positive, so that their logarithms are finite.
        """
        hamming, jaccard = self._share @ errors
        return hamming + 1.0 / self.signs.size, jaccard + 1.0 / len(self.signs)

    def _value(self, errors):
        hamming, jaccard = self._means(errors)
        return np.log(hamming) - np.log(jaccard)

    def _gain(self, errors, better):
        """Return the improvement of the score from `errors` to `better`, minus a standard error.

        Both arguments (n, 2) hold the Hamming loss and the Jaccard index of the test rows. The
        score is ``log(Hamming loss) - log(Jaccard index)``, so smaller scores are better. The
        standard error belongs to the difference of the two scores.
        """
        hamming, jaccard = self._means(errors)
        # To first order, the difference of the scores is a mean over rows, so that its standard
        # error follows from the variance over rows.
        rows = (errors - better) @ [1.0 / hamming, -1.0 / jaccard]
        mean = self._share @ rows
        spread = self._share @ (rows - mean) ** 2
        return mean - np.sqrt(spread / len(rows))

    def _errors_of(self, C, penalty, proven):
        """Fit all folds; return the Hamming losses and Jaccard indices (n, 2) of the test rows.

        If `proven` is True, the predicted labels must be proven to be optimal: the result is None
        if the label search reaches its node limit for a test row.
        """
        errors = []
        for k, (train, test) in enumerate(self.folds):
            # Set the upper limits of the dual variables of test rows to 0, so that these rows have
            # no effect on the fit. Then X need not be copied without the test rows (except with
            # cliques).
            limit = C * self.weight[:, None] * self.factors
            limit[test] = 0.0
            problem = LargeMarginProblem(
                self.X,
                self.signs,
                limit,
                self.margin,
                penalty * (self.weight[train].sum() / self.weight.sum()),
                self.cliques,
            )
            start, self._dual[k] = self._dual[k], None
            if start is not None:
                start *= C
            fitted = fit_large_margin(
                problem, tol=_TOL, max_iter=_MAX_ITER, rng=self.rng, dual=start
            )
            if fitted.reason == "interrupted":
                raise KeyboardInterrupt
            self._dual[k] = np.divide(fitted.dual, C, out=fitted.dual)
            labels, certain = self._predict(fitted, self.X[test])
            if proven and not certain:
                return None
            errors.append(self._row_errors(labels, test))
        errors = np.concatenate(errors)
        if penalty == np.inf:
            self._errors_without_pairs[C] = errors
        hamming, jaccard = self._share @ errors
        self.tried.append(
            {"C": C, "pairwise_penalty": penalty, "hamming": hamming, "jaccard": jaccard}
        )
        if self.report is not None:
            self.report(self.tried[-1])
        return errors

    def _predict(self, fitted, X):
        """Return the predicted labels (n, L), and True if all are proven to be optimal."""
        fields = linear_fields(X, fitted.coef, fitted.intercept)
        if self.rule == "one_hot":
            return np.arange(fields.shape[1]) == fields.argmax(axis=1)[:, None], True
        labels, certain = fields > 0, True
        if fitted.pairwise.any() or fitted.clique.any():
            found = find_labels(
                label_energy(fitted.pairwise, fields, self.cliques, fitted.clique),
                BranchAndBound(node_limit=_NODES),
                self.margin if self.rule == "hinge" else None,
                n_jobs=self.n_jobs,
            )
            labels, certain = found.labels > 0, bool(found.converged.all())
        if not self.allow_empty:
            rows = np.flatnonzero(~labels.any(axis=1))
            labels[rows, (fields[rows] - fitted.pairwise.sum(axis=1)).argmax(axis=1)] = True
        return labels, certain

    def _row_errors(self, labels, test):
        """Return the Hamming loss and the Jaccard index of each of n test rows, an array (n, 2).

        `labels` holds the predicted labels. Missing labels do not count.
        """
        cost = self.factors[test] * (self.signs[test] != 0)
        present = self.signs[test] > 0
        total, agreed, union, both = (
            (cost * each).sum(axis=1)
            for each in (True, labels == present, labels | present, labels & present)
        )
        return np.column_stack(
            [
                np.divide(total - agreed, total, out=np.zeros_like(total), where=total > 0),
                np.divide(both, union, out=np.ones_like(total), where=union > 0),
            ]
        )
