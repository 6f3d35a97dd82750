"""Convert weighted clauses to cliques with product features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from skcrbm.energies import FactorGraphEnergy
from skcrbm.energies.cliques import clique_energy
from skcrbm.utils.pickling import Versioned
from skcrbm.utils.validation import as_real

# Largest number of literals in a clause. A longer clause raises a ValueError, because k literals
# give 2^k - 1 cliques.
_MAX_LITERALS = 16


@dataclass
class ClauseCliques(Versioned):
    """Weighted clauses as cliques, made by `from_clauses`.

    Attributes
    ----------
    cliques : list of tuples of int
        Distinct subsets of the variables of the clauses, ordered by size. Variables are numbered
        from 0.
    ties : CSR matrix (n_cliques, n_formulas)
        Matrix that turns the weights w of formulas into the weights ``ties @ w`` of cliques. It can
        be passed to `LargeMarginMarkovNetwork` as `ties`.
    weights : ndarray (n_cliques,)
        Weights of the cliques, for the given weights of clauses or formulas.
    constant : float
        Constant term: the total weight of all true clauses is ``constant + sum_j weights_j prod_{i
        in C_j} v_i``, where C_j are the cliques and v_i is -1 or +1.
    n_variables : int
        Number of variables.

    Examples
    --------
    >>> from skcrbm.density import LargeMarginMarkovNetwork, from_clauses
    >>> found = from_clauses([[-1, 2], [-2, 3]], [1.0], formulas=[0, 0])
    >>> found.energy().score([[1, 1, 0]]) + found.constant  # one clause of two is true
    array([1.])
    >>> LargeMarginMarkovNetwork(found.cliques, ties=found.ties).fit([[0, 1, 1]]).group_weights_
    array([0.5])
    """

    _warns_of_version = False

    cliques: list[tuple[int, ...]]
    ties: sparse.csr_matrix
    weights: np.ndarray
    constant: float
    n_variables: int

    def energy(self) -> FactorGraphEnergy:
        """Return the model ``p(x) ∝ exp(total weight of the true clauses)``.

        Returns
        -------
        FactorGraphEnergy
            Energy whose scores do not include `constant`.

        Raises
        ------
        ValueError
            If the tables of all cliques together would have more than 2^26 entries. The table of a
            clique of k variables has 2^k entries.
        """
        return clique_energy(self.cliques, self.weights, self.n_variables)


def from_clauses(
    clauses: Sequence[Sequence[int]],
    weights: ArrayLike,
    n_variables: int | None = None,
    formulas: ArrayLike | None = None,
) -> ClauseCliques:
    """Turn weighted clauses (a ground Markov logic network) into cliques of -1/+1 variables.

    A clause C of k literals is false only if all its literals are false. With v in {-1, +1} and the
    sign s_i of literal i, the truth value of C is ``1 - prod_i (1 - s_i v_i) / 2``. So a clause of
    weight w adds ``w (-1)^(|A| + 1) 2^-k prod_{i in A} s_i`` to the weight of every nonempty set A
    of its variables, and ``w (1 - 2^-k)`` to the constant [1]_ (Remark 2.2, with corrected signs
    and indices).

    Parameters
    ----------
    clauses : sequence of sequences of int
        Literals as in the DIMACS format: literal i is true if the variable in column i - 1 is 1,
        and literal -i if the variable is 0. Repeated literals count once. A clause with both i and
        -i is always true.
    weights : array-like (n_clauses,) or (n_formulas,)
        Weights of the clauses, or weights of the formulas if `formulas` is given.
    n_variables : int, default=None
        Number of variables. If None, it is the largest number of a variable in the clauses.
    formulas : array-like of int (n_clauses,), default=None
        Index, from 0, of the first-order formula that each clause instantiates. All clauses of a
        formula have its weight. If None, every clause has its own weight.

    Returns
    -------
    ClauseCliques
        Cliques, their weights, and the ties between cliques of the same formula.

    Raises
    ------
    ValueError
        If a clause is empty, has more than 16 literals or a literal that is not a nonzero int, or
        if the number of weights is wrong.

    References
    ----------
    .. [1] Miao and Rao (2009). Large margin Boltzmann machines. IJCAI.

    Examples
    --------
    >>> from skcrbm.density import from_clauses
    >>> implies = from_clauses([[-1, 2]], [4.0])  # x_0 implies x_1
    >>> implies.cliques, implies.weights, implies.constant
    ([(0,), (1,), (0, 1)], array([-1.,  1.,  1.]), 3.0)
    """
    if not isinstance(clauses, Iterable):
        raise ValueError(f"clauses must be a sequence of sequences of ints; got {clauses!r}")
    literals = [_literals(clause, c) for c, clause in enumerate(clauses)]
    named = max((max(abs(i) for i in clause) for clause in literals), default=0)
    if n_variables is None:
        n_variables = named
    if not isinstance(n_variables, Integral) or isinstance(n_variables, bool) or n_variables < 0:
        raise ValueError(f"n_variables must be an int or None, got {n_variables!r}")
    if named > n_variables:
        raise ValueError(f"clauses name variable {named}, but n_variables is {n_variables}")
    formulas = _formulas(formulas, len(literals))
    n_formulas = int(formulas.max(initial=-1)) + 1
    weights = as_real(weights, "weights", f"({n_formulas},)").astype(np.float64)
    if weights.shape != (n_formulas,) or not np.isfinite(weights).all():
        raise ValueError(
            f"weights must hold {n_formulas} finite numbers, one for each "
            f"{'clause' if n_formulas == len(literals) else 'formula'}; got {weights.shape}"
        )
    found, constant = {}, 0.0
    for clause, formula in zip(literals, formulas.tolist(), strict=True):
        share = 0.0 if _is_tautology(clause) else 2.0 ** -len(clause)
        constant += weights[formula] * (1 - share)
        if share == 0:
            continue
        literals = sorted(clause, key=abs)
        for size in range(1, len(clause) + 1):
            for part in combinations(literals, size):
                sign = -1 if (size + 1 + sum(i < 0 for i in part)) % 2 else 1
                place = tuple(abs(i) - 1 for i in part), formula
                found[place] = found.get(place, 0.0) + sign * share
    cliques = sorted({clique for clique, _ in found}, key=lambda clique: (len(clique), clique))
    number = {clique: j for j, clique in enumerate(cliques)}
    rows = [number[clique] for clique, _ in found]
    columns = [formula for _, formula in found]
    shape = len(cliques), n_formulas
    ties = sparse.csr_matrix((list(found.values()), (rows, columns)), shape=shape, dtype=np.float64)
    return ClauseCliques(cliques, ties, ties @ weights, float(constant), int(n_variables))


def _literals(clause, c):
    """Return the distinct literals of clause number c."""
    if not isinstance(clause, Iterable):
        raise ValueError(
            f"clauses must be a sequence of sequences of ints; clauses[{c}] is {clause!r}"
        )
    literals = set()
    for i in clause:
        if not isinstance(i, Integral) or isinstance(i, bool) or i == 0:
            raise ValueError(f"clauses[{c}] must hold nonzero ints; got {i!r}")
        literals.add(int(i))
    if not 1 <= len(literals) <= _MAX_LITERALS:
        raise ValueError(
            f"clauses[{c}] must hold 1 to {_MAX_LITERALS} literals, because k literals give 2^k - "
            f"1 cliques; got {len(literals)}"
        )
    return literals


def _is_tautology(clause):
    return any(-i in clause for i in clause)


def _formulas(formulas, n_clauses):
    """Return the index (n_clauses,) of the formula of each clause."""
    if formulas is None:
        return np.arange(n_clauses)
    words = f"formulas must be {n_clauses} ints, one for each clause"
    try:
        formulas = np.asarray(formulas)
    except ValueError as error:  # lists of different lengths
        raise ValueError(words) from error
    if formulas.shape != (n_clauses,) or (formulas.size and formulas.dtype.kind not in "iu"):
        raise ValueError(words)
    if formulas.min(initial=0) < 0:
        raise ValueError(f"formulas must be numbered from 0; got {formulas.min()}")
    return formulas.astype(np.int64)
