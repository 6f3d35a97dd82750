"""Decoding rules as objects: how `predict` turns a distribution over outputs into one vector.

A rule has options only, and a method `decode` of a `Posterior` (a model with an energy) or a
`ClassifierPosterior` (the probabilities of any classifier). A new rule is a class here and a line
in `DECODERS`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils._param_validation import Options as OneOf

from skcrbm.decoding._model_expected import decode_expected_f1, decode_expected_jaccard
from skcrbm.decoding.best_states import (
    best_label_sets,
    best_outputs,
    best_outputs_with_gap,
    least_hinge_loss,
)
from skcrbm.decoding.expected import METRICS, decode_marginals, decode_samples
from skcrbm.decoding.posterior import (
    CertifiedLabels,
    ClassifierPosterior,
    Posterior,
    with_a_label,
)
from skcrbm.decoding.thresholds import (
    THRESHOLD_METRICS,
    fit_thresholds,
    labels_by_fitted_thresholds,
)
from skcrbm.utils.options import Integer, Options, Registry, resolve_options

DECODERS = Registry(
    "decode",
    {
        "marginal": "skcrbm.decoding.rules:Marginal",
        "label_set": "skcrbm.decoding.rules:LabelSet",
        "expected_jaccard": "skcrbm.decoding.rules:expected_jaccard",
        "expected_f1": "skcrbm.decoding.rules:ExpectedMetric",
        "threshold": "skcrbm.decoding.rules:Threshold",
        "marginal_map": "skcrbm.decoding.rules:MarginalMAP",
        "map": "skcrbm.decoding.rules:MAP",
        "hinge": "skcrbm.decoding.rules:Hinge",
    },
)

_ZERO_DIVISION = [OneOf(Real, {0.0, 1.0}), StrOptions({"auto"})]


class DecodingRule(Options):
    """Base class of the decoding rules: options only, no state, so that `clone` and grids work."""

    #: Query that an energy must answer, such as "map"; None if marginals are enough.
    needs_answer: ClassVar[str | None] = None
    #: Names of the kinds of energy that the rule serves; None for all.
    needs_kind: ClassVar[frozenset | None] = None
    #: Whether `decode_with_gap` proves how far the labels may be from the best.
    certified: ClassVar[bool] = False
    #: Whether the rule can decode probabilities of labels from any classifier.
    takes_marginals: ClassVar[bool] = True
    #: True if `DecodedClassifier` should leave the decoding to an estimator that has the rule.
    prefers_joint: ClassVar[bool] = False

    @classmethod
    def serves(cls, energy_type: type) -> bool:
        """Return True if the rule can decode this kind of energy."""
        kinds = {kind.__name__ for kind in energy_type.__mro__}
        if cls.needs_kind is not None and not cls.needs_kind & kinds:
            return False
        return cls.needs_answer is None or cls.needs_answer in energy_type.queries

    @abstractmethod
    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return 0/1 outputs (N, V); known outputs are returned as given."""

    def decode_with_gap(self, posterior: Posterior) -> CertifiedLabels:
        """Return the outputs with a certificate; only rules with ``certified = True`` do."""
        raise NotImplementedError(f"{type(self).__name__} has no certificate")


class Marginal(DecodingRule):
    """Switch on the outputs with ``P(v_i = 1 | x) >= 0.5``: the least expected Hamming loss.

    If no label would be on and every training row had a label, the most probable label goes on.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.decoding import Marginal
    >>> CRBMClassifier(decode=Marginal())
    CRBMClassifier(decode=Marginal())
    """

    name = "marginal"

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return 0/1 outputs (N, V), the mode of each marginal."""
        labels, score = posterior.modes()
        return with_a_label(labels, score, posterior.allow_empty)


class LabelSet(DecodingRule):
    """Choose the most probable of the label sets seen in fit, for subset accuracy.

    Known labels restrict the sets to those that agree with them. If no set agrees, all sets compete
    with the known labels written over them. A classifier without a joint distribution of its own
    is decoded as if its labels were independent given x.

    Examples
    --------
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from skcrbm import DecodedClassifier
    >>> from skcrbm.decoding import LabelSet
    >>> model = DecodedClassifier(ExtraTreesClassifier(), decode=LabelSet())
    """

    name = "label_set"
    prefers_joint = True

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the best of the label sets seen in fit, (N, V)."""
        hidden = posterior.hidden if isinstance(posterior, Posterior) else "marginal"
        return best_label_sets(posterior, hidden)


