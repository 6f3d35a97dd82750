"""Learning rules that estimate the moments of a model from states drawn by a sampler."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import clone

from skcrbm.energies import BaseEnergy, RBMEnergy
from skcrbm.inference import InferenceMethod, PerturbAndMaxProduct, available_methods
from skcrbm.inference.base import resolve_method
from skcrbm.inference.choice import method_constraint, methods_for, quoted
from skcrbm.inference.registry import METHODS
from skcrbm.learning.objectives import Contrast, Objective
from skcrbm.learning.phases import Independent, Observed, PerturbedMaxima, Sampled
from skcrbm.learning.rules import N_STATES, LearningRule
from skcrbm.utils.options import Integer

# Default number of max-product sweeps for a sample of a conditional model in PMP learning.
_MAX_PRODUCT_SWEEPS = 50


class _SampledRule(LearningRule):
    """Base class of the rules that estimate the model's moments from states drawn by a sampler."""

    needs_complete = True
    draws = True
    sampler: str | InferenceMethod
    #: Results that the sampler must be able to return.
    _sampler_answers: ClassVar[frozenset[str]] = frozenset({"samples"})

    def density_sampler(self, energy: BaseEnergy) -> InferenceMethod | None:
        """Return a copy of the sampler; see `LearningRule`."""
        sampler: Any = clone(resolve_method(self.sampler, "sampler"))
        answers = self._sampler_answers
        if answers - sampler.supports(energy) or "random_state" not in vars(sampler):
            names = available_methods(energy, answers)
            able = ", ".join(repr(n) for n in names if "random_state" in vars(METHODS.get(n)()))
            raise ValueError(
                f"sampler={self.sampler!r} cannot be used with learning={self!r} on "
                f"{type(energy).__name__}: the sampler must be able to return "
                f"{quoted(sorted(answers))} and have an option random_state; use one of {able}"
            )
        return sampler


