"""Names of scikit-learn that do not belong to its public interface.

The other modules import these names from here. If a new version of scikit-learn moves or renames a
name, only this module changes.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import _fit_context as fit_context
from sklearn.externals import _arff as arff
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._optional_dependencies import check_matplotlib_support, check_pandas_support
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
    validate_params,
)
from sklearn.utils.metadata_routing import _routing_enabled as routing_enabled
from sklearn.utils.validation import _check_feature_names as check_feature_names
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _check_sample_weight as check_weights
from sklearn.utils.validation import _get_feature_names as feature_names
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "arff",
    "check_feature_names",
    "check_matplotlib_support",
    "check_method_params",
    "check_pandas_support",
    "check_weights",
    "feature_names",
    "fit_context",
    "is_search",
    "make_constraint",
    "num_samples",
    "routing_enabled",
    "safe_indexing",
    "validate_parameter_constraints",
    "validate_params",
]


def is_search(model: Any) -> bool:
    """Return True for a search for hyperparameters, such as `GridSearchCV`."""
    from sklearn.model_selection._search import BaseSearchCV  # imports many modules

    return isinstance(model, BaseSearchCV)
