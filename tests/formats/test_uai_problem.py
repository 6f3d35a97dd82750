"""`read_uai` finds the files beside a network; networks read files without numbers of states."""

import gzip

import numpy as np
import pytest

from skcrbm.energies import (
    FactorGraphEnergy,
    read_uai,
    read_uai_evidence,
    read_uai_query,
    read_uai_solution,
)
from skcrbm.inference import infer

BINARY = "MARKOV 2  2 2  1  2 0 1  4  1 2 3 4"
STATES = "MARKOV 2  2 3  1  2 0 1  6  1 2 3 4 5 6"
# The text of a file, by the end of its name.
FILES = {
    "evid": "1 0 1",
    "query": "1 1",
    "PR": "PR 0.845098",
    "MAP": "MAP 2 1 1",
}


@pytest.fixture(params=[BINARY, STATES], ids=["binary", "states"])
def text(request):
    return request.param


@pytest.mark.parametrize("packed", [False, True], ids=["text", "gzip"])
def test_files_beside_a_network(tmp_path, text, packed):
    def write(name, content):
        path = tmp_path / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
        return path

    path = write("net.uai", text)
    plain = read_uai(path)
    assert plain.evidence is plain.query is None
    assert plain.solutions == {}
    for end, content in FILES.items():
        write(f"net.uai.{end}", content)
    write("other.uai.MAR", "MAR 2 2 0 1 2 0.5 0.5")  # of another network
    energy, evidence, query, solutions = read_uai(str(path))
    np.testing.assert_array_equal(evidence, [[1, np.nan]])
    np.testing.assert_array_equal(query, [1])
    assert sorted(solutions) == ["MAP", "PR"]
    np.testing.assert_array_equal(solutions["MAP"], [[1, 1]])
    expected = FactorGraphEnergy.from_uai(text)
    np.testing.assert_array_equal(energy.log_potentials, expected.log_potentials)
    found = infer(energy, "exact", clamp=evidence, returns="log_partition").log_partition[0]
    if text == BINARY:
        assert found / np.log(10) == pytest.approx(solutions["PR"][0], abs=1e-6)


def test_networks_read_files_without_numbers_of_states(text):
    energy = FactorGraphEnergy.from_uai(text)
    states = energy.n_states
    np.testing.assert_array_equal(energy.read_evidence("1 0 1"), read_uai_evidence("1 0 1", states))
    np.testing.assert_array_equal(energy.read_query("1 1"), read_uai_query("1 1", states))
    task, solution = energy.read_solution("MAP 2 1 1")
    assert task == "MAP"
    np.testing.assert_array_equal(solution, read_uai_solution("MAP 2 1 1", states)[1])
    with pytest.raises(ValueError, match=r"the state of variable 1, an integer from 0 to [12],"):
        energy.read_evidence("1 1 5")


def test_networks_of_01_and_of_more_states_have_the_same_public_names():
    energies = [FactorGraphEnergy.from_uai(text) for text in (BINARY, STATES)]
    names = [{name for name in dir(energy) if not name.startswith("_")} for energy in energies]
    assert names[0] == names[1]
    for energy, k in zip(energies, (2, 3)):
        assert energy.n_states.tolist() == [2, k]
        for name in names[0]:
            getattr(energy, name)


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="from_uai reads a text"):
        read_uai(tmp_path / "net.uai")
    (tmp_path / "net.uai").write_text(BINARY)
    (tmp_path / "net.uai.evid").write_text("1 7 1")
    with pytest.raises(ValueError, match=r"net\.uai\.evid"):
        read_uai(tmp_path / "net.uai")
