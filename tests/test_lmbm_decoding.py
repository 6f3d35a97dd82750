"""Labels of least hinge loss and of the best score, against enumeration and HiGHS."""

from itertools import product

import numpy as np
import pytest
from conftest import JIT_DISABLED

from skcrbm.decoding._hinge import decode_pairwise, losses_and_scores

RULES = ["hinge", "map"]
N_MODELS = 30 if JIT_DISABLED else 250


def random_model(seed, n_labels=None, n_rows=8):
    """Fields, couplings and margin of every strength; every fourth in whole numbers, with ties."""
    rng = np.random.default_rng(seed)
    n_labels = n_labels or rng.integers(1, 10)
    S = rng.normal(size=(n_labels, n_labels)) * rng.choice([0.05, 0.3, 1, 3])
    S = np.triu(S * (rng.random(S.shape) < rng.choice([0.3, 1])), 1)
    fields = rng.normal(size=(n_rows, n_labels)) * rng.choice([0.0, 0.3, 1, 3])
    if seed % 4 == 0:
        fields, S = np.round(fields), np.round(S)
    return fields, S + S.T, rng.choice([0.3, 1.0, 5.0])


def enumerate_labels(field, S, margin, rule, known=None):
    """0/1 labels by the rule and its ties, and their objective."""
    states = np.array(list(product([-1.0, 1.0], repeat=len(field))))
    if known is not None:
        states = states[(np.isnan(known) | (known == (states > 0))).all(axis=1)]
    loss, score = losses_and_scores(states, np.tile(field, (len(states), 1)), S, margin)
    if rule == "hinge":
        score = np.where(loss <= loss.min() + 1e-10, score, -np.inf)
    best = np.flatnonzero(score >= score.max() - 1e-10)[0]
    return states[best] > 0, loss[best] if rule == "hinge" else -score[best]


@pytest.mark.parametrize("rule", RULES)
def test_losses_and_scores(rule):
    (field,), S, margin = random_model(1, n_labels=4, n_rows=1)
    y = np.array([1.0, -1.0, -1.0, 1.0])
    loss = score = 0.0
    for i in range(4):
        loss += max(0.0, margin - y[i] * (field[i] + sum(S[i, k] * y[k] for k in range(4))))
        score += y[i] * field[i] + sum(S[i, k] * y[i] * y[k] for k in range(i))
    mine = losses_and_scores(y[None], field[None], S, margin)
    np.testing.assert_allclose(np.ravel(mine), [loss, score])


@pytest.mark.parametrize("rule", RULES)
def test_enumeration(rule):
    n_better = 0
    for seed in range(N_MODELS):
        fields, S, margin = random_model(seed)
        exact = decode_pairwise(fields, S, margin, rule=rule, method="branch_and_bound")
        local = decode_pairwise(fields, S, margin, rule=rule, method="icm")
        for row, field in enumerate(fields):
            labels, objective = enumerate_labels(field, S, margin, rule)
            assert exact.objective[row] == pytest.approx(objective, abs=1e-9)
            np.testing.assert_array_equal(exact.labels[row], labels)
        np.testing.assert_array_equal(exact.gap, 0)
        np.testing.assert_array_equal(local.gap, np.inf)
        assert (local.objective >= exact.objective - 1e-9).all()
        n_better += (local.objective > exact.objective + 1e-9).sum()
    assert n_better > N_MODELS / 2  # the search does more than its start


@pytest.mark.parametrize("rule", RULES)
def test_known_labels(rule):
    """The best among the labels that agree with what is known."""
    for seed in range(0, N_MODELS, 2):
        fields, S, margin = random_model(seed)
        rng = np.random.default_rng(seed)
        known = np.where(rng.random(fields.shape) < 0.4, rng.integers(0, 2, fields.shape), np.nan)
        known[0] = np.nan
        known[1] = 1
        options = {"rule": rule, "known": known}
        exact = decode_pairwise(fields, S, margin, method="branch_and_bound", **options)
        local = decode_pairwise(fields, S, margin, method="icm", **options)
        for row, field in enumerate(fields):
            labels, objective = enumerate_labels(field, S, margin, rule, known[row])
            assert exact.objective[row] == pytest.approx(objective, abs=1e-9)
            np.testing.assert_array_equal(exact.labels[row], labels)
        np.testing.assert_array_equal(exact.gap, 0)
        given = ~np.isnan(known)
        np.testing.assert_array_equal(local.labels[given], known[given])
        assert (local.objective >= exact.objective - 1e-9).all()
        if seed % 20 == 0:
            program = decode_pairwise(fields, S, margin, method="milp", **options)
            np.testing.assert_array_equal(program.labels, exact.labels)


