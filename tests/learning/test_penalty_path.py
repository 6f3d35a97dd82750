"""Search for the strength of a penalty."""

import numpy as np
import pytest

from skcrbm.learning.penalty_path import (
    clearly_worse,
    geometric_penalties,
    penalty_at,
    penalty_path,
)


def search(scores, first=0, **options):
    """Search over the penalties 0, 1, ...; return the result and the order of the trials."""
    tried = []

    def train(penalty, neighbour):
        tried.append((penalty, neighbour))
        return penalty

    return penalty_path(train, scores.__getitem__, range(len(scores)), first, **options), tried


def test_turns_round_only_if_the_first_step_is_no_better():
    found, tried = search([1, 5, 2, 3, 0], first=2)
    assert (found.penalty, found.best.score) == (3, 3)
    assert tried == [(2, None), (3, 2), (4, 3)]
    found, tried = search([1, 5, 2, 1, 9], first=2)
    assert found.penalty == 1
    assert tried == [(2, None), (3, 2), (1, 2), (0, 1)]


def test_patience_goes_past_worse_trials():
    assert search([1, 0, 2, 1, 1, 3], patience=2)[0].penalty == 2
    assert search([1, 0, 2, 1, 1, 3], patience=3)[0].penalty == 5
    assert search([1, 0, 2, 1, 1, 3])[0].penalty == 0


def test_equal_scores():
    """The penalty that was tried first wins, and `ends` decides whether the search goes on."""
    assert search([1, 1, 1, 2])[0].penalty == 0
    found, tried = search([1, 1, 1 + 1e-12, 2, 0], ends=clearly_worse)
    assert (found.penalty, len(tried)) == (3, 5)
    found, tried = search([1, np.nan, 2], ends=clearly_worse)
    assert (found.penalty, len(tried)) == (0, 2)
    assert search([-np.inf, -np.inf, 2], patience=2)[0].penalty == 2


@pytest.mark.parametrize("top", [-0.4, 0.0, 0.3])
def test_the_vertex_is_exact_for_a_parabola(top):
    penalties = geometric_penalties(0.7, 3, 4)
    position = dict(zip(penalties, range(-3, 5)))
    found = penalty_path(
        lambda penalty, _: penalty, lambda p: -((position[p] - top) ** 2), penalties, 3
    )
    assert found.penalty == 0.7
    np.testing.assert_allclose(found.vertex, top, atol=1e-12)
    np.testing.assert_allclose(penalty_at(0.7, found.vertex), 0.7 * 10 ** (top / 2))


def test_the_vertex_is_the_best_penalty_at_the_end_of_the_path():
    assert search([3, 2, 1])[0].vertex == 0
    assert search([1, 2, 3])[0].vertex == 2
