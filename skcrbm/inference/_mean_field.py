"""Naive mean field: alternating updates, a matrix product per layer over the batch."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy.special import entr, expit
from sklearn.utils._param_validation import Interval

from skcrbm.energies import IsingEnergy, RBMEnergy
from skcrbm.inference._base import IterativeMethod, empty_result
from skcrbm.utils._parallel import one_blas_thread


class MeanField(IterativeMethod):
    """Fully factorised approximation ``q(v, h) = prod_i q(v_i) prod_j q(h_j)``.

    One iteration updates all visible beliefs, ``tau_v = sigma(b + W tau_h)``, then all
    hidden ones, ``tau_h = sigma(c + W' tau_v)``. Log Z is a lower bound, which no
    iteration decreases; pairwise beliefs are products. The labels of an `IsingEnergy` are
    updated one after the other, ``tau_i = sigma(2 f_i + 2 S_i (2 tau - 1))``.

    Parameters
    ----------
    max_iter : int or None, default=None
        Iterations at most. None: 7 + min(epoch, 50) in training, 100 in `infer`.
    tol : float, default=1e-3
        A model stops when no belief changes by more.

    Examples
    --------
    >>> from skcrbm.inference import MeanField, infer
    >>> from skcrbm.energies import RBMEnergy
    >>> energy = RBMEnergy([[1.0]], [0.0], [0.0])
    >>> infer(energy, MeanField(max_iter=50)).converged
    array([ True])
    """

    name: ClassVar = "mean_field"
    answers: ClassVar = frozenset({"marginals", "pairwise", "log_partition"})
    accepts: ClassVar = frozenset({"init", "return_trace"})
    solvers: ClassVar = {RBMEnergy: "_solve_rbm", IsingEnergy: "_solve_ising"}
    _parameter_constraints: ClassVar = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, max_iter=None, tol=1e-3):
        self.max_iter = max_iter
        self.tol = tol

    def _solve_rbm(self, energy, query):
        with one_blas_thread():
            return self._iterate(energy, query)

    def _solve_ising(self, energy, query):
        from skcrbm.inference._ising_iterate import mean_field_ising  # needs Numba

        return mean_field_ising(energy, query, self.iterations, self.tol)

    def _iterate(self, energy, query):
        weights, n_visible = energy.weights, energy.n_visible
        fields = empty_result(energy, query)
        log_odds = fields["log_odds"]
        log_odds[:] = np.hstack(energy.fields) if query.start is None else query.start.log_odds
        fields["converged"][:] = False
        if query.return_trace:
            fields["trace"] = np.full((energy.n_models, self.iterations), np.nan)
        active = np.arange(energy.n_models)
        b, c = energy.fields
        q_v, q_h = expit(log_odds[:, :n_visible]), expit(log_odds[:, n_visible:])
        for iteration in range(self.iterations):
            theta_v = b + q_h @ weights.T
            new_v = expit(theta_v)
            theta_h = c + new_v @ weights
            new_h = expit(theta_h)
            change = np.maximum(
                np.abs(new_v - q_v).max(1, initial=0), np.abs(new_h - q_h).max(1, initial=0)
            )
            log_odds[active, :n_visible] = theta_v
            log_odds[active, n_visible:] = theta_h
            fields["n_iter"][active] = iteration + 1
            if query.return_trace:
                fields["trace"][active, iteration] = change
            done = change < self.tol
            fields["converged"][active[done]] = True
            if done.all():
                break
            # Each model stops on its own: the finished ones leave the batch.
            keep = ~done
            active, b, c = active[keep], b[keep], c[keep]
            q_v, q_h = new_v[keep], new_h[keep]
        self._moments(energy, query, fields)
        return fields

    def _moments(self, energy, query, fields):
        if not query.returns & {"pairwise", "log_partition"}:
            return
        beliefs = expit(fields["log_odds"])
        v, h = beliefs[:, : energy.n_visible], beliefs[:, energy.n_visible :]
        if "pairwise" in query.returns:
            if query.pairwise == "per_example":
                fields["pairwise"][:] = v[:, :, None] * h[:, None, :]
            else:
                weight = query.sample_weight[:, None].astype(energy.dtype)
                fields["pairwise"][:] = (weight * v).T @ h
        if "log_partition" in query.returns:
            energies = v * energy.visible_bias
            energies += v * (h @ energy.weights.T)
            fields["log_partition"][:] = energies.sum(1, dtype=np.float64)
            fields["log_partition"] += (h * energy.hidden_bias).sum(1, dtype=np.float64)
            off = expit(-fields["log_odds"])
            fields["log_partition"] += (entr(beliefs) + entr(off)).sum(1, dtype=np.float64)