class ExpectedMetric(DecodingRule):
    """Choose the labels of the largest expected F1 or Jaccard index of a row.

    Parameters
    ----------
    metric : {"f1", "jaccard"}, default="f1"
        ``2 |v y| / (|v| + |y|)`` or ``|v y| / |v or y|`` of a row; the names "f1_samples" and
        "jaccard_samples" stand for the same.
    zero_division : {"auto", 0.0, 1.0}, default="auto"
        Score of a row without true and predicted labels. With 0, as in scikit-learn's `f1_score`,
        predicting no label never gains anything. "auto" is 1 in a model's own `decode` and 0 in
        `DecodedClassifier`.
    n_samples : int, default=None
        Number of draws from the joint distribution of each row, over which the expectation is
        taken, with a fixed seed. None: the exact expectation, under p(y | x) for models with exact
        inference and for labels that are independent given x otherwise.

    Notes
    -----
    The F1 rule is the best of all label vectors; the Jaccard rule the best of some candidates, see
    `skcrbm.decoding.decode_marginals` and `skcrbm.decoding.decode_samples`.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier, DecodedClassifier
    >>> from skcrbm.decoding import ExpectedMetric
    >>> rule = ExpectedMetric("jaccard", n_samples=200)
    >>> model = DecodedClassifier(CRBMClassifier(), decode=rule, random_state=0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "metric": [StrOptions({*METRICS, *METRICS.values()})],
        "zero_division": _ZERO_DIVISION,
        "n_samples": [Integer(1), None],
    }

    def __init__(
        self,
        metric: str = "f1",
        *,
        zero_division: float | str = "auto",
        n_samples: int | None = None,
    ):
        self.metric = metric
        self.zero_division = zero_division
        self.n_samples = n_samples

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name that stands for the rule in `decode`."""
        return f"expected_{METRICS.get(self.metric, self.metric)}"

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the labels (N, V) of the largest expected metric."""
        metric = METRICS.get(self.metric, self.metric)
        zero_division = _or_default(self.zero_division, posterior.zero_division)
        options = {"zero_division": zero_division, "allow_empty": posterior.allow_empty}
        if self.n_samples is not None:
            return decode_samples(posterior.draw(self.n_samples), metric, **options)
        if isinstance(posterior, ClassifierPosterior):
            return decode_marginals(posterior.proba, metric, **options)
        if metric == "f1":
            return decode_expected_f1(posterior, zero_division)
        return decode_expected_jaccard(posterior, zero_division)


def expected_jaccard() -> ExpectedMetric:
    """Return the rule that the name "expected_jaccard" stands for."""
    return ExpectedMetric("jaccard")


class Threshold(DecodingRule):
    """Switch on the labels whose probability reaches a threshold fitted by cross-validation.

    `fit` predicts the training rows out of fold and keeps the best of all cut points for the
    metric as `thresholds_`; that costs as many fits as folds, beside the fit on all rows.

    Parameters
    ----------
    metric : str, default="f1_samples"
        Metric that the thresholds maximise: "f1_samples", "jaccard_samples", "f1_micro" or
        "neg_hamming_loss", with one threshold for all labels, or "f1_macro", with a threshold for
        each label.
    cv : int, splitter or iterable, default=None
        Folds of the training rows. An int is a number of folds stratified by labels; None is 5.
    zero_division : {"auto", 0.0, 1.0}, default="auto"
        Score of a row without true and predicted labels (of a label, with "f1_macro"). "auto" is 1
        in a model's own `decode` and 0 in `DecodedClassifier`.

    See Also
    --------
    skcrbm.decoding.fit_thresholds : The search, as a function of labels and probabilities.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.decoding import Threshold
    >>> model = CRBMClassifier(decode=Threshold("f1_macro"))
    """

    name = "threshold"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "metric": [StrOptions(set(THRESHOLD_METRICS))],
        "cv": ["cv_object"],
        "zero_division": _ZERO_DIVISION,
    }

    def __init__(
        self,
        metric: str = "f1_samples",
        *,
        cv: Any = None,
        zero_division: float | str = "auto",
    ):
        self.metric = metric
        self.cv = cv
        self.zero_division = zero_division

    def find(
        self, y, proba, *, zero_division: float, sample_weight=None, allow_empty: bool = True
    ) -> np.ndarray:
        """Return the best thresholds (V,) for labels y and their out-of-fold probabilities.

        `zero_division` is the value that "auto" stands for.
        """
        return fit_thresholds(
            y,
            proba,
            self.metric,
            sample_weight=sample_weight,
            zero_division=_or_default(self.zero_division, zero_division),
            allow_empty=allow_empty,
        )

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the outputs (N, V) whose probability reaches their threshold."""
        labels = labels_by_fitted_thresholds(
            posterior.marginals(), posterior.thresholds, posterior.known, posterior.allow_empty
        )
        return labels.astype(np.int8)


class _JointRule(DecodingRule):
    """Base class of the rules that search the joint distribution of a model."""

    takes_marginals = False
    prefers_joint = True


