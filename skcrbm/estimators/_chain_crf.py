"""ChainCRF: linear-chain conditional random field for lists of sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skcrbm.energies.chain import ChainEnergies
from skcrbm.estimators._chain_answers import ChainAnswers
from skcrbm.estimators._structured import (
    STRUCTURED_CONSTRAINTS,
    check_hinge,
    fit_dual,
    require_labels_of,
    require_stochastic,
    structured_plan,
    structured_solver,
)
from skcrbm.inference.chains import (
    ImpossiblePathError,
    best_paths,
)
from skcrbm.learning.fit import Plan, begin_partial_fit, train, train_one_epoch
from skcrbm.learning.rules import LearningRule, resolve_rule, rule_constraint
from skcrbm.learning.solvers import (
    LossPlateau,
    Solver,
)
from skcrbm.learning.structured.chain import SequenceBatch, clamped
from skcrbm.learning.structured.chain_model import ChainModel, ChainParams, columns_for
from skcrbm.targets.codes import MISSING
from skcrbm.targets.sequences import (
    SequenceRows,
    codes_of,
    find_classes,
    flat_labels,
)
from skcrbm.utils.fitting import (
    CallbackSupportMixin,
    EpochCallbacks,
    all_or_nothing,
    begin_fit,
    with_callbacks,
)
from skcrbm.utils.options import Integer, option_name
from skcrbm.utils.ragged import SequenceArrays
from skcrbm.utils.sklearn_private import fit_context
from skcrbm.utils.validation import check_sample_weight


class ChainCRF(CallbackSupportMixin, ChainAnswers):
    """Linear-chain conditional random field: predicts a class for each position of a sequence.

    The model is ``p(y | x) = exp F(x, y) / Z(x)`` with

    ``F(x, y) = first[y_1] + last[y_n] + sum_t (coef x_t + intercept)[y_t]
    + sum_t transition[y_(t-1), y_t]``  [1]_.

    X is a list of sequences of any lengths, and y is a list of label sequences. A sequence of X is
    an array or a sparse matrix of shape (n_positions, n_features), or a list with a dict of
    features for each position, as in python-crfsuite and sklearn-crfsuite. Numbers in a dict are
    values of features; a string, as in ``{"word": "the"}``, means that the feature "word=the" has
    the value 1. In place of a dict, a position may also be a list or set of strings, which are
    names of features with the value 1.

    Inference is exact (by forward-backward and Viterbi), and so are all likelihoods, probabilities
    and best label sequences.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Strength of the penalty: the objective is the mean loss of a sequence plus
        ``alpha (l1_ratio |w|_1 + (1 - l1_ratio) / 2 |w|^2)``, where w are all parameters except
        `intercept_`; with "max_margin" w are all parameters. "auto" compares penalties on a random
        fifth of the sequences that is held out (a fifth of 2500 random sequences if there are
        more). The parameter c2 of crfsuite corresponds to ``alpha * n_sequences / 2``. Scale
        numerical features, for example with ``SequenceTransformer(StandardScaler())``.
    l1_ratio : float in [0, 1], default=0.0
        Share of the L1 term in the penalty. With ``solver="lbfgs"`` the L1 term makes some
        coefficients exactly 0.
    learning : str or object, default="mle"
        Learning rule: "mle" is maximum likelihood and sums over missing labels; "pseudo_likelihood"
        needs complete labels; "max_margin" is the structured hinge loss, which needs complete
        labels and an L2 penalty, and gives no probabilities (see `MaxMargin`).
    solver : str or object, default="auto"
        Solver. "auto" is "frank_wolfe" if `learning` is "max_margin", else "lbfgs". Stochastic
        solvers take steps on mini-batches of sequences: "adam", "sgd", "asgd", or an object such as
        ``Adam(learning_rate=0.01, batch_size=16)``.
    max_iter : int, default=300
        Maximum number of iterations of L-BFGS, of passes of "frank_wolfe", or of epochs of a
        stochastic solver.
    early_stopping : bool or object, default=False
        Stopping rule of stochastic solvers. True holds out sequences and keeps the epoch with the
        best validation score, see `EarlyStopping`. False stops when the training loss no longer
        falls.
    features : {"observed", "all"}, default="observed"
        Coefficients that are learned for sparse X and dicts. "observed" learns a coefficient for a
        feature and a class only if both occur together in training; "all" learns the coefficients
        of all features for all classes.
    transition_features : bool, default=False
        If True, learn coefficients of the features for each pair of neighbouring classes, so that
        the weight of a transition depends on the features of its second position.
    order : {1, 2}, default=1
        Order of the chain. If it is 2, the model also has a weight for each triple of neighbouring
        classes, ``sum_t triple[y_(t-2), y_(t-1), y_t]``. Inference stays exact, but for K classes
        it takes about K^3 operations per position instead of K^2.
    fit_intercept : bool, default=True
        If True, learn the weights `intercept_` of the classes at all positions, and their
        additional weights `first_` and `last_` at the first and the last position.
    forbidden : list of pairs, default=None
        Pairs of classes ``(from, to)`` that must not follow each other. If one entry of a pair is
        None, the pair refers to the beginning or the end of a sequence: ``(None, "I")`` forbids "I"
        at the first position, and ``("B", None)`` forbids "B" at the last position.
    decode : {"map", "marginal"}, default="map"
        "map" predicts the most probable label sequence. "marginal" predicts the most probable class
        of each position, which maximises the expected number of correct labels.
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous fit. "frank_wolfe" starts from the dual
        variables of the previous fit, if that fit also used "frank_wolfe" and had the same labels.
    n_jobs : int, default=None
        Number of threads, which share the sequences. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the choice of held-out sequences and of the order of sequences in training.
    verbose : bool or int, default=False
        1 prints a live line, 2 prints a line for each iteration or epoch.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        Sorted classes.
    coef_ : ndarray or CSR matrix (n_classes, n_features)
        Coefficients of the features.
    intercept_, first_, last_ : ndarray (n_classes,)
        Weights of each class at all positions, at the first and at the last position; -inf for
        forbidden classes.
    transition_ : ndarray (n_classes, n_classes)
        Weight of each transition from the class of the row to the class of the column; -inf for
        forbidden transitions.
    transition_coef_ : ndarray or CSR matrix (n_classes * n_classes, n_features)
        Coefficients of the features for transitions, if `transition_features` is True. Row
        ``i * n_classes + j`` belongs to the transition from class i to class j.
    triple_ : ndarray (n_classes, n_classes, n_classes)
        Weight of three neighbouring classes, in their order, if `order` is 2.
    alpha_ : float
        Penalty of the fit.
    loss_curve_ : list of float
        Objective of each iteration of L-BFGS, or training loss of each epoch or pass.
    objective_, duality_gap_ : float
        Value of the objective after "frank_wolfe", and the difference between this value and a
        lower bound of the smallest possible value.
    n_iter_ : int
        Number of iterations, passes or epochs.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X holds dicts or strings.

    References
    ----------
    .. [1] Lafferty, McCallum and Pereira (2001). Conditional random fields: probabilistic models
       for segmenting and labeling sequence data. ICML.

    Examples
    --------
    >>> from skcrbm import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "dogs"}, {"word": "bark"}]] * 5
    >>> y = [["DET", "NOUN"], ["NOUN", "VERB"]] * 5
    >>> model = ChainCRF(alpha=0.1).fit(X, y)
    >>> [labels.tolist() for labels in model.predict(X[:2])]
    [['DET', 'NOUN'], ['NOUN', 'VERB']]
    """

    _progress: Any
    _state = ("_model", "_rows", "_progress", "_rng", "_dual", "_hinge")

    _parameter_constraints: ClassVar[dict] = {
        **STRUCTURED_CONSTRAINTS,
        "learning": rule_constraint("chain", "PseudoLikelihood()"),
        "transition_features": ["boolean"],
        "order": [Integer(1, 2)],
        "fit_intercept": ["boolean"],
        "forbidden": [list, tuple, set, None],
    }

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        l1_ratio: float = 0.0,
        learning: str | LearningRule = "mle",
        solver: str | Solver = "auto",
        max_iter: int = 300,
        early_stopping: bool | LossPlateau = False,
        features: str = "observed",
        transition_features: bool = False,
        order: int = 1,
        fit_intercept: bool = True,
        forbidden: Sequence[tuple[Any, Any]] | None = None,
        decode: str = "map",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.learning = learning
        self.solver = solver
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.features = features
        self.transition_features = transition_features
        self.order = order
        self.fit_intercept = fit_intercept
        self.forbidden = forbidden
        self.decode = decode
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.target_tags.required = True
        return tags

    # ------------------------------------------------------------------------------- training

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")

    @all_or_nothing
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Iterable, y: Iterable, sample_weight: ArrayLike | None = None):
        """Fit the model.

        Parameters
        ----------
        X : list of sequences
            Arrays or sparse matrices (n_positions, n_features), or lists of dicts.
        y : list of sequences of labels
            Labels are strings or integers, and missing labels are None or NaN. None in place of a
            label sequence means that all its labels are missing.
        sample_weight : array-like of shape (n_sequences,), default=None
            Non-negative weights; a sequence of weight k counts as k copies of the sequence.
            If ``alpha="auto"``, the search for alpha depends only on the ratios of the weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y, a weight or a hyperparameter is invalid, or a label sequence is forbidden.
        FloatingPointError
            If training diverges.
        """
        resume, rng = begin_fit(self)
        sequences = self._training_sequences(X, y, sample_weight, resume)
        if structured_solver(self).dual:
            model, objective = self._problem(sequences, resume)
            fit_dual(self, model, sequences, objective, rng, (X, y, sample_weight))
            return self
        plan = self._plan(sequences, rng, resume)
        callbacks = EpochCallbacks(self, plan.n_epochs, X, y, sample_weight)
        train(self, plan, rng, callbacks)
        callbacks.end()
        return self

    @all_or_nothing
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Iterable,
        y: Iterable,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ):
        """Train for one epoch on the given sequences, with a stochastic solver.

        X must have the same number of features in each call, so turn dicts into arrays first, for
        example with ``SequenceTransformer(FeatureHasher())``. All coefficients are learned, as with
        ``features="all"``.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes; required in the first call if `y` does not contain all of them.

        Returns
        -------
        self
        """
        resume, rng = begin_partial_fit(self)
        require_stochastic(self, "sequences")
        sequences = self._training_sequences(X, y, sample_weight, resume, classes)
        if self._rows.index is not None:
            raise ValueError(
                "partial_fit cannot take dicts, because later batches may hold new features; turn "
                "dicts into arrays by SequenceTransformer(FeatureHasher())"
            )
        plan = self._plan(sequences, rng, resume, partial=True)
        train_one_epoch(self, plan, rng)
        return self

    def _training_sequences(self, X, y, sample_weight, resume, classes=None) -> SequenceBatch:
        """Validate X, y and the weights; set the attributes that describe classes and features."""
        if resume:
            rows, start = self._rows.transform(X)
        else:
            self._rows = SequenceRows()
            rows, start = self._rows.fit_transform(X)
        labels = flat_labels(y, start)
        if not resume:
            self.classes_ = find_classes(
                labels if classes is None else np.asarray(classes).tolist()
            )
            self.n_features_in_ = rows.shape[1]
            if self._rows.index is not None:
                self.feature_names_in_ = np.array(list(self._rows.index.columns), object)
        path = codes_of(labels, self.classes_)
        weight = check_sample_weight(sample_weight, start[1:, None])
        sequences = SequenceBatch.of(SequenceArrays(rows, start), path, weight)
        if (weight == 0).any():
            sequences = sequences.take(np.flatnonzero(weight))
        self._check_possible(sequences)
        return sequences

    def _plan(self, sequences, rng, resume, partial=False) -> Plan:
        """Return the `Plan` (model, objective, solver, penalty and stopping rule) of a fit."""
        model, objective = self._problem(sequences, resume, partial)
        return structured_plan(self, model, sequences, objective, rng, resume, partial)

    def _problem(self, sequences, resume, partial=False) -> tuple[ChainModel, Any]:
        """Return the model from which a fit starts, and the objective that the fit minimises."""
        rule = resolve_rule(self.learning, "chain")
        self._hinge = check_hinge(self)
        require_labels_of(self, rule, sequences.path)
        model = self._model if resume else self._first_model(sequences, partial)
        if model.order != self.order:
            raise ValueError(
                f"order={self.order}, but the model was fitted with order={model.order}; "
                "set warm_start=False to start again"
            )
        if self.order == 2 and rule.name not in ("mle", "max_margin"):
            raise ValueError(
                "order=2 needs learning='mle' or 'max_margin'; got "
                f"learning={option_name(self.learning)!r}"
            )
        model = model._replace(forbidden=self._forbidden_log_weights())
        return model, rule.chain(self._trained(), self.n_jobs)

    def _trained(self) -> ChainParams:
        """Return True for each array that is learned."""
        return ChainParams(
            coef=True,
            intercept=self.fit_intercept,
            transition=True,
            first=self.fit_intercept,
            last=self.fit_intercept,
            pair_coef=self.transition_features,
            triple=self.order == 2,
        )

    def _first_model(self, sequences, partial) -> ChainModel:
        """Return a model whose parameters are all 0, from which a first fit starts."""
        n_states = len(self.classes_)
        X, path = sequences.X, sequences.path
        features = "all" if partial else self.features
        columns = columns_for(X, path, n_states, features)
        pair_columns, pair_shape = None, (0,)
        if self.transition_features:
            previous = np.concatenate([[MISSING], path[:-1]])
            pair = np.where((previous < 0) | (path < 0), MISSING, previous * n_states + path)
            # The first position of a sequence has no previous class, so its entry of `pair` has no
            # effect. But the entry must be a valid code.
            pair[sequences.start[:-1]] = np.maximum(path[sequences.start[:-1]], 0)
            pair_columns = columns_for(X, pair, n_states**2, features)
            pair_shape = pair_columns.shape
        params = ChainParams(
            np.zeros(columns.shape),
            np.zeros(n_states),
            np.zeros((n_states, n_states)),
            np.zeros(n_states),
            np.zeros(n_states),
            np.zeros(pair_shape),
            np.zeros((n_states,) * 3 if self.order == 2 else (0,)),
        )
        return ChainModel(params, columns, pair_columns, self._forbidden_log_weights())

    def _forbidden_log_weights(self):
        """Return log-weights that are -inf if a transition is forbidden, else 0.

        The result has three arrays: for pairs of neighbouring classes (K, K), for the class of the
        first position (K,), and for the class of the last position (K,).
        """
        k = len(self.classes_)
        pairs, first, last = np.zeros((k, k)), np.zeros(k), np.zeros(k)
        for item in self.forbidden or ():
            if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
                raise ValueError(
                    f"`forbidden` should hold pairs (from, to) of classes or None, got {item!r}"
                )
            i, j = codes_of(list(item), self.classes_, "forbidden")
            if i == MISSING and j == MISSING:
                raise ValueError("`forbidden` holds (None, None), but a pair needs a class")
            if i == MISSING:
                first[j] = -np.inf
            elif j == MISSING:
                last[i] = -np.inf
            else:
                pairs[i, j] = -np.inf
        return pairs, first, last

    def _check_possible(self, sequences):
        """Raise a ValueError if a label sequence in y contains a forbidden transition."""
        pairs, first, last = self._forbidden_log_weights()
        if not any(np.isinf(part).any() for part in (pairs, first, last)):
            return
        scores = np.zeros((len(sequences.path), len(first)))
        energies = ChainEnergies(sequences.start, scores, pairs[None], first, last)
        try:
            best_paths(clamped(energies, sequences.path))
        except ImpossiblePathError as error:
            raise ValueError(
                f"sequence {sequences.index[error.chain]} of y has a transition that `forbidden` "
                "excludes"
            ) from None

    def _model_attributes(self, model, alpha) -> dict[str, Any]:
        p, (pairs, first, last) = model.params, model.forbidden
        attributes = {
            "_model": model,
            "coef_": model.columns.matrix(p.coef),
            "intercept_": p.intercept,
            "transition_": p.transition + pairs,
            "first_": p.first + first,
            "last_": p.last + last,
            "alpha_": alpha,
        }
        if model.pair_columns is not None:
            attributes["transition_coef_"] = model.pair_columns.matrix(p.pair_coef)
        if model.order == 2:
            attributes["triple_"] = p.triple
        return attributes
