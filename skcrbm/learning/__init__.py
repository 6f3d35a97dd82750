"""Learning: how parameters move. A rule is one file here and one line in `_registry.py`."""

from skcrbm.learning._base import Batch, Objective, Step
from skcrbm.learning._loop import History, run_epochs
from skcrbm.learning._max_margin import state_query
from skcrbm.learning._optimizers import make_optimizer
from skcrbm.learning._registry import MARGIN_OBJECTIVES, OBJECTIVES
from skcrbm.learning._scoring import validation_score

__all__ = [
    "MARGIN_OBJECTIVES",
    "OBJECTIVES",
    "Batch",
    "History",
    "Objective",
    "Step",
    "make_optimizer",
    "run_epochs",
    "state_query",
    "validation_score",
]
