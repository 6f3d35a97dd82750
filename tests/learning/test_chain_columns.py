"""Memory of sequences: parts of a batch share their features; columns and outputs that co-occur."""

import numpy as np
import pytest
from scipy.sparse import random as random_matrix

from skcrbm.learning.structured import chain_model
from skcrbm.learning.structured.chain import SequenceBatch
from skcrbm.learning.structured.chain_model import PackedColumns
from skcrbm.utils.ragged import SequenceArrays


def batch_of(seed, n_rows=60, density=0.2):
    rng = np.random.RandomState(seed)
    X = random_matrix(n_rows, 12, density, "csr", random_state=rng)
    start = np.array([0, 7, 8, 30, n_rows])
    return SequenceBatch.of(SequenceArrays(X, start), rng.randint(-1, 3, n_rows), np.ones(4))


def test_parts_of_a_sparse_batch_share_the_features():
    batch = batch_of(0)
    for first, stop in ((0, 1), (1, 3), (3, 4), (0, 4)):
        part = batch.take(np.arange(first, stop))
        a, b = batch.start[first], batch.start[stop]
        np.testing.assert_array_equal(part.X.toarray(), batch.X[a:b].toarray())
        np.testing.assert_array_equal(part.start, batch.start[first : stop + 1] - a)
        assert np.shares_memory(part.X.data, batch.X.data)
        assert np.shares_memory(part.X.indices, batch.X.indices)


@pytest.mark.parametrize("bytes_per_entry", [0, 100])
def test_columns_and_outputs_that_occur_together(monkeypatch, bytes_per_entry):
    """Both ways, by a product of matrices and by a table, agree with plain loops."""
    monkeypatch.setattr(chain_model, "_BYTES_PER_ENTRY", bytes_per_entry)
    monkeypatch.setattr(chain_model, "_ROWS_PER_STEP", 7)
    for seed in range(20):
        batch = batch_of(seed, density=0.05)
        packed = PackedColumns.observed(batch.X, batch.path, 3).packed
        expected = [set() for _ in range(12)]
        for row, column in zip(*batch.X.nonzero()):
            output = batch.path[row]
            expected[column] |= {0, 1, 2} if output < 0 else {int(output)}
        found = [packed.labels[a:b].tolist() for a, b in zip(packed.first, packed.first[1:])]
        assert found == [sorted(outputs) for outputs in expected]
