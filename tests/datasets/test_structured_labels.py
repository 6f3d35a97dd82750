"""Data drawn from a known joint distribution of labels."""

import numpy as np
import pytest

from skcrbm.datasets import make_structured_labels


@pytest.mark.parametrize("structure", ["pairs", "groups"])
def test_rows_follow_the_distribution(structure):
    X, y, sets, proba = make_structured_labels(
        4000, 6, 5, structure=structure, random_state=1, return_distribution=True
    )
    assert X.shape == (4000, 6)
    assert set(np.unique(y)) == {0, 1}
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert len(np.unique(sets, axis=0)) == len(sets) == 32
    # Means over rows of y_i, y_i y_k and of label sets, within four standard deviations.
    pairs = [(sets[:, i] * sets[:, k], y[:, i] * y[:, k]) for i in range(5) for k in range(i + 1)]
    same = (y[:, None] == sets).all(axis=2)
    pairs += [(np.eye(32)[j], same[:, j]) for j in range(32)]
    for of_sets, of_rows in pairs:
        p = proba @ of_sets
        spread = np.sqrt((p * (1 - p)).sum()) / len(p)
        assert abs(of_rows.mean() - p.mean()) < 4 * spread + 1e-9


@pytest.mark.parametrize("structure", ["pairs", "groups"])
def test_strength_is_the_dependence(structure):
    def dependence(strength):
        _, _, sets, proba = make_structured_labels(
            20, 6, 5, structure=structure, strength=strength, random_state=0,
            return_distribution=True,
        )  # fmt: skip
        p = proba @ sets
        joint = np.prod(np.where(sets == 1, p[:, None], 1 - p[:, None]), axis=2)
        return np.abs(joint - proba).max()

    assert dependence(0.0) < 1e-12
    assert dependence(1.0) > 0.02


def test_pairs_are_a_ring():
    """The log-odds of neighbours' joint probabilities do not depend on labels farther away."""
    *_, proba = make_structured_labels(
        1, 3, 6, n_informative=2, strength=0.7, random_state=3, return_distribution=True
    )
    log_p = np.log(proba[0]).reshape((2,) * 6)
    for i in range(6):
        for k in range(i + 1, 6):
            moved = np.moveaxis(log_p, (i, k), (0, 1))
            interaction = moved[0, 0] + moved[1, 1] - moved[0, 1] - moved[1, 0]
            near = k - i in (1, 5)
            np.testing.assert_allclose(np.abs(interaction), 4 * 0.7 * near, atol=1e-9)


def test_random_state_decides_and_rows_extend():
    few, more = (make_structured_labels(n, random_state=0) for n in (50, 600))
    np.testing.assert_array_equal(few[0], more[0][:50])
    np.testing.assert_array_equal(few[1], more[1][:50])
    other = make_structured_labels(50, random_state=1)
    assert (other[1] != few[1]).any()
    same = make_structured_labels(50, random_state=0, return_distribution=True)
    np.testing.assert_array_equal(same[1], few[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "tree"}, "structure must be 'pairs' or 'groups', got 'tree'"),
        ({"n_labels": 13}, "n_labels must be from 3 to 12, got 13"),
        ({"n_labels": 2}, "n_labels must be from 3 to 12, got 2"),
        ({"n_labels": 8.0}, "n_labels must be from 3 to 12, got 8.0"),
        ({"n_samples": -1}, "n_samples must be a positive integer, got -1"),
        ({"n_samples": 2.5}, "n_samples must be a positive integer, got 2.5"),
        ({"strength": np.nan}, "strength must be a finite number, got nan"),
        ({"n_informative": 2.5}, "n_informative must be from 1 to n_features=20, got 2.5"),
        ({"n_informative": 21}, "n_informative must be from 1 to n_features=20, got 21"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        make_structured_labels(**options)
