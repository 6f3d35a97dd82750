"""Figures 3 and 4 of Ping and Ihler (2017): patches of all sizes, and inference that converges.

Conditional RBMs, trained by belief propagation or by CD-10, restore digits with a patch set to 0.
The figures show wrong pixels in % against the side of the patch, up to the whole image, and the
share of training images whose messages converge, epoch by epoch. Images have the reduced size of
`crbm_tables.py`, 14 x 14 pixels and half the patch; the figure gives the sides at full size. Epochs
are chosen on validation images, as in the tables, with a single learning rate.

    python -m examples.papers.crbm_figures --quick
    python -m examples.papers.crbm_figures          # half an hour
"""

from functools import partial

import matplotlib

from examples._harness import OUTPUT, make_parser, results_path, run_tables
from examples.papers.crbm_tables import METHODS, SIZES, errors, task_images, train
from skcrbm.inference import SumProduct

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIDES = (4, 8, 12, 16, 20, 24, 28)
RATE = 0.15
# Beliefs that change by less than 1e-3 count as converged in the paper.
STRICT = "MLE-BP, tol=0.001"
METHODS[STRICT] = (METHODS["MLE-BP"][0], {"inference": SumProduct(tol=0.001)})


def run(side, method, size):
    """Train a model; return the errors of its best epoch, and converged images per epoch."""
    images = task_images(("mnist", "patch", side), size)
    file = OUTPUT / "crbm_figures" / f"{side}-{method}-{size.n_train}.joblib"
    state = train(method, RATE, 0, images, size, size.max_iter, 1, file)
    every, changed = errors(state["best"], *images[2])
    file.unlink()
    curve = state["model"].convergence_curve_
    return {
        "side": side,
        "method": method,
        "all": f"{every:.3f}",
        "changed": f"{changed:.3f}",
        "epoch": state["best"].n_iter_,
        "pixels": size.side,
        "n_train": size.n_train,
        "converged": " ".join(f"{share:.3f}" for share in curve),
    }


def cells(size):
    """Yield the key of every model and the function that trains it."""
    yield f"{STRICT} on 8", partial(run, 8, STRICT, size)
    for side in SIDES:
        for method in ("LR", "CD-10", "MLE-BP"):
            yield f"{method} on {side}", partial(run, side, method, size)


def report(path, done):
    """Draw both figures; return the errors as a Markdown table."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
    found = {(r["method"], int(r["side"])): r for r in done.values()}
    lines = [
        "| side of the patch | " + " | ".join(map(str, SIDES)) + " |",
        "|---" * (len(SIDES) + 1) + "|",
    ]
    for method in ("LR", "CD-10", "MLE-BP"):
        row = [found.get((method, side)) for side in SIDES]
        sides = [side for side, r in zip(SIDES, row) if r]
        left.plot(sides, [float(r["all"]) for r in row if r], marker="o", label=method)
        texts = [f"{float(r['all']):.2f} / {float(r['changed']):.2f}" if r else "" for r in row]
        lines.append(f"| {method} | {' | '.join(texts)} |")
    left.set(xlabel="side of the patch, of 28", ylabel="wrong pixels, %")
    left.legend()
    for method in (STRICT, "MLE-BP"):
        if (method, 8) in found:
            shares = [100 * float(s) for s in found[method, 8]["converged"].split()]
            label = "tol=0.001" if method == STRICT else "tol=0.01"
            right.plot(range(1, len(shares) + 1), shares, marker=".", label=label)
    right.set(xlabel="epoch", ylabel="converged in training, %", ylim=(0, 102))
    right.legend()
    right.xaxis.get_major_locator().set_params(integer=True)
    sizes = {(r["pixels"], r["n_train"]) for r in done.values()}
    size = "; ".join(f"{side} x {side} pixels, {n} images" for side, n in sorted(sizes))
    left.set_title(f"Patches of all sizes\nreduced size: {size}", fontsize=10)
    right.set_title(f"MLE-BP, patches of 8 of 28\nreduced size: {size}", fontsize=10)
    figure.savefig(path, dpi=100)
    return "\n".join(lines) + "\n"


def main():
    """Train the models that are not finished, and draw."""
    parser = make_parser(__doc__, "crbm_figures", "a few hundred images, two epochs")
    arguments = parser.parse_args()
    size = SIZES["quick" if arguments.quick else "reduced"]
    picture = results_path(arguments, ".csv").with_suffix(".png")
    run_tables(arguments, cells(size), partial(report, picture))
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
