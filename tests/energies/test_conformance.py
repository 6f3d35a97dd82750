"""Every energy and every inference method on it, held against enumeration.

The columns of the table are the cases of `reference.energy_cases`, the rows are the methods of
`reference.proofs.PROOFS`, and ``python -m tests.conformance`` prints the table.
"""

import numpy as np
import pytest
from reference import conformance, proofs
from reference.dtypes import float32_test
from reference.energy_cases import BINARY, CASES

from skcrbm.inference import available_methods, infer
from skcrbm.inference.methods.exact import Exact
from skcrbm.inference.registry import METHODS, energies_of

CELLS = proofs.cells(CASES)
# Cells whose draws take seconds.
SLOW = {
    (energy, name)
    for energy in ("factor graph", "zeros and logic", "sparse Ising")
    for name in ("gibbs_with_gradients", "perturb_and_map")
    if (energy, name) != ("sparse Ising", "gibbs_with_gradients")
} | {
    ("states", "perturb_and_map"),
    ("states", "gibbs"),
    ("layered, three states", "gibbs"),
    ("zeros and logic", "perturb_and_max_product"),
}
RANDOM = {*proofs.METHODS_THAT_DRAW, "perturb_and_map", "simulated_annealing"}
# In float32, random methods are tested on a case of each energy: the others share its kernels.
CELLS_IN_FLOAT32 = [(case, name) for case, name in CELLS if case.column or name not in RANDOM]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def marks_of(case, name):
    quick = case.column and (case.name, name) not in SLOW
    return [] if quick else [pytest.mark.deep]


def cell_id(value):
    return value if isinstance(value, str) else value.name


@pytest.mark.quick_cases(33)
@pytest.mark.parametrize("case", BINARY, ids=cell_id)
@pytest.mark.parametrize("check", conformance.MEMBERS, ids=lambda check: check.__name__)
def test_members(case, check):
    check(case)


@pytest.mark.parametrize(
    ("case", "name"),
    [pytest.param(case, name, marks=marks_of(case, name)) for case, name in CELLS],
    ids=cell_id,
)
def test_method(case, name):
    proofs.check_cell(case, name)


@float32_test
@pytest.mark.parametrize(("case", "name"), CELLS_IN_FLOAT32, ids=cell_id)
def test_method_in_float32(case, name):
    proofs.check_cell(case, name, np.float32)


@each_case
def test_best_states_have_the_limits_of_map(case):
    """Whenever `max_units` forbids "map", it forbids "best_states"."""
    energy = case.make(0, 2, 1.0, np.float64)
    for max_units in range(energy.n_variables + 1):
        errors = []
        for answer in ("map", "best_states"):
            try:
                infer(energy, Exact(max_units=max_units), returns=answer)
            except ValueError as error:
                errors.append(str(error))
            else:
                errors.append("")
        assert errors[0] == errors[1]


@pytest.mark.deep
@each_case
def test_nothing_is_left_unfilled(case, monkeypatch):
    conformance.check_nothing_unfilled(case, monkeypatch)


def test_the_table_is_complete():
    """Every method has a row, every energy with a solver a column, every answer a relation."""
    assert set(proofs.PROOFS) == set(METHODS.locations)
    shown = {
        kind.__name__ for case in CASES for kind in type(case.make(0, 1, 1.0, np.float64)).__mro__
    }
    registered = {energy for name in METHODS.locations for energy in energies_of(name)}
    assert registered <= shown
    proven = {name: set() for name in proofs.PROOFS}
    for case, name in CELLS:
        energy = case.make(0, 1, 1.0, np.float64)
        for answer in proofs.answers_of(proofs.proof_method(name), energy):
            assert answer in proofs.PROOFS[name], f"{name}, {answer}: no relation"
            if proofs.relations_of(case, name, answer):
                proven[name].add(answer)
    assert {name: set(answers) for name, answers in proofs.PROOFS.items()} == proven


def test_the_printed_table_shows_the_cells():
    lines = proofs.table(CASES)
    assert len(lines) == len(proofs.PROOFS) + 2
    assert "p =; s =; Z =; x =; b =; k =; y =; d law; q =" in lines[2]
    for name in available_methods(CASES[0].make(0, 1, 1.0, np.float64)):
        (line,) = [text for text in lines if text.startswith(f"| {name} |")]
        assert line.split("|")[2].strip()
