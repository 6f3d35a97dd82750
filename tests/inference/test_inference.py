"""`infer` and the method objects: answers, options, errors."""

import re
import threading
import time

import numpy as np
import pytest
from reference.conformance import assert_same
from reference.dtypes import DTYPES
from reference.random_models import random_clamp, random_rbm
from reference.trees import CLAMPS, tree
from sklearn.base import clone

import skcrbm.inference
from skcrbm.energies import OneHotRBMEnergy, RBMEnergy
from skcrbm.inference import Exact, InferenceMethod, MeanField, SumProduct, available_methods, infer
from skcrbm.inference.base import resolve_method
from skcrbm.inference.registry import METHODS
from skcrbm.utils.parallel import ordered_map

ALL = ("marginals", "pairwise", "log_partition")
NAMES = list(METHODS)
RBM = random_rbm(0, 4, 3)
SUMS = available_methods(RBM, ALL)
ITERATIVE = [name for name in SUMS if "max_iter" in METHODS.get(name)().get_params()]
CONTRACT = [
    (name, answer)
    for name in available_methods(RBM)
    for answer in sorted(METHODS.get(name)().supports(RBM))
]
FIELDS = {
    "marginals": ("marginals", "log_odds"),
    "map": ("assignment", "log_odds"),
    "marginal_map": ("assignment", "log_odds"),
    "map_bound": ("assignment", "log_odds", "map_bound", "gap"),
    "statistics": ("pairwise",),
    "sample_log_prob": ("samples", "sample_log_prob"),
}


# -------------------------------------------------------------------------- the contract


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize(("name", "answer"), CONTRACT)
@pytest.mark.parametrize("dtype", DTYPES)
def test_contract(name, answer, dtype):
    """Requested answers have their shape, dtype and range; other answers are None."""
    energy = random_rbm(0, 4, 3, n_models=5, dtype=dtype)
    result = infer(energy, name, returns=(answer,))
    shapes = {
        "marginals": ((5, 7), dtype),
        "log_odds": ((5, 7), dtype),
        "pairwise": ((4, 3), dtype),
        "log_partition": ((5,), np.float64),
        "assignment": ((5, 7), np.int8),
        "map_bound": ((5,), np.float64),
        "gap": ((5,), np.float64),
        "samples": ((5, 1, 7), np.int8),
        "sample_log_prob": ((5, 1), np.float64),
        "standard_error": ((5,), np.float64),
        "effective_sample_size": ((5,), np.float64),
        "n_iter": ((5,), np.int64),
        "converged": ((5,), np.bool_),
    }
    present = {*FIELDS.get(answer, (answer,)), "n_iter", "converged"}
    if name in ("ais", "bp_chain") and answer == "log_partition":
        present |= {"standard_error", "effective_sample_size"}
    if name in (
        "mplp",
        "linear_program",
        "dual_decomposition",
        "simulated_annealing",
    ):  # nothing like max-marginals
        present -= {"log_odds"}
    if name in ("perturb_and_max_product", "perturb_and_map") and answer == "log_partition":
        present |= {"standard_error"}
    for field in ("trace", *shapes):
        value = getattr(result, field)
        if field not in present:
            assert value is None, field
            continue
        shape, kind = shapes[field]
        assert value.shape == shape
        assert value.dtype == kind
        assert np.isfinite(value).all()
    if answer == "marginals":
        assert (result.marginals >= 0).all()
        assert (result.marginals <= 1).all()


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_ordered_map(n_jobs):
    """Results come in order; a failure or an early end waits for tasks that still run."""
    release = threading.Event()
    done = []

    def work(k):
        if k > 0 and n_jobs > 1:
            release.wait(10)
        if k == 3:
            raise ZeroDivisionError("three")
        done.append(k)
        return -k

    results = ordered_map(work, range(8), n_jobs)
    assert next(results) == 0
    release.set()
    assert [next(results), next(results)] == [-1, -2]
    with pytest.raises(ZeroDivisionError, match="three"):
        next(results)
    settled = list(done)
    time.sleep(0.05)
    assert done == settled
    assert list(ordered_map(abs, [], n_jobs)) == []
    abandoned = ordered_map(lambda k: done.append(k) or time.sleep(0.02), range(8), n_jobs)
    next(abandoned)
    abandoned.close()
    settled = list(done)
    time.sleep(0.05)
    assert done == settled


