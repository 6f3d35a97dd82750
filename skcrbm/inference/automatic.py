"""Find the inference method of a call: a name, an object or "auto", the default of `infer`.

"auto" chooses "exact" if its tables and its time stay within the limits of `utils/limits.py`.
Otherwise it chooses the first approximate method that gives all requested answers and has all
options of the call. The order follows errors on public networks
(`examples/studies/auto_inference.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy, FactorGraphEnergy
from skcrbm.inference.base import InferenceMethod, Query, check_returns, resolve_method
from skcrbm.inference.choice import available_methods, check_answers, quoted
from skcrbm.inference.methods._bounds import DualDecomposition, LinearProgram
from skcrbm.inference.methods._messages import MaxProduct, MixedProduct, SumProduct
from skcrbm.inference.methods._samplers import AnnealedImportanceSampling, BPChain, Gibbs
from skcrbm.inference.methods._searches import MapSearch, SimulatedAnnealing
from skcrbm.inference.methods.exact import Exact
from skcrbm.inference.registry import METHODS
from skcrbm.utils.limits import AUTO_SECONDS, AUTO_TABLE_ENTRIES, MAX_UNITS

AUTO = "auto"

_SUMS = frozenset({"marginals", "statistics", "log_partition"})
# The damped run after messages that oscillate.
_DAMPING, _DAMPED_ITERATIONS = 0.5, 1000
# Chains of each model and sweeps before the averages if damped messages do not converge either. On
# Grids_15 the mean error is .027, and .051 with the defaults of "gibbs".
_CHAINS, _BURN_IN = 20, 200
# Number of nodes of "map_search" for all models of a batch (a few seconds), and the least number
# for a model.
_ALL_NODES, _LEAST_NODES = 10_000_000, 10_000
# Estimated seconds of estimates of log Z by samples: of "ais" for a variable, and of "bp_chain" for
# the square of the number of variables. If an estimate would take longer than `AUTO_SECONDS`,
# `infer` returns the approximation by messages.
_AIS_SECONDS, _CHAIN_SECONDS = 4e-3, 4e-5
# Number of runs of the messages that search for the best state of an RBM.
_RESTARTS = 10
# Fields with a leading axis for the models that a second run replaces.
_BY_MODEL = ("log_odds", "log_partition", "n_iter", "converged")


class _PatientSumProduct(SumProduct):
    """Sum-product that answers once more where its messages do not converge.

    Models without convergence are solved again with damping. If they do not converge then either,
    chains of "gibbs" answer if the chains can reach all states (no weight is 0) and if they give
    the requested answers.
    """

    def __init__(self, max_iter=None, tol=None, damping=0.0, random_state=None):
        super().__init__(max_iter, tol, damping)
        self.random_state = random_state

    def solve(self, energy: BaseEnergy, query: Query) -> dict[str, Any]:
        """Compute the answers; the field "method" names the methods in use."""
        fields = super().solve(energy, query)
        late = np.flatnonzero(~fields["converged"])
        if not len(late):
            return fields
        weight = query.sample_weight
        again = replace(query, per_example=True, sample_weight=weight[late])
        found, by_chains = self._again(energy.rows(late), again)
        if "statistics" in query.returns and query.per_example:
            for total, part in zip(fields["statistics"], found["statistics"], strict=True):
                total[late] = part
        elif "statistics" in query.returns:
            good = np.flatnonzero(fields["converged"])
            alone = replace(query, returns=frozenset({"statistics"}), sample_weight=weight[good])
            kept = super().solve(energy.rows(good), alone)["statistics"]
            fields["statistics"] = tuple(
                (total + np.tensordot(again.sample_weight, part, 1)).astype(total.dtype)
                for total, part in zip(kept, found["statistics"], strict=True)
            )
        for name in _BY_MODEL:
            if fields.get(name) is not None:
                fields[name][late] = found[name]
        if by_chains:
            alone = by_chains == energy.n_models
            fields["method"] = "gibbs" if alone else "sum_product, gibbs"
        return fields

    def _again(self, energy, query):
        """Return the answers of the second and third run, and the number of models by "gibbs"."""
        damped = SumProduct(_DAMPED_ITERATIONS, self.tol, _DAMPING)
        fields = damped.solve(energy, query)
        late = np.flatnonzero(~fields["converged"])
        gibbs = Gibbs(n_chains=_CHAINS, burn_in=_BURN_IN, random_state=self.random_state)
        # Messages and chains differ in the pairs of variables without a coupling. In factor graphs
        # there are no such pairs.
        pairs = "statistics" not in query.returns or isinstance(energy, FactorGraphEnergy)
        possible = query.returns <= gibbs.supports(energy) and pairs and not energy.has_zeros
        if not (len(late) and possible):
            return fields, 0
        part = replace(query, sample_weight=query.sample_weight[late])
        drawn = gibbs.solve(energy.rows(late), part)
        for name in _BY_MODEL:
            if fields.get(name) is not None:
                fields[name][late] = drawn[name]
        for total, values in zip(fields.get("statistics", ()), drawn.get("statistics", ())):
            total[late] = values
        return fields, len(late)


def method_of_call(
    energy: BaseEnergy,
    method: Any,
    returns: Any,
    arguments: dict[str, Any],
    options: dict[str, Any],
    *,
    random: bool = False,
) -> InferenceMethod:
    """Return the inference method of a call, with the options of the call.

    Parameters
    ----------
    energy : BaseEnergy
        Energy with the evidence of the call.
    method : str or InferenceMethod
        A name, a configured object, or "auto", which chooses the method.
    returns : str, tuple of str or None
        Requested answers.
    arguments : dict
        Arguments of the call that not all methods take: the arguments in `InferenceMethod.accepts`,
        and "n_samples". None and False stand for arguments that the call does not have.
    options : dict
        Options of the call. "auto" does not choose a method without one of the options. The
        exception is "random_state", which methods without random numbers ignore.
    random : bool, default=False
        If True, the method must be random. "auto" may also choose "exact", and the random methods
        may take any time.

    Raises
    ------
    ValueError
        If the method does not exist or does not have an option, or if "auto" finds no method.
    """
    if isinstance(method, str) and method == AUTO:
        asked = check_returns(("marginals",) if returns is None else returns, energy.queries)
        # "samples" are drawn in any number. For other answers n_samples needs a method that takes
        # it.
        if "samples" in asked or "log_partition" not in asked:
            arguments = {**arguments, "n_samples": None}
        needs = {
            name
            for name, value in arguments.items()
            if value is not None and not (isinstance(value, (bool, np.bool_)) and not value)
        }
        return _choose(energy, asked, needs, options, random)

    def names():
        able = available_methods(energy, returns or ())
        return [name for name in able if not random or METHODS.get(name)().is_random]

    resolved = resolve_method(method, "method", lambda: [AUTO, *names()])
    if random and not (resolved.is_random and check_returns(returns) <= resolved.answers):
        kind = type(energy).__name__
        raise ValueError(
            f"method must be one of {quoted(names())}, which estimate log Z of {kind} by random "
            f"numbers; got {resolved.name!r}. Use infer for other methods"
            if names()
            else f"no method estimates log Z of {kind} by random numbers. Use infer instead"
        )
    return resolved.with_options(**options)


def _choose(energy, returns, needs, options, random):
    """Return the method that "auto" chooses for a query."""
    exact = Exact(max_units=MAX_UNITS, max_entries=AUTO_TABLE_ENTRIES)
    named = options.keys() - {"random_state"}
    candidates = [exact, *_approximate(energy, returns, bool(needs or named), random)]
    able = []
    for method in candidates:
        if named <= vars(method).keys() and all(_takes(method, need, returns) for need in needs):
            own = {name: value for name, value in options.items() if name in vars(method)}
            method = method.with_options(**own)
            if returns <= method.supports(energy):
                able.append(method)
    if not able:
        _refuse(energy, returns, {*needs, *named}, candidates)
    if able[0].name == "exact":
        # Import here: the module needs the solvers of "exact".
        from skcrbm.inference.exact.cost import seconds_of_exact

        if seconds_of_exact(able[0], energy, returns) > AUTO_SECONDS:
            # Without another method the usual limits of "exact" decide, and its error names them.
            own = {name: value for name, value in options.items() if name in vars(exact)}
            return able[1] if len(able) > 1 else Exact().with_options(**own)
    return able[0]


def _approximate(energy, returns, plain, random):
    """List the methods in the order of preference when "exact" is not possible.

    If `plain` is True, the call has options or arguments, which must act on a single run.
    """
    if "samples" in returns:
        return [Gibbs(), BPChain()]
    if returns <= _SUMS:
        messages = SumProduct() if plain else _PatientSumProduct()
        if returns != {"log_partition"}:
            return [messages, Gibbs()]
        size = energy.n_models * energy.n_variables
        chosen: list[InferenceMethod] = []
        if random or plain or size * _AIS_SECONDS <= AUTO_SECONDS:
            chosen.append(AnnealedImportanceSampling())
        if random or plain or size * energy.n_variables * _CHAIN_SECONDS <= AUTO_SECONDS:
            chosen.append(BPChain())
        return chosen if random else [*chosen, messages]
    if returns <= {"map", "map_bound"}:
        nodes = max(_LEAST_NODES, _ALL_NODES // max(1, energy.n_models))
        return [
            MapSearch(max_nodes=nodes),
            MaxProduct(n_restarts=_RESTARTS),
            LinearProgram(),
            SimulatedAnnealing(),
        ]
    if returns <= {"marginal_map", "map_bound"}:
        return [MixedProduct(n_restarts=_RESTARTS), DualDecomposition()]
    return []


def _takes(method, need, returns):
    """Return True if a method takes the argument `need` of `infer`."""
    if need == "n_samples":
        return bool(returns & method.estimated_from_samples)
    return need in method.accepts


def _refuse(energy, returns, asked, candidates):
    """Raise the error for a call that no method can answer."""
    check_answers(candidates[0], energy, returns)  # the answers alone may be impossible
    options = sorted(set().union(*(vars(method) for method in candidates)))
    raise ValueError(
        f"method='auto' chooses one of {quoted(method.name for method in candidates)} for "
        f"{quoted(sorted(returns))}, and no such method takes {quoted(sorted(asked))} as well; "
        f"their options are: {', '.join(options)}. Name the method, one of "
        f"{quoted(available_methods(energy, returns))}"
    )
