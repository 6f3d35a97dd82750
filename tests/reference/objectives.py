"""Objectives by the names of their rules, for tests of the training loop."""

from skcrbm.learning.objectives import Contrast
from skcrbm.learning.optimizers import AdamSteps, GradientSteps, PolynomialAverage
from skcrbm.learning.phases import Chains, Observed, PerturbedMaxima
from skcrbm.learning.rules import LEARNING_RULES


def conditional(name, inference, n_jobs=None, *, n_steps=None, n_chains=None):
    """Return the objective of a rule, with the options that it has."""
    if n_chains is not None:  # chains that all rows share, as a density has them
        chains = Chains(n_steps or 1, "persistent", n_chains)
        return Contrast(Observed(inference), chains, inference=inference, is_loss=False)
    rule = LEARNING_RULES.get(name)()
    if n_steps is not None and "n_steps" in rule.get_params():
        rule.set_params(n_steps=n_steps)
    objective = rule.conditional(inference, n_jobs)
    if n_steps is not None and name == "pmp":
        objective.negative = PerturbedMaxima(n_steps)
    return objective


def optimizer_of(solver, rates, momentum=0.0, average=False):
    """Return the optimizer of a solver with these options."""
    average = PolynomialAverage() if average else None
    if solver == "adam":
        return AdamSteps(rates, average)
    return GradientSteps(rates, momentum, average)
