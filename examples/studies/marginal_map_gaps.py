"""How often dual decomposition proves a marginal MAP state, and mixed-product finds it.

The models are dense random RBMs of 12 + 12 to 32 + 32 units with weights N(0, scale^2) and biases
N(0, 1), and conditional RBMs of 12 and 16 hidden units learned on Scene (6 outputs) and Yeast (14),
at some test rows. Enumeration finds the optimum of up to 16 visible units. Prints two Markdown
tables, both with the processor time per model. The first shows the share of models for which dual
decomposition proves its state, and the mean gap, without and with branch and bound. The second
shows the share of models for which the state of each method is the best, and the mean distance of
mixed-product, from a single start and from ten, to the bound of dual decomposition without and with
a search.

    python -m examples.studies.marginal_map_gaps
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from skcrbm import CRBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.energies import RBMEnergy
from skcrbm.inference import DualDecomposition, Exact, MixedProduct, infer

METHODS = {
    "dual": DualDecomposition(node_limit=1),
    "search": DualDecomposition(),
    "mixed": MixedProduct(),
    "mixed, 10": MixedProduct(n_restarts=10, random_state=0),
    "exact": Exact(),
}
BOUNDED = "dual", "search"
SCALES = (0.1, 0.25, 0.5, 1.0, 2.0)
# Largest gap of a proof, and largest distance of a state that counts as the optimum.
PROVEN, SAME = 1e-5, 1e-9
# Larger models are bounded, but not enumerated.
MAX_ENUMERATED = 16


def random_models(n_units, scale, n_models):
    """Draw dense RBMs, each with its own couplings."""
    rng = np.random.default_rng(0)
    square = n_units, n_units
    return [
        RBMEnergy(
            scale * rng.normal(size=square), rng.normal(size=n_units), rng.normal(size=n_units)
        )
        for _ in range(n_models)
    ]


def learned_models(load, n_hidden, alpha, n_models):
    """Fit a conditional RBM; return a batch with the models of the first test rows."""
    data = load()
    scaler = StandardScaler().fit(data.X_train)
    model = CRBMClassifier(
        n_hidden=n_hidden, alpha=alpha, alpha_hidden=0.0, solver="adam", max_iter=100,
        early_stopping=False, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.transform(data.X_train), data.y_train)
    X = scaler.transform(data.X_test[:n_models])
    visible_bias = X @ model.visible_coef_.T + model.visible_intercept_
    hidden_bias = X @ model.hidden_coef_.T + model.hidden_intercept_
    return [RBMEnergy(model.weights_, visible_bias, hidden_bias)]


def compare(energies):
    """Return the cells of a row of both tables.

    Parameters
    ----------
    energies : list of RBMEnergy
        Batches of models.
    """
    weight, bound, milliseconds = {}, {}, {}
    for name, method in METHODS.items():
        if name not in BOUNDED and energies[0].n_visible > MAX_ENUMERATED:
            continue
        returns = ("marginal_map", "map_bound") if name in BOUNDED else "marginal_map"
        infer(energies[0].rows([0]), method, returns=returns)  # compiled
        start = time.process_time()
        found = [infer(energy, method, returns=returns) for energy in energies]
        seconds = time.process_time() - start
        weight[name] = np.concatenate(
            [
                energy.log_weight(result.assignment[:, : energy.n_visible])
                for energy, result in zip(energies, found, strict=True)
            ]
        )
        milliseconds[name] = 1e3 * seconds / len(weight[name])
        if name in BOUNDED:
            bound[name] = np.concatenate([result.map_bound for result in found])
    first = [f"{np.std(np.concatenate([e.weights.ravel() for e in energies])):.2f}"]
    for name in BOUNDED:
        gap = np.maximum(bound[name] - weight[name], 0)
        first += [f"{(gap <= PROVEN).mean():.2f}", f"{gap.mean():.3f}", f"{milliseconds[name]:.2f}"]
    if "exact" not in weight:
        return [*first, "not run"], None
    first += [f"{milliseconds['exact']:.2f}"]
    solved = {name: weight["exact"] - found <= SAME for name, found in weight.items()}
    second = [f"{share.mean():.2f}" for name, share in solved.items() if name != "exact"]
    for name in ("mixed", "mixed, 10"):
        second += [f"{(bound[b] - weight[name]).mean():.3f}" for b in BOUNDED]
        second += [f"{milliseconds[name]:.2f}"]
    return first, second


def models(n_models, n_rows):
    """Yield names and batches."""
    for n_units in (12, 16):
        for scale in SCALES:
            yield f"random, {n_units} + {n_units}", random_models(n_units, scale, n_models)
    for n_units, scales in ((24, (0.25, 0.5, 1.0)), (32, (0.1, 0.25, 0.5))):
        for scale in scales:
            yield f"random, {n_units} + {n_units}", random_models(n_units, scale, n_models // 3)
    for load, name in ((load_scene, "Scene, 6"), (load_yeast, "Yeast, 14")):
        for n_hidden in (12, 16):
            for alpha in (0.1, 0.001):
                label = f"{name} + {n_hidden}, alpha={alpha}"
                yield label, learned_models(load, n_hidden, alpha, n_rows)


def main():
    """Compare the methods and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=50, help="of each kind of random models")
    parser.add_argument("--rows", type=int, default=100, help="test rows of a learned model")
    arguments = parser.parse_args()
    print(
        "| models | std of W | proven | gap | ms | proven by search | gap | ms | "
        "ms of enumeration |\n" + "|---" * 9 + "|"
    )
    others = []
    for label, energies in models(arguments.models, arguments.rows):
        first, second = compare(energies)
        print(f"| {label} |", " | ".join(first), "|", flush=True)
        if second is not None:
            others.append(f"| {label} | {first[0]} | {' | '.join(second)} |")
    print(
        "\n| models | std of W | best: dual | best: search | best: mixed | best: mixed, 10 | "
        "mixed below dual bound | below search bound | ms | mixed, 10 below dual bound | below "
        "search bound | ms |\n" + "|---" * 12 + "|"
    )
    print("\n".join(others))


if __name__ == "__main__":
    main()
