"""Learning: how parameters move. A rule is one file here and one line in `_registry.py`."""

from skcrbm.learning._base import Batch, Clock, Objective, Step
from skcrbm.learning._best_states import state_methods, state_query
from skcrbm.learning._callbacks import (
    CallbackSupportMixin,
    EpochCallbacks,
    pass_hooks,
    with_callbacks,
)
from skcrbm.learning._clique_margins import CliqueFeatures, CliqueProblem, fit_cliques
from skcrbm.learning._cutting_planes import StructuralMarginProblem, fit_cutting_planes
from skcrbm.learning._design import Design, mean_square
from skcrbm.learning._dual_coordinate import LargeMarginProblem, fit_large_margin
from skcrbm.learning._fitting import StochasticFit, warn_of_convergence
from skcrbm.learning._full_batch import FullBatchTraining
from skcrbm.learning._initial import (
    crbm_params,
    crbm_rate_factors,
    layered_params,
    max_margin_weights_scale,
    smoothed_log_odds,
)
from skcrbm.learning._large_margin_path import LargeMarginSearch
from skcrbm.learning._loop import History, run_epochs
from skcrbm.learning._moments import ModelStates, MomentMatching
from skcrbm.learning._optimizers import make_optimizer
from skcrbm.learning._path import START, PathPoint, PenaltyPath
from skcrbm.learning._penalty import L2, ElasticNet, Penalty, crbm_penalty
from skcrbm.learning._registry import (
    LAYERED_OBJECTIVES,
    MARGIN_OBJECTIVES,
    NEGATIVE_PHASES,
    OBJECTIVES,
)
from skcrbm.learning._scoring import validation_score
from skcrbm.learning._source import ArraySource, Source
from skcrbm.learning._training import INTERRUPTED, Progress, Training, TrainingResult

__all__ = [
    "CallbackSupportMixin",
    "EpochCallbacks",
    "INTERRUPTED",
    "L2",
    "LAYERED_OBJECTIVES",
    "MARGIN_OBJECTIVES",
    "NEGATIVE_PHASES",
    "OBJECTIVES",
    "START",
    "ArraySource",
    "Batch",
    "CliqueFeatures",
    "CliqueProblem",
    "Clock",
    "Design",
    "ElasticNet",
    "FullBatchTraining",
    "History",
    "LargeMarginProblem",
    "LargeMarginSearch",
    "ModelStates",
    "MomentMatching",
    "Objective",
    "PathPoint",
    "Penalty",
    "PenaltyPath",
    "Progress",
    "Source",
    "Step",
    "StochasticFit",
    "StructuralMarginProblem",
    "Training",
    "TrainingResult",
    "crbm_params",
    "crbm_penalty",
    "crbm_rate_factors",
    "fit_cutting_planes",
    "fit_cliques",
    "fit_large_margin",
    "layered_params",
    "make_optimizer",
    "max_margin_weights_scale",
    "mean_square",
    "pass_hooks",
    "run_epochs",
    "smoothed_log_odds",
    "state_methods",
    "state_query",
    "validation_score",
    "warn_of_convergence",
    "with_callbacks",
]
