"""Questions about the joint distribution p(y | x) of a fitted model, and its hidden units."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, log_softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skcrbm.decoding._label_set import weighted_label_sets
from skcrbm.energies import IsingEnergy
from skcrbm.inference import infer
from skcrbm.utils._indicator import distinct_rows
from skcrbm.utils._parallel import one_blas_thread
from skcrbm.utils._random import random_key
from skcrbm.utils._validation import as_float_array

# Beyond so many labels all vectors are candidates only if asked for, and beyond so many never.
_AUTO_ALL_LABELS, _MAX_ALL_LABELS = 14, 20


class TopLabelSets(NamedTuple):
    """Answer of `predict_topk`.

    Attributes
    ----------
    labels : ndarray (n_samples, k, n_outputs) or (n_samples, k)
        Label vectors, or classes of 1-D y, by falling probability.
    proba : ndarray (n_samples, k)
        Their probabilities p(y | x).
    """

    labels: np.ndarray
    proba: np.ndarray


class JointQueriesMixin:
    """Mixin of models that define p(y | x).

    Needs ``_prepare(X, y_known)``, which returns the `Decoding` of the rows, and, for 1-D y,
    `decision_function`.
    """

    #: Log-odds of binary 1-D y per unit of `decision_function`.
    _log_odds_scale = 1.0

    def sample(
        self, X, n_samples=1, y_known=None, *, method="exact", burn_in=100, random_state=None
    ):
        """Draw labels from p(y | x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        n_samples : int, default=1
            Draws of each row.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: the others are drawn given them.
        method : {"exact", "gibbs"}, default="exact"
            Independent draws by enumeration, with up to 20 hidden units or outputs; or up to
            100 Gibbs chains per row, see `skcrbm.inference.sample`. 1-D y is always exact.
        burn_in : int, default=100
            Sweeps of the Gibbs chains before the first draw.
        random_state : int, RandomState or None, default=None
            Decides the draws, whatever `n_jobs`.

        Returns
        -------
        ndarray of shape (n_rows, n_samples, n_outputs) or (n_rows, n_samples)
            0/1 labels, or classes of 1-D y.

        Raises
        ------
        ValueError
            On an invalid argument, or a model too large for `method`.
        """
        from skcrbm.inference import sample
        from skcrbm.inference._random import uniforms

        check_is_fitted(self)
        with one_blas_thread():
            decoding = self._prepare(X, y_known)
        if self._targets.kind == "multilabel":
            states = sample(
                decoding.energy,
                method,
                n_samples=n_samples,
                burn_in=burn_in,
                clamp=decoding.clamp(),
                n_jobs=self.n_jobs,
                random_state=random_state,
            )
            return self._targets.decode(states[:, :, : decoding.energy.n_visible])
        _check_count("n_samples", n_samples)
        mass = np.exp(self._class_log_proba(X)).cumsum(axis=1)
        u = uniforms(random_key(random_state), np.arange(len(mass)), 0, n_samples)
        index = (u[:, :, None] * mass[:, None, -1:] > mass[:, None, :-1]).sum(axis=2)
        return self.classes_[index]

    def score_samples(self, X, y=None, y_known=None, *, method="exact", random_state=None):
        """Log-likelihood of labels, log p(y | x), row by row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs) or (n_samples,)
            NaN in 2-D y = not observed: summed out, so that it is the marginal
            log-likelihood of the observed labels, 0 where there are none. None, with which
            scikit-learn's checks call it: nothing is observed.
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels given: log p(y | x, y_known), -inf where y contradicts them.
        method : str or object, default="exact"
            What gives log Z: "exact", with up to 20 hidden units or outputs; another method
            of `skcrbm.inference.infer`, or a configured object, then approximate ("sum_product":
            the Bethe approximation; "tree_reweighted": an upper bound of log Z); or "ais",
            annealed importance sampling of RBMs. 1-D y is always exact.
        random_state : int, RandomState or None, default=None
            For "ais".

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            On an invalid argument, or a model too large for `method`.
        """
        check_is_fitted(self)
        with one_blas_thread():
            decoding = self._prepare(X, y_known)
            if y is None:
                return np.zeros(decoding.energy.n_models)
            visible = self._targets.encode(y)
            if len(visible) != decoding.energy.n_models:
                raise ValueError(
                    f"X and y must have as many rows, got {decoding.energy.n_models} and "
                    f"{len(visible)}"
                )
            if self._targets.kind != "multilabel":
                log_proba = self._class_log_proba(X)
                index = visible[:, 0] if self._targets.kind == "binary" else visible.argmax(axis=1)
                return log_proba[np.arange(len(index)), index.astype(np.intp)]
            seed = check_random_state(random_state).randint(2**31 - 1)
            known = np.full(visible.shape, np.nan) if y_known is None else decoding.known
            state = np.where(np.isnan(known), visible, known)
            partly = np.isnan(state).any(axis=1)
            log_p = np.empty(len(state))
            log_p[~partly] = decoding.energy.rows(~partly).log_weight(state[~partly])
            if partly.any():
                part = decoding._replace(energy=decoding.energy.rows(partly), known=state[partly])
                log_p[partly] = _log_partition(part, method, seed)
            log_p -= _log_partition(decoding, method, seed)
        log_p[(visible + known == 1).any(axis=1)] = -np.inf  # y contradicts what is known
        return log_p

    def predict_topk(
        self, X, k=1, y_known=None, *, candidates="auto", method="exact", random_state=None
    ):
        """Return the k most probable label vectors of each row, with their probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int, default=1
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels given: vectors that agree with them, and p(y | x, y_known).
        candidates : {"auto", "all", "label_sets"} or array-like (n_sets, n_outputs)
            Where the vectors come from: all there are (exact, up to 20 outputs),
            `label_sets_`, or the sets given. "auto" is "all" up to 14 outputs, else
            "label_sets". Of these the sets that agree with what is known compete; where
            none does, all of them with the known labels written over them.
        method : str or object, default="exact"
            As in `score_samples`; it is the probabilities that depend on it.
        random_state : int, RandomState or None, default=None
            For "ais".

        Returns
        -------
        labels : ndarray of shape (n_samples, k, n_outputs) or (n_samples, k)
            0/1 labels, or classes of 1-D y, by falling probability. -1 where what is known
            leaves fewer than k candidates.
        proba : ndarray of shape (n_samples, k)
            p(y | x), not relative to the candidates; 0 where there is none.

        Raises
        ------
        ValueError
            On an invalid argument, k larger than the number of candidates, or a model too
            large for `method`.
        """
        check_is_fitted(self)
        _check_count("k", k)
        with one_blas_thread():
            decoding = self._prepare(X, y_known)
            if self._targets.kind != "multilabel":
                log_proba = self._class_log_proba(X)
                _check_enough(k, log_proba.shape[1], "classes")
                best = np.argsort(-log_proba, axis=1, kind="stable")[:, :k]
                proba = np.exp(np.take_along_axis(log_proba, best, axis=1))
                return TopLabelSets(self.classes_[best], proba)
            decoding = decoding._replace(label_sets=self._candidates(decoding, candidates))
            _check_enough(k, len(decoding.label_sets), "candidates")
            shape = decoding.energy.n_models, k
            labels = np.full((*shape, decoding.energy.n_visible), -1)
            log_p = np.full(shape, -np.inf)
            for rows, sets, log_weight in weighted_label_sets(decoding, "marginal"):
                top = min(k, len(sets))
                best = np.argpartition(-log_weight, top - 1, axis=1)[:, :top]
                best.sort(axis=1)  # equal ones in the order of the candidates
                value = np.take_along_axis(log_weight, best, axis=1)
                order = np.argsort(-value, axis=1, kind="stable")
                value = np.take_along_axis(value, order, axis=1)
                found = sets[np.take_along_axis(best, order, axis=1)]
                log_p[rows, :top] = value
                labels[rows, :top] = np.where(np.isneginf(value)[:, :, None], -1, found)
            seed = check_random_state(random_state).randint(2**31 - 1)
            log_p -= _log_partition(decoding, method, seed)[:, None]
        return TopLabelSets(labels, np.exp(log_p))

    def predict_pairwise_proba(self, X, y_known=None):
        """P(y_i = 1, y_k = 1 | x) of all pairs of labels.

        By the inference method of `predict_proba`, whose marginals stand on the diagonal. Of
        conditional RBMs a pair is ``P(y_k = 1) P(y_i = 1 | y_k = 1)``, a run of inference per
        label; where that is approximate, the mean over both orders.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_outputs)

        Raises
        ------
        ValueError
            After a fit on 1-D y.
        """
        check_is_fitted(self)
        if self._targets.kind != "multilabel":
            raise ValueError(
                "predict_pairwise_proba is for 2-D y; this model was fitted on a 1-D y"
            )
        with one_blas_thread():
            decoding = self._prepare(X, y_known)
            energy, options = decoding.energy, {"n_jobs": decoding.n_jobs}
            if isinstance(energy, IsingEnergy):
                options.update(returns="pairwise", pairwise="per_example", clamp=decoding.clamp())
                return infer(energy, decoding.method, **options).pairwise
            marginals = expit(decoding.log_odds())
            n, n_labels = marginals.shape
            pairs = np.empty((n, n_labels, n_labels), marginals.dtype)
            nothing = np.full(marginals.shape, np.nan)
            known = nothing if decoding.known is None else decoding.known
            for i in range(n_labels):
                given = known.copy()
                given[:, i] = 1
                conditional = decoding._replace(known=given).log_odds()
                pairs[:, i] = marginals[:, [i]] * expit(conditional)
            pairs += np.swapaxes(pairs, 1, 2).copy()
        return pairs / 2

    def _candidates(self, decoding, candidates):
        """Candidates (K, L) of `predict_topk`."""
        n_labels = decoding.energy.n_visible
        if isinstance(candidates, str) and candidates == "auto":
            candidates = "all" if n_labels <= _AUTO_ALL_LABELS else "label_sets"
        if not isinstance(candidates, str):
            sets = as_float_array(candidates, "candidates", f"(n_sets, {n_labels})")
            if sets.shape[1] != n_labels or not np.isin(sets, (0, 1)).all():
                raise ValueError(
                    f"candidates must be 0/1 vectors of shape (n_sets, {n_labels}), got shape "
                    f"{sets.shape}"
                )
            return distinct_rows(sets)
        if candidates == "label_sets":
            return decoding.label_sets
        if candidates != "all":
            raise ValueError(
                "candidates must be 'auto', 'all', 'label_sets' or an array of label vectors, "
                f"got {candidates!r}"
            )
        if n_labels > _MAX_ALL_LABELS:
            raise ValueError(
                f"candidates='all' goes through 2^{n_labels} label vectors; the limit is "
                f"{_MAX_ALL_LABELS} outputs. Use 'label_sets' or an array"
            )
        numbers = np.arange(2**n_labels)[:, None]
        return ((numbers >> np.arange(n_labels)[::-1]) & 1).astype(np.int8)

    def _class_log_proba(self, X):
        """Log-probabilities (N, K) of the classes of a 1-D y."""
        score = self.decision_function(X).astype(np.float64)
        if self._targets.kind == "binary":
            score = self._log_odds_scale * score
            return np.column_stack([log_expit(-score), log_expit(score)])
        return log_softmax(score, axis=1)


class HiddenUnitsMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of models with hidden units: their marginals as features.

    Needs ``_prepare(X, y_known)``, which returns the `Decoding` of the rows, and `weights_`.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.weights_.shape[1]

    def transform(self, X, y_known=None):
        """P(h_j = 1 | x) of the hidden units, by the inference method of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y_known : array-like of shape (n_samples, n_outputs), default=None
            Labels known beforehand, NaN elsewhere: P(h_j = 1 | x, y_known).

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
        """
        check_is_fitted(self)
        with one_blas_thread():
            decoding = self._prepare(X, y_known)
            result = infer(
                decoding.energy, decoding.method, clamp=decoding.clamp(), n_jobs=decoding.n_jobs
            )
        return result.marginals[:, decoding.energy.n_visible :]


def _log_partition(decoding, method, seed):
    """Log Z (N,) of each row's model given what is known."""
    if isinstance(method, str) and method == "ais":
        if isinstance(decoding.energy, IsingEnergy):
            raise ValueError(
                "method='ais' is for conditional RBMs; this model has 'exact', 'mean_field', "
                "'sum_product' and 'tree_reweighted'"
            )
        from skcrbm.inference import estimate_log_partition

        return estimate_log_partition(
            decoding.energy, random_state=seed, clamp=decoding.clamp(), n_jobs=decoding.n_jobs
        ).log_partition
    return infer(
        decoding.energy,
        method,
        returns="log_partition",
        clamp=decoding.clamp(),
        n_jobs=decoding.n_jobs,
    ).log_partition


def _check_count(name, value):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an int of at least 1, got {value!r}")


def _check_enough(k, n, what):
    if k > n:
        raise ValueError(f"k={k} is larger than the number of {what}, {n}")
