"""Summarise a set of label vectors in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Draws from a set may lack a combination of two labels by chance. Therefore a relation of the two
# labels is reported only if it is unlikely to arise by chance: if the labels were independent, the
# combination that the relation excludes would occur in at least this number of draws on average.
_EXPECTED_DRAWS = 20
# Largest number of open labels without a relation that are named in the text.
_MAX_NAMED = 20


class LabelSetSummary(NamedTuple):
    """Summary of a set of label vectors; ``str(summary)`` is a sentence.

    Attributes
    ----------
    on : list
        Names of the labels that are on in every vector of the set.
    off : list
        Names of the labels that are off in every vector.
    open : list
        Names of the labels that are neither in `on` nor in `off`.
    relations : list of str
        Relations of two open labels that hold in every vector, such as "B and D, not both".
    n_vectors : int or float
        Number of label vectors in the set; an estimate if `n_draws` is not 0.
    n_draws : int
        0 if the summary describes all vectors of the set. If there are too many labels to list all
        vectors, the summary describes draws from the set. `n_draws` is then the number of draws,
        and "every vector" above means every draw.
    text : str
        Summary as text, such as "on: A; off: C, E; open: B and D, not both".
    """

    on: list
    off: list
    open: list
    relations: list
    n_vectors: float
    n_draws: int
    text: str

    def __str__(self):
        return self.text


def summarize(vectors, names, max_relations, n_vectors=None):
    """Return the `LabelSetSummary` of a set of K vectors of L labels, an array (K, L).

    If `n_vectors` is given, it is the estimated number of vectors in the set, and the K vectors are
    draws from the set. Of the open labels without a relation, the text then names at most 20: the
    labels that are most uncertain, because they are on in about half of the draws.
    """
    vectors, drawn = vectors.astype(bool), n_vectors is not None
    size, n_draws = (n_vectors, len(vectors)) if drawn else (len(vectors), 0)
    if not len(vectors):
        every = list(names) if drawn else []
        text = "no draw is in the set" if drawn else "no label vector"
        return LabelSetSummary([], [], every, [], size, 0, text)
    always, never = vectors.all(axis=0), ~vectors.any(axis=0)
    opened = np.flatnonzero(~always & ~never)
    least = _EXPECTED_DRAWS if drawn else 0
    relations, related = _relations(vectors, opened, names, max_relations, least)
    alone = np.array([i for i in opened if i not in related], int)
    parts, more = [], ""
    if drawn and len(alone) > _MAX_NAMED:
        more = f" and {len(alone) - _MAX_NAMED} more"
        order = np.argsort(np.abs(vectors[:, alone].mean(axis=0) - 0.5), kind="stable")
        alone = np.sort(alone[order[:_MAX_NAMED]])
    if always.any():
        parts.append("on: " + _listed(always, names))
    if never.any():
        parts.append("off: " + _listed(never, names))
    if len(opened):
        single = ", ".join(str(names[i]) for i in alone) + more
        parts.append("open: " + "; ".join([single] * bool(len(alone)) + relations))
    if drawn:
        parts.append(f"in all of {n_draws} draws from the set")
    pick = [[names[i] for i in np.flatnonzero(mask)] for mask in (always, never)]
    opened = [names[i] for i in opened]
    return LabelSetSummary(*pick, opened, relations, size, n_draws, "; ".join(parts))


def _relations(vectors, opened, names, limit, least):
    """Return the relations of two open labels as text, up to a limit, and the labels in them.

    `vectors` is (K, L). A relation is reported only if it excludes a combination of the two labels
    that at least `least` of the K vectors would have on average if the labels were independent.
    """
    on = vectors[:, opened].astype(float)
    sides = on, 1 - on
    relations: list = []
    related: set = set()
    # counts[a][b] (M, M): number of vectors with the first label on (a = 0) or off (a = 1), and the
    # second label on (b = 0) or off (b = 1)
    counts = np.array([[first.T @ second for second in sides] for first in sides])
    total = np.array([side.sum(axis=0) for side in sides])
    expected = total[:, None, :, None] * total[None, :, None, :] / len(vectors)
    lacking = np.triu(((counts == 0) & (expected >= least)).any(axis=(0, 1)), 1)
    for i, k in zip(*np.nonzero(lacking)):
        if len(relations) == limit:
            break
        (both, only_first), (only_second, neither) = counts[:, :, i, k] > 0
        pair = opened[i], opened[k]
        found = both, neither, only_first, only_second
        relations.append(_relation(*found, *(names[j] for j in pair)))
        related.update(pair)
    return relations, related


def _relation(both, neither, only_first, only_second, name, other):
    """Describe the relation of two open labels; at least one of the four bools is False."""
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
    return f"{other} only with {name}"


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
