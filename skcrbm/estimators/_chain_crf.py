"""ChainCRF: linear-chain conditional random field for lists of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skcrbm.decoding.rules import DecodingRule
from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.energies.chain import ChainEnergies
from skcrbm.estimators._structured import LINEAR_CONSTRAINTS, StructuredCRF
from skcrbm.inference.chains import (
    ImpossiblePathError,
    best_paths,
    chain_marginals,
    class_marginals,
    k_best_paths,
    sample_paths,
)
from skcrbm.learning.rules import LearningRule, resolve_rule, rule_constraint
from skcrbm.learning.solvers import LossPlateau, Solver
from skcrbm.learning.structured.chain import SequenceBatch, clamped, log_likelihoods
from skcrbm.learning.structured.chain_model import ChainModel, ChainParams, columns_for
from skcrbm.learning.structured.rows import no_labels
from skcrbm.targets.codes import MISSING
from skcrbm.targets.sequences import SEQUENCE, SequenceRows, flatten
from skcrbm.utils.options import Integer, option_name


class ChainCRF(StructuredCRF):
    """Linear-chain conditional random field: predicts a class for each position of a sequence.

    The model is ``p(y | x) = exp F(x, y) / Z(x)`` with

    ``F(x, y) = first[y_1] + last[y_n] + sum_t (coef x_t + intercept)[y_t]
    + sum_t transition[y_(t-1), y_t]``  [1]_.

    X is a list of sequences of any lengths, and y is a list of label sequences. A sequence of X is
    an array or a sparse matrix of shape (n_positions, n_features), or a list with a dict of
    features for each position, as in python-crfsuite and sklearn-crfsuite. Numbers in a dict are
    values of features; a string, as in ``{"word": "the"}``, means that the feature "word=the" has
    the value 1; the features in a dict or list of strings, as in ``{"near": ["a", "b"]}``, get its
    key as a prefix, as in "near:a". In place of a dict, a position may also be a list or set of
    strings, which are names of features with the value 1.

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
    decode : {"map", "marginal"} or object, default="map"
        "map" predicts the most probable label sequence, which suits the share of sequences without
        an error. "marginal" predicts the most probable class of each position, which maximises the
        expected number of correct labels. The rules `MAP` and `Marginal` of `skcrbm.decoding` mean
        the same.
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
        Names of the features, if X holds dicts or strings, or data frames with strings as column
        names.

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

    _model: ChainModel
    _words = SEQUENCE
    _structural = ("features", "transition_features", "order", "fit_intercept")
    _hashing = "dicts into arrays by SequenceTransformer(FeatureHasher())"

    _parameter_constraints: ClassVar[dict] = {
        **LINEAR_CONSTRAINTS,
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
        decode: str | DecodingRule = "map",
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
        tags.input_tags.dict = True
        return tags

    # -------------------------------------------------------------------- the rows and the model

    def _first_rows(self, X, classes, sample_weight, **reading):
        rows = SequenceRows(owner=type(self).__name__)
        arrays = rows.fit_transform(X)
        self._note_features(rows, arrays)
        return rows, arrays

    def _batch(self, arrays, path, weight):
        return SequenceBatch.of(arrays, path, weight)

    def _require_possible(self, batch, name):
        """Raise a NoLabelsError if a label sequence in y contains a forbidden transition.

        Predictions need no such check, because the best path of a sequence without a possible path
        is an error, see `_answers`.
        """
        pairs, first, last = self._forbidden_log_weights()
        if name != "y" or not any(np.isinf(part).any() for part in (pairs, first, last)):
            return
        scores = np.zeros((len(batch.path), len(first)))
        energies = ChainEnergies(batch.start, scores, pairs[None], first, last)
        try:
            best_paths(clamped(energies, batch.path))
        except ImpossiblePathError as error:
            raise no_labels(batch.take(np.array([error.chain])), name) from None

    def _objective(self, model, batch):
        rule = resolve_rule(self.learning, "chain")
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

    def _first_model(self, batch, rng, partial) -> ChainModel:
        """Return a model whose parameters are all 0, from which a first fit starts."""
        n_states = len(self.classes_)
        X, path = batch.X, batch.path
        features = "all" if partial else self.features
        columns = columns_for(X, path, n_states, features)
        pair_columns, pair_shape = None, (0,)
        if self.transition_features:
            previous = np.concatenate([[MISSING], path[:-1]])
            pair = np.where((previous < 0) | (path < 0), MISSING, previous * n_states + path)
            # The first position of a sequence has no previous class, so its entry of `pair` has no
            # effect. But the entry must be a valid code.
            pair[batch.start[:-1]] = np.maximum(path[batch.start[:-1]], 0)
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
            i, j = self._coder.codes(list(item), None, "forbidden")
            if i == MISSING and j == MISSING:
                raise ValueError("`forbidden` holds (None, None), but a pair needs a class")
            if i == MISSING:
                first[j] = -np.inf
            elif j == MISSING:
                last[i] = -np.inf
            else:
                pairs[i, j] = -np.inf
        return pairs, first, last

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

    # ------------------------------------------------------------------------------- answers

    def _marginals(self, batch):
        return np.concatenate(self._answers(batch, class_marginals))

    def _best_path(self, batch):
        return np.concatenate(self._answers(batch, lambda energies: best_paths(energies)[0]))

    def _best_paths(self, batch, k):
        def answer(energies):
            log_z = np.full(energies.n_chains, np.nan)
            if not self._hinge:
                log_z = chain_marginals(energies, np.ones(energies.n_chains)).log_z
            return [(p, v - z) for (p, v), z in zip(k_best_paths(energies, k), log_z)]

        return flatten(self._answers(batch, answer))

    def _draws(self, batch, n_samples, rng):
        # Draw the random numbers for one sequence after the other, so that the result for a
        # sequence does not depend on later sequences.
        uniform = np.concatenate(
            [rng.random_sample((n, n_samples)) for n in np.diff(batch.start)]
        ).T.copy()
        pieces = batch.pieces(self._model.n_entries)
        first = np.cumsum([0] + [piece.start[-1] for piece in pieces])
        drawn = [
            self._answer(piece, partial(sample_paths, uniform=uniform[:, a:b]))
            for piece, a, b in zip(pieces, first, first[1:])
        ]
        return np.split(np.concatenate(drawn, axis=1), batch.start[1:-1], axis=1)

    def _log_likelihoods(self, batch):
        return log_likelihoods(self._model, batch, self.n_jobs)

    def factor_graph(self, sequence: Any) -> FactorGraphEnergy:
        """Return p(y | x) of a single sequence as a factor graph.

        All queries of `skcrbm.inference.infer` work on this graph, for example the marginals of
        pairs of positions.

        Parameters
        ----------
        sequence : array, sparse matrix or list of dicts
            A single sequence, in the same form as in `fit`.

        Returns
        -------
        FactorGraphEnergy
            Factor graph whose variable t is the class at position t, as an index of `classes_`.
        """
        batch, model = self._single(sequence), self._model
        energies = model.first_order(batch.X, batch.start)
        length, n_states = energies.scores.shape
        unary = energies.scores.copy()
        unary[0] += energies.first
        unary[-1] += energies.last
        factors = [TableFactors(np.arange(length)[:, None], unary)]
        if length > 1:
            pairs = np.broadcast_to(energies.pairs, (length, n_states, n_states))[1:]
            scopes = np.stack([np.arange(length - 1), np.arange(1, length)], axis=1)
            factors.append(TableFactors(scopes, pairs.copy()))
        if length > 2 and model.order == 2:
            scopes = np.arange(length - 2)[:, None] + np.arange(3)
            triple = np.broadcast_to(model.params.triple, (length - 2, *(n_states,) * 3))
            factors.append(TableFactors(scopes, triple.copy()))
        return FactorGraphEnergy(factors, n_variables=length, n_states=n_states)

    def _answers(self, batch, answer):
        """Return the list of ``answer(energies)`` of all parts of a batch, in their order.

        `energies` are the models of the sequences in a part.
        """
        return self._by_pieces(batch, lambda piece: self._answer(piece, answer))[1]

    def _answer(self, piece, answer):
        """Return ``answer(energies)`` of a part of a batch; a NoLabelsError names the sequence."""
        energies = self._model.energies(piece.X, piece.start)
        if (piece.path != MISSING).any():
            energies = clamped(energies, piece.path)
        try:
            return answer(energies)
        except ImpossiblePathError as error:
            raise no_labels(piece.take(np.array([error.chain])), "y_known") from None
