"""C and eta of the large margin machine, chosen by validation along a path of warm starts."""

from dataclasses import dataclass, field

import numpy as np

from skcrbm.energies.cliques import label_energy
from skcrbm.inference import BranchAndBound
from skcrbm.inference.label_search import find_labels
from skcrbm.learning.large_margin.dual_coordinate import LargeMarginProblem, fit_large_margin
from skcrbm.utils.columns import linear_fields

# C is tried in these steps around the given one; as a rule less is better, so it begins there.
_STEP, _START, _LIMITS = np.sqrt(10.0), -1, (-6, 6)
# eta / (C N), tried in turn until they do worse or the search for the labels becomes long.
_RATIOS = (10.0, 3.0, 1.0, 0.3, 0.1)
# A choice does not need the optimum of a fold.
_TOL, _MAX_ITER = 1e-2, 50
# Of a row in validation. Prediction may take 50 times as many by default, so that with what
# passes here its labels are soon found and proven.
_NODES = 1000


@dataclass
class LargeMarginSearch:
    """What C and eta are chosen by: labels predicted for the test parts of some folds.

    The choice has the least ``log(Hamming loss) - log(Jaccard index)``: a per cent of the one
    is worth a per cent of the other, as C moves both, often in opposite directions.

    Attributes
    ----------
    X : ndarray or CSR matrix (N, D)
    signs : ndarray of int8 (N, L)
        -1, 0 (not observed) and +1.
    weight : ndarray (N,)
    factors : ndarray (N, L) or (N, 1)
        Of each label's loss and of what its errors cost, beside the weight of its row.
    margin : float
    rule : {"hinge", "map", "one_hot"}
        The labels that are judged; with "one_hot" the one of the highest score.
    allow_empty : bool
        Whether they may be none.
    cliques : sequence of tuples of int
        Of three labels or more.
    folds : list of (train, test)
    rng : RandomState
    n_jobs : int or None
    report : callable or None
        Called with each row of `tried`.
    tried : list of dict
        "C", "pairwise_penalty" (for all rows), and "hamming" and "jaccard" of the test parts.
    """

    X: object
    signs: np.ndarray
    weight: np.ndarray
    factors: np.ndarray
    margin: float
    rule: str
    allow_empty: bool
    cliques: tuple
    folds: list
    rng: object
    n_jobs: int | None = None
    report: object = None
    tried: list = field(default_factory=list)

    def __post_init__(self):
        self._dual = [None] * len(self.folds)  # divided by C
        tests = np.concatenate([test for _, test in self.folds])
        self._share = self.weight[tests] / self.weight[tests].sum()
        self._without_pairs = {}  # C -> errors

    def choose_C(self, center, penalty=np.inf):
        """C by a climb in steps of the square root of 10, with a given eta.

        Parameters
        ----------
        center : float
            Where about to look.
        penalty : float
        """
        values = {}

        def value(step):
            if step not in values:
                C = center * _STEP**step
                values[step] = self._value(self._judge(C, penalty, proven=False))
            return values[step]

        best = _START
        for direction in (1, -1):
            while _LIMITS[0] < best < _LIMITS[1] and value(best + direction) < value(best):
                best += direction
            if best != _START:
                break
        return center * _STEP**best

    def choose_penalty(self, C):
        """Eta for a given C, infinite unless pairs are better by more than a standard error."""
        if C not in self._without_pairs:
            self._judge(C, np.inf, proven=False)
        first = self._without_pairs[C]
        best, best_errors = np.inf, first
        for ratio in _RATIOS:
            errors = self._judge(C, ratio * C * self.weight.sum(), proven=True)
            if errors is None:
                break
            if self._value(errors) < self._value(best_errors):
                best, best_errors = ratio, errors
            elif self._gain(errors, best_errors) > 0:
                break
        if self._gain(first, best_errors) <= 0:
            return np.inf
        return best * C * self.weight.sum()

    def start(self, C):
        """Dual variables (N, L) to start the fit of all rows from: means over the folds.

        It ends the search, whose own they are.
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
        """Hamming loss and Jaccard index of rows, neither of which is quite 0."""
        hamming, jaccard = self._share @ errors
        return hamming + 1.0 / self.signs.size, jaccard + 1.0 / len(self.signs)

    def _value(self, errors):
        hamming, jaccard = self._means(errors)
        return np.log(hamming) - np.log(jaccard)

    def _gain(self, errors, better):
        """How much lower the value of other errors is, less a standard error of that."""
        hamming, jaccard = self._means(errors)
        # To first order a mean over rows, of which the spread is known.
        rows = (errors - better) @ [1.0 / hamming, -1.0 / jaccard]
        mean = self._share @ rows
        spread = self._share @ (rows - mean) ** 2
        return mean - np.sqrt(spread / len(rows))

    def _judge(self, C, penalty, proven):
        """Hamming losses and Jaccard indices (n, 2); None where proofs are wanted and missing."""
        errors = []
        for k, (train, test) in enumerate(self.folds):
            # Without weight on its losses a row takes no part: X is not copied, but for cliques.
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
            labels, certain = self._labels(fitted, self.X[test])
            if proven and not certain:
                return None
            errors.append(self._errors(labels, test))
        errors = np.concatenate(errors)
        if penalty == np.inf:
            self._without_pairs[C] = errors
        hamming, jaccard = self._share @ errors
        self.tried.append(
            {"C": C, "pairwise_penalty": penalty, "hamming": hamming, "jaccard": jaccard}
        )
        if self.report is not None:
            self.report(self.tried[-1])
        return errors

    def _labels(self, fitted, X):
        """Labels (n, L) of rows, and whether all are proven to be the best."""
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

    def _errors(self, labels, test):
        """Hamming losses and Jaccard indices (n, 2) of labels against those observed."""
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
