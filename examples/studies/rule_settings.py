"""Learning rules of conditional RBMs with other settings, on small images.

`crbm_tables` leaves CD-PercLoss short of the published figures, and restores other numbers of
changed pixels by MLE-BP and MSSVM. This program varies the parts of CD-PercLoss that a paper may
leave open, one or two at a time: outputs drawn, set to their most probable values or to their
means; the best state of the search or the last state; steps for all rows or only for rows with a
violation; a margin; the start of the search and of W; rate, batch size, averaging and the number of
epochs. Of MLE-BP and MSSVM it varies the rate, the batch size, the average and the tolerance;
"printed" has the rates, the iterations and the tolerance of the paper, without an average.

It uses 3000 digits or silhouettes of 14 x 14 pixels and 64 hidden units, keeps the epoch with the
fewest wrong pixels on 1000 validation images, and tests on 2000 images. Finished cells are kept in
a CSV file, so the program can be stopped and restarted. A cell takes 5 to 60 seconds of one core,
with 200 epochs four minutes, so choose cells with ``--only``.

    python -m examples.studies.rule_settings --only 12x12
"""

import copy
import time
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit

import skcrbm.estimators._rbm as crbm
from examples._harness import make_parser, run_tables
from examples.papers.crbm_tables import SIZES, errors, task_images
from skcrbm import MSSVMCRBM, CRBMClassifier
from skcrbm.energies.states import unchecked
from skcrbm.inference import MeanField, MixedProduct, SumProduct
from skcrbm.inference.random_numbers import uniforms
from skcrbm.learning import SGD, CDPercLoss, ContrastiveDivergence
from skcrbm.learning.objectives import Contrast
from skcrbm.learning.phases import LocalSearch, Observed, moments_of_states, one_model_per_row

TASKS = ("noisy MNIST 10%", "occluded MNIST 8x8", "occluded MNIST 12x12", "noisy Caltech 20%")
SIZE = SIZES["reduced"]._replace(n_train=3000, n_validation=1000, n_test=2000, max_iter=15)
QUICK = SIZE._replace(n_hidden=8, n_train=200, n_validation=100, n_test=100, max_iter=2)
DECODERS = ("marginal", "marginal_map")


class Setting(NamedTuple):
    """A reading of CD-PercLoss and the settings of its training."""

    outputs: str = "mode"  # outputs of a sweep: "mode", "drawn" or "mean"
    keep: str = "best"  # state for the gradient: "best" of all sweeps or "last"
    start: str = "mode"  # first outputs, from their fields alone, as `outputs`
    every_row: bool = False  # True: a step for rows without a violation as well
    margin: bool = False  # True: states score a point for each wrong output, as in MSSVM
    n_steps: int = 10
    rate: float = 1.5
    batch_size: int = 20
    average: bool = True
    n_epochs: int | None = None  # None: as many as the other settings
    scale: float = 0.01  # standard deviation of the first W


