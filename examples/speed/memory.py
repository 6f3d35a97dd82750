"""Memory of the methods of inference: the peak beside the energy itself.

Measures NumPy's allocations in the second call of `infer`, in a single thread, for the table of
`doc/promises.md`. Prints a Markdown table.

    python -m examples.speed.memory
"""

import tracemalloc
import warnings

import numpy as np

from skcrbm.datasets import make_ising_lattice
from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference import infer


def peak(energy, method, **options):
    """Return the largest number of bytes held during a call."""
    infer(energy, method, n_jobs=1, **options)
    tracemalloc.start()
    infer(energy, method, n_jobs=1, **options)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def rbm(n_models, n_visible, n_hidden):
    """Draw RBMs that share their couplings."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.2, (n_visible, n_hidden))
    return RBMEnergy(
        weights, rng.normal(size=(n_models, n_visible)), rng.normal(size=(n_models, n_hidden))
    )


def ising(n_models, n_labels):
    """Draw Ising models that share their couplings."""
    rng = np.random.default_rng(0)
    coupling = np.triu(rng.normal(0, 0.2, (n_labels, n_labels)), 1)
    return IsingEnergy(coupling + coupling.T, rng.normal(size=(n_models, n_labels)))


SAMPLES = {"returns": "samples", "n_samples": 10, "random_state": 0}
RBM = rbm(2000, 100, 50), "RBM, 2000 models, 100 + 50 units"
EXACT = rbm(2000, 100, 12), "RBM, 2000 models, 100 + 12 units"
ISING = ising(2000, 14), "Ising, 2000 models, 14 labels"
LATTICE = make_ising_lattice((40, 40), 0.2), "lattice 40 x 40"
OPEN = make_ising_lattice((12, 12), 0.2, periodic=False), "lattice 12 x 12, open"
ROWS = [
    ("sum_product", RBM, {"max_iter": 5}),
    ("tree_reweighted", RBM, {"max_iter": 5}),
    ("max_product", RBM, {"max_iter": 5}),
    ("mixed_product", RBM, {"max_iter": 5}),
    ("icm", RBM, {"max_iter": 5}),
    ("mean_field", RBM, {"max_iter": 5}),
    ("gibbs", RBM, SAMPLES),
    ("exact", EXACT, {}),
    ("exact", ISING, {}),
    ("mplp", ISING, {"max_iter": 5}),
    ("perturb_and_max_product", ISING, {**SAMPLES, "max_iter": 5}),
    ("sum_product", LATTICE, {"max_iter": 5}),
    ("bp_chain", LATTICE, SAMPLES),
    ("exact", OPEN, {}),
]


def main():
    """Print the table."""
    warnings.simplefilter("ignore")
    print("| method | model | measured, MB |")
    print("|---|---|---|")
    for method, (energy, name), options in ROWS:
        print(f'| "{method}" | {name} | {peak(energy, method, **options) / 1e6:.1f} |', flush=True)


if __name__ == "__main__":
    main()
