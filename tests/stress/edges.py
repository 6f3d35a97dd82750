"""Models at the edge of the range of methods: ``python -m tests.stress.edges``.

The kinds of models are hubs with up to thousands of neighbours, trees with nearly equal scores,
penalties of 1e6 to 1e15, models whose factors contradict each other, and logic factors beside
tables over the same variables. Their exact answers are known without the library. Each case asks
all methods that can answer, and there must be no wrong answer without a word: exact methods are
exact, bounds hold, a gap is the bound minus the score, a converged answer on a tree is exact, and
no answer is NaN.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit, logsumexp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `reference`, as for the tests

from reference.integer_scores import IntegerScores
from sklearn.exceptions import ConvergenceWarning

from skcrbm.energies import (
    AndFactors,
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    SparseIsingEnergy,
    TableFactors,
)
from skcrbm.exceptions import InaccurateInferenceWarning
from skcrbm.inference import available_methods, infer
from skcrbm.inference.base import ContradictionError
from tests.stress._program import main

SEARCHES = "branch_and_bound", "milp", "map_search", "mplp", "linear_program"
LIMITS = {"map_search": {"max_nodes": 20_000}, "branch_and_bound": {"node_limit": 20_000}}


def _ask(energy, name, returns, **options):
    """Return the answer of a method, or None if the method cannot answer."""
    if name not in available_methods(energy, returns):
        return None
    return infer(energy, name, returns=returns, **{**LIMITS.get(name, {}), **options})


def _near(found, right, scale=1.0, share=1e-7):
    return abs(found - right) <= share * (scale + abs(right))


# ------------------------------------------------------------------------------------- hubs


def hub(rng):
    """A star, or a fan: a hub that is joined to each node of a chain."""
    n = int(rng.choice([30, 300, 1100, 3000]))
    fan = bool(rng.integers(2))
    scale = rng.choice([0.01, 0.3, 2.0])
    spokes = np.column_stack([np.zeros(n, int), np.arange(1, n + 1)])
    chain = np.column_stack([np.arange(1, n), np.arange(2, n + 1)]) if fan else np.empty((0, 2))
    edges = np.concatenate([spokes, chain]).astype(int)
    weights, field = rng.normal(0, scale, len(edges)), rng.normal(0, 0.5, (1, n + 1))
    if rng.random() < 0.5:
        energy = SparseIsingEnergy.from_edges(edges, weights, field)
    else:
        tables = weights[:, None] * np.array([1.0, -1.0, -1.0, 1.0])
        energy = FactorGraphEnergy([TableFactors(edges, tables)], 2 * field)
        energy.constant = -float(field.sum())
    # Given the hub, the other nodes are a chain: a product of 2 x 2 matrices.
    log_z, best = [], []
    for sign in (-1, 1):
        own = np.array([[-1.0], [1.0]]) * (field[0, 1:] + sign * weights[:n])
        logs = own[:, 0], own[:, 0]
        for i in range(1, n):
            pair = weights[n + i - 1] * np.array([[1.0, -1.0], [-1.0, 1.0]]) if fan else 0.0
            logs = (
                logsumexp(logs[0][:, None] + pair, axis=0) + own[:, i],
                (logs[1][:, None] + pair + np.zeros((2, 2))).max(axis=0) + own[:, i],
            )
        log_z.append(logsumexp(logs[0]) + sign * field[0, 0])
        best.append(logs[1].max() + sign * field[0, 0])
    total, chance, best = logsumexp(log_z), expit(log_z[1] - log_z[0]), max(best)
    failures = []

    def check(fine, name, text):
        if not fine:
            failures.append(f"{'fan' if fan else 'star'} of {n}, {scale}, {name}: {text}")

    returns = "marginals", "log_partition"
    for name in ("exact", "sum_product", "tree_reweighted", "mean_field"):
        found = _ask(energy, name, returns, **({} if name == "exact" else {"max_iter": 300}))
        z, p = found.log_partition[0], found.marginals[0, 0]
        check(np.isfinite(z) and 0 <= p <= 1, name, f"log Z {z}, marginal {p}")
        if name == "exact" or (name != "mean_field" and not fan and found.converged[0]):
            check(_near(z, total, share=1e-6), name, f"log Z {z} instead of {total}")
            check(abs(p - chance) <= 1e-4, name, f"marginal {p} instead of {chance}")
        if name == "mean_field":
            check(z <= total + 1e-6 * abs(total), name, f"lower bound {z} above {total}")
        if name == "tree_reweighted":
            check(z >= total - 1e-9 * (1 + abs(total)), name, f"bound {z} below {total}")
    for name in ("exact", "max_product", "map_search", "icm", "simulated_annealing"):
        found = _ask(energy, name, "map")
        if found is None:
            continue
        score = energy.score(found.assignment)[0]
        check(score <= best + 1e-9 * (1 + abs(best)), name, f"score {score} above {best}")
        if name == "exact" or (name == "max_product" and not fan):
            check(_near(score, best), name, f"score {score} instead of {best}")
    return failures


# --------------------------------------------------------------------------------- near ties


def near_ties(rng):
    """A tree of +1 and -1 couplings with fields of 1e-9 to 1e-5."""
    n = int(rng.integers(3, 10))
    edges = np.array([(i, rng.integers(i)) for i in range(1, n)])
    weights = rng.choice([-1.0, 1.0], n - 1)
    field = rng.choice([0.0, 1.0, 2.0, -1.0], (2, n)) * 10.0 ** rng.integers(-9, -4)
    kind = rng.integers(3)
    coupling = np.zeros((n, n))
    coupling[edges[:, 0], edges[:, 1]] = coupling[edges[:, 1], edges[:, 0]] = weights
    if kind == 0:
        energy = IsingEnergy(coupling, field)
    elif kind == 1:
        energy = SparseIsingEnergy.from_edges(edges, weights, field)
    else:
        tables = weights[:, None] * np.array([1.0, -1.0, -1.0, 1.0])
        energy = FactorGraphEnergy([TableFactors(edges, tables)], field)
    failures = []
    for name in available_methods(energy, "map"):
        if name in ("icm", "simulated_annealing", "perturb_and_map", "gibbs"):
            continue
        found = _ask(energy, name, "map")
        for m in range(2):
            below = IntegerScores(energy, m).below_best(found.assignment[m])
            sure = name in ("exact", "max_product") or (name in SEARCHES and found.converged[m])
            # A proof by floating point sums may miss differences at their rounding.
            if sure and below > (1e-12 if name in ("exact", "max_product") else 1e-6):
                failures.append(
                    f"{type(energy).__name__} of {n}, {name}: {below:.1e} below the best"
                )
    return failures


# --------------------------------------------------------------------------------- penalties


def penalties(rng):
    """An Ising model with constraints as large penalties: exactly k of n labels are +1."""
    n = int(rng.integers(4, 10))
    k, penalty = int(rng.integers(1, n)), 10.0 ** rng.integers(6, 16)
    coupling = np.full((n, n), -penalty / 2) + np.triu(rng.normal(size=(n, n)), 1)
    coupling = np.triu(coupling, 1)
    field = rng.normal(size=(1, n)) + penalty * (2 * k - n) / 2
    energy = IsingEnergy(coupling + coupling.T, field)
    exact = IntegerScores(energy, 0)
    # Sums of the penalties round to multiples of about this number.
    rounding = 64 * n**2 * np.finfo(float).eps * penalty
    failures = []
    for name in ("exact", *SEARCHES):
        returns = "map" if name == "exact" else ("map", "map_bound")
        try:
            found = _ask(energy, name, returns)
        except ValueError as error:  # a refusal is a word
            if "precision" not in str(error) and "large" not in str(error):
                failures.append(f"{name}, {penalty:.0e}: {error}")
            continue
        if found is None:
            continue
        below = exact.below_best(found.assignment[0])
        if name == "exact":
            if below > rounding:
                failures.append(f"{name}, {penalty:.0e}: {below:.2e} below the best")
            continue
        score, bound, gap = energy.score(found.assignment)[0], found.map_bound[0], found.gap[0]
        if abs(gap - (bound - score)) > rounding:
            failures.append(f"{name}, {penalty:.0e}: gap {gap}, bound minus score {bound - score}")
        if bound < exact.best_score - rounding:
            failures.append(f"{name}, {penalty:.0e}: bound {bound} below {exact.best_score}")
        if gap == 0 and below > rounding:
            failures.append(f"{name}, {penalty:.0e}: proven, but {below:.2e} below the best")
    return failures


# ---------------------------------------------------------------------------- contradictions


def contradictions(rng):
    """Factors that exclude all states: odd cycles of two colours, impossible states, evidence."""
    n = int(2 * rng.integers(1, 4) + 1)
    k = int(rng.integers(2, 4))
    differ = np.where(np.eye(k, dtype=bool), -np.inf, 0.0)
    ring = np.column_stack([np.arange(n), (np.arange(n) + 1) % n])
    kind = rng.integers(3)
    clamp = None
    field = np.zeros((1, n)) if k == 2 else np.zeros((1, n, k))
    if kind == 0 and k == 2:
        groups = [TableFactors(ring, np.tile(differ, (n, 1, 1)))]
    else:
        groups = [TableFactors(ring[:-1], np.tile(differ, (n - 1, 1, 1)))]
        if kind == 1:
            groups.append(TableFactors([[0]], np.full((1, k), -np.inf)))
        else:
            clamp = np.full(n, np.nan)
            clamp[:2] = 1
    energy = FactorGraphEnergy(groups, field)
    failures = []
    for name in ("exact", "sum_product", "tree_reweighted", "mean_field", "max_product", "gibbs"):
        for returns in ("log_partition", "marginals", "map"):
            if name not in available_methods(energy, returns):
                continue
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    found = infer(energy, name, returns=returns, clamp=clamp)
                except ContradictionError:
                    continue
            title = f"{name}, {returns}, kind {kind}, {n} of {k} states"
            if not caught:
                failures.append(f"{title}: no word")
            if found.converged.any():
                failures.append(f"{title}: converged")
            if found.log_partition is not None and found.log_partition[0] != -np.inf:
                failures.append(f"{title}: log Z {found.log_partition[0]}")
            arrays = [array for array in (found.marginals, found.log_odds) if array is not None]
            if any(np.isnan(array).any() for array in arrays):
                failures.append(f"{title}: NaN")
    return failures


# ------------------------------------------------------------------------------------- logic


def logic(rng):
    """A logic factor and tables over some of its variables: one cluster, so messages are exact."""
    m = int(rng.integers(2, 5))
    kind = OrFactors if rng.random() < 0.5 else AndFactors
    groups = [kind([list(range(m))], [m])]
    for _ in range(int(rng.integers(1, 3))):
        size = int(rng.integers(2, m + 2))
        scope = rng.permutation(m + 1)[:size].tolist()
        groups.append(TableFactors([scope], rng.normal(0, 1.5, (1, 2**size))))
    leaf = TableFactors([[m, m + 1]], rng.normal(0, 1.0, (1, 4)))
    energy = FactorGraphEnergy([*groups, leaf], rng.normal(0, 1.0, (2, m + 2)))
    failures = []
    for n in range(2):
        exact = IntegerScores(energy, n)
        for name in ("exact", "sum_product", "tree_reweighted"):
            found = infer(energy, name, returns=("marginals", "log_partition"))
            off = np.abs(found.marginals[n] - exact.marginals()).max()
            if found.converged[n] and off > 1e-4:
                failures.append(f"{name}, {kind.__name__} of {m}: marginals off by {off:.2e}")
        found = infer(energy, "max_product")
        below = exact.below_best(found.assignment[n])
        if found.converged[n] and below > 1e-9:
            failures.append(f"max_product, {kind.__name__} of {m}: {below:.2e} below the best")
    return failures


KINDS = near_ties, near_ties, penalties, penalties, contradictions, logic, logic, hub


def run_case(rng, case):
    """Draw a model of a kind, and return the failures."""
    kind = KINDS[case % len(KINDS)]
    with warnings.catch_warnings():
        if kind is not contradictions:
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", category=InaccurateInferenceWarning)
            warnings.filterwarnings("ignore", "'.*' has not converged", ConvergenceWarning)
            warnings.filterwarnings("ignore", "the states of .* have weight 0", UserWarning)
        return [f"{kind.__name__}: {line}" for line in kind(rng)]


if __name__ == "__main__":
    main("edges", run_case, 2000, __doc__)
