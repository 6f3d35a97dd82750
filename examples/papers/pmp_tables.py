"""The experiments of Lazaro-Gredilla et al. (2021): samples by maximising a perturbed energy.

1. "four": four variables, all coupled; the couplings that PMP learns, and the bias of its samples.
2. "log Z": random Ising models and cyclic lattices; means of perturbed maxima minus log Z.
   "digits" is ours: an Ising model and an RBM of the 8 x 8 digits, in seconds.
6. "deconvolution": shapes and places that make up images, as ORs of ANDs.
   "likelihood" is about appendix B.4: likelihoods and samples of small RBMs.
   "twos" is the table of appendix B.3: an RBM of 250 hidden units on 5000 twos.
3. "zeros": an Ising model of the contours of the MNIST zeros.
4. "recovery": couplings of a lattice and of Erdos-Renyi graphs from samples.
5. "mnist": an RBM of 500 hidden units on all digits.

The cells run in this order. Sizes of 3, 4 and 5 are reduced; `--full` has the sizes of the paper.
Methods: "pmp" is perturb-and-max-product; "gibbs reset" has chains from coin flips in every step,
"gibbs pcd" has persistent chains; "gwg reset" is Gibbs with gradients; "mplp" and "lp" are perturb-
and-MAP with MPLP or the linear program as the method that maximises. Samples of a model come from
the sampler of its training, each from its own chain that begins at coin flips. Parameters are the
parameters of the last step ("plain", as in the paper) or an average over the steps in which late
steps count more ("average", the default of the estimators). Seconds are processor time in a single
thread.

Finished cells are kept in a CSV file: the program can be stopped and restarted. The MNIST
digits are read, or fetched, by `skcrbm.datasets.load_mnist`.

    python -m examples.papers.pmp_tables --quick            # minutes, figures mean little
    python -m examples.papers.pmp_tables                    # some hours
    python -m examples.papers.pmp_tables --only twos seed=0
"""

from functools import partial

import matplotlib.pyplot as plt
from threadpoolctl import threadpool_limits

from examples._harness import OUTPUT, make_parser, run_tables
from examples.papers import _pmp_learning as learning
from examples.papers import _pmp_recovery as recovery
from examples.papers._pmp_deconvolution import deconvolve, draw_features
from examples.papers._pmp_deconvolution_chains import deconvolve_by_gradients
from examples.papers._pmp_exact import SIDES, four_variables, lattice_log_z, random_log_z
from examples.papers._pmp_likelihood import likelihood
from examples.papers._pmp_report import report

RULES = {"plain": False, "average": True}
# Steps of the rows that compare slow methods; the other rows have 500 or 1000 steps.
SHORT_STEPS = 100


def make_cells(size):
    """Yield the cells in the order of the list above."""
    quick, full = size == "quick", size == "full"
    seeds = range(1) if quick else range(5)
    for seed in seeds:
        yield f"four seed={seed}", partial(four_variables, seed)
    for side in SIDES[:1] if quick else SIDES:
        yield (
            f"log Z lattice side={side}",
            partial(lattice_log_z, side, 400 if quick else 4000, 10 if quick else 100),
        )
        n = 10 if quick else 100
        yield f"log Z random n={side}", partial(random_log_z, side, n, 10)
    yield from digit_cells(range(1) if quick else range(3))
    for n_images, n_sweeps in ((5, 50),) if quick else ((30, 50), (30, 500), (100, 1000)):
        for damping in (0.5, 0.8):
            for seed in seeds:
                key = f"deconvolution images={n_images} sweeps={n_sweeps} damping={damping}"
                yield f"{key} seed={seed}", partial(deconvolve, n_images, n_sweeps, damping, seed)
    if not quick:
        yield from gradient_cells()
        yield from likelihood_cells()
        yield from learning_cells(full)
        yield from short_cells()


def gradient_cells():
    """Yield the cells of Gibbs with gradients in experiment 6; 460 is the cost of the graph."""
    for cost, n_held in ((460, 1), (5, 5)):
        for held in ("", "shapes", "places"):
            n_sweeps = n_held if held else 5
            for seed in range(3):
                name = f"deconvolution gwg {held} known" if held else "deconvolution gwg"
                key = f"{name} images=30 sweeps={n_sweeps} cost={cost} seed={seed}"
                yield key, partial(deconvolve_by_gradients, 30, n_sweeps, held, cost, seed)


def likelihood_cells():
    """Yield the cells that compare likelihoods with samples (appendix B.4)."""
    for learner in ("pmp", "gibbs reset", "gibbs pcd"):
        for seed in range(3):
            yield f"likelihood {learner} seed={seed}", partial(likelihood, learner, seed)


