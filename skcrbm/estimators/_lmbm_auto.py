"""Which cliques LMBMClassifier has, and what "auto" stands for in its C and pairwise_penalty."""

from collections.abc import Set
from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skcrbm.learning.large_margin.path import LargeMarginSearch
from skcrbm.model_selection import MultilabelStratifiedKFold
from skcrbm.utils.fitting import LiveLine
from skcrbm.utils.graphs import checked_cliques, cliques_of_sizes
from skcrbm.utils.labels import may_be_empty, signs_of
from skcrbm.utils.limits import MAX_TABLE_VARIABLES

# Labels of the largest clique: its weight is a table of the energy.
MAX_ORDER = MAX_TABLE_VARIABLES
# C times the total variance of the columns, and eta / (C N), of sets with fewer rows than can
# choose; the search for C begins there.
_C, _RATIO, _FEW_ROWS = 3.0, 3.0, 50
# Share of entries that are not 0 up to which the sparse kernel is the faster one.
_MOSTLY_ZERO = 0.2
# Folds of a 5-fold split that validation goes through: until they have so many rows in all.
_N_FOLDS, _FOLD_ROWS = 5, 3000


class Settings(NamedTuple):
    """C and eta, and what the search for them leaves: None without one.

    Attributes
    ----------
    C, penalty : float
    tried : dict of ndarray, or None
    dual : ndarray (N, L) or None
        Where to start the fit from.
    """

    C: float
    penalty: float
    tried: dict | None = None
    dual: np.ndarray | None = None


def cliques_of(estimator):
    """Return the cliques of three labels and more, as tuples of label numbers.

    Raises
    ------
    ValueError
        If `cliques` is neither None, a size, nor a list of distinct sets of three to six labels, or
        if cliques are listed for 1-D y.
    """
    targets, cliques = estimator._targets, estimator.cliques
    n_labels = targets.n_visible
    words = (
        f"cliques must be None, an int from 2 to {MAX_ORDER}, or a list of sets of 3 to "
        f"{MAX_ORDER} labels"
    )
    if cliques is None:
        return []
    if isinstance(cliques, Integral):
        if isinstance(cliques, bool) or not 2 <= cliques <= MAX_ORDER:
            raise ValueError(f"{words}; got {cliques!r}")
        largest = min(int(cliques), n_labels) if targets.multilabel else 0
        return cliques_of_sizes(n_labels, range(3, largest + 1), f"cliques={cliques}", "labels")
    targets.require_multilabel("cliques")
    names = {} if targets.names is None else {str(n): i for i, n in enumerate(targets.names)}
    try:
        cliques = cliques if isinstance(cliques, Set) else list(cliques)
        by_number = [[_number(label, names) for label in clique] for clique in cliques]
    except TypeError as error:
        raise ValueError(f"{words}: {error}") from error
    found = checked_cliques(by_number, n_labels, words, "labels")
    wrong = [j for j, clique in enumerate(found) if not 3 <= len(clique) <= MAX_ORDER]
    if wrong:
        raise ValueError(
            f"{words}, as there are all pairs anyway; cliques[{wrong[0]}] is "
            f"{list(found[wrong[0]])}"
        )
    # Sets of names have another order in each process.
    found = [tuple(sorted(c)) if isinstance(g, Set) else c for c, g in zip(found, cliques)]
    return sorted(found) if isinstance(cliques, Set) else found


def _number(label, names):
    """Return the number of a label that may be given by its name."""
    if isinstance(label, str):
        if label not in names:
            raise ValueError(
                f"cliques names {label!r}, which is no label; labels are: "
                f"{', '.join(map(repr, names)) or 'numbers, as y has no names'}"
            )
        return names[label]
    return label


def settle(estimator, X, visible, weight, factors, columns, cliques, rng):
    """Return the `Settings` of a fit.

    Parameters
    ----------
    estimator : LMBMClassifier
    X : ndarray or CSR matrix (N, D)
        Scaled where C is to be found.
    visible : ndarray (N, L)
        0/1/NaN.
    weight : ndarray (N,)
    factors : ndarray (N, L) or (N, 1)
        By class_weight.
    columns : Columns or None
        None where C is given.
    cliques : list of tuples of int
        Of three labels or more.
    rng : RandomState
    """
    one_hot = estimator._targets.one_hot
    C, penalty = estimator.C, estimator.pairwise_penalty
    # Given the others, a one-hot label is certain: pairs would learn that alone.
    if one_hot or (visible.shape[1] == 1 and is_auto(penalty)):
        penalty = np.inf
    find_C, find_penalty = columns is not None, is_auto(penalty)
    if not find_C and not find_penalty:
        return Settings(C, penalty)
    if find_C:
        C = _C / columns.variance if columns.variance > 0 else _C
    if np.count_nonzero(~np.isnan(visible).all(axis=1)) < _FEW_ROWS:
        return Settings(C, _RATIO * C * weight.sum() if find_penalty else penalty)
    splitter = MultilabelStratifiedKFold(
        _N_FOLDS, shuffle=True, random_state=rng.randint(np.iinfo(np.int32).max)
    )
    n_folds = int(np.clip(_FOLD_ROWS // len(visible), 1, _N_FOLDS))
    rule = "map" if estimator.decode == "map" else "hinge"
    search = LargeMarginSearch(
        X,
        signs_of(visible),
        weight,
        factors,
        estimator.margin,
        "one_hot" if one_hot else rule,
        rule == "hinge" or may_be_empty(visible),
        cliques,
        list(splitter.split(visible, visible))[:n_folds],
        rng,
        estimator.n_jobs,
        lambda row: live.show(_told(row)),
    )
    live = LiveLine(estimator.verbose)
    try:
        if find_C:
            C = search.choose_C(C, np.inf if find_penalty else penalty)
        if find_penalty:
            penalty = search.choose_penalty(C)
    finally:
        live.end()
    tried = {name: np.array([row[name] for row in search.tried]) for name in search.tried[0]}
    return Settings(C, penalty, tried, search.start(C))


def without_zeros(X):
    """Return X in compressed rows if most of it is 0: its passes take less time."""
    if sparse.issparse(X) or np.count_nonzero(X) > _MOSTLY_ZERO * X.size:
        return X
    return sparse.csr_matrix(X)


def is_auto(value):
    """Whether a hyperparameter is left to `fit`."""
    return isinstance(value, str)


def _told(row):
    return (
        f"C {row['C']:.3g}  pairwise_penalty {row['pairwise_penalty']:.3g}  "
        f"Hamming {row['hamming']:.4f}  Jaccard {row['jaccard']:.4f}"
    )
