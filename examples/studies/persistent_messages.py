"""Messages that continue from the last visit to a training image, by iterations per visit.

Conditional RBMs are trained by belief propagation on digits with noise or a patch, at the reduced
size of `papers/crbm_tables.py`. In every visit messages run for a limited number of iterations,
from a cold start or from the end of the row's last visit, as persistent chains do. Errors refer to
validation images, in % of pixels, by the average of the iterates. Prediction always begins with new
messages and takes up to 60 iterations; in the column "by as many" it takes, after the last epoch,
as many iterations as a visit in training. The last columns compare fixed points of the trained
model on training images: wrong pixels from a cold start and from the messages of the last visit,
and the share of images that the two restore differently. Seconds are processor seconds. Finished
cells are kept in a CSV file.

    python -m examples.studies.persistent_messages --quick
    python -m examples.studies.persistent_messages          # half an hour
"""

import time
import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from examples._harness import make_parser, run_tables
from examples.papers.crbm_tables import SIZES, errors, task_images
from skcrbm import CRBMClassifier
from skcrbm.inference import InferenceResult, SumProduct, infer
from skcrbm.learning import SGD, Likelihood
from skcrbm.learning.objectives import Contrast
from skcrbm.learning.phases import Expected, Moments, Observed

TASKS = ("noisy MNIST 10%", "occluded MNIST 12x12")
# Largest number of iterations per visit. None stands for 7 in the first epoch and another iteration
# in each further epoch, the default of `SumProduct` in training.
VISITS = (1, 2, 5, 10, None)
STARTS = ("cold", "messages", "beliefs")
RATE = 0.15  # the best rate of both tasks in `crbm_tables.py`
TOL = 0.01
N_PREDICTION_ITER = 60
MARKS = (2, 5, 10, 20)  # epochs after which errors are reported
# Number of training images whose fixed points are compared, and the method that finds them.
N_COMPARED = 1000
UNTIL_CONVERGED = SumProduct(max_iter=200, tol=1e-4)


class LastVisits:
    """End of the last inference on each row."""

    def __init__(self, n_rows):
        # Iterations of the last visit (N,); 0 before the first visit.
        self.n_iter = np.zeros(n_rows, int)
        # "messages" (N, V, H) as odds, and "sums" of log messages (N, V + H), the difference of
        # beliefs and fields; or "beliefs" (N, V + H). Empty for a cold start.
        self.values = {}

    def __deepcopy__(self, memo):
        """Return itself: half a gigabyte is not copied every epoch in case the next fails."""
        return self

    def put(self, index, **parts):
        """Store arrays of the given rows."""
        for name, part in parts.items():
            if name not in self.values:
                self.values[name] = np.zeros((len(self.n_iter), *part.shape[1:]), part.dtype)
            self.values[name][index] = part


