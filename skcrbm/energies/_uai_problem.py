"""Read a network of a UAI competition together with the files that lie beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skcrbm.energies.graph import FactorGraphEnergy
from skcrbm.formats.evidence import TASKS


class UAIProblem(NamedTuple):
    """A network with its evidence, query and solutions, as `read_uai` returns it."""

    #: Network without the evidence.
    energy: FactorGraphEnergy
    #: States (n_samples, n) of clamped variables, with NaN for free variables; None without a file.
    evidence: np.ndarray | None
    #: Query variables (n_query,) of a marginal MAP problem; None without a file.
    query: np.ndarray | None
    #: Solution of each task that has a file, such as "PR" and "MAR"; see :func:`read_uai_solution`.
    solutions: dict[str, Any]


def read_uai(path: str | os.PathLike) -> UAIProblem:
    """Read a network of a UAI competition with its evidence, query and solutions.

    The files beside ``name.uai`` are ``name.uai.evid``, ``name.uai.query``, and a solution with the
    name of its task, such as ``name.uai.PR``. Each file may be compressed by gzip, with ".gz" at
    the end of its name.

    Parameters
    ----------
    path : str or path
        Path of the network. For a text, see `FactorGraphEnergy.from_uai`.

    Returns
    -------
    UAIProblem
        Named tuple ``(energy, evidence, query, solutions)``. Evidence and query are None, and
        solutions are missing from the dictionary, if they have no file.

    Raises
    ------
    FileNotFoundError
        If the network has no file.
    ValueError
        If a file is not in its format. The message shows the wrong word and its line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skcrbm.energies import read_uai
    >>> from skcrbm.inference import infer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "net.uai"
    ...     _ = path.write_text("MARKOV 2  2 2  1  2 0 1  4  1 2 3 4")
    ...     _ = Path(f"{path}.evid").write_text("1 0 1")
    ...     _ = Path(f"{path}.MAR").write_text("MAR 2 2 0 1 2 0.428571 0.571429")
    ...     problem = read_uai(path)
    >>> infer(problem.energy, "exact", clamp=problem.evidence).marginals.round(3)
    array([[1.   , 0.571]])
    >>> problem.solutions["MAR"][1]
    array([[0.428571, 0.571429]])
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file; FactorGraphEnergy.from_uai reads a text")
    energy = FactorGraphEnergy.from_uai(path)
    evidence, query = (_beside(path, ending) for ending in ("evid", "query"))
    solutions = {}
    for task in TASKS:
        file = _beside(path, task)
        if file is not None:
            found, value = energy.read_solution(file)
            solutions[found] = value
    return UAIProblem(
        energy,
        None if evidence is None else energy.read_evidence(evidence),
        None if query is None else energy.read_query(query),
        solutions,
    )


def _beside(path, ending):
    """Return the file beside a network whose name has a further ending, or None."""
    name = path.name.removesuffix(".gz")
    for end in (ending, f"{ending}.gz"):
        file = path.with_name(f"{name}.{end}")
        if file.is_file():
            return file
    return None