@pytest.mark.parametrize("name", SUMS)
def test_many_chunks_equal_one(name, monkeypatch):
    """The work is cut by the data; the cut changes the order of additions only."""
    energy = random_rbm(3, 4, 3, n_models=40)
    whole = infer(energy, name, returns=ALL)
    monkeypatch.setattr("skcrbm.inference.rbm._messages._CHUNK_EDGES", 1)
    monkeypatch.setattr("skcrbm.inference.rbm._messages._ROWS_PER_SUM", 1)
    monkeypatch.setattr("skcrbm.inference.exact.rbm._CHUNK_WORK", 1)
    for n_jobs in (1, 2):
        cut = infer(energy, name, returns=ALL, n_jobs=n_jobs)
        np.testing.assert_array_equal(cut.log_odds, whole.log_odds)
        np.testing.assert_array_equal(cut.log_partition, whole.log_partition)
        np.testing.assert_allclose(cut.pairwise, whole.pairwise, rtol=1e-14)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_pairwise_sum_is_the_weighted_sum(name, dtype):
    energy = random_rbm(4, 4, 3, n_models=20, dtype=dtype)
    weight = np.random.default_rng(0).normal(size=20)  # differences of moments: any sign
    clamp = random_clamp(np.random.default_rng(1), 20, 7)
    rtol = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    for options in ({}, {"clamp": clamp}):
        parts = infer(energy, name, returns="pairwise", pairwise="per_example", **options).pairwise
        assert parts.shape == (20, 4, 3)
        for w in (None, weight, weight.astype(np.float32), weight.tolist()):
            total = infer(energy, name, returns="pairwise", sample_weight=w, **options).pairwise
            expected = np.tensordot(np.ones(20) if w is None else np.asarray(w), parts, 1)
            np.testing.assert_allclose(total, expected, rtol=rtol, atol=20 * rtol)


# --------------------------------------------------------------------- quality of answers


def test_sum_product_damping_has_the_same_fixed_point():
    energy = random_rbm(7, 6, 5, scale=1.0, n_models=3)
    plain = infer(energy, "sum_product", tol=1e-12, max_iter=500, returns=ALL)
    damped = infer(energy, "sum_product", tol=1e-12, max_iter=500, damping=0.5, returns=ALL)
    assert plain.converged.all()
    assert damped.converged.all()
    np.testing.assert_allclose(damped.log_odds, plain.log_odds, atol=1e-9)
    np.testing.assert_allclose(damped.log_partition, plain.log_partition, atol=1e-9)


def test_mean_field_bound_grows_to_at_most_log_z():
    energy = random_rbm(8, 6, 5, scale=2.0, n_models=6)
    exact = infer(energy, "exact", returns="log_partition").log_partition
    bounds = np.array(
        [
            infer(energy, "mean_field", max_iter=t, tol=0, returns="log_partition").log_partition
            for t in (1, 2, 3, 5, 9, 20)
        ]
    )
    assert (bounds[-1] <= exact).all()
    assert (np.diff(bounds, axis=0) >= -1e-12).all()
    assert (np.diff(bounds, axis=0).max(0) > 1e-6).any()  # the iterations did something


# ---------------------------------------------------- convergence, traces, warm starts


