"""Generate factor graphs and Ising models with a known distribution."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Real

import numpy as np
from sklearn.utils import check_random_state

from skcrbm.energies import FactorGraphEnergy, IsingEnergy, SparseIsingEnergy
from skcrbm.utils.validation import check_count


def make_random_factor_graph(
    n_variables: int, random_state: int | np.random.RandomState | None = None
) -> FactorGraphEnergy:
    """Draw a Markov random field of random tables.

    The model has between n and 2 n tables of one to six variables each. Half of the entries are
    weights in (0, 1). The other half are larger by a random number between 10 and 1000 [1]_.

    Parameters
    ----------
    n_variables : int
        Number n of variables, at least 6.
    random_state : int, RandomState or None, default=None
        Seed of the random numbers.

    Returns
    -------
    energy : FactorGraphEnergy
        Energy of the random field.

    Raises
    ------
    ValueError
        If `n_variables` is less than 6.

    References
    ----------
    .. [1] Ding and Xue (2020). Contrastive divergence learning with chained belief
       propagation. PGM.

    Examples
    --------
    >>> from skcrbm.datasets import make_random_factor_graph
    >>> from skcrbm.inference import infer
    >>> energy = make_random_factor_graph(10, random_state=0)
    >>> infer(energy, "exact").marginals.shape
    (1, 10)
    """
    n = check_count("n_variables", n_variables, 6)
    rng = check_random_state(random_state)
    scopes, tables = [], []
    for _ in range(rng.randint(n, 2 * n + 1)):
        scopes.append(np.sort(rng.permutation(n)[: rng.randint(1, 7)]))
        size = 2 ** len(scopes[-1])
        weights = rng.uniform(0, 1, size)
        weights += rng.randint(2, size=size) * rng.uniform(10, 1000, size)
        tables.append(np.log(weights))
    return FactorGraphEnergy.from_tables(scopes, tables, n_variables=n)


def make_structured_sequences(n_variables: int) -> tuple[np.ndarray, np.ndarray]:
    """List the 0/1 sequences with exactly three 1s in every window.

    A window consists of five successive variables. A window begins at every second variable, so
    neighbouring windows share three variables [1]_. (The paper says six variables instead of five.)

    Parameters
    ----------
    n_variables : int
        Length of the sequences, odd and at least 5.

    Returns
    -------
    scopes : ndarray of int (n_windows, 5)
        Variables of each window.
    sequences : ndarray of int8 (M, n_variables)
        All M sequences, in binary order.

    Raises
    ------
    ValueError
        If `n_variables` is even or less than 5.

    References
    ----------
    .. [1] Ding and Xue (2020). Contrastive divergence learning with chained belief
       propagation. PGM.

    Examples
    --------
    >>> from skcrbm.datasets import make_structured_sequences
    >>> scopes, sequences = make_structured_sequences(7)
    >>> scopes.tolist()
    [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]]
    >>> sequences.shape
    (16, 7)
    """
    n = check_count("n_variables", n_variables, 5)
    if n % 2 == 0:
        raise ValueError(
            f"n_variables must be odd, as a window begins at every second variable; got {n}"
        )
    scopes = np.arange(0, n - 4, 2)[:, None] + np.arange(5)
    windows = np.array([w for w in itertools.product((0, 1), repeat=5) if sum(w) == 3], np.int8)
    sequences = windows
    for _ in scopes[1:]:
        longer = []
        for tail in np.unique(windows[:, :3], axis=0):
            heads = sequences[(sequences[:, -3:] == tail).all(axis=1)]
            more = windows[(windows[:, :3] == tail).all(axis=1)][:, 3:]
            longer.append(
                np.hstack([np.repeat(heads, len(more), 0), np.tile(more, (len(heads), 1))])
            )
        sequences = np.concatenate(longer)
    return scopes, sequences[np.lexsort(sequences.T[::-1])]


def make_ising_lattice(
    shape: Sequence[int], coupling: float, *, periodic: bool = True
) -> IsingEnergy:
    """Make an Ising model without fields on a lattice.

    The energy is ``-E(y) = coupling * sum of y_i y_k over neighbours``, with y in -1/+1.

    Parameters
    ----------
    shape : tuple of int
        Sides of the lattice, of any number of dimensions. Variables are in C order.
    coupling : float
        Coupling of every pair of neighbours.
    periodic : bool, default=True
        If True, the first and the last variable along each side are neighbours. A side of length 2
        has a single pair in both cases.

    Returns
    -------
    energy : IsingEnergy
        Energy of the lattice.

    Raises
    ------
    ValueError
        If `shape` is not a tuple of positive ints, or `coupling` is not finite.

    Examples
    --------
    >>> from skcrbm.datasets import make_ising_lattice
    >>> from skcrbm.inference import infer
    >>> energy = make_ising_lattice((5, 5), -0.2)
    >>> infer(energy, "exact", returns="log_partition").log_partition.round(5)
    array([18.35759])
    """
    sides = tuple(shape) if np.iterable(shape) else ()
    if not sides:
        raise ValueError(f"shape must be a tuple of sides, got {shape!r}")
    sides = tuple(check_count("shape", side, 1) for side in sides)
    if not isinstance(coupling, Real) or not np.isfinite(coupling):
        raise ValueError(f"coupling must be a finite number, got {coupling!r}")
    number = np.arange(np.prod(sides)).reshape(sides)
    edges = []
    for axis, side in enumerate(sides):
        along = np.moveaxis(number, axis, 0)
        edges.append(np.stack([along[:-1].ravel(), along[1:].ravel()], axis=1))
        if periodic and side > 2:
            edges.append(np.stack([along[0].ravel(), along[-1].ravel()], axis=1))
    edges = np.concatenate(edges)
    return SparseIsingEnergy.from_edges(edges, float(coupling), np.zeros(number.size))


def make_random_ising(
    n_variables: int,
    *,
    mean_degree: float | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> IsingEnergy:
    """Draw an Ising model with random couplings [1]_.

    If `mean_degree` is None, all pairs are coupled, each coupling is the sum of two uniform random
    numbers from [-2, 2], and each field is a uniform random number from [-0.1, 0.1]. Otherwise a
    pair is coupled with probability ``mean_degree / n``, couplings are standard normal, and all
    fields are 0.1.

    Parameters
    ----------
    n_variables : int
        Number n of variables, at least 1.
    mean_degree : float, default=None
        Average number of neighbours of a variable, at most n; None joins all pairs.
    random_state : int, RandomState or None, default=None
        Seed of the random numbers.

    Returns
    -------
    energy : IsingEnergy
        Energy ``-E(y) = f' y + sum_(i<k) s_ik y_i y_k`` with the fields f and the couplings s_ik,
        a sparse energy if `mean_degree` is given. The matrix W of the paper is half of the matrix
        S of all s_ik, because the paper counts every pair twice.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    .. [1] Lazaro-Gredilla, Dedieu and George (2021). Perturb-and-max-product: sampling and
       learning in discrete energy-based models. NeurIPS.

    Examples
    --------
    >>> from skcrbm.datasets import make_random_ising
    >>> make_random_ising(10, random_state=0).coupling.shape
    (10, 10)
    >>> make_random_ising(200, mean_degree=4, random_state=0).n_variables
    200
    """
    n = check_count("n_variables", n_variables, 1)
    rng = check_random_state(random_state)
    if mean_degree is None:
        half = np.triu(rng.uniform(-2, 2, (2, n, n)).sum(axis=0), 1)
        return IsingEnergy(half + half.T, rng.uniform(-0.1, 0.1, n))
    if not isinstance(mean_degree, Real) or not 0 <= mean_degree <= n:
        raise ValueError(f"mean_degree must be a number from 0 to {n}, got {mean_degree!r}")
    edges = np.argwhere(np.triu(rng.uniform(size=(n, n)) < mean_degree / n, 1))
    return SparseIsingEnergy.from_edges(edges, rng.normal(size=len(edges)), np.full(n, 0.1))
