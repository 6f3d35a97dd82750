"""Solvers and stopping rules from flat options, to keep tests short."""

from skcrbm.learning import SGD, Adam, AveragedSGD, EarlyStopping, LossPlateau

SOLVERS = {"adam": Adam, "sgd": SGD, "asgd": AveragedSGD}
OF_SOLVERS = ("learning_rate", "batch_size", "momentum", "average")
OF_STOPPING = ("validation_fraction", "n_iter_no_change", "tol", "refit")


def objects(**options):
    """Replace options of solvers and of stopping rules by the objects that hold them."""
    solver = {name: options.pop(name) for name in OF_SOLVERS if name in options}
    stopping = {name: options.pop(name) for name in OF_STOPPING if name in options}
    if solver:
        options["solver"] = SOLVERS[options["solver"]](**solver)
    if stopping:
        held_out = options.get("early_stopping", False)
        options["early_stopping"] = (EarlyStopping if held_out else LossPlateau)(**stopping)
    return options
