"""Density estimators: learning, answers about the fitted model, and refused input."""

import functools
import pickle
import warnings

import numpy as np
import pytest
from reference.cases import deep
from reference.states import all_states
from scipy import sparse
from sklearn.base import clone

from skcrbm.datasets import make_structured_sequences
from skcrbm.density import RBM, IsingModel, MarkovRandomField
from skcrbm.density._base import Rows
from skcrbm.energies import (
    FactorGraphEnergy,
    IsingEnergy,
    OrFactors,
    TableFactors,
)
from skcrbm.inference import ICM, Exact, Gibbs, infer
from skcrbm.inference.any_energy.gibbs import gibbs_sweep
from skcrbm.learning import (
    Adam,
    BPChainLearning,
    CDPercLoss,
    ContrastiveDivergence,
    EarlyStopping,
    PersistentContrastiveDivergence,
    PMPLearning,
)
from skcrbm.learning.data import Clock
from skcrbm.learning.phases import LEAST_SHARE, tempered_weights

RING = [[0, 1], [1, 2], [2, 3], [0, 3]]
MODELS = {
    "pairwise": MarkovRandomField(random_state=0),
    "scopes": MarkovRandomField([[0, 1, 2], [2, 3], [1]], random_state=0),
    "ising": IsingModel(random_state=0),
    "sparse_ising": IsingModel(RING, random_state=0),
    "rbm": RBM(n_hidden=3, learning="pcd", max_iter=300, random_state=0),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@pytest.fixture(scope="module")
def X():
    """150 rows of four dependent columns."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, (150, 1))
    return (hidden ^ (rng.random((150, 4)) < [0.1, 0.2, 0.3, 0.25])).astype(float)


@pytest.fixture(scope="module")
def gaps(X):
    """The same rows, a quarter of the entries not observed."""
    gaps = X.copy()
    gaps[np.random.default_rng(1).random(X.shape) < 0.25] = np.nan
    return gaps


@pytest.fixture(scope="module")
def best_score(X):
    """Return a function: the score of a model that is fitted by maximum likelihood."""

    @functools.cache
    def score(model):
        return clone(model).set_params(learning="mle", max_iter=300).fit(X).score(X)

    return score


# ----------------------------------------------------------------- learning


@every_model
def test_probabilities_add_up_to_one(model, X):
    model = clone(model).fit(X)
    assert np.exp(model.score_samples(all_states(4))).sum() == pytest.approx(1, abs=1e-9)


def test_independent_columns_get_their_log_odds():
    X = np.repeat([[0, 1], [1, 1], [1, 0]], [4, 2, 2], axis=0)
    model = MarkovRandomField([[0], [1]], learning="mle", max_iter=400).fit(X)
    tables = model.log_potentials_.reshape(2, 2)
    np.testing.assert_allclose(tables[:, 1] - tables[:, 0], [0, np.log(3)], atol=1e-3)
    model = IsingModel(np.empty((0, 2), int), learning="mle", max_iter=400).fit(X)
    np.testing.assert_allclose(2 * model.field_, [0, np.log(3)], atol=1e-3)
    model = RBM(n_hidden=0, learning="mle", max_iter=400).fit(X)
    np.testing.assert_allclose(model.intercept_, [0, np.log(3)], atol=3e-3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["pairwise", "scopes", "ising", "sparse_ising"])
def test_maximum_likelihood_matches_moments(name, X):
    model = clone(MODELS[name]).set_params(learning="mle", max_iter=600).fit(X)
    asked = ("marginals", "statistics")
    found = infer(model.energy_, "exact", returns=asked)
    np.testing.assert_allclose(found.marginals[0], X.mean(axis=0), atol=2e-3)
    wanted = model.energy_.sum_statistics(X, np.full(len(X), 1 / len(X)))[0]
    np.testing.assert_allclose(found.statistics[0], wanted, atol=2e-3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("n", [5, 7])
def test_sequences_are_learned(n):
    scopes, sequences = make_structured_sequences(n)
    model = MarkovRandomField(scopes, learning="mle", max_iter=300).fit(sequences)
    assert model.score(sequences) > -np.log(len(sequences)) - 0.01
    drawn = model.sample(2000, random_state=0)
    valid = (drawn[:, scopes].sum(axis=2) == 3).all(axis=1)
    assert valid.mean() > 0.97


@pytest.mark.quick_cases(2)
@every_model
@pytest.mark.parametrize("learning", [ContrastiveDivergence(3), PersistentContrastiveDivergence(3)])
def test_sampled_rules_come_near_maximum_likelihood(model, learning, X, best_score):
    fitted = clone(model).set_params(learning=learning).fit(X)
    assert fitted.score(X) > best_score(model) - 0.04


@pytest.mark.deep
def test_draws_from_marginals_know_columns_alone(X):
    alone = MarkovRandomField([[0], [1], [2], [3]], random_state=0)
    best = clone(alone).set_params(learning="mle", max_iter=300).fit(X)
    drawn = clone(alone).set_params(learning="bp").fit(X)
    assert drawn.score(X) > best.score(X) - 0.01
    assert np.abs(drawn.sample(4000, random_state=0).mean(axis=0) - X.mean(axis=0)).max() < 0.06
    # Independent variables would have such pairs, so that couplings grow without need.
    pairs = IsingModel([[0, 1]], learning="bp", random_state=0).fit(X)
    right = IsingModel([[0, 1]], learning="mle").fit(X)
    assert pairs.coupling_[0, 1] > 2 * right.coupling_[0, 1]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "learning",
    [
        BPChainLearning(Exact()),
        BPChainLearning(Gibbs(n_chains=100)),
        BPChainLearning(Exact(), weighted=True),
        PMPLearning(Gibbs(n_chains=100)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["pairwise", "ising", "rbm"])
def test_rules_with_a_sampler(name, learning, X, best_score):
    best = best_score(MODELS[name])
    model = clone(MODELS[name]).set_params(learning=learning).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.score(X) > best - 0.04
    assert model.sample(5, random_state=0).shape == (5, 4)
    if getattr(learning, "weighted", False):
        # Independent draws from the model itself all have the same weight.
        np.testing.assert_allclose(model.effective_sample_size_curve_, 1, atol=1e-6)
        assert len(model.effective_sample_size_curve_) == model.n_iter_


def test_rbm_learns_more_than_independent_columns(X):
    alone = MarkovRandomField([[0], [1], [2], [3]], learning="mle").fit(X).score(X)
    assert RBM(n_hidden=3, random_state=0).fit(X).score(X) > alone + 0.1


@pytest.mark.quick_cases(1)
@every_model
@pytest.mark.parametrize("learning", ["mle", deep(PersistentContrastiveDivergence(3))])
def test_gaps_cost_little(model, learning, X, gaps):
    model = clone(model).set_params(learning=learning)
    best = clone(model).fit(X).score(X)
    assert clone(model).fit(gaps).score(X) > best - 0.08


@pytest.mark.deep
def test_penalties_pull_couplings_alone(X):
    plain = IsingModel(learning="mle").fit(X)
    for options in ({"alpha": 50.0}, {"alpha_l1": 5.0, "solver": Adam(learning_rate=0.005)}):
        model = IsingModel(learning="mle", max_iter=300, **options).fit(X)
        assert np.abs(model.coupling_).max() < 0.1 * np.abs(plain.coupling_).max()
        np.testing.assert_allclose(model.marginals([[np.nan] * 4])[0], X.mean(axis=0), atol=0.02)
        table = MarkovRandomField(learning="mle", max_iter=300, **options).fit(X)
        np.testing.assert_allclose(table.marginals([[np.nan] * 4])[0], X.mean(axis=0), atol=0.02)


def test_weights_count_as_copies(X):
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    model = IsingModel(learning="mle")
    weighted = clone(model).fit(X, sample_weight=weight)
    copied = clone(model).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(weighted.coupling_, copied.coupling_, atol=1e-9)
    with pytest.raises(ValueError, match="weight"):
        model.fit(X, sample_weight=np.zeros(len(X)))


def test_weights_of_zero_and_fields_stay():
    either = TableFactors([[0, 1]], [-np.inf, 0, 0, 0])
    start = FactorGraphEnergy([either], [0.3, -0.2])
    X = np.repeat([[0, 1], [1, 0], [1, 1]], [3, 2, 1], axis=0)
    model = MarkovRandomField(start, learning="mle", max_iter=500, solver=Adam(0.05)).fit(X)
    assert model.log_potentials_[0] == -np.inf
    np.testing.assert_array_equal(model.energy_.field, start.field)
    np.testing.assert_allclose(
        np.exp(model.score_samples(X[[0, 3, 5]])), [1 / 2, 1 / 3, 1 / 6], atol=2e-3
    )
    assert (start.log_potentials[1:] == 0).all()


# ----------------------------------------------------------------- questions


@every_model
def test_answers_agree_with_enumeration(model, X, gaps):
    model = clone(model).fit(X)
    states = all_states(4)
    p = np.exp(model.score_samples(states))
    rows = gaps[:12]
    agrees = np.array([~((states + row) == 1).any(axis=1) for row in rows])
    np.testing.assert_allclose(np.exp(model.score_samples(rows)), agrees @ p, atol=1e-9)
    marginals = (agrees * p) @ states / (agrees @ p)[:, None]
    np.testing.assert_allclose(model.marginals(rows), marginals, atol=1e-9)
    assert model.score(rows) == pytest.approx(model.score_samples(rows).mean())


@pytest.mark.quick_cases(2)
@every_model
@pytest.mark.parametrize("learning", ["mle", "pcd"])
def test_samples_have_the_distribution(model, learning, X):
    model = clone(model).set_params(learning=learning).fit(X)
    n, states = 4000, all_states(4)
    given = np.array([np.nan, 1, np.nan, np.nan])
    p = np.exp(model.score_samples(states))
    for held, chance in ((None, p), (given, np.where(states[:, 1] == 1, p, 0))):
        drawn = model.sample(n, given=held, random_state=0)
        assert drawn.dtype.kind == "i"
        chance = chance / chance.sum()
        found = np.bincount(drawn @ [8, 4, 2, 1], minlength=16) / n
        assert np.abs(found - chance).max() < 5 * np.sqrt(chance.max() / n)
        np.testing.assert_array_equal(drawn, model.sample(n, given=held, random_state=0))


def test_rbm_transform(X, gaps):
    model = RBM(n_hidden=3, random_state=0).fit(X)
    expected = model.energy_.rows(np.zeros(len(X), int)).hidden_given_visible(X)
    np.testing.assert_allclose(model.transform(X), expected)
    assert model.get_feature_names_out().tolist() == ["rbm0", "rbm1", "rbm2"]
    states, row = all_states(4), gaps[:1]
    p = np.exp(model.score_samples(states)) * ~((states + row) == 1).any(axis=1)
    np.testing.assert_allclose(model.transform(row)[0], p @ model.transform(states) / p.sum())


def test_forms_of_X(X):
    expected = IsingModel(learning="mle").fit(X)
    for form in (sparse.csr_matrix(X), X.astype(int), X.astype(bool), 0.2 + 0.6 * X):
        np.testing.assert_array_equal(IsingModel(learning="mle").fit(form).field_, expected.field_)
    single = IsingModel(learning="mle").fit(X.astype(np.float32))
    assert single.field_.dtype == single.energy_.dtype == np.float32
    np.testing.assert_allclose(single.coupling_, expected.coupling_, atol=1e-3)
    grey = IsingModel(learning="mle", binarize=127).set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grey.fit(255 * X).score(255 * X)
    for ask in (grey.set_params(binarize=0.5).score, grey.marginals):
        with pytest.warns(UserWarning, match=r"outside of .* write NaN for values that are not"):
            ask(2 * X - 1.0)
    np.testing.assert_array_equal(grey.field_, expected.field_)


@every_model
def test_kinds_of_energy(model, X):
    energy = clone(model).fit(X).energy_
    assert energy.n_models == 1
    name = next(k for k, m in MODELS.items() if m is model)
    if name in ("ising", "sparse_ising"):
        assert type(energy) is IsingEnergy
        assert energy.couplings_are_sparse == (name == "sparse_ising")


# ----------------------------------------------------------------- training goes on


@pytest.mark.deep
def test_partial_fit_goes_on_by_another_rule():
    X = np.random.RandomState(0).randint(0, 2, (20, 3))
    model = MarkovRandomField(learning="mle", max_iter=1, random_state=0).fit(X)
    model.set_params(learning="weighted_bp_chain").partial_fit(X)
    assert (len(model.loss_curve_), len(model.effective_sample_size_curve_)) == (2, 1)


@every_model
def test_partial_fit_and_warm_start(model, X):
    model = clone(model).set_params(max_iter=3)
    pieces = clone(model)
    for _ in range(4):
        pieces.partial_fit(X)
    assert pieces.n_iter_ == len(pieces.loss_curve_) == 4
    copy = pickle.loads(pickle.dumps(pieces))
    np.testing.assert_array_equal(
        copy.partial_fit(X).score_samples(X), pieces.partial_fit(X).score_samples(X)
    )
    warm = clone(model).set_params(warm_start=True).fit(X)
    before = warm.energy_.fields[0].copy()
    warm.set_params(solver=Adam(learning_rate=1e-12)).fit(X)
    np.testing.assert_allclose(warm.energy_.fields[0], before, atol=1e-6)


@every_model
def test_interrupt_keeps_what_there_is(model, X, monkeypatch):
    model = clone(model)
    done, sweep = [], gibbs_sweep

    def interrupted(energy, *args, **kwargs):
        done.append(1)
        if len(done) > 3:
            raise KeyboardInterrupt
        return sweep(energy, *args, **kwargs)

    monkeypatch.setattr("skcrbm.learning.phases.gibbs_sweep", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X)
    assert model.n_iter_ == 3
    assert np.isfinite(model.score(X))


@every_model
def test_threads_and_seeds(model, X, gaps):
    def fitted(**options):
        return clone(model).set_params(max_iter=5, **options).fit(gaps).score_samples(X)

    np.testing.assert_array_equal(fitted(n_jobs=2), fitted(n_jobs=None))
    assert (fitted(random_state=1) != fitted(random_state=2)).any()


def test_early_stopping_keeps_the_best_epoch(X):
    model = RBM(
        n_hidden=4,
        early_stopping=EarlyStopping(n_iter_no_change=5, refit=False),
        random_state=0,
    ).fit(X)
    assert model.n_iter_ == np.argmax(model.validation_scores_) + 1
    with pytest.raises(ValueError, match="early_stopping"):
        model.partial_fit(X)
    # Too large for the likelihood: the pseudo-likelihood.
    wide = np.random.default_rng(0).integers(0, 2, (60, 18))
    model = IsingModel(early_stopping=True, max_iter=4, random_state=0).fit(wide)
    assert np.mean(model.validation_scores_) == pytest.approx(-18 * np.log(2), rel=0.1)


# ----------------------------------------------------------------- refused input


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MarkovRandomField("pairs"), "factors must be 'pairwise'"),
        (MarkovRandomField([[0, 1, 2, 3, 4, 5, 6]]), "factors must be .* 1 to 6"),
        (MarkovRandomField([[0, 0]]), "factors must be .*must not repeat"),
        (MarkovRandomField([[0, 9]]), "factors must be .*variable 9"),
        (MarkovRandomField([[0, -1]]), "factors must be .*at least 0"),
        (MarkovRandomField([[0.5]]), "factors must be .*integers"),
        (MarkovRandomField(7), "factors must be"),
        (MarkovRandomField(FactorGraphEnergy([], np.zeros(3))), "factors has 3 variables"),
        (MarkovRandomField(FactorGraphEnergy([], np.zeros((2, 4)))), "one model"),
        (IsingModel([[0, 0]]), "edges must be pairs"),
        (IsingModel([[0, 4]]), "edges must be pairs"),
        (IsingModel([[0, 1], [1, 0]]), "edges must be pairs .*twice"),
        (IsingModel([[0, 1, 2]]), "edges must be pairs"),
        (RBM(n_hidden=-1), "n_hidden"),
        (RBM(learning="bp_chains"), "learning"),
        (
            RBM(learning=BPChainLearning(Gibbs(), weighted=True)),
            r"sampler=Gibbs\(\) .* learning=BPChain.*weighted=True\) .* 'sample_log_prob', ",
        ),
        (RBM(learning=PMPLearning(ICM())), "sampler=ICM.*samples"),
        (RBM(learning=PMPLearning(Gibbs(n_chains=0))), "n_chains"),
        (RBM(learning=PMPLearning(3)), "sampler"),
        (RBM(learning="cd_percloss"), "learning"),
        (RBM(learning=CDPercLoss()), "learning must be one of"),
        (IsingModel(binarize="a"), "binarize"),
        (IsingModel(alpha=-1), "alpha"),
        (IsingModel(alpha_l1=-1), "alpha_l1"),
        (IsingModel(solver="lbfgs"), "solver"),
        (IsingModel(learning=PersistentContrastiveDivergence(n_chains=0)), "n_chains"),
        (IsingModel(inference="exactly"), "inference"),
    ],
    ids=repr,
)
def test_bad_settings(model, message, X):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


def test_bad_data(X):
    with pytest.raises(ValueError, match="binarize=None"):
        IsingModel(binarize=None).fit(0.5 * X)
    model = IsingModel(binarize=None, max_iter=2).fit(X)
    with pytest.raises(ValueError, match="binarize=None"):
        model.score(0.5 * X)
    with pytest.raises(ValueError, match="inf"):
        clone(model).fit(np.where(X > 0, np.inf, 0))
    for given in ([0, 1], [0, 1, 2, np.nan]):
        with pytest.raises(ValueError, match="given"):
            model.sample(given=given)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)


@pytest.mark.deep
def test_large_models_are_refused_where_exact_inference_is_needed():
    X = np.random.default_rng(0).integers(0, 2, (30, 26))
    with pytest.raises(ValueError, match=r"learning='mle' with inference='auto'.*sum_product"):
        IsingModel(learning="mle").fit(X)
    model = IsingModel(max_iter=2).fit(np.where(X[:, ::-1] > 2, np.nan, X))
    with pytest.raises(ValueError, match="marginals with inference='auto'"):
        model.marginals(X)
    model.set_params(inference="sum_product")
    assert np.isfinite(model.score(X))
    assert model.marginals(X).shape == X.shape
    assert model.sample(2, random_state=0).shape == (2, 26)
    # Entries that are not observed, in training.
    gaps = X.astype(float)
    gaps[0, 0] = np.nan
    assert IsingModel(max_iter=2).fit(gaps).n_iter_ == 2


def test_scores_of_large_models_are_estimated(monkeypatch):
    """The estimate is close to the exact score of a model that is called too large."""
    X = np.random.default_rng(0).integers(0, 2, (60, 6))
    X[:, 1] = X[:, 0]
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    for model in (RBM(4, max_iter=30, random_state=0), IsingModel(max_iter=30, random_state=0)):
        exact, partial = model.fit(X).score_samples(X), model.score_samples(gaps)
        monkeypatch.setattr("skcrbm.density._questions.is_small", lambda energy: False)
        found = model.score_samples(X)
        np.testing.assert_allclose(found, exact, atol=0.05)
        np.testing.assert_allclose(np.ptp(found - exact), 0, atol=1e-6)  # log Z alone is estimated
        np.testing.assert_array_equal(model.score_samples(X), found)
        np.testing.assert_allclose(model.score_samples(gaps), partial, atol=0.1)
        monkeypatch.undo()


def test_an_rbm_learns_a_small_set_with_nothing_set():
    """Most of the gain over independent columns, from 200 rows of 5 columns."""
    rng = np.random.RandomState(0)
    hidden = 2 * rng.randint(2, size=(5200, 2)) - 1
    p = 1 / (1 + np.exp(-hidden @ (1.5 * rng.normal(size=(2, 5)))))
    X = (rng.random_sample(p.shape) < p).astype(float)
    X, new = X[:200], X[200:]
    share = (X.sum(axis=0) + 0.5) / 201
    independent = (new * np.log(share) + (1 - new) * np.log1p(-share)).sum(axis=1).mean()
    best = RBM(8, learning="mle", random_state=0).fit(X).score(new)
    assert best > independent + 0.2
    assert RBM(random_state=0).fit(X).score(new) > independent + 0.7 * (best - independent)


def test_weights_learned_by_perturbed_maxima_warn(X):
    model = IsingModel(learning="pmp", max_iter=2).fit(X)
    with pytest.warns(UserWarning, match="perturb-and-max-product"):
        model.score(X)
    model.set_params(learning=PMPLearning(Gibbs())).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(X)


def test_a_score_of_moments_is_the_mean_score(X):
    """The expected score of the moments equals the mean score, for every kind of energy."""
    weight = np.full(len(X), 1 / len(X))
    for model in (*list(MODELS.values())[:4], RBM(n_hidden=0)):
        energy = clone(model).set_params(max_iter=3).fit(X).energy_
        found = energy.expected_score(weight @ X, energy.sum_statistics(X, weight))
        scores = energy.rows(np.zeros(len(X), int)).score(X)
        assert found == pytest.approx(scores.mean(), abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_gradient_by_finite_differences(name, gaps):
    """The gradient of the likelihood of rows with gaps equals finite differences."""
    model = clone(MODELS[name]).set_params(learning="mle", max_iter=2, alpha=0.3).fit(gaps)
    learned, rng = model._model, np.random.default_rng(0)
    rows = Rows(np.empty((len(gaps), 0)), gaps, rng.uniform(0.5, 2, len(gaps)))
    training = model._plan(rows, np.random.RandomState(0))
    objective, batch = training.objective, training.rows.all

    def step(params):
        state = objective.start(len(gaps))
        found, _ = objective.step(learned._replace(params=params), batch, Clock(0, 0), state)
        gradient = type(params)(*(g / batch.weight.sum() for g in found.gradient))
        training.penalty.add_gradient(gradient, params)
        return gradient, found.loss / batch.weight.sum() + training.penalty.value(params)

    direction = type(learned.params)(*(rng.normal(size=p.shape) for p in learned.params))
    gradient, _ = step(learned.params)
    slope = sum(np.vdot(g, d) for g, d in zip(gradient, direction))
    moved = [
        step(type(direction)(*(p + e * d for p, d in zip(learned.params, direction))))[1]
        for e in (1e-5, -1e-5)
    ]
    assert (moved[0] - moved[1]) / 2e-5 == pytest.approx(slope, rel=1e-5)


def test_weights_of_states_are_tempered():
    rng = np.random.default_rng(0)
    mild, wild = rng.normal(size=200), 20 * rng.normal(size=200)
    weight, share = tempered_weights(mild)
    np.testing.assert_allclose(weight, np.exp(mild) / np.exp(mild).sum())
    assert share == pytest.approx(1 / (200 * (weight @ weight)))
    weight, share = tempered_weights(wild)
    assert share < LEAST_SHARE
    assert 1 / (200 * (weight @ weight)) == pytest.approx(LEAST_SHARE, rel=1e-6)
    assert (np.argsort(weight) == np.argsort(wild)).all()
    wild[3] = -np.inf
    assert tempered_weights(wild)[0][3] == 0


def test_chained_samples_are_the_default_sampler(X, best_score):
    best = best_score(MODELS["scopes"])
    for learning in ("bp_chain", "weighted_bp_chain"):
        model = clone(MODELS["scopes"]).set_params(learning=learning).fit(X)
        assert model.score(X) > best - 0.04
        assert model.sample(3, random_state=0).shape == (3, 4)
    assert min(model.effective_sample_size_curve_) > 0.5


@pytest.mark.parametrize("learning", ["mle", "pcd"])
@pytest.mark.parametrize("kind", ["table", "or"])
def test_rows_that_factors_forbid_are_refused(kind, learning):
    table = TableFactors([[0, 1]], [0, 0, 0, -np.inf])
    part = table if kind == "table" else OrFactors([[0, 1]], [2])
    model = MarkovRandomField(
        FactorGraphEnergy([part], n_variables=3), learning=learning, max_iter=2
    )
    possible = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0]])
    model.fit(possible)
    with pytest.raises(ValueError, match="factors give 1 rows of X a weight of zero"):
        model.fit(np.vstack([possible, [1, 1, 0]]))
    model.fit(np.vstack([possible, [1, 1, 0]]), sample_weight=[1, 1, 1, 0])


def test_what_is_no_threshold_and_no_value_is_refused():
    X = np.eye(3)
    with pytest.raises(ValueError, match="'binarize' parameter"):
        MarkovRandomField(binarize=np.nan, max_iter=1).fit(X)
    with pytest.raises(ValueError, match="given must hold"):
        MarkovRandomField(max_iter=1).fit(X).sample(given=["a", "b", "c"])
