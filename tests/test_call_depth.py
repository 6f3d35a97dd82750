"""A reader of a fit or a prediction has few files to follow: see `tests.trace_calls`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_estimator_sizes import ESTIMATORS

ROOT = Path(__file__).resolve().parents[1]
# Files and depth of each call. The numbers may fall and must not rise.
LIMITS = {
    "CRBMClassifier.fit": (42, 38),
    "CRBMClassifier.predict": (22, 25),
    "MSSVMCRBM.fit": (46, 27),
    "MSSVMCRBM.predict": (28, 25),
    "ImageCRBM.fit": (41, 26),
    "ImageCRBM.predict": (24, 26),
    "LayeredGMClassifier.fit": (34, 19),
    "LayeredGMClassifier.predict": (15, 12),
    "LMBMClassifier.fit": (29, 17),
    "LMBMClassifier.predict": (31, 21),
    "SSVMClassifier.fit": (35, 21),
    "SSVMClassifier.predict": (29, 22),
    "ChainCRF.fit": (33, 22),
    "ChainCRF.predict": (14, 12),
    "GraphCRF.fit": (52, 38),
    "GraphCRF.predict": (36, 30),
    "GridCRF.fit": (26, 19),
    "GridCRF.predict": (12, 12),
    "LabelGraphCRF.fit": (46, 34),
    "LabelGraphCRF.predict": (26, 27),
    "DecodedClassifier.fit": (44, 32),
    "DecodedClassifier.predict": (28, 29),
    "Constrained.fit": (22, 11),
    "Constrained.predict": (18, 16),
    "CalibratedMarginals.fit": (14, 14),
    "CalibratedMarginals.predict": (8, 13),
    "ConformalLabelSets.fit": (49, 35),
    "ConformalLabelSets.predict": (26, 27),
    "ConformalRiskControl.fit": (48, 35),
    "ConformalRiskControl.predict": (25, 28),
    "BlendedLabelSets.fit": (52, 42),
    "BlendedLabelSets.predict": (26, 28),
    "OutOfBagLogOdds.fit": (12, 11),
    "Pipeline.fit": (40, 31),
    "Pipeline.predict": (25, 27),
    "SequenceTransformer.fit": (5, 8),
    "MarkovRandomField.fit": (30, 21),
    "IsingModel.fit": (29, 19),
    "RBM.fit": (28, 21),
    "LargeMarginMarkovNetwork.fit": (19, 9),
}


@pytest.fixture(scope="module")
def counts():
    """The table of the program, which runs in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.trace_calls"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    head, *lines = (line.split() for line in run.stdout.splitlines())
    return {name: dict(zip(head[1:], map(int, values))) for name, *values in lines}


@pytest.mark.deep
@pytest.mark.compiled
@pytest.mark.parametrize("call", LIMITS)
def test_few_files_and_calls_within_calls(counts, call):
    files, depth = counts[call]["files"], counts[call]["depth"]
    assert files <= LIMITS[call][0], f"{files} files: `python -m tests.trace_calls {call} --files`"
    assert depth <= LIMITS[call][1], f"calls at depth {depth}"


@pytest.mark.deep
@pytest.mark.compiled
def test_each_call_has_a_limit(counts):
    assert set(counts) == set(LIMITS)


def test_each_estimator_is_traced():
    assert {call.split(".")[0] for call in LIMITS} == set(ESTIMATORS)
