"""The loop that the stress programs share."""

import pytest
from stress._program import main


def run(argv, capsys):
    def case(rng, number):
        seen.append((number, rng.integers(1000)))
        if number == 3:
            raise KeyError("three")
        return ["four is wrong"] if number == 4 else []

    seen = []
    with pytest.raises(SystemExit) as end:
        main("name", case, 6, "What it does.", argv)
    return seen, end.value.code, capsys.readouterr().out.splitlines()


def test_failures_are_counted_and_reproduced(capsys):
    seen, code, lines = run([], capsys)
    assert [number for number, _ in seen] == list(range(6))
    assert code == 1
    assert lines[0].startswith("FAILED --seed 0 --case 3: KeyError: 'three' (")
    assert lines[1:] == ["FAILED --seed 0 --case 4: four is wrong", "6 cases, 2 failures"]
    alone, code, lines = run(["--case", "4"], capsys)
    assert alone == [seen[4]]
    assert (code, lines[-1]) == (1, "1 cases, 1 failures")


def test_no_failures_and_other_seeds(capsys):
    seen, code, lines = run(["--cases", "2"], capsys)
    assert (code, lines) == (0, ["2 cases, 0 failures"])
    assert run(["--cases", "2", "--seed", "1"], capsys)[0] != seen
    assert run(["--cases", "1", "--first", "1"], capsys)[0] == seen[1:]
