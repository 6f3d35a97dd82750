"""Remarks of Ping and Ihler (2017, section 6) about inference in learning, as small studies.

1. "damping": CRBMs learned by sum-product messages with and without damping.
2. "matched": CRBMs learned with mean field or messages; predictions by both, and by few or many
   iterations.
3. "margin": MSSVMs whose loss-augmented states are found by different methods, among them dual
   decomposition.
4. "unconditional": RBMs of the 8 x 8 digits by contrastive divergence, persistent chains, and
   likelihood with moments by messages, by mean field or exactly; log-likelihoods by enumeration.

Studies 1 to 3 restore digits of 14 x 14 pixels with an occluded patch: 1000 training images, 32
hidden units, 10 epochs; the parameters of the last epoch are tested on 1000 images. All cells
together take a few minutes of one core. Finished cells are kept in a CSV file.

    python -m examples.studies.inference_in_learning --only damping
"""

import time
import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_digits

from examples._harness import make_parser, run_tables
from examples.papers.crbm_tables import SIZES, task_images
from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.density import RBM
from skcrbm.energies import RBMEnergy
from skcrbm.inference import DualDecomposition, MeanField, MixedProduct, SumProduct, infer
from skcrbm.learning import (
    SGD,
    Adam,
    ContrastiveDivergence,
    Likelihood,
    LossPlateau,
    PersistentContrastiveDivergence,
)

TASK = "occluded MNIST 12x12"
SIZE = SIZES["reduced"]._replace(n_hidden=32, n_train=1000, n_validation=10, n_test=1000)
QUICK = SIZE._replace(n_hidden=8, n_train=100, n_test=50)
DAMPINGS = (0.0, 0.2, 0.5, 0.8)
#: Methods of study 2, with 17 iterations in the last epoch of training.
MATCHED = {
    "mean field": MeanField(tol=0.001),
    "messages": SumProduct(tol=0.001),
    "3 iterations of messages": SumProduct(max_iter=3),
}
PREDICTED = {
    "mean field": MeanField(max_iter=17, tol=0.001),
    "messages": SumProduct(max_iter=17, tol=0.001),
    "3 iterations of messages": SumProduct(max_iter=3),
    "200 iterations of messages": SumProduct(max_iter=200),
}
MARGINS = {
    "mixed_product": MixedProduct(tol=0.001),
    "icm": "icm",
    "dual_decomposition, 10 steps": DualDecomposition(max_iter=10, node_limit=1),
}
RULES = {
    "CD-1": (ContrastiveDivergence(n_steps=1), "auto"),
    "CD-10": (ContrastiveDivergence(n_steps=10), "auto"),
    "PCD-1": (PersistentContrastiveDivergence(n_steps=1), "auto"),
    "MLE-BP": (Likelihood(), SumProduct(max_iter=20)),
    "MLE-MF": (Likelihood(), MeanField(max_iter=20)),
    "MLE, exact": (Likelihood(), "exact"),
}


def fitted(kind, size, inference, seed=0):
    """Fit a CRBM or MSSVM; return the model, the test images and the seconds."""
    (X, Y), _, test = task_images(TASK, size)
    model = kind(
        n_hidden=size.n_hidden,
        inference=inference,
        solver=SGD(learning_rate=0.15, batch_size=20),
        alpha=0.0,
        random_state=seed,
    )
    started = time.process_time()
    for _ in range(2 if size is QUICK else 10):
        model.partial_fit(X, Y)
    return model, test, time.process_time() - started


def energies(model, X):
    """Return the RBMs of the outputs given the rows of X."""
    visible = X @ model.visible_coef_.T + model.visible_intercept_
    hidden = X @ model.hidden_coef_.T + model.hidden_intercept_
    return RBMEnergy(model.weights_, visible, hidden)


def wrong(model, test, method):
    """Return wrong pixels in % of all pixels, restored by the marginals of a method."""
    found = infer(energies(model, test[0]), method).marginals[:, : test[1].shape[1]] > 0.5
    return 100 * (found != test[1]).mean()


def damping(amount, seed, size):
    """Run study 1: learn and predict with messages of a damping."""
    method = SumProduct(tol=0.001, damping=amount)
    model, test, seconds = fitted(CRBMClassifier, size, method, seed)
    error = wrong(model, test, method.with_options(max_iter=17))
    share = 100 * model.convergence_curve_[-1]
    return {"wrong": f"{error:.3f}", "converged": f"{share:.0f}", "seconds": f"{seconds:.0f}"}


