"""A method of a separate package that gives all answers from which a `CRBMClassifier` learns."""

import numpy as np
from scipy.special import entr, expit, logit

from skcrbm.inference import IterativeMethod, register_method, register_solver


class DampedMeanField(IterativeMethod):
    """Mean field for RBMs in parallel updates, which are damped."""

    name = "damped_mean_field"
    answers = frozenset({"marginals", "statistics", "log_partition"})

    def __init__(self, max_iter=None, tol=None, damping=0.5):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping


def solve_damped_mean_field(method, energy, query):
    """Solve an `RBMEnergy`: N models of V visible and H hidden units."""
    n_visible, weights = energy.n_visible, energy.weights  # weights (V, H)
    field = np.hstack(energy.fields)  # (N, V + H), visible units first
    means = expit(field)  # probabilities of 1
    free = energy.free  # False for clamped variables, whose values are in energy.evidence
    if energy.evidence is not None:
        means = np.where(free, means, energy.evidence)
    converged = np.zeros(energy.n_models, bool)
    n_iter = np.zeros(energy.n_models, int)
    for _ in range(method.iterations):
        visible, hidden = means[:, :n_visible], means[:, n_visible:]
        new = expit(field + np.hstack([hidden @ weights.T, visible @ weights]))
        change = (1 - method.damping) * (new - means)
        change[~free] = 0
        change[converged] = 0
        means = means + change
        n_iter += ~converged
        converged |= np.abs(change).max(axis=1) <= method.tolerance
        if converged.all():
            break
    fields = {"log_odds": logit(means), "n_iter": n_iter, "converged": converged}
    visible, hidden = means[:, :n_visible], means[:, n_visible:]
    pairs = visible[:, :, None] * hidden[:, None, :]  # P(v_i = 1, h_j = 1), (N, V, H)
    if "statistics" in query.returns:  # a tuple with an array for each array of couplings
        weight = query.sample_weight  # (N,)
        fields["statistics"] = (pairs if query.per_example else np.tensordot(weight, pairs, 1),)
    if "log_partition" in query.returns:  # a lower bound: mean score plus entropy
        score = (means * field).sum(axis=1) + (pairs * weights).sum(axis=(1, 2))
        fields["log_partition"] = score + (entr(means) + entr(1 - means)).sum(axis=1)
    return fields


def register():
    """Register the method for RBMs."""
    location = "reference.outside_marginals"
    register_method("damped_mean_field", f"{location}:DampedMeanField")
    register_solver("damped_mean_field", "RBMEnergy", f"{location}:solve_damped_mean_field")
