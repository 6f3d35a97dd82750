"""The rule "hinge" of large margin Boltzmann machines by a linear program, as a comparison.

Miao and Rao (2009) find the labels with the smallest hinge loss by an integer program, and report
that its relaxation to a linear program is worse.
"""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from skcrbm import LMBMClassifier


def constraints_of(coupling):
    """Return the constraints A and upper bounds b of a row, apart from its fields.

    The variables are u_i, the probability that label i is on; w_ik for each pair i < k, the
    probability that both labels are on; and the hinge losses. The first constraints bound w_ik
    by u_i, u_k and u_i + u_k - 1 (the local polytope). The last constraints, one per label, need
    the fields: see `relaxed_labels`.
    """
    n = len(coupling)
    i, k = np.triu_indices(n, 1)
    n_pairs = len(i)
    at = sparse.csr_array(np.eye(n))
    first, second, pair = at[i], at[k], sparse.eye_array(n_pairs)
    polytope = sparse.block_array(
        [
            [-first, pair, None],
            [-second, pair, None],
            [first + second, -pair, sparse.csr_array((n_pairs, n))],
        ]
    )
    return polytope.tocsr(), np.repeat([0.0, 0.0, 1.0], n_pairs), (i, k)


def relaxed_labels(field, coupling, margin):
    """Return the labels (N, n) of 0/1 that the linear program gives for fields (N, n).

    With y_i = 2 u_i - 1 and y_i y_k = 4 w_ik - 2 u_i - 2 u_k + 1, the margin of label i is
    ``f_i y_i + sum_k s_ik y_i y_k``. A label with u_i above 1/2 is on.
    """
    n_rows, n = field.shape
    polytope, above, (i, k) = constraints_of(coupling)
    n_pairs = len(i)
    # Margins apart from the fields: s_ik (4 w_ik - 2 u_i - 2 u_k + 1), for both labels of a pair.
    of_pairs = np.zeros((n, n_pairs))
    pairs = np.arange(n_pairs)
    of_pairs[i, pairs] = of_pairs[k, pairs] = 4 * coupling[i, k]
    total = coupling.sum(axis=1)
    of_labels = -2 * coupling - 2 * np.diag(total)
    rows, bounds = [], []
    for f in field:
        # loss_i >= margin - m_i
        losses = np.hstack([-(of_labels + 2 * np.diag(f)), -of_pairs, -np.eye(n)])
        rows += [polytope, sparse.csr_array(losses)]
        bounds += [above, total - f - margin]
    blocks = [sparse.vstack(rows[at : at + 2]) for at in range(0, len(rows), 2)]
    n_variables = 2 * n + n_pairs
    cost = np.zeros((n_rows, n_variables))
    cost[:, n + n_pairs :] = 1
    limit = np.zeros((n_rows, n_variables, 2))
    limit[:, : n + n_pairs, 1] = 1
    limit[:, n + n_pairs :, 1] = np.inf
    found = linprog(
        cost.ravel(),
        sparse.block_diag(blocks, format="csr"),
        np.concatenate(bounds),
        bounds=limit.reshape(-1, 2),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the linear program of {n_rows} rows has no solution: {found.message}")
    return (found.x.reshape(n_rows, n_variables)[:, :n] > 0.5).astype(int)


class RelaxedLMBM(LMBMClassifier):
    """`LMBMClassifier` that predicts the labels of the relaxed rule "hinge"."""

    def predict(self, X):
        """Return the labels (N, n_labels)."""
        field = np.asarray(X @ self.visible_coef_.T + self.visible_intercept_, float)
        parts = [field[at : at + 25] for at in range(0, len(field), 25)]
        return np.vstack([relaxed_labels(f, self.pairwise_coef_, self.margin) for f in parts])
