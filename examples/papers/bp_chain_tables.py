"""The three experiments of Ding and Xue (2020): learning Markov random fields by chained BP.

Random tables ("mrf"), weighted 3-SAT ("sat") and structured sequences ("sequences"), each learned
with the true structure by full-batch gradient steps, 1000 of them as in the paper:

- "bp", "cd 100 updates", "bp_chain": the learners of the paper (BP-CD, Gibbs-CD, BPChain-CD),
  3000, 3000 and 100 states a step. Messages have 20 iterations ("bp"); the chain has 20 at every
  variable from initial messages ("cold 20", as in the paper), 20 from the messages of the variable
  before ("warm 20"), or 20 at the first variable and 5 at each further variable ("warm 5", the
  default). A step of the paper's Gibbs sampler updates a SINGLE variable; a hundred updates become
  the nearest number of sweeps, 100 / n.
- "cd 100 sweeps": the same with 100 sweeps, on the smallest size only.
- "gibbs 100 updates": the same as "cd 100 updates", but the chains begin at coin flips in each
  step, and not at the data as in the text of the paper.
- "weighted_bp_chain": the states of the chain ("warm 5"), weighted by importance weights; ours.
- "pcd": 3000 persistent chains, a sweep a step.
- "mle": the exact gradient, by elimination.

On the smallest random problems, learners also stop after 50 and after 200 steps.

Parameters are log-potentials, started at log|N(10, 10)|. Log-likelihoods are in nats, per row: of
the 1000 training rows and of 1000 fresh rows, or of all valid sequences. Seconds are processor
time of learning. Precision is the share of valid sequences among 5 M samples, recall the share of
the M valid sequences that are among them.

Each model has two readings. "exact" is the distribution that the parameters define. "own" is the
distribution of the states that the learner's own sampler draws: chained belief propagation,
independent beliefs, or Gibbs chains from coin flips with as many sweeps as a step of learning has
("pcd": 100 sweeps, the default of `sample`); "mle" and "weighted_bp_chain" sample exactly. "long"
are Gibbs chains of 1000 sweeps from coin flips. The probabilities with which these samplers draw a
row are exact, too (`_bp_chain_scores.py`), except for Gibbs chains of many variables: the own
chains of random problems are then estimated, to .02 nats, and other chains have no likelihood.

Finished cells are kept in a CSV file: the program can be stopped and restarted.

    python -m examples.papers.bp_chain_tables --quick  # minutes: few sizes, a single instance
    python -m examples.papers.bp_chain_tables --jobs 2 # an evening on two cores
    python -m examples.papers.bp_chain_tables --only sequences
"""

import time
import warnings
from functools import partial
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from examples._harness import OUTPUT, make_parser, run_tables
from examples.papers._bp_chain_scores import (
    FLOOR,
    belief_log_probs,
    chain_log_probs,
    estimated_gibbs_log_probs,
    gibbs_log_probs,
    precision_and_recall,
)
from examples.papers._pmp_quality import learning_rule
from skcrbm.datasets import make_random_factor_graph, make_structured_sequences
from skcrbm.density import MarkovRandomField
from skcrbm.energies import FactorGraphEnergy, TableFactors
from skcrbm.inference import BPChain, Gibbs, SumProduct, infer, sample
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
N_INSTANCES, N_SEQUENCE_SEEDS = 10, 3
CHAINS = {
    "bp_chain cold 20": BPChain(max_iter=20, warm_iter=None),
    "bp_chain warm 20": BPChain(max_iter=20, warm_iter=20),
    "bp_chain warm 5": BPChain(max_iter=20, warm_iter=5),
}
LEARNERS = (
    "mle", "weighted_bp_chain", *CHAINS, "bp", "pcd", "cd 100 updates", "gibbs 100 updates",
)  # fmt: skip
# Columns of the tables and their headers, by experiment.
LOGS = {
    "truth": "truth",
    "train": "exact, train",
    "fresh": "exact, fresh",
    "own_train": "own, train",
    "own_fresh": "own, fresh",
    "long_fresh": "long, fresh",
}
SHARES = {
    f"{prefix}{name}": f"{reading}, {name}"
    for name in ("precision", "recall")
    for prefix, reading in (("", "exact"), ("own_", "own"), ("long_", "long"))
}
LAST = {"seconds": "seconds", "share": "share"}
COLUMNS = {
    "mrf": LOGS | LAST,
    "sat": LOGS | LAST,
    "sequences": {k: v for k, v in LOGS.items() if "train" not in k} | SHARES | LAST,
}
BELIEFS = SumProduct(max_iter=20)
LONG = 1000
# Schedules of the paper: (first step, rate).
RATES = {"mrf": [(0, 0.1)], "sat": [(0, 0.1)], "sequences": [(0, 1.0), (100, 0.1), (500, 0.01)]}
N_STEPS = 1000
#: Numbers of steps after which these learners also stop, on the smallest random problems.
FEWER_STEPS = (50, 200)
STOPPED_LEARNERS = ("mle", "bp_chain cold 20", "bp", "cd 100 updates", "gibbs 100 updates")
COLORS = {
    "mle": "0.5",
    "weighted_bp_chain": "C3",
    "bp_chain cold 20": "C0",
    "bp_chain warm 20": "C9",
    "bp_chain warm 5": "C5",
    "bp": "C1",
    "pcd": "C4",
    "cd 100 updates": "C2",
    "gibbs 100 updates": "C8",
}