def digit_cells(seeds):
    """Yield the cells on small digits."""
    yield from reference_cells("digits", learning.small_digits, 1797)
    for seed in seeds:
        for rule, average in RULES.items():
            for kind, work in (("ising", learning.digits_ising), ("rbm", learning.digits_rbm)):
                for learner in ("pmp", "gibbs reset", "gibbs pcd"):
                    key = f"digits {kind} {learner} {rule} seed={seed}"
                    yield key, partial(work, learner, seed, average)
        for kind, work in (("ising", learning.digits_ising), ("rbm", learning.digits_rbm)):
            for learner in ("mplp", "lp"):
                yield (
                    f"digits {kind} {learner} plain seed={seed}",
                    partial(work, learner, seed, False),
                )
    for n_sweeps in (5, 10, 25, 100):
        for damping in (0.0, 0.5, 0.8):
            key = f"digits sweeps={n_sweeps} damping={damping}"
            yield key, partial(learning.digits_sweeps, n_sweeps, damping)
    for n_sweeps in (10, 25):
        key = f"digits best of sweeps={n_sweeps}"
        yield key, partial(learning.digits_best, n_sweeps, 0.5)


def learning_cells(full):
    """Yield the cells on MNIST and on samples of Ising models."""
    yield from reference_cells("twos", lambda: learning.mnist_digits(2)[:5000], 1000)
    for seed in range(3):
        for rule, average in RULES.items():
            if seed and average:
                continue
            for learner, n in (
                ("pmp", 100), ("gibbs reset", 100), ("gibbs pcd", 1), ("gibbs pcd", 100)
            ):  # fmt: skip
                key = f"twos {learner}-{n} {rule} seed={seed}"
                yield key, partial(learning.twos, learner, n, seed, average)
    for n in (25, 100) if full else (25,):
        yield f"twos mplp-{n} plain seed=0", partial(learning.twos, "mplp", n, 0, False)
    side, n = (30, 50) if full else (16, 25)
    yield from reference_cells(f"zeros {side}", lambda: learning.contours(side), 5923)
    for rate in (0.00025, 0.001):
        for seed in range(40, 45 if full else 42):
            for learner in ("pmp", "gibbs reset", "gibbs pcd", "gwg reset"):
                key = f"zeros {side} {learner}-{n} rate={rate} plain seed={seed}"
                yield key, partial(learning.zeros, learner, n, seed, side, rate, False)
    for rate in (0.00025, 0.001):
        key = f"zeros {side} mplp-{n} rate={rate} plain seed=40"
        yield key, partial(learning.zeros, "mplp", n, 40, side, rate, False)
    for kind, side, n_data_sweeps in (("lattice", 25, 1000), ("erdos-renyi", 200, 5000)):
        data = partial(recovery.ising_data, kind, side, n_data_sweeps)
        yield from reference_cells(f"recovery {kind} {side}", data, 2000)
        for n in (5, 10, 25, 50, 100) if full else (5, 25):
            for learner in ("pmp", "gibbs reset", "gwg reset"):
                if learner == "gwg reset" and n * side > 1000 and not full:
                    continue
                key = f"recovery {kind} {side} {learner}-{n} plain seed=0"
                work = partial(recovery.recovery, kind, side, learner, n, 0, n_data_sweeps, False)
                yield key, work
        if kind == "erdos-renyi":
            yield from printed_cells(kind, side, n_data_sweeps)
            if not full:
                yield from more_sweeps_cells(kind, side, n_data_sweeps)
        for n in (5, 10, 25, 50, 100) if full else (5, 25):
            for learner in ("pmp", "gibbs pcd", "gwg pcd"):
                key = f"recovery {kind} {side} persistent {learner} updates={n} seed=0"
                work = partial(recovery.recovery_persistent, kind, side, learner, n, n_data_sweeps)
                yield key, partial(work, 100_000 if full else 10_000)
    if not full:
        for n in (5, 25):
            key = f"recovery erdos-renyi 200 persistent gibbs pcd updates={n} steps=100000 seed=0"
            options = ("erdos-renyi", 200, "gibbs pcd", n, 5000, 100_000)
            yield key, partial(recovery.recovery_persistent, *options)
    yield from reference_cells("mnist", lambda: learning.mnist_digits(None), 5000)
    for n_epochs, n in ((200, 100),) if full else ((1, 25), (5, 25)):
        for learner in ("pmp", "gibbs reset", "gibbs pcd"):
            key = f"mnist {learner}-{n} plain epochs={n_epochs} seed=0"
            yield key, partial(learning.mnist_rbm, learner, n, 0, n_epochs, False)


