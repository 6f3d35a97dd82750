"""Every method gives the same answers if rows, threads, answers or iterations are split."""

import numpy as np
import pytest
from conftest import JIT_DISABLED
from reference import proofs
from reference.budgets import short
from reference.conformance import ARRAYS, assert_same, tolerances
from reference.dtypes import DTYPES
from reference.energy_cases import CASES

from skcrbm.inference import infer, sample
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
def test_rows_and_threads(case, name, dtype):
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


@pytest.mark.quick_cases(30)
@pytest.mark.parametrize(("case", "name"), CELLS, ids=lambda x: getattr(x, "name", x))
def test_answers_do_not_depend_on_other_answers(case, name):
    energy = case.make(5, 3, 1.0, np.float64)
    asked = [a for a in proofs.answers_of(METHODS.get(name)(), energy) if a != "marginal_map"]
    options = {}
    for answer in asked:
        options |= short(name, answer)
    together = infer(energy, name, returns=tuple(asked), **options) if asked else None
    for answer in asked:
        many = answer in METHODS.get(name).estimated_from_samples | DRAWN
        own = {key: options[key] for key in options if many or key != "n_samples"}
        alone = infer(energy, name, returns=answer, **own)
        field = {"map": "assignment"}.get(answer, answer)
        left, right = getattr(alone, field), getattr(together, field)
        for a, b in zip(left, right) if isinstance(left, tuple) else [(left, right)]:
            np.testing.assert_array_equal(a, b)


# Layered models start from their scores. States of perturbed maxima hold noise, see their tests.
CONTINUED = [
    (case, name)
    for case, name in CELLS
    if "return_state" in METHODS.get(name).accepts
    and not (case.name.startswith("layered") or name == "perturb_and_max_product")
]


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize(("case", "name"), CONTINUED, ids=lambda x: getattr(x, "name", x))
def test_a_state_continues_a_call(case, name):
    """Four iterations and two from their state are six; a converged state is a fixed point."""
    energy = case.make(5, 3, 0.5, np.float64)
    method = METHODS.get(name)()
    if "samples" in method.supports(energy):
        return check_continued_samples(energy, method)
    method = method.with_options(tol=1e-300)
    first, whole = (infer(energy, method, max_iter=k, return_state=True) for k in (4, 6))
    then = infer(energy, method, max_iter=2, init=first)
    np.testing.assert_allclose(then.log_odds, whole.log_odds, rtol=1e-9, atol=1e-9)
    settled = infer(energy, method, tol=1e-12, max_iter=2000, return_state=True)
    again = infer(energy, method, tol=1e-8, max_iter=2000, init=settled)
    done = settled.converged
    assert done.any()
    assert (again.n_iter[done] <= 2).all()
    np.testing.assert_allclose(again.log_odds[done], settled.log_odds[done], atol=1e-6)
    return None


def check_continued_samples(energy, method):
    options = {"n_chains": 2} if "n_chains" in vars(method) else {}
    method = method.with_options(random_state=0, **options)
    whole = sample(energy, method, n_samples=12)
    first, state = sample(energy, method, n_samples=8, return_state=True)
    rest = sample(energy, method, n_samples=4, init=state)
    np.testing.assert_array_equal(np.concatenate([first, rest], axis=1), whole)
