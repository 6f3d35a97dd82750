"""Truncated inference on layered models: references, enumeration, finite differences."""

import numpy as np
import pytest
from reference.dtypes import DTYPES, float32_test
from reference.layered_models import NETS, TINY, make_model
from reference.naive_layered import NaiveLayered
from scipy.special import softmax

from skcrbm.energies import LayeredStructure
from skcrbm.energies.layered_model import InputCode
from skcrbm.energies.layered_structure import LayeredParams
from skcrbm.inference import TruncatedInference
from skcrbm.inference.layered.methods import MaxProductNetwork
from skcrbm.inference.layered.network import LayeredInput, probabilities
from skcrbm.kernels import layered_messages as kernels
from skcrbm.layers import Conv2d, Dense

METHODS = ["mean_field", "sum_product", "tree_reweighted"]
SCHEDULES = ["sequential", "parallel"]


def make_input(model, n=4, seed=1, missing=0.0):
    rng = np.random.RandomState(seed)
    X = rng.random_sample((n, model.structure.n_nodes[0])).astype(model.params.unaries.dtype)
    X[rng.random_sample(X.shape) < missing] = np.nan
    return LayeredInput(*model.encode(X))


def make_network(model, method, schedule, n_iter):
    return TruncatedInference(method, schedule, n_iter).network(model)


def naive(model, inputs, row):
    missing = None if inputs.missing is None else inputs.missing[row]
    return NaiveLayered(model.structure, model.params, inputs.means[row], missing)


def assert_beliefs(trace, row, expected, rtol=1e-9):
    for (layer, node), scores in expected.items():
        mine = trace.beliefs[-1][layer].reshape(-1, len(scores) - 1, trace.n)[node, :, row]
        np.testing.assert_allclose(mine, (scores - scores[0])[1:], rtol=rtol, atol=rtol)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", NETS)
def test_beliefs_equal_the_reference(net, method, schedule, missing):
    model = make_model(net, free=missing > 0)
    inputs = make_input(model, missing=missing)
    depth = model.structure.depth
    for n_iter in (depth, depth + 2):
        network = make_network(model, method, schedule, n_iter)
        trace = network.run(inputs, complete=True)
        short = network.run(inputs)
        np.testing.assert_array_equal(short.beliefs[-1][-1], trace.beliefs[-1][-1])
        for row in range(2):
            expected = naive(model, inputs, row).infer(method, schedule, n_iter)
            assert_beliefs(trace, row, expected)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", NETS)
def test_gradient_equals_finite_differences(net, method, schedule, missing):
    model = make_model(net, free=missing > 0)
    inputs = make_input(model, n=3, missing=missing)
    n_iter = model.structure.depth + 2
    rng = np.random.RandomState(2)

    def run(params, **options):
        network = make_network(model._replace(params=params), method, schedule, n_iter)
        return network, network.run(inputs, **options)

    network, trace = run(model.params, keep=True)
    factor = rng.normal(size=trace.beliefs[-1][-1].shape)
    gradient = network.gradient(trace, factor)
    step = 1e-6
    # Along a direction in each array of parameters: a wrong entry shows with certainty.
    for k in range(3):
        direction = rng.normal(size=model.params[k].shape)

        def value(h, k=k, direction=direction):
            arrays = [p + h * direction if m == k else p for m, p in enumerate(model.params)]
            return (factor * run(LayeredParams(*arrays))[1].beliefs[-1][-1]).sum()

        slope = (value(step) - value(-step)) / (2 * step)
        np.testing.assert_allclose(gradient[k] @ direction, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("states", "skips"), [(2, ()), (4, ()), (2, ((0, 2),))])
def test_star_is_exact(schedule, states, skips):
    """With a single hidden layer, given the inputs, also if the inputs act on the output."""
    layers, n_iter = (Dense(3, states),), 5
    structure = LayeredStructure(layers, (2,), 2, 1, 3, skips)
    template = make_model("none")
    rng = np.random.RandomState(3)
    params = LayeredParams(
        *(
            2 * rng.normal(size=size)
            for size in (
                structure.connections[0].n_weights,
                sum(c.n_weights for c in structure.connections[1:]),
                structure.unary_slices[-1].stop,
            )
        )
    )
    model = template._replace(
        params=params,
        structure=structure,
        code=InputCode(None, np.zeros(2, bool), np.ones(2, bool)),
    )
    inputs = make_input(model)
    runs = [
        make_network(model, method, schedule, n_iter).run(inputs, complete=True)
        for method in ("sum_product", "tree_reweighted")
    ]
    for mine, other in zip(runs[0].beliefs[-1][1:], runs[1].beliefs[-1][1:]):
        np.testing.assert_array_equal(mine, other)  # bit for bit
    # Beliefs that no longer change are not computed again, and the output is the same.
    for method in ("sum_product", "tree_reweighted"):
        short = make_network(model, method, schedule, n_iter).run(inputs)
        assert short.n_iter == 2
        np.testing.assert_allclose(short.beliefs[-1][-1], runs[0].beliefs[-1][-1], rtol=1e-12)
    best = MaxProductNetwork(model, schedule, n_iter, with_input=False).run(inputs, complete=True)
    for row in range(4):
        _, marginals, states_of = naive(model, inputs, row).exact()
        for (layer, node), p in marginals.items():
            mine = probabilities(runs[0].beliefs[-1][layer], 4)[node, :, row]
            np.testing.assert_allclose(mine, p, rtol=1e-12)
            decoded = probabilities(best.beliefs[-1][layer], 4)[node, :, row].argmax()
            assert decoded == states_of[layer, node]


