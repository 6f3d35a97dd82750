"""Summarise a set of label vectors in words."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np


class LabelSetSummary(NamedTuple):
    """Summary of a set of label vectors; ``str(summary)`` is a sentence.

    Attributes
    ----------
    on : list
        Names of the labels that are on in every vector of the set.
    off : list
        Names of the labels that are off in every vector.
    open : list
        Names of the other labels.
    relations : list of str
        Relations of two open labels that hold in every vector, such as "B and D, not both".
    n_vectors : int
        Number of label vectors in the set.
    text : str
        Summary as text, such as "on: A; off: C, E; open: B and D, not both".
    """

    on: list
    off: list
    open: list
    relations: list
    n_vectors: int
    text: str

    def __str__(self):
        return self.text


def summarize(vectors, names, max_relations):
    """Return the `LabelSetSummary` of a set of K vectors of L labels, an array (K, L)."""
    vectors = vectors.astype(bool)
    if not len(vectors):
        return LabelSetSummary([], [], [], [], 0, "no label vector")
    always, never = vectors.all(axis=0), ~vectors.any(axis=0)
    opened = np.flatnonzero(~always & ~never)
    relations, related = [], set()
    for i, k in combinations(opened, 2):
        text = _relation(vectors[:, i], vectors[:, k], names[i], names[k])
        if text is not None and len(relations) < max_relations:
            relations.append(text)
            related |= {i, k}
    alone = [str(names[i]) for i in opened if i not in related]
    parts = []
    if always.any():
        parts.append("on: " + _listed(always, names))
    if never.any():
        parts.append("off: " + _listed(never, names))
    if len(opened):
        parts.append("open: " + "; ".join([", ".join(alone)] * bool(alone) + relations))
    pick = [[names[i] for i in np.flatnonzero(mask)] for mask in (always, never)]
    return LabelSetSummary(
        *pick, [names[i] for i in opened], relations, len(vectors), "; ".join(parts)
    )


def _relation(first, second, name, other):
    """Describe the relation of two open labels, or return None if all combinations occur."""
    both, neither = (first & second).any(), (~first & ~second).any()
    only_first, only_second = (first & ~second).any(), (~first & second).any()
    if not both and not neither:
        return f"either {name} or {other}"
    if not only_first and not only_second:
        return f"{name} and {other}, both or neither"
    if not both:
        return f"{name} and {other}, not both"
    if not neither:
        return f"{name} or {other}, or both"
    if not only_first:
        return f"{name} only with {other}"
    if not only_second:
        return f"{other} only with {name}"
    return None


def _listed(mask, names):
    """Return the names for which `mask` is True as text, such as "A, C to F".

    Three or more successive names are written as the first and the last name, joined by "to".
    """
    parts, i = [], 0
    while i < len(mask):
        if not mask[i]:
            i += 1
            continue
        end = i
        while end + 1 < len(mask) and mask[end + 1]:
            end += 1
        if end - i > 1:
            parts.append(f"{names[i]} to {names[end]}")
        else:
            parts += [str(name) for name in names[i : end + 1]]
        i = end + 1
    return ", ".join(parts)
