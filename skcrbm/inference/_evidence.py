"""Evidence of energies of pairs: solvers see folded fields and a mask of what is free."""

from functools import wraps

import numpy as np
from scipy.special import expit

from skcrbm.utils.parallel import one_blas_thread


def with_folded_evidence(solve):
    """Decorate a solver that works on folded fields and leaves held variables out.

    It gets the energy with its evidence folded into the fields (`PairwiseEnergy.fold_evidence`)
    and reads from `energy.free` which variables count; log Z and statistics are completed
    here. It has to fill log_odds where statistics are asked for.
    """

    @wraps(solve)
    def solve_folded(method, energy, query):
        if energy.evidence is None:
            return solve(method, energy, query)
        with one_blas_thread():
            fields, offset = energy.fold_evidence()
        answer = solve(method, energy.with_fields(*fields), query)
        if "log_partition" in query.returns:
            answer["log_partition"] = answer["log_partition"] + offset
        if "statistics" in query.returns:
            with one_blas_thread():
                _add_held_pairs(energy, query, answer)
        return answer

    return solve_folded


def _add_held_pairs(energy, query, answer):
    """Add the pairs with a held variable: plain products of means."""
    held = ~energy.free
    free = np.where(held, 0, expit(answer["log_odds"])).astype(energy.dtype)
    values = np.nan_to_num(energy.evidence).astype(energy.dtype)
    weight = None if query.per_example else query.sample_weight.astype(energy.dtype)
    energy.add_held_pairs(answer["statistics"], values, free, weight)
