"""`sample`: states drawn from a batch of models."""

from skcrbm.inference._base import InferenceResult
from skcrbm.inference._infer import (
    available_methods,
    check_answers,
    check_count,
    infer,
    resolve_method,
)


def sample(
    energy,
    method="gibbs",
    *,
    n_samples=1,
    burn_in=None,
    thin=None,
    n_chains=None,
    clamp=None,
    init=None,
    return_log_prob=False,
    return_state=False,
    n_jobs=None,
    random_state=None,
):
    """Draw joint states from each of N models.

    A short form of ``infer(energy, method, returns="samples", n_samples=...)``.

    Parameters
    ----------
    energy : RBMEnergy, IsingEnergy or another energy
    method : str or InferenceMethod, default="gibbs"
        A name, or a configured object such as ``Gibbs(burn_in=500)``:

        - "gibbs": chains, block by block. On any energy; exact in the long run, slow to change
          between modes far apart.
        - "exact": independent samples, by enumerating the smaller layer, or all labels, 20 units
          at most, and of factor graphs and sparse Ising models by eliminating variables. The one
          to take where the model is small, or its graph a chain, a tree or nearly so.
        - "gibbs_with_gradients": chains that flip those variables first which the score asks for;
          for models of many variables few of which are about to change.
        - "bp_chain": independent samples by belief propagation, one variable after the other,
          each with the probability with which it was drawn (`BPChain`). For sparse graphs too
          large for "exact", and to learn with; biased where the graph has short strong loops.
        - "perturb_and_max_product": independent samples, each the approximate maximum of the
          score with noise on the fields (`PerturbAndMaxProduct`). Fast, also on large dense
          models, but of another distribution than the model's own: for models whose parameters
          were learned with it.
    n_samples : int, default=1
        Samples of each model.
    burn_in, thin, n_chains : int or None, default=None
        Of Gibbs chains, see `skcrbm.inference.Gibbs`. None: as `method` says, 100, 1 and
        ``min(n_samples, 100)`` by default. A method that lacks them refuses them.
    clamp : array-like (N, V + H) or (V + H,), default=None
        0 or 1 holds a unit, NaN leaves it free.
    init : object, default=None
        State of an earlier call: its chains, if there are any, and random numbers go on.
    return_log_prob : bool, default=False
        Return the log-probability with which each state was drawn, too: "exact" and "bp_chain"
        know it, the others refuse.
    return_state : bool, default=False
        Return the sampler's state, too: the `init` of the next call.
    n_jobs : int or None, default=None
        Threads over the models; the samples do not depend on it.
    random_state : int, RandomState or None, default=None
        Every model of the batch has random numbers of its own. Not used with `init`.

    Returns
    -------
    samples : ndarray of int8 (N, n_samples, V + H)
        0/1 states, visible units first. Of Ising models (N, n_samples, L), 0 for y = -1.
    log_prob : ndarray (N, n_samples)
        With ``return_log_prob=True``.
    state : object
        With ``return_state=True``, last.

    Raises
    ------
    ValueError
        On an unknown method or an invalid option, naming what is possible.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import sample
    >>> energy = RBMEnergy([[2.0], [2.0]], [-1.0, -1.0], [0.0])
    >>> sample(energy, n_samples=500, random_state=0).shape
    (1, 500, 3)
    """
    returns = {"samples", "sample_log_prob"} if return_log_prob else {"samples"}
    method = resolve_method(method, "method", lambda: available_methods(energy, returns))
    check_answers(method, energy, returns)
    options = {
        "burn_in": None if burn_in is None else check_count("burn_in", burn_in, 0),
        "thin": None if thin is None else check_count("thin", thin),
        "n_chains": None if n_chains is None else check_count("n_chains", n_chains),
        "random_state": random_state,
    }
    check_count("n_samples", n_samples)
    result = infer(
        energy,
        method.with_options(**options),
        returns=returns,
        n_samples=n_samples,
        clamp=clamp,
        init=None if init is None else InferenceResult(state=init),
        return_state=return_state,
        n_jobs=n_jobs,
    )
    answer = [result.samples]
    if return_log_prob:
        answer.append(result.sample_log_prob)
    if return_state:
        answer.append(result.state)
    return answer[0] if len(answer) == 1 else tuple(answer)
