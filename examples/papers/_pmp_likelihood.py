"""Appendix B.4 of Lazaro-Gredilla et al. (2021): likelihoods and samples of an RBM."""

import numpy as np

from examples.papers._pmp_learning import fit_rbm, small_digits
from examples.papers._pmp_quality import compare, draw, learning_rule, texts
from skcrbm.inference import estimate_log_partition, infer
from skcrbm.learning import Adam

#: Steps of annealed importance sampling with 100 chains.
STEPS = (10, 100, 1000)


def likelihood(learner, seed, n_hidden=16):
    """Fit an RBM to the small digits; return the log-likelihood of its Gibbs distribution.

    The RBM has so few hidden units that log Z is also computed exactly. The scores of the row
    belong to samples of the learner's own sampler (50 sweeps) and of Gibbs chains with the same
    weights (50 and 1000 sweeps).
    """
    X = small_digits()
    solver = Adam(learning_rate=0.01, batch_size=100, average=False)
    rule = learning_rule(learner, 50, 100)
    model, seconds = fit_rbm(X, rule, seed, n_hidden=n_hidden, n_steps=600, solver=solver)
    energy = model.energy_
    hidden = np.logaddexp(0, energy.hidden_bias[0] + X @ energy.weights)
    score = np.mean(X @ energy.visible_bias[0] + hidden.sum(axis=1))
    log_z = infer(energy, "exact", returns="log_partition").log_partition[0]
    annealed = [
        estimate_log_partition(energy, n_betas=n, random_state=seed).log_partition[0] for n in STEPS
    ]
    samplers = (learner, 50), ("gibbs reset", 50), ("gibbs reset", 1000)
    found = [compare(X, draw(energy, name, n, len(X), seed + 1)) for name, n in samplers]
    return {
        "learner": learner,
        "seed": seed,
        "seconds": f"{seconds:.1f}",
        "sweeps": " ".join(str(n) for _, n in samplers),
        **texts(found),
        "log_likelihood": f"{score - log_z:.2f}",
        "log_likelihood_ais": " ".join(f"{score - value:.2f}" for value in annealed),
    }
