"""Check the result of a solver that another package has registered."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any

import numpy as np

from skcrbm.energies import BaseEnergy
from skcrbm.inference.base import InferenceMethod, InferenceResult, Query

# Names of the fields that a solver may return. "marginals" is excluded, because `infer` computes
# the marginals from the field "log_odds".
_NAMES = sorted(
    {field.name for field in fields_of(InferenceResult)} - {"marginals", "method", "status"}
)
# Maps the name of an answer to the name of the field that contains the answer, if the names differ.
_FIELDS = {"marginals": "log_odds", "map": "assignment", "marginal_map": "assignment"}


def check_fields(fields: Any, method: InferenceMethod, energy: BaseEnergy, query: Query) -> None:
    """Check the result of a solver, a dict of fields.

    A TypeError is raised if the result is not a dict. A ValueError is raised if the dict has an
    unknown name, lacks an answer, or contains an array of a wrong shape or with NaN. The messages
    contain the names of the method and of the field.
    """
    source = f"the solver of inference method {method.display_name!r} must return"
    if not isinstance(fields, dict):
        raise TypeError(f"{source} a dict with fields of InferenceResult; got {fields!r}")
    for name in fields:
        if name not in _NAMES:
            hint = "; infer computes the marginals from 'log_odds'" if name == "marginals" else ""
            raise ValueError(
                f"{source} only fields from {', '.join(map(repr, _NAMES))}; got {name!r}{hint}"
            )
    needed = [(f"for {answer!r}", _FIELDS.get(answer, answer)) for answer in sorted(query.returns)]
    needed += [("for return_trace=True", "trace")] * query.return_trace
    needed += [("for return_state=True", "state")] * query.return_state
    for reason, name in needed:
        if fields.get(name) is None:
            raise ValueError(f"{source} the field {name!r} {reason}; it is missing")
    for name, shape in _shapes(energy, query).items():
        if fields.get(name) is not None:
            _check_array(source, repr(name), fields[name], shape)
    statistics = fields.get("statistics")
    if statistics is None:
        return
    leading = (energy.n_models,) if query.per_example else ()
    shapes = [(*leading, *shape) for shape in energy.statistic_shapes]
    if not isinstance(statistics, (tuple, list)) or len(statistics) != len(shapes):
        raise ValueError(
            f"{source} 'statistics' as a tuple of arrays of the shapes {shapes}; "
            f"got {_described(statistics)}"
        )
    for k, (part, shape) in enumerate(zip(statistics, shapes, strict=True)):
        _check_array(source, f"'statistics'[{k}]", part, shape)


def _shapes(energy, query):
    """Return a dict that maps the name of each field that is an array to its valid shape."""
    n = energy.n_models
    per_model = ("map_bound", "gap", "log_partition", "n_iter", "converged")
    names = (*per_model, "standard_error", "effective_sample_size")
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(names, (n,))
    shapes["log_odds"] = energy.belief_shape
    shapes["assignment"] = (n, energy.n_variables)
    shapes["best_states"] = (n, query.n_best, energy.n_variables)
    shapes["best_scores"] = (n, query.n_best)
    shapes["samples"] = (n, query.n_samples, energy.n_variables)
    shapes["sample_log_prob"] = (n, query.n_samples)
    return shapes


def _check_array(source, name, value, shape):
    """Raise a ValueError unless `value` is a numeric array of the given shape, without NaN."""
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype.kind not in "biuf":
        raise ValueError(
            f"{source} {name} as an array of numbers of shape {shape}; got {_described(value)}"
        )
    if value.dtype.kind == "f" and np.isnan(value).any():
        row = np.argwhere(np.isnan(value))[0].tolist()
        raise ValueError(f"{source} {name} without NaN; got NaN at index {row}")


def _described(value):
    """Describe an invalid field: its shape and dtype, or the value itself."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of length {len(value)}"
    return repr(value)