def settings(learner, n):
    """Return the hyperparameters of a learner for n variables."""
    if learner == "mle":
        return {"learning": "mle", "inference": "exact"}
    if learner == "bp":
        return {"learning": BPLearning(n_samples=3000), "inference": BELIEFS}
    if learner in CHAINS:
        return {"learning": BPChainLearning(CHAINS[learner], n_samples=100)}
    chain, n_sweeps = CHAINS["bp_chain warm 5"], gibbs_sweeps("cd 100 updates", n)
    rules = {
        "weighted_bp_chain": BPChainLearning(chain, n_samples=100, weighted=True),
        "pcd": PersistentContrastiveDivergence(n_chains=3000),
        "cd 100 updates": ContrastiveDivergence(n_sweeps, n_chains=3000),
        "cd 100 sweeps": ContrastiveDivergence(100, n_chains=3000),
        "gibbs 100 updates": learning_rule("gibbs reset", n_sweeps, 3000),
    }
    return {"learning": rules[learner]}


def gibbs_sweeps(learner, n):
    """Return the number of sweeps of a learner's own Gibbs chains, or None for other samplers."""
    if learner.endswith("100 updates"):
        return max(1, round(100 / n))
    return {"cd 100 sweeps": 100, "pcd": 100}.get(learner)


def make_weighted_3sat(n_variables, random_state):
    """Draw a weighted formula with three times as many clauses as variables.

    Each clause has three variables. The seven states that make a clause true have weights between
    10 and 1000, and the state that makes the clause false has a weight between 0.1 and 1.
    """
    rng = check_random_state(random_state)
    n_clauses = 3 * n_variables
    scopes = np.sort([rng.permutation(n_variables)[:3] for _ in range(n_clauses)], axis=1)
    weights = rng.uniform(10, 1000, (n_clauses, 8))
    false = rng.randint(8, size=n_clauses)
    weights[np.arange(n_clauses), false] = rng.uniform(0.1, 1, n_clauses)
    return FactorGraphEnergy([TableFactors(scopes, np.log(weights))], n_variables=n_variables)


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


def learn(kind, n, instance, learner, n_steps=None):
    """Fit a model by `n_steps` (None: `N_STEPS`) and score it."""
    n_steps = N_STEPS if n_steps is None else n_steps
    graph, train, test, truth = problem(kind, n, instance)
    rng = np.random.RandomState(10_000 + 1000 * n + instance)
    entries = np.abs(rng.normal(10, 10, graph.n_entries))
    start = graph.with_log_potentials(np.log(np.maximum(entries, 1e-3)))
    model = MarkovRandomField(
        factors=start,
        early_stopping=LossPlateau(n_iter_no_change=n_steps),
        warm_start=True,
        binarize=None,
        n_jobs=1,
        random_state=instance,
        **settings(learner, n),
    )
    schedule = [*(part for part in RATES[kind] if part[0] < n_steps), (n_steps, None)]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for (first, rate), (end, _) in pairwise(schedule):
            # As in the paper, without an average of the iterates.
            solver = SGD(learning_rate=rate, batch_size=len(train), average=False)
            model.set_params(solver=solver, max_iter=end - first).fit(train)
    seconds = time.process_time() - started
    found = {
        "kind": kind,
        "n": n,
        "instance": instance,
        "learner": learner,
        "truth": f"{truth:.4f}",
        "seconds": f"{seconds:.1f}",
        "share": "",
    }
    if learner == "weighted_bp_chain":
        shares = np.array(model.effective_sample_size_curve_)
        found["share"] = f"{np.median(shares):.2f}"
    return found | scores(model.energy_, learner, kind, train, test, instance)


