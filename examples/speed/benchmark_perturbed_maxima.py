"""Perturb-and-max-product: the cost of a sweep, compared with the same messages in NumPy.

Draws samples of an RBM of 784 x 500 units, of Ising models on lattices of 30 x 30 and 100 x 100 and
of 900 variables that are all coupled, and of a factor graph of ANDs of two inputs and ORs that
composes images of small features at many places (by default 100 images: 1,458,000 ANDs). Measures
processor time in a single thread, the least over repeats, of complete calls of `sample`, in turns
with max-product on arrays in NumPy, which runs few samples and sweeps and is scaled up. The states
of both are compared first. Prints a Markdown table: nanoseconds an edge (pair, AND), sweep and
sample. `--quick` takes seconds and smaller models.

    python -m examples.speed.benchmark_perturbed_maxima
"""

import argparse
import time

import numpy as np

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    RBMEnergy,
    SparseIsingEnergy,
)
from skcrbm.inference import PerturbAndMaxProduct, sample
from skcrbm.inference.random_numbers import logistic_noise, random_key

ZERO = np.float32(0)


def random_rbm(n_visible, n_hidden):
    """Draw weights N(0, 0.1^2) and biases N(0, 1)."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.1, (n_visible, n_hidden)).astype(np.float32)
    biases = (rng.normal(size=n).astype(np.float32) for n in (n_visible, n_hidden))
    return RBMEnergy(weights, *biases)


def random_ising(n):
    """Draw couplings of all pairs."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.normal(0, 0.3 / np.sqrt(n), (n, n)), 1).astype(np.float32)
    return IsingEnergy(upper + upper.T, rng.normal(0, 0.1, n).astype(np.float32))


def lattice(side):
    """Draw couplings N(0, 0.3^2) on a square lattice."""
    rng = np.random.default_rng(0)
    site = np.arange(side * side).reshape(side, side)
    right = np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], axis=1)
    down = np.stack([site[:-1].ravel(), site[1:].ravel()], axis=1)
    edges = np.concatenate([right, down])
    weights = rng.normal(0, 0.3, len(edges)).astype(np.float32)
    return SparseIsingEnergy.from_edges(edges, weights, np.zeros(side * side, np.float32))


def composed_images(n_images, n_features=5, side=14, width=6):
    """Return pixels that are ORs of ANDs: feature f has pixel (a, b), and is at place (r, c).

    The variables are the places, the features, the ANDs' outputs, and the pixels, held by
    fields.
    """
    places = side - width + 1
    at = np.arange(n_images * n_features * places**2).reshape(n_images, n_features, places, places)
    of = at.size + np.arange(n_features * width**2).reshape(n_features, width, width)
    shape = *at.shape, width, width
    inputs = np.empty((*shape, 2), np.int64)
    inputs[..., 0] = at[..., None, None]
    inputs[..., 1] = of[None, :, None, None]
    ands = at.size + of.size + np.arange(np.prod(shape))
    steps = np.arange(places)[:, None] + np.arange(width)
    pixel = np.empty(shape, np.int64)
    pixel[...] = np.arange(n_images).reshape(-1, 1, 1, 1, 1, 1) * side**2
    pixel += steps[:, None, :, None] * side + steps[None, :, None, :]
    order = np.argsort(pixel.ravel(), kind="stable")
    n_pixels = n_images * side**2
    last = np.cumsum(np.bincount(pixel.ravel(), minlength=n_pixels))
    first = ands[-1] + 1
    ors = OrFactors(np.split(ands[order], last[:-1]), first + np.arange(n_pixels))
    field = np.zeros(first + n_pixels)
    field[: at.size] = np.log(0.01 / 0.99)
    field[at.size : at.size + of.size] = np.log(0.25 / 0.75)
    on = np.random.default_rng(0).random(n_pixels) < 0.24
    field[first:] = np.where(on, 230.0, -230.0)
    return FactorGraphEnergy([ors, AndFactors(inputs.reshape(-1, 2), ands)], field)


def send(coupling, cavity):
    """Return the message of an edge of -1/+1 variables."""
    return (np.abs(cavity + coupling) - np.abs(cavity - coupling)) / 2


def numpy_rbm(energy, noise, n_iter):
    """Keep matrices of relu(w + x) - relu(x), 0/1 units, sample by sample."""
    w, states = energy.weights, []
    n_visible = len(w)
    for z in noise.astype(np.float32):
        b, c = energy.visible_bias[0] + z[:n_visible], energy.hidden_bias[0] + z[n_visible:]
        down, up = np.zeros_like(w), np.zeros_like(w)
        for _ in range(n_iter):
            v = (b + up.sum(axis=1))[:, None] - up
            h = c + down.sum(axis=0) - down
            down = (down + np.maximum(w + v, ZERO) - np.maximum(v, ZERO)) / 2
            up = (up + np.maximum(w + h, ZERO) - np.maximum(h, ZERO)) / 2
        states.append(np.append(b + up.sum(axis=1), c + down.sum(axis=0)) >= 0)
    return np.array(states)


def numpy_ising(energy, noise, n_iter):
    """Keep a matrix of messages i -> k, transposed in each sweep."""
    s, states = energy.coupling, []
    for z in noise.astype(np.float32):
        field = energy.field[0] + z / 2
        message = np.zeros_like(s)
        for _ in range(n_iter):
            cavity = (field + message.sum(axis=0))[:, None] - message.T
            message = (message + send(s, cavity)) / 2
        states.append(field + message.sum(axis=0) >= 0)
    return np.array(states)


