"""A reader of a fit or a prediction has few files to follow: see `tests.trace_calls`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_estimator_sizes import ESTIMATORS

ROOT = Path(__file__).resolve().parents[1]
# Files and depth of each call. The numbers may fall and must not rise.
LIMITS = {
    "CRBMClassifier.fit": (36, 36),
    "CRBMClassifier.predict": (18, 23),
    "MSSVMCRBM.fit": (38, 25),
    "MSSVMCRBM.predict": (22, 23),
    "ImageCRBM.fit": (35, 24),
    "ImageCRBM.predict": (20, 24),
    "LayeredGMClassifier.fit": (30, 19),
    "LayeredGMClassifier.predict": (15, 12),
    "LMBMClassifier.fit": (28, 17),
    "LMBMClassifier.predict": (25, 18),
    "SSVMClassifier.fit": (29, 19),
    "SSVMClassifier.predict": (23, 20),
    "ChainCRF.fit": (25, 22),
    "ChainCRF.predict": (11, 11),
    "GraphCRF.fit": (43, 36),
    "GraphCRF.predict": (31, 26),
    "GridCRF.fit": (21, 19),
    "GridCRF.predict": (11, 11),
    "LabelGraphCRF.fit": (38, 29),
    "LabelGraphCRF.predict": (21, 22),
    "DecodedClassifier.fit": (38, 30),
    "DecodedClassifier.predict": (23, 27),
    "Constrained.fit": (20, 11),
    "Constrained.predict": (14, 12),
    "CalibratedMarginals.fit": (14, 11),
    "CalibratedMarginals.predict": (6, 9),
    "ConformalLabelSets.fit": (43, 33),
    "ConformalLabelSets.predict": (20, 25),
    "ConformalRiskControl.fit": (42, 33),
    "ConformalRiskControl.predict": (21, 26),
    "BlendedLabelSets.fit": (46, 40),
    "BlendedLabelSets.predict": (21, 24),
    "OutOfBagLogOdds.fit": (12, 11),
    "Pipeline.fit": (33, 28),
    "Pipeline.predict": (21, 25),
    "SequenceTransformer.fit": (2, 5),
    "MarkovRandomField.fit": (28, 21),
    "IsingModel.fit": (27, 19),
    "RBM.fit": (26, 20),
    "LargeMarginMarkovNetwork.fit": (18, 9),
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
