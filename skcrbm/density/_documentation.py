"""Sections that the docstrings of the densities share."""

from skcrbm.utils.documentation import documented

document_density = documented(
    {
        "<rules and inference>": """\
    - "mle", `Likelihood`: marginals computed by `inference`;
    - "cd", `ContrastiveDivergence`, and "pcd", `PersistentContrastiveDivergence`: Gibbs chains;
    - "bp_chain", `BPChainLearning`: states drawn by chained belief propagation [BPC]_; the
      parameters then fit the distribution of this sampler, not the Gibbs distribution;
    - "weighted_bp_chain": states as for "bp_chain", with weights that correct their bias;
    - "bp", `BPLearning`: independent draws of the variables, a biased baseline [BPC]_;
    - "pmp", `PMPLearning`: perturbed maxima [PMP]_; the parameters then fit the distribution
      of this sampler, not the Gibbs distribution.

    Options such as the number of chains are set in an object, as in
    ``PersistentContrastiveDivergence(n_steps=5, n_chains=50)``.
inference : str or object, default="auto"
    Inference method for `score_samples`, `marginals`, "mle" and missing entries: "exact",
    "sum_product", "tree_reweighted", "mean_field", or a configured object. "auto" is "exact" if
    the model is small enough. For larger models, `score_samples` estimates the log-partition by
    annealed importance sampling, "mle" and `marginals` raise an error, and training
    marginalises missing entries by "sum_product". With ``learning="bp"``, "auto" is
    "sum_product".""",
        "<preparation and end of training>": """\
binarize : float or None, default=0.5
    Threshold above which values count as 1; all other values count as 0. If it is None, X must
    contain only 0, 1 and NaN.
early_stopping : bool or object, default=False
    True stands for ``EarlyStopping(n_iter_no_change=50, refit=False)``: hold out 15% of the
    rows and keep the epoch with the best score on them. The score is the log-likelihood of
    small models and the pseudo-likelihood of large models. Both scores judge the Gibbs
    distribution, even with "bp_chain" and "pmp", whose parameters fit a sampler. False stands
    for ``LossPlateau(n_iter_no_change=50)``.
warm_start : bool, default=False
    If True, `fit` starts from the parameters and chains of the previous fit.
n_jobs : int, default=None
    Number of threads. The result does not depend on it.
random_state : int, RandomState or None, default=None
    Seed of the fit.
verbose : bool or int, default=False
    1 prints a line with rate, loss and remaining time, which is updated during training; 2
    prints a line per epoch.""",
        "<curves>": """\
loss_curve_, convergence_curve_ : list of float
    Loss in each epoch, and share of the rows for which inference converged. The loss is a
    negative log-likelihood only with "mle" and "weighted_bp_chain".
effective_sample_size_curve_ : list of float
    Effective sample size of the weighted states in each epoch, divided by the number of states;
    only with "weighted_bp_chain". It is 1 if all weights are equal. If it is below a tenth, the
    weights are tempered (made more equal) before training uses them.""",
        "<results of training>": """\
validation_scores_ : list of float or None
    Score of each epoch on the held-out rows; None if no rows are held out.
n_iter_ : int
    Number of epochs after which training had the parameters that `fit` keeps.
n_features_in_, feature_names_in_
    As in scikit-learn.""",
        "<papers>": """\
.. [BPC] Ding and Xue (2020). Contrastive divergence learning with chained belief propagation.
   PGM.
.. [PMP] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
   learning in discrete energy-based models. NeurIPS.""",
    }
)
