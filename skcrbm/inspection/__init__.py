"""Pictures of fitted estimators and of inference results."""

from skcrbm.inspection._convergence import ConvergenceDisplay

__all__ = ["ConvergenceDisplay"]
