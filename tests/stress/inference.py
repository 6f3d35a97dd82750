"""Random models, methods and questions, against enumeration: ``python -m tests.stress.inference``.

Each case draws a model of some kind, evidence, a method with options, and questions. Exact
answers must be right up to rounding. Other answers must keep their promises: bounds hold,
probabilities lie between 0 and 1, answers on trees are exact, and converged rows do not move if
the method goes on. Answers that were not requested are None, and no answer shows uninitialised
memory.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `reference`, as for the tests

from reference.integer_scores import IntegerScores
from reference.poison import is_poisoned, poison_memory, poison_modules
from sklearn.exceptions import ConvergenceWarning

from skcrbm.energies import LayeredEnergy, OneHotRBMEnergy, RBMEnergy
from skcrbm.exceptions import InaccurateInferenceWarning
from skcrbm.inference import ICM, available_methods, infer
from skcrbm.inference.base import MagnitudeError
from skcrbm.inference.registry import METHODS
from tests.stress._models import draw_model
from tests.stress._program import main

# An answer of a method that stopped within its tolerance, 1e-6, may be as far from where it is
# going: slow convergence divides by one minus its rate.
DRIFT = 2e-3
STATES = {"map", "marginal_map"}
FEWER = {
    "gibbs": {"max_iter": 10, "burn_in": 3, "n_chains": 3},
    "gibbs_with_gradients": {"max_iter": 6, "burn_in": 2, "n_chains": 3},
    "ais": {"n_chains": 6, "n_betas": 8},
    "bp_chain": {"max_iter": 8, "warm_iter": 3},
    "perturb_and_max_product": {"max_iter": 20},
    "perturb_and_map": {"inference": ICM(random_state=0)},
    "mplp": {"max_iter": 50},
}
ARRAYS = (
    "marginals", "log_odds", "assignment", "map_bound", "gap", "statistics", "log_partition",
    "standard_error", "effective_sample_size", "samples", "sample_log_prob", "n_iter",
    "converged", "trace",
)  # fmt: skip


class Case:
    """One case: the drawn model and questions, and the failures."""

    def __init__(self, rng):
        self.rng, self.failures = rng, []
        self.model = draw_model(rng, int(rng.integers(1, 4)))
        self.free_energy = self.model.energy
        self.clamp = self._draw_clamp()
        names = [
            n for n in available_methods(self.free_energy) if n != "milp" or rng.random() < 0.1
        ]
        self.name = str(names[rng.integers(len(names))])
        self.method = self._draw_method()
        self.returns = self._draw_returns()
        energy = self.free_energy
        self.title = (
            f"{type(energy).__name__} {energy.n_models}x{energy.n_visible}+{energy.n_hidden} "
            f"{energy.dtype} {self.method} {sorted(self.returns)}"
            f"{'' if self.clamp is None else ' clamped'}{' tree' if self.model.tree else ''}"
        )

    def _draw_clamp(self):
        """Evidence that some state agrees with, half of the time."""
        rng, energy = self.rng, self.free_energy
        if rng.random() < 0.5:
            return None
        found = [IntegerScores(energy, n).states for n in range(energy.n_models)]
        if not all(len(states) for states in found):
            return None
        held = np.array([states[rng.integers(len(states))] for states in found], float)
        held[rng.random(held.shape) > rng.choice([0.2, 0.5, 1.0])] = np.nan
        return held

    def _draw_method(self):
        rng, method = self.rng, METHODS.get(self.name)()
        options = dict(FEWER.get(self.name, {}))
        has = vars(method)
        layered = isinstance(self.free_energy, LayeredEnergy)
        if "damping" in has and self.name != "perturb_and_max_product" and not layered:
            options["damping"] = float(rng.choice([0.0, 0.0, 0.3, 0.5]))
        if "tol" in has:
            options["max_iter"] = int(rng.choice([1, 2, 5, 100, 500]))
        if "n_restarts" in has:
            options["n_restarts"] = int(rng.integers(1, 3))
        if "random_state" in has:
            options["random_state"] = int(rng.integers(100))
        return method.set_params(**options)

    def _draw_returns(self):
        rng = self.rng
        answers = sorted(self.method.supports(self.free_energy))
        chosen = {a for a in answers if rng.random() < 0.6} or {answers[rng.integers(len(answers))]}
        if chosen >= STATES:
            chosen.remove("marginal_map")
        if "map_bound" in chosen and not chosen & STATES:
            chosen.add("map" if "map" in answers else "marginal_map")
        if "sample_log_prob" in chosen:
            chosen.add("samples")
        return chosen

    def check(self, fine, message):
        if not fine:
            self.failures.append(f"{message}: {self.title}")

    def infer(self, energy=None, method=None, **options):
        options = {"returns": tuple(sorted(self.returns)), "pairwise": "per_example", **options}
        energy = self.free_energy if energy is None else energy
        if "n_samples" not in options and self.returns & {
            "samples",
            *self.method.estimated_from_samples,
        }:
            options["n_samples"] = 3
        return infer(energy, self.method if method is None else method, clamp=self.clamp, **options)

    def run(self):
        if not self.model.served:
            self._expect_refusal()
            return self.failures
        energy = self.free_energy
        given = energy if self.clamp is None else energy.condition(self.clamp)
        self.exact = [IntegerScores(given, n) for n in range(energy.n_models)]
        if not all(len(e.scores) for e in self.exact):
            if self.name == "exact":
                self._expect_refusal()
            return self.failures
        self.given = given
        try:
            result = self.infer()
        except MagnitudeError:  # a large field may be refused, if it does not decide
            self.check((self.given.dominant_fields() & self.given.free).any(), "refused")
            return self.failures
        self._check_fields(result)
        self._check_same(result)
        self._check_numbers(result)
        if self.name == "exact":
            self._check_exact(result)
        else:
            self._check_promises(result)
        return self.failures

    def _expect_refusal(self):
        try:
            self.infer()
        except ValueError:
            return
        self.check(False, "not refused")

    # ------------------------------------------------------------ properties of every answer

    def _check_fields(self, result):
        """Requested answers exist, others are None, and no array is uninitialised memory."""
        returns = self.returns
        wanted = {name for name in returns if name not in STATES} | {"n_iter", "converged"}
        if returns & STATES:
            wanted.add("assignment")
        if "map_bound" in returns:
            wanted.add("gap")
        for name in ARRAYS:
            value = getattr(result, name)
            if name in wanted:
                self.check(value is not None, f"{name} is None")
            elif name == "log_odds":
                if "marginals" in returns:
                    self.check(value is not None, "log_odds is None")
                elif not returns & STATES:
                    self.check(value is None, "log_odds was not asked for")
            elif name in ("standard_error", "effective_sample_size"):
                self.check(value is None or "log_partition" in returns, f"{name} is not None")
            else:
                self.check(value is None, f"{name} is not None")
            for part in value if isinstance(value, tuple) else (value,):
                if part is not None:
                    self.check(not is_poisoned(part), f"{name} was left unfilled, or is NaN")

    def _check_same(self, result):
        """Threads, and the layout of arrays, do not change a bit."""
        self._compare(result, self.infer(n_jobs=2), "n_jobs=2")
        rng = self.rng
        arrays = [self._other_layout(array) for array in self.model.arrays]
        self._compare(result, self.infer(self.model.build(*arrays)), "another layout")
        # The rounding of a matrix product depends on the batch. So does the finite number that
        # replaces the logarithm of zero in bounds.
        lenient = self.name in ("mean_field", "mplp", "linear_program")
        if self.free_energy.n_models > 1 and not lenient and not self._draws():
            row = int(rng.integers(self.free_energy.n_models))
            clamp, self.clamp = self.clamp, None if self.clamp is None else self.clamp[[row]]
            alone = self.infer(self.free_energy.rows([row]))
            self.clamp = clamp
            for name in ("marginals", "assignment", "log_partition", "map_bound"):
                one, other = getattr(alone, name), getattr(result, name)
                if name == "assignment" and one is not None and self.name == "exact":
                    continue  # of equals any, and checked for itself
                if one is not None:
                    fine = np.allclose(one[0], other[row], rtol=1e-6, atol=1e-6)
                    self.check(fine, f"{name} of a row alone")

    def _draws(self):
        return self.method.is_random or "samples" in self.returns

    def _other_layout(self, array):
        kind = self.rng.integers(4)
        if kind == 0:
            array = np.asfortranarray(array)
        elif kind == 1:
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            array = wide[..., ::2]
        elif kind == 2:
            array = array.copy()
            array.flags.writeable = False
        else:
            array = array[::-1].copy()[::-1]
        return array

    def _compare(self, one, other, what):
        for name in ARRAYS:
            left, right = getattr(one, name), getattr(other, name)
            if (left is None) != (right is None):
                self.check(False, f"{what}: {name}")
            elif left is not None:
                pairs = zip(left, right) if isinstance(left, tuple) else [(left, right)]
                self.check(all(np.array_equal(a, b) for a, b in pairs), f"{what}: {name}")

    def _check_numbers(self, result):
        """Ranges, held values, shapes."""
        held = ~self.given.free
        values = self.given.evidence[held] if held.any() else np.empty(0)
        if result.marginals is not None:
            p = result.marginals
            self.check(((p >= 0) & (p <= 1)).all(), "marginals beyond 0 and 1")
            self.check(np.array_equal(p[held], values), "marginals of held variables")
        if result.assignment is not None:
            state = result.assignment
            self.check(np.isin(state, (0, 1)).all(), "assignment of other than 0 and 1")
            self.check(np.array_equal(state[held], values), "assignment of held variables")
        if result.samples is not None:
            rows, variables = np.nonzero(held)
            drawn = result.samples
            self.check(np.isin(drawn, (0, 1)).all(), "samples of other than 0 and 1")
            self.check((drawn[rows, :, variables] == values[:, None]).all(), "samples, held ones")
        if result.sample_log_prob is not None:
            self.check((result.sample_log_prob <= 1e-6).all(), "sample_log_prob above 0")
        for part in result.statistics or ():
            slack = 1e-4 if part.dtype == np.float32 else 1e-9
            # Statistics of tied layers are sums over places.
            limit = self.given.n_variables**2 if isinstance(self.given, LayeredEnergy) else 1
            self.check(
                ((part >= -slack) & (part <= limit + slack)).all(), "statistics beyond 0 and 1"
            )
        if result.gap is not None:
            self.check((result.gap >= 0).all(), "negative gap")

    # ------------------------------------------------------------ against enumeration

    def rounding(self, n):
        """How far rounding may take the log-odds of a model: its undecided numbers times eps."""
        energy = self.free_energy
        eps = float(np.finfo(energy.dtype).eps)
        total = 64 * self._norm() * eps + 1e-9
        exact = self.exact[n]
        return total + 16 * eps * min(float(np.abs(exact.below).max()), 1e6)

    def _norm(self):
        """Sum of all couplings and of fields that do not decide their variable alone."""
        model = self.model
        sizes = [np.abs(np.where(np.isfinite(a), a, 0.0)).astype(float) for a in model.arrays]
        fields = {f.shape for f in self.free_energy.fields}
        eps = np.finfo(self.free_energy.dtype).eps
        couplings = sum(float(a.sum()) for a in sizes if a.shape not in fields)
        # In float64, fields below 1e9 enter the sums and larger fields do not. In float32, fields
        # enter the sums if they do not decide their variable alone.
        limit = 1e9 if eps < 1e-10 else 8 * couplings + 100.0
        small = sum(float(np.minimum(a, limit).sum()) for a in sizes if a.shape in fields)
        return couplings + small

    def _sums(self):
        """How far rounding may take a score."""
        sizes = (np.abs(np.where(np.isfinite(a), a, 0.0)).sum() for a in self.model.arrays)
        return 8 * np.finfo(np.float64).eps * float(sum(sizes))

    def _cancelled(self, n):
        """How far rounding may take a score in which large fields cancel.

        Only if a variable is held against its own field, by evidence or by weights of zero.
        """
        given = self.given
        fields = np.concatenate([np.ravel(f[n]) for f in given.fields]).astype(float)
        forced = given.has_zeros or isinstance(given, OneHotRBMEnergy)
        against = np.ones(len(fields), bool) if forced else ~given.free[n]
        size = np.abs(fields)[against].sum()
        return 8 * np.finfo(np.float64).eps * size

    def _near(self, found, expected, slack):
        scale = float(np.finfo(self.free_energy.dtype).eps) * 8
        return abs(found - expected) <= slack + scale * abs(expected)

    def _check_exact(self, result):
        for n, exact in enumerate(self.exact):
            slack = self.rounding(n)
            if result.marginals is not None:
                off = np.abs(result.marginals[n] - exact.marginals()).max(initial=0)
                eps = np.finfo(result.marginals.dtype).eps
                self.check(off <= slack + 8 * eps, f"marginals off by {off:.1e} ({slack:.0e})")
                odds, right = result.log_odds[n], exact.log_odds()
                fine = [
                    a == b or self._near(a, b, slack + 2e-6 * abs(b) * (abs(b) > 700))
                    for a, b in zip(odds, right)
                ]
                self.check(all(fine), f"log_odds {odds} not {right}")
            if result.log_partition is not None:
                z = result.log_partition[n]
                fine = self._near(z, exact.log_z, slack + self._cancelled(n))
                self.check(fine, f"log Z {z!r} not {exact.log_z!r}")
            if result.assignment is not None and "map" in self.returns:
                below = exact.below_best(result.assignment[n])
                self.check(below <= slack, f"map below the best by {below:.1e}")
            if result.assignment is not None and "marginal_map" in self.returns:
                below = exact.visible_below_best(result.assignment[n, : exact.n_visible])
                self.check(below <= slack, f"marginal_map below the best by {below:.1e}")
            if result.map_bound is not None and "map" in self.returns:
                bound = result.map_bound[n]
                fine = self._near(bound, exact.best_score, slack + self._cancelled(n))
                self.check(fine, "map_bound")
            if result.sample_log_prob is not None:
                for state, log_prob in zip(result.samples[n], result.sample_log_prob[n]):
                    right = -exact.below_best(state) - exact.excess
                    self.check(self._near(log_prob, right, slack), f"{log_prob} not {right}")

    def _check_promises(self, result):
        for n, exact in enumerate(self.exact):
            slack = self.rounding(n) + self._cancelled(n)
            best = exact.best_score
            if result.assignment is not None and "map" in self.returns:
                below = exact.below_best(result.assignment[n])
                solved = self.name in ("branch_and_bound", "milp") and result.converged[n]
                solved |= result.gap is not None and result.gap[n] == 0
                if solved:
                    limit = slack + 1e-7 * self._norm()
                    self.check(below <= limit, f"proven, but {below:.1e} below the best")
            if result.map_bound is not None:
                bound, state = result.map_bound[n], result.assignment[n]
                below = exact.below_best(state)
                if "marginal_map" in self.returns:
                    below = exact.visible_below_best(state[: exact.n_visible])
                    best = best + exact.visible_excess
                self.check(
                    bound >= best or self._near(bound, best, slack),
                    f"map_bound {bound!r} below the best score {best!r}",
                )
                missed = bound - best + below
                self.check(
                    np.isinf(missed) or self._near(result.gap[n], missed, slack + self._sums()),
                    f"gap {result.gap[n]} not {missed}",
                )
            if result.log_partition is not None:
                z = result.log_partition[n]
                if self.name == "mean_field":
                    self.check(
                        z <= exact.log_z or self._near(z, exact.log_z, slack),
                        f"lower bound {z!r} above {exact.log_z!r}",
                    )
                if self.name == "tree_reweighted":
                    fine = z >= exact.log_z or self._near(z, exact.log_z, slack)
                    self.check(fine, f"upper bound {z!r} below {exact.log_z!r}")
        if self.name in ("sum_product", "tree_reweighted", "mean_field"):
            self._check_converged(result)

    def _check_converged(self, result):
        """Converged answers do not move in further iterations; on trees they are exact."""
        if not result.converged.any():
            return
        # Tolerances of 0 are never met.
        longer = self.method.with_options(tol=0.0, max_iter=10 * int(result.n_iter.max()) + 50)
        later = self.infer(method=longer)
        for n in np.flatnonzero(result.converged):
            if not any(field[n].any() for field in self.given.fields):
                continue  # no message is a fixed point, which rounding may leave in the end
            slack = self.rounding(n) + DRIFT
            if result.marginals is not None:
                off = np.abs(result.marginals[n] - later.marginals[n]).max(initial=0)
                self.check(off <= slack, f"converged, but marginals move by {off:.1e}")
            if result.log_partition is not None:
                one, other = result.log_partition[n], later.log_partition[n]
                fine = self._near(
                    one, other, slack + 2e-4 * self._norm()
                )  # beliefs times couplings
                self.check(fine, f"converged, log Z {one!r} to {other!r}")
            for one, other in zip(result.statistics or (), later.statistics or ()):
                off = np.abs(one[n] - other[n]).max(initial=0)
                self.check(off <= slack * one[n].size, f"converged, statistics move by {off:.1e}")
            if not self.model.tree or not self._exact_on_trees():
                continue
            exact = self.exact[n]
            if result.marginals is not None:
                off = np.abs(result.marginals[n] - exact.marginals()).max(initial=0)
                self.check(off <= slack, f"converged on a tree, marginals off by {off:.1e}")
            if result.log_partition is not None:
                z = result.log_partition[n]
                drift = self._cancelled(n) + 2e-4 * self._norm()
                fine = self._near(z, exact.log_z, slack + drift)
                self.check(fine, f"converged on a tree, log Z {z!r} not {exact.log_z!r}")

    def _exact_on_trees(self):
        if self.name == "tree_reweighted":  # all edges of an RBM count alike, weights of 0 too
            return not isinstance(self.given, RBMEnergy)
        return self.name == "sum_product"


def run_case(rng, case):
    """Draw a case, and return its failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Some BLAS raise this flag for memory beside an operand; answers are checked for NaN.
        warnings.filterwarnings("ignore", "invalid value encountered in matmul")
        # Few chains and impossible states are among the cases.
        warnings.filterwarnings(
            "ignore", "a few of the .* dominate the estimate of log Z", UserWarning
        )
        warnings.filterwarnings("ignore", "samples of .* have weight 0", UserWarning)
        warnings.filterwarnings("ignore", "the states of .* have weight 0", UserWarning)
        warnings.filterwarnings("ignore", "clamp contradicts the factors", UserWarning)
        warnings.filterwarnings("ignore", "the factors of .* contradict", UserWarning)
        warnings.filterwarnings("ignore", category=InaccurateInferenceWarning)
        warnings.filterwarnings("ignore", "'.*' has not converged", ConvergenceWarning)
        drawn = Case(rng)
        try:
            return drawn.run()
        except Exception as error:
            error.args = (f"{error}: {drawn.title}",)
            raise


if __name__ == "__main__":
    poison_memory()
    poison_modules()
    main("inference", run_case, 1000, __doc__)
