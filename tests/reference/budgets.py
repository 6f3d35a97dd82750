"""Options with which a method of `infer` answers in a moment, for tests of forms and of errors."""

from skcrbm.inference.registry import METHODS

_OPTIONS = {
    "map_search": {"max_nodes": 20_000},
    "ais": {"n_betas": 5, "n_chains": 4},
    "gibbs": {"max_iter": 5, "burn_in": 2},
    "gibbs_with_gradients": {"max_iter": 5, "burn_in": 2},
    "simulated_annealing": {"n_sweeps": 10},
}
_DRAWN = {"samples", "sample_log_prob"}


def short(name, answer):
    """Return options for `infer(energy, name, returns=answer)`: few sweeps, nodes and samples."""
    options = dict(_OPTIONS.get(name, {}))
    if answer in METHODS.get(name).estimated_from_samples | _DRAWN:
        options["n_samples"] = 2
    if "random_state" in vars(METHODS.get(name)()):
        options["random_state"] = 0
    return options