def scores(energy, learner, kind, train, test, seed):
    """Return the columns of all readings of a learned model."""
    log_z = infer(energy, "exact", returns="log_partition").log_partition
    found = {
        name: f"{float((energy.log_weight_of_sets(rows) - log_z).mean()):.4f}"
        for name, rows in (("train", train), ("fresh", test))
    }
    n, sequences, sweeps = (
        energy.n_variables,
        kind == "sequences",
        gibbs_sweeps(learner, train.shape[1]),
    )
    if sequences:
        drawn = sample(energy, "exact", n_samples=5 * len(test), random_state=seed)[0]
        found |= share_texts("", drawn, test)
    if sweeps:
        both = np.concatenate([train, test])
        for prefix, length in (("own_", sweeps), ("long_", LONG)):
            logs = gibbs_log_probs(energy, length, both)
            if logs is None and prefix == "own_" and not sequences:
                logs = estimated_gibbs_log_probs(energy, length, both, seed)
            if logs is not None:
                found |= log_texts(prefix, logs[: len(train)], False)
                found |= log_texts(prefix, logs[len(train) :], True)
            if sequences:
                method = Gibbs(burn_in=length - 1, n_chains=5 * len(test))
                drawn = sample(energy, method, n_samples=5 * len(test), random_state=seed)[0]
                found |= share_texts(prefix, drawn, test)
    elif learner == "bp" or learner in CHAINS:
        method = BELIEFS if learner == "bp" else CHAINS[learner]
        log_probs = belief_log_probs if learner == "bp" else chain_log_probs
        found |= log_texts("own_", log_probs(energy, method, train), False)
        found |= log_texts("own_", log_probs(energy, method, test), True)
        if sequences and learner == "bp":
            p = infer(energy, method, returns="marginals").marginals[0]
            rng = np.random.RandomState(seed)
            found |= share_texts("own_", rng.uniform(size=(5 * len(test), n)) < p, test)
        elif sequences:
            drawn = sample(energy, method, n_samples=5 * len(test), random_state=seed)[0]
            found |= share_texts("own_", drawn, test)
    else:
        found |= {f"own_{name}": text for name, text in found.items()}
    return found


def log_texts(prefix, logs, fresh):
    """Return columns of the mean log-probability, and the share of fresh rows below `FLOOR`."""
    name = "fresh" if fresh else "train"
    logs = np.asarray(logs, float)
    found = {f"{prefix}{name}": f"{np.maximum(logs, FLOOR).mean():.4f}"}
    return found | ({f"{prefix}excluded": f"{np.mean(logs < FLOOR):.3f}"} if fresh else {})


def share_texts(prefix, drawn, valid):
    """Return the columns of precision and recall."""
    precision, recall = precision_and_recall(drawn, valid)
    return {f"{prefix}precision": f"{precision:.3f}", f"{prefix}recall": f"{recall:.3f}"}


def make_cells(quick, n_instances):
    """Yield the cells: small sizes of all experiments first."""
    sizes = QUICK_SIZES if quick else SIZES
    for instance in range(1 if quick else n_instances):
        for kind, ns in sizes.items():
            if kind == "sequences" and instance >= N_SEQUENCE_SEEDS:
                continue  # a single problem of each size; only the rows and the start are random
            for n in ns:
                learners = LEARNERS
                if n == min(ns) and kind != "sequences" and instance < 2:
                    learners = (*LEARNERS, "cd 100 sweeps")
                for learner in learners:
                    key = f"{kind} n={n} instance={instance} {learner}"
                    yield key, partial(limited, kind, n, instance, learner)
                    if n == min(ns) and kind != "sequences" and learner in STOPPED_LEARNERS:
                        for steps in FEWER_STEPS:
                            work = partial(stopped, kind, n, instance, learner, steps)
                            yield f"{key} steps={steps}", work


def limited(*cell):
    """Learn in a single thread, so that seconds are comparable."""
    with threadpool_limits(1):
        return learn(*cell)


def stopped(kind, n, instance, learner, n_steps):
    """Learn by fewer steps, under a name of its own."""
    found = limited(kind, n, instance, learner, n_steps)
    return found | {"learner": stopped_name(learner, n_steps)}


def stopped_name(learner, n_steps):
    """Return the name of a learner that stops after `n_steps`."""
    return learner if n_steps == N_STEPS else f"{learner}, {n_steps} steps"


def compile_kernels(learner):
    """Compile the kernels of a learner by two steps of each problem."""
    for kind, sizes in QUICK_SIZES.items():
        limited(kind, sizes[0], 0, learner, 2)