def matched(name, seed, size):
    """Run study 2: learn with a method, and predict with all."""
    model, test, seconds = fitted(CRBMClassifier, size, MATCHED[name], seed)
    errors = (f"{wrong(model, test, method):.3f}" for method in PREDICTED.values())
    return {"wrong": " ".join(errors), "seconds": f"{seconds:.0f}"}


def margin(name, seed, size):
    """Run study 3: learn an MSSVM with a method, and predict by it and by mixed product."""
    model, test, seconds = fitted(MSSVMCRBM, size, MARGINS[name], seed)
    own = 100 * (model.predict(test[0]) != test[1]).mean()
    states = infer(energies(model, test[0]), MixedProduct(max_iter=100), returns="marginal_map")
    other = 100 * (states.assignment[:, : test[1].shape[1]] != test[1]).mean()
    return {"wrong": f"{own:.3f} {other:.3f}", "seconds": f"{seconds:.0f}"}


def unconditional(name, rate, seed, size):
    """Run study 4: fit an RBM of 12 hidden units to half of the digits; score the other half."""
    rule, inference = RULES[name]
    X = (load_digits().data > 7.5).astype(float)
    X = X[np.random.RandomState(seed).permutation(len(X))]
    half, n_epochs = (100, 2) if size is QUICK else (len(X) // 2, 100)
    model = RBM(
        12,
        learning=rule,
        inference=inference,
        solver=Adam(learning_rate=rate, batch_size=50),
        alpha=0.0,
        max_iter=n_epochs,
        early_stopping=LossPlateau(n_iter_no_change=n_epochs),
        n_jobs=1,
        random_state=seed,
    )
    started = time.process_time()
    model.fit(X[:half])
    seconds = time.process_time() - started
    log_z = infer(model.energy_, "exact", returns="log_partition").log_partition[0]
    test = X[half : 2 * half]
    score = model.energy_.rows(np.zeros(len(test), int)).log_weight(test).mean() - log_z
    return {"score": f"{score:.2f}", "seconds": f"{seconds:.0f}"}


def cells(quick):
    """Yield the key of every cell and the function that runs it."""
    warnings.simplefilter("ignore")  # inference that does not converge
    size = QUICK if quick else SIZE
    seeds = range(1) if quick else range(3)
    for seed in seeds:
        for amount in DAMPINGS:
            yield f"damping {amount} seed={seed}", partial(damping, amount, seed, size)
        for name in MATCHED:
            yield f"matched {name} seed={seed}", partial(matched, name, seed, size)
        for name in MARGINS:
            yield f"margin {name} seed={seed}", partial(margin, name, seed, size)
        for name in RULES:
            for rate in (0.003, 0.01):
                key = f"unconditional {name} rate={rate} seed={seed}"
                yield key, partial(unconditional, name, rate, seed, size)


def _mean(texts):
    """Return the mean of numbers as texts, with the least and the largest if there are several."""
    values = [float(text) for text in texts]
    digits = max(len(text.partition(".")[2]) for text in texts)
    shown = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        shown += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    return shown


def _rows(done, study):
    """Yield the name of each setting of a study, and its columns: lists of texts over the seeds."""
    groups = {}
    for key, row in done.items():
        if key.startswith(study):
            name = key.removeprefix(study).split(" seed=")[0].strip()
            groups.setdefault(name, []).append(row)
    for name, rows in groups.items():
        split = zip(*((row["wrong"] or row["score"]).split() for row in rows))
        yield name, [*split, *([row[c] for row in rows] for c in ("converged", "seconds"))]


def report(done):
    """Return the tables of the four studies."""
    heads = {
        "damping": ("damping", "wrong pixels, %", "rows that converged, %", "seconds"),
        "matched": ("learned with", *PREDICTED, "seconds"),
        "margin": ("states found by", "its own", "by mixed_product", "seconds"),
        "unconditional": ("rule, rate", "log-likelihood, nats", "seconds"),
    }
    lines = []
    for study, head in heads.items():
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for name, columns in _rows(done, study):
            texts = [_mean(column) for column in columns if all(column)]
            lines.append(f"| {name} | {' | '.join(texts)} |")
        lines.append("")
    return "\n".join(lines)


def main():
    """Run the fits that are not finished; print and write the tables."""
    parser = make_parser(__doc__, "inference_in_learning", "few images and epochs, one seed")
    arguments = parser.parse_args()
    run_tables(arguments, cells(arguments.quick), report)


if __name__ == "__main__":
    main()