@pytest.mark.deep
@pytest.mark.parametrize("net", TINY)
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_reweighted_log_partition_is_an_upper_bound(net, missing):
    tight = []
    for seed in range(2):
        model = make_model(net, seed=seed, scale=0.5, free=missing > 0, tiny=True)
        inputs = make_input(model, n=1, seed=seed, missing=missing)
        reference = naive(model, inputs, 0)
        beliefs = reference.infer("tree_reweighted", "sequential", 50)
        again = reference.infer("tree_reweighted", "sequential", 51)
        assert max(abs(softmax(beliefs[k]) - softmax(again[k])).max() for k in beliefs) < 1e-4
        bound, exact = reference.reweighted_log_partition(again), reference.exact()[0]
        assert bound >= exact - 1e-4
        tight.append(bound - exact)
    assert 0.001 < max(tight) < 3


@pytest.mark.parametrize("net", NETS)
def test_edge_appearances_make_a_distribution_over_trees(net):
    """Each left node picks one right neighbour: its appearances add up to 1."""
    structure = make_model(net).structure
    for layer in range(structure.depth):
        total, seen = np.zeros(structure.n_nodes[layer]), np.zeros(structure.n_nodes[layer], bool)
        for connection in structure.connections:
            if connection.source == layer:
                np.add.at(total, connection.left, connection.edge_appearance)
                seen[connection.left] = True
        np.testing.assert_allclose(total[seen], 1)


