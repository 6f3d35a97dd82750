"""Decoding rules, with which `predict` chooses an output vector for each row.

A rule holds only options. Its method `decode` takes the distribution of the outputs: a `Posterior`
(of a model with an energy) or a `ClassifierPosterior` (probabilities predicted by any classifier).
To add a rule, define a class here and add its name to `DECODERS`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from numbers import Real
from typing import Any, ClassVar

import numpy as np

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
from skcrbm.utils.options import Integer, KnownName, Options, Registry, resolve_options
from skcrbm.utils.sklearn_private import HasMethods, StrOptions
from skcrbm.utils.sklearn_private import Options as OneOf

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

# Rules that also choose among several classes of an output, not only which 0/1 labels are on.
_RULES_OF_CLASSES = frozenset(("marginal", "marginal_map", "map"))
_ZERO_DIVISION = [OneOf(Real, {0.0, 1.0}), StrOptions({"auto"})]


class DecodingRule(Options):
    """Base class of the decoding rules.

    A rule holds options and no fitted state, so that `clone` and grid searches over options work.
    """

    #: Query that the energy must support, such as "map"; None if the rule needs only marginals.
    needs_answer: ClassVar[str | None] = None
    #: Names of the energy classes that the rule supports; None if it supports all classes.
    needs_kind: ClassVar[frozenset | None] = None
    #: True if `decode_with_gap` returns a bound on how far the labels may be from the optimum.
    certified: ClassVar[bool] = False
    #: True if the rule can decode predicted probabilities of any classifier.
    takes_marginals: ClassVar[bool] = True
    #: True if the rule decodes a joint distribution. `DecodedClassifier` then lets its inner
    #: estimator decode, if the inner estimator supports the rule.
    prefers_joint: ClassVar[bool] = False

    @classmethod
    def serves(cls, energy_type: type) -> bool:
        """Return True if the rule can decode energies of this class."""
        kinds = {kind.__name__ for kind in energy_type.__mro__}
        if cls.needs_kind is not None and not cls.needs_kind & kinds:
            return False
        return cls.needs_answer is None or cls.needs_answer in energy_type.queries

    @abstractmethod
    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return 0/1 outputs (N, V); known outputs are returned unchanged."""

    def decode_with_gap(self, posterior: Posterior) -> CertifiedLabels:
        """Return the outputs, and a bound on how far their objective is from the optimum.

        Only rules whose attribute `certified` is True support this method.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot bound how far its labels are from the optimum"
        )


class Marginal(DecodingRule):
    """Switch on the outputs with ``P(v_i = 1 | x) >= 0.5``.

    This rule minimises the expected Hamming loss. A row in which no label reaches 0.5 gets its most
    probable label if empty predictions are not allowed.

    Parameters
    ----------
    allow_empty : bool or "auto", default="auto"
        If False, a row without a predicted label gets its most probable label. "auto" means False
        if every training row had a label, else True.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.decoding import Marginal
    >>> CRBMClassifier(decode=Marginal())
    CRBMClassifier(decode=Marginal())
    """

    name = "marginal"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "allow_empty": ["boolean", StrOptions({"auto"})],
    }

    def __init__(self, *, allow_empty: bool | str = "auto"):
        self.allow_empty = allow_empty

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the modes of the marginals as 0/1 outputs (N, V)."""
        labels, score = posterior.modes()
        allow_empty = self.allow_empty
        if isinstance(allow_empty, str):
            allow_empty = posterior.allow_empty
        return with_a_label(labels, score, allow_empty)