class PMPLearning(_SampledRule):
    """Learning by perturb-and-max-product [1]_ (``learning="pmp"``).

    The moments of the model are estimated from samples. A sample is the state with the highest
    score (approximately) after random noise has been added to the fields. Training makes the
    moments of the samples equal to the moments of the data. The trained parameters therefore fit
    the distribution of the sampler, which differs from the Gibbs distribution with the same
    parameters. The reported loss is a difference of log-weights, which does not measure progress.

    Parameters
    ----------
    sampler : str or object, default="perturb_and_max_product"
        Method that draws the samples. A density takes any method that can return "samples" and has
        an option `random_state`, for example ``PerturbAndMAP("mplp")``, or
        ``PerturbAndMaxProduct(persistence=0.9)``, which keeps perturbations from step to step.
        Conditional models take only ``PerturbAndMaxProduct(max_iter=...)`` or the name, which
        stands for ``max_iter=50`` in these models.
    n_samples : int or None, default=None
        Number of samples of a density in each step; None stands for 100. Conditional models draw
        one sample per row and accept only None.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> from skcrbm.density import IsingModel
    >>> from skcrbm.inference import PerturbAndMaxProduct
    >>> from skcrbm.learning import PMPLearning
    >>> model = IsingModel(learning=PMPLearning(PerturbAndMaxProduct(max_iter=50), n_samples=20))
    """

    name = "pmp"
    _parameter_constraints: ClassVar = {
        "sampler": method_constraint(methods_for(RBMEnergy, {"samples"})),
        "n_samples": [Integer(1), None],
    }

    def __init__(
        self,
        sampler: str | InferenceMethod = "perturb_and_max_product",
        n_samples: int | None = None,
    ):
        self.sampler = sampler
        self.n_samples = n_samples

    def check_conditional(self) -> None:
        """Raise a ValueError if an option does not apply to conditional models."""
        if self.n_samples is not None:
            raise ValueError(
                "n_samples must be None for a conditional model, which draws one sample per row; "
                f"got n_samples={self.n_samples}"
            )
        self._sweeps()

    def conditional(self, inference: InferenceMethod, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a conditional model by this rule."""
        return Contrast(
            Observed(inference),
            PerturbedMaxima(self._sweeps()),
            inference=inference,
            n_jobs=n_jobs,
            needs_complete=True,
            is_loss=False,
            state_key=self.name,
        )

    def _sweeps(self):
        """Return the number of max-product sweeps with which a sample is drawn."""
        sampler = self.sampler
        if isinstance(sampler, str) and sampler == PerturbAndMaxProduct.name:
            return _MAX_PRODUCT_SWEEPS
        plain = isinstance(sampler, PerturbAndMaxProduct)
        if not plain or repr(sampler) != repr(PerturbAndMaxProduct(sampler.max_iter)):
            raise ValueError(
                "sampler must be 'perturb_and_max_product' or PerturbAndMaxProduct(max_iter=...) "
                f"without other options for a conditional model; got {sampler!r}"
            )
        return sampler.max_iter

    def _model_phase(self, inference, sampler, n_jobs):
        return Sampled(sampler, self.n_samples or N_STATES, n_jobs=n_jobs)

    def _density_key(self, sampler):
        return self.name, self.n_samples or N_STATES, repr(sampler)


class BPChainLearning(_SampledRule):
    """Learning from states drawn by chained belief propagation [1]_ (``learning="bp_chain"``).

    Each variable of a state is drawn from its belief given the variables drawn before. On a graph
    with loops these states are biased, so that the learned parameters fit the distribution of the
    drawn states and not the Gibbs distribution. "weighted_bp_chain" is
    ``BPChainLearning(weighted=True)``.

    Parameters
    ----------
    sampler : str or object, default="bp_chain"
        Method that draws the states. Any method that has an option `random_state` and can return
        "samples" (and "sample_log_prob" if `weighted`) is accepted.
    n_samples : int, default=100
        Number of states that are drawn in each step.
    weighted : bool, default=False
        True uses importance weights: the unnormalised probability of a state under the model,
        divided by the probability with which the sampler drew the state. The estimated moments are
        then consistent for any sampler. If the effective sample size is below ``n_samples / 10``,
        the weights are raised to the largest power (below 1) at which the effective sample size
        reaches this number.

    References
    ----------
    .. [1] Ding, Xue (2020). Contrastive divergence learning with chained belief propagation. PGM.

    Examples
    --------
    >>> from skcrbm.density import MarkovRandomField
    >>> from skcrbm.inference import BPChain
    >>> from skcrbm.learning import BPChainLearning
    >>> model = MarkovRandomField(learning=BPChainLearning(BPChain(warm_iter=5), n_samples=200))
    """

    name = "bp_chain"
    _parameter_constraints: ClassVar = {
        "sampler": method_constraint(methods_for(RBMEnergy, {"samples"})),
        "n_samples": [Integer(1)],
        "weighted": ["boolean"],
    }

    def __init__(
        self,
        sampler: str | InferenceMethod = "bp_chain",
        n_samples: int = N_STATES,
        weighted: bool = False,
    ):
        self.sampler = sampler
        self.n_samples = n_samples
        self.weighted = weighted

    @property
    def _sampler_answers(self):
        return frozenset({"samples", "sample_log_prob"} if self.weighted else {"samples"})

    def _model_phase(self, inference, sampler, n_jobs):
        return Sampled(sampler, self.n_samples, weighted=self.weighted, n_jobs=n_jobs)

    def _density_key(self, sampler):
        return self.name, self.weighted, self.n_samples, repr(sampler)


def weighted_bp_chain() -> BPChainLearning:
    """Return the rule that the name "weighted_bp_chain" stands for."""
    return BPChainLearning(weighted=True)


class BPLearning(LearningRule):
    """Learning from states whose variables are drawn independently (``learning="bp"``).

    Each variable is drawn from its approximate marginal.

    This baseline of [1]_ is biased, because its states ignore the dependence between variables.

    Parameters
    ----------
    n_samples : int, default=100
        Number of states that are drawn in each step.

    References
    ----------
    .. [1] Ding and Xue (2020). Contrastive divergence learning with chained belief propagation.
       PGM.

    Examples
    --------
    >>> from skcrbm.density import MarkovRandomField
    >>> from skcrbm.learning import BPLearning
    >>> model = MarkovRandomField(learning=BPLearning(n_samples=50))
    """

    name = "bp"
    density_answers = frozenset({"marginals"})
    _parameter_constraints: ClassVar = {"n_samples": [Integer(1)]}

    def __init__(self, n_samples: int = N_STATES):
        self.n_samples = n_samples

    def _model_phase(self, inference, sampler, n_jobs):
        return Independent(inference, self.n_samples, n_jobs)

    def _density_key(self, sampler):
        return self.name, self.n_samples
