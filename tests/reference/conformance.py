"""Promises of every energy, checked against enumeration by plain loops.

A kind of energy is described by a `Case`. Each function ``check_*(case, ...)`` compares some of its
members with sums over all states of a naive score. The answers of inference methods are checked by
`reference.proofs`.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from reference.poison import is_poisoned, poison_modules
from reference.states import all_states
from skcrbm.inference import ICM, available_methods, infer
from skcrbm.inference.registry import METHODS


@dataclass(frozen=True)
class Case:
    """A kind of energy, with a naive score and the expected structure.

    Attributes
    ----------
    name : str
    make : callable
        ``make(seed, n_models, scale, dtype)`` -> energy without evidence, of a few variables.
    score : callable
        ``score(energy, n, state)`` -> -E of one 0/1 state of model n, by plain arithmetic; -inf
        for a state that does not exist.
    statistics : callable
        ``statistics(energy, state)`` -> tuple of arrays, of one state.
    tree : callable or None
        As `make`, of models without loops.
    connected : bool
        Whether flips of one variable at a time lead from any possible state to any other, as
        Gibbs chains need.
    independent : bool
        Whether the variables are independent if `scale` is 0.
    column : bool
        Whether the case has a column in the printed table and runs with the quick tests.
    """

    name: str
    make: Callable
    score: Callable
    statistics: Callable
    tree: Callable | None = None
    connected: bool = True
    independent: bool = True
    column: bool = True


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def counts_of(energy):
    """Number of states of each variable."""
    return getattr(energy, "state_counts", np.full(energy.n_variables, 2))


def log_sum_exp(values):
    values = np.asarray(values, float)
    high = values.max(initial=-np.inf)
    return high if high == -np.inf else high + np.log(np.exp(values - high).sum())


def log_ratio(on, off):
    """on - off of logarithms; 0 where both are -inf (a condition that cannot be)."""
    if on == off == -np.inf:
        return 0.0
    return on - off


@functools.lru_cache(maxsize=32)
def naive_scores(case, energy, n):
    """Naive scores of all states of one model, whatever the evidence."""
    return np.array([case.score(energy, n, s) for s in all_states(counts_of(energy), float)], float)


@functools.lru_cache(maxsize=32)
def naive_statistics(case, energy):
    """Naive statistics of all states: a tuple of arrays, whose first axis is the state."""
    parts = [case.statistics(energy, state) for state in all_states(counts_of(energy), float)]
    return tuple(np.array(part) for part in zip(*parts, strict=True))


class Enumeration:
    """All states of one model with their naive scores, those that contradict evidence left out.

    `free` is the same energy without evidence, whose naive scores are kept for other evidence.
    """

    def __init__(self, case, energy, n, free=None):
        self.counts = counts_of(energy)
        states = all_states(self.counts, float)
        scores = naive_scores(case, energy if free is None else free, n).copy()
        if energy.evidence is not None:
            held = energy.evidence[n]
            agrees = (np.isnan(held) | (states == held)).all(axis=1)
            scores[~agrees] = -np.inf
        self.states, self.scores = states, scores
        self.log_z = log_sum_exp(scores)
        self.probability = np.exp(scores - self.log_z)
        self.n_visible = energy.n_visible

    def marginals(self):
        """Probability of 1, or of each state if a variable has any other number of states."""
        if (self.counts == 2).all():
            return np.clip(self.probability @ self.states, 0, 1)
        levels = np.arange(self.counts.max())
        return np.clip(np.tensordot(self.probability, self.states[:, :, None] == levels, 1), 0, 1)

    def reduced(self, hidden):
        """Visible states (K, V) and their log-weights, hidden units summed out or at their best."""
        visible = all_states(self.counts[: self.n_visible], float)
        reduce = log_sum_exp if hidden == "marginal" else np.max
        groups = self.states[:, : self.n_visible]
        return visible, np.array([reduce(self.scores[(groups == v).all(1)]) for v in visible])

    def conditional(self, variable, given, state):
        """Log-odds of a variable given that the variables `given` are as in `state`."""
        fits = (self.states[:, given] == state[given]).all(axis=1)
        on = self.states[:, variable] == 1
        return log_ratio(log_sum_exp(self.scores[fits & on]), log_sum_exp(self.scores[fits & ~on]))

    def statistics(self, case, energy):
        parts = naive_statistics(case, energy)
        return tuple(np.tensordot(self.probability, part, 1) for part in parts)


def evidences(case, energy, seed=0):
    """Conditioned energies: no evidence, each variable held either way, many held, all held."""
    n, width = energy.n_models, energy.n_variables
    rng = np.random.default_rng(seed)
    counts = counts_of(energy)
    states = all_states(counts, float)
    possible = np.array([naive_scores(case, energy, m) > -np.inf for m in range(n)]).all(axis=0)
    states = states[possible]
    found = [energy]
    for variable in range(width):
        for value in range(counts[variable]):
            held = np.full((n, width), np.nan)
            held[:, variable] = value
            if (states[:, variable] == value).any():
                found.append(energy.condition(held))
    for share in (0.3, 0.7, 1.0):  # every row other variables, at values that can be
        held = states[rng.integers(len(states), size=n)]
        held = np.where(rng.random(held.shape) < share, held, np.nan)
        found.append(energy.condition(held))
    return found


def few_evidences(case, energy):
    """No evidence, a variable that is held, and many or all variables held, in each row others."""
    found = evidences(case, energy)
    return [found[0], found[2], found[-2], found[-1]]


def tolerances(dtype):
    return {"rtol": 2e-4, "atol": 2e-4} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}


# Fewer draws than by default: the checks do not depend on their number.
FEWER_DRAWS = {
    "simulated_annealing": {"n_sweeps": 30},
    "gibbs": {"max_iter": 20, "burn_in": 5, "n_chains": 4},
    "gibbs_with_gradients": {"max_iter": 10, "burn_in": 2, "n_chains": 4},
    "ais": {"n_chains": 10, "n_betas": 10},
    "perturb_and_max_product": {"max_iter": 20},
    "perturb_and_map": {"inference": ICM(random_state=0)},
}


def methods_for(energy):
    """Objects of all methods that serve an energy, with a seed if they have `random_state`."""
    for name in available_methods(energy):
        method = METHODS.get(name)()
        options = dict(FEWER_DRAWS.get(name, {}))
        if "random_state" in vars(method):
            options["random_state"] = 0
        yield name, method.set_params(**options)


def check_shapes(case):
    energy = case.make(0, 3, 1.0, np.float64)
    assert energy.n_models == 3
    assert energy.n_visible + energy.n_hidden == energy.n_variables
    assert all(len(field) == 3 for field in energy.fields)
    assert energy.n_statistics == sum(int(np.prod(s)) for s in energy.statistic_shapes)
    assert energy.free.shape == (3, energy.n_variables)
    assert energy.free.all()
    covered = np.concatenate([np.arange(energy.n_variables)[b] for b in energy.sampling_blocks])
    np.testing.assert_array_equal(np.sort(covered), np.arange(energy.n_variables))
    assert case.make(0, 3, 1.0, np.float32).dtype == np.float32


def check_weights(case):
    """Scores and log-weights of all states, under every evidence."""
    energy = case.make(1, 3, 1.0, np.float64)
    for given in evidences(case, energy):
        exact = [Enumeration(case, given, n, energy) for n in range(given.n_models)]
        for state in exact[0].states:
            found = given.score(np.tile(state, (given.n_models, 1)))
            expected = [e.scores[(e.states == state).all(1)][0] for e in exact]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        for hidden in ("marginal", "max"):
            visible = exact[0].reduced(hidden)[0]
            expected = np.array([e.reduced(hidden)[1] for e in exact])
            found = given.log_weight_of_sets(visible, hidden)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
            for k, v in enumerate(visible):
                rows = np.tile(v, (given.n_models, 1))
                one = given.log_weight(rows, hidden)
                both = given.hidden_and_log_weight(rows, hidden)
                np.testing.assert_array_equal(both[0], given.hidden_given_visible(rows, hidden))
                np.testing.assert_array_equal(both[1], one)
                np.testing.assert_allclose(one, expected[:, k], rtol=1e-9, atol=1e-9)


def check_conditionals(case):
    """Conditionals of blocks, of hidden given visible, and of visible units alone."""
    energy = case.make(2, 2, 1.0, np.float64)
    rng = np.random.default_rng(0)
    for given in evidences(case, energy):
        exact = [Enumeration(case, given, n, energy) for n in range(given.n_models)]
        possible = [e.states[e.scores > -np.inf] for e in exact]
        states = np.stack([p[rng.integers(len(p), size=3)] for p in possible])
        everything = np.arange(given.n_variables)
        for block in given.sampling_blocks:
            found = given.conditional_log_odds(states, block)
            outside = np.setdiff1d(everything, everything[block])
            for n, c in np.ndindex(states.shape[:2]):
                expected = [
                    exact[n].conditional(i, outside, states[n, c]) for i in everything[block]
                ]
                np.testing.assert_allclose(found[n, c], expected, rtol=1e-8, atol=1e-8)
        visible = states[:, 0, : given.n_visible]
        hidden = everything[given.n_visible :]
        on = given.hidden_given_visible(visible)
        mode = given.hidden_given_visible(visible, "max")
        assert on.shape == mode.shape == (given.n_models, given.n_hidden)
        for n in range(given.n_models):
            for place, j in enumerate(hidden):
                x = exact[n].conditional(j, everything[: given.n_visible], states[n, 0])
                np.testing.assert_allclose(on[n, place], 1 / (1 + np.exp(-x)), atol=1e-9)
            fits = (exact[n].states[:, : given.n_visible] == visible[n]).all(axis=1)
            chosen = fits & (exact[n].states[:, given.n_visible :] == mode[n]).all(axis=1)
            best = exact[n].scores[fits].max()
            np.testing.assert_allclose(exact[n].scores[chosen], [best], rtol=1e-9, atol=1e-9)
        for reduced in ("marginal", "max"):
            found = given.visible_log_odds(visible, reduced)
            for n in range(given.n_models):
                sets, weight = exact[n].reduced(reduced)
                for i in range(given.n_visible):
                    others = np.delete(np.arange(given.n_visible), i)
                    fits = (sets[:, others] == visible[n, others]).all(axis=1)
                    expected = log_ratio(
                        weight[fits & (sets[:, i] == 1)][0], weight[fits & (sets[:, i] == 0)][0]
                    )
                    np.testing.assert_allclose(found[n, i], expected, rtol=1e-8, atol=1e-8)


def check_draws(case):
    """Blocks drawn by `draw` follow their conditionals; held variables keep their value."""
    energy = case.make(3, 2, 1.0, np.float64)
    n_draws = 20_000
    for given in evidences(case, energy)[::3]:
        exact = [Enumeration(case, given, n, energy) for n in range(given.n_models)]
        start = np.stack([e.states[e.probability.argmax()] for e in exact])
        states = np.repeat(start[:, None], n_draws, axis=1)
        everything = np.arange(given.n_variables)
        for block in given.sampling_blocks:
            log_odds = given.conditional_log_odds(states[:, :1], block)
            log_odds = np.broadcast_to(log_odds, (given.n_models, n_draws, log_odds.shape[2]))
            u = np.random.default_rng(1).random(log_odds.shape)
            drawn = given.draw(log_odds, u, block)
            assert drawn.dtype == bool
            outside = np.setdiff1d(everything, everything[block])
            for n, e in enumerate(exact):
                fits = (e.states[:, outside] == start[n, outside]).all(axis=1)
                p = np.where(fits, e.probability, 0)
                expected = np.clip(p @ e.states[:, block] / p.sum(), 0, 1)
                # 5 standard errors
                bound = 5 * np.sqrt(expected * (1 - expected) / n_draws) + 1e-12
                assert (np.abs(drawn[n].mean(0) - expected) <= bound).all()
                block_states = {tuple(row) for row in e.states[fits & (p > 0)][:, block]}
                assert {tuple(row) for row in drawn[n].astype(float)} <= block_states


def check_statistics(case):
    """Statistics of states, weighted sums, and expectations of independent variables."""
    for dtype in (np.float32, np.float64):
        energy = case.make(4, 2, 1.0, dtype)
        states = all_states(energy.n_variables, float)
        weight = np.random.default_rng(0).random(len(states))
        naive = list(zip(*[case.statistics(energy, s) for s in states], strict=True))
        found = _as_tuple(energy.statistics(states, weight))
        summed = energy.sum_statistics(states, weight)
        plain = _as_tuple(energy.statistics(states))
        means = np.random.default_rng(1).random((2, energy.n_variables))
        expected = energy.sum_statistics(means.astype(dtype), np.array([1.0, 0.5]))
        assert tuple(part.shape for part in found) == energy.statistic_shapes
        for k, part in enumerate(naive):
            total = np.tensordot(weight, np.array(part), 1)
            options = {"rtol": 1e-5 if dtype == np.float32 else 1e-12, "atol": 1e-5}
            np.testing.assert_allclose(summed[k], total, **options)
            np.testing.assert_allclose(found[k], total / weight.sum(), **options)
            np.testing.assert_allclose(plain[k], np.mean(part, axis=0), **options)
            chance = [np.where(states == 1, m, 1 - m).prod(axis=1) for m in means]
            total = np.tensordot(chance[0] + 0.5 * chance[1], np.array(part), 1)
            np.testing.assert_allclose(expected[k], total, rtol=1e-5, atol=1e-5)


def check_evidence(case):
    """Evidence is carried by rows and with_fields, adds up, and is refused where it cannot be."""
    energy = case.make(5, 4, 1.0, np.float64)
    exact = Enumeration(case, energy, 0)
    state = exact.states[exact.probability.argmax()]
    held = np.full(energy.n_variables, np.nan)
    held[0] = state[0]
    given = energy.condition(held)
    assert energy.evidence is None, "condition must not change the energy"
    np.testing.assert_array_equal(given.free[:, 0], False)
    np.testing.assert_array_equal(given.rows([2, 1]).evidence, given.evidence[[2, 1]])
    np.testing.assert_array_equal(given.with_fields(*given.fields).evidence, given.evidence)
    for old, new in zip(energy.fields, given.fields, strict=True):
        np.testing.assert_array_equal(old, new)
    more = np.full(energy.n_variables, np.nan)
    more[-1] = state[-1]
    both = given.condition(more)
    np.testing.assert_array_equal(both.evidence[0, [0, -1]], state[[0, -1]])
    with pytest.raises(ValueError, match="contradict"):
        given.condition(np.where(np.isnan(held), np.nan, 1 - held))
    with pytest.raises(ValueError, match="clamp must have shape"):
        energy.condition(np.full(energy.n_variables + 1, np.nan))
    with pytest.raises(ValueError, match="clamp must hold 0 or 1"):
        energy.condition(np.full(energy.n_variables, 0.5))


def check_tilted(case):
    """Shifts of the visible variables' log-weights, by the log-weight of each state."""
    energy = case.make(8, 3, 1.0, np.float64)
    shift = np.random.default_rng(0).normal(size=(energy.n_models, energy.n_visible))
    for given in evidences(case, energy):
        for change in (shift, np.float64(-0.7)):
            tilted, offset = given.tilted(change)
            assert type(tilted) is type(energy)
            for n in range(given.n_models):
                states = Enumeration(case, given, n, energy).states
                index = np.full(len(states), n)
                total = (
                    np.broadcast_to(change, shift.shape)[n] * states[:, : energy.n_visible]
                ).sum(1)
                found = tilted.rows(index).score(states) + offset[n]
                expected = given.rows(index).score(states) + total
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def check_scaled(case):
    """Scores with couplings scaled, fields and evidence as they are, zeros included."""
    energy = case.make(11, 2, 1.0, np.float64)
    plain = energy.with_fields(*(np.zeros_like(field) for field in energy.fields))
    for given in evidences(case, energy)[::3]:
        for beta in (0.0, 0.3, 1.0):
            scaled = given.scaled(beta)
            assert type(scaled) is type(energy)
            for field, other in zip(scaled.fields, energy.fields, strict=True):
                np.testing.assert_array_equal(field, other)
            for n in range(energy.n_models):
                exact = Enumeration(case, given, n, energy)
                coupled = np.array([case.score(plain, n, state) for state in exact.states])
                with np.errstate(invalid="ignore"):
                    expected = exact.scores - (1 - beta) * coupled
                expected[exact.scores == -np.inf] = -np.inf
                found = scaled.rows(np.full(len(exact.states), n)).score(exact.states)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def check_tempered(case):
    """The whole score is multiplied; zeros and evidence stay."""
    energy = case.make(11, 2, 1.0, np.float64)
    for given in evidences(case, energy)[::3]:
        for beta in (0.0, 0.3, 1.0, 2.5):
            other = given.tempered(beta)
            assert type(other) is type(energy)
            for n in range(energy.n_models):
                exact = Enumeration(case, given, n)
                with np.errstate(invalid="ignore"):
                    expected = np.where(exact.scores == -np.inf, -np.inf, beta * exact.scores)
                found = other.rows(np.full(len(exact.states), n)).score(exact.states)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    for beta in (-1.0, np.inf, np.nan, "hot", [1.0], None):
        with pytest.raises(ValueError, match="beta must be a finite number"):
            energy.tempered(beta)