def report(done):
    """Return Markdown tables of the finished cells."""
    lines = [
        "# Learning Markov random fields by chained belief propagation",
        "",
        "Means over the instances that all learners have, in brackets their standard",
        "deviations. Log-likelihoods in nats per row, of the training rows and of fresh rows",
        "(sequences: all valid sequences); exact: the distribution that the parameters define.",
        "own: the distribution of the states that the learner's own sampler draws, in which",
        "rows below -100 count as -100 and their share is given as excluded. long: Gibbs chains",
        "of 1000 sweeps. A cell is empty if its reading does not apply, or if a Gibbs chain of",
        "so many variables has no exact likelihood; own likelihoods of large random problems",
        "are estimated, to .02 nats. Share is the median share of effective samples of the",
        "weighted chain. Seconds are processor time of learning by 1000 steps, on two machines.",
        "The seconds of the chain on random problems with 25 variables or more are of runs that",
        "leave out settled factors, which takes .5 to .97 of the time with all factors; the other",
        "cells have no seconds there. Made by `examples/papers/bp_chain_tables.py`.",
        "",
        "A single instance can determine a mean. So a second table of the random problems has the",
        "medians of the differences from exact learning (fresh rows, in brackets the least and the",
        "greatest), and the number of instances in which the own samples of the chain, as printed",
        "in the paper (cold 20), are ahead of the own samples of contrastive divergence. A third",
        "table has the means of the training rows, in 10 variables, after fewer steps.",
        "",
    ]
    for kind in SIZES:
        rows = common_rows(done, kind)
        if rows:
            lines += [f"## {kind}", "", *table(rows, COLUMNS[kind]), ""]
        if rows and kind != "sequences":
            lines += [*table_of_distances(rows), "", *table_of_steps(rows), ""]
    return "\n".join(lines)


def common_rows(done, kind):
    """Return the rows of an experiment whose instance has all learners of its size."""
    rows = [row for row in done.values() if row["kind"] == kind]
    learners, found = {}, {}
    for row in rows:
        if row["learner"] in LEARNERS:
            learners.setdefault(row["n"], set()).add(row["learner"])
            found.setdefault((row["n"], row["instance"]), set()).add(row["learner"])
    return [r for r in rows if found.get((r["n"], r["instance"]), set()) == learners.get(r["n"])]


def table_of_distances(rows):
    """Return the lines of a table: fresh log-likelihoods minus those of exact learning."""
    learners = [learner for learner in LEARNERS if learner != "mle"]
    header = f"| n | reading | {' | '.join(learners)} | chain ahead of cd |"
    lines = [header, "|" + "---|" * (len(learners) + 3)]
    for n in sorted({int(row["n"]) for row in rows}):
        for reading, column in (("exact", "fresh"), ("own", "own_fresh")):
            texts = []
            for learner in learners:
                found = differences(rows, n, column, learner, "mle")
                texts.append(spread_text(found) if len(found) else "")
            found = differences(rows, n, column, "bp_chain cold 20", "cd 100 updates")
            ahead = f"{(found > 0).sum()} of {len(found)}"
            texts.append(ahead if reading == "own" and len(found) else "")
            lines.append(f"| {n} | {reading} | {' | '.join(texts)} |")
    return lines


def table_of_steps(rows):
    """Return the lines of a table: mean log-likelihoods after fewer steps, smallest problems."""
    numbers = (*FEWER_STEPS, N_STEPS)
    header = [f"{reading}, {k} steps" for reading in ("exact", "own") for k in numbers]
    lines = [f"| n | learner | {' | '.join(header)} |", "|" + "---|" * (len(header) + 2)]
    n = min(int(row["n"]) for row in rows)
    for learner in STOPPED_LEARNERS:
        texts = []
        for column in ("train", "own_train"):
            for k in numbers:
                name = stopped_name(learner, k)
                found = [r for r in rows if int(r["n"]) == n and r["learner"] == name]
                texts.append(f"{np.mean([float(r[column]) for r in found]):.3f}" if found else "")
        lines.append(f"| {n} | {learner} | {' | '.join(texts)} |")
    return lines


def differences(rows, n, column, learner, other):
    """Return the differences of two learners in a column, for each instance that has both."""
    values = {
        (row["instance"], row["learner"]): float(row[column])
        for row in rows
        if int(row["n"]) == n and row.get(column)
    }
    instances = sorted({instance for instance, _ in values})
    both = [i for i in instances if (i, learner) in values and (i, other) in values]
    return np.array([values[i, learner] - values[i, other] for i in both])


