"""`sample`: states drawn from a batch of models."""

from itertools import count
from numbers import Integral

import numpy as np
from scipy.special import expit

from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference._gibbs import gibbs_sweep, start_chains
from skcrbm.inference._infer import check_clamp
from skcrbm.inference._ising_sample import enumerated_samples, ising_sweeps
from skcrbm.inference._random import uniforms
from skcrbm.inference._registry import SAMPLERS
from skcrbm.utils._parallel import one_blas_thread, ordered_map, row_chunks
from skcrbm.utils._random import random_key

_BLOCK_UNITS = 2**20
_MAX_CHAINS = 100


def sample(
    energy,
    method="gibbs",
    *,
    n_samples=1,
    burn_in=100,
    thin=1,
    n_chains=None,
    clamp=None,
    n_jobs=None,
    random_state=None,
):
    """Draw joint states from each of N models.

    Parameters
    ----------
    energy : RBMEnergy or IsingEnergy
    method : {"gibbs", "exact"}, default="gibbs"
        Gibbs chains (block by block, or label by label), or independent samples by
        enumerating the smaller layer, or all labels; 20 units at most.
    n_samples : int, default=1
        Samples of each model.
    burn_in : int, default=100
        Gibbs sweeps before the first sample of a chain.
    thin : int, default=1
        Sweeps between two samples of a chain.
    n_chains : int or None, default=None
        Chains of each model, advanced side by side; sample s comes from chain
        ``s % n_chains``, so samples of one chain are `n_chains` apart. None:
        ``min(n_samples, 100)``.
    clamp : array-like (N, V + H) or (V + H,), default=None
        0 or 1 fixes a unit, NaN leaves it free.
    n_jobs : int or None, default=None
        Threads over the models; the samples do not depend on it.
    random_state : int, RandomState or None, default=None
        Every model of the batch has random numbers of its own.

    Returns
    -------
    ndarray of int8 (N, n_samples, V + H)
        0/1 states, visible units first. Of Ising models (N, n_samples, L), 0 for y = -1.

    Raises
    ------
    ValueError
        On an unknown method or an invalid option, naming what is possible.

    Examples
    --------
    >>> from skcrbm.energies import RBMEnergy
    >>> from skcrbm.inference import sample
    >>> energy = RBMEnergy([[2.0], [2.0]], [-1.0, -1.0], [0.0])
    >>> sample(energy, n_samples=500, random_state=0).shape
    (1, 500, 3)
    """
    draw = SAMPLERS.get(method, "method")
    if type(energy) not in (RBMEnergy, IsingEnergy):
        raise ValueError(
            f"{method!r} samples from RBMEnergy and IsingEnergy, not {type(energy).__name__}"
        )
    for name, value, low in (
        ("n_samples", n_samples, 1),
        ("burn_in", burn_in, 0),
        ("thin", thin, 1),
        ("n_chains", 1 if n_chains is None else n_chains, 1),
    ):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
            raise ValueError(f"{name} must be an int of at least {low}, got {value!r}")
    key = random_key(random_state)
    conditioned = None
    if clamp is not None:
        with one_blas_thread():
            conditioned = energy.condition(check_clamp(clamp, energy))
        energy = conditioned.energy
    out = np.empty((energy.n_models, n_samples, energy.n_variables), np.int8)
    options = {
        "burn_in": burn_in,
        "thin": thin,
        "n_chains": min(n_samples, _MAX_CHAINS if n_chains is None else n_chains),
    }
    with one_blas_thread():
        draw(energy, out, key, n_jobs, **options)
    if conditioned is not None:
        values = conditioned.values.astype(np.int8)[:, None, :]
        out[...] = np.where(conditioned.clamped[:, None, :], values, out)
    return out


def sample_gibbs(energy, out, key, n_jobs, *, burn_in, thin, n_chains):
    """Fill out (N, n_samples, V + H); every model and chain has random numbers of its own."""
    n, n_samples, n_variables = out.shape
    sweeps = ising_sweeps if isinstance(energy, IsingEnergy) else _rbm_sweeps

    def run(rows):
        streams = np.arange(rows.start * n_chains, rows.stop * n_chains)
        states = sweeps(energy.rows(rows), n_chains, key, streams)
        for first in range(0, n_samples, n_chains):
            for _ in range(thin if first else burn_in + 1):
                state = next(states)
            last = min(first + n_chains, n_samples)
            out[rows, first:last] = state[:, : last - first]

    size = max(1, _BLOCK_UNITS // max(1, n_chains * n_variables))
    for _ in ordered_map(run, row_chunks(n, size), n_jobs):
        pass


def _rbm_sweeps(energy, n_chains, key, streams):
    """Yield the states (N, C, V + H) of the chains after each sweep."""
    hidden = start_chains(energy, n_chains, key, streams)
    for step in count(1):
        sweep = gibbs_sweep(energy, hidden, key, streams, step)
        hidden = sweep.hidden
        yield np.concatenate([sweep.visible, hidden], axis=2)


def sample_exact(energy, out, key, n_jobs, **_):
    """Fill out (N, n_samples, V + H) with independent samples; options of chains do not matter."""
    n_samples, n_visible = out.shape[1], energy.n_visible
    if isinstance(energy, IsingEnergy):
        for row in range(energy.n_models):
            out[row] = enumerated_samples(energy, row, key, n_samples)
        return
    visible_first = n_visible < energy.n_hidden
    own, other = energy.fields if visible_first else energy.fields[::-1]
    coupling = (energy.weights if visible_first else energy.weights.T).astype(np.float64)
    k, m = coupling.shape
    if k > 20:
        raise ValueError(
            f"'exact' enumerates the smaller layer, which has {k} units; the limit is 20. "
            "Use 'gibbs'"
        )
    size = max(1, _BLOCK_UNITS // max(1, k + m))

    def bits(numbers):
        return ((numbers[:, None] >> np.arange(k)) & 1).astype(np.float64)

    def run(rows):
        n = rows.start
        score = np.empty(2**k)
        for block in row_chunks(2**k, size):
            states = bits(np.arange(block.start, block.stop))
            softplus = np.logaddexp(0, other[n] + states @ coupling)
            score[block] = states @ own[n].astype(np.float64) + softplus.sum(1)
        mass = np.cumsum(np.exp(score - score.max()))
        u = uniforms(key, [n], 0, n_samples)[0]
        states = bits(np.searchsorted(mass, u * mass[-1]).clip(0, 2**k - 1))
        u = uniforms(key, [n], 1, n_samples * m).reshape(n_samples, m)
        parts = [states, u < expit(other[n] + states @ coupling)]
        out[n] = np.concatenate(parts if visible_first else parts[::-1], axis=1)

    for _ in ordered_map(run, row_chunks(energy.n_models, 1), n_jobs):
        pass
