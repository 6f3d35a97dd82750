"""The program of handwritten words: its images, features and a row of its table."""

import os

import numpy as np
import pytest

from examples.studies import handwritten_words as program

# This test reads MNIST, which is slow.
pytestmark = pytest.mark.deep


def test_letters_are_forms_of_digits():
    images = np.zeros((20, 28, 28), np.uint8)
    images[:, 2:26, 6:22] = np.arange(16)[None, None, :] * 16
    digits = np.arange(20) % 10
    (word,) = program.write(["abku"], images, digits, np.random.RandomState(0))
    assert word.shape == (4, 16, 8)
    assert word.dtype == bool
    np.testing.assert_array_equal(word[0], word[1])  # a and b are digits of equal images here
    np.testing.assert_array_equal(word[3], word[0][::-1, ::-1])  # u is 0 upside down
    assert (word[2] != word[0]).any()  # k is 0 mirrored


def test_pairs_are_products_of_neighbours():
    images = np.random.default_rng(0).random((3, 16, 8)) < 0.5
    found = program.pixels(images, with_pairs=True)
    assert found.shape == (3, 128 + 16 * 7 + 15 * 8 + 2 * 15 * 7)
    image = images[0]
    across = [image[r, c] & image[r, c + 1] for r in range(16) for c in range(7)]
    np.testing.assert_array_equal(found[0, 128 : 128 + 112], across)
    falling = [image[r, c] & image[r + 1, c + 1] for r in range(15) for c in range(7)]
    np.testing.assert_array_equal(found[0, 360 : 360 + 105], falling)


@pytest.mark.skipif(not os.environ.get("SKCRBM_DATA"), reason="needs MNIST in SKCRBM_DATA")
def test_a_row_of_the_table(capsys):
    program.main(["--words", "40", "--only", "alpha=c2", "--max-iter", "30"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    rows = [line.split("|") for line in lines[2:]]
    assert [row[1].strip() for row in rows] == ["pixels", "pixels and pairs"]
    assert all(0.3 < float(row[3]) < 1 and float(row[4]) < float(row[3]) for row in rows)
