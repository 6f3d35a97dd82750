"""Arguments that are not valid: one error names the argument, in each function of inference."""

import numpy as np
import pandas as pd
import pytest

from skcrbm.energies import IsingEnergy
from skcrbm.inference import available_methods, estimate_log_partition, infer, sample

ENERGY = IsingEnergy([[0, 1.0], [1, 0]])
WRONG = [
    3.5, np.array([1, 2]), [["marginals"]], {"a": 1}, np.array(["marginals"]), object(), b"x",
    ["marginals", None], [np.array([1])], float("nan"), "", IsingEnergy, pd.DataFrame([[1]]),
]  # fmt: skip
FUNCTIONS = {
    infer: {"n_samples": {"returns": "samples", "method": "gibbs"}, "n_best": {"method": "exact"}},
    sample: {},
    estimate_log_partition: {},
}
# Arguments, and values in `WRONG` that are valid for them.
ARGUMENTS = {
    infer: {
        "returns": [["marginals"]], "pairwise": [], "clamp": [[1, 2]], "sample_weight": [],
        "init": [], "n_samples": [], "n_best": [], "return_trace": [], "return_state": [],
        "n_jobs": [], "method": [],
    },
    sample: {
        "method": [], "n_samples": [], "burn_in": [], "thin": [], "n_chains": [], "clamp": [],
        "init": [], "return_log_prob": [], "return_state": [], "n_jobs": [],
    },
    estimate_log_partition: {
        "method": [], "n_chains": [], "n_betas": [], "n_samples": [], "clamp": [], "n_jobs": [],
    },
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_wrong_energies(function):
    for wrong in [None, *WRONG]:
        with pytest.raises(TypeError, match=r"^energy must be an energy such as RBMEnergy, got "):
            function(wrong)


@pytest.mark.parametrize(
    ("function", "argument"),
    [(f, a) for f, names in ARGUMENTS.items() for a in names],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_wrong_arguments(function, argument):
    valid = ARGUMENTS[function][argument]
    for wrong in WRONG:
        if isinstance(wrong, np.ndarray) and wrong.tolist() in (valid, *valid):
            continue
        options = FUNCTIONS[function].get(argument, {})
        with pytest.raises((ValueError, TypeError)) as caught:
            function(ENERGY, **{**options, argument: wrong})
        text = str(caught.value)
        assert argument in text or (argument == "n_best" and "best_states" in text), text
        assert "ambiguous" not in text
        assert "unhashable" not in text


def test_wrong_answers_of_available_methods():
    for wrong in ([["marginals"]], [np.array([1])], 3.5, [None], ["marginal"]):
        with pytest.raises(ValueError, match=r"^returns must contain one or more of"):
            available_methods(ENERGY, wrong)


def test_every_ising_model_has_the_methods_of_its_kind():
    """A method that serves sparse couplings serves a matrix, and the other way round."""
    assert available_methods(ENERGY) == available_methods(ENERGY.as_sparse())
    assert infer(ENERGY, "max_product").assignment.shape == (1, 2)