@pytest.mark.parametrize("name", ITERATIVE)
def test_each_model_converges_on_its_own(name):
    """The second model's biases saturate it: it needs fewer iterations than the first."""
    rng = np.random.default_rng(14)
    weights = rng.normal(0, 0.7, (6, 5))
    b, c = np.zeros((3, 6)), np.zeros((3, 5))
    b[1], c[1] = 50.0, -50.0
    energy = RBMEnergy(weights, b, c)
    result = infer(energy, name, tol=1e-8, max_iter=200, return_trace=True)
    assert result.converged.all()
    assert result.n_iter[1] < result.n_iter[0] == result.n_iter[2]
    assert result.trace.shape == (3, 200)
    for n in range(3):
        t = result.n_iter[n]
        assert result.trace[n, t - 1] < 1e-8
        # Before it a belief moved, or, of the model that is saturated, a log-odds.
        assert n == 1 or (result.trace[n, : t - 1] >= 1e-8).all()
        assert np.isnan(result.trace[n, t:]).all()
    short = infer(energy, name, tol=1e-8, max_iter=int(result.n_iter[0]) - 1)
    np.testing.assert_array_equal(short.converged, [False, True, False])
    np.testing.assert_array_equal(
        short.n_iter, [short.n_iter[0], result.n_iter[1], short.n_iter[0]]
    )
    assert short.n_iter[0] == result.n_iter[0] - 1
    np.testing.assert_array_equal(short.log_odds[1], result.log_odds[1])


