"""IsingModel: couplings of pairs of columns, dense or on a graph."""

import numpy as np

from skcrbm.density._base import BaseDensity, start_log_odds
from skcrbm.energies import SparseIsingEnergy
from skcrbm.energies.models import DenseIsingModel, IsingParams, SparseIsingModel


class IsingModel(BaseDensity):
    """Ising model over binary columns, learned from rows with or without gaps.

    ``p(y) ∝ exp(f' y + 1/2 y' S y)`` for y in {-1, +1}, where X has 0 for -1 and 1 for +1.

    Parameters
    ----------
    edges : array-like of int (n_edges, 2) or None, default=None
        Pairs of columns that are coupled; None: all.
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
    max_iter : int, default=100
        Epochs at most. All are done, unless there is a loss ("mle") or a validation part.
    batch_size : int or "auto", default="auto"
        Rows of a step; "auto": all, as the moments of complete rows are worked out once.
    solver : {"adam", "sgd"}, default="adam"
    learning_rate_init : float or "auto", default="auto"
        Step size. "auto" is 0.05 for "sgd", and 0.001 for "adam" with up to 50 times that ("mle"),
        or 20 times (rules by states of the model), where an epoch has fewer than 60 steps. That of
        the fields is four times as large.
    average : bool or "auto", default="auto"
        Whether the parameters kept are an average of the iterates, in which late ones count
        more. "auto" does so with all rules but "mle", as states drawn from the model make the
        iterates go round the solution. It lags behind an ascent that has not arrived.
    alpha, alpha_l1 : float, default=0.0
        L2 and L1 penalty on the couplings, each pair counted once.
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
    energy_ : IsingEnergy or SparseIsingEnergy
        The model, for `skcrbm.inference.infer`; the latter with `edges`.
    coupling_ : ndarray or CSR array (n_features, n_features)
        Couplings S, symmetric.
    field_ : ndarray (n_features,)
        Fields f of the columns.
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
    >>> from skcrbm.density import IsingModel
    >>> X = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [4, 1, 1, 4], axis=0)
    >>> model = IsingModel(learning="mle").fit(X)
    >>> round(float(model.coupling_[0, 1]), 1)  # log(4 / 1) / 2
    0.7
    """

    _saved = ("n_features_in_", "energy_", "n_iter_", "coupling_", "field_")

    _parameter_constraints: dict = {
        **BaseDensity._parameter_constraints,
        "edges": ["array-like", None],
    }

    def __init__(
        self,
        edges=None,
        *,
        learning="pcd",
        inference="auto",
        sampler=None,
        n_chains=100,
        n_gibbs_steps=1,
        max_iter=100,
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
        self.edges = edges
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

    def _graph(self, n_features, dtype):
        """Return the energy of the edges, all couplings at 0; None if there are all pairs."""
        if self.edges is None:
            return None
        try:
            zeros = np.zeros(n_features, dtype)
            return SparseIsingEnergy.from_edges(self.edges, dtype.type(0), zeros)
        except ValueError as error:
            raise ValueError(
                f"edges must be pairs of the {n_features} columns, each once: {error}"
            ) from error

    def _structure_of(self, n_features):
        base = self._graph(n_features, np.dtype(np.float64))
        return n_features if base is None else tuple(map(tuple, base.edges.tolist()))

    def _initial_model(self, X, visible, weight, rng, training):
        dtype, n_features = visible.dtype, visible.shape[1]
        field = (0.5 * start_log_odds(visible, weight)).astype(dtype)
        center = np.tanh(field)
        base = self._graph(n_features, dtype)
        if base is None:
            edges = np.column_stack(np.triu_indices(n_features, 1))
            return DenseIsingModel(IsingParams(np.zeros(len(edges), dtype), field), edges, center)
        return SparseIsingModel(IsingParams(np.zeros(len(base.edges), dtype), field), base, center)

    def _rate_factors(self, model):
        # All couplings of a variable move its mean, and its field alone makes up for it.
        return IsingParams(1.0, 4.0)

    def _penalised(self, model):
        return IsingParams(1.0, 0.0)

    def _model_attributes(self, model):
        energy = model.energy(None)
        return {"coupling_": energy.coupling, "field_": energy.field[0]}
