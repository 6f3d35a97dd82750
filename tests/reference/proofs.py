"""The answers of every inference method on every energy that are held against enumeration.

The table `PROOFS` names a relation for each answer of each method. `check_cell` checks a method on
an energy, and ``python -m tests.conformance`` prints the table for all energies.
"""

import numpy as np

from reference.conformance import Enumeration, assert_same, few_evidences, tolerances
from skcrbm.inference import ICM, available_methods, infer
from skcrbm.inference.registry import METHODS

#: The relation between each answer of a method and enumeration:
#:
#: - "=": equal, for every model;
#: - "tree": equal for models without loops;
#: - "free": equal for models without couplings;
#: - "<=", ">=": a lower or an upper bound for every model on which the method has converged;
#: - "local": no change of a single free variable leads to a better state;
#: - "law", "law of trees", "law if free": draws follow the distribution, and means of draws are
#:   within five standard errors, for every model, without loops, or without couplings.
#:
#: Every relation is checked without evidence, with a variable held, and with other variables held
#: in each row. `check_valid` checks all answers of all methods on all models besides.
PROOFS = {
    "exact": {
        "marginals": ["="],
        "statistics": ["="],
        "log_partition": ["="],
        "map": ["="],
        "map_bound": ["="],
        "best_states": ["="],
        "marginal_map": ["="],
        "samples": ["law"],
        "sample_log_prob": ["="],
    },
    "sum_product": {"marginals": ["tree"], "statistics": ["tree"], "log_partition": ["tree"]},
    "tree_reweighted": {
        "marginals": ["free"],
        "statistics": ["free"],
        "log_partition": ["free", ">="],
    },
    "mean_field": {"marginals": ["free"], "statistics": ["free"], "log_partition": ["free", "<="]},
    "max_product": {"map": ["tree"]},
    "mixed_product": {"marginal_map": ["free"]},
    "branch_and_bound": {"map": ["="], "map_bound": ["="]},
    "milp": {"map": ["="], "map_bound": ["="]},
    "map_search": {"map": ["="], "map_bound": ["="]},
    "mplp": {"map": ["tree"], "map_bound": ["tree", ">="]},
    "linear_program": {"map": ["tree"], "map_bound": ["tree", ">="]},
    "dual_decomposition": {"marginal_map": ["free"], "map_bound": [">="]},
    "icm": {"map": ["free", "local"]},
    "simulated_annealing": {"map": ["="]},
    "gibbs": {"marginals": ["law"], "statistics": ["law"], "samples": ["law"]},
    "gibbs_with_gradients": {"marginals": ["law"], "statistics": ["law"], "samples": ["law"]},
    "bp_chain": {
        "samples": ["law of trees"],
        "sample_log_prob": ["tree"],
        "log_partition": ["law"],
    },
    "perturb_and_max_product": {"samples": ["law if free"], "log_partition": ["law if free"]},
    "perturb_and_map": {"samples": ["law if free"], "log_partition": ["law if free"]},
    "ais": {"log_partition": ["law"]},
}
#: Letters of the answers in the printed table.
LETTERS = {
    "marginals": "p",
    "statistics": "s",
    "log_partition": "Z",
    "map": "x",
    "marginal_map": "y",
    "map_bound": "b",
    "best_states": "k",
    "samples": "d",
    "sample_log_prob": "q",
}
#: Options of the methods: draws that suffice for the tolerances, and short searches.
_OPTIONS = {
    "simulated_annealing": {"n_sweeps": 60, "n_restarts": 4},
    "gibbs": {"max_iter": 50, "burn_in": 20, "n_chains": 200},
    "gibbs_with_gradients": {"max_iter": 20, "burn_in": 10, "n_chains": 100},
    "ais": {"n_chains": 200, "n_betas": 40},
    "perturb_and_map": {"inference": ICM(random_state=0)},
}
METHODS_THAT_DRAW = {"gibbs", "gibbs_with_gradients", "bp_chain", "ais"}
# Iterations and programs stop at a tolerance of their own.
_LEAST_TOLERANCE = {"sum_product": 1e-6, "tree_reweighted": 1e-6, "mean_field": 1e-6, "milp": 1e-6}
_N_DRAWS = 2000
# Successive states of a chain resemble each other, so that they count as fewer draws.
_DRAWS_PER_INDEPENDENT_DRAW = {"gibbs": 10, "gibbs_with_gradients": 10}
_EVERY_MODEL = {"=", "<=", ">=", "local", "law"}


def proof_method(name):
    """The method with the options of the proofs, and a seed if it draws random numbers."""
    method = METHODS.get(name)()
    options = dict(_OPTIONS.get(name, {}))
    if "random_state" in vars(method):
        options["random_state"] = 0
    return method.set_params(**options)


