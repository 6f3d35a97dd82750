"""Messages that go on where the last visit to a training image ended, and how many a visit.

Conditional RBMs trained by belief propagation on digits with noise or a patch, at the reduced size
of `papers/crbm_tables.py`. In every visit messages run for so many iterations at most, from a cold
start or from where the row's last visit left them, as persistent chains do. Errors are those of
validation images, in % of pixels, by the average of the iterates; their inference always begins
afresh and takes up to 60 iterations, or, "by as many", after the last epoch those of a visit. The
last columns compare fixed points on training images, of the trained model: wrong pixels from a
cold start and from the messages of the last visit, and the share of images that these restore
differently. Seconds are of the processor. Finished cells are kept in a CSV file.

    python -m examples.studies.persistent_messages --quick
    python -m examples.studies.persistent_messages          # half an hour
"""

import time
import warnings
from functools import partial

import numpy as np
from skcrbm.learning._likelihood import Likelihood
from skcrbm.learning._phases import Expected, Moments
from sklearn.exceptions import ConvergenceWarning

from examples._harness import make_parser, run_tables
from examples.papers.crbm_tables import SIZES, errors, task_images
from skcrbm import CRBMClassifier
from skcrbm.inference import InferenceResult, SumProduct, infer

TASKS = ("noisy MNIST 10%", "occluded MNIST 12x12")
# Iterations of a visit at most; None: 7 in the first epoch and one more in each, as `SumProduct`
# has it unless told otherwise.
VISITS = (1, 2, 5, 10, None)
STARTS = ("cold", "messages", "beliefs")
RATE = 0.15  # the best one of both tasks in `crbm_tables.py`
TOL = 0.01
N_PREDICTION_ITER = 60
MARKS = (2, 5, 10, 20)  # epochs after which errors are reported
# Training images whose fixed points are compared, and how inference finds those.
N_COMPARED = 1000
TO_THE_END = SumProduct(max_iter=200, tol=1e-4)


class LastVisits:
    """Where inference on each row ended.

    Attributes
    ----------
    n_iter : ndarray of int (N,)
        0 before the first visit.
    values : dict of ndarray (N, ...)
        "messages" (N, V, H) as odds, and "sums" of log messages (N, V + H), by which beliefs
        differ from fields; or "beliefs" (N, V + H); nothing of a cold start.
    """

    def __init__(self, n_rows):
        self.n_iter = np.zeros(n_rows, int)
        self.values = {}

    def __deepcopy__(self, memo):
        """Return itself: half a gigabyte is not copied every epoch in case the next one fails."""
        return self

    def put(self, index, **parts):
        """Keep arrays of the given rows."""
        for name, part in parts.items():
            if name not in self.values:
                self.values[name] = np.zeros((len(self.n_iter), *part.shape[1:]), part.dtype)
            self.values[name][index] = part


class GoingOn(Expected):
    """Moments of the model by inference that goes on from the row's last visit.

    Parameters
    ----------
    inference : SumProduct
    start : {"cold", "messages", "beliefs"}
        What a visit goes on from. Messages are those visible -> hidden; beliefs follow from them
        and from the fields as they are now.
    """

    def __init__(self, inference, start):
        super().__init__(inference)
        self.begin = start

    def start(self, n_rows):
        """Return rows that have not been visited."""
        return LastVisits(n_rows)

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the model's `Moments`, and where inference ended."""
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
        """Return what `infer` goes on from; None where a row has not been visited."""
        if self.begin == "cold" or not state.n_iter[index].all():
            return None
        if self.begin == "beliefs":
            return InferenceResult(log_odds=state.values["beliefs"][index])
        log_odds = state.values["sums"][index] + np.hstack(energy.fields)
        messages = state.form._replace(values=state.values["messages"][index], log_odds=log_odds)
        return InferenceResult(log_odds=log_odds, state=messages)


class GoingOnLikelihood(Likelihood):
    """Maximum likelihood with `GoingOn` for the moments of the model."""

    def __init__(self, inference, visit, start):
        super().__init__(inference)
        self.negative = GoingOn(SumProduct(max_iter=visit, tol=inference.tol), start)


class GoingOnCRBM(CRBMClassifier):
    """Conditional RBM of that rule; rows must be the same in every `partial_fit`.

    Its `inference` is that of prediction. `visit` and `start` are set before the first call.
    """

    visit, start = None, "cold"

    def _make_objective(self, visible):
        return GoingOnLikelihood(self._method, self.visit, self.start)

    def phase_and_state(self):
        """Return the negative phase, to run to the end, and where its last visits ended."""
        return GoingOn(TO_THE_END, self.start), self._progress.state[1]


def make_model(size, rate, visit, start, seed):
    """Return a model that has not been trained."""
    model = GoingOnCRBM(
        n_hidden=size.n_hidden,
        inference=SumProduct(max_iter=N_PREDICTION_ITER, tol=TOL),
        average=True,
        solver="sgd",
        learning_rate_init=rate,
        batch_size=20,
        alpha=0.0,
        random_state=seed,
    )
    model.visit, model.start = visit, start
    return model


def compare_ends(model, X, Y):
    """Wrong pixels in % of training images: from a cold start, and from the last visit.

    And the share of images that the two restore differently.
    """
    rows = np.arange(min(N_COMPARED, len(X)))
    phase, state = model.phase_and_state()
    energy = model._fitted_model(X).energy(X[rows])
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
    """Wrong pixels in % if prediction takes as many iterations as a visit, from a cold start."""
    method = SumProduct(max_iter=model.visit, tol=TOL).at_epoch(model.n_iter_ - 1)
    found = infer(model._fitted_model(X).energy(X), method).marginals[:, : Y.shape[1]] >= 0.5
    return 100 * (found != Y).mean()


def run(images, size, visit, start, seed):
    """Train one model; its errors epoch by epoch."""
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
        "iterations": f"{model.phase_and_state()[1].n_iter.mean():.1f}",
        "converged": f"{model.convergence_curve_[-1]:.3f}",
        **compare_ends(model, X, Y),
        "errors": " ".join(f"{error:.3f}" for error in curve),
        "shares": " ".join(f"{share:.3f}" for share in model.convergence_curve_),
    }


def title(visit):
    """Return how many iterations a visit has, as text."""
    return "7 + epoch" if visit is None else str(visit)


def settings():
    """Yield what is run: iterations a visit, start, seed."""
    for visit in VISITS:
        for start in ("cold", "messages"):
            yield visit, start, 0
    yield None, "beliefs", 0
    for visit, start in ((None, "cold"), (10, "cold"), (5, "messages"), (None, "messages")):
        yield visit, start, 1


def cells(size):
    """Yield the key of every cell and what runs it."""
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
    """Return a figure of a finished row with two decimals; "" where there is none."""
    return figure and f"{float(figure):.2f}"


def markdown(done):
    """Markdown tables of the finished rows, one per task."""
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
    """Run what is not done yet; write the tables."""
    parser = make_parser(__doc__, "persistent_messages", "a few hundred images, two epochs")
    arguments = parser.parse_args()
    size = SIZES["quick" if arguments.quick else "reduced"]
    run_tables(arguments, cells(size), markdown)


if __name__ == "__main__":
    main()
