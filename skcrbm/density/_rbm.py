"""RBM: hidden units between the columns."""

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from skcrbm.density._base import BaseDensity
from skcrbm.energies.models import RBMModel, RBMParams
from skcrbm.learning import crbm_params
from skcrbm.utils.parameters import Integer

_FULL_BATCH_ROWS, _BATCH_ROWS = 200, 100


class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseDensity):
    """Restricted Boltzmann machine: a density of binary columns, and features of them.

    ``p(v, h) ∝ exp(v' W h + v' b + h' c)`` with the columns as visible units v, and hidden units
    h, which are at their means given v in both parts of a gradient. `transform` gives these
    means. `sample` gives visible units.

    Parameters
    ----------
    n_hidden : int, default=256
        Number of hidden units.
    learning : str, default="pcd"
        Where the moments of the model come from, whose difference to those of the data is the
        gradient:

        - "mle": the marginals of `inference`;
        - "cd", "pcd": `n_gibbs_steps` sweeps of `n_chains` Gibbs chains, which begin at rows drawn
          from the data in each step, or go on from step to step;
        - "bp_chain": `n_chains` states of `sampler`, each variable drawn from its
          belief given those before it [BPC]_;
        - "weighted_bp_chain": the same states, weighted by what the model's weight of a state
          is over the probability with which it was drawn. Where the effective share of the
          states falls below a tenth, the weights are raised to the largest power below 1
          at which it is a tenth;
        - "bp": `n_chains` states with every variable drawn alone from its belief, a biased
          baseline [BPC]_;
        - "pmp": `n_chains` states of `sampler`, each the approximate maximum of a perturbed
          energy [PMP]_. The parameters then belong to that sampler: the Gibbs distribution with the
          same parameters is another one.

    inference : str or object, default="auto"
        Method of `score_samples` and `marginals`, of "mle", and for entries that are not
        observed: "exact", "sum_product", "tree_reweighted", "mean_field", or configured. "auto"
        is "exact" up to the sizes that it takes; beyond, "mle" and questions are refused, and
        entries that are not observed are marginalised in training by "sum_product". For "bp" it
        is "sum_product".
    sampler : str, object or None, default=None
        Of "bp_chain" and "weighted_bp_chain" (None: "bp_chain") and of "pmp" (None:
        "perturb_and_max_product"): any method that answers "samples" and has an option
        `random_state`; of the weighted rule also "sample_log_prob". Chains
        go on from step to step, and perturbations with `persistence` above 0.
    n_chains : int, default=100
        States of the model in each step.
    n_gibbs_steps : int, default=1
        Sweeps of the chains in each step.
    max_iter : int, default=200
        Epochs at most. All are done, unless there is a loss ("mle") or a validation part.
    batch_size : int or "auto", default="auto"
        Rows of a step; "auto": all up to 200, else 100.
    solver : {"adam", "sgd"}, default="adam"
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 0.05 for "sgd", and 0.001 for "adam" with up to 50 times that where
        an epoch has fewer than 60 steps.
    average : bool or "auto", default="auto"
        Whether the parameters kept are an average of the iterates, in which late ones count
        more. "auto" does so with all rules but "mle", as states drawn from the model make the
        iterates go round the solution. It lags behind an ascent that has not arrived.
    alpha, alpha_l1 : float, default=0.0
        L2 and L1 penalty on W.
        The L1 part is followed by subgradients.
    binarize : float or None, default=0.5
        What is above counts as 1. None: X must hold 0, 1 and NaN alone.
    early_stopping : bool, default=False
        Hold out a validation part and keep the best epoch, by the log-likelihood of small
        models and the pseudo-likelihood of large ones: those of the Gibbs distribution, also
        for "pmp", whose samples they do not judge.
    validation_fraction : float in (0, 1), default=0.15
    n_iter_no_change : int, default=50
        Stop after so many epochs in which neither the validation score nor, in "mle" without a
        validation part, the loss got better by more than `tol`.
    tol : float, default=0.0
    warm_start : bool, default=False
        Start `fit` from the parameters of the previous one; chains go on, too.
    n_jobs : int, default=None
        Threads over models. The result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : bool or int, default=False
        1: one live line with rate, loss and what remains; 2: a line per epoch.

    Attributes
    ----------
    energy_ : RBMEnergy
        The model, for `skcrbm.inference.infer`.
    weights_ : ndarray (n_features, n_hidden)
        Couplings W of the columns with the hidden units.
    intercept_, hidden_intercept_ : ndarray (n_features,), (n_hidden,)
        Biases b of the columns and c of the hidden units.
    loss_curve_, convergence_curve_ : list of float
        Per epoch, the loss, which is a negative log-likelihood for "mle" and
        "weighted_bp_chain" alone, and the share of converged rows.
    effective_sample_size_curve_ : list of float
        With "weighted_bp_chain", per epoch: the share of equally weighted states that the
        weighted ones are worth, before it is raised to a tenth.
    validation_scores_ : list of float or None
    n_iter_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [BPC] Ding and Xue (2020). Contrastive divergence learning with chained belief propagation.
       PGM.
    .. [PMP] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skcrbm.density import RBM
    >>> X = np.repeat([[0, 0, 1], [1, 1, 0]], 20, axis=0)
    >>> model = RBM(n_hidden=2, learning="mle", random_state=0).fit(X)
    >>> model.transform(X).shape
    (40, 2)
    >>> model.marginals([[0, np.nan, np.nan]]).round(1)
    array([[0., 0., 1.]])
    """

    _saved = ("n_features_in_", "energy_", "n_iter_", "weights_", "intercept_", "hidden_intercept_")

    _parameter_constraints: dict = {
        **BaseDensity._parameter_constraints,
        "n_hidden": [Integer(0)],
    }

    # Hidden units are slow to take sides.
    _sampled_speedup = 50

    def __init__(
        self,
        n_hidden=256,
        *,
        learning="pcd",
        inference="auto",
        sampler=None,
        n_chains=100,
        n_gibbs_steps=1,
        max_iter=200,
        batch_size="auto",
        solver="adam",
        learning_rate_init="auto",
        average="auto",
        alpha=0.0,
        alpha_l1=0.0,
        binarize=0.5,
        early_stopping=False,
        validation_fraction=0.15,
        n_iter_no_change=50,
        tol=0.0,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=False,
    ):
        self.n_hidden = n_hidden
        self.learning = learning
        self.inference = inference
        self.sampler = sampler
        self.n_chains = n_chains
        self.n_gibbs_steps = n_gibbs_steps
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.solver = solver
        self.learning_rate_init = learning_rate_init
        self.average = average
        self.alpha = alpha
        self.alpha_l1 = alpha_l1
        self.binarize = binarize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.weights_.shape[1]

    def _automatic_batch_size(self, n_rows):
        return n_rows if n_rows <= _FULL_BATCH_ROWS else _BATCH_ROWS

    def _structure_of(self, n_features):
        return n_features, self.n_hidden

    def _initial_model(self, X, visible, weight, rng, training):
        start = crbm_params(visible, weight, 0, self.n_hidden, rng)
        return RBMModel(RBMParams(start.weights, start.visible_intercept, start.hidden_intercept))

    def _penalised(self, model):
        return RBMParams(1.0, 0.0, 0.0)

    def _model_attributes(self, model):
        return {
            "weights_": model.params.weights,
            "intercept_": model.params.visible_intercept,
            "hidden_intercept_": model.params.hidden_intercept,
        }

    def transform(self, X):
        """P(h_j = 1) of each hidden unit given the observed entries of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_hidden)
            Exact for complete rows; for others by `inference`.
        """
        visible = self._known(X)
        energy = self.energy_.rows(np.zeros(len(visible), int))
        means = energy.hidden_given_visible(np.nan_to_num(visible))
        partly = np.isnan(visible).any(axis=1)
        if partly.any():
            means[partly] = self._beliefs(visible[partly], "transform")[:, visible.shape[1] :]
        return means.astype(visible.dtype, copy=False)