class LabelSet(DecodingRule):
    """Choose the most probable of the label sets seen in fit, which suits the subset accuracy.

    Only label sets that agree with the known labels are possible. If no set agrees, the known
    labels replace the corresponding entries of each label set, and all of these changed sets are
    candidates. If the classifier has no joint distribution, labels are treated as independent
    given x.

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
        """Return the most probable label sets seen in fit (N, V)."""
        hidden = posterior.hidden if isinstance(posterior, Posterior) else "marginal"
        return best_label_sets(posterior, hidden)


class ExpectedMetric(DecodingRule):
    """Choose the label vector with the largest expected F1 or Jaccard index of a row.

    Parameters
    ----------
    metric : {"f1", "jaccard"}, default="f1"
        Metric of the prediction v for the true labels y of a row: F1 is
        ``2 |v and y| / (|v| + |y|)``, and the Jaccard index is ``|v and y| / |v or y|``. The names
        "f1_samples" and "jaccard_samples" are accepted, too.
    zero_division : {"auto", 0.0, 1.0}, default="auto"
        Score of a row without true and predicted labels. With 0, the default of scikit-learn's
        `f1_score`, an empty prediction is never better than another prediction. "auto" means 0.
    n_samples : int, default=None
        Number of samples that are drawn from the joint distribution of each row, with a fixed seed,
        to estimate the expectation. The samples of a row do not depend on the other rows of a call.
        `DecodedClassifier` draws from the probabilities of all label vectors if there are at most
        12 labels, and row by row with more labels, which takes some 2 ms for each row.
        If None, the expectation is computed without sampling: under p(y | x) for models with exact
        inference, otherwise as if labels were independent given x.

    Notes
    -----
    For F1 the result is the best of all label vectors. For the Jaccard index it is the best of a
    few candidates, such as the k most probable labels. See `skcrbm.decoding.decode_marginals` and
    `skcrbm.decoding.decode_samples`.

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
        """Name of the rule in `decode`."""
        return f"expected_{METRICS.get(self.metric, self.metric)}"

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the label vectors (N, V) with the largest expected metric."""
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
    """Return the rule with the name "expected_jaccard"."""
    return ExpectedMetric("jaccard")


class Threshold(DecodingRule):
    """Switch on the labels whose probability reaches a threshold fitted by cross-validation.

    `fit` computes out-of-fold probabilities of the training rows, finds the thresholds that
    maximise the metric, and stores them as `thresholds_`. This takes a fit for each fold, in
    addition to the fit on all rows.

    Parameters
    ----------
    metric : str, default="f1_samples"
        Metric to maximise. "f1_samples", "jaccard_samples", "f1_micro" and "neg_hamming_loss" fit a
        single threshold for all labels, "f1_macro" fits a threshold for each label.
    cv : int, splitter or iterable, default=None
        Folds of the training rows. An integer is a number of folds, stratified by labels; None
        means 5.
    zero_division : {"auto", 0.0, 1.0}, default="auto"
        Score of a row that has neither true nor predicted labels. With "f1_macro", score of a label
        that is neither true nor predicted in any row. "auto" means 0, as in scikit-learn.

    See Also
    --------
    skcrbm.decoding.fit_thresholds : Find the thresholds for given labels and probabilities.

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

        `zero_division` is the value to use if the option of the rule is "auto".
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
    """Base class of rules that search for a mode of the joint distribution of a model."""

    takes_marginals = False
    prefers_joint = True


class MarginalMAP(_JointRule):
    """Choose the most probable of all label vectors, with the hidden units summed out.

    The result is exact for at most 10 outputs. With more outputs, the result of mixed-product
    message passing and the best label set seen in fit are improved by flips of single outputs, and
    the better vector is chosen.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.decoding import MarginalMAP
    >>> model = CRBMClassifier(decode=MarginalMAP())
    """

    name = "marginal_map"
    needs_answer = "marginal_map"

    def decode(self, posterior: Posterior | ClassifierPosterior) -> np.ndarray:
        """Return the most probable outputs ``argmax p(v | x)`` (N, V)."""
        return best_outputs(_of_model(self, posterior), "marginal_map", "marginal")


