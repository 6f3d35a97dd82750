"""Cliques that a user lists, or asks for by their sizes."""

from itertools import chain, combinations
from math import comb

import numpy as np

# Cliques that an order may make: their index arrays take gigabytes beyond.
MAX_CLIQUES = 10**7


def cliques_of_sizes(n_variables, sizes, argument, of):
    """Return all cliques of these sizes, as a list of tuples.

    Parameters
    ----------
    n_variables : int
    sizes : range
    argument : str
        With its value, and `of` what the variables are; for the error.

    Raises
    ------
    ValueError
        If there are more than ten million.
    """
    n_cliques = sum(comb(n_variables, k) for k in sizes)
    if n_cliques > MAX_CLIQUES:
        raise ValueError(
            f"{argument} makes {n_cliques} cliques of {of}, more than {MAX_CLIQUES}; lower it, or "
            "list those that are wanted in cliques"
        )
    return list(chain.from_iterable(combinations(range(n_variables), k) for k in sizes))


def checked_cliques(cliques, n_variables, words, of):
    """Return listed cliques as a list of tuples of int.

    Parameters
    ----------
    cliques : object
    n_variables : int
    words : str
        What `cliques` must be.
    of : str
        What the variables are, as in "columns of X".

    Raises
    ------
    ValueError
        If they are no distinct sets of variables, at least one.
    """
    try:
        scopes = [np.asarray(scope) for scope in cliques]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{words}: {error}") from error
    found, seen = [], set()
    for j, scope in enumerate(scopes):
        whole = scope.ndim == 1 and scope.size > 0 and scope.dtype.kind in "iu"
        if not whole or scope.min() < 0 or scope.max() >= n_variables:
            raise ValueError(
                f"{words}; cliques[{j}] must hold numbers of {of}, from 0 to {n_variables - 1}; "
                f"got {scope.tolist()}"
            )
        clique = tuple(scope.tolist())
        if len(set(clique)) < len(clique) or frozenset(clique) in seen:
            raise ValueError(
                f"cliques must be distinct sets, each with one of the {of} once; cliques[{j}] is "
                f"{list(clique)}"
            )
        seen.add(frozenset(clique))
        found.append(clique)
    if not found:
        raise ValueError("cliques must hold at least one scope")
    return found
