"""Automatic choices of LMBMClassifier (C and pairwise_penalty), and its cliques."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skcrbm.energies import BaseEnergy, IsingEnergy
from skcrbm.energies.cliques import clique_energy
from skcrbm.inference import BranchAndBound
from skcrbm.inference.label_search import find_labels
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem, fit_large_margin
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.utils.fitting import LiveLine
from skcrbm.utils.graphs import checked_cliques, cliques_of_sizes
from skcrbm.utils.labels import may_be_empty, signs_of
from skcrbm.utils.limits import MAX_TABLE_VARIABLES
from skcrbm.utils.options import is_auto, option_name
from skcrbm.utils.parallel import linear_fields

# Maximum number of labels in a clique, whose weight becomes a table of the factor graph.
MAX_ORDER = MAX_TABLE_VARIABLES
# With fewer rows than this there is no search. C times the total variance of the columns is then
# _C, and eta / (C N) is _RATIO. With more rows the search for C starts near _C.
_FEW_ROWS = 50
_C, _RATIO = 3.0, 3.0
# Number of folds of the split; the search evaluates folds until they have this many rows in total.
_N_FOLDS, _FOLD_ROWS = 5, 3000
# The search tries C = centre * _STEP**k, for k between _LIMITS, starting at k = _START. This is one
# step below the centre, because smaller values of C are usually better.
_STEP, _START, _LIMITS = np.sqrt(10.0), -1, (-6, 6)
# Values of eta / (C N), tried in order until a value gives worse labels or a slow label search.
_RATIOS = (10.0, 3.0, 1.0, 0.3, 0.1)
# Tolerance and maximum number of passes of fits on folds; the choice needs no precise optimum.
_TOL, _MAX_ITER = 1e-2, 50
# Node limit of the label search for each validation row. It is a 50th of the default in prediction,
# so that models that pass this limit predict quickly and with a proof of optimality.
_NODES = 1000


# -------------------------------------------------------------------------- cliques


def label_cliques(estimator) -> list[tuple[int, ...]]:
    """Return the cliques of three and more labels, as tuples of label numbers.

    Raise a ValueError unless `cliques` is None, a size, or (for a 2-D y only) a list of distinct
    sets of three to six labels.
    """
    targets, cliques = estimator._targets, estimator.cliques
    n_labels = targets.n_visible
    words = (
        f"cliques must be None, an int from 2 to {MAX_ORDER}, or a list of sets of 3 to "
        f"{MAX_ORDER} labels"
    )
    if cliques is None:
        return []
    if isinstance(cliques, Integral):
        if isinstance(cliques, bool) or not 2 <= int(cliques) <= MAX_ORDER:
            raise ValueError(f"{words}; got {cliques!r}")
        largest = min(int(cliques), n_labels) if targets.multilabel else 0
        return cliques_of_sizes(n_labels, range(3, largest + 1), f"cliques={cliques}", "labels")
    targets.require_multilabel("cliques")
    names = {} if targets.names is None else {str(n): i for i, n in enumerate(targets.names)}
    try:
        cliques = cliques if isinstance(cliques, Set) else list(cliques)
        by_number = [[_label_number(label, names) for label in clique] for clique in cliques]
    except TypeError as error:
        raise ValueError(f"{words}: {error}") from error
    found = checked_cliques(by_number, n_labels, words, "labels")
    wrong = [j for j, clique in enumerate(found) if not 3 <= len(clique) <= MAX_ORDER]
    if wrong:
        raise ValueError(
            f"{words}, because all pairs have a weight in any case; cliques[{wrong[0]}] is "
            f"{list(found[wrong[0]])}"
        )
    # Sort labels and cliques that the user gave as sets, because the order of a set of strings
    # differs between processes.
    found = [tuple(sorted(c)) if isinstance(g, Set) else c for c, g in zip(found, cliques)]
    return sorted(found) if isinstance(cliques, Set) else found


def _label_number(label, names):
    """Return the number of a label that is given by its number or its name."""
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
    """Return the energy with the fields (N, L) of rows, pair weights `coupling` and cliques."""
    if not len(cliques):
        return IsingEnergy(coupling, fields)
    first, second = np.triu_indices(len(coupling), 1)
    pairs = list(zip(first.tolist(), second.tolist()))
    weights = np.concatenate([coupling[first, second], weights])
    return clique_energy([*pairs, *cliques], weights, len(coupling), fields)


# ---------------------------------------------------------------- C and pairwise_penalty


def weights_of_search(estimator, visible, weight) -> tuple[np.ndarray, float]:
    """Return the row weights, and the mean by which they were divided.

    If C is searched, the weights are divided by their mean and rounded to single precision, so
    that a constant factor of all weights gives exactly the same fit. If C is given, or there are
    too few rows for a search, they are returned unchanged, with a mean of 1: a weight of 2 then
    counts as two copies of a row.
    """
    if not is_auto(estimator.C) or _has_few_rows(visible):
        return weight, 1.0
    mean = float(weight.mean())
    return (weight / mean).astype(np.float32).astype(weight.dtype), mean


def _has_few_rows(visible):
    """Return True if there are too few rows with an observed label for a search."""
    return np.count_nonzero(~np.isnan(visible).all(axis=1)) < _FEW_ROWS


class ChosenPenalties(NamedTuple):
    """Values of C and eta; `tried` and `dual` are None without a search."""

    C: float
    penalty: float  # eta
    tried: dict | None = None  # values tried and their scores, the attribute `path_`
    dual: np.ndarray | None = None  # dual variables (N, L) from which to start the fit


def choose_penalties(
    estimator, X, visible, weight, factors, columns, cliques, rng
) -> ChosenPenalties:
    """Return C and eta: the given numbers, or the values that are best in cross-validation.

    X is scaled if C is "auto"; `columns` then has its scales, and otherwise is None. `factors`,
    (N, L) or (N, 1), are the weights by `class_weight`.
    """
    one_hot = estimator._targets.one_hot
    C, penalty = estimator.C, estimator.pairwise_penalty
    # A one-hot label is determined by the other labels, and pair weights would learn only that.
    if one_hot or (visible.shape[1] == 1 and is_auto(penalty)):
        penalty = np.inf
    find_C, find_penalty = columns is not None, is_auto(penalty)
    if not find_C and not find_penalty:
        return ChosenPenalties(C, penalty)
    if find_C:
        C = _C / columns.variance if columns.variance > 0 else _C
    if _has_few_rows(visible):
        return ChosenPenalties(C, _RATIO * C * weight.sum() if find_penalty else penalty)
    splitter = MultilabelStratifiedKFold(
        _N_FOLDS, shuffle=True, random_state=rng.randint(np.iinfo(np.int32).max)
    )
    n_folds = int(np.clip(_FOLD_ROWS // len(visible), 1, _N_FOLDS))
    rule = "map" if option_name(estimator.decode) == "map" else "hinge"
    line = LiveLine(estimator.verbose)
    search = PenaltySearch(
        X,
        signs_of(visible),
        weight,
        factors,
        estimator.margin,
        "one_hot" if one_hot else rule,
        rule == "hinge" or may_be_empty(visible),
        cliques,
        list(splitter.split(visible, visible))[:n_folds],
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
    of C often improves one of these scores and harms the other; on the logarithmic scale a change
    of 1 % in either score counts the same. Each fit starts from the dual variables of the previous
    fit on its fold.
    """

    X: np.ndarray | sparse.csr_matrix  # (N, D)
    signs: np.ndarray  # (N, L) int8; 0 for missing labels
    weight: np.ndarray  # (N,)
    factors: np.ndarray  # (N, L) or (N, 1): weights of the loss and of the errors of each label
    margin: float
    rule: str  # "map", "hinge" or "one_hot" (the label with the highest score)
    allow_empty: bool  # True if a row may be predicted without any label
    cliques: list
    folds: list  # pairs (train, test) of row indices
    rng: np.random.RandomState
    n_jobs: int | None = None
    report: Callable[[dict], None] | None = None  # called with each dict of `tried`
    # Dicts of the values tried, "C" and "pairwise_penalty" (for all rows), and their scores on the
    # test rows, "hamming" and "jaccard".
    tried: list = field(default_factory=list)

    def __post_init__(self):
        self._dual: list[Any] = [None] * len(self.folds)  # of each fold, divided by C
        tests = np.concatenate([test for _, test in self.folds])
        self._share = self.weight[tests] / self.weight[tests].sum()
        self._errors_without_pairs = {}  # maps C to errors (n, 2) of the test rows

    def choose_C(self, center: float, penalty: float = np.inf) -> float:
        """Return the best C for a given eta, searched in steps of sqrt(10) around `center`."""
        values = {}

        def value(step):
            if step not in values:
                C = center * _STEP**step
                values[step] = self._value(self._errors_of(C, penalty, proven=False))
            return values[step]

        best = _START
        for direction in (1, -1):
            while _LIMITS[0] < best < _LIMITS[1] and value(best + direction) < value(best):
                best += direction
            if best != _START:
                break
        return center * _STEP**best

    def choose_penalty(self, C: float) -> float:
        """Return the best eta for a given C.

        The result is infinity unless pairs improve the score by more than its standard error.
        """
        if C not in self._errors_without_pairs:
            self._errors_of(C, np.inf, proven=False)
        first = self._errors_without_pairs[C]
        best, best_errors = np.inf, first
        for ratio in _RATIOS:
            errors = self._errors_of(C, ratio * C * self.weight.sum(), proven=True)
            if errors is None:
                break
            if self._value(errors) < self._value(best_errors):
                best, best_errors = ratio, errors
            elif self._gain(errors, best_errors) > 0:
                break
        if self._gain(first, best_errors) <= 0:
            return np.inf
        return best * C * self.weight.sum()

    def mean_dual(self, C: float) -> np.ndarray:
        """Return the dual variables (N, L) averaged over folds, as a start of the fit on all rows.

        This must be the last call, because it overwrites the dual variables to save memory.
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
        """Return the Hamming loss and the Jaccard index, raised slightly to make both positive."""
        hamming, jaccard = self._share @ errors
        return hamming + 1.0 / self.signs.size, jaccard + 1.0 / len(self.signs)

    def _value(self, errors):
        hamming, jaccard = self._means(errors)
        return np.log(hamming) - np.log(jaccard)

    def _gain(self, errors, better):
        """Return by how much `better` has a smaller value than `errors`, minus a standard error."""
        hamming, jaccard = self._means(errors)
        # To first order, the difference is a mean over rows, so its standard error is known.
        rows = (errors - better) @ [1.0 / hamming, -1.0 / jaccard]
        mean = self._share @ rows
        spread = self._share @ (rows - mean) ** 2
        return mean - np.sqrt(spread / len(rows))

    def _errors_of(self, C, penalty, proven):
        """Fit all folds; return the Hamming losses and Jaccard indices (n, 2) of the test rows.

        If `proven` is True, return None as soon as the predicted labels of a test row are not
        proven to be optimal.
        """
        errors = []
        for k, (train, test) in enumerate(self.folds):
            # A limit of 0 for the dual variables of test rows leaves these rows out of training
            # without a copy of X (except with cliques).
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
        """Return predicted labels (n, L), and True if all of them are proven to be optimal."""
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
        """Return the Hamming loss and the Jaccard index, (n, 2), of the labels of each test row.

        Only observed labels count.
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