# The start of W is the start for max-margin learning, 2 / sqrt(196).
MARGIN_SCALE = 0.14
SETTINGS = {
    "rate 1.5": Setting(),
    **{f"rate {rate}": Setting(rate=rate) for rate in (0.005, 0.01, 0.02, 0.05, 0.15, 0.5)},
    "last state, rate 1.5": Setting(keep="last"),
    "last state, rate 0.05": Setting(keep="last", rate=0.05),
    "outputs drawn, rate 1.5": Setting("drawn"),
    "outputs drawn, rate 0.05": Setting("drawn", rate=0.05),
    "outputs and start drawn, last state, rate 1.5": Setting("drawn", "last", "drawn"),
    "outputs and start drawn, last state, rate 0.05": Setting("drawn", "last", "drawn", rate=0.05),
    "outputs and start drawn, last state, every row, rate 0.05": Setting(
        "drawn", "last", "drawn", True, rate=0.05
    ),
    "means of outputs, last state, rate 1.5": Setting("mean", "last", "mean"),
    "means of outputs, last state, rate 0.05": Setting("mean", "last", "mean", rate=0.05),
    "means of outputs, last state, every row, rate 0.05": Setting(
        "mean", "last", "mean", True, rate=0.05
    ),
    "every row, rate 1.5": Setting(every_row=True),
    "every row, rate 0.05": Setting(every_row=True, rate=0.05),
    **{f"{n} sweeps, rate 1.5": Setting(n_steps=n) for n in (1, 50)},
    **{f"batch {n}, rate 1.5": Setting(batch_size=n) for n in (10, 40, 80, 160)},
    **{
        f"batch {n}, rate {rate}": Setting(batch_size=n, rate=rate)
        for rate in (0.005, 0.05)
        for n in (10, 160)
    },
    **{f"no average, rate {r}": Setting(average=False, rate=r) for r in (0.005, 0.05, 1.5)},
    **{f"larger W, rate {r}": Setting(scale=MARGIN_SCALE, rate=r) for r in (0.05, 0.5)},
    "margin, rate 0.15": Setting(margin=True, rate=0.15),
    **{f"60 epochs, rate {r}": Setting(n_epochs=60, rate=r) for r in (0.005, 1.5)},
    **{f"200 epochs, rate {r}": Setting(n_epochs=200, rate=r) for r in (0.005, 0.05, 1.5)},
}
_BP = (CRBMClassifier, {"inference": SumProduct(tol=0.01)})
_MARGIN = (MSSVMCRBM, {"inference": MixedProduct(tol=0.01)})
OTHERS = {
    "LR": (CRBMClassifier, {"n_hidden": 0, "inference": "exact"}, Setting(rate=0.15)),
    "CD-10": (
        CRBMClassifier,
        {"learning": ContrastiveDivergence(n_steps=10), "inference": MeanField(tol=0.01)},
        Setting(rate=0.15),
    ),
    "MLE-MF": (CRBMClassifier, {"inference": MeanField(tol=0.01)}, Setting(rate=0.15)),
    "MLE-BP": (*_BP, Setting(rate=0.15)),
    "MSSVM": (*_MARGIN, Setting(rate=0.15)),
}
for _rule, _parts, _exact in (("MLE-BP", _BP, SumProduct()), ("MSSVM", _MARGIN, MixedProduct())):
    for _rate in (0.05, 0.02, 0.005):
        OTHERS[f"{_rule}, rate {_rate}"] = (*_parts, Setting(rate=_rate))
    for _size in (10, 40, 80, 160):
        OTHERS[f"{_rule}, batch {_size}"] = (*_parts, Setting(rate=0.15, batch_size=_size))
    OTHERS[f"{_rule}, no average"] = (*_parts, Setting(rate=0.05, average=False))
    OTHERS[f"{_rule}, tolerance 0.001"] = (
        _parts[0],
        {"inference": _exact},
        Setting(rate=0.15),
    )
    # T = 7 + epoch and tolerance 0.001 are the defaults of training.
    for _rate in (0.05, 0.02, 0.01, 0.005):
        OTHERS[f"{_rule}, printed, rate {_rate}"] = (
            _parts[0],
            {"inference": _exact},
            Setting(rate=_rate, average=False),
        )
    for _name, _size in (("", 20), (", batch 10", 10)):
        OTHERS[f"{_rule}{_name}, 50 epochs"] = (
            *_parts,
            Setting(rate=0.15, batch_size=_size, n_epochs=50),
        )
        OTHERS[f"{_rule}, printed, rate 0.05{_name}, 50 epochs"] = (
            _parts[0],
            {"inference": _exact},
            Setting(rate=0.05, average=False, batch_size=_size, n_epochs=50),
        )


class Search(LocalSearch):
    """`LocalSearch` with the choices of a `Setting`."""

    def __init__(self, setting):
        super().__init__(setting.n_steps)
        self.setting = setting

    def __call__(self, energy, batch, clock, state, positive=None):
        """Return the `Moments` of the state found, and the unchanged `state`."""
        energy = one_model_per_row(energy, len(batch))
        n, setting = energy.n_visible, self.setting
        if setting.margin:
            first, *others = energy.fields
            energy = energy.with_fields(first + 1 - 2 * batch.visible, *others)
        block = slice(0, n)
        states = np.zeros((len(batch), 1, energy.n_variables), energy.dtype)

        def outputs(kind, sweep):
            """Return outputs given the hidden units in `states`."""
            log_odds = unchecked(energy.conditional_log_odds)(states, block)[:, 0]
            if kind == "mode":
                return (log_odds > 0).astype(energy.dtype)
            mean = expit(log_odds)
            if kind == "mean":
                return mean
            u = uniforms(clock.key, batch.index, clock.draw(self.n_steps + sweep), n)
            return (u < mean).astype(energy.dtype)

        found = outputs(setting.start, 0)
        best = unchecked(energy.log_weight)(found)
        # The first hidden units are drawn given the mean outputs, as in `LocalSearch`.
        first = outputs("mean", 0) if setting.start == "mode" else found
        hidden_on = unchecked(energy.hidden_given_visible)(first)
        for sweep in range(self.n_steps):
            u = uniforms(clock.key, batch.index, clock.draw(sweep), energy.n_hidden)
            states[:, 0, n:] = u < hidden_on
            visible = outputs(setting.outputs, sweep + 1)
            hidden_on = unchecked(energy.hidden_given_visible)(visible)
            score = unchecked(energy.log_weight)(visible)
            better = np.ones(len(batch), bool) if setting.keep == "last" else score > best
            best = np.where(better, score, best)
            found = np.where(better[:, None], visible, found)
        moments = moments_of_states(energy, found)
        if setting.margin:  # the shifted fields count wrong outputs up to the number of labels
            moments = moments._replace(log_weight=moments.log_weight + batch.visible.sum(axis=1))
        return moments, state