class ContinuedInference(Expected):
    """Moments of the model by inference that continues from the last visit of each row.

    Parameters
    ----------
    inference : SumProduct
    start : {"cold", "messages", "beliefs"}
        Start of a visit. Messages are the messages visible -> hidden; beliefs follow from them and
        from the present fields.
    """

    def __init__(self, inference, start):
        super().__init__(inference)
        self.begin = start

    def start(self, n_rows):
        """Return rows that have not been visited."""
        return LastVisits(n_rows)

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the model, and the end of inference."""
        found = infer(
            energy,
            self.inference.at_epoch(clock.epoch),
            returns=("marginals", "statistics", "log_partition"),
            sample_weight=batch.weight,
            init=self.earlier(energy, batch.index, state),
            return_state=self.begin == "messages",
        )
        if self.begin == "messages":
            odds = found.state.values_for(slice(None), False, energy.dtype)
            sums = found.state.log_odds - np.hstack(energy.fields)
            state.put(batch.index, messages=odds, sums=sums)
            state.form = found.state._replace(values=None, log_odds=None, in_logs=False)
        elif self.begin == "beliefs":
            state.put(batch.index, beliefs=found.log_odds)
        state.n_iter[batch.index] = found.n_iter
        moments = Moments(found.marginals, found.statistics, found.log_partition, found.converged)
        return moments, state

    def earlier(self, energy, index, state):
        """Return the start of `infer`, or None if a row has not been visited."""
        if self.begin == "cold" or not state.n_iter[index].all():
            return None
        if self.begin == "beliefs":
            return InferenceResult(log_odds=state.values["beliefs"][index])
        log_odds = state.values["sums"][index] + np.hstack(energy.fields)
        messages = state.form._replace(values=state.values["messages"][index], log_odds=log_odds)
        return InferenceResult(log_odds=log_odds, state=messages)


class ContinuedLikelihood(Likelihood):
    """Maximum likelihood with `ContinuedInference` for the moments of the model.

    Rows must be the same in every `partial_fit`. The `inference` of the estimator predicts.

    Parameters
    ----------
    visit : int or None
        Largest number of iterations per visit; None grows with the epochs.
    start : {"cold", "messages", "beliefs"}
        Start of a visit.
    """

    def __init__(self, visit=None, start="cold"):
        self.visit = visit
        self.start = start

    def conditional(self, inference, n_jobs=None):
        """Return the objective of a conditional model."""
        method = SumProduct(max_iter=self.visit, tol=inference.tol)
        return Contrast(
            Observed(inference, n_jobs),
            ContinuedInference(method, self.start),
            inference=inference,
            n_jobs=n_jobs,
            state_key=self.name,
        )


def phase_and_state(model):
    """Return the negative phase, to run until it converges, and the ends of its last visits."""
    return ContinuedInference(UNTIL_CONVERGED, model.learning.start), model._progress.state[1]


def make_model(size, rate, visit, start, seed):
    """Return a model that has not been trained."""
    return CRBMClassifier(
        n_hidden=size.n_hidden,
        learning=ContinuedLikelihood(visit, start),
        inference=SumProduct(max_iter=N_PREDICTION_ITER, tol=TOL),
        solver=SGD(learning_rate=rate, batch_size=20, average=True),
        alpha=0.0,
        random_state=seed,
    )


def compare_ends(model, X, Y):
    """Compare a cold start with the last visit on training images.

    Returns the wrong pixels of both in %, and the share of images that they restore differently.
    """
    rows = np.arange(min(N_COMPARED, len(X)))
    phase, state = phase_and_state(model)
    energy = model._fitted_model().energy(X[rows])
    clean = Y[rows] == 1
    ends = []
    for init in (None, phase.earlier(energy, rows, state)):
        found = infer(energy, phase.inference, init=init)
        ends.append(found.marginals[:, : energy.n_visible] >= 0.5)
    cold, warm = ends
    return {
        "train_cold": f"{100 * (cold != clean).mean():.3f}",
        "train_warm": f"{100 * (warm != clean).mean():.3f}",
        "differ": f"{(cold != warm).any(axis=1).mean():.3f}",
    }


def error_as_trained(model, X, Y):
    """Return the wrong pixels in % if prediction takes as many iterations as a visit."""
    method = SumProduct(max_iter=model.learning.visit, tol=TOL).at_epoch(model.n_iter_ - 1)
    found = infer(model._fitted_model().energy(X), method).marginals[:, : Y.shape[1]] >= 0.5
    return 100 * (found != Y).mean()


def run(images, size, visit, start, seed):
    """Train a model; return its errors epoch by epoch."""
    (X, Y), validation, _ = images
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trial = make_model(size, RATE, visit, start, seed)
        for _ in range(2):  # compiles, before seconds count
            trial.partial_fit(X[:40], Y[:40])
    model = make_model(size, RATE, visit, start, seed)
    curve, seconds = [], 0.0
    while len(curve) < size.max_iter:
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.partial_fit(X, Y)
            except FloatingPointError as error:  # it has diverged
                print(f"  {error}", flush=True)
                break
        seconds += time.process_time() - begin
        curve.append(errors(model, *validation)[0])
    if not curve:
        raise FloatingPointError("it diverges in its first epoch")
    best = int(np.argmin(curve))
    after = {f"after_{m}": f"{curve[m - 1]:.3f}" if m <= len(curve) else "" for m in MARKS}
    return {
        "best": f"{curve[best]:.3f}",
        "epoch": best + 1,
        **after,
        "as_trained": f"{error_as_trained(model, *validation):.3f}",
        "seconds_per_epoch": f"{seconds / len(curve):.2f}",
        "iterations": f"{phase_and_state(model)[1].n_iter.mean():.1f}",
        "converged": f"{model.convergence_curve_[-1]:.3f}",
        **compare_ends(model, X, Y),
        "errors": " ".join(f"{error:.3f}" for error in curve),
        "shares": " ".join(f"{share:.3f}" for share in model.convergence_curve_),
    }


def title(visit):
    """Return the number of iterations per visit as text."""
    return "7 + epoch" if visit is None else str(visit)


def settings():
    """Yield the settings to run: iterations per visit, start, seed."""
    for visit in VISITS:
        for start in ("cold", "messages"):
            yield visit, start, 0
    yield None, "beliefs", 0
    for visit, start in ((None, "cold"), (10, "cold"), (5, "messages"), (None, "messages")):
        yield visit, start, 1


def cells(size):
    """Yield the key of every cell and the function that runs it."""
    images = {}

    def work(task, visit, start, seed):
        if task not in images:
            images.clear()
            images[task] = task_images(task, size)
        key = {"task": task, "rate": RATE, "visit": title(visit), "start": start, "seed": seed}
        return {**key, **run(images[task], size, visit, start, seed)}

    for visit, start, seed in settings():
        for task in TASKS:
            key = f"{task}, rate {RATE}, {title(visit)} iterations, {start}, seed {seed}"
            yield key, partial(work, task, visit, start, seed)


def short(figure):
    """Return a figure of a finished row with two decimals, or "" if the row lacks it."""
    return figure and f"{float(figure):.2f}"


def markdown(done):
    """Return Markdown tables of the finished rows, a table per task."""
    columns = (
        "iterations a visit | start | seed | best (epoch) | "
        f"{' | '.join(f'after {mark}' for mark in MARKS)} | by as many | s per epoch | "
        "iterations, mean | converged | training: cold / last visit | differ"
    )
    order = {(title(v), s): k for k, (v, s) in enumerate((v, s) for v in VISITS for s in STARTS)}
    lines = []
    for task in dict.fromkeys(row["task"] for row in done.values()):
        mine = [row for row in done.values() if row["task"] == task]
        mine.sort(key=lambda row: (order[row["visit"], row["start"]], row["seed"]))
        lines += [f"**{task}, learning rate {RATE}**", "", f"| {columns} |"]
        lines.append("|---" * (columns.count("|") + 1) + "|")
        for row in mine:
            texts = [row["visit"], row["start"], row["seed"]]
            texts.append(f"{short(row['best'])} ({row['epoch']})")
            texts += [short(row[f"after_{mark}"]) for mark in MARKS]
            texts += [short(row["as_trained"]), row["seconds_per_epoch"], row["iterations"]]
            texts.append(f"{float(row['converged']):.0%}")
            trained, differ = short(row["train_cold"]), ""
            if row["start"] != "cold":
                trained += f" / {short(row['train_warm'])}"
                differ = f"{float(row['differ']):.0%}"
            lines.append(f"| {' | '.join([*texts, trained, differ])} |")
        lines.append("")
    return "\n".join(lines)


def main():
    """Run the cells that are not finished; write the tables."""
    parser = make_parser(__doc__, "persistent_messages", "a few hundred images, two epochs")
    arguments = parser.parse_args()
    size = SIZES["quick" if arguments.quick else "reduced"]
    run_tables(arguments, cells(size), markdown)


if __name__ == "__main__":
    main()