def answers_of(method, energy):
    """Answers of a method; a model without couplings has no statistics."""
    answers = [answer for answer in LETTERS if answer in method.supports(energy)]
    return [a for a in answers if a != "statistics" or energy.statistic_shapes]


def holds_on(relation, kind):
    """Return True if a relation has to hold for models of a kind: "loops", "tree" or "free"."""
    if relation in _EVERY_MODEL or kind == "free":
        return True
    return kind == "tree" and relation in ("tree", "law of trees")


def relations_of(case, name, answer):
    """Relations that are checked for an answer of a method on the models of a case."""
    kinds = [kind for kind, _ in models_of(case, name)]
    relations = PROOFS[name][answer]
    if not case.connected and name != "exact":
        relations = [r for r in relations if "law" not in r]
    return [r for r in relations if any(holds_on(r, kind) for kind in kinds)]


def models_of(case, name, dtype=np.float64):
    """Models of a case by their kind: with loops, without loops, without couplings.

    Couplings are weak for samplers, so that chains forget their start.
    """
    scale = 0.4 if METHODS_THAT_DRAW & {name} else 1.0
    found = [("loops", case.make(6, 3, scale, dtype))]
    if case.tree is not None:
        found.append(("tree", case.tree(7, 3, scale, dtype)))
    if case.independent:
        found.append(("free", case.make(8, 3, 0.0, dtype)))
    if name == "exact":  # strong couplings, whose weights overflow
        found.append(("loops", case.make(6, 3, 30.0, dtype)))
    return found


def check_cell(case, name, dtype=np.float64):
    """All answers of a method on all models of a case, with and without evidence."""
    method = proof_method(name)
    for kind, energy in models_of(case, name, dtype):
        for given in few_evidences(case, energy):
            exact = [Enumeration(case, given, n, energy) for n in range(given.n_models)]
            for answer in answers_of(method, given):
                found = ask(given, method, answer)
                check_valid(given, exact, answer, found, tolerances(dtype))
                for relation in relations_of(case, name, answer):
                    if holds_on(relation, kind):
                        check(relation, case, given, exact, name, answer, found, dtype)
            if kind == "loops":
                without = {"marginal_map"} if "map" in PROOFS[name] else set()
                answers = tuple(a for a in answers_of(method, given) if a not in without)
                one, two = (infer(given, method, returns=answers, n_jobs=j) for j in (1, 2))
                assert_same(one, two)


def ask(given, method, answer):
    options = {"pairwise": "per_example"} if answer == "statistics" else {}
    if answer == "best_states":
        options["n_best"] = 6
    if answer in ("samples", "sample_log_prob"):
        options["n_samples"] = _N_DRAWS if answer == "samples" else 20
    also = ("map",) if answer == "map_bound" and "map" in method.supports(given) else ()
    if answer == "map_bound" and not also:
        also = ("marginal_map",)
    return infer(given, method, returns=(answer, *also), **options)


def check_valid(given, exact, answer, found, tolerance):
    """What each answer of each method promises: ranges, held variables, bounds of scores."""
    held = ~given.free
    values = given.evidence[held] if held.any() else np.empty(0)
    top = np.array([e.scores.max() for e in exact])
    slack = tolerance["rtol"] * (1 + abs(top))
    assert found.converged.shape == (given.n_models,)
    if answer == "marginals":
        p = found.marginals
        assert ((p >= 0) & (p <= 1)).all()
        assert not np.isnan(found.log_odds).any()
        if p.ndim == 3:
            np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-5)
            p = np.take_along_axis(p[held], values.astype(int)[:, None], axis=1)[:, 0]
            np.testing.assert_array_equal(p, 1)
        else:
            np.testing.assert_array_equal(p[held], values)
    elif answer == "statistics":
        assert tuple(part.shape[1:] for part in found.statistics) == given.statistic_shapes
    elif answer in ("map", "marginal_map"):
        np.testing.assert_array_equal(found.assignment[held], values)
        assert (given.score(found.assignment) <= top + slack).all()
    elif answer == "map_bound":
        assert (found.gap >= 0).all()
    elif answer == "samples":
        assert found.samples.shape == (given.n_models, _N_DRAWS, given.n_variables)
        np.testing.assert_array_equal(
            found.samples.swapaxes(1, 2)[held], np.tile(values[:, None], _N_DRAWS)
        )
    elif answer == "sample_log_prob":
        assert (found.sample_log_prob <= 1e-6).all()