class Variant(CDPercLoss):
    """CD-PercLoss with the choices of a `Setting`."""

    _parameter_constraints = {"setting": [Setting]}

    def __init__(self, setting):
        self.setting = setting

    def conditional(self, inference, n_jobs=None):
        """Return the objective of a conditional model."""
        return Contrast(
            Observed(inference),
            Search(self.setting),
            only_violations=not self.setting.every_row,
            inference=inference,
            n_jobs=n_jobs,
            needs_complete=True,
            state_key=self.name,
        )


def estimator(name, size):
    """Return the estimator of a cell, the scale of its first W and its number of epochs."""
    if name in OTHERS:
        kind, options, setting = OTHERS[name]
    else:
        kind, setting = CRBMClassifier, SETTINGS[name]
        options = {"learning": Variant(setting), "inference": MeanField(tol=0.01)}
    solver = SGD(learning_rate=setting.rate, batch_size=setting.batch_size, average=setting.average)
    common = {"n_hidden": size.n_hidden, "solver": solver, "alpha": 0.0, "random_state": 0}
    n_epochs = setting.n_epochs if setting.n_epochs and size is SIZE else size.max_iter
    return kind(**{**common, **options}), setting.scale, n_epochs


def fit_and_score(task, name, size):
    """Return the errors of the best epoch, for predictions by both decoders."""
    (X, Y), validation, test = task_images(task, size)
    model, scale, n_epochs = estimator(name, size)
    decoders = DECODERS if isinstance(model, CRBMClassifier) and model.n_hidden else ("auto",)
    best = dict.fromkeys(decoders, (np.inf, None, 0))
    started, original = time.process_time(), crbm.crbm_params
    crbm.crbm_params = partial(original, weights_scale=scale)
    try:
        for epoch in range(1, n_epochs + 1):
            model.partial_fit(X, Y)
            for decoder in decoders:
                if decoder != "auto":
                    model.decode = decoder
                error = errors(model, *validation)[0]
                if error < best[decoder][0]:
                    best[decoder] = error, copy.deepcopy(model), epoch
    except FloatingPointError:
        pass  # it has diverged: the best epoch stays
    finally:
        crbm.crbm_params = original
    row = {"task": task, "setting": name}
    for decoder in DECODERS:
        error, kept, epoch = best.get(decoder, best.get("auto"))
        every, changed = errors(kept, *test)
        row |= {
            f"{decoder}_all": f"{every:.3f}",
            f"{decoder}_changed": f"{changed:.2f}",
            f"{decoder}_epoch": str(epoch),
        }
    row["seconds"] = f"{time.process_time() - started:.0f}"
    return row


def markdown(done):
    """Return a table: wrong pixels of all and of the changed pixels, by both predictions."""
    lines = [
        "| | "
        + " | ".join(f"{task}, {d}" for task in TASKS for d in ("marginals", "state"))
        + " |",
        "|---" * (2 * len(TASKS) + 1) + "|",
    ]
    rows = {(row["task"], row["setting"]): row for row in done.values()}
    for name in (*OTHERS, *SETTINGS):
        texts = []
        for task in TASKS:
            row = rows.get((task, name))
            for decoder in DECODERS:
                pair = ("all", "changed")
                cell = " / ".join(row[f"{decoder}_{kind}"] for kind in pair) if row else ""
                texts.append(cell)
        if any(texts):
            lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def cells(quick):
    """Yield the key of every cell and the function that runs it."""
    warnings.simplefilter("ignore")  # inference that does not converge
    for name in (*OTHERS, *SETTINGS):
        for task in TASKS[:1] if quick else TASKS[::-1]:
            yield f"{task}, {name}", partial(fit_and_score, task, name, QUICK if quick else SIZE)


def main():
    """Run the fits that are not finished; print and write the table."""
    parser = make_parser(__doc__, "rule_settings", "a single task, 200 images, two epochs")
    arguments = parser.parse_args()
    run_tables(arguments, cells(arguments.quick), markdown)


if __name__ == "__main__":
    main()