@pytest.mark.parametrize("name", ITERATIVE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_converged_means_a_fixed_point(name, dtype):
    energy = random_rbm(15, 6, 5, n_models=3, scale=0.7, dtype=dtype)
    tol = {np.float32: 1e-6, np.float64: 1e-11}[dtype]
    done = infer(energy, name, tol=tol, max_iter=300)
    more = infer(energy, name, tol=0, max_iter=int(done.n_iter.max()) + 20)
    assert done.converged.all()
    np.testing.assert_allclose(done.marginals, more.marginals, atol=20 * tol)


@pytest.mark.parametrize("method", [SumProduct(), SumProduct(damping=0.3), MeanField()])
@pytest.mark.parametrize("dtype", DTYPES)
def test_warm_start_from_a_converged_result(method, dtype):
    energy = random_rbm(16, 6, 5, n_models=4, scale=1.5, bias_scale=2.0, dtype=dtype)
    tol = {np.float32: 1e-5, np.float64: 1e-9}[dtype]
    cold = infer(energy, method, tol=tol, max_iter=400, returns=ALL)
    warm = infer(energy, method, tol=tol, max_iter=400, returns=ALL, init=cold)
    assert cold.converged.all()
    assert (cold.n_iter > 3).all()
    assert (warm.n_iter <= 2).all()
    for field in ("marginals", "log_partition"):
        np.testing.assert_allclose(getattr(warm, field), getattr(cold, field), atol=20 * tol)
    np.testing.assert_allclose(warm.pairwise, cold.pairwise, atol=80 * tol)


@pytest.mark.parametrize("method", [SumProduct(), SumProduct(damping=0.3)])
def test_warm_start_holds_the_very_fixed_point(method):
    """The messages are recovered from the beliefs: a further iteration changes nothing."""
    energy = random_rbm(17, 5, 4, n_models=3, scale=2.0, bias_scale=1.0)
    cold = infer(energy, method, tol=1e-14, max_iter=2000)
    warm = infer(energy, method, tol=0, max_iter=1, init=cold)
    assert cold.converged.all()
    np.testing.assert_allclose(warm.log_odds, cold.log_odds, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", [SumProduct(), SumProduct(damping=0.5), MeanField()])
@pytest.mark.parametrize("dtype", DTYPES)
def test_warm_start_from_saturated_and_clamped_results(method, dtype):
    """Infinite and huge log-odds in `init`, strong couplings: finite, and right on a tree."""
    energy = tree(n_models=2, dtype=dtype)
    first = infer(energy, method, clamp=CLAMPS["mixed"])
    assert np.isinf(first.log_odds).any()
    warm = infer(energy, method, init=first, returns=ALL, tol=1e-6, max_iter=500)
    cold = infer(energy, method, returns=ALL, tol=1e-6, max_iter=500)
    np.testing.assert_allclose(warm.marginals, cold.marginals, atol=1e-4)
    again = infer(energy, method, init=first, clamp=CLAMPS["off"], tol=1e-6, max_iter=500)
    expected = infer(energy, method, clamp=CLAMPS["off"], tol=1e-6, max_iter=500)
    np.testing.assert_allclose(again.marginals, expected.marginals, atol=1e-4)
    strong = RBMEnergy(
        (20 * energy.weights).astype(dtype), *(50 * f.astype(dtype) for f in energy.fields)
    )
    first = infer(strong, method, max_iter=3)
    warm = infer(strong, method, init=first, returns=ALL, max_iter=3)
    for field in ("log_odds", *ALL):
        assert np.isfinite(getattr(warm, field)).all()


# ------------------------------------------------------------------------- method objects


def test_available_methods():
    energy = random_rbm(0, 2, 2)
    assert available_methods() == NAMES
    assert {"exact", "mean_field", "sum_product"} <= set(available_methods(energy, ALL))
    one_hot = OneHotRBMEnergy(np.ones((2, 2)), [0, 0], [0, 0])
    assert available_methods(one_hot) == ["exact", "simulated_annealing", "gibbs"]
    assert available_methods(energy, "map") == available_methods(energy, ["map"])
    assert "icm" in available_methods(returns="map")
    with pytest.raises(ValueError, match=r"returns must contain one or more of .*'samples'"):
        available_methods(returns=["samples of tea"])


@pytest.mark.parametrize("name", SUMS)
def test_method_objects(name):
    cls = METHODS.get(name)
    method = resolve_method(name)
    assert type(method) is cls
    assert cls.name == name
    assert getattr(skcrbm.inference, cls.__name__) is cls
    assert resolve_method(method) is method
    copy = clone(method)
    assert copy is not method
    assert copy.get_params() == method.get_params()
    for option, value in method.get_params().items():
        assert cls(**{option: value}).get_params() == method.get_params()
    with pytest.raises(ValueError, match="no_such_option"):
        method.set_params(no_such_option=1)


def test_method_object_options():
    energy = random_rbm(18, 5, 4, scale=2.0)
    method = SumProduct(max_iter=3, tol=0.0, damping=0.25)
    assert clone(method).set_params(max_iter=5).max_iter == 5
    by_object = infer(energy, method)
    by_name = infer(energy, "sum_product", max_iter=3, tol=0, damping=0.25)
    np.testing.assert_array_equal(by_object.log_odds, by_name.log_odds)
    overridden = infer(energy, method, max_iter=1)
    assert (by_object.n_iter, overridden.n_iter) == (3, 1)
    assert method.max_iter == 3
    # A method object keeps its own tol; a name gets infer's default.
    loose = infer(energy, MeanField(tol=0.5))
    assert loose.n_iter < infer(energy, "mean_field").n_iter


def test_at_epoch_follows_the_schedule():
    method = SumProduct(damping=0.1)
    assert [method.at_epoch(e).iterations for e in (0, 1, 50, 51, 500)] == [7, 8, 57, 57, 57]
    assert method.at_epoch(3).damping == 0.1
    assert SumProduct(max_iter=4).at_epoch(9).iterations == 4
    assert method.iterations == 100
    exact = Exact()
    assert exact.at_epoch(5) is exact


@pytest.mark.parametrize(
    ("method", "match"),
    [
        (SumProduct(max_iter=0), "'max_iter' parameter of SumProduct"),
        (SumProduct(damping=1.0), "'damping' parameter of SumProduct"),
        (SumProduct(tol=-1), "'tol' parameter of SumProduct"),
        (MeanField(max_iter=2.5), "'max_iter' parameter of MeanField"),
        (Exact(max_units=31), "'max_units' parameter of Exact"),
        ("sumproduct", "Did you mean 'sum_product'"),
        (
            "nothing like it",
            "method must be one of 'auto', 'exact'|inference must be one of 'exact'",
        ),
    ],
)
def test_invalid_methods(method, match):
    with pytest.raises(ValueError, match=match):
        resolve_method(method)
    with pytest.raises(ValueError, match=match):
        infer(random_rbm(0, 2, 2), method)


@pytest.mark.parametrize("method", [None, 3, SumProduct, ["exact"]])
def test_method_of_a_wrong_type(method):
    with pytest.raises(TypeError, match="must be one of 'auto', 'exact'"):
        infer(random_rbm(0, 2, 2), method)


def test_a_method_of_ones_own():
    """A subclass that is not registered works, and is named by its class in errors."""

    class Uniform(InferenceMethod):
        def supports(self, energy):
            return frozenset({"marginals"})

        def solve(self, energy, query):
            return {"log_odds": np.zeros((energy.n_models, energy.n_variables))}

    energy = random_rbm(0, 2, 2)
    np.testing.assert_array_equal(infer(energy, Uniform()).marginals, np.full((1, 4), 0.5))
    with pytest.raises(ValueError, match="'Uniform' cannot answer 'statistics'"):
        infer(energy, Uniform(), returns="pairwise")


# --------------------------------------------------------------------------------- errors


def test_energy_of_a_wrong_type():
    with pytest.raises(TypeError, match="energy must be an energy such as RBMEnergy"):
        infer(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("method", "options", "match"),
    [
        ("exact", {"max_iter": 5}, "'exact' has no option 'max_iter'.*max_units"),
        ("exact", {"tol": 1e-3}, "'exact' has no option 'tol'"),
        ("exact", {"damping": 0.5}, "'exact' has no option 'damping'"),
        ("mean_field", {"damping": 0.5}, "'mean_field' has no option 'damping'"),
        ("mean_field", {"n_restarts": 2}, "'mean_field' has no option 'n_restarts'"),
        ("sum_product", {"random_state": 0}, "'sum_product' has no option 'random_state'"),
        ("sum_product", {"n_restarts": 3}, "'sum_product' has no option 'n_restarts'"),
        ("exact", {"return_trace": True}, "'exact' has no option 'return_trace'"),
        ("sum_product", {"max_iter": 0}, "'max_iter' parameter of SumProduct"),
        ("sum_product", {"damping": 1.5}, "'damping' parameter of SumProduct"),
    ],
)
def test_options_that_a_method_lacks(method, options, match):
    with pytest.raises(ValueError, match=match):
        infer(random_rbm(0, 2, 2), method, **options)


def test_init_for_a_method_without_it():
    energy = random_rbm(0, 2, 2)
    with pytest.raises(ValueError, match=r"'exact' has no option 'init'.*sum_product"):
        infer(energy, "exact", init=infer(energy, "sum_product"))


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", available_methods(RBM))
def test_a_name_is_the_object_with_its_defaults(name):
    """Neither None nor a default that is spelled out changes an answer."""
    method = METHODS.get(name)()
    seed = {"random_state": 0} if "random_state" in vars(method) else {}
    energy = random_rbm(0, 2, 2)
    expected = infer(energy, name, **seed)
    spelled = {"max_iter": 100, "tol": 1e-6} if "tol" in vars(method) else {}
    unset = dict.fromkeys(["clamp", "sample_weight", "init", "n_jobs"])
    for found in (
        infer(energy, method, **seed),
        infer(energy, method.set_params(**seed), **unset),
        infer(energy, name, **seed, **spelled, return_trace=False, return_state=False),
    ):
        assert_same(found, expected)


def test_options_of_an_object_are_kept():
    energy = random_rbm(0, 6, 5, scale=1.5)
    found = infer(energy, SumProduct(max_iter=3, tol=0.0))
    assert (found.n_iter == 3).all()
    assert (infer(energy, SumProduct(max_iter=3, tol=0.0), max_iter=2).n_iter == 2).all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"clamp": [0, 1]}, r"clamp must have shape \(1, 4\) or \(4,\), got \(2,\)"),
        ({"clamp": np.zeros((3, 4))}, r"clamp must have shape \(1, 4\)"),
        ({"clamp": [0, 1, 0.5, np.nan]}, "clamp must hold 0 or 1"),
        ({"clamp": [0, 1, np.inf, np.nan]}, "clamp must hold 0 or 1"),
        ({"clamp": [0, -1, 0, 0]}, "clamp must hold 0 or 1"),
        ({"clamp": ["a", 0, 0, 0]}, "clamp must be a real array"),
        ({"clamp": np.array([1j, 0, 0, 0])}, "clamp must be a real array"),
        ({"sample_weight": [1, 2]}, r"sample_weight must have shape \(1,\), got \(2,\)"),
        ({"sample_weight": 1.0}, r"sample_weight must have shape \(N,\)"),
        ({"sample_weight": [np.nan]}, "sample_weight must be finite"),
        ({"sample_weight": ["1"]}, "sample_weight must be a real array"),
        ({"returns": ()}, "returns must contain one or more of"),
        ({"returns": ("marginal",)}, "returns must contain one or more of.*'marginals'"),
        ({"returns": "log_z"}, "returns must contain one or more of"),
        ({"returns": 3}, "returns must contain one or more of"),
        ({"pairwise": "mean"}, "pairwise must be 'sum' or 'per_example', got 'mean'"),
        (
            {"init": "yesterday"},
            r"init must be an earlier InferenceResult.*\(1, 4\).*got 'yesterday'",
        ),
        ({"n_jobs": 0}, "n_jobs must be None or an int other than 0, got 0"),
        ({"n_jobs": True}, "n_jobs must be None or an int"),
        ({"n_jobs": 1.5}, "n_jobs must be None or an int"),
        ({"n_jobs": "2"}, "n_jobs must be None or an int"),
        ({"n_jobs": [1]}, "n_jobs must be None or an int"),
        ({"n_jobs": float("nan")}, "n_jobs must be None or an int"),
        ({"max_iter": True}, "max_iter must be a number, got True"),
        ({"max_iter": 2**70}, r"max_iter must be below 2\*\*63"),
        ({"tol": True}, "tol must be a number"),
        ({"damping": False}, "damping must be a number"),
        ({"return_trace": "no"}, "return_trace must be True or False, got 'no'"),
        ({"return_state": 1}, "return_state must be True or False, got 1"),
    ],
)
def test_invalid_arguments(options, match):
    with pytest.raises(ValueError, match=match):
        infer(random_rbm(0, 2, 2), "sum_product", **options)


