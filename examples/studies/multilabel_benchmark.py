"""Joint models compared with models on the same columns that are not joint.

The joint models are conditional RBMs, MSSVM, large margin and layered machines on x, on features of
a kernel and on out-of-bag log-odds of forests. Each joint model has controls: logistic regressions,
and chains of logistic regressions, on the same columns. Other methods of scikit-learn are included,
too. Each data set has five splits: the published split and four random splits of the same sizes.
Each metric has its own decoder, the same for all methods; no choice uses the test rows. "Chosen"
rows show, for each split and metric, the joint model and the control that were best on 30% of the
training rows when they were fitted on the other 70%.

Finished fits are kept in the output folder, so the program can be stopped and restarted. It then
writes CSV files, Markdown tables and a picture there: means over splits, and gains with 95%
intervals by a paired bootstrap over rows and splits. Times are processor seconds in a single
thread, searches and the forests included.

    python -m examples.studies.multilabel_benchmark --quick
    python -m examples.studies.multilabel_benchmark --only Scene forests
"""

import warnings
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from examples._harness import Arrays, make_parser, results_path, run_missing
from examples.studies._benchmark_methods import METHODS, OURS, fit
from examples.studies._benchmark_report import write
from examples.studies._defaults_methods import DATA, QUICK_SEEDS, SEEDS

DATA_NAMES = (
    "Scene",
    "Yeast",
    "emotions",
    "birds",
    "pairs",
    "groups",
    "medical",
    "Mediamill sample",
)
QUICK_DATA = ("emotions", "pairs")
PARTS = ("test", "validation")
# They are fitted last.
SLOW = ("layered model on forests", "perceptron", "kernel SVM")


def warm_up():
    """Compile, so that no measured time includes compilation."""
    rng = np.random.RandomState(0)
    X, Y = rng.normal(size=(60, 16)), rng.randint(0, 2, size=(60, 15))
    Y[:, 0] = 1 - Y[:, 1]  # no row is empty
    for n_labels in (4, 15):
        for _, read, make in OURS.values():
            model = make(0, True).fit(X, Y[:, :n_labels])
            read(model, X, Y[:, :n_labels])


def cells(part, quick):
    """Yield the key of every fit and its function; fits with the same columns come together."""
    for slow in (False, True):
        for data in QUICK_DATA if quick else DATA_NAMES:
            for seed in QUICK_SEEDS if quick else SEEDS:
                for method in METHODS:
                    if (method in SLOW) == slow:
                        key = f"{data}__{method}__seed {seed}"
                        yield key, partial(fit, data, method, seed, part, quick)


def main():
    """Run the fits that are not finished; write the tables and the picture."""
    parser = make_parser(__doc__, "multilabel_benchmark", "200 rows of two sets, small forests")
    parser.add_argument("--part", choices=PARTS, help="run the fits of one part alone")
    arguments = parser.parse_args()
    folder = results_path(arguments)
    fits = {part: Arrays(folder / part, arguments.quick) for part in PARTS}
    if not arguments.no_run:
        warnings.filterwarnings("ignore")  # rare labels, and searches that reach limits
        with threadpool_limits(1):
            if not arguments.list:
                warm_up()
            for part in [arguments.part] if arguments.part else PARTS:
                missing = cells(part, arguments.quick)
                run_missing(missing, fits[part], arguments.only, arguments.list)
    if not arguments.list:
        data_names = [d for d in DATA if d in (QUICK_DATA if arguments.quick else DATA_NAMES)]
        seeds = QUICK_SEEDS if arguments.quick else SEEDS
        print(write(fits, folder, data_names, seeds))


if __name__ == "__main__":
    main()
