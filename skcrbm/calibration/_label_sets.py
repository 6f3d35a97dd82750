"""ConformalLabelSets: predict sets of whole label vectors, with a bound on the coverage."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from skcrbm.calibration._conformal import ConformalBase, conformal_quantile
from skcrbm.calibration._summary import summarize
from skcrbm.targets.classifier import check_outer_fitted
from skcrbm.targets.distribution import LabelDistribution, is_joint
from skcrbm.targets.groups import check_groups
from skcrbm.targets.label_sets import all_label_vectors
from skcrbm.utils.fitting import all_or_nothing
from skcrbm.utils.limits import BLOCK_ENTRIES, MAX_ALL_LABEL_SETS
from skcrbm.utils.options import Integer
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.sklearn_private import HasMethods, Interval, StrOptions, fit_context
from skcrbm.utils.validation import check_count, check_order, count_rows, take_rows

# Scores that differ by less than this number count as equal, so that rounding errors of sums of
# probabilities do not decide whether a vector is in a set.
_SLACK = 1e-9
# This number replaces the logarithm of probability 0. It is finite, so that differences of
# logarithms can be computed.
_IMPOSSIBLE = -1e9


class ConformalLabelSets(ConformalBase):
    """Sets of label vectors that contain the true vector with a chosen probability.

    The set of a row contains its most probable label vectors: for example 3 vectors if the
    classifier is sure, and 300 if it is not. A threshold determines how many vectors are in the
    set. It is calibrated on rows that the classifier has not seen, so that the true vector of a new
    row is in its set with the probability `confidence`, however good or bad the classifier is [1]_.
    A better model of the joint distribution does not change this probability. It makes the sets
    smaller.

    Parameters
    ----------
    estimator : classifier
        Multi-label classifier. The sets use the joint distribution p(y | x) if the classifier has
        the method `score_label_sets`, itself or as the last step of a pipeline. Otherwise they use
        the probabilities of `predict_proba`, as if the labels were independent given x.
    confidence : float, default=0.9
        Probability, between 0 and 1, that the set of a new row holds its true label vector.
    rule : {"mass", "probability"}, default="mass"
        Rule that decides which vectors are in the set of a row. "mass": a vector is in the set if
        the total probability of all more probable vectors is at most a threshold. No set is empty.
        "probability": a vector is in the set if its probability is at least a threshold. The sets
        are smaller on average, but may be empty, and they contain the true vector less often in
        rows in which the classifier is uncertain.
    cv : int, splitter or iterable, default=None
        Folds of the rows. An int stands for this number of stratified folds, and None for 5 folds.
        A fitted classifier inside ``sklearn.frozen.FrozenEstimator`` is not fitted again, and all
        rows of `fit` are used to calibrate.
    n_draws : int, default=1000
        Number of draws from p(y | x) that replace the enumeration of all label vectors if there
        are more than 20 labels.
    n_best : int, default=100
        Number of label vectors to list for each row, the most probable first. The probabilities of
        listed vectors are added up exactly, and draws estimate the rest. Vectors are listed only if
        there are more than 20 labels and the estimator is a `skcrbm.constraints.Constrained` with
        exact answers. 0 uses draws alone. If the rules are not trees of labels with counts, listing
        vectors is slow, and a smaller number saves time.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed of the draws. `fit` chooses the seed, so that all later predictions use the same draws.

    Attributes
    ----------
    estimator_ : classifier
        Classifier fitted on all rows.
    thresholds_ : dict
        Threshold of the score of each group; the key is 0 if there are no groups.
    classes_ : ndarray (n_outputs,)
        Indices of the labels.
    label_names_ : ndarray of str (n_outputs,)
        Names of the labels, if y is a data frame with names.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has names.

    See Also
    --------
    ConformalRiskControl : Set of labels, in place of label vectors, with a bound on a loss.

    Notes
    -----
    If the classifier was fitted on other rows (`FrozenEstimator`), the guarantee is exact: averaged
    over draws of n calibration rows and the new row, the coverage is at least `confidence`, and at
    most 1 / (n + 1) more if no scores are equal. With `cv`, the calibration scores come from the
    models of the folds, but the sets come from the model of all rows, so the guarantee is
    approximate. The coverage tends to be slightly higher than `confidence`, because the model of
    all rows saw more rows.

    With `groups` there is a threshold for each group (Mondrian sets), and the guarantee holds in
    each group. Rows with NaN in y are used to train the classifier, if it takes NaN, but not to
    calibrate. Only the ratios of weights matter: a new row counts with the average weight.

    Up to 20 labels all label vectors are enumerated, and every answer is exact. With more labels,
    the mass of the more probable vectors is estimated by their share of `n_draws` draws, with a
    standard error of at most ``0.5 / sqrt(n_draws)``, which is 0.016 by default and 0.005 with
    ``n_draws=10_000``. The guarantee does not depend on the error of this estimate, because the
    threshold is calibrated with the same estimate: the seed is fixed in `fit` and is the same for
    all rows, so that the score of a label vector is a fixed function of x and y, and the answers
    for a row do not depend on the other rows of X. Draws are fast if the labels are independent
    given x, or given up to 10 hidden units of a conditional RBM, because no label vector is
    stored. With `Constrained` around a classifier, the `n_best` most probable vectors that
    satisfy the rules are listed: the mass and the size of a set within this list are exact, and
    draws estimate the rest. A vector that violates the rules is in no set, unless a threshold of 1
    lets all vectors in.

    References
    ----------
    .. [1] Romano, Sesia and Candes (2020). Classification with valid and adaptive coverage.
       NeurIPS.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.calibration import ConformalLabelSets
    >>> from skcrbm.datasets import make_structured_labels
    >>> X, Y = make_structured_labels(700, n_labels=5, random_state=0)
    >>> sets = ConformalLabelSets(CRBMClassifier(alpha=0.1, random_state=0), confidence=0.8)
    >>> sets = sets.fit(X[:400], Y[:400])
    >>> bool(sets.contains(X[400:], Y[400:]).mean() > 0.75)
    True
    >>> sets.set_sizes(X[400:]).shape
    (300,)
    """

    _saved = ("n_features_in_", "classes_", "_targets", "estimator_", "thresholds_")

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "rule": [StrOptions({"mass", "probability"})],
        "cv": ["cv_object"],
        "n_draws": [Integer(1)],
        "n_best": [Integer(0)],
        "n_jobs": [Integer(), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        confidence: float = 0.9,
        rule: str = "mass",
        cv: Any = None,
        n_draws: int = 1000,
        n_best: int = 100,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.estimator = estimator
        self.confidence = confidence
        self.rule = rule
        self.cv = cv
        self.n_draws = n_draws
        self.n_best = n_best
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the classifier, and calibrate the threshold on predictions out of fold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs)
            0/1 indicator matrix. Missing labels may be NaN if the classifier takes NaN.
        sample_weight : array-like (n_samples,) or (n_samples, n_outputs), default=None
            Weights of the rows, or of the labels of each row. They are used to calibrate the
            threshold and are passed to the classifier. A row whose labels have different weights
            stands for several copies of the row, each with some of its labels. Only the copies with
            all labels can be used to calibrate, so the calibration uses the smallest weight.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for a threshold per group.

        Returns
        -------
        self : object
            This object.

        Raises
        ------
        ValueError
            If y is not a 2-D indicator matrix, or a group has too few complete rows for the
            confidence.
        """
        if not (is_joint(self.estimator) or hasattr(self.estimator, "predict_proba")):
            raise ValueError(
                "estimator must have predict_proba or score_label_sets, itself or as the last step "
                f"of a pipeline; {type(self.estimator).__name__} has neither"
            )
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self._grouped = groups is not None
        groups = np.zeros(count_rows(X), int) if groups is None else check_groups(groups, X)
        scores, _, weight, complete = self._fit_inner(X, y, sample_weight, self._scores)
        used = complete & (weight > 0)
        self.thresholds_ = {}
        for group in np.unique(groups):
            rows = used & (groups == group)
            name = f" in group {group}" if self._grouped else ""
            self.thresholds_[group] = conformal_quantile(
                scores[rows], weight[rows], self.confidence, name
            )
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "thresholds_")

    def contains(self, X, y, groups=None):
        """Return True for each row whose set contains the given label vector.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples, n_outputs)
            Label vectors of 0 and 1, for example the true vectors. The columns of a data frame are
            matched by name.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, if `fit` had groups.

        Returns
        -------
        is_member : ndarray of bool (n_samples,)
            True if the set of the row holds the vector. The mean over new rows with their true
            vectors estimates the coverage.
        """
        threshold = self._thresholds_of(X, groups)
        check_order(X=X, y=y)
        labels = self._labels_of_rows(y, count_rows(X))
        scores = self._scores(self.estimator_, X, labels)
        return scores <= threshold + _SLACK

    def set_sizes(self, X, groups=None):
        """Return the number of label vectors in the set of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, if `fit` had groups.

        Returns
        -------
        sizes : ndarray (n_samples,)
            Numbers of vectors. With up to 20 labels they are exact integers. With more labels they
            are estimated from `n_draws` weighted draws, except that `Constrained` counts the
            vectors exactly if the set has less than `n_best` vectors. The estimate is inf if it
            exceeds 1.8e308, the largest float, which needs more than 1,000 labels.
        """
        threshold = self._thresholds_of(X, groups)
        distribution = self._distribution()
        if not distribution.can_enumerate:
            return self._estimated_sizes(distribution, X, threshold)
        sizes = np.empty(len(threshold), np.int64)
        for rows, log_p in distribution.tables(X):
            sizes[rows] = self._members(log_p, threshold[rows]).sum(axis=1)
        return sizes

    def predict_sets(self, X, groups=None, *, limit=1000):
        """Return the label vectors in the set of each row, the most probable vector first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, if `fit` had groups.
        limit : int, default=1000
            Largest number of vectors that is returned for a row. `set_sizes` returns the number of
            all vectors.

        Returns
        -------
        sets : list of n_samples ndarrays (n_vectors, n_outputs)
            Label vectors of 0 and 1.

        Raises
        ------
        ValueError
            If there are more than 20 labels, which are too many to enumerate, and the estimator is
            not a `skcrbm.constraints.Constrained` with exact answers.
        """
        check_count("limit", limit)
        threshold = self._thresholds_of(X, groups)
        distribution = self._distribution()
        if distribution.can_rank and not distribution.can_enumerate:
            return self._listed_sets(distribution, X, threshold, limit)
        if not distribution.can_enumerate:
            raise ValueError(
                f"predict_sets enumerates all label vectors of up to {MAX_ALL_LABEL_SETS} labels, "
                f"got {distribution.n_labels}; the other methods take any number of labels"
            )
        vectors, sets = all_label_vectors(distribution.n_labels), []
        for rows, log_p in distribution.tables(X):
            for row, member in zip(log_p, self._members(log_p, threshold[rows])):
                found = np.flatnonzero(member)
                order = np.argsort(-row[found], kind="stable")[:limit]
                sets.append(vectors[found[order]])
        return sets

    def summarize(self, X, groups=None, *, max_relations=5):
        """Return a readable summary of each set.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, if `fit` had groups.
        max_relations : int, default=5
            Largest number of relations of two labels in a summary.

        Returns
        -------
        summaries : list of n_samples named tuples
            Names of the labels that are `on` in all vectors of the set, `off` in all vectors, or
            `open`; the `relations` of two open labels that hold in all vectors; `n_vectors`;
            `n_draws`; and `text`, for example "on: A; off: C to M; open: B and D, not both". With
            more than 20 labels the summary describes `n_draws` draws from p(y | x) that are in the
            set, in place of all vectors of the set, and the text says so. Vectors of the set that
            are too improbable to be drawn may contradict this summary. `n_draws` is 0 if the
            summary describes all vectors of the set. With more than 20 labels, this is possible
            only for `Constrained`, if the set has less than `n_best` vectors.
        """
        check_count("max_relations", max_relations, 0)
        threshold = self._thresholds_of(X, groups)
        names, distribution = self._targets.visible_names(), self._distribution()
        if not distribution.can_enumerate:
            return self._drawn_summaries(distribution, X, threshold, names, max_relations)
        vectors, summaries = all_label_vectors(distribution.n_labels), []
        for rows, log_p in distribution.tables(X):
            members = self._members(log_p, threshold[rows])
            summaries += [summarize(vectors[member], names, max_relations) for member in members]
        return summaries

    # ------------------------------------------------------------------ inside

    def _scores(self, model, X, labels):
        """Return the scores (N,) of the label vectors `labels` (N, L), one for each row of X."""
        options = self.rule, self.n_draws, self.n_best, self._seed
        return _scores(LabelDistribution(model, self._targets), X, labels, *options)

    def _summaries(self, distribution, X):
        return _summaries(distribution, X, self.n_draws, self.n_best, self._seed)

    def _distribution(self):
        return LabelDistribution(self.estimator_, self._targets)

    def _thresholds_of(self, X, groups):
        """Return the threshold (n,) for the group of each row."""
        check_outer_fitted(self)
        if (groups is not None) != self._grouped:
            needs = "groups, as in fit" if self._grouped else "no groups, because fit had no groups"
            raise ValueError(f"groups: this {type(self).__name__} needs {needs}")
        groups = np.zeros(count_rows(X), int) if groups is None else check_groups(groups, X)
        known, index = np.unique(groups, return_inverse=True)
        new = [group for group in known if group not in self.thresholds_]
        if new:
            raise ValueError(f"groups holds {str(new[0])!r}, which is not a group of fit")
        return np.array([self.thresholds_[group] for group in known], float)[index]

    def _members(self, log_p, threshold):
        """Return a mask (n, 2^L): True if the set of the row contains the label vector.

        `log_p` (n, 2^L) holds the log-probabilities of all vectors of L labels in each of n rows,
        and `threshold` (n,) the threshold of each row.
        """
        if self.rule == "probability":
            return -log_p <= threshold[:, None] + _SLACK
        return _mass_above(log_p) <= threshold[:, None] + _SLACK

    def _estimated_sizes(self, distribution, X, threshold):
        """Return the size of the set of each row, partly estimated from draws.

        The best label vectors of a row, which are listed, are counted exactly. The number of
        further vectors in the set is estimated by the mean over all draws y from p(y | x), where a
        draw counts as 1 / p(y | x) if it is in the set but not listed, else as 0. The sum is
        computed with logarithms; a number of vectors that no float can hold becomes inf.
        """
        sizes = []
        for rows, part, _ in self._summaries(distribution, X):
            limit = threshold[rows, None] + _SLACK
            inside = [part.scores(log_p, self.rule) <= limit for log_p in (part.best, part.drawn)]
            counted = inside[1] & (part.drawn > _IMPOSSIBLE)
            log_sum = logsumexp(np.where(counted, -part.drawn, -np.inf), axis=1)
            with np.errstate(over="ignore"):
                drawn = np.exp(log_sum - np.log(part.drawn.shape[1]))
            sizes.append((inside[0] & (part.best > _IMPOSSIBLE)).sum(axis=1) + drawn)
        return np.concatenate(sizes) if sizes else np.empty(0)

    def _drawn_summaries(self, distribution, X, threshold, names, max_relations):
        """Return the summary of each row, from a complete list of the set or from draws."""
        summaries = []
        entries = max(self.n_draws, self.n_best) * distribution.n_labels
        # Take so few rows at a time that `_summaries` does not split them.
        for rows in row_chunks(len(threshold), max(1, BLOCK_ENTRIES // entries)):
            some, limit = take_rows(X, np.arange(rows.start, rows.stop)), threshold[rows]
            if distribution.can_rank and self.n_best:
                listed = self._listed_sets(distribution, some, limit, self.n_best)
            else:
                listed = [None] * len(limit)
            sizes = self._estimated_sizes(distribution, some, limit)
            ((_, part, _),) = self._summaries(distribution, some)
            draws, log_p = distribution.draw(some, self.n_draws, self._seed)
            member = part.scores(log_p, self.rule) <= limit[:, None] + _SLACK
            member &= log_p > -np.inf
            for best, size, vectors, chosen in zip(listed, sizes, draws, member):
                if best is not None and len(best) < self.n_best:
                    summaries.append(summarize(best, names, max_relations))
                else:
                    drawn = vectors[chosen], names, max_relations, float(size)
                    summaries.append(summarize(*drawn))
        return summaries

    def _listed_sets(self, distribution, X, threshold, limit):
        """Return up to `limit` label vectors in the set of each row, the most probable first."""
        sets = []
        n_rows = max(1, BLOCK_ENTRIES // (limit * distribution.n_labels))
        for rows, part, _ in self._summaries(distribution, X):
            for some in row_chunks(len(part.best), n_rows):
                places = np.arange(rows.start, rows.stop)[some]
                labels, log_p = distribution.most_probable(take_rows(X, places), limit)
                scores = _Summary(part.best[some], part.drawn[some]).scores(log_p, self.rule)
                member = (scores <= threshold[places, None] + _SLACK) & (log_p > -np.inf)
                sets += [vectors[chosen] for vectors, chosen in zip(labels, member)]
        return sets


class _Summary(NamedTuple):
    """For each of n rows, log-probabilities of the k best label vectors and of draws."""

    best: np.ndarray  # (n, k): log-probabilities of the best vectors, -inf if there are fewer
    drawn: np.ndarray  # (n, n_draws): log-probabilities of draws; -inf for draws among the best

    def scores(self, log_p, rule):
        """Return the scores (n, m) of m label vectors per row, given their log-probabilities."""
        if rule == "probability":
            return -log_p
        rows = zip(self.best, self.drawn, log_p)
        mass = np.stack(
            [
                _sum_above(best, np.exp(best), own)
                + _sum_above(drawn, np.full(len(drawn), 1 / len(drawn)), own)
                for best, drawn, own in rows
            ]
        )
        # All possible vectors are more probable than an impossible vector, so the mass above it is
        # 1. The estimate of this mass may differ from 1.
        return np.where(log_p > -np.inf, np.minimum(mass, 1.0), 1.0)


def _summaries(distribution, X, n_draws, n_best, seed, labels=None):
    """Split N rows into blocks of n rows; yield the slice of each block, its `_Summary`, and `own`.

    If `labels` (N, L) is given, `own` (n,) holds the log-probabilities of the label vectors of the
    block, else it is None. If the distribution cannot find its most probable vectors, the summary
    has draws alone. A list of the best vectors may end within a group of equally probable vectors.
    This group is left out of the list, because its other vectors are missing.
    """
    ranked = distribution.can_rank and n_best
    entries = distribution.n_labels * max(n_draws, n_best) if ranked else n_draws
    for rows in row_chunks(count_rows(X), max(1, BLOCK_ENTRIES // entries)):
        part = take_rows(X, np.arange(rows.start, rows.stop))
        given = None if labels is None else labels[rows]
        drawn, own = distribution.drawn_log_proba(part, n_draws, seed, given)
        best = np.full((len(drawn), 0), -np.inf)
        if ranked:
            _, best = distribution.most_probable(part, n_best)
            last = best[:, -1:] + _SLACK
            best = np.where(best > last, best, -np.inf)
            drawn = np.where(drawn > last, -np.inf, drawn)
        yield rows, _Summary(best, drawn), own


def _scores(distribution, X, labels, rule, n_draws, n_best, seed):
    """Return the scores (N,) of the label vectors `labels` (N, L), one vector for each row of X.

    Probable vectors have low scores: the score is -log p(y | x) if `rule` is "probability", else
    the total probability of all more probable vectors.
    """
    if rule == "probability":
        return -distribution.log_proba(X, labels)
    scores = np.empty(len(labels))
    if not distribution.can_enumerate:
        for rows, part, own in _summaries(distribution, X, n_draws, n_best, seed, labels):
            scores[rows] = part.scores(own[:, None], rule)[:, 0]
        return scores
    place = labels.astype(np.int64) @ (1 << np.arange(labels.shape[1])[::-1])
    for rows, log_p in distribution.tables(X):
        own = np.take_along_axis(log_p, place[rows, None], axis=1)
        scores[rows] = np.where(log_p > own + _SLACK, np.exp(log_p), 0.0).sum(axis=1)
    return scores


def _mass_above(log_p):
    """Return, for each vector, the total probability of all vectors that are more probable.

    `log_p` (n, K) holds the log-probabilities of all K label vectors in each of n rows; the result
    has this shape, too.
    """
    order = np.argsort(-log_p, axis=1, kind="stable")
    value = np.maximum(np.take_along_axis(log_p, order, axis=1), _IMPOSSIBLE)
    proba = np.exp(value)
    above = np.cumsum(proba, axis=1) - proba
    # The mass above a vector does not include vectors of equal probability.
    first = np.ones(value.shape, bool)
    first[:, 1:] = value[:, :-1] - value[:, 1:] > _SLACK
    above = np.maximum.accumulate(np.where(first, above, 0.0), axis=1)
    result = np.empty_like(above)
    np.put_along_axis(result, order, above, axis=1)
    return result


def _sum_above(log_p, weight, own):
    """For each value of `own` (K,), add up the weights (M,) of larger entries of `log_p` (M,)."""
    order = np.argsort(log_p)
    sums = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return sums[np.searchsorted(log_p[order], own + _SLACK, side="right")]
