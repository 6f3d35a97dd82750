"""The three experiments of Ding and Xue (2020): learning Markov random fields by chained BP.

Random tables ("mrf"), weighted 3-SAT ("sat") and structured sequences ("sequences"), each learned
with the true structure by full-batch gradient steps, 1000 of them as in the paper:

- "bp", "cd 100 updates", "bp_chain": the learners of the paper (BP-CD, Gibbs-CD, BPChain-CD),
  3000, 3000 and 100 states a step, messages of 20 iterations ("bp") or 20 at the first variable
  and 5 at each further variable ("bp_chain"). A step of the paper's Gibbs sampler updates a
  SINGLE variable; a hundred updates become the nearest number of sweeps, 100 / n.
- "cd 100 sweeps": the same with 100 sweeps, on the smallest size only.
- "weighted_bp_chain": the states of the chain, weighted by importance weights; ours.
- "pcd": 3000 persistent chains, a sweep a step.
- "mle": the exact gradient, by elimination.

Parameters are log-potentials, started at log|N(10, 10)|. Log-likelihoods are in nats, per row: of
the 1000 training rows and of 1000 fresh rows, or of all valid sequences. Seconds are processor
time of learning. Precision is the share of valid sequences among 5 M exact samples of the learned
model, recall the share of the M valid sequences that are among them.

Finished cells are kept in a CSV file: the program can be stopped and restarted.

    python -m examples.papers.bp_chain_tables --quick  # minutes: few sizes, a single instance
    python -m examples.papers.bp_chain_tables          # an evening on two cores
    python -m examples.papers.bp_chain_tables --only sequences
"""

import time
import warnings
from functools import partial
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from examples._harness import OUTPUT, make_parser, run_tables
from skcrbm.datasets import (
    make_random_factor_graph,
    make_structured_sequences,
    make_weighted_3sat,
)
from skcrbm.density import MarkovRandomField
from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import BPChain, infer, sample
from skcrbm.learning import (
    SGD,
    BPChainLearning,
    BPLearning,
    ContrastiveDivergence,
    LossPlateau,
    PersistentContrastiveDivergence,
)

SIZES = {"mrf": range(10, 32, 3), "sat": range(10, 32, 3), "sequences": range(5, 32, 2)}
QUICK_SIZES = {"mrf": (10, 13), "sat": (10, 13), "sequences": (5, 7, 9, 11)}
N_INSTANCES = 10
LEARNERS = ("mle", "weighted_bp_chain", "bp_chain", "bp", "pcd", "cd 100 updates")
# Schedules of the paper: (first step, rate).
RATES = {"mrf": [(0, 0.1)], "sat": [(0, 0.1)], "sequences": [(0, 1.0), (100, 0.1), (500, 0.01)]}
N_STEPS = 1000
COLORS = {
    "mle": "0.5",
    "weighted_bp_chain": "C3",
    "bp_chain": "C0",
    "bp": "C1",
    "pcd": "C4",
    "cd 100 updates": "C2",
}


def settings(learner, n):
    """Return the hyperparameters of a learner for n variables."""
    if learner == "mle":
        return {"learning": "mle", "inference": "exact"}
    chain = BPChain(max_iter=20, warm_iter=5)
    rules = {
        "bp": BPLearning(n_samples=3000),
        "bp_chain": BPChainLearning(chain, n_samples=100),
        "weighted_bp_chain": BPChainLearning(chain, n_samples=100, weighted=True),
        "pcd": PersistentContrastiveDivergence(n_chains=3000),
        "cd 100 updates": ContrastiveDivergence(max(1, round(100 / n)), n_chains=3000),
        "cd 100 sweeps": ContrastiveDivergence(100, n_chains=3000),
    }
    return {"learning": rules[learner]}


def problem(kind, n, instance):
    """Return the structure to learn, training rows, fresh rows and their true log-likelihood."""
    rng = np.random.RandomState(1000 * n + instance)
    if kind == "sequences":
        scopes, valid = make_structured_sequences(n)
        graph = FactorGraphEnergy.from_tables(scopes, np.zeros((len(scopes), 32)), n_variables=n)
        rows = valid[rng.randint(len(valid), size=3000)]
        return graph, rows, valid, -np.log(len(valid))
    make = make_random_factor_graph if kind == "mrf" else make_weighted_3sat
    truth = make(n, random_state=rng)
    rows = sample(truth, "exact", n_samples=2000, random_state=rng)[0]
    log_z = infer(truth, "exact", returns="log_partition").log_partition
    fresh = rows[1000:]
    return truth, rows[:1000], fresh, float((truth.log_weight_of_sets(fresh) - log_z).mean())