@pytest.mark.parametrize("rule", RULES)
def test_known_labels_of_a_hard_search(rule):
    """As many labels as take the tables of the second stage."""
    rng = np.random.default_rng(3)
    S = np.triu(rng.normal(scale=0.5, size=(14, 14)), 1)
    S = S + S.T
    fields = rng.normal(scale=0.3, size=(6, 14))
    known = np.where(rng.random(fields.shape) < 0.2, rng.integers(0, 2, fields.shape), np.nan)
    exact = decode_pairwise(fields, S, 1.0, rule=rule, method="branch_and_bound", known=known)
    for row, field in enumerate(fields):
        labels, objective = enumerate_labels(field, S, 1.0, rule, known[row])
        assert exact.objective[row] == pytest.approx(objective, abs=1e-9)
        np.testing.assert_array_equal(exact.labels[row], labels)
    np.testing.assert_array_equal(exact.gap, 0)


@pytest.mark.parametrize("rule", RULES)
def test_milp(rule):
    for seed in range(0, 10 if JIT_DISABLED else 60, 2):
        fields, S, margin = random_model(seed, n_rows=3)
        exact = decode_pairwise(fields, S, margin, rule=rule, method="branch_and_bound")
        program = decode_pairwise(fields, S, margin, rule=rule, method="milp")
        np.testing.assert_allclose(program.objective, exact.objective, atol=1e-9)
        np.testing.assert_array_equal(program.labels, exact.labels)
        np.testing.assert_array_equal(program.gap, 0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_labels", [14, 18])
def test_more_labels_against_milp(rule, n_labels):
    rng = np.random.default_rng(n_labels)
    S = np.triu(rng.normal(scale=0.08, size=(n_labels, n_labels)), 1)
    S = S + S.T
    fields = rng.normal(scale=0.8, size=(2, n_labels))
    exact = decode_pairwise(fields, S, 1.0, rule=rule, method="branch_and_bound")
    program = decode_pairwise(fields, S, 1.0, rule=rule, method="milp")
    np.testing.assert_array_equal(exact.gap, 0)
    np.testing.assert_allclose(program.objective, exact.objective, atol=1e-9)
    np.testing.assert_array_equal(program.labels, exact.labels)


@pytest.mark.parametrize("rule", RULES)
def test_node_limit_leaves_a_gap_that_holds(rule):
    fields, S, margin = random_model(2, n_labels=12, n_rows=30)
    options = {"rule": rule, "method": "branch_and_bound"}
    exact = decode_pairwise(fields, S, margin, **options)
    np.testing.assert_array_equal(exact.gap, 0)
    gaps = []
    for limit in (0, 3, 30, 10_000):
        cut = decode_pairwise(fields, S, margin, node_limit=limit, **options)
        excess = cut.objective - exact.objective
        assert (excess >= -1e-9).all()
        assert (excess <= cut.gap + 1e-9).all()
        y = 2.0 * cut.labels - 1
        loss, score = losses_and_scores(y, fields, S, margin)
        np.testing.assert_allclose(cut.objective, loss if rule == "hinge" else -score)
        gaps.append(cut.gap)
    assert gaps[0].max() > gaps[2].max() > gaps[-1].max() == 0


def test_rows_and_threads():
    fields, S, margin = random_model(7, n_labels=9, n_rows=200)
    options = {"rule": "hinge", "method": "branch_and_bound"}
    one = decode_pairwise(fields, S, margin, **options)
    two = decode_pairwise(fields, S, margin, n_jobs=2, **options)
    single = decode_pairwise(fields[130:131], S, margin, **options)
    for mine, other in zip(one, two):
        np.testing.assert_array_equal(mine, other)
    for mine, other in zip(one, single):
        np.testing.assert_array_equal(mine[130:131], other)
    empty = decode_pairwise(fields[:0], S, margin, **options)
    assert empty.labels.shape == (0, 9)


@pytest.mark.parametrize("rule", RULES)
def test_weak_couplings_are_quick_for_many_labels(rule):
    """101 labels, as many as Mediamill has; without couplings each is decided alone."""
    rng = np.random.default_rng(0)
    S = np.triu(rng.normal(scale=0.005, size=(101, 101)), 1)
    S = S + S.T
    fields = rng.normal(size=(20, 101))
    result = decode_pairwise(fields, S, 1.0, rule=rule, method="branch_and_bound")
    np.testing.assert_array_equal(result.gap, 0)
    alone = decode_pairwise(fields, 0 * S, 1.0, rule=rule, method="branch_and_bound")
    np.testing.assert_array_equal(alone.labels, fields > 0)
