"""Learning of densities: the model's moments minus the data's, and where either come from."""

from typing import Any, NamedTuple

import numpy as np

from skcrbm.inference.choice import resolve_method
from skcrbm.learning._contrast import Contrast
from skcrbm.learning._phases import Chains, Expected, ObservedOnce, one_model_per_row
from skcrbm.learning._registry import NEGATIVE_PHASES
from skcrbm.learning._sampled import Independent, Sampled
from skcrbm.learning._scoring import negative_log_likelihood
from skcrbm.utils.limits import EXACT_VALIDATION_UNITS


class ModelStates(NamedTuple):
    """What an estimator says about the model's part of a gradient.

    Attributes
    ----------
    inference : InferenceMethod
        For marginals of the model.
    sampler : InferenceMethod or None
    n_chains : int
        States of the model in each step.
    n_gibbs_steps : int
    n_jobs : int or None
    """

    inference: Any
    sampler: Any
    n_chains: int
    n_gibbs_steps: int
    n_jobs: int | None = None


class NegativeRule(NamedTuple):
    """Where the moments of the model come from: a line of `NEGATIVE_PHASES` names one.

    Attributes
    ----------
    make : callable
        ``make(ModelStates) -> Phase``.
    sampler : str or None
        Name of the method that a hyperparameter `sampler` of None stands for; None: the rule
        has no use for one.
    answers : frozenset
        What the sampler must answer.
    is_loss : bool
        Whether the log-weights of the phase are log Z, so that there is a loss to go by.
    """

    make: Any
    sampler: str | None = None
    answers: frozenset = frozenset({"samples"})
    is_loss: bool = False


MLE = NegativeRule(lambda s: Expected(s.inference, s.n_jobs), is_loss=True)
CD = NegativeRule(lambda s: Chains(s.n_gibbs_steps, "data", s.n_chains))
PCD = NegativeRule(lambda s: Chains(s.n_gibbs_steps, "persistent", s.n_chains))
BP = NegativeRule(lambda s: Independent(s.inference, s.n_chains, s.n_jobs))
BP_CHAIN = NegativeRule(lambda s: Sampled(s.sampler, s.n_chains, n_jobs=s.n_jobs), "bp_chain")
WEIGHTED_BP_CHAIN = NegativeRule(
    lambda s: Sampled(s.sampler, s.n_chains, weighted=True, n_jobs=s.n_jobs),
    "bp_chain",
    frozenset({"samples", "sample_log_prob"}),
)
PMP = NegativeRule(
    lambda s: Sampled(s.sampler, s.n_chains, n_jobs=s.n_jobs), "perturb_and_max_product"
)


class MomentMatching(Contrast):
    """Maximum likelihood of a density, or what a sampler makes of it.

    The positive phase has the moments of the data, entries that are not observed marginalised by
    `inference`; the negative phase those of the model.

    Parameters
    ----------
    learning : str
        Name of a negative phase.
    inference : InferenceMethod
        Of the positive phase.
    states : ModelStates
        Of the negative phase.
    """

    def __init__(self, learning, inference, states):
        rule = NEGATIVE_PHASES.get(learning)
        super().__init__(
            ObservedOnce(inference, states.n_jobs),
            rule.make(states),
            inference=inference,
            n_jobs=states.n_jobs,
        )
        self.is_loss = rule.is_loss
        # A state goes on with the same rule, sampler and number of states alone.
        self.state_key = learning, states.n_chains, repr(states.sampler)

    def score(self, model, batch, epoch):
        """Return the mean log-likelihood of held-out rows, or what stands for it.

        Where that takes more than `EXACT_VALIDATION_UNITS`, it is the pseudo-likelihood of the
        rows, of which those with an entry that is not observed are left out.
        """
        energy = model.energy(batch.X)
        if energy.n_enumerated() <= EXACT_VALIDATION_UNITS:
            exact = resolve_method("exact")
            return -negative_log_likelihood(energy, batch, exact, self.n_jobs) / batch.weight.sum()
        complete = np.flatnonzero(~np.isnan(batch.visible).any(axis=1))
        if len(complete) == 0:
            raise ValueError(
                "early_stopping needs rows without NaN to validate a model of this size, and the "
                "validation part has none"
            )
        rows = batch.rows(complete)
        log_odds = one_model_per_row(energy, len(rows)).visible_log_odds(rows.visible)
        wrong = np.logaddexp(0, np.where(rows.visible == 1, -log_odds, log_odds))
        return -float(rows.weight @ wrong.sum(axis=1, dtype=np.float64)) / rows.weight.sum()
