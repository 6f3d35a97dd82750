"""Convert Ising models with labelled variables, from other packages, to arrays.

The other packages are not imported. They minimise an energy E(s) = sum_i h_i s_i + sum_(i, j) J_ij
s_i s_j + offset over spins s of -1/+1. This package maximises scores, so fields and couplings
change their sign.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from skcrbm.utils.validation import as_float_array


class LabelledModel(NamedTuple):
    """Arrays of a model whose variables have labels; the model has a score to be maximised."""

    labels: tuple[Hashable, ...]  # L distinct labels
    edges: np.ndarray  # (E, 2) int64: distinct pairs of variables
    weights: np.ndarray  # (E,) float64: coupling of each pair
    field: np.ndarray  # (L,) float64: field of each variable
    offset: float  # constant of the energy; the energy is `offset` minus the score


def model_of_energy(h: Any, J: Any, offset: float) -> LabelledModel:
    """Return the model for fields h and couplings J; see `SparseIsingEnergy.from_ising`."""
    if not hasattr(J, "items"):
        raise ValueError(f"J must be a mapping from pairs of labels to numbers, got {type(J)}")
    if hasattr(h, "items"):
        fields = list(h.items())
    else:
        fields = list(enumerate(as_float_array(h, "h", "(L,)").tolist()))
    (offset,) = _numbers("offset", [offset])
    linear = dict(fields)
    if len(linear) < len(fields):
        labels = [label for label, _ in fields]
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"h must hold each label once, but it holds {twice!r} twice")
    couplings = [(_pair_of_labels(pair), value) for pair, value in J.items()]
    pairs = [pair for pair, _ in couplings]
    for pair in pairs:
        for label in pair:
            linear.setdefault(label, 0.0)
    values = -_numbers("J", [value for _, value in couplings])
    return _labelled(linear, pairs, values, -_numbers("h", linear.values()), float(offset))


def model_of_bqm(bqm: Any) -> LabelledModel:
    """Return the model for a binary quadratic model; see `SparseIsingEnergy.from_bqm`."""
    kind = getattr(bqm, "vartype", None)
    kind = getattr(kind, "name", kind)
    if kind not in ("SPIN", "BINARY"):
        raise ValueError(
            "bqm must have the attributes linear, quadratic and offset, and the vartype SPIN or "
            f"BINARY, got {type(bqm).__name__} with vartype {kind!r}"
        )
    model = model_of_energy(bqm.linear, bqm.quadratic, bqm.offset)
    return model if kind == "SPIN" else _spins_for_bits(model)


def model_of_graph(graph: Any, weight: str, field: str) -> LabelledModel:
    """Return the model for a networkx graph; see `SparseIsingEnergy.from_networkx`."""
    if not hasattr(graph, "is_directed"):
        raise ValueError(f"graph must be a networkx.Graph, got {type(graph).__name__}")
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError(
            "graph must be undirected, with at most one edge for each pair; convert it with "
            "networkx.Graph(graph)"
        )
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    pairs = [(i, k) for i, k, _ in edges]
    named = [weight in given for *_, given in edges]
    if (any(named) or weight != "weight") and not all(named):
        raise ValueError(
            f"weight={weight!r} must be an attribute of all edges; edge "
            f"{pairs[named.index(False)]} does not have it"
        )
    if field != "field" and nodes and not any(field in given for _, given in nodes):
        raise ValueError(f"field={field!r} must be an attribute of nodes; no node has it")
    linear = {label: given.get(field, 0.0) for label, given in nodes}
    values = _numbers(
        f"the edge attribute {weight!r}", [given.get(weight, 1.0) for *_, given in edges]
    )
    fields = _numbers(f"the node attribute {field!r}", linear.values())
    return _labelled(linear, pairs, values, fields, 0.0)


def energy_of_model(
    labels: Iterable[Hashable], edges: np.ndarray, weights: np.ndarray, field: np.ndarray
) -> tuple[dict, dict]:
    """Return the fields h and couplings J as dicts; see `IsingEnergy.to_ising`."""
    labels = list(labels)
    h = dict(zip(labels, (-field.astype(np.float64)).tolist()))
    values = (-weights.astype(np.float64)).tolist()
    J = {(labels[i], labels[k]): value for (i, k), value in zip(edges.tolist(), values)}
    return h, J


def _pair_of_labels(pair):
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ValueError(f"J must have pairs of labels as keys, got {pair!r}")
    return pair


def _numbers(name, values):
    try:
        given = np.array(list(values))
        if given.dtype.kind not in "biufO" or given.ndim != 1:
            raise TypeError(f"values of type {given.dtype}")
        numbers = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite; it contains NaN or infinity")
    return numbers


def _labelled(linear, pairs, values, field, offset):
    """Return a `LabelledModel` whose variables are the keys of the dict `linear`.

    `pairs` lists pairs of keys, and `values` their couplings. The couplings of a repeated pair are
    added up.
    """
    number = {label: i for i, label in enumerate(linear)}
    ends = np.array([(number[i], number[k]) for i, k in pairs], np.int64).reshape(-1, 2)
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if len(loops):
        raise ValueError(
            f"a coupling must join two different labels, but a coupling joins "
            f"{pairs[loops[0]][0]!r} to itself (s s = 1 is a constant)"
        )
    edges, which = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), values, len(edges))
    return LabelledModel(tuple(linear), edges, weights, field, offset)


def _spins_for_bits(model):
    """Convert a model of 0/1 variables x to -1/+1 variables s, by substituting x = (s + 1) / 2."""
    quarter = model.weights / 4
    field = model.field / 2 + np.bincount(
        model.edges.ravel(), np.repeat(quarter, 2), len(model.field)
    )
    constant = model.field.sum() / 2 + quarter.sum()
    return model._replace(weights=quarter, field=field, offset=model.offset - constant)
