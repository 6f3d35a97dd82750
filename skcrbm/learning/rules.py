"""Learning rules: the objects that `learning=` takes, and the objectives that they build.

A rule builds an objective from two phases of `phases.py`: the method `conditional` for models of y
given X, and `density` for models of the distribution of the rows. To add a rule, write a class
here, and add its name to `LEARNING_RULES` and, for each kind of model that it trains, to `_NAMES`.
The rules with samplers are in `sampled_rules.py`, the rules of layered models are in
`truncated.py`, and max-margin learning is in `large_margin/`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.inference import InferenceMethod
from skcrbm.learning.objectives import Contrast, DensityContrast, Objective
from skcrbm.learning.phases import (
    Chains,
    Expected,
    LocalSearch,
    Observed,
    ObservedOnce,
    Phase,
)
from skcrbm.learning.structured.chain import ChainLikelihood, ChainPseudoLikelihood
from skcrbm.learning.structured.graph import GraphLikelihood, GraphPseudoLikelihood
from skcrbm.targets.indicator import require_complete
from skcrbm.utils.options import Integer, Options, Registry, options_constraint, resolve_options

Kind = Literal["conditional", "density", "layered", "chain", "graph"]

#: Default number of states that are drawn from a density in each step.
N_STATES = 100


class LearningRule(Options):
    """Base class of the learning rules."""

    #: True if the loss in the training of a density is the negative log-likelihood.
    has_density_loss: ClassVar[bool] = False
    #: True if the training of a conditional model, chain or graph needs complete outputs, without
    #: missing labels.
    needs_complete: ClassVar[bool] = False
    #: True if the training of a conditional model draws random numbers. Such a rule cannot
    #: train a conditional model with a single categorical output.
    draws: ClassVar[bool] = False
    #: True if the outputs of a conditional model must be 0/1 variables, not a categorical output.
    needs_binary: ClassVar[bool] = False
    #: True if each training row of a conditional model has its own persistent Markov chain.
    keeps_chains: ClassVar[bool] = False
    #: Results of `inference` that the training of a conditional model needs.
    conditional_answers: ClassVar[tuple[str, ...]] = ("marginals",)
    #: Results of `inference` that the training of a density needs.
    density_answers: ClassVar[frozenset[str]] = frozenset()

    def conditional(self, inference: InferenceMethod, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a conditional model by this rule."""
        raise TypeError(f"{type(self).__name__} does not train conditional models")

    def density(
        self,
        inference: InferenceMethod,
        sampler: InferenceMethod | None = None,
        n_jobs: int | None = None,
    ) -> Objective:
        """Return the `Objective` that trains a density, a model of the distribution of the rows.

        `sampler` is the result of `density_sampler`.
        """
        return DensityContrast(
            ObservedOnce(inference, n_jobs),
            self._model_phase(inference, sampler, n_jobs),
            inference=inference,
            n_jobs=n_jobs,
            is_loss=self.has_density_loss,
            state_key=self._density_key(sampler),
        )

    def layered(self, inference, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a layered model by this rule.

        `inference` is a `TruncatedInference`.
        """
        raise TypeError(f"{type(self).__name__} does not train layered models")

    def chain(self, trained, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of sequences by this rule.

        `StructuredObjective` describes the arguments.
        """
        raise TypeError(f"{type(self).__name__} does not train chains")

    def graph(self, trained, inference, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of graphs by this rule.

        `inference` is the inference method, and `StructuredObjective` describes the other
        arguments.
        """
        raise TypeError(f"{type(self).__name__} does not train graphs")

    def density_sampler(self, energy: BaseEnergy) -> InferenceMethod | None:
        """Return a copy of the rule's sampler, or None if the rule has no sampler.

        A ValueError is raised if the sampler cannot draw from the energy.
        """
        return None

    def check_conditional(self) -> None:
        """Raise a ValueError if an option does not apply to conditional models."""

    def check_stream(self) -> None:
        """Raise a ValueError if `partial_fit` cannot train a conditional model by the rule."""
        if self.keeps_chains:
            raise ValueError(
                f"learning={self.name!r} keeps a chain for each training row, but partial_fit "
                "cannot recognise rows of earlier calls; use fit, or learning='cd'"
            )

    def check_rows(
        self, visible: np.ndarray, n_classes: int | None, columns_of_classes: bool
    ) -> None:
        """Raise a ValueError if the rule cannot train a conditional model on the given rows.

        `visible` (N, V) holds the outputs, with NaN for missing labels. `n_classes` is the number
        of classes of a categorical output, else None. `columns_of_classes` is True if each column
        of y holds the classes of an output.
        """
        if self.needs_complete:
            require_complete(
                visible,
                f"learning={self.name!r} needs complete labels, and equal weights of all labels "
                "in a row (different weights are represented by copies of the row with missing "
                "labels); learning='mle' does not",
            )
        if n_classes is not None and (self.draws or self.needs_binary):
            raise ValueError(
                f"learning={self.name!r} needs two classes in a 1-D y, got {n_classes}; "
                "learning='mle' supports any number of classes"
            )
        contrastive = isinstance(self, (ContrastiveDivergence, PersistentContrastiveDivergence))
        if columns_of_classes and (self.needs_binary or (self.draws and not contrastive)):
            raise ValueError(
                f"learning={self.name!r} needs 0/1 labels, but the columns of y hold classes; use "
                "'mle', 'cd' or 'pcd'"
            )

    def _model_phase(self, inference, sampler, n_jobs) -> Phase:
        raise TypeError(f"{type(self).__name__} does not train densities")

    def _density_key(self, sampler):
        """Return `Objective.state_key`; a warm start reuses only a state with an equal key."""
        return self.name


class Likelihood(LearningRule):
    """Maximum likelihood with the marginals of `inference` (``learning="mle"``).

    The gradient is ``E[moments | x] - E[moments | observed v, x]`` ([1]_, eq. 5). In the second
    term, the same inference method marginalises the missing outputs. If the method is approximate,
    the reported loss is approximate, too.

    References
    ----------
    .. [1] Ping and Ihler (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.learning import Likelihood
    >>> model = CRBMClassifier(learning=Likelihood())  # the same as learning="mle"
    """

    name = "mle"
    has_density_loss = True
    conditional_answers = ("log_partition", "marginals", "statistics")
    density_answers = frozenset({"statistics", "log_partition"})

    def conditional(self, inference: InferenceMethod, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a conditional model by this rule."""
        return Contrast(
            Observed(inference, n_jobs),
            Expected(inference, n_jobs),
            inference=inference,
            n_jobs=n_jobs,
            state_key=self.name,
        )

    def chain(self, trained, n_jobs: int | None = None) -> Objective:
        """Return the likelihood that trains a model of sequences; its marginals are exact."""
        return ChainLikelihood(trained, n_jobs)

    def graph(self, trained, inference, n_jobs: int | None = None) -> Objective:
        """Return the likelihood that trains a model of graphs, with marginals by `inference`."""
        return GraphLikelihood(trained, inference, n_jobs)

    def _model_phase(self, inference, sampler, n_jobs):
        return Expected(inference, n_jobs)


class PseudoLikelihood(LearningRule):
    """Pseudo-likelihood of chains and graphs (``learning="pseudo_likelihood"``).

    The loss is minus the sum of the log-probabilities of each label given its neighbours [1]_. It
    is faster to compute than the likelihood. But the learned weights rely too much on the
    neighbours, because their labels are known in training and unknown in prediction. Every label
    must be observed.

    References
    ----------
    .. [1] Besag (1975). Statistical analysis of non-lattice data. The Statistician 24.

    Examples
    --------
    >>> from skcrbm import ChainCRF
    >>> from skcrbm.learning import PseudoLikelihood
    >>> model = ChainCRF(learning=PseudoLikelihood())  # the same as learning="pseudo_likelihood"
    """

    name = "pseudo_likelihood"
    needs_complete = True

    def chain(self, trained, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of sequences by this rule."""
        return ChainPseudoLikelihood(trained, n_jobs)

    def graph(self, trained, inference, n_jobs: int | None = None) -> Objective:
        """Return the pseudo-likelihood that trains a model of graphs; it needs no inference."""
        return GraphPseudoLikelihood(trained, n_jobs)


class _Contrastive(LearningRule):
    """Base class of the two rules of contrastive divergence.

    The chains begin at the data (`start` "data") or continue from step to step ("persistent").
    """

    needs_complete = True
    draws = True
    start: ClassVar[str] = "data"

    _parameter_constraints: ClassVar = {
        "n_steps": [Integer(1)],
        "n_chains": [Integer(1), None],
    }

    def __init__(self, n_steps: int = 1, n_chains: int | None = None):
        self.n_steps = n_steps
        self.n_chains = n_chains

    def check_conditional(self) -> None:
        """Raise a ValueError if `n_chains` is not None, because there is one chain per row."""
        if self.n_chains is not None:
            raise ValueError(
                "n_chains must be None for a conditional model, which has one chain per row; got "
                f"n_chains={self.n_chains}: use {type(self).__name__}(n_steps={self.n_steps})"
            )

    def conditional(self, inference: InferenceMethod, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a conditional model by this rule."""
        return Contrast(
            Observed(inference),
            Chains(self.n_steps, self.start),
            inference=inference,
            n_jobs=n_jobs,
            needs_complete=True,
            is_loss=False,
            state_key=self.name,
        )

    def _model_phase(self, inference, sampler, n_jobs):
        return Chains(self.n_steps, self.start, self.n_chains or N_STATES)

    def _density_key(self, sampler):
        return self.name, self.n_chains or N_STATES


class ContrastiveDivergence(_Contrastive):
    """Contrastive divergence, CD-k (Hinton 2002), selected by ``learning="cd"``.

    In each step, Gibbs chains begin at the data v_data and reach states v_k after k sweeps. The
    step follows the gradient of the difference of free energies ``F(v_data) - F(v_k)``, in which
    v_k is treated as a constant. This gradient is a biased estimate of the gradient of the
    negative log-likelihood. The reported loss is the difference, which does not measure progress.

    Parameters
    ----------
    n_steps : int, default=1
        Number k of Gibbs sweeps in each step.
    n_chains : int or None, default=None
        Number of chains of a density, which begin at rows drawn from the data; None stands for
        100. Conditional models have one chain per row and accept only None.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.learning import ContrastiveDivergence
    >>> model = CRBMClassifier(learning=ContrastiveDivergence(n_steps=10))
    """

    name = "cd"


class PersistentContrastiveDivergence(_Contrastive):
    """Persistent contrastive divergence, PCD-k (Tieleman 2008), selected by ``learning="pcd"``.

    The rule is similar to `ContrastiveDivergence`, but each chain continues from its state at the
    end of the previous step. A conditional model has a different distribution for each row, so it
    keeps one chain per training row, which begins at the labels of the row. The chains of a density
    are shared by all rows and begin at random states.

    Parameters
    ----------
    n_steps : int, default=1
        Number of Gibbs sweeps in each step.
    n_chains : int or None, default=None
        Number of chains of a density; None stands for 100. Conditional models have one chain per
        row and accept only None.

    Examples
    --------
    >>> from skcrbm.density import IsingModel
    >>> from skcrbm.learning import PersistentContrastiveDivergence
    >>> model = IsingModel(learning=PersistentContrastiveDivergence(n_steps=5, n_chains=50))
    """

    name = "pcd"
    start = "persistent"
    keeps_chains = True


class CDPercLoss(LearningRule):
    """CD-PercLoss (Mnih, Larochelle and Hinton 2011), selected by ``learning="cd_percloss"``.

    For each row, a stochastic search looks for a state v_found with a low free energy F. The loss
    of the row is ``max(0, F(v_data) - F(v_found))``. So a row does not change the model if its
    labels v_data have a lower free energy than the state found.

    Parameters
    ----------
    n_steps : int, default=1
        Number of sweeps of the search; 10 is a good choice.

    Examples
    --------
    >>> from skcrbm import CRBMClassifier
    >>> from skcrbm.learning import CDPercLoss
    >>> model = CRBMClassifier(learning=CDPercLoss(n_steps=10))
    """

    name = "cd_percloss"
    needs_complete = True
    draws = True
    _parameter_constraints: ClassVar = {"n_steps": [Integer(1)]}

    def __init__(self, n_steps: int = 1):
        self.n_steps = n_steps

    def conditional(self, inference: InferenceMethod, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a conditional model by this rule."""
        return Contrast(
            Observed(inference),
            LocalSearch(self.n_steps),
            only_violations=True,
            inference=inference,
            n_jobs=n_jobs,
            needs_complete=True,
            state_key=self.name,
        )


#: All learning rules, under the names that the hyperparameter `learning` accepts.
LEARNING_RULES = Registry(
    "learning",
    {
        "mle": "skcrbm.learning.rules:Likelihood",
        "noisy_mle": "skcrbm.learning.label_noise:NoisyLikelihood",
        "pseudo_likelihood": "skcrbm.learning.rules:PseudoLikelihood",
        "max_margin": "skcrbm.learning.large_margin.max_margin:MaxMargin",
        "cd": "skcrbm.learning.rules:ContrastiveDivergence",
        "pcd": "skcrbm.learning.rules:PersistentContrastiveDivergence",
        "cd_percloss": "skcrbm.learning.rules:CDPercLoss",
        "pmp": "skcrbm.learning.sampled_rules:PMPLearning",
        "bp_chain": "skcrbm.learning.sampled_rules:BPChainLearning",
        "weighted_bp_chain": "skcrbm.learning.sampled_rules:weighted_bp_chain",
        "bp": "skcrbm.learning.sampled_rules:BPLearning",
        "backprop": "skcrbm.learning.truncated:Backpropagation",
        "analytic": "skcrbm.learning.truncated:AnalyticGradient",
    },
)
# The rules of chains and graphs.
_STRUCTURED = ("mle", "pseudo_likelihood", "max_margin")
# Names of the rules for each kind of model. The names are listed here, so that only the rules in
# use must be imported.
_NAMES: dict[str, tuple[str, ...]] = {
    "conditional": ("mle", "noisy_mle", "cd", "pcd", "cd_percloss", "pmp"),
    "density": ("mle", "cd", "pcd", "bp_chain", "weighted_bp_chain", "bp", "pmp"),
    "layered": ("backprop", "analytic"),
    "chain": _STRUCTURED,
    "graph": (*_STRUCTURED, "backprop"),
}


def rules_for(kind: Kind) -> tuple[str, ...]:
    """Return the names of the rules that train a kind of model."""
    return _NAMES[kind]


def resolve_rule(learning: str | LearningRule, kind: Kind) -> LearningRule:
    """Return the rule that a name stands for, or the given object, with its options checked.

    A ValueError is raised if the rule cannot train this kind of model, or has an option that does
    not apply to this kind of model.
    """
    names = rules_for(kind)
    known = learning if isinstance(learning, str) else getattr(learning, "name", None)
    if known is not None and known not in names:
        raise ValueError(
            f"learning must be one of {', '.join(map(repr, names))} or an object of one of these "
            f"rules; got {learning!r}"
        )
    rule = resolve_options(learning, LEARNING_RULES, LearningRule, "learning", names)
    if kind == "conditional":
        rule.check_conditional()
    return rule


def rule_constraint(kind: Kind, example: str) -> list:
    """Return the constraint of the hyperparameter `learning` for this kind of model."""
    return options_constraint(rules_for(kind), LearningRule, example)
