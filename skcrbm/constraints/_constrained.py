"""Define `Constrained`, which predicts labels that satisfy rules, with any classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from skcrbm.constraints._contradictions import (
    conditions_of,
    contradiction,
    possible_rows,
    require_consistent,
    violations_message,
)
from skcrbm.constraints._counted_trees import counted_trees
from skcrbm.constraints._distributions import Counted, Eliminated, Impossible, Listed
from skcrbm.constraints._marginals import (
    EdgeFields,
    fields_with_marginals,
    ordered_probabilities,
)
from skcrbm.constraints._rules import LabelNumbers
from skcrbm.constraints._wide import Wide, wide_rules
from skcrbm.targets.classifier import (
    check_outer_fitted,
    label_output,
    score_with_known,
)
from skcrbm.targets.distribution import LabelDistribution, TopLabelSets
from skcrbm.targets.frames import framed_top
from skcrbm.targets.indicator import indicator_by_name
from skcrbm.targets.wrapped import WrappingClassifier, takes_known, wrapped_rows
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.limits import AUTO_ALL_LABEL_SETS, BLOCK_ENTRIES, MAX_ALL_LABEL_SETS
from skcrbm.utils.options import Integer, ProbabilisticClassifier, multilabel_tags
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.sklearn_private import StrOptions, fit_context
from skcrbm.utils.validation import check_count, check_same_rows, count_rows
from skcrbm.utils.warnings import warn_user

# Number of rows whose labels are inferred together, to bound the memory.
_ROWS = 1000


def _f1(both, size, other):
    """Return the F1 of two label vectors, from the numbers of labels on in both and in each."""
    return 2 * both / np.maximum(size + other, 1)


def _jaccard(both, size, other):
    """Return the Jaccard index of label vectors; the arguments are those of `_f1`."""
    return both / np.maximum(size + other - both, 1)


_METRICS = {"expected_f1": _f1, "expected_jaccard": _jaccard}


def _has_few_labels(model):
    """Return True if all label vectors of a fitted model can be enumerated."""
    targets = vars(model).get("_targets")
    return targets is not None and targets.n_visible <= MAX_ALL_LABEL_SETS


class Constrained(WrappingClassifier):
    """Multi-label classifier whose predictions satisfy rules between labels.

    The rules have no effect on the fit of the classifier. In prediction, all label vectors that
    violate a rule have probability 0, so that no prediction violates a rule. Predicted
    probabilities that agree with the rules do not change. Best label vectors and samples are exact,
    unless the rules overlap too much (`is_exact_`).

    Parameters
    ----------
    estimator : classifier
        Multi-label classifier with `predict_proba`. A fitted classifier inside
        ``sklearn.frozen.FrozenEstimator`` is not fitted again.
    rules : list of rules
        Rules from `skcrbm.constraints`, such as ``Implies("beach", "sea")``.
    decode : {"expected_f1", "expected_jaccard", "map", "marginal"}, default="expected_f1"
        Rule by which `predict` chooses one of the allowed label vectors. It should suit your
        metric:

        - "expected_f1" and "expected_jaccard": the vector with the largest expected F1 or Jaccard
          index, estimated from `n_samples` samples that satisfy the rules. The candidates are these
          samples, the most probable vector, and the k most probable labels for the best k for which
          they satisfy the rules.
        - "map": the most probable vector, for the subset accuracy.
        - "marginal": the vector with the largest expected number of correct labels, for the Hamming
          loss. If the labels with a probability above one half satisfy the rules, as in a
          hierarchy, the vector consists of these labels.

        The default is the default of `DecodedClassifier`. With many rare labels, "map" and
        "marginal" predict no label for most rows, because hardly any label has a probability above
        one half.
    n_samples : int, default=200
        Number of samples of each row for the expected metrics.
    random_state : int, RandomState or None, default=None
        Seed of the samples. `fit` chooses the seed, so that all predictions use the same samples.

    Attributes
    ----------
    estimator_ : classifier
        Fitted classifier.
    is_joint_ : bool
        True if the rules restrict the joint distribution of the classifier. False if the
        distribution under the rules is chosen by the probabilities of the labels; see Notes. The
        joint distribution is used if the classifier has one (`score_label_sets`) and there are at
        most 14 labels.
    is_exact_ : bool
        False if the rules overlap too much for exact answers, so that probabilities and samples are
        estimates.
    classes_ : ndarray (n_outputs,)
        Indices of the labels.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels, if y is a data frame with names.

    Notes
    -----
    If the joint distribution is not used, the distribution under the rules is chosen by its
    marginals. If some distribution over the allowed label vectors has the predicted probabilities
    as marginals, for example because no child is more probable than one of its parents,
    `Constrained` uses the distribution with these marginals that has the largest entropy: so the
    rules change no probability, up to about one per cent of a standard deviation. Otherwise,
    probabilities move as little as possible. First, implications (`Hierarchy`, `Implies` between
    two labels) act by isotonic regression, which has the smallest sum of squared changes, and also
    the smallest sum of Kullback-Leibler divergences of the predicted from the new probabilities
    [1]_. Then other rules act such that the sum of squared changes, each divided by the variance
    p (1 - p) of the label, is the smallest, up to the accuracy of an iterative method (some per
    cent of a standard deviation).

    Known labels, `y_known`, change predictions in two ways. First, other labels may follow from the
    rules. For example, if a child is known to be on, its parents are on. Second, the classifier
    conditions its probabilities on the known labels if its `predict_proba` takes `y_known`, as in
    `CRBMClassifier`, `MSSVMCRBM` and `LMBMClassifier`. If the joint distribution is used, the
    answers are exact. Otherwise the conditional probabilities P(label | x, y_known) take the place
    of the predicted probabilities. Other classifiers, such as forests, assume that labels are
    independent given x, so known labels change predictions through the rules alone.
    (`DecodedClassifier`, which has no rules, raises an error if it gets known labels for these
    classifiers, because the known labels would change nothing.)

    If the rules are trees of labels and counts, and no two counts share a label or a tree, all
    answers are computed from a table over labels and counts. The time is proportional to the number
    of labels times the largest count. For example, a tree of 1000 labels, the rule "at most 5 of
    1000 labels", or both together take some tenths of a millisecond per row. Under counts, and in
    hierarchies with loops, the weights of the labels take 10 to 150 such computations.

    Other rules become tables of a factor graph, with counters for rules about numbers of labels,
    and variable elimination answers all questions exactly. The time is linear in the number of
    labels and quadratic in the counts, and grows exponentially with the treewidth of the graph. If
    a rule counts the labels of a hierarchy with several parents per label, the treewidth is about
    the depth of the hierarchy, because labels are counted in depth-first order. Without counts the
    treewidth may be too large, too, if many labels have several parents: it is too large for all
    4125 labels of a gene ontology, but not for its 1500 most frequent labels. A computation for
    these takes 70 milliseconds per row.

    If the treewidth is too large for elimination, `fit` warns and sets `is_exact_` to False. Best
    vectors then come from integer programs with at most 2000 nodes, and `predict_with_gap` returns
    a bound of their distance from the optimum. In a hierarchy, `predict_proba` still returns the
    marginals; samples come from random tables whose columns are draws, and in which the sum of each
    row is the number of draws in which a label is on. All possible tables are equally probable,
    which is the distribution with the largest entropy if the table has many columns. Under further
    rules, the draws that satisfy them are used: predictions warn if there are fewer than 20, and
    raise an error if there are none. Log-probabilities, and probabilities given known labels, come
    from tree-reweighted messages. If, in addition, implications form a cycle, an error is raised.

    `fit` raises a ValueError if no label vector satisfies all rules, and names rules that
    contradict each other. It warns if rows of y violate the rules. A row with missing labels can
    violate a rule, too, for example if a child is on and its parent is off.

    References
    ----------
    .. [1] R. E. Barlow and H. D. Brunk, "The isotonic regression problem and its dual", Journal of
       the American Statistical Association 67, 1972.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from skcrbm.constraints import Between, Constrained, Implies
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(300, n_labels=4, random_state=0)
    >>> Y[:, 1] |= Y[:, 0]  # label 0 implies label 1
    >>> rules = [Implies(0, 1), Between([0, 1, 2, 3], 0, 3)]
    >>> Y = Y[Y.sum(axis=1) <= 3]
    >>> model = Constrained(OneVsRestClassifier(LogisticRegression()), rules)
    >>> labels = model.fit(X[: len(Y)], Y).predict(X)
    >>> bool((labels[:, 0] <= labels[:, 1]).all())
    True
    """

    _parameter_constraints: dict = {
        "estimator": [ProbabilisticClassifier()],
        "rules": "no_validation",  # `conditions_of` checks them
        "decode": [StrOptions({"map", "marginal", *_METRICS})],
        "n_samples": [Integer(1)],
        "random_state": ["random_state"],
    }

    _targets: Any
    _seed: int
    is_joint_: bool
    is_exact_: bool

    def __init__(
        self,
        estimator: Any,
        rules: Any,
        *,
        decode: str = "expected_f1",
        n_samples: int = 200,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.estimator = estimator
        self.rules = rules
        self.decode = decode
        self.n_samples = n_samples
        self.random_state = random_state

    def __sklearn_tags__(self):
        return multilabel_tags(super().__sklearn_tags__(), self.estimator)

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the classifier, and check the rules.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs of the classifier.
        y : array-like of shape (n_samples, n_outputs)
            0/1 labels. Missing labels may be NaN if the classifier supports them.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of single labels if the classifier supports them.
        **fit_params : dict
            Further arguments of the classifier's `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is invalid, or the rules contradict each other.

        Warns
        -----
        UserWarning
            If rows of y violate the rules, or the rules overlap too much for exact answers.
        """
        labels = wrapped_rows(X, y, sample_weight, type(self).__name__, self, several=True)
        targets, visible = labels.targets, labels.visible
        numbers = LabelNumbers(targets.n_visible, targets.names)
        self._set_targets(targets)
        self._numbers = numbers
        self._conditions = conditions_of(self.rules, numbers)
        self._fitted_rules = list(self.rules)
        self._trees = counted_trees(self._conditions)
        self.is_exact_ = require_consistent(self.rules, numbers, self._conditions, visible)
        self._edge_fields = EdgeFields(self._conditions)
        self._wide = None if self.is_exact_ else wide_rules(self._conditions)
        possible = possible_rows(self._conditions, visible)
        if not possible.all():
            warn_user(violations_message(self.rules, numbers, visible, possible))
        self._fit_wrapped(X, labels, fit_params)
        joint = LabelDistribution(self.estimator_, targets).is_joint
        self.is_joint_ = joint and targets.n_visible <= AUTO_ALL_LABEL_SETS
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return self

    # ----------------------------------------------------------------------------- predictions

    @label_output
    def predict(self, X, y_known=None):
        """Predict label vectors that satisfy the rules.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels that are known beforehand, and NaN for the other labels. Data frames are matched
            to the labels by column name.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)

        Raises
        ------
        ValueError
            If the known labels of a row contradict the rules. The message names the labels and the
            rule; ``satisfies(y_known)`` tells which rows are possible.
        """
        check_outer_fitted(self)
        self._validate_params()
        known = self._targets.check_known(y_known, X)
        if self.decode == "map":
            return np.concatenate(self._answers(X, known, lambda part: part.best()))
        if self.decode == "marginal":
            return np.concatenate(
                self._answers(X, known, lambda part: part.heaviest(2 * part.marginals() - 1))
            )
        answers = self._answers(X, known, lambda part: (part.best(), part.marginals()))
        best, proba = map(np.concatenate, zip(*answers))
        drawn = self._draw(X, known, self.n_samples, self._seed, alike=True)
        return self._best_expected(drawn, proba, best)

    def predict_with_gap(self, X, y_known=None):
        """Return the most probable label vectors, with a bound of their distance from the optimum.

        Parameters
        ----------
        X, y_known
            As in `predict`.

        Returns
        -------
        labels : ndarray of int (n_samples, n_outputs)
            Label vectors that satisfy the rules.
        objective : ndarray (n_samples,)
            If `is_joint_` is True, the negative logarithm of the probability of the labels under
            the rules, else the negative sum of the log-odds of the labels that are on.
        gap : ndarray (n_samples,)
            Upper bound of the difference between `objective` and the smallest objective; 0 if the
            labels are proven to be the most probable vector.
        """
        check_outer_fitted(self)

        def ask(part):
            if isinstance(part, Wide):
                labels, score, bound = part.certified()
                return labels, -score, bound - score
            labels = part.best()
            score = part.log_weight(labels)
            return labels, -score, np.zeros(len(score))

        answers = self._answers(X, self._targets.check_known(y_known, X), ask)
        return tuple(map(np.concatenate, zip(*answers)))

    score: ClassVar[Callable[..., float]] = score_with_known

    @label_output
    def predict_proba(self, X, y_known=None):
        """Return the probabilities P(y_i = 1 | x, rules) of shape (n_samples, n_outputs).

        Parameters
        ----------
        X, y_known
            As in `predict`.
        """
        check_outer_fitted(self)
        known = self._targets.check_known(y_known, X)
        proba = np.concatenate(self._answers(X, known, lambda part: part.marginals()))
        proba = np.clip(proba, 0, 1)  # sums of probabilities may exceed 1 by rounding
        return proba if known is None else np.where(np.isnan(known), proba, known)

    def sample(self, X, n_samples=1, y_known=None, random_state=None, *, return_log_proba=False):
        """Draw label vectors (n_samples_of_X, n_samples, n_outputs) that satisfy the rules.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        return_log_proba : bool, default=False
            If True, also return the log-probability of each draw under the rules, as an array
            (n_samples_of_X, n_samples).
        """
        check_outer_fitted(self)
        n_samples = check_count("n_samples", n_samples)
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        known = self._targets.check_known(y_known, X)
        if not return_log_proba:
            return self._draw(X, known, n_samples, seed)
        rng = np.random.RandomState(seed)

        def draw(part):
            drawn = part.draw(n_samples, rng)
            return drawn, part.log_proba_of_draws(drawn)

        return tuple(map(np.concatenate, zip(*self._answers(X, known, draw))))

    def predict_topk(self, X, k=1, y_known=None):
        """Return the k most probable label vectors of each row that satisfy the rules.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        k : int, default=1
            Number of label vectors for each row.

        Returns
        -------
        labels : ndarray of int (n_samples, k, n_outputs)
            Label vectors in descending order of their probabilities. If fewer than k vectors
            satisfy the rules, the last vectors are filled with -1.
        proba : ndarray (n_samples, k)
            Probabilities under the rules; 0 for vectors filled with -1.

            After `set_label_output`, both are data frames or series, as those of `CRBMClassifier`.
        """
        check_outer_fitted(self)
        k = check_count("k", k)
        answers = self._answers(X, self._targets.check_known(y_known, X), lambda part: part.top(k))
        labels, log_proba = map(np.concatenate, zip(*answers))
        top = TopLabelSets(labels, np.exp(log_proba))
        return framed_top(top, self._targets, self._label_container, X)

    def score_samples(self, X, y):
        """Return the log-probability (n_samples,) of the label vectors y.

        The log-probability of a vector that violates a rule is -inf.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs)
            Complete 0/1 labels.
        """
        check_outer_fitted(self)
        labels = self._complete(y)
        check_same_rows(X, y)
        found = self._answers(X, None, lambda part: part.log_proba(labels[part.rows]))
        return np.where(self._conditions.satisfied(labels), np.concatenate(found), -np.inf)

    @available_if(_has_few_labels)
    def score_label_sets(self, X, label_sets, y_known=None):
        """Return the log-probabilities of several label vectors in each row.

        The log-probability of a vector that violates a rule or a known label is -inf. The method
        exists if there are at most 20 labels.

        Parameters
        ----------
        X, y_known
            As in `predict`.
        label_sets : array-like of shape (n_sets, n_outputs)
            Label vectors of 0 and 1, the same for all rows.

        Returns
        -------
        ndarray of shape (n_samples, n_sets)
        """
        check_outer_fitted(self)
        sets = self._complete(label_sets, "label_sets").astype(np.int64)
        known = self._targets.check_known(y_known, X)
        found = self._answers(X, known, lambda part: part.log_proba_of_sets(sets))
        return np.where(self._conditions.satisfied(sets), np.concatenate(found), -np.inf)

    def satisfies(self, y):
        """Return True (n_samples,) for the rows of y that satisfy the rules.

        Parameters
        ----------
        y : array-like of shape (n_samples, n_outputs)
            0/1 labels, and NaN for unknown labels. A row with unknown labels satisfies the rules if
            its unknown labels can be filled in such that the whole row does.
        """
        check_outer_fitted(self)
        return possible_rows(self._conditions, self._labels(y))

    def _labels(self, y, name="y"):
        """Validate y, and return an array (N rows, L labels) of 0, 1 and NaN."""
        n_labels = self._targets.n_visible
        labels = indicator_by_name(y, self._targets.names, n_labels, name)
        if labels.ndim != 2 or labels.shape[1] != n_labels:
            raise ValueError(f"{name} must have shape (n_samples, {n_labels}), got {labels.shape}")
        return labels

    def _complete(self, y, name="y"):
        """Validate y, and return it as 0/1 labels (N, L) without missing labels."""
        labels = self._labels(y, name)
        if np.isnan(labels).any():
            raise ValueError(f"{name} must be complete: it holds NaN, or lacks columns of labels")
        return labels

    def _best_expected(self, drawn, proba, best):
        """Return the candidates with the largest mean metric over S draws, as an array (N, L).

        The candidates of a row are its draws, in `drawn` (N, S, L), the row of `best` (N, L), and
        the best of the vectors in which the k labels with the largest `proba` (N, L) are 1.
        """
        n, n_draws, n_labels = drawn.shape
        value, first = _METRICS[self.decode], self._conditions.parents_first()
        first = np.arange(n_labels) if first is None else first
        result = np.empty((n, n_labels), np.int64)
        for rows in row_chunks(n, max(1, BLOCK_ENTRIES // (n_draws * (n_draws + n_labels)))):
            judges = drawn[rows].astype(np.float64)
            given = zip(judges, proba[rows], best[rows])
            top = np.stack([_best_top(*row, self._conditions, first, value) for row in given])
            candidates = np.concatenate([best[rows, None], top[:, None], drawn[rows]], axis=1)
            both = candidates.astype(np.float64) @ judges.transpose(0, 2, 1)
            sizes = candidates.sum(axis=2)[:, :, None], judges.sum(axis=2)[:, None]
            mean = value(both, *sizes).mean(axis=2)
            chosen = (mean >= mean.max(axis=1, keepdims=True) - 1e-12).argmax(axis=1)
            result[rows] = candidates[np.arange(len(chosen)), chosen]
        return result

    def _answers(self, X, known, ask):
        """Return a list with the result of ``ask(part)`` for each block of consecutive rows.

        `part` is an object that holds the label distribution, under the rules, of the rows of a
        block.
        """
        try:
            return [ask(part) for part in self._parts(X, known)]
        except Impossible as error:
            rows = np.flatnonzero(~possible_rows(self._conditions, known))
            others = f" and {len(rows) - 1} other rows" if len(rows) > 1 else ""
            why = contradiction(self._fitted_rules, self._numbers, known[rows[0]])
            raise Impossible(
                f"y_known contradicts the rules in row {rows[0]}{others}: {why}. "
                "satisfies(y_known) tells which rows are possible"
            ) from error

    def _parts(self, X, known):
        """Yield the label distribution under the rules for each block of rows."""
        if count_rows(X) == 0:
            raise ValueError("X has no rows; at least one row is needed")
        distribution = LabelDistribution(self.estimator_, self._targets)
        if self.is_joint_:
            allowed = self._conditions.enumerate()
            number = allowed @ (1 << np.arange(self._targets.n_visible)[::-1])
            for rows, log_p in distribution.tables(X, known):
                held = None if known is None else known[rows]
                yield Listed(rows, log_p[:, number], allowed, held)
            return
        is_given = takes_known(self.estimator_)
        proba = distribution.marginals(X, known if is_given else None)
        for rows in row_chunks(len(proba), _ROWS):
            held = None if known is None else known[rows]
            ordered = ordered_probabilities(proba[rows], self._conditions)
            if self._wide is not None:
                yield Wide(rows, self._wide, self._edge_fields, ordered, held, is_given)
            else:
                fields = self._fields(rows, ordered, held if is_given else None)
                yield self._exact_part(rows, fields, held)

    def _fields(self, rows, proba, known):
        """Return the fields (n, L) whose distributions under the rules have the marginals `proba`.

        `known` (n, L) holds the known labels if `proba` are probabilities given these labels.
        """
        fields = self._edge_fields(proba)
        if self._edge_fields.is_exact:
            return fields

        def sums(fields, part):
            held = None if known is None else known[part]
            return self._exact_part(rows, fields, held).sums()

        return fields_with_marginals(fields, proba, sums, self._conditions.only_edges)

    def _exact_part(self, rows, fields, known):
        """Return the distribution under the rules of a block of rows, for exact answers."""
        if self._trees is not None:
            return Counted(rows, self._trees, fields, known)
        return Eliminated(rows, self._conditions, fields, known)

    def _draws_and_log_proba(self, X, n_draws, seed):
        """Return draws (N, n_draws, L) for N rows of X, and their log-probabilities (N, n_draws).

        All rows use the same random numbers, so the draws of a row do not depend on other rows.
        """

        def draw(part):
            drawn = part.draw(n_draws, np.random.RandomState(seed), True)
            return drawn, part.log_proba_of_draws(drawn)

        return tuple(map(np.concatenate, zip(*self._answers(X, None, draw))))

    def _draw(self, X, known, n_samples, seed, alike=False):
        """Draw `n_samples` label vectors for each row.

        If `alike` is True, the same random numbers are used for all rows.
        """
        rng = np.random.RandomState(seed)

        def draw(part):
            return part.draw(n_samples, np.random.RandomState(seed) if alike else rng, alike)

        return np.concatenate(self._answers(X, known, draw))


def _best_top(judges, proba, best, conditions, first, value):
    """Return the k most probable labels of a row, for the best k, as a 0/1 array (L,).

    The best k has the largest mean metric over the S label vectors of `judges` (S, L), among the k
    for which the labels satisfy the conditions. If there is no such k, the result is `best` (L,).
    Among labels of equal probability, labels that come before in `first` (L,) are more probable.
    `value` is the metric, `_f1` or `_jaccard`.
    """
    sizes = judges.sum(axis=1, keepdims=True)
    order = first[np.argsort(-proba[first], kind="stable")][: max(1, int(2 * sizes.max()))]
    labels = np.zeros((len(order), len(proba)), np.int64)
    labels[:, order] = np.tri(len(order))
    both = judges[:, order].cumsum(axis=1)
    mean = value(both, np.arange(1, len(order) + 1), sizes).mean(axis=0)
    mean[~conditions.satisfied(labels)] = -1.0
    return labels[mean.argmax()] if mean.max() >= 0 else best