def printed_cells(kind, side, n_data_sweeps):
    """Yield the cells that take the steps that the paper prints, and two that differ from them."""
    variants = (
        ("printed", "zeros", False),
        ("from data", "data", False),
        ("centred", "data", True),
    )
    for n, seeds in ((5, range(3)), (25, range(1))):
        for seed in seeds:
            for learner in ("pmp", "gibbs reset", "gwg reset"):
                if seed:
                    key = f"recovery {kind} {side} {learner}-{n} plain seed={seed}"
                    options = (kind, side, learner, n, seed, n_data_sweeps)
                    yield key, partial(recovery.recovery, *options, False)
                for name, begin, centred in variants:
                    key = f"recovery {kind} {side} {learner}-{n} {name} seed={seed}"
                    options = (kind, side, learner, n, seed, n_data_sweeps, begin, centred)
                    yield key, partial(recovery.recovery_printed, *options)


def more_sweeps_cells(kind, side, n_data_sweeps):
    """Yield cells with the other numbers of sweeps of the paper, for the two fast learners."""
    for n in (10, 50, 100):
        for learner in ("pmp", "gibbs reset"):
            options = (kind, side, learner, n, 0, n_data_sweeps)
            key = f"recovery {kind} {side} {learner}-{n}"
            yield f"{key} plain seed=0", partial(recovery.recovery, *options, False)
            yield (
                f"{key} printed seed=0",
                partial(recovery.recovery_printed, *options, "zeros", False),
            )


def short_cells():
    """Yield cells of few steps, in which perturb-and-MAP by slow methods takes minutes."""
    n = SHORT_STEPS
    for learner in ("pmp", "mplp", "lp"):
        key = f"digits ising {learner} steps={n} plain seed=0"
        yield key, partial(learning.digits_ising, learner, 0, False, n)
    for learner in ("pmp", "mplp"):
        key = f"zeros 16 {learner}-25 steps={n} rate=0.001 plain seed=40"
        yield key, partial(learning.zeros, learner, 25, 40, 16, 0.001, False, n)
        key = f"twos {learner}-25 steps={n} plain seed=0"
        yield key, partial(learning.twos, learner, 25, 0, False, n)


def reference_cells(name, data, n_rows):
    """Yield the rows of samples that do not come from a model."""
    for reference in learning.REFERENCES:
        yield (
            f"{name} reference {reference}",
            partial(learning.reference_row, data, n_rows, reference),
        )


def limited(work):
    """Work in a single thread, so that seconds are comparable."""
    with threadpool_limits(1):
        return work()


#: Calls that compile the kernels.
FIRST = [
    *(
        partial(limited, partial(learning.try_learner, name))
        for name in ("pmp", "mplp", "lp", "gibbs reset", "gibbs pcd", "gwg reset")
    ),
    partial(limited, partial(deconvolve, 2, 2, 0.5, 0)),
    partial(limited, partial(deconvolve_by_gradients, 2, 1, "", 5, 0)),
]


def draw(done, name):
    """Draw the shapes that the deconvolution finds."""
    rows = [row for row in done.values() if row.get("damping") and row.get("features")]
    rows = [row for row in rows if row["seed"] == "0"]
    rows.sort(key=lambda row: (int(row["n_images"]), int(row["sweeps"]), float(row["damping"])))
    if not rows:
        return
    figure = plt.figure(figsize=(5, 1.3 * len(rows)), layout="constrained")
    parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, row in zip(parts, rows):
        part.suptitle(
            f"{row['n_images']} images, {row['sweeps']} sweeps, damping {row['damping']}: "
            f"{row['explained']}% of the pixels",
            fontsize=9,
        )
        draw_features(part, row["features"])
    path = OUTPUT / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def main():
    """Run the missing cells; print and draw the tables."""
    parser = make_parser(__doc__, "pmp_tables", "experiments 1, 2 and 6 and small digits alone")
    parser.add_argument("--full", action="store_true", help="sizes of the paper")
    arguments = parser.parse_args()
    size = "quick" if arguments.quick else "full" if arguments.full else "reduced"
    cells = ((key, partial(limited, work)) for key, work in make_cells(size))
    recovery.FOLDER = OUTPUT
    done = run_tables(arguments, cells, report, FIRST)
    if not arguments.list:
        draw(done, arguments.name + ("_quick" if arguments.quick else ""))


if __name__ == "__main__":
    main()