class MarginalMAP(_JointRule):
    """Choose the most probable of all label vectors, with the hidden units summed out.

    Exact for at most 10 outputs. Beyond, the best of the state that mixed-product message passing
    finds and the best label set seen in fit, both improved by flips of single outputs.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.decoding import MarginalMAP
    >>> model = CRBMClassifier(decode=MarginalMAP())
    """

    name = "marginal_map"
    needs_answer = "marginal_map"

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return ``argmax p(v | x)``, (N, V)."""
        return best_outputs(_of_model(self, posterior), "marginal_map", "marginal")


class MAP(_JointRule):
    """Choose the label part of the most probable state ``argmax p(v, h | x)``.

    Exact if the smaller layer has at most 10 units. Beyond, the state that max-product finds,
    improved as by `MarginalMAP`; models over pairs and cliques of labels search by branch and
    bound.

    Examples
    --------
    >>> from skcrbm import LMBMClassifier
    >>> from skcrbm.decoding import MAP
    >>> model = LMBMClassifier(decode=MAP())
    """

    name = "map"
    needs_answer = "map"
    certified = True

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the outputs (N, V) of the best state."""
        return best_outputs(_of_model(self, posterior), "map", "max")

    def decode_with_gap(self, posterior: Posterior) -> CertifiedLabels:
        """Return the outputs of the best state, minus its score, and the gap to its bound."""
        return best_outputs_with_gap(posterior)


class Hinge(_JointRule):
    """Choose the labels of the least hinge loss, the rule of the large margin Boltzmann machine.

    Minimises ``sum_i max(margin - y_i (f_i + sum_k s_ik y_k), 0)`` over y in {-1, +1}^L. All label
    vectors compete, the empty vector included.

    Examples
    --------
    >>> from skcrbm import LMBMClassifier
    >>> from skcrbm.decoding import Hinge
    >>> model = LMBMClassifier(decode=Hinge())
    """

    name = "hinge"
    needs_kind = frozenset({"IsingEnergy", "FactorGraphEnergy"})
    certified = True

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the labels (N, V) of the least hinge loss."""
        return self.decode_with_gap(_of_model(self, posterior)).labels

    def decode_with_gap(self, posterior: Posterior) -> CertifiedLabels:
        """Return the labels, their loss, and how much lower the loss of others may be."""
        return least_hinge_loss(posterior)


def resolve_decoder(
    decode: str | DecodingRule, argument: str = "decode", possible: Iterable[str] | None = None
) -> DecodingRule:
    """Turn a name or a configured object into a decoding rule, with its options checked.

    Parameters
    ----------
    decode : str or DecodingRule
        A name stands for the rule with its defaults.
    argument : str, default="decode"
        Name of the argument, for error messages.
    possible : iterable of str, default=None
        Names of the rules that are accepted; None: all.

    Raises
    ------
    ValueError
        If the name is unknown, the rule is not possible, or an option is invalid.
    TypeError
        If `decode` is neither a name nor a rule.
    """
    names = DECODERS.names() if possible is None else list(possible)
    rule = resolve_options(decode, DECODERS, DecodingRule, argument, names)
    if rule.name not in names:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, names))}; got {rule!r}")
    return rule


class _RuleObject(HasMethods):
    """Constraint: a decoding rule as an object, with a possible name and valid options."""

    def __init__(self, names: Iterable[str]):
        super().__init__(["decode"])
        self.names = frozenset(names)

    def is_satisfied_by(self, val: Any) -> bool:
        """Return True if `val` is a possible rule; its invalid options raise an error here."""
        if not isinstance(val, DecodingRule):
            return False
        val.check_options()
        return val.name in self.names

    def __str__(self) -> str:
        return "one of these rules as an object, such as ExpectedMetric('jaccard')"


def decoder_constraint(names: Iterable[str], *, auto: bool = False) -> list:
    """Return the constraint of a parameter that takes a decoding rule, by name or as an object.

    Parameters
    ----------
    names : iterable of str
        Names of the rules that are possible.
    auto : bool, default=False
        Whether "auto" is accepted as well.

    Returns
    -------
    list
        Entry of scikit-learn's ``_parameter_constraints``.
    """
    names = list(names)
    return [StrOptions({*names, *(["auto"] if auto else [])}), _RuleObject(names)]


def decoders_for(energy_type: type) -> list[str]:
    """Return the names of the decoding rules that serve a kind of energy.

    Parameters
    ----------
    energy_type : type
        A subclass of `BaseEnergy`.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from skcrbm.decoding import decoders_for
    >>> from skcrbm.energies import IsingEnergy
    >>> decoders_for(IsingEnergy)[-2:]
    ['map', 'hinge']
    """
    return [name for name in DECODERS if DECODERS.get(name)().serves(energy_type)]


def _of_model(rule: DecodingRule, posterior: Posterior | ClassifierPosterior) -> Posterior:
    if not isinstance(posterior, Posterior):
        raise ValueError(f"decode={rule.name!r} needs the joint distribution of a model")
    return posterior


def _or_default(value: float | str, default: float) -> float:
    return default if isinstance(value, str) else value
