"""The answers for a model depend on the other models of its batch, and on threads, in no method."""

import numpy as np
import pytest
from conftest import JIT_DISABLED
from reference import proofs
from reference.budgets import short
from reference.conformance import ARRAYS, assert_same, tolerances
from reference.dtypes import DTYPES
from reference.energy_cases import CASES

from skcrbm.inference import infer
from skcrbm.inference.registry import METHODS

CELLS = [(case, name) for case, name in proofs.cells(CASES) if case.column]
# Methods that are too slow for a batch of several chunks of models.
SLOW = {
    *("map_search", "milp", "linear_program", "simulated_annealing"),
    *("gibbs", "gibbs_with_gradients", "perturb_and_map"),
}
DRAWN = {"samples", "sample_log_prob"}


@pytest.mark.quick_cases(60)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("case", "name"), CELLS, ids=lambda x: getattr(x, "name", x))
def test_every_method(case, name, dtype):
    n_models = 9 if name in SLOW or JIT_DISABLED else 150
    energy = case.make(5, n_models, 1.0, dtype)
    scale, clamp = np.ones(n_models), np.full((n_models, energy.n_variables), np.nan)
    scale[3], clamp[4, 0] = 100, 0  # the weights of model 3 leave the range of floats
    fields = [(scale * field.T).T.astype(dtype) for field in energy.fields]
    energy = energy.with_fields(*fields).condition(clamp)
    method = METHODS.get(name)()
    answers = proofs.answers_of(method, energy)
    weight = np.random.default_rng(0).random(n_models)
    for pairwise in ("sum", "per_example"):
        asked = tuple(a for a in answers if a != "marginal_map" or "map" not in answers)
        options = {"returns": asked, "pairwise": pairwise, "sample_weight": weight}
        for answer in asked:
            options |= short(name, answer)
        one = infer(energy, name, n_jobs=1, **options)
        for n_jobs in (2, 3):
            assert_same(one, infer(energy, name, n_jobs=n_jobs, **options))
    # The random numbers of a model depend on its place in the batch.
    rows = [7, 3, n_models - 1]
    if method.is_random or method.answers <= DRAWN:
        rows = [0]
    some = infer(energy.rows(rows), name, **{**options, "sample_weight": weight[rows]})
    for field in set(ARRAYS) - (DRAWN if rows != [0] else set()):
        left, right = getattr(one, field), getattr(some, field)
        pairs = zip(left, right) if isinstance(left, tuple) else [(left, right)]
        for a, b in pairs if left is not None else []:
            np.testing.assert_allclose(a[rows], b, **tolerances(dtype), err_msg=field)