def check_best_states(case):
    """The best states of "exact" under evidence, with ties, and if there are too few states."""
    energy = case.make(9, 2, 1.0, np.float64)
    free = case.make(9, 2, 0.0, np.float64)
    tied = free.with_fields(*(np.zeros_like(field) for field in free.fields))
    every = [(energy, given) for given in evidences(case, energy)[::3]]
    every += [(tied, given) for given in few_evidences(case, tied)]
    for energy, given in every:
        exact = [Enumeration(case, given, n, energy) for n in range(given.n_models)]
        for k in (1, 6, 2 ** min(given.n_variables, 8) + 1):
            found = infer(given, "exact", returns=("best_states", "log_partition"), n_best=k)
            assert found.best_states.shape == (given.n_models, k, given.n_variables)
            for n, e in enumerate(exact):
                expected = np.sort(e.scores[e.scores > -np.inf])[::-1][:k]
                scores, states = found.best_scores[n], found.best_states[n]
                np.testing.assert_allclose(scores[: len(expected)], expected, rtol=1e-9, atol=1e-9)
                assert (scores[len(expected) :] == -np.inf).all()
                assert (states[len(expected) :] == -1).all()
                states = states[: len(expected)]
                assert len(np.unique(states, axis=0)) == len(expected)
                place = [np.flatnonzero((e.states == s).all(axis=1))[0] for s in states]
                np.testing.assert_allclose(e.scores[place], expected, rtol=1e-9, atol=1e-9)