def test_init_of_another_shape_or_without_log_odds():
    energy = random_rbm(0, 2, 2)
    with pytest.raises(ValueError, match=r"log_odds of shape \(1, 4\).* got shape \(1, 5\)"):
        infer(energy, "sum_product", init=infer(random_rbm(0, 3, 2)))
    with pytest.raises(ValueError, match="got a result without log_odds"):
        infer(energy, "sum_product", init=infer(energy, returns="pairwise"))


def test_reprs_are_one_short_line():
    energy = RBMEnergy(np.ones((40, 30), np.float32), np.zeros((500, 40)), np.zeros(30))
    assert repr(energy) == "RBMEnergy(500 models of 70 variables)"
    result = infer(energy, "mean_field", returns=("marginals", "pairwise"))
    told = r"<InferenceResult: approximate \(mean_field\), marginals \(500, 70\), "
    told += r"log_odds \(500, 70\), statistics \(40, 30\), converged 100% in \d+ iterations>"
    assert re.fullmatch(told, repr(result))
    few = infer(energy.rows([0]), "icm", returns="map", n_jobs=1)
    assert repr(few).startswith("<InferenceResult: approximate (icm), log_odds")
    assert max(len(repr(few)), len(repr(result))) < 165
    assert repr(type(few)()) == "<InferenceResult: empty>"