def spread_text(values):
    """Return the median, and in brackets the least and the greatest of several values."""
    text = f"{np.median(values):.3f}"
    return f"{text} ({values.min():.3f} to {values.max():.3f})" if len(values) > 1 else text


def table(rows, columns):
    """Return the lines of the table of an experiment; `columns` maps columns to their headers."""
    lines = ["| n | learner | instances | " + " | ".join(columns.values()) + " |"]
    lines += ["|" + "---|" * (len(columns) + 3)]
    for n in sorted({int(row["n"]) for row in rows}):
        for learner in (*LEARNERS, "cd 100 sweeps"):
            cell = [r for r in rows if int(r["n"]) == n and r["learner"] == learner]
            if cell:
                texts = [mean_text(cell, column) for column in columns]
                lines += [f"| {n} | {learner} | {len(cell)} | " + " | ".join(texts) + " |"]
    return lines


def mean_text(cell, column):
    """Return the mean over instances, and the standard deviation of several instances."""
    values = np.array([float(row[column]) for row in cell if row.get(column)])
    if len(values) == 0:
        return ""
    digits = {"seconds": 1, "share": 2}.get(column, 3)
    text = f"{values.mean():.{digits}f}"
    text = f"{text} ({values.std(ddof=1):.{digits}f})" if len(values) > 1 else text
    excluded = column.removesuffix("fresh") + "excluded"
    if column.endswith("fresh"):
        shares = [float(row[excluded]) for row in cell if row.get(excluded)]
        text += f", {np.mean(shares):.3f} excluded" if any(shares) else ""
    return text


def draw(done, name):
    """Draw Figures 3 and 4 of the paper: own samplers above, exact distributions below.

    Lines join the means over the instances, and each dot is an instance. Panels without a finished
    cell are left out.
    """
    kinds = [kind for kind in ("mrf", "sat") if any(r["kind"] == kind for r in done.values())]
    panels = [(kind, "train", "log-likelihood minus the truth's") for kind in kinds]
    if any(row["kind"] == "sequences" for row in done.values()):
        panels += [("sequences", "precision", "precision"), ("sequences", "recall", "recall")]
    if not panels:
        return
    figure, axes = plt.subplots(
        2, len(panels), figsize=(4 * len(panels), 6.4), layout="constrained", squeeze=False
    )
    for row_of_axes, prefix, reading in zip(axes, ("own_", ""), ("own sampler", "exact samples")):
        for axis, (kind, column, label) in zip(row_of_axes, panels):
            for k, (learner, color) in enumerate(COLORS.items()):
                rows = [r for r in common_rows(done, kind) if r["learner"] == learner]
                shift, style = 0.12 * (k - len(COLORS) / 2), {"color": color, "label": learner}
                draw_curve(axis, rows, prefix + column, shift, style)
            if column == "train":
                axis.set_yscale("symlog", linthresh=0.1)
            axis.set(xlabel="variables", ylabel=label, title=f"{kind}, {reading}")
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=9, frameon=False
    )
    path = OUTPUT / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def draw_curve(axis, rows, column, shift, style):
    """Draw a dot for each instance, and a line through the means of each size.

    Standard deviations would be misleading: the axis of losses is logarithmic, and a few instances
    with large losses determine the mean. Dots are moved by `shift` variables to the right, so that
    the dots of the learners lie side by side.
    """
    sizes, means = [], []
    for n in sorted({int(row["n"]) for row in rows}):
        cell = [row for row in rows if int(row["n"]) == n and row.get(column)]
        offset = [float(r["truth"]) if column.endswith("train") else 0.0 for r in cell]
        values = np.array([float(row[column]) for row in cell]) - offset
        if len(values):
            sizes.append(n + shift)
            means.append(values.mean())
            axis.plot(np.full(len(values), n + shift), values, ".", ms=4, color=style["color"])
    axis.plot(sizes, means, "-", lw=1, **style)


def main():
    """Run the missing cells, and print and draw the tables."""
    parser = make_parser(__doc__, "bp_chain_tables", "sizes to 13, a single instance")
    parser.add_argument(
        "--instances", type=int, default=N_INSTANCES, help="random instances of each size"
    )
    arguments = parser.parse_args()
    cells = make_cells(arguments.quick, arguments.instances)
    first = [partial(compile_kernels, learner) for learner in LEARNERS]
    done = run_tables(arguments, cells, report, first)
    if not arguments.list:
        draw(done, arguments.name + ("_quick" if arguments.quick else ""))


if __name__ == "__main__":
    main()