def check_nothing_unfilled(case, monkeypatch):
    """Answers that were not computed are None: no answer shows uninitialised memory."""
    energy = case.make(10, 3, 1.0, np.float64)
    cases = few_evidences(case, energy)
    poison_modules(monkeypatch.setattr)
    for given, sizes in zip(cases, [(1, 2), (1, 2), (1,), (1,)], strict=True):
        for name, method in methods_for(given):
            answers = sorted(method.supports(given))
            together = [itertools.combinations(answers, n) for n in sizes]
            for returns in itertools.chain(*together):
                if {"map", "marginal_map"} <= set(returns):
                    continue
                result = infer(given, method, returns=returns)
                for field in ARRAYS:
                    value = getattr(result, field)
                    for part in value if isinstance(value, tuple) else (value,):
                        if part is not None:
                            assert not is_poisoned(part), (name, returns, field)


ARRAYS = (
    "marginals", "log_odds", "assignment", "map_bound", "gap", "statistics", "log_partition",
    "standard_error", "effective_sample_size", "best_states", "best_scores", "samples",
    "sample_log_prob", "n_iter",
)  # fmt: skip


def assert_same(one, other):
    """Two results are the same, bit for bit."""
    for field in (*ARRAYS, "converged"):
        left, right = getattr(one, field), getattr(other, field)
        assert (left is None) == (right is None), field
        if left is None:
            continue
        pairs = zip(left, right, strict=True) if isinstance(left, tuple) else [(left, right)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b, err_msg=field)


MEMBERS = (
    check_shapes,
    check_weights,
    check_conditionals,
    check_draws,
    check_statistics,
    check_evidence,
    check_tilted,
    check_scaled,
    check_tempered,
    check_best_states,
)