def numpy_lattice(energy, noise, n_iter):
    """Keep arrays over edges and samples; a sparse matrix adds up the messages."""
    there = energy.neighbours
    s = energy.edge_coupling[there.edge][:, None]
    source = there.variables[there.reverse]
    field = (energy.field[0] + noise.astype(np.float32) / 2).T
    message = np.zeros((len(s), len(noise)), np.float32)  # variables[e] <- source[e]
    order = np.argsort(there.variables, kind="stable")
    first = np.searchsorted(there.variables[order], np.arange(energy.n_variables))
    for _ in range(n_iter):
        belief = field + np.add.reduceat(message[order], first, axis=0)
        cavity = belief[source] - message[there.reverse]
        message = (message + send(s, cavity)) / 2
    return (field + np.add.reduceat(message[order], first, axis=0) >= 0).T


def numpy_images(energy, noise, n_iter):
    """Keep arrays over ANDs and inputs of ORs; maxima of each OR by `reduceat`."""
    ands, ors = energy.ands, energy.ors
    i, j = ands.inputs.reshape(-1, 2).T
    start, n = ors.start[:-1], energy.n_variables
    of = np.repeat(np.arange(len(start)), np.diff(ors.start))
    inputs, pixels = ors.inputs, ors.outputs
    states = []
    for z in noise:
        z[np.append(ors.outputs, ands.outputs)] = 0
        field = energy.field[0] + z
        to_i, to_j, to_and = (np.zeros(len(i)) for _ in range(3))
        to_input, to_pixel = np.zeros(len(inputs)), np.zeros(len(pixels))
        belief = field.copy()
        for _ in range(n_iter):
            a, b, c = belief[i] - to_i, belief[j] - to_j, belief[ands.outputs] - to_and
            x, y = belief[inputs] - to_input, belief[pixels] - to_pixel
            to_i = (to_i + np.maximum(b + c, 0) - np.maximum(b, 0)) / 2
            to_j = (to_j + np.maximum(a + c, 0) - np.maximum(a, 0)) / 2
            to_and = (to_and + np.minimum(np.minimum(a, b), a + b)) / 2
            total = np.add.reduceat(np.maximum(x, 0), start)
            high = np.maximum.reduceat(x, start)
            best = x == high[of]
            second = np.maximum.reduceat(np.where(best, -np.inf, x), start)
            second = np.where(np.add.reduceat(best, start, dtype=int) > 1, high, second)
            others = np.where(best, second[of], high[of])
            rest = (total + y)[of] - np.maximum(x, 0)
            to_input = (to_input + np.minimum(rest, np.maximum(-others, 0))) / 2
            to_pixel = (to_pixel + total + np.minimum(high, 0)) / 2
            belief = field.copy()
            for where, message in (
                (i, to_i), (j, to_j), (ands.outputs, to_and), (inputs, to_input),
                (pixels, to_pixel),
            ):  # fmt: skip
                belief += np.bincount(where, message, n)
        states.append(belief >= 0)
    return np.array(states)


def processor_seconds(run, repeats):
    """Return the least processor time over repeats."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def measure(energy, plain, size, n_samples, n_iter, few, repeats):
    """Return seconds of all samples and sweeps, and nanoseconds of our code and of NumPy.

    `few` is the number of samples and of sweeps that NumPy is run for.
    """
    n_few, n_iter_few = few
    noise = logistic_noise(random_key(0), np.arange(n_few), 0, energy.n_variables)

    def ours(n, t):
        return sample(energy, PerturbAndMaxProduct(t), n_samples=n, n_jobs=1, random_state=0)[0]

    differs = (ours(n_few, n_iter_few) != plain(energy, noise, n_iter_few)).mean()
    if differs > 1e-3:
        raise AssertionError(f"{differs:.2%} of the states differ from NumPy's")
    seconds = processor_seconds(lambda: ours(n_samples, n_iter), repeats)
    slow = processor_seconds(lambda: plain(energy, noise, n_iter_few), min(repeats, 2))
    ns = 1e9 * seconds / (size * n_samples * n_iter)
    return seconds, ns, 1e9 * slow / (size * n_few * n_iter_few)


def main(argv=None):
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small models, once each")
    options = parser.parse_args(argv)
    quick = options.quick
    repeats = 1 if quick else options.repeats

    print("| model | samples | sweeps | seconds | ns | NumPy, ns | ratio |")
    print("|---|---|---|---|---|---|---|")

    def show(name, energy, plain, size, n_samples, n_iter, few):
        seconds, ns, slow = measure(energy, plain, size, n_samples, n_iter, few, repeats)
        print(
            f"| {name} | {n_samples} | {n_iter} | {seconds:.2f} | {ns:.2f} | {slow:.1f} | "
            f"{slow / ns:.1f} |"
        )

    v, h = (98, 64) if quick else (784, 500)
    n_samples, n_iter = (10, 20) if quick else (100, 100)
    show(f"RBM {v} x {h}", random_rbm(v, h), numpy_rbm, v * h, n_samples, n_iter, (1, 20))
    for side in (10,) if quick else (30, 100):
        energy = lattice(side)
        n_edges = len(energy.edges)
        show(f"lattice {side} x {side}", energy, numpy_lattice, n_edges, 64, n_iter, (64, 5))
    n = 100 if quick else 900
    show(f"all pairs of {n}", random_ising(n), numpy_ising, n * (n - 1) // 2, 10, n_iter, (1, 20))
    n_images = 1 if quick else 100
    energy = composed_images(n_images)
    n_ands, n_iter = len(energy.ands.outputs), 5 if quick else 50
    show(f"{n_ands} ANDs of two", energy, numpy_images, n_ands, 1, n_iter, (1, 3))


if __name__ == "__main__":
    main()