def learn(kind, n, instance, learner):
    """Fit a model and score it."""
    graph, train, test, truth = problem(kind, n, instance)
    rng = np.random.RandomState(10_000 + 1000 * n + instance)
    entries = np.abs(rng.normal(10, 10, graph.n_entries))
    start = graph.with_log_potentials(np.log(np.maximum(entries, 1e-3)))
    model = MarkovRandomField(
        factors=start,
        early_stopping=LossPlateau(n_iter_no_change=N_STEPS),
        warm_start=True,
        binarize=None,
        n_jobs=1,
        random_state=instance,
        **settings(learner, n),
    )
    schedule = [*RATES[kind], (N_STEPS, None)]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for (first, rate), (end, _) in pairwise(schedule):
            # As in the paper, without an average of the iterates.
            solver = SGD(learning_rate=rate, batch_size=len(train), average=False)
            model.set_params(solver=solver, max_iter=end - first).fit(train)
    seconds = time.process_time() - started
    energy = model.energy_
    log_z = infer(energy, "exact", returns="log_partition").log_partition

    def log_likelihood(rows):
        return float((energy.log_weight_of_sets(rows) - log_z).mean())

    found = {
        "kind": kind,
        "n": n,
        "instance": instance,
        "learner": learner,
        "truth": f"{truth:.4f}",
        "train": f"{log_likelihood(train):.4f}",
        "fresh": f"{log_likelihood(test):.4f}",
        "seconds": f"{seconds:.1f}",
        "share": "",
        "precision": "",
        "recall": "",
    }
    if learner == "weighted_bp_chain":
        shares = np.array(model.effective_sample_size_curve_)
        found["share"] = f"{np.median(shares):.2f}"
    if kind == "sequences":
        drawn = sample(energy, "exact", n_samples=5 * len(test), random_state=instance)[0]
        valid = {row.tobytes() for row in test}
        seen = [row.tobytes() for row in drawn.astype(test.dtype)]
        found["precision"] = f"{np.mean([row in valid for row in seen]):.3f}"
        found["recall"] = f"{len(valid.intersection(seen)) / len(valid):.3f}"
    return found


def make_cells(quick, n_instances):
    """Yield the cells: small sizes of all experiments first."""
    sizes = QUICK_SIZES if quick else SIZES
    for instance in range(1 if quick else n_instances):
        for kind, ns in sizes.items():
            if kind == "sequences" and instance:
                continue  # a single problem of each size; only the rows are random
            for n in ns:
                learners = LEARNERS
                if n == min(ns) and kind != "sequences" and instance < 2:
                    learners = (*LEARNERS, "cd 100 sweeps")
                for learner in learners:
                    key = f"{kind} n={n} instance={instance} {learner}"
                    yield key, partial(limited, kind, n, instance, learner)


def limited(*cell):
    """Learn in a single thread, so that seconds are comparable."""
    with threadpool_limits(1):
        return learn(*cell)


def report(done):
    """Return Markdown tables of the finished cells."""
    lines = [
        "# Learning Markov random fields by chained belief propagation",
        "",
        "Means over random instances, in brackets their standard deviations. Log-likelihoods in",
        "nats per row, of the training rows and of fresh rows (sequences: all valid sequences);",
        "seconds are processor time of learning by 1000 steps; share is the median share of",
        "effective samples of the weighted chain. Made by `examples/papers/bp_chain_tables.py`.",
        "",
    ]
    for kind in SIZES:
        rows = [row for row in done.values() if row["kind"] == kind]
        if not rows:
            continue
        columns = ["train", "fresh", "seconds"]
        if kind == "sequences":
            columns = ["fresh", "precision", "recall", "seconds"]
        lines += [f"## {kind}", ""]
        lines += ["| n | learner | instances | truth | " + " | ".join(columns) + " | share |"]
        lines += ["|" + "---|" * (len(columns) + 5)]
        for n in sorted({int(row["n"]) for row in rows}):
            for learner in (*LEARNERS, "cd 100 sweeps"):
                cell = [r for r in rows if int(r["n"]) == n and r["learner"] == learner]
                if cell:
                    texts = [mean_text(cell, c) for c in ("truth", *columns, "share")]
                    lines += [f"| {n} | {learner} | {len(cell)} | " + " | ".join(texts) + " |"]
        lines += [""]
    return "\n".join(lines)


def mean_text(cell, column):
    """Return the mean over instances, and the standard deviation of several instances."""
    values = np.array([float(row[column]) for row in cell if row[column]])
    if len(values) == 0:
        return ""
    digits = {"seconds": 1, "share": 2}.get(column, 3)
    text = f"{values.mean():.{digits}f}"
    return f"{text} ({values.std(ddof=1):.{digits}f})" if len(values) > 1 else text


def draw(done, name):
    """Draw Figures 3 and 4 of the paper, without panels that have no finished cell."""
    kinds = [kind for kind in ("mrf", "sat") if any(r["kind"] == kind for r in done.values())]
    panels = [(kind, "fresh", "log-likelihood minus the truth's") for kind in kinds]
    if any(row["kind"] == "sequences" for row in done.values()):
        panels += [("sequences", "precision", "precision"), ("sequences", "recall", "recall")]
    if not panels:
        return
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4 * len(panels), 3.6), layout="constrained", squeeze=False
    )
    for axis, (kind, column, label) in zip(axes[0], panels):
        for learner, color in COLORS.items():
            rows = [r for r in done.values() if r["kind"] == kind and r["learner"] == learner]
            sizes = sorted({int(row["n"]) for row in rows})
            means = []
            for n in sizes:
                cell = [row for row in rows if int(row["n"]) == n]
                offset = [float(r["truth"]) if column == "fresh" else 0.0 for r in cell]
                means.append(np.mean([float(r[column]) for r in cell] - np.array(offset)))
            if sizes:
                axis.plot(sizes, means, "o-", ms=4, color=color, label=learner)
        if column == "fresh":
            axis.set_yscale("symlog", linthresh=0.1)
        axis.set(xlabel="variables", ylabel=label, title=kind)
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )
    path = OUTPUT / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def main():
    """Run the missing cells, and print and draw the tables."""
    parser = make_parser(__doc__, "bp_chain_tables", "sizes to 13, a single instance")
    parser.add_argument(
        "--instances", type=int, default=N_INSTANCES, help="random instances of each size"
    )
    arguments = parser.parse_args()
    done = run_tables(arguments, make_cells(arguments.quick, arguments.instances), report)
    if not arguments.list:
        draw(done, arguments.name + ("_quick" if arguments.quick else ""))


if __name__ == "__main__":
    main()
