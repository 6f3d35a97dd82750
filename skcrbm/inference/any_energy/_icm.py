"""Find states by iterated conditional modes: improve one block of variables after the other."""

import numpy as np

from skcrbm.energies.states import best_states, with_evidence
from skcrbm.inference.base import empty_result
from skcrbm.inference.random_numbers import best_of_restarts
from skcrbm.utils.parallel import one_blas_thread


def solve(method, energy, query):
    """Answer "map" by the best of several local optima.

    An iteration visits all blocks in `energy.sampling_blocks`. The variables of a block are
    independent given all other variables, so all of them can be set to their best states at once.
    This never lowers the score.
    """

    def ascend(start):
        if start is None:
            start = np.hstack(energy.fields) if query.start is None else query.start.log_odds
        return _ascend(method, energy, query, best_states(energy, start))

    with one_blas_thread():
        return best_of_restarts(ascend, energy, method.n_restarts, method.random_state)


def _ascend(method, energy, query, state):
    """Improve the states `state` (N, n) of all models until each model is at a local optimum."""
    fields = empty_result(energy, query)
    fields["converged"][:] = False
    state = with_evidence(energy, state)
    active = np.arange(energy.n_models)
    for iteration in range(method.iterations):
        part, here = energy.rows(active), state[active][:, None]
        before = here.copy()
        for block in energy.sampling_blocks:
            log_odds = part.conditional_log_odds(here, block)
            here[..., block] = best_states(part, log_odds, here[..., block], block)
        state[active] = here[:, 0]
        fields["n_iter"][active] = iteration + 1
        moving = (here != before).any(axis=(1, 2))
        fields["converged"][active[~moving]] = True
        active = active[moving]
        if not len(active):
            break
    score = energy.score(state)
    fields["converged"] &= score > -np.inf  # False if the state is impossible
    fields["assignment"][...] = state
    fields["log_odds"] = energy.visible_log_odds(state)
    return fields, score