class MAP(_JointRule):
    """Choose the labels of the most probable joint state ``argmax p(v, h | x)``.

    The result is exact if the smaller layer has at most 10 units. For larger layers the result of
    max-product message passing is improved as in `MarginalMAP`. Models with pairs and cliques of
    labels use branch and bound.

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
        """Return the outputs (N, V) of the most probable state."""
        return best_outputs(_of_model(self, posterior), "map", "max")

    def decode_with_gap(self, posterior: Posterior) -> CertifiedLabels:
        """Return the outputs of the best state, its negated score, and a bound on the gap."""
        return best_outputs_with_gap(posterior)


class Hinge(_JointRule):
    """Choose the labels with the least hinge loss, the rule of the large margin Boltzmann machine.

    The rule minimises ``sum_i max(margin - y_i (f_i + sum_k s_ik y_k), 0)``, where f_i are fields
    and s_ik are couplings, over all label vectors y in {-1, +1}^L, including the vector without a
    label.

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
        """Return the labels (N, V) with the least hinge loss."""
        return self.decode_with_gap(_of_model(self, posterior)).labels

    def decode_with_gap(self, posterior: Posterior) -> CertifiedLabels:
        """Return the labels, their hinge loss, and a bound on the gap to the least loss."""
        return least_hinge_loss(posterior)


def resolve_decoder(
    decode: str | DecodingRule, argument: str = "decode", possible: Iterable[str] | None = None
) -> DecodingRule:
    """Return the decoding rule for a name or a configured object, and check its options.

    A name gives the rule with its default options. `argument` is the name of the argument in error
    messages, and `possible` holds the names of the accepted rules (None for all rules). A
    ValueError is raised if a name is unknown, a rule is not accepted or an option is invalid. A
    TypeError is raised if `decode` is neither a name nor a rule.
    """
    names = DECODERS.names() if possible is None else list(possible)
    rule = resolve_options(decode, DECODERS, DecodingRule, argument, names)
    if rule.name not in names:
        raise ValueError(
            f"{argument} must be one of {', '.join(map(repr, names))}; got {rule!r}"
            f"{_why_no_others(names)}"
        )
    return rule


def _why_no_others(names):
    """Return the reason in brackets why outputs with classes have no rules except `names`.

    The result is empty if some of the `names` are rules for 0/1 labels.
    """
    if not _RULES_OF_CLASSES.issuperset(names):
        return ""
    hidden = "" if "marginal_map" in names else ", or sum over hidden units"
    return f" (the other rules of skcrbm.decoding choose sets of 0/1 labels, not classes{hidden})"


class _RuleObject(HasMethods):
    """Constraint that accepts rule objects whose name is one of `names`."""

    def __init__(self, names: Iterable[str]):
        super().__init__(["decode"])
        self.names = tuple(names)

    def is_satisfied_by(self, val: Any) -> bool:
        """Return True if `val` is an accepted rule; raise an error if its options are invalid."""
        if not isinstance(val, DecodingRule):
            return False
        val.check_options()
        return val.name in self.names

    def __str__(self) -> str:
        example = "ExpectedMetric('jaccard')"
        if "expected_jaccard" not in self.names:
            example = f"{type(DECODERS.get(self.names[0])()).__name__}()"
        return f"one of these rules as an object, such as {example}{_why_no_others(self.names)}"


def decoder_constraint(names: Iterable[str], *, auto: bool = False) -> list:
    """Return the constraint of a hyperparameter that takes a decoding rule.

    The hyperparameter may be one of the `names`, a rule object whose name is in `names`, or, if
    `auto` is True, "auto". If all `names` are rules for outputs with classes, the error says why
    other rules are not possible.
    """
    names = list(names)
    return [KnownName(names, auto=auto), _RuleObject(names)]


def decoders_for(energy_type: type) -> list[str]:
    """Return the names of the decoding rules that can be used with a class of energies.

    Parameters
    ----------
    energy_type : type
        Subclass of `BaseEnergy`.

    Returns
    -------
    list of str
        Names of the rules, in the order of their registration.

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
        raise ValueError(
            f"decode={rule.name!r} needs a model with a joint distribution of the labels"
        )
    return posterior


def _or_default(value: float | str, default: float) -> float:
    return default if isinstance(value, str) else value
