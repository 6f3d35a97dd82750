"""`CRBMClassifier()` and `LMBMClassifier()` with default settings on eleven data sets.

The baselines are one-vs-rest logistic regression and linear SVM, each with the same C for all
labels, searched on 30% of the training rows, a random forest, extra trees on label sets, and the
training frequencies. Each method is fitted on five splits: the published split and four random
splits of the same sizes. Columns are standardised; "raw" means that they are not, "0-1 kept" that
columns with two values are 0 and 1. All methods are decoded by the same rules, each metric by its
own rule.

Finished fits are kept in the output folder, so the program can be stopped and restarted; delete the
file of a fit to repeat it. The program then writes two CSV files and Markdown tables there: the
mean of each metric over splits, and the gains over baselines with 95% intervals by a paired
bootstrap over rows. Times are processor seconds in a single thread, searches included.

    python -m examples.studies.defaults_benchmark --quick
    python -m examples.studies.defaults_benchmark --only emotions CRBM
"""

import warnings
from functools import partial

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from examples._harness import Arrays, make_parser, results_path, run_missing
from examples.studies._defaults_methods import (
    DATA,
    METHODS,
    OURS,
    QUICK_DATA,
    QUICK_SEEDS,
    RIVALS,
    SEEDS,
    fit,
)
from examples.studies._defaults_report import Fits, write


def warm_up():
    """Compile, so that no measured time includes compilation."""
    rng = np.random.RandomState(0)
    X, Y = rng.normal(size=(60, 4)), rng.randint(0, 2, size=(60, 15))
    Y[:, 0] = 1  # no row is empty
    for n_labels in (3, 15):
        for read, make in OURS.values():
            model = clone(make(0, 0)).fit(X, Y[:, :n_labels])
            read(model, X, Y[:, :n_labels])


def cells(quick, methods):
    """Yield the key of every fit and the function that runs it."""
    for seed in QUICK_SEEDS if quick else SEEDS:
        for data in QUICK_DATA if quick else DATA:
            for method in methods:
                key = f"{data}__{method}__seed {seed}"
                yield key, partial(fit, data, method, seed, quick)


def main():
    """Run the fits that are not finished; write the tables."""
    parser = make_parser(__doc__, "defaults_benchmark", "200 rows of two sets, small forests")
    parser.add_argument("--rivals", action="store_true", help="fit the rivals only")
    arguments = parser.parse_args()
    folder = results_path(arguments)
    methods = RIVALS if arguments.rivals else METHODS
    fits = Arrays(folder / "fits", arguments.quick)
    if not arguments.no_run:
        warnings.filterwarnings("ignore")  # rare labels, and searches that reach limits
        with threadpool_limits(1):
            if not arguments.list and not arguments.rivals:
                warm_up()
            run_missing(cells(arguments.quick, methods), fits, arguments.only, arguments.list)
    if not arguments.list:
        scores = Arrays(folder / "scores")
        seeds = QUICK_SEEDS if arguments.quick else SEEDS
        data_names = QUICK_DATA if arguments.quick else DATA
        print(write(Fits(fits, scores, data_names, METHODS, seeds), folder / "defaults"))


if __name__ == "__main__":
    main()
