"""MarkovRandomField: tables over some of the columns each."""

import numpy as np

from skcrbm.density._base import BaseDensity, start_log_odds
from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.energies.models import TableModel, TableParams


class MarkovRandomField(BaseDensity):
    """Markov random field over binary columns, learned from rows with or without gaps.

    ``p(x) ∝ prod_a exp(t_a(x_a))`` with a table t_a of log-potentials for each of some sets of
    one to six columns.

    Parameters
    ----------
    factors : "pairwise", list of scopes, or FactorGraphEnergy, default="pairwise"
        Which tables there are: of all columns and all pairs of them, the former at the log-odds of
        the data to begin with, all others at 0; of the columns in each scope, a sequence of
        their numbers, at 0; or those of an energy of one model, at what they are
        there. Its fields, ORs, ANDs and weights of zero are not learned; complete rows to which
        they give a weight of zero are refused when a fit begins.
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
        or 20 times (rules by states of the model), where an epoch has fewer than 60 steps.
    average : bool or "auto", default="auto"
        Whether the parameters kept are an average of the iterates, in which late ones count
        more. "auto" does so with all rules but "mle", as states drawn from the model make the
        iterates go round the solution. It lags behind an ascent that has not arrived.
    alpha, alpha_l1 : float, default=0.0
        L2 and L1 penalty on the log-potentials of the tables of two and more columns.
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
    energy_ : FactorGraphEnergy
        The model, for `skcrbm.inference.infer`.
    log_potentials_ : ndarray (n_entries,)
        Of all tables, as in `energy_`: those of fewer columns come first where `factors` is
        no energy.
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
    >>> from skcrbm.datasets import make_structured_sequences
    >>> from skcrbm.density import MarkovRandomField
    >>> scopes, sequences = make_structured_sequences(7)
    >>> model = MarkovRandomField(scopes, learning="mle", max_iter=300).fit(sequences)
    >>> round(model.score(sequences), 1)  # of 16 sequences: -log 16 = -2.77
    -2.8
    """

    _saved = ("n_features_in_", "energy_", "n_iter_", "log_potentials_")

    _parameter_constraints: dict = {
        **BaseDensity._parameter_constraints,
        "factors": "no_validation",  # by `_base_energy`, in words of its own
    }

    def __init__(
        self,
        factors="pairwise",
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
        self.factors = factors
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

    def _base_energy(self, n_features, dtype):
        """Return the energy to start from, all tables at 0 but those given."""
        factors = self.factors
        if isinstance(factors, FactorGraphEnergy):
            if factors.n_models != 1 or factors.evidence is not None:
                raise ValueError(
                    "factors must be an energy of one model without evidence; got "
                    f"{factors.n_models} models"
                )
            if factors.n_variables != n_features:
                raise ValueError(
                    f"factors has {factors.n_variables} variables, but X has {n_features} columns"
                )
            return factors
        if isinstance(factors, str):
            if factors != "pairwise":
                raise ValueError(
                    "factors must be 'pairwise', a list of scopes or a FactorGraphEnergy; got "
                    f"{factors!r}"
                )
            parts = [TableFactors(np.arange(n_features)[:, None], np.zeros(2, dtype))]
            if n_features > 1:
                pairs = np.column_stack(np.triu_indices(n_features, 1))
                parts.append(TableFactors(pairs, np.zeros(4, dtype)))
            return FactorGraphEnergy(parts)
        try:
            scopes = [np.asarray(scope) for scope in factors]
            tables = [np.zeros(2**scope.size, dtype) for scope in scopes]
            return FactorGraphEnergy.from_tables(scopes, tables, n_variables=n_features)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "factors must be 'pairwise', a FactorGraphEnergy, or a list of scopes of 1 to 6 "
                f"of the {n_features} columns: {error}"
            ) from error

    def _structure_of(self, n_features):
        graph = self._base_energy(n_features, np.float64).graph
        return tuple(tuple(scope.tolist()) for scope in graph.lists())

    def _initial_model(self, X, visible, weight, rng, training):
        base = self._base_energy(visible.shape[1], visible.dtype)
        if isinstance(self.factors, str):
            flat = base.log_potentials.copy()
            flat[1 : 2 * visible.shape[1] : 2] = start_log_odds(visible, weight)
            base = base.with_log_potentials(flat)
        _check_possible(base, visible, weight)
        return TableModel.of(base)

    def _penalised(self, model):
        pulled = np.zeros(model.base.n_entries)
        for variables, entries in model.base.graph.scopes:
            if variables.shape[1] > 1:
                pulled[entries[:, None] + np.arange(2 ** variables.shape[1])] = 1
        return TableParams(pulled[model.learned])

    def _model_attributes(self, model):
        return {"log_potentials_": model.energy(None).log_potentials}


def _check_possible(energy, visible, weight):
    """Raise ValueError if a complete row of data (N, V) has weight 0 whatever is learned."""
    rows = np.flatnonzero((weight > 0) & ~np.isnan(visible).any(axis=1))
    score = energy.rows(np.zeros(len(rows), int)).score(visible[rows])
    impossible = rows[score == -np.inf]
    if len(impossible):
        raise ValueError(
            f"X has {len(impossible)} rows to which factors give a weight of zero, which is not "
            f"learned; one of them is {visible[impossible[0]].astype(int).tolist()}"
        )
