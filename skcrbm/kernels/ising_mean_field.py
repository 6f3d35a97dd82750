"""Mean field on dense Ising models, one model after the other, as products of rows and spins."""

from skcrbm.kernels.jit import jit
from skcrbm.kernels.scalar import dot, sigmoid_pair


@jit(allocates=False)
def ising_mean_field(coupling, field, free, options, answers, spin):
    """Run coordinate ascent on N models with L labels, until each model has converged.

    The labels are visited by ascending index.

    Parameters
    ----------
    coupling : (L, L), couplings of L labels
    field : (N, L) fields times 2, which are log-odds
    free : (N, L) bool, False for clamped labels, which are left out by setting their spin to 0
    options, answers : IsingOptions (`slack` is not used), IsingAnswers
    spin : (L,) output, the means of the labels of the last model
    """
    max_iter, tol, _ = options
    theta, n_iter, converged, trace = answers
    n_labels = coupling.shape[0]
    one = coupling.dtype.type(1)
    two = one + one
    for n in range(field.shape[0]):
        for i in range(n_labels):
            t, u = sigmoid_pair(theta[n, i], one)
            spin[i] = t - u
            if not free[n, i]:
                theta[n, i], spin[i] = 0, 0
        n_iter[n], converged[n] = max_iter, False
        for iteration in range(max_iter):
            change = one - one
            for i in range(n_labels):
                if free[n, i]:
                    theta[n, i] = field[n, i] + two * dot(coupling[i], spin)
                    t, u = sigmoid_pair(theta[n, i], one)
                    change = max(change, abs(t - u - spin[i]) / two)
                    spin[i] = t - u
            if trace.shape[1]:
                trace[n, iteration] = change
            if change < tol:
                n_iter[n], converged[n] = iteration + 1, True
                break
