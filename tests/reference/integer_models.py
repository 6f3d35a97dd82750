"""Small models whose scores are integers, with many ties, and promises about their states."""

import warnings

import numpy as np
import pytest

from skcrbm.energies import FactorGraphEnergy
from skcrbm.inference import infer


def integer_model(seed):
    """A tree, or a graph with circles, of tables of -1, 0 and 1, and weights of 0 in some."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    n_states = [2, 2, 3, None][seed % 4]
    counts = rng.integers(1, 4, size=n) if n_states is None else np.full(n, n_states)
    is_tree = bool(rng.integers(2))
    scopes = [(int(rng.integers(v)), v) for v in range(1, n)]
    if not is_tree:
        sizes = rng.integers(1, min(n, 3) + 1, size=rng.integers(1, 2 * n))
        scopes = [tuple(rng.permutation(n)[:size].tolist()) for size in sizes]
    scopes = [tuple(rng.permutation(scope).tolist()) for scope in scopes]
    tables = [rng.integers(-1, 2, size=counts[list(scope)]).astype(float) for scope in scopes]
    if rng.integers(3) == 0:
        for table in tables:
            table[rng.random(table.shape) < 0.2] = -np.inf
    energy = FactorGraphEnergy.from_tables(scopes, tables, n_states=counts.tolist(), n_variables=n)
    return energy, is_tree


def check_max_product(energy, is_tree):
    """Max-product is exact on trees, and elsewhere not worse than "icm"; weight 0 warns."""
    try:
        best = energy.score(infer(energy, "exact", returns="map").assignment)
    except ValueError:  # no state of positive weight
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = infer(energy, "max_product")
        ascent = energy.score(infer(energy, "icm").assignment)
    score = energy.score(found.assignment)
    assert score >= ascent - 1e-9
    assert score > -np.inf or any("have weight 0" in str(w.message) for w in caught)
    if is_tree:
        assert found.converged
        assert score == pytest.approx(best)


def check_bounds(energy):
    """States of "mplp" and "linear_program" are local optima, and not worse than "icm"."""
    counts = energy.state_counts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ascent = energy.score(infer(energy, "icm").assignment)
        answers = [infer(energy, method) for method in ("mplp", "linear_program")]
    for found in answers:
        state = found.assignment.astype(int)
        score = energy.score(state)
        assert (score >= ascent - 1e-9).all()
        assert (found.map_bound >= score - 1e-9).all()
        for v, count in enumerate(counts):
            for k in range(count):
                other = state.copy()
                other[:, v] = k
                assert (energy.score(other) <= np.maximum(score, -1e300) + 1e-9).all()
    return answers