def test_edge_appearances_of_the_demonstration_net():
    layers = (Conv2d(7, 5, 2, padding=1), Conv2d(17, 5, 2), Dense(10, 11))
    structure = LayeredStructure(layers, (28, 28), 2, 1, 10)
    assert structure.n_nodes == [784, 169, 25, 10, 1]
    first, second, third, last = structure.connections
    assert first.n_tables == 25
    assert second.n_tables == 25
    # A corner is in one window, a node of the middle in up to nine.
    corner = second.edge_appearance[second.left == 0]
    np.testing.assert_allclose(corner, [1.0])
    middle = second.edge_appearance[second.left == 6 * 13 + 6]
    np.testing.assert_allclose(middle, np.full(9, 1 / 9))
    np.testing.assert_allclose(third.edge_appearance, 1 / 10)
    np.testing.assert_allclose(last.edge_appearance, 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_output_does_not_see_the_input_before_as_many_iterations_as_connections(method):
    model = make_model("dense")
    depth = model.structure.depth
    for schedule in SCHEDULES:
        for n_iter, sees in ((depth - 1, False), (depth, True)):
            # The private network runs too few iterations if asked to; the estimator refuses.
            network = make_network(model, method, schedule, n_iter)
            output = network.run(make_input(model), complete=True).beliefs[-1][-1]
            spread = np.ptp(output.reshape(2, -1), axis=1).max()
            # Sequential mean field passes all layers in one iteration.
            at_once = (method, schedule) == ("mean_field", "sequential")
            assert (spread > 1e-12) == (sees or at_once)


@pytest.mark.parametrize("net", ["conv", "skips"])
def test_both_schedules_of_mean_field_have_the_same_fixed_point(net):
    """The sequential schedule, which is coordinate ascent, comes near it in fewer iterations."""
    model = make_model(net, scale=0.5)
    inputs = make_input(model)
    far = [
        make_network(model, "mean_field", schedule, 300).run(inputs).beliefs[-1][-1]
        for schedule in (*SCHEDULES, "auto")
    ]
    np.testing.assert_allclose(far[0], far[1], rtol=1e-8)
    np.testing.assert_array_equal(far[1], far[2])  # "auto" is "parallel"
    off = [
        np.abs(make_network(model, "mean_field", s, 5).run(inputs).beliefs[-1][-1] - far[0]).max()
        for s in SCHEDULES
    ]
    assert 0 < off[0] < off[1]


@pytest.mark.parametrize(
    "skips", [((0, 1),), ((1, 1),), ((2, 0),), ((0, 4),), ((0, 2), (0, 2)), "ab"]
)
def test_invalid_skips(skips):
    with pytest.raises(ValueError, match=r"from the input \(0\) to the output \(3\); got"):
        LayeredStructure([Dense(2), Dense(2)], (2,), 2, 1, 3, skips)


@float32_test
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", ["dense", "conv"])
def test_float32(net, method):
    double, single = make_model(net), make_model(net, dtype=np.float32)
    double = double._replace(params=LayeredParams(*(p.astype(np.float64) for p in single.params)))
    inputs = make_input(single)
    wide = LayeredInput(inputs.means.astype(np.float64))
    outputs = []
    for model, given in ((single, inputs), (double, wide)):
        network = make_network(model, method, "sequential", 5)
        trace = network.run(given, keep=True)
        outputs.append(
            (trace.beliefs[-1][-1], network.gradient(trace, np.ones_like(trace.beliefs[-1][-1])))
        )
    assert outputs[0][0].dtype == np.float32
    np.testing.assert_allclose(outputs[0][0], outputs[1][0], rtol=1e-4, atol=1e-4)
    for mine, reference in zip(outputs[0][1], outputs[1][1]):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, reference, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", METHODS)
def test_strong_scores_stay_finite(method, dtype):
    model = make_model("dense", scale=50.0, dtype=dtype)
    network = make_network(model, method, "sequential", 6)
    trace = network.run(make_input(model), keep=True)
    assert np.isfinite(trace.beliefs[-1][-1]).all()
    gradient = network.gradient(trace, np.ones_like(trace.beliefs[-1][-1]))
    assert all(np.isfinite(g).all() for g in gradient)


@pytest.mark.parametrize(
    ("dtype", "low", "rtol"), [(np.float32, -80, 2e-7), (np.float64, -600, 5e-16)]
)
def test_exponential_and_logarithm(dtype, low, rtol):
    x = np.concatenate([np.linspace(low, 60, 400), [0.0, -1e-9, -1e-3]]).astype(dtype)
    y = x.copy()
    kernels.exp_in_place(y, len(y))
    expected = np.exp(x.astype(np.longdouble))
    np.testing.assert_allclose(y.astype(np.longdouble), expected, rtol=rtol)
    floor = {np.float32: 1e-30, np.float64: 1e-280}[dtype]
    y = np.maximum(expected.astype(dtype), dtype(floor))
    z = y.copy()
    kernels.log_in_place(z, len(z))
    reference = np.log(y.astype(np.longdouble))
    np.testing.assert_allclose(z.astype(np.longdouble), reference, rtol=rtol, atol=2 * rtol)
    # Smaller numbers count as the floor; exponents that are too small give 0.
    tiny = np.array([0.0, floor / 10], dtype)
    kernels.log_in_place(tiny, 2)
    np.testing.assert_allclose(tiny, np.log(floor), rtol=1e-6)
    huge = np.array([-1e30, -1e4], dtype)
    kernels.exp_in_place(huge, 2)
    assert (huge < 1e-37).all()


def test_hard_clamping_and_requantisation():
    model = make_model("dense", thresholds=np.array([0.25, 0.5, 0.75]))
    X = np.array([[0.0, 0.25, 0.6, 3.0]])
    means, missing = model.code.encode(X)
    assert missing is None
    expected = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    np.testing.assert_array_equal(means.reshape(4, 3), expected)
    inputs = LayeredInput(means)
    trace = make_network(model, "sum_product", "sequential", 4).run(inputs, complete=True)
    assert_beliefs(trace, 0, naive(model, inputs, 0).infer("sum_product", "sequential", 4))


def test_multi_state_inputs_that_are_not_observed():
    model = make_model("dense", thresholds=np.array([0.3, 0.6]), free=True)
    inputs = make_input(model, missing=0.5)
    for method in METHODS:
        trace = make_network(model, method, "parallel", 4).run(inputs, complete=True)
        for row in range(3):
            assert_beliefs(trace, row, naive(model, inputs, row).infer(method, "parallel", 4))


def trace_bytes(structure, n_iter, itemsize=8):
    """Bytes that the messages and beliefs of one example take over all iterations."""
    hidden = structure.connections[1:]
    message = sum(
        (c.n_tables if c.dense else len(c.left)) * (c.n_left_states + c.n_right_states - 2)
        for c in hidden
    )
    belief = sum(n * (s - 1) for n, s in zip(structure.n_nodes[1:], structure.n_states[1:]))
    return itemsize * (n_iter * message + (n_iter + 1) * belief)


@pytest.mark.parametrize("net", ["dense", "conv"])
def test_trace_takes_as_many_bytes_as_said(net):
    model = make_model(net)
    n, n_iter = 7, 5
    inputs = make_input(model, n=n)
    inputs.alike = False  # rows that share their first iteration would keep less
    network = make_network(model, "sum_product", "sequential", n_iter)
    trace = network.run(inputs, complete=True, keep=True)
    kept = [*trace.beliefs[1:], *trace.forward[1:], *trace.backward[1:]]
    used = sum(a.nbytes for arrays in kept for a in arrays if a is not None)
    assert used == n * trace_bytes(model.structure, n_iter)
    assert trace_bytes(model.structure, 2 * n_iter) < 2 * trace_bytes(model.structure, n_iter)