def numbers(case, given, exact, answer, found):
    """The numbers of an answer, and the same numbers by enumeration."""
    if answer == "marginals":
        return found.marginals, np.array([e.marginals() for e in exact])
    if answer == "statistics":
        parts = [np.array(p) for p in zip(*(e.statistics(case, given) for e in exact), strict=True)]
        return tuple(
            np.concatenate([np.reshape(part, (len(exact), -1)) for part in side], axis=1)
            for side in (found.statistics, parts)
        )
    if answer == "log_partition":
        return found.log_partition, np.array([e.log_z for e in exact])
    top = np.array([e.scores.max() for e in exact])
    if answer == "map":
        return given.score(found.assignment), top
    if answer == "marginal_map":
        best = np.array([e.reduced("marginal")[1].max() for e in exact])
        return given.log_weight(found.assignment[:, : given.n_visible]), best
    if answer == "map_bound":
        return found.map_bound, top
    if answer == "best_states":
        best = [np.sort(np.append(e.scores, 6 * [-np.inf]))[::-1][:6] for e in exact]
        for e, states, scores in zip(exact, found.best_states, best, strict=True):
            possible = scores > -np.inf
            np.testing.assert_allclose(scores_of(e, states[possible]), scores[possible])
        return found.best_scores, np.array(best)
    drawn = [scores_of(e, draws) for e, draws in zip(exact, found.samples, strict=True)]
    return found.sample_log_prob, np.array(drawn) - np.array([[e.log_z] for e in exact])


def scores_of(exact, states):
    index = [np.flatnonzero((exact.states == state).all(axis=1))[0] for state in states]
    return exact.scores[index]


def check(relation, case, given, exact, name, answer, found, dtype):
    """Check one relation of `PROOFS` for an answer."""
    if "law" in relation:
        return check_law(case, given, exact, name, answer, found)
    if relation == "local":
        return check_local(given, exact, found)
    least = _LEAST_TOLERANCE.get(name, 0.0)
    tolerance = {key: max(least, limit) for key, limit in tolerances(dtype).items()}
    value, expected = numbers(case, given, exact, answer, found)
    if answer == "map_bound" and "map" not in PROOFS[name]:
        expected = np.array([e.reduced("marginal")[1].max() for e in exact])
    slack = tolerance["rtol"] * (1 + np.abs(expected))
    if relation == "<=":
        assert ((value <= expected + slack) | ~found.converged).all()
    elif relation == ">=":
        assert ((value >= expected - slack) | ~found.converged).all()
    else:
        np.testing.assert_allclose(value, expected, **tolerance, err_msg=f"{name}, {answer}")
    return None


def check_law(case, given, exact, name, answer, found):
    """Frequencies of all states, or an estimate, within five standard errors."""
    n_draws = _N_DRAWS / _DRAWS_PER_INDEPENDENT_DRAW.get(name, 1)
    if answer == "log_partition":
        error = np.abs(found.log_partition - [e.log_z for e in exact])
        assert (error <= 5 * found.standard_error + 1e-6).all()
    elif answer == "samples":
        for e, draws in zip(exact, found.samples, strict=True):
            places = (draws[:, None] == e.states).all(axis=2)
            p = e.probability
            bound = 5 * np.sqrt(p * (1 - p) / n_draws) + 5 / n_draws * (p > 0)
            assert (np.abs(places.mean(axis=0) - p) <= bound).all()
    else:
        value, expected = numbers(case, given, exact, answer, found)
        np.testing.assert_allclose(value, expected, atol=5 * 0.5 / np.sqrt(n_draws * 2))


def check_local(given, exact, found):
    for n, (e, state) in enumerate(zip(exact, found.assignment, strict=True)):
        changes = (e.states != state).sum(axis=1)
        own = scores_of(e, [state])[0]
        assert (e.scores[changes <= 1] <= own + 1e-5).all(), n


def table(cases):
    """The table of proven cells as lines of Markdown: a row per method, a column per energy."""
    columns = [case for case in cases if case.column]
    lines = [["", *(case.name for case in columns)], ["---"] * (len(columns) + 1)]
    for name, answers in PROOFS.items():
        line = [name]
        for case in columns:
            energy = case.make(0, 1, 1.0, np.float64)
            served = name in available_methods(energy)
            cells = [
                f"{LETTERS[answer]} {', '.join(relations_of(case, name, answer)) or 'valid'}"
                for answer in answers
                if served and answer in proof_method(name).supports(energy)
            ]
            line.append("; ".join(cells))
        lines.append(line)
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def cells(cases):
    """All pairs of a case and the name of a method that serves its models."""
    return [
        (case, name)
        for case in cases
        for name in available_methods(case.make(0, 1, 1.0, np.float64))
    ]
